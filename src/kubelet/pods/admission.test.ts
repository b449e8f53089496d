import { expect, test } from "vitest";
import { testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Node, Pod, PodSpec } from "../../model/kubernetes.generated.ts";
import { pluginResources } from "../devices/devices.ts";
import { admitPod } from "./admission.ts";

const sim = testNode().sim;
const node: Node = testNode().node!;
const running = (name: string, spec: Partial<PodSpec>): Pod => ({
  ...testPod({ name, spec }),
  status: { phase: "Running", startTime: "2027-01-15T08:00:00Z" },
});
const asking = (requests: Record<string, string>): Partial<PodSpec> => ({
  containers: [{ name: "c", resources: { requests, limits: requests } }],
});
const port = { containers: [{ name: "c", ports: [{ containerPort: 80, hostPort: 80 }] }] };

test.each<{
  name: string;
  spec: Partial<PodSpec>;
  others?: Pod[];
  taints?: { key: string; effect: string }[];
  ignoreMissing?: boolean;
  reason: string | undefined;
}>([
  {
    name: "a pod that fits is admitted",
    spec: asking({ cpu: "192", memory: "2048Gi", "nvidia.com/gpu": "8" }),
    reason: undefined,
  },
  { name: "too much cpu", spec: asking({ cpu: "193" }), reason: "OutOfcpu" },
  {
    name: "too much cpu together",
    spec: asking({ cpu: "1" }),
    others: [running("o", asking({ cpu: "191500m" }))],
    reason: "OutOfcpu",
  },
  {
    name: "finished pods do not count",
    spec: asking({ cpu: "192" }),
    others: [{ ...running("o", asking({ cpu: "1" })), status: { phase: "Succeeded", startTime: "x" } }],
    reason: undefined,
  },
  {
    name: "pods that were not admitted do not count",
    spec: asking({ cpu: "192" }),
    others: [{ ...running("o", asking({ cpu: "1" })), status: { phase: "Pending" } }],
    reason: undefined,
  },
  { name: "too much memory", spec: asking({ memory: "3Ti" }), reason: "OutOfmemory" },
  { name: "more GPUs than there are", spec: asking({ "nvidia.com/gpu": "9" }), reason: "UnexpectedAdmissionError" },
  {
    name: "a resource that the node does not have",
    spec: asking({ "example.com/fpga": "1" }),
    reason: "OutOfexample.com/fpga",
  },
  {
    name: "which a kubelet ignores",
    spec: asking({ "example.com/fpga": "1" }),
    ignoreMissing: true,
    reason: undefined,
  },
  { name: "another node's selector", spec: { nodeSelector: { disk: "ssd" } }, reason: "NodeAffinity" },
  { name: "its own labels", spec: { nodeSelector: { type: "kwok" } }, reason: undefined },
  {
    name: "an affinity that does not match",
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "nvidia.com/gpu.count", operator: "Gt", values: ["8"] }] }],
          },
        },
      },
    },
    reason: "NodeAffinity",
  },
  {
    name: "one of several terms is enough",
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{}, { matchFields: [{ key: "metadata.name", operator: "In", values: ["pool-0"] }] }],
          },
        },
      },
    },
    reason: undefined,
  },
  { name: "a NoExecute taint", spec: {}, taints: [{ key: "down", effect: "NoExecute" }], reason: "TaintToleration" },
  {
    name: "which it tolerates",
    spec: { tolerations: [{ operator: "Exists" }] },
    taints: [{ key: "down", effect: "NoExecute" }],
    reason: undefined,
  },
  {
    name: "a NoSchedule taint is left to the scheduler",
    spec: {},
    taints: [{ key: "x", effect: "NoSchedule" }],
    reason: undefined,
  },
  { name: "a port that is in use", spec: port, others: [running("o", port)], reason: "NodePorts" },
])("$name: $reason", ({ spec, others = [], taints, ignoreMissing = false, reason }) => {
  const on = taints === undefined ? node : { ...node, spec: { ...node.spec, taints } };
  const admission = admitPod({
    pod: testPod({ spec }),
    node: on,
    pods: others,
    units: pluginResources(sim, {}),
    held: new Map(),
    ignoreMissing,
  });
  expect(admission.ok ? undefined : admission.reason).toBe(reason);
});

test("a refusal has the requested, used and available amounts", () => {
  const admission = admitPod({
    pod: testPod({ spec: asking({ cpu: "200" }) }),
    node,
    pods: [running("o", asking({ cpu: "500m" }))],
    units: new Map(),
    held: new Map(),
  });
  expect(admission).toMatchObject({
    message: "Pod was rejected: Node didn't have enough resource: cpu, requested: 200000, used: 500, capacity: 192000",
  });
});

test("a node admits no more pods than its capacity", () => {
  const testbed = testNode({ profile: { ...sim.profile, maxPods: 2 } });
  for (const name of ["a", "b", "c"]) testbed.add(testPod({ name }));
  testbed.run(0);
  expect(testbed.pod("c").status).toMatchObject({ phase: "Failed", reason: "OutOfpods" });
});

test("two pods of one node exceed eight GPUs: the second fails and is counted once", () => {
  const testbed = testNode();
  testbed.add(testPod({ name: "a", gpus: 5 }));
  testbed.add(testPod({ name: "b", gpus: 4 }));
  testbed.run(60_000);
  expect([testbed.pod("a").status?.phase, testbed.pod("b").status?.phase, testbed.refusals]).toEqual([
    "Running",
    "Failed",
    1,
  ]);
  expect(testbed.pod("b").status).toMatchObject({ reason: "UnexpectedAdmissionError" });
});
