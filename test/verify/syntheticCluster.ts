/** One cluster with a bit of everything that a report has words for. */
import { type ClusterSnapshot, clusterSnapshot, type SnapshotKind } from "../../src/decide/verify/clusterSnapshot.ts";
import { allKinds, type KindName, readKind } from "../../src/decide/verify/readKinds.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { custom, event, job, node, owner, pod, refusedBy, startMs } from "./builders.ts";

/** Kinds that are not named exist and are empty if every cluster has them, and are not served otherwise. */
export function snapshotWith(objects: { readonly [K in KindName]?: readonly KubeObject[] }): ClusterSnapshot {
  const kinds = new Map<KindName, SnapshotKind>();
  for (const name of allKinds) {
    const { group, versions, plural, builtin } = readKind(name);
    const served = builtin === true || objects[name] !== undefined;
    kinds.set(name, { group, version: versions[0], plural, revision: "4711", served, objects: objects[name] ?? [] });
  }
  return clusterSnapshot("4711", startMs, kinds);
}

const gpuLabels = {
  "nvidia.com/gpu.present": "true",
  "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
  "nvidia.com/gpu.count": "8",
  "nvidia.com/gpu.memory": "81559",
};
const gpuNode = (name: string): KubeObject =>
  node(name, {
    labels: gpuLabels,
    allocatable: { "nvidia.com/gpu": "8" },
    annotations: { "sim.muster.dev/profile": "h100" },
  });

const noGpu =
  "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient nvidia.com/gpu.";
const greedy = pod("train/nine-gpus", {
  node: "",
  requests: { cpu: "4", memory: "32Gi", "nvidia.com/gpu": "9" },
  status: refusedBy(noGpu),
});
const coredns = pod("kube-system/coredns-7d", {
  node: "",
  status: refusedBy("untolerated taint {nfd-excluded: true}"),
});

const hook = job("web/migrate", { annotations: { "helm.sh/hook": "pre-upgrade" } });
const retried = job("train/prepare", { status: { active: 1, failed: 1 } });

const healthy: readonly KubeObject[] = [
  coredns,
  pod("local-path-storage/provisioner-0", { node: "" }),
  pod("argocd/argocd-server-0", { node: "system-0" }),
  pod("train/worker-0", { node: "gpu-0", requests: { "nvidia.com/gpu": "4" } }),
  pod("train/worker-1", { node: "gpu-1", requests: { "nvidia.com/gpu": "4" } }),
  pod("train/prepare-1", { node: "gpu-0", phase: "Failed", owner: owner("Job", "prepare") }),
  pod("train/prepare-2", { node: "gpu-0", owner: owner("Job", "prepare") }),
  pod("web/front-0", {
    node: "system-0",
    phase: "Pending",
    status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ContainerCreating" } } }] },
  }),
  pod("web/migrate-x", { node: "", owner: owner("Job", "migrate") }),
  pod("web/report-done", { node: "system-0", phase: "Succeeded" }),
];

const broken: readonly KubeObject[] = [
  greedy,
  pod("web/<script>&", {
    node: "system-0",
    phase: "Failed",
    status: {
      message: "container main | exited\nwith \u0007 137",
      containerStatuses: [{ name: "main", state: { terminated: { exitCode: 137, reason: "OOMKilled" } } }],
    },
  }),
];

const rest = {
  nodes: [gpuNode("gpu-0"), gpuNode("gpu-1"), node("system-0")],
  jobs: [hook, retried],
  podgroups: [custom("scheduling.run.ai/v2alpha2", "PodGroup", "train/workers", { spec: { minMember: 2 } })],
};

export const healthyCluster: ClusterSnapshot = snapshotWith({ ...rest, pods: healthy });

export const brokenCluster: ClusterSnapshot = snapshotWith({
  ...rest,
  pods: [...healthy, ...broken],
  events: [
    event(greedy, "FailedScheduling", noGpu, "2026-05-28T11:58:00Z"),
    event(greedy, "FailedScheduling", noGpu, "2026-05-28T11:59:00Z"),
    event(coredns, "FailedScheduling", "untolerated taint {nfd-excluded: true}", "2026-05-28T11:59:30Z"),
  ],
});
