/** Each check with a planted fault, and with the healthy neighbours that look like it. */
import { describe, expect, test } from "vitest";
import { anHourAgo, custom, node, owner, pod, refusedBy } from "../../../test/verify/builders.ts";
import { snapshotWith } from "../../../test/verify/syntheticCluster.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { KindName } from "../verify/readKinds.ts";
import { auditChecks } from "./auditChecks.ts";
import { auditLook } from "./auditLook.ts";

interface Fact {
  readonly name: string;
  readonly objects: { readonly [K in KindName]?: readonly KubeObject[] };
  /** The object that is found, and part of what is said; undefined when the cluster is healthy. */
  readonly finds?: readonly [object: string, problem: string];
}

const tested = new Set<string>();

function facts(name: string, table: readonly Fact[]): void {
  tested.add(name);
  const planted = table.filter(({ finds }) => finds !== undefined);
  const healthy = table.filter(({ finds }) => finds === undefined);
  describe(name, () => {
    test.each(planted)("finds: $name", ({ objects, finds }) => {
      const [look] = auditLook(
        snapshotWith(objects),
        auditChecks.filter((check) => check.name === name),
      ).checks;
      expect(look?.unknown).toBeUndefined();
      expect(look?.findings.map(({ object }) => object)).toEqual([finds?.[0]]);
      expect(look?.findings[0]?.problem).toContain(finds?.[1]);
    });
    // A healthy neighbour is healthy for every check.
    test.each(healthy)("finds nothing: $name", ({ objects }) => {
      for (const { check, findings, unknown } of auditLook(snapshotWith(objects), auditChecks).checks) {
        expect({ check: check.name, findings, unknown }).toEqual({
          check: check.name,
          findings: [],
          unknown: undefined,
        });
      }
    });
  });
}

const gpu = (count: string) => ({ requests: { "nvidia.com/gpu": count } });
const gpuNode = (name = "n1", wish: Parameters<typeof node>[1] = {}): KubeObject =>
  node(name, { allocatable: { "nvidia.com/gpu": "8" }, ...wish });
const tenMinutesAgo = "2026-05-28T11:50:00Z";
const aMinuteAgo = "2026-05-28T11:59:00Z";
const twoHoursAgo = "2026-05-28T10:00:00Z";

const reporting = (key: string, id: string, wish: Parameters<typeof pod>[1] = {}): KubeObject =>
  pod(key, {
    ...gpu("1"),
    status: {
      containerStatuses: [
        {
          name: "main",
          state: { running: {} },
          allocatedResourcesStatus: [{ name: "nvidia.com/gpu", resources: [{ resourceID: id }] }],
        },
      ],
    },
    ...wish,
  });

const slice = (devices: readonly object[], nodeName = "n1"): KubeObject =>
  custom("resource.k8s.io/v1", "ResourceSlice", `slice-${nodeName}`, {
    spec: {
      driver: "gpu.nvidia.com",
      nodeName,
      pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
      devices,
    },
  });
const claim = (
  key: string,
  fields: { device?: string; for?: readonly string[]; allocated?: boolean } = {},
): KubeObject =>
  custom("resource.k8s.io/v1", "ResourceClaim", key, {
    spec: {},
    status: {
      ...(fields.allocated === false
        ? {}
        : {
            allocation: {
              devices: {
                results: [{ request: "gpu", driver: "gpu.nvidia.com", pool: "n1", device: fields.device ?? "gpu-0" }],
              },
            },
          }),
      reservedFor: (fields.for ?? []).map((pod) => ({
        resource: "pods",
        name: pod.split("/")[1],
        uid: `uid-${pod}`,
      })),
    },
  });
const claiming = (key: string, name: string, wish: Parameters<typeof pod>[1] = {}): KubeObject =>
  pod(key, { spec: { resourceClaims: [{ name: "gpu", resourceClaimName: name }] }, ...wish });

