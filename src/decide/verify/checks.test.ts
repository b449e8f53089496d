import { describe, expect, test } from "vitest";
import { custom, node, owner, pod, startMs } from "../../../test/verify/builders.ts";
import { snapshotWith } from "../../../test/verify/syntheticCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { CheckFinding, CheckId } from "./check.ts";
import { chosenChecks } from "./checks.ts";
import type { ClusterSnapshot } from "./clusterSnapshot.ts";
import { tallyPods } from "./podTally.ts";
import type { KindName } from "./readKinds.ts";
import { verifyConfig } from "./verifyConfig.ts";

type Objects = { readonly [K in KindName]?: readonly KubeObject[] };

interface Fact {
  readonly name: string;
  readonly objects: Objects;
  readonly status: "passed" | "failed" | "skipped";
  /** Part of what is said. */
  readonly says?: string;
}

function find(id: CheckId, snapshot: ClusterSnapshot): CheckFinding {
  const config = verifyConfig({ checks: [id] });
  const [check] = chosenChecks([id]);
  return check!.run({ snapshot, tally: tallyPods(snapshot, config), config });
}

function facts(id: CheckId, table: readonly Fact[]): void {
  describe(id, () => {
    test.each([...table])("$name: $status", ({ objects, status, says = "" }) => {
      const found = find(id, snapshotWith(objects));
      expect(found.status, found.message).toBe(status);
      expect(
        [found.message, ...found.evidence.map(({ object, problem }) => `${object}: ${problem}`)].join("\n"),
      ).toContain(says);
      if (status === "failed") expect(found.evidence.length).toBeGreaterThan(0);
    });
  });
}

facts("S1", [
  { name: "every pod has a node", objects: { pods: [pod("t/a")] }, status: "passed" },
  {
    name: "a pod has no node",
    objects: { pods: [pod("t/a", { node: "" })] },
    status: "failed",
    says: "pods/t/a: has no node",
  },
  {
    name: "a pod is Running without a node",
    objects: { pods: [pod("t/a", { node: "", phase: "Running" })] },
    status: "failed",
    says: "pods/t/a: is in phase Running, but has no node",
  },
  {
    name: "a succeeded pod has no node",
    objects: { pods: [pod("t/a", { node: "", phase: "Succeeded" })] },
    status: "passed",
  },
]);

facts("S2", [
  { name: "the node is there and Ready", objects: { pods: [pod("t/a")], nodes: [node("n1")] }, status: "passed" },
  { name: "the node does not exist", objects: { pods: [pod("t/a")] }, status: "failed", says: "does not exist" },
  {
    name: "the node is not Ready",
    objects: { pods: [pod("t/a")], nodes: [node("n1", { ready: "Unknown" })] },
    status: "failed",
  },
  {
    name: "the node is being deleted",
    objects: { pods: [pod("t/a")], nodes: [node("n1", { deleted: "2026-05-28T11:59:00Z" })] },
    status: "failed",
    says: "is being deleted",
  },
  { name: "a finished pod needs no node", objects: { pods: [pod("t/a", { phase: "Succeeded" })] }, status: "passed" },
]);

const gpus = (count: string) => ({ requests: { "nvidia.com/gpu": count } });
const gpuNode = node("n1", { allocatable: { "nvidia.com/gpu": "8" } });
facts("S3", [
  {
    name: "eight GPUs for eight",
    objects: { pods: [pod("t/a", gpus("5")), pod("t/b", gpus("3"))], nodes: [gpuNode] },
    status: "passed",
  },
  {
    name: "nine GPUs out of eight",
    objects: { pods: [pod("t/a", gpus("5")), pod("t/b", gpus("4"))], nodes: [gpuNode] },
    status: "failed",
    says: "nodes/n1: nvidia.com/gpu: 9 requested by 2 pods, 8 allocatable",
  },
  {
    name: "pods of excluded namespaces take room too",
    objects: { pods: [pod("t/a", gpus("5")), pod("kube-system/b", gpus("4"))], nodes: [gpuNode] },
    status: "failed",
  },
  {
    name: "a resource that the node does not have",
    objects: { pods: [pod("t/a", { requests: { "example.com/fpga": "1" } })], nodes: [gpuNode] },
    status: "failed",
    says: "example.com/fpga: 1 requested by 1 pods, 0 allocatable",
  },
  {
    name: "more pods than places",
    objects: { pods: [pod("t/a"), pod("t/b")], nodes: [node("n1", { allocatable: { pods: "1" } })] },
    status: "failed",
    says: "pods: 2 requested",
  },
  {
    name: "what has finished gives back",
    objects: { pods: [pod("t/a", gpus("8")), pod("t/b", { ...gpus("8"), phase: "Succeeded" })], nodes: [gpuNode] },
    status: "passed",
  },
]);

