import { expect, test } from "vitest";
import { testPod, testWorld } from "../../../testing/kubelet/nodeContext.ts";
import type { Node, Pod, PodSpec } from "../../model/kubernetes.generated.ts";
import { pluginResources } from "../devices/devices.ts";
import { admitPod } from "./admission.ts";

const sim = testWorld().sim;
const node: Node = testWorld().node!;
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
    name: "what fits is taken",
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
    name: "what has ended does not count",
    spec: asking({ cpu: "192" }),
    others: [{ ...running("o", asking({ cpu: "1" })), status: { phase: "Succeeded", startTime: "x" } }],
    reason: undefined,
  },
  {
    name: "what was not admitted does not count",
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
    name: "which a kubelet does not mind",
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
    name: "a NoSchedule taint is the scheduler's business",
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

test("a refusal says what was asked, used and there", () => {
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

test("a node takes no more pods than it says", () => {
  const world = testWorld({ profile: { ...sim.profile, maxPods: 2 } });
  for (const name of ["a", "b", "c"]) world.add(testPod({ name }));
  world.run(0);
  expect(world.pod("c").status).toMatchObject({ phase: "Failed", reason: "OutOfpods" });
});

test("two pods of one node exceed eight GPUs: the second fails and is counted once", () => {
  const world = testWorld();
  world.add(testPod({ name: "a", gpus: 5 }));
  world.add(testPod({ name: "b", gpus: 4 }));
  world.run(60_000);
  expect([world.pod("a").status?.phase, world.pod("b").status?.phase, world.refusals]).toEqual([
    "Running",
    "Failed",
    1,
  ]);
  expect(world.pod("b").status).toMatchObject({ reason: "UnexpectedAdmissionError" });
});