facts("gpu-given-twice", [
  {
    name: "two claims have one device",
    objects: {
      pods: [claiming("t/a", "one"), claiming("t/b", "two")],
      nodes: [node("n1")],
      resourceclaims: [claim("t/one", { for: ["t/a"] }), claim("t/two", { for: ["t/b"] })],
      resourceslices: [slice([{ name: "gpu-0" }])],
    },
    finds: ["devices/gpu.nvidia.com/n1/gpu-0", "allocated 2 times"],
  },
  {
    name: "a claim and the device plugin have one GPU",
    objects: {
      pods: [reporting("t/a", "GPU-0"), claiming("t/b", "one")],
      nodes: [gpuNode("n1", { allocatable: { "nvidia.com/gpu": "2" } })],
      resourceclaims: [claim("t/one", { for: ["t/b"] })],
      resourceslices: [
        slice([
          { name: "gpu-0", attributes: { uuid: { string: "GPU-0" } } },
          { name: "gpu-1", attributes: { uuid: { string: "GPU-1" } } },
        ]),
      ],
    },
    finds: ["pods/t/a", "claim t/one has the same GPU"],
  },
  {
    name: "two pods report one GPU of the device plugin, without DRA",
    objects: { pods: [reporting("t/a", "GPU-0"), reporting("t/b", "GPU-0")], nodes: [gpuNode()] },
    finds: ["pods/t/b", "has GPU GPU-0 of node n1, which pods/t/a has too"],
  },
  {
    name: "each pod has its own GPU, and one that has ended had the same",
    objects: {
      pods: [
        reporting("t/a", "GPU-0"),
        reporting("t/b", "GPU-1"),
        reporting("t/old", "GPU-0", { phase: "Succeeded", status: {} }),
      ],
      nodes: [gpuNode()],
    },
  },
  {
    name: "time slices of one GPU",
    objects: {
      pods: [reporting("t/a", "GPU-0::0"), reporting("t/b", "GPU-0::1")],
      nodes: [gpuNode("n1", { labels: { "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4" } })],
    },
  },
  {
    name: "a claim with admin access looks at a device of another claim",
    objects: {
      pods: [claiming("t/a", "one"), claiming("t/b", "two")],
      nodes: [node("n1")],
      resourceclaims: [
        claim("t/one", { for: ["t/a"] }),
        custom("resource.k8s.io/v1", "ResourceClaim", "t/two", {
          status: {
            allocation: {
              devices: {
                results: [{ request: "g", driver: "gpu.nvidia.com", pool: "n1", device: "gpu-0", adminAccess: true }],
              },
            },
            reservedFor: [{ resource: "pods", name: "b", uid: "uid-t/b" }],
          },
        }),
      ],
      resourceslices: [slice([{ name: "gpu-0" }])],
    },
  },
  {
    name: "time slices of one GPU on a node without GPU feature discovery",
    objects: { pods: [reporting("t/a", "GPU-0::0"), reporting("t/b", "GPU-0::1")], nodes: [gpuNode()] },
  },
]);

const reservation = (group: string, device = "GPU-0"): KubeObject =>
  pod(`kai-resource-reservation/r-${group}-${device}`, {
    ...gpu("1"),
    labels: { app: "kai-resource-reservation", "runai-gpu-group": group },
    annotations: { "run.ai/reserve_for_gpu_index": device },
  });
const sharing = (key: string, group: string, fraction = "0.5"): KubeObject =>
  pod(key, { labels: { "runai-gpu-group": group }, annotations: { "gpu-fraction": fraction } });

facts("reservation-unused", [
  {
    name: "a reservation of a group that no pod is in",
    objects: { pods: [reservation("g1")], nodes: [gpuNode()] },
    finds: ["pods/kai-resource-reservation/r-g1-GPU-0", "which no pod and no bind request uses"],
  },
  {
    name: "a reservation with a pod",
    objects: { pods: [reservation("g1"), sharing("t/a", "g1")], nodes: [gpuNode()] },
  },
]);
facts("share-without-reservation", [
  {
    name: "a share of a group without a reservation",
    objects: { pods: [sharing("t/a", "g1")], nodes: [gpuNode()] },
    finds: ["pods/t/a", "which has no reservation"],
  },
  {
    name: "a reservation of another namespace, as older versions of KAI make it",
    objects: {
      pods: [
        pod("runai-reservation/r", { ...gpu("1"), labels: { app: "runai-reservation", "runai-gpu-group": "g1" } }),
        sharing("t/a", "g1"),
      ],
      nodes: [gpuNode()],
    },
  },
]);
facts("shares-over-one", [
  {
    name: "three halves",
    objects: {
      pods: [reservation("g1"), sharing("t/a", "g1"), sharing("t/b", "g1"), sharing("t/c", "g1")],
      nodes: [gpuNode()],
    },
    finds: ["nodes/n1", "sum to more than one GPU"],
  },
  {
    name: "two halves",
    objects: { pods: [reservation("g1"), sharing("t/a", "g1"), sharing("t/b", "g1")], nodes: [gpuNode()] },
  },
]);

const group = (key: string, spec: object = {}): KubeObject =>
  custom("scheduling.run.ai/v2alpha2", "PodGroup", key, { spec: { minMember: 2, ...spec } });
const member = (key: string, wish: Parameters<typeof pod>[1] = {}): KubeObject =>
  pod(key, { annotations: { "pod-group-name": "train" }, ...wish });