const tainted = node("n1", { spec: { taints: [{ key: "gpu", value: "present", effect: "NoSchedule" }] } });
facts("S4", [
  {
    name: "a taint that is tolerated",
    objects: { pods: [pod("t/a", { spec: { tolerations: [{ key: "gpu", operator: "Exists" }] } })], nodes: [tainted] },
    status: "passed",
  },
  {
    name: "a taint that is not",
    objects: { pods: [pod("t/a")], nodes: [tainted] },
    status: "failed",
    says: "does not tolerate gpu=present:NoSchedule of node n1",
  },
  {
    name: "a selector that does not match",
    objects: { pods: [pod("t/a", { spec: { nodeSelector: { pool: "h100" } } })], nodes: [node("n1")] },
    status: "failed",
    says: "node selector",
  },
  {
    name: "a cordon came after the pod",
    objects: {
      pods: [pod("t/a")],
      nodes: [node("n1", { spec: { taints: [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }] } })],
    },
    status: "passed",
  },
  {
    name: "a taint that only prefers",
    objects: {
      pods: [pod("t/a")],
      nodes: [node("n1", { spec: { taints: [{ key: "x", effect: "PreferNoSchedule" }] } })],
    },
    status: "passed",
  },
]);

const member = (name: string, at: string, more: object = {}) =>
  pod(`t/${name}`, { node: at, annotations: { "pod-group-name": "g" }, ...more });