facts("gang-half-placed", [
  {
    name: "one of two members has a node",
    objects: { pods: [member("t/a"), member("t/b", { node: "" })], nodes: [node("n1")], podgroups: [group("t/train")] },
    finds: ["podgroups/t/train", "partially bound"],
  },
  {
    name: "a whole gang, a gang that waits, and a gang that ends",
    objects: {
      pods: [
        member("t/a"),
        member("t/b"),
        member("u/a", { node: "", created: aMinuteAgo }),
        member("u/b", { node: "", created: aMinuteAgo }),
        member("v/a", { deleted: aMinuteAgo }),
        member("w/a", { phase: "Succeeded" }),
        member("w/b", { phase: "Failed" }),
      ],
      nodes: [node("n1")],
      podgroups: [group("t/train"), group("u/train"), group("v/train"), group("w/train")],
    },
  },
  {
    name: "a gang of Volcano with one of two members on a node",
    objects: {
      pods: [
        pod("t/a", { annotations: { "scheduling.k8s.io/group-name": "g" } }),
        pod("t/b", { annotations: { "scheduling.k8s.io/group-name": "g" }, node: "" }),
      ],
      nodes: [node("n1")],
      volcanopodgroups: [custom("scheduling.volcano.sh/v1beta1", "PodGroup", "t/g", { spec: { minMember: 2 } })],
    },
    finds: ["podgroups.scheduling.volcano.sh/t/g", "the gang has 1 of 2"],
  },
  {
    name: "gangs of Volcano and of coscheduling, of which one waits",
    objects: {
      pods: [
        pod("t/a", { annotations: { "scheduling.k8s.io/group-name": "g" } }),
        pod("t/b", { labels: { "scheduling.x-k8s.io/pod-group": "g" }, node: "", created: aMinuteAgo }),
      ],
      nodes: [node("n1")],
      volcanopodgroups: [custom("scheduling.volcano.sh/v1beta1", "PodGroup", "t/g", { spec: {} })],
      coschedulingpodgroups: [custom("scheduling.x-k8s.io/v1alpha1", "PodGroup", "t/g", { spec: { minMember: 1 } })],
    },
  },
]);
facts("gang-split", [
  {
    name: "members in two racks where one is required",
    objects: {
      pods: [member("t/a"), member("t/b", { node: "n2" })],
      nodes: [node("n1", { labels: { rack: "r1" } }), node("n2", { labels: { rack: "r2" } })],
      podgroups: [group("t/train", { topologyConstraint: { topology: "racks", requiredTopologyLevel: "rack" } })],
    },
    finds: ["podgroups/t/train", "2 domains of rack"],
  },
]);

facts("pod-never-fits", [
  {
    name: "nine GPUs where nodes have eight",
    objects: { pods: [pod("t/a", { node: "", ...gpu("9") })], nodes: [gpuNode(), gpuNode("n2")] },
    finds: ["pods/t/a", "its request of nvidia.com/gpu is more than any of the 2 nodes"],
  },
  {
    name: "a selector that no node matches",
    objects: { pods: [pod("t/a", { node: "", spec: { nodeSelector: { pool: "none" } } })], nodes: [node("n1")] },
    finds: ["pods/t/a", "none of 1 nodes matches it: for example, its node selector"],
  },
  {
    name: "a full cluster, a new pod, a gated pod, a resource of a DeviceClass, a cordoned node",
    objects: {
      pods: [
        pod("t/full", gpu("8")),
        pod("t/waits", { node: "", ...gpu("8") }),
        pod("t/new", { node: "", ...gpu("9"), created: tenMinutesAgo }),
        pod("t/gated", { node: "", ...gpu("9"), spec: { schedulingGates: [{ name: "g" }] } }),
        pod("t/dra", { node: "", requests: { "example.com/gpu": "1" } }),
        pod("t/implicit", { node: "", requests: { "deviceclass.resource.kubernetes.io/gpu": "1" } }),
        pod("t/leaves", { node: "", ...gpu("9"), deleted: aMinuteAgo }),
      ],
      nodes: [
        gpuNode("n1", {
          spec: {
            unschedulable: true,
            taints: [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }],
          },
        }),
      ],
      deviceclasses: [
        custom("resource.k8s.io/v1", "DeviceClass", "gpu", { spec: { extendedResourceName: "example.com/gpu" } }),
      ],
    },
  },
  {
    name: "a cluster without nodes, which an autoscaler fills",
    objects: { pods: [pod("t/a", { node: "", ...gpu("1") })] },
  },
]);
facts("gang-never-fits", [
  {
    name: "three nodes' worth where there are two",
    objects: {
      pods: ["a", "b", "c"].map((name) => member(`t/${name}`, { node: "", ...gpu("8") })),
      nodes: [gpuNode(), gpuNode("n2")],
      podgroups: [group("t/train", { minMember: 3 })],
    },
    finds: ["podgroups/t/train", "the gang needs 3 pods at once, and 2 fit on empty nodes"],
  },
  {
    name: "a gang that fits once another one ends",
    objects: {
      pods: [pod("t/busy", gpu("8")), ...["a", "b"].map((name) => member(`t/${name}`, { node: "", ...gpu("8") }))],
      nodes: [gpuNode(), gpuNode("n2")],
      podgroups: [group("t/train", { minMember: 2 })],
    },
  },
  {
    name: "a gang of coscheduling that is larger than the cluster",
    objects: {
      pods: ["a", "b"].map((name) =>
        pod(`t/${name}`, { node: "", ...gpu("8"), labels: { "scheduling.x-k8s.io/pod-group": "g" } }),
      ),
      nodes: [gpuNode()],
      coschedulingpodgroups: [custom("scheduling.x-k8s.io/v1alpha1", "PodGroup", "t/g", { spec: { minMember: 2 } })],
    },
    finds: ["podgroups.scheduling.x-k8s.io/t/g", "needs 2 pods at once, and 1 fit"],
  },
]);

facts("claim-of-missing-pod", [
  {
    name: "a claim is reserved for a pod that is gone",
    objects: {
      nodes: [node("n1")],
      resourceclaims: [claim("t/one", { for: ["t/gone"] })],
      resourceslices: [slice([{ name: "gpu-0" }])],
    },
    finds: ["resourceclaims/t/one", "is reserved for gone, which does not exist"],
  },
  {
    name: "a claim is reserved for a pod that has ended",
    objects: {
      pods: [claiming("t/a", "one", { phase: "Succeeded" })],
      resourceclaims: [claim("t/one", { for: ["t/a"] })],
      resourceslices: [slice([{ name: "gpu-0" }])],
    },
    finds: ["resourceclaims/t/one", "a, which has ended"],
  },
  {
    name: "a claim is allocated for no pod",
    objects: { resourceclaims: [claim("t/one")], resourceslices: [slice([{ name: "gpu-0" }])] },
    finds: ["resourceclaims/t/one", "reserved for no pod"],
  },
  {
    name: "a claim of a pod, one that is not allocated, and one of a pod that waits",
    objects: {
      pods: [claiming("t/a", "one"), claiming("t/b", "two", { node: "", created: aMinuteAgo })],
      nodes: [node("n1")],
      resourceclaims: [
        claim("t/one", { for: ["t/a"] }),
        claim("t/two", { device: "gpu-1" }),
        claim("t/three", { allocated: false }),
      ],
      resourceslices: [slice([{ name: "gpu-0" }, { name: "gpu-1" }])],
    },
  },
]);
facts("claim-not-allocated", [
  {
    name: "a bound pod with a claim that is not allocated",
    objects: {
      pods: [claiming("t/a", "one")],
      nodes: [node("n1")],
      resourceclaims: [claim("t/one", { allocated: false })],
      resourceslices: [],
    },
    finds: ["pods/t/a", "its claim one is not allocated"],
  },
]);

const bindRequest = (fields: { created: string; phase?: string; pod?: string }): KubeObject =>
  custom("scheduling.run.ai/v1alpha2", "BindRequest", "t/a", {
    metadata: {
      creationTimestamp: fields.created,
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "a", uid: `uid-${fields.pod ?? "t/a"}` }],
    },
    spec: { podName: "a" },
    status: { phase: fields.phase ?? "Pending" },
  });
facts("bindrequest-stuck", [
  {
    name: "a bind that has not ended after ten minutes",
    objects: { pods: [pod("t/a")], nodes: [node("n1")], bindrequests: [bindRequest({ created: tenMinutesAgo })] },
    finds: ["bindrequests/t/a", "Pending, created 600 s ago"],
  },
  {
    name: "a bind of a pod that is gone",
    objects: { bindrequests: [bindRequest({ created: aMinuteAgo, pod: "t/gone" })] },
    finds: ["bindrequests/t/a", "its pod a does not exist"],
  },
  {
    name: "a bind that has begun",
    objects: { pods: [pod("t/a")], nodes: [node("n1")], bindrequests: [bindRequest({ created: aMinuteAgo })] },
  },
]);
const queue = (name: string, spec: object = {}): KubeObject => custom("scheduling.run.ai/v2", "Queue", name, { spec });
facts("podgroup-stuck", [
  {
    name: "a pod waits for a PodGroup that is not there",
    objects: { pods: [member("t/a", { node: "" })], nodes: [node("n1")], podgroups: [] },
    finds: ["pods/t/a", "waits for PodGroup train, which does not exist"],
  },
  {
    name: "the queue of a PodGroup is not there",
    objects: {
      pods: [member("t/a", { node: "" })],
      nodes: [node("n1")],
      podgroups: [group("t/train", { queue: "gone" })],
      queues: [queue("q")],
    },
    finds: ["podgroups/t/train", "is in queue gone, which does not exist"],
  },
  {
    name: "a pod waits in its queue, and a PodGroup without pods is in none",
    objects: {
      pods: [member("t/a", { node: "" }), member("t/b", { node: "" })],
      nodes: [node("n1")],
      podgroups: [group("t/train", { queue: "q" }), group("t/idle", { queue: "gone" })],
      queues: [queue("q")],
    },
  },
]);

facts("pod-on-missing-node", [
  {
    name: "a running pod of a node that is gone",
    objects: { pods: [pod("kube-system/a", { node: "gone" })], nodes: [node("n1")] },
    finds: ["pods/kube-system/a", "its node gone does not exist"],
  },
  {
    name: "a pod that has ended, of a node that is gone",
    objects: { pods: [pod("t/a", { node: "gone", phase: "Succeeded" })], nodes: [node("n1")] },
  },
]);
facts("pod-terminating", [
  {
    name: "a pod ten minutes after its grace period",
    objects: { pods: [pod("t/a", { deleted: tenMinutesAgo })], nodes: [node("n1")] },
    finds: ["pods/t/a", "should have been deleted 600 s ago"],
  },
  { name: "a pod that has just ended", objects: { pods: [pod("t/a", { deleted: aMinuteAgo })], nodes: [node("n1")] } },
]);
facts("pod-without-gpus", [
  {
    name: "a node has lost GPUs of its pods",
    objects: {
      pods: [pod("t/a", gpu("8"))],
      nodes: [gpuNode("n1", { allocatable: { "nvidia.com/gpu": "7" } })],
    },
    finds: ["nodes/n1", "7 nvidia.com/gpu are allocatable, and 8 are allocated to pods/t/a"],
  },
  {
    name: "GPUs that a claim provides are not those of the device plugin",
    objects: {
      pods: [
        pod("t/a", {
          ...gpu("1"),
          status: {
            extendedResourceClaimStatus: {
              resourceClaimName: "x",
              requestMappings: [{ containerName: "main", requestName: "r", resourceName: "nvidia.com/gpu" }],
            },
          },
        }),
      ],
      nodes: [node("n1")],
    },
  },
]);