const group = (spec: object) => [custom("scheduling.run.ai/v2alpha2", "PodGroup", "t/g", { spec })];
const racks = [
  node("n1", { labels: { rack: "r1" } }),
  node("n2", { labels: { rack: "r2" } }),
  node("n3", { labels: { rack: "r1" } }),
];
const sub = (name: string) => ({ labels: { "kai.scheduler/subgroup-name": name } });
facts("S5", [
  { name: "neither kind is served", objects: { pods: [] }, status: "skipped", says: "not applicable" },
  {
    name: "none of the gang is bound",
    objects: { pods: [member("a", ""), member("b", "")], podgroups: group({ minMember: 2 }) },
    status: "passed",
  },
  {
    name: "all of the gang is bound",
    objects: { pods: [member("a", "n1"), member("b", "n1")], podgroups: group({ minMember: 2 }) },
    status: "passed",
  },
  {
    name: "half of the gang is bound",
    objects: { pods: [member("a", "n1"), member("b", "")], podgroups: group({ minMember: 2 }) },
    status: "failed",
    says: "podgroups/t/g: partially bound, 1 members bound: the gang has 1 of 2",
  },
  {
    name: "more than the minimum and not all",
    objects: { pods: [member("a", "n1"), member("b", "")], podgroups: group({ minMember: 1 }) },
    status: "passed",
  },
  {
    name: "a namesake in another namespace is no member",
    objects: {
      pods: [member("a", ""), pod("other/b", { annotations: { "pod-group-name": "g" } })],
      podgroups: group({ minMember: 2 }),
    },
    status: "passed",
  },
  {
    name: "one subgroup is short",
    objects: {
      pods: [member("a", "n1", sub("leader")), member("b", "", sub("worker"))],
      podgroups: group({
        subGroups: [
          { name: "leader", minMember: 1 },
          { name: "worker", minMember: 1 },
        ],
      }),
    },
    status: "failed",
    says: "worker has 0 of 1",
  },
  {
    name: "enough of the subgroups are whole",
    objects: {
      pods: [member("a", "n1", sub("s0")), member("b", "", sub("s1"))],
      podgroups: group({
        minSubGroup: 1,
        subGroups: [
          { name: "s0", minMember: 1 },
          { name: "s1", minMember: 1 },
        ],
      }),
    },
    status: "passed",
  },
  {
    name: "members are in two racks and must be in one",
    objects: {
      nodes: racks,
      pods: [member("a", "n1"), member("b", "n2")],
      podgroups: group({ minMember: 2, topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } }),
    },
    status: "failed",
    says: "members are in 2 domains of rack",
  },
  {
    name: "members are in one rack on two nodes",
    objects: {
      nodes: racks,
      pods: [member("a", "n1"), member("b", "n3")],
      podgroups: group({ minMember: 2, topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } }),
    },
    status: "passed",
  },
  {
    name: "members are in two racks, in a topology with a level that says nothing",
    objects: {
      nodes: racks,
      pods: [member("a", "n1"), member("b", "n2")],
      podgroups: group({ minMember: 2, topologyConstraint: { topology: "t", requiredTopologyLevel: "r" } }),
      topologies: [
        custom("kai.scheduler/v1alpha1", "Topology", "/t", {
          spec: { levels: [null, { nodeLabel: "rack", alias: "r" }] },
        }),
      ],
    },
    status: "failed",
    says: "members are in 2 domains of rack",
  },
  {
    name: "a PodGang with one clique below its minimum",
    objects: {
      pods: [pod("t/p-0"), pod("t/d-0", { node: "" })],
      podgangs: [
        custom("scheduler.grove.io/v1alpha1", "PodGang", "t/gang", {
          spec: {
            podgroups: [
              { name: "prefill", minReplicas: 1, podReferences: [{ namespace: "t", name: "p-0" }] },
              { name: "decode", minReplicas: 1, podReferences: [{ namespace: "t", name: "d-0" }] },
            ],
          },
        }),
      ],
    },
    status: "failed",
    says: "podgangs/t/gang: partially bound, 1 members bound: decode has 0 of 1",
  },
]);

const slice = (generation: number, devices: object[], more: object = {}) =>
  custom("resource.k8s.io/v1", "ResourceSlice", `s${generation}`, {
    spec: {
      driver: "gpu.nvidia.com",
      nodeName: "n1",
      pool: { name: "n1", generation, resourceSliceCount: 1 },
      devices,
      ...more,
    },
  });
const claim = (name: string, device: string | undefined, forPod = "t/a", result: object = {}) =>
  custom("resource.k8s.io/v1", "ResourceClaim", `t/${name}`, {
    status: {
      ...(device === undefined
        ? {}
        : {
            allocation: {
              devices: { results: [{ request: "r", driver: "gpu.nvidia.com", pool: "n1", device, ...result }] },
            },
          }),
      reservedFor: [{ resource: "pods", name: "a", uid: `uid-${forPod}` }],
    },
  });
const claims = (name: string, at = "n1") =>
  pod("t/a", { node: at, spec: { resourceClaims: [{ name: "gpu", resourceClaimName: name }] } });