const eight = { "nvidia.com/gpu.count": "8" };
facts("node-gpus-disagree", [
  {
    name: "seven are allocatable, and the labels say eight",
    objects: { nodes: [gpuNode("n1", { labels: eight, allocatable: { "nvidia.com/gpu": "7" } })] },
    finds: ["nodes/n1", "7 GPUs are allocatable, but its labels declare 8"],
  },
  {
    name: "time slices with and without their own resource, MIG, GPUs that only claims allocate",
    objects: {
      nodes: [
        gpuNode("n1", { labels: eight }),
        gpuNode("n2", {
          labels: { ...eight, "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing" },
          allocatable: { "nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32" },
        }),
        gpuNode("n3", {
          labels: { ...eight, "nvidia.com/mig.strategy": "mixed" },
          allocatable: { "nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56" },
        }),
        node("n4", { labels: eight }),
      ],
    },
  },
  {
    name: "parts of GPUs that HAMi or GKE make",
    objects: {
      nodes: [
        gpuNode("n1", {
          labels: eight,
          allocatable: { "nvidia.com/gpu": "80" },
          annotations: { "hami.io/node-handshake": "x" },
        }),
        gpuNode("n2", {
          labels: { ...eight, "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing" },
          allocatable: { "nvidia.com/gpu": "32" },
        }),
      ],
    },
  },
]);
const cloudNode = (name: string, gpus: string, wish: Parameters<typeof node>[1] = {}): KubeObject =>
  node(name, {
    allocatable: { "nvidia.com/gpu": gpus },
    labels: {
      "node.kubernetes.io/instance-type": "p5.48xlarge",
      "nvidia.com/gpu.count": gpus,
      // The operator's default, also on nodes without partitions.
      "nvidia.com/mig.strategy": "single",
    },
    spec: { providerID: `aws:///us-east-1a/${name}` },
    ...wish,
  });
const unhealthy = gpuNode("n1");
facts("node-gpus-fell", [
  {
    name: "one of eight GPUs is unhealthy",
    objects: {
      nodes: [{ ...unhealthy, status: { ...(unhealthy["status"] as object), allocatable: { "nvidia.com/gpu": "7" } } }],
    },
    finds: ["nodes/n1", "7 of its 8 nvidia.com/gpu are allocatable"],
  },
  {
    name: "a node has fewer GPUs than its instance type",
    objects: { nodes: [cloudNode("a", "8"), cloudNode("b", "7")] },
    finds: ["nodes/b", "other nodes of type p5.48xlarge have 8"],
  },
  {
    name: "machines of one's own, types with attached GPUs, nodes that are not Ready or without a plugin",
    objects: {
      nodes: [
        cloudNode("a", "8"),
        cloudNode("down", "7", { ready: "Unknown" }),
        cloudNode("replicas", "32", {
          labels: {
            "node.kubernetes.io/instance-type": "p5.48xlarge",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.replicas": "4",
          },
        }),
        node("bare", {
          labels: { "node.kubernetes.io/instance-type": "p5.48xlarge" },
          spec: { providerID: "aws:///us-east-1a/bare" },
        }),
        ...["4", "8"].map((gpus) =>
          cloudNode(`k3s-${gpus}`, gpus, {
            labels: { "node.kubernetes.io/instance-type": "k3s" },
            spec: { providerID: `k3s://k3s-${gpus}` },
          }),
        ),
        ...["1", "4"].map((gpus) =>
          cloudNode(`n1-${gpus}`, gpus, {
            labels: { "node.kubernetes.io/instance-type": "n1-standard-8" },
            spec: { providerID: `gce://project/zone/n1-${gpus}` },
          }),
        ),
      ],
    },
  },
]);

const gpus = (quota: number, limit = -1) => ({ resources: { gpu: { quota, limit } } });
facts("queue-quota", [
  {
    name: "children with more quota than their parent",
    objects: {
      queues: [
        queue("org", gpus(8)),
        queue("a", { parentQueue: "org", ...gpus(6) }),
        queue("b", { parentQueue: "org", ...gpus(4) }),
      ],
    },
    finds: ["queues/org", "the gpu quotas of its 2 children sum to 10, and its own is 8"],
  },
  {
    name: "a parent that is not there",
    objects: { queues: [queue("a", { parentQueue: "gone" })] },
    finds: ["queues/a", "its parent gone does not exist"],
  },
  {
    name: "a quota over its limit",
    objects: { queues: [queue("a", gpus(8, 4))] },
    finds: ["queues/a", "its gpu quota 8 is more than its limit 4"],
  },
  {
    name: "quotas without bound, and decimal ones",
    objects: {
      queues: [
        queue("org", gpus(-1)),
        queue("a", { parentQueue: "org", ...gpus(6) }),
        queue("team", { parentQueue: "org", ...gpus(0.3) }),
        queue("x", { parentQueue: "team", ...gpus(0.1) }),
        queue("y", { parentQueue: "team", ...gpus(0.2) }),
      ],
    },
  },
]);
facts("queue-usage", [
  {
    name: "more GPUs than the limit",
    objects: {
      pods: [pod("t/a", { ...gpu("8"), labels: { "kai.scheduler/queue": "a" } })],
      nodes: [gpuNode()],
      queues: [queue("a", gpus(0, 4))],
    },
    finds: ["queues/a", "uses 8 gpu, but its limit is 4"],
  },
]);

const priority = (name: string, value: number, globalDefault = false): KubeObject =>
  custom("scheduling.k8s.io/v1", "PriorityClass", name, { value, globalDefault });
const deployment = (priorityClassName: string, replicas = 1): KubeObject =>
  custom("apps/v1", "Deployment", "t/web", { spec: { replicas, template: { spec: { priorityClassName } } } });
facts("priority-class", [
  {
    name: "a Deployment names a class that is not there",
    objects: { deployments: [deployment("gone")] },
    finds: ["deployments/t/web", "its PriorityClass gone does not exist"],
  },
  {
    name: "two default classes",
    objects: { priorityclasses: [priority("low", 1, true), priority("high", 9, true)] },
    finds: ["priorityclasses/high", "low is one too"],
  },
  {
    name: "classes that exist, and a workload without replicas",
    objects: {
      deployments: [deployment("high")],
      statefulsets: [
        custom("apps/v1", "StatefulSet", "t/db", {
          spec: { replicas: 0, template: { spec: { priorityClassName: "gone" } } },
        }),
      ],
      priorityclasses: [priority("low", 1, true), priority("high", 9)],
    },
  },
  {
    name: "a Job that has failed",
    objects: {
      jobs: [
        custom("batch/v1", "Job", "t/old", {
          spec: { template: { spec: { priorityClassName: "gone" } } },
          status: { conditions: [{ type: "Failed", status: "True" }] },
        }),
      ],
    },
  },
]);
const urgent = (wish: Parameters<typeof pod>[1] = {}): KubeObject =>
  pod("t/urgent", {
    node: "",
    ...gpu("8"),
    status: refusedBy("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
    ...wish,
    spec: { priority: 100, ...wish.spec },
  });
facts("priority-inversion", [
  {
    name: "a pod of lower priority holds the GPUs",
    objects: { pods: [pod("t/low", gpu("8")), urgent()], nodes: [gpuNode()] },
    finds: ["pods/t/urgent", "has priority 100 and would fit on n1, where pods/t/low has priority 0"],
  },
  {
    name: "a pod that never preempts",
    objects: { pods: [pod("t/low", gpu("8")), urgent({ spec: { preemptionPolicy: "Never" } })], nodes: [gpuNode()] },
  },
  {
    name: "a new pod",
    objects: { pods: [pod("t/low", gpu("8")), urgent({ created: aMinuteAgo })], nodes: [gpuNode()] },
  },
  {
    name: "a pod of another scheduler",
    objects: {
      pods: [pod("t/low", gpu("8")), urgent({ spec: { schedulerName: "kai-scheduler" } })],
      nodes: [gpuNode()],
    },
  },
  {
    name: "a node that is not ready for pods",
    objects: {
      pods: [pod("t/low", gpu("8")), urgent()],
      nodes: [gpuNode("n1", { spec: { taints: [{ key: "node.kubernetes.io/not-ready", effect: "NoExecute" }] } })],
    },
  },
]);

const waiting = (reason: string, boundAt: string, wish: Parameters<typeof pod>[1] = {}): KubeObject =>
  pod("t/a", {
    ...gpu("1"),
    status: {
      conditions: [
        { type: "PodScheduled", status: "True", lastTransitionTime: boundAt },
        { type: "Ready", status: "False", lastTransitionTime: aMinuteAgo },
      ],
      containerStatuses: [
        {
          name: "main",
          restartCount: 7,
          state: { waiting: { reason } },
          lastState: { terminated: { exitCode: 1, startedAt: aMinuteAgo, finishedAt: aMinuteAgo } },
        },
      ],
    },
    ...wish,
  });
facts("gpu-idle", [
  {
    name: "a crash loop",
    objects: { pods: [waiting("CrashLoopBackOff", anHourAgo)], nodes: [gpuNode()] },
    finds: ["pods/t/a", "container main is in CrashLoopBackOff after 7 restarts"],
  },
  {
    name: "an image that cannot be pulled",
    objects: { pods: [waiting("ImagePullBackOff", tenMinutesAgo, { phase: "Pending" })], nodes: [gpuNode()] },
    finds: ["pods/t/a", "ImagePullBackOff"],
  },
  {
    name: "a pod that does not start for an hour",
    objects: { pods: [waiting("ContainerCreating", anHourAgo, { phase: "Pending" })], nodes: [gpuNode()] },
    finds: ["pods/t/a", "has not started: ContainerCreating"],
  },
  {
    name: "a large image that is pulled",
    objects: { pods: [waiting("ContainerCreating", tenMinutesAgo, { phase: "Pending" })], nodes: [gpuNode()] },
  },
  { name: "a first crash", objects: { pods: [waiting("CrashLoopBackOff", aMinuteAgo)], nodes: [gpuNode()] } },
  {
    name: "a crash loop without GPUs",
    objects: { pods: [waiting("CrashLoopBackOff", anHourAgo, { requests: { cpu: "1" } })], nodes: [gpuNode()] },
  },
  {
    name: "a program that ran for an hour and has crashed",
    objects: {
      pods: [
        pod("t/a", {
          ...gpu("1"),
          status: {
            conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: twoHoursAgo }],
            containerStatuses: [
              {
                name: "main",
                restartCount: 9,
                state: { waiting: { reason: "CrashLoopBackOff" } },
                lastState: { terminated: { exitCode: 1, startedAt: anHourAgo, finishedAt: aMinuteAgo } },
              },
            ],
          },
        }),
      ],
      nodes: [gpuNode()],
    },
  },
  {
    name: "a pod with a claim of a network card",
    objects: {
      pods: [
        claiming("t/a", "nic", {
          phase: "Pending",
          status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ImagePullBackOff" } } }] },
        }),
      ],
      nodes: [node("n1")],
      resourceclaims: [
        custom("resource.k8s.io/v1", "ResourceClaim", "t/nic", {
          status: {
            allocation: { devices: { results: [{ request: "r", driver: "dra.net", pool: "n1", device: "eth1" }] } },
            reservedFor: [{ resource: "pods", name: "a", uid: "uid-t/a" }],
          },
        }),
      ],
      resourceslices: [
        custom("resource.k8s.io/v1", "ResourceSlice", "nics", {
          spec: {
            driver: "dra.net",
            nodeName: "n1",
            pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
            devices: [{ name: "eth1" }],
          },
        }),
      ],
    },
  },
]);