const draNodes = [node("n1"), node("n2")];
facts("S6", [
  { name: "DRA is not served", objects: { pods: [] }, status: "skipped" },
  {
    name: "allocated, reserved and there",
    objects: {
      nodes: draNodes,
      pods: [claims("c")],
      resourceclaims: [claim("c", "gpu-0")],
      resourceslices: [slice(1, [{ name: "gpu-0" }])],
    },
    status: "passed",
  },
  {
    name: "the claim does not exist",
    objects: { nodes: draNodes, pods: [claims("c")], resourceclaims: [], resourceslices: [] },
    status: "failed",
    says: "its claim c does not exist",
  },
  {
    name: "not allocated",
    objects: { nodes: draNodes, pods: [claims("c")], resourceclaims: [claim("c", undefined)], resourceslices: [] },
    status: "failed",
    says: "is not allocated",
  },
  {
    name: "reserved for another pod",
    objects: {
      nodes: draNodes,
      pods: [claims("c")],
      resourceclaims: [claim("c", "gpu-0", "t/b")],
      resourceslices: [slice(1, [{ name: "gpu-0" }])],
    },
    status: "failed",
    says: "is not reserved for it",
  },
  {
    name: "the device is gone in the newest generation",
    objects: {
      nodes: draNodes,
      pods: [claims("c")],
      resourceclaims: [claim("c", "gpu-0")],
      resourceslices: [slice(1, [{ name: "gpu-0" }]), slice(2, [{ name: "gpu-1" }])],
    },
    status: "failed",
    says: "newest generation of its pool does not have",
  },
  {
    name: "the device is on another node",
    objects: {
      nodes: draNodes,
      pods: [claims("c", "n2")],
      resourceclaims: [claim("c", "gpu-0")],
      resourceslices: [slice(1, [{ name: "gpu-0" }])],
    },
    status: "failed",
    says: "the pod is on n2",
  },
  {
    name: "one device for two claims",
    objects: {
      nodes: draNodes,
      pods: [],
      resourceclaims: [claim("c", "gpu-0"), claim("d", "gpu-0")],
      resourceslices: [slice(1, [{ name: "gpu-0" }])],
    },
    status: "failed",
    says: "devices/gpu.nvidia.com/n1/gpu-0: allocated 2 times: t/c, t/d",
  },
  {
    name: "an administrator's look is no use of the device",
    objects: {
      nodes: draNodes,
      pods: [],
      resourceclaims: [claim("c", "gpu-0"), claim("d", "gpu-0", "t/b", { adminAccess: true })],
      resourceslices: [slice(1, [{ name: "gpu-0" }])],
    },
    status: "passed",
  },
  {
    name: "shares of a device beyond its capacity",
    objects: {
      nodes: draNodes,
      pods: [],
      resourceclaims: [
        claim("c", "gpu-0", "t/a", { consumedCapacity: { memory: "50Gi" } }),
        claim("d", "gpu-0", "t/b", { consumedCapacity: { memory: "40Gi" } }),
      ],
      resourceslices: [
        slice(1, [{ name: "gpu-0", allowMultipleAllocations: true, capacity: { memory: { value: "80Gi" } } }]),
      ],
    },
    status: "failed",
    says: "more memory is allocated than its capacity of 80Gi: t/c, t/d",
  },
  {
    name: "partitions draw more than their GPU has",
    objects: {
      nodes: draNodes,
      pods: [],
      resourceclaims: [claim("c", "mig-0"), claim("d", "mig-1")],
      resourceslices: [
        slice(
          1,
          ["mig-0", "mig-1"].map((name) => ({
            name,
            consumesCounters: [{ counterSet: "gpu-0", counters: { memory: { value: "50Gi" } } }],
          })),
          { sharedCounters: [{ name: "gpu-0", counters: { memory: { value: "80Gi" } } }] },
        ),
      ],
    },
    status: "failed",
    says: "counters/gpu.nvidia.com/n1/gpu-0/memory",
  },
  {
    name: "bound without a claim from its template",
    objects: {
      nodes: draNodes,
      pods: [pod("t/a", { spec: { resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "tpl" }] } })],
      resourceclaims: [],
      resourceslices: [],
    },
    status: "failed",
    says: "has none for its template",
  },
]);

const reservation = (name: string, of: string, gpu = `GPU-${name}`) =>
  pod(`kai-resource-reservation/${name}`, {
    labels: { app: "kai-resource-reservation", "runai-gpu-group": of },
    annotations: { "run.ai/reserve_for_gpu_index": gpu },
  });
const sharer = (name: string, of: string, fraction = "0.5", at = "n1") =>
  pod(`t/${name}`, { node: at, labels: { "runai-gpu-group": of }, annotations: { "gpu-fraction": fraction } });
const request = (of: string, status: object = {}, spec: object = {}) =>
  custom("scheduling.run.ai/v1alpha2", "BindRequest", "t/br", {
    spec: { podName: "x", receivedResourceType: "Fraction", selectedGPUGroups: [of], ...spec },
    status,
  });