const webhook = (fields: object = {}): KubeObject =>
  custom("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hook", {
    webhooks: [
      {
        name: "pods.example.com",
        failurePolicy: "Fail",
        clientConfig: { service: { namespace: "ops", name: "hook" } },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: ["CREATE"] }],
        ...fields,
      },
    ],
  });
const service = (spec: object = {}): KubeObject => custom("v1", "Service", "ops/hook", { spec });
const endpoints = (conditions: object | undefined, addresses: readonly string[] = ["10.0.0.1"]): KubeObject =>
  custom("discovery.k8s.io/v1", "EndpointSlice", "ops/hook-x", {
    metadata: { labels: { "kubernetes.io/service-name": "hook" } },
    endpoints: [{ addresses, conditions }],
  });
facts("webhook-without-backend", [
  {
    name: "the Service is not there",
    objects: { validatingwebhookconfigurations: [webhook()], services: [] },
    finds: ["validatingwebhookconfigurations/hook", "Service ops/hook, which does not exist"],
  },
  {
    name: "no endpoint is ready, and Fail is the default",
    objects: {
      mutatingwebhookconfigurations: [webhook({ failurePolicy: undefined })],
      services: [service()],
      endpointslices: [endpoints({ ready: false })],
    },
    finds: ["mutatingwebhookconfigurations/hook", "has no ready endpoint"],
  },
  {
    name: "an endpoint of unknown readiness",
    objects: {
      validatingwebhookconfigurations: [webhook()],
      services: [service()],
      endpointslices: [endpoints(undefined)],
    },
  },
  {
    name: "a webhook that may be skipped",
    objects: { validatingwebhookconfigurations: [webhook({ failurePolicy: "Ignore" })] },
  },
  {
    name: "a webhook by URL",
    objects: { validatingwebhookconfigurations: [webhook({ clientConfig: { url: "https://x" } })] },
  },
  { name: "a webhook without rules", objects: { validatingwebhookconfigurations: [webhook({ rules: null })] } },
  {
    name: "a Service outside of the cluster",
    objects: { validatingwebhookconfigurations: [webhook()], services: [service({ type: "ExternalName" })] },
  },
]);

const deleted = (apiVersion: string, kind: string, key: string, finalizers: readonly string[], at = twoHoursAgo) =>
  custom(apiVersion, kind, key, { metadata: { deletionTimestamp: at, finalizers } });
facts("finalizer-unserved", [
  {
    name: "a namespace that is kept",
    objects: {
      namespaces: [
        custom("v1", "Namespace", "old", {
          metadata: { deletionTimestamp: twoHoursAgo },
          spec: { finalizers: ["kubernetes"] },
          status: {
            conditions: [
              { type: "NamespaceFinalizersRemaining", status: "True", message: "x.example.com in 1 resource" },
            ],
          },
        }),
      ],
    },
    finds: ["namespaces/old", "kept by kubernetes: x.example.com in 1 resource"],
  },
  {
    name: "a claim with a finalizer of a driver",
    objects: { persistentvolumeclaims: [deleted("v1", "PersistentVolumeClaim", "t/data", ["driver.example.com/x"])] },
    finds: ["persistentvolumeclaims/t/data", "kept by driver.example.com/x"],
  },
  {
    name: "a volume claim in use, a recent deletion, a node that is drained",
    objects: {
      persistentvolumeclaims: [
        deleted("v1", "PersistentVolumeClaim", "t/data", ["kubernetes.io/pvc-protection"]),
        deleted("v1", "PersistentVolumeClaim", "t/new", ["driver.example.com/x"], aMinuteAgo),
      ],
      nodes: [node("n1"), deleted("v1", "Node", "n2", ["karpenter.sh/termination"])],
      pods: [pod("t/a", { node: "n2" })],
    },
  },
]);