facts("S7", [
  { name: "nothing is shared and BindRequests are not served", objects: { pods: [] }, status: "skipped" },
  { name: "nothing is shared", objects: { pods: [], bindrequests: [] }, status: "passed" },
  { name: "a reservation with a user", objects: { pods: [reservation("r", "g"), sharer("a", "g")] }, status: "passed" },
  {
    name: "a reservation without users",
    objects: { pods: [reservation("r", "g")] },
    status: "failed",
    says: "which no pod and no bind request uses",
  },
  {
    name: "a reservation that a bind request waits for",
    objects: { pods: [reservation("r", "g")], bindrequests: [request("g")] },
    status: "passed",
  },
  {
    name: "a bind request that may be tried again",
    objects: {
      pods: [reservation("r", "g")],
      bindrequests: [request("g", { phase: "Failed", failedAttempts: 3 }, { backoffLimit: 3 })],
    },
    status: "passed",
  },
  {
    name: "a bind request that gave up",
    objects: {
      pods: [reservation("r", "g")],
      bindrequests: [request("g", { phase: "Failed", failedAttempts: 4 }, { backoffLimit: 3 })],
    },
    status: "failed",
  },
  {
    name: "a user without a reservation",
    objects: { pods: [sharer("a", "g")] },
    status: "failed",
    says: "which has no reservation",
  },
  {
    name: "a reservation on another node does not help",
    objects: { pods: [reservation("r", "g"), sharer("a", "g", "0.5", "n2")] },
    status: "failed",
  },
]);

facts("S8", [
  { name: "nothing is shared", objects: { pods: [] }, status: "skipped" },
  {
    name: "two halves are one",
    objects: { pods: [reservation("r", "g"), sharer("a", "g"), sharer("b", "g")] },
    status: "passed",
  },
  {
    name: "0.7 and 0.4 are more than one",
    objects: { pods: [reservation("r", "g"), sharer("a", "g", "0.7"), sharer("b", "g", "0.4")] },
    status: "failed",
    says: "sum to more than one GPU",
  },
  {
    name: "ten tenths are exactly one",
    objects: { pods: [reservation("r", "g"), ...Array.from({ length: 10 }, (_, at) => sharer(`p${at}`, "g", "0.1"))] },
    status: "passed",
  },
  {
    name: "two reservations of one group",
    objects: { pods: [reservation("r", "g"), reservation("s", "g"), sharer("a", "g")] },
    status: "failed",
    says: "must have one reservation",
  },
  {
    name: "two groups on one GPU",
    objects: {
      pods: [reservation("r", "g", "GPU-1"), reservation("s", "h", "GPU-1"), sharer("a", "g"), sharer("b", "h")],
    },
    status: "failed",
    says: "must have one group",
  },
  {
    name: "memory counts by the node's label",
    objects: {
      nodes: [node("n1", { labels: { "nvidia.com/gpu.memory": "80000" } })],
      pods: [
        reservation("r", "g"),
        sharer("a", "g", "0.5"),
        pod("t/b", { labels: { "runai-gpu-group": "g" }, annotations: { "gpu-memory": "40001" } }),
      ],
    },
    status: "failed",
  },
]);

const queue = (name: string, spec: object, status: object = {}) =>
  custom("scheduling.run.ai/v2", "Queue", name, { spec, status });
const inQueue = (name: string, count: string) =>
  pod(`t/${name}`, { ...gpus(count), labels: { "kai.scheduler/queue": "leaf" } });