const role = (name: string, rules: readonly object[]): KubeObject =>
  custom("rbac.authorization.k8s.io/v1", "ClusterRole", name, { rules });
const bound = (name: string, roleName: string): KubeObject =>
  custom("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name, {
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: roleName },
    subjects: [{ kind: "ServiceAccount", namespace: "sched", name: "scheduler" }],
  });
const binder = role("binder", [
  { apiGroups: [""], resources: ["pods/binding"], verbs: ["create"] },
  { apiGroups: [""], resources: ["pods", "nodes"], verbs: ["get", "list", "watch"] },
]);
const everything = role("cluster-admin", [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }]);
facts("scheduler-rights", [
  {
    name: "a scheduler is cluster-admin",
    objects: {
      clusterroles: [binder, everything],
      clusterrolebindings: [bound("binder", "binder"), bound("admin", "cluster-admin")],
    },
    finds: ["serviceaccounts/sched/scheduler", "may do everything by ClusterRoleBinding admin"],
  },
  {
    name: "a scheduler reads all Secrets",
    objects: {
      clusterroles: [binder, role("more", [{ apiGroups: [""], resources: ["secrets"], verbs: ["get", "list"] }])],
      clusterrolebindings: [bound("binder", "binder"), bound("more", "more")],
    },
    finds: ["serviceaccounts/sched/scheduler", "may read all Secrets"],
  },
  {
    name: "a scheduler with its rights, and an operator that is cluster-admin",
    objects: {
      clusterroles: [binder, everything],
      clusterrolebindings: [
        bound("binder", "binder"),
        custom("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "argo", {
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
          subjects: [{ kind: "ServiceAccount", namespace: "argocd", name: "controller" }],
        }),
        custom("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "nothing", {
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "gone" },
          subjects: null,
        }),
      ],
    },
  },
  {
    name: "a scheduler by its image is cluster-admin, as an old chart of YuniKorn makes it",
    objects: {
      pods: [
        pod("sched/yunikorn", {
          spec: {
            serviceAccountName: "scheduler",
            containers: [{ name: "main", image: "apache/yunikorn:scheduler-1.1.0" }],
          },
        }),
      ],
      nodes: [node("n1")],
      clusterroles: [everything],
      clusterrolebindings: [bound("admin", "cluster-admin")],
    },
    finds: ["serviceaccounts/sched/scheduler", "may do everything"],
  },
  {
    name: "an operator that installs a scheduler and its roles",
    objects: {
      clusterroles: [
        role("operator", [
          { apiGroups: [""], resources: ["pods/binding"], verbs: ["create"] },
          { apiGroups: [""], resources: ["secrets"], verbs: ["get", "list"] },
          { apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterroles"], verbs: ["create", "patch"] },
        ]),
      ],
      clusterrolebindings: [bound("operator", "operator")],
    },
  },
]);

test("every check has a planted fault", () => {
  expect([...tested].sort()).toEqual(auditChecks.map(({ name }) => name).sort());
});

test("a cluster without GPUs, with what every cluster has, has no finding", () => {
  const mirror = { "kubernetes.io/config.mirror": "x" };
  const look = auditLook(
    snapshotWith({
      nodes: [node("n1"), node("n2", { ready: "False" })],
      pods: [
        pod("kube-system/kube-apiserver-n1", { annotations: mirror, owner: owner("Node", "n1", "v1") }),
        pod("kube-system/kube-proxy", { owner: owner("DaemonSet", "kube-proxy", "apps/v1") }),
        pod("kube-system/coredns", { spec: { priorityClassName: "system-cluster-critical", priority: 2_000_000_000 } }),
        pod("t/done", { phase: "Succeeded", owner: owner("Job", "done"), node: "gone" }),
        pod("t/evicted", { phase: "Failed", status: { reason: "Evicted" } }),
        pod("t/leaves", { deleted: aMinuteAgo }),
        pod("t/custom", { node: "", spec: { schedulerName: "volcano" }, created: aMinuteAgo }),
        pod("t/nulls", {
          spec: { tolerations: null, affinity: null, nodeSelector: null, initContainers: null, volumes: null },
          status: { conditions: null, containerStatuses: null, initContainerStatuses: null },
        }),
        { metadata: { name: "bare", namespace: "t", uid: "uid-bare" } } as KubeObject,
      ],
      namespaces: [custom("v1", "Namespace", "leaving", { metadata: { deletionTimestamp: aMinuteAgo } })],
      clusterroles: [everything, custom("rbac.authorization.k8s.io/v1", "ClusterRole", "aggregated", { rules: null })],
      clusterrolebindings: [bound("admin", "cluster-admin")],
    }),
    auditChecks,
  );
  expect(look.checks.filter(({ findings, unknown }) => findings.length > 0 || unknown !== undefined)).toEqual([]);
});