facts("S9", [
  { name: "queues are not served", objects: { pods: [] }, status: "skipped" },
  {
    name: "within the limit",
    objects: { pods: [inQueue("a", "4")], queues: [queue("leaf", { resources: { gpu: { limit: 4 } } })] },
    status: "passed",
  },
  {
    name: "beyond the limit",
    objects: { pods: [inQueue("a", "5")], queues: [queue("leaf", { resources: { gpu: { limit: 4 } } })] },
    status: "failed",
    says: "queues/leaf: uses 5 gpu, but its limit is 4",
  },
  {
    name: "beyond the limit of the parent",
    objects: {
      pods: [inQueue("a", "5")],
      queues: [
        queue("leaf", { parentQueue: "top", resources: { gpu: { limit: -1 } } }),
        queue("top", { resources: { gpu: { limit: 4 } } }),
      ],
    },
    status: "failed",
    says: "queues/top",
  },
  {
    name: "a parent that does not say what its children say",
    objects: {
      pods: [],
      queues: [
        queue("leaf", { parentQueue: "top" }, { allocated: { "nvidia.com/gpu": "2" } }),
        queue("top", {}, { allocated: { "nvidia.com/gpu": "3" } }),
      ],
    },
    status: "failed",
    says: "is not the sum of its 1 children",
  },
]);

const counted = (count: string, has: string) =>
  node("n1", { labels: { "nvidia.com/gpu.count": count }, allocatable: { "nvidia.com/gpu": has } });
facts("S10", [
  { name: "no node has GPUs", objects: { nodes: [node("n1")] }, status: "skipped" },
  { name: "labels and allocatable agree", objects: { nodes: [counted("8", "8")] }, status: "passed" },
  {
    name: "one GPU is missing",
    objects: { nodes: [counted("8", "7")] },
    status: "failed",
    says: "7 GPUs are allocatable, but its labels declare 8",
  },
  {
    name: "slices tell of another number",
    objects: { nodes: [counted("2", "2")], resourceslices: [slice(1, [{ name: "gpu-0" }])] },
    status: "failed",
    says: "1 GPUs are in its resource slices",
  },
]);

facts("S11", [
  { name: "no node names a profile", objects: { nodes: [node("n1")] }, status: "skipped" },
  {
    name: "an unknown profile is skipped",
    objects: { nodes: [node("n1", { annotations: { "sim.muster.dev/profile": "h900" } })] },
    status: "skipped",
    says: "h900",
  },
  {
    name: "a node that is not what it says",
    objects: { nodes: [node("n1", { annotations: { "sim.muster.dev/profile": "gb300" } })] },
    status: "failed",
    says: "arch is amd64, but profile gb300 has arm64",
  },
]);

facts("S13", [
  {
    name: "a Deployment whose pods are there",
    objects: {
      deployments: [custom("apps/v1", "Deployment", "t/web", { spec: { replicas: 1 } })],
      replicasets: [
        custom("apps/v1", "ReplicaSet", "t/web-1", {
          metadata: {
            uid: "uid-ReplicaSet-web-1",
            ownerReferences: [{ ...owner("Deployment", "web", "apps/v1"), uid: "uid-Deployment-t/web" }],
          },
        }),
      ],
      pods: [pod("t/web-1-x", { owner: owner("ReplicaSet", "web-1", "apps/v1") })],
    },
    status: "passed",
  },
  {
    name: "a Deployment that wants pods and has none",
    objects: { deployments: [custom("apps/v1", "Deployment", "t/web", { spec: { replicas: 2 } })] },
    status: "failed",
    says: "should have 2 pods and has none",
  },
  {
    name: "a Deployment that wants none",
    objects: { deployments: [custom("apps/v1", "Deployment", "t/web", { spec: { replicas: 0 } })] },
    status: "passed",
  },
]);

const priority = (value: number) => ({ spec: { priority: value } });
facts("S14", [
  { name: "no pod waits", objects: { pods: [pod("t/a")], nodes: [node("n1")] }, status: "passed" },
  {
    name: "a higher priority waits for room that a lower one has",
    objects: {
      nodes: [node("n1", { allocatable: { pods: "1" } })],
      pods: [pod("t/low", priority(1)), pod("t/high", { node: "", ...priority(9) })],
    },
    status: "failed",
    says: "pods/t/high: has priority 9 and would fit on n1, where pods/t/low has priority 1",
  },
  {
    name: "it would not fit there either",
    objects: {
      nodes: [gpuNode],
      pods: [pod("t/low", priority(1)), pod("t/high", { node: "", ...gpus("9"), ...priority(9) })],
    },
    status: "passed",
  },
]);

const longAgo = "2026-05-28T11:00:00Z";
facts("S15", [
  { name: "nothing lingers", objects: { pods: [pod("t/a")], nodes: [node("n1")] }, status: "passed" },
  {
    name: "a pod past its grace",
    objects: { pods: [pod("t/a", { deleted: longAgo })], nodes: [node("n1")] },
    status: "failed",
    says: "should have been deleted 3600 s ago",
  },
  {
    name: "a bind request past its time",
    objects: { pods: [], bindrequests: [request("g")] },
    status: "failed",
    says: "unfinished, created 3600 s ago",
  },
  {
    name: "a pod on a cordoned node",
    objects: { pods: [pod("t/a")], nodes: [node("n1", { spec: { unschedulable: true } })] },
    status: "failed",
    says: "is on the cordoned node n1",
  },
]);

const published = (names: readonly string[]): KubeObject =>
  partly<KubeObject>({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name: "n1", uid: "slice", resourceVersion: "1" },
    spec: {
      driver: "gpu.nvidia.com",
      nodeName: "n1",
      pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
      devices: names.map((name) => ({ name, attributes: { uuid: { string: `GPU-${name}` } } })),
    },
  });
const claimOf = (device: string): KubeObject =>
  partly<KubeObject>({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name: "c", namespace: "t", uid: "claim", resourceVersion: "1" },
    status: { allocation: { devices: { results: [{ request: "r", driver: "gpu.nvidia.com", pool: "n1", device }] } } },
  });
const withGpu = (id: string, annotation = "sim.muster.dev/devices"): KubeObject => {
  const made = pod("t/a", gpus("1")) as unknown as { metadata: { annotations?: Record<string, string> } };
  const text = annotation === "sim.muster.dev/devices" ? JSON.stringify({ main: { "nvidia.com/gpu": [id] } }) : id;
  made.metadata = { ...made.metadata, annotations: { ...made.metadata.annotations, [annotation]: text } };
  return made as unknown as KubeObject;
};
const both = (amount: string): KubeObject => node("n1", { allocatable: { "nvidia.com/gpu": amount, pods: "10" } });
facts("S16", [
  {
    name: "a claim and a pod have different GPUs",
    objects: {
      nodes: [both("2")],
      pods: [withGpu("GPU-b")],
      resourceclaims: [claimOf("a")],
      resourceslices: [published(["a", "b"])],
    },
    status: "passed",
  },
  {
    name: "a pod reports the GPU whose device a claim has",
    objects: {
      nodes: [both("2")],
      pods: [withGpu("GPU-a")],
      resourceclaims: [claimOf("a")],
      resourceslices: [published(["a", "b"])],
    },
    status: "failed",
    says: "pods/t/a: has GPU GPU-a of node n1 from the device plugin, and claim t/c has the same GPU as gpu.nvidia.com/n1/a",
  },
  {
    name: "a reservation keeps the GPU whose device a claim has",
    objects: {
      nodes: [both("2")],
      pods: [withGpu("GPU-a", "run.ai/reserve_for_gpu_index")],
      resourceclaims: [claimOf("a")],
      resourceslices: [published(["a", "b"])],
    },
    status: "failed",
    says: "claim t/c has the same GPU",
  },
  {
    name: "more GPUs are given out than there are, and no pod reports which it has",
    objects: {
      nodes: [both("1")],
      pods: [pod("t/a", gpus("1"))],
      resourceclaims: [claimOf("a")],
      resourceslices: [published(["a"])],
    },
    status: "failed",
    says: "nodes/n1: 1 nvidia.com/gpu are allocated to pods and 1 to claims, but only 1 are allocatable",
  },
  {
    name: "a node without a device plugin for GPUs",
    objects: { nodes: [node("n1")], pods: [], resourceclaims: [claimOf("a")], resourceslices: [published(["a"])] },
    status: "passed",
  },
]);

test("objects of the fixtures are from before the snapshot", () => {
  expect(Date.parse(longAgo)).toBeLessThan(startMs);
});
