/**
 * A physical GPU is with one holder: a pod that got it from the device plugin, a reservation that keeps it for shares,
 * or claims.
 */
import type { Pod, ResourceClaim, ResourceSlice } from "../../../model/kubernetes.generated.ts";
import { nanoOf, podRequests } from "../../../model/objects/podRequests.ts";
import { isPluginGpu, NodeGpus, reportedGpus } from "../../devices/physicalGpus.ts";
import { usesOf } from "../../devices/search/deviceUse.ts";
import { deviceKey } from "../../devices/search/poolDevice.ts";
import { type Check, type Evidence, judged, notApplicable } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { compareText, placementOf, podName } from "../placement.ts";

export const gpusOnce: Check = {
  id: "S16",
  title: "a GPU is given out one way at a time: by the device plugin, by a claim, or in shares",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "resourceclaims", "resourceslices"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "resourceclaims") || !isServed(snapshot, "resourceslices")) {
      return notApplicable("resource.k8s.io is not served");
    }
    const evidence: Evidence[] = [];
    const claimed = claimedDevices(snapshot);
    let gpus = 0;
    for (const [name, slices] of [...slicesByNode(snapshot)].sort(([a], [b]) => compareText(a, b))) {
      const node = placementOf(snapshot).nodes.get(name);
      const known = new NodeGpus(node, slices);
      const held = [...known.keys()].filter((key) => claimed.has(key));
      const pods = placementOf(snapshot).liveByNode.get(name) ?? [];
      gpus += new Set([...known.keys()].map((key) => known.gpuOf(key))).size;
      for (const key of held) {
        for (const pod of pods) {
          if (!known.isAmong(key, reportedGpus(pod))) continue;
          const problem = `has GPU ${known.idOf(key)} of node ${name} from the device plugin, and claim ${claimed.get(key)} has it as ${key}`;
          evidence.push({ object: podName(pod), problem });
        }
      }
      for (const [resource, units] of known.unitsOf(held)) {
        const has = nanoOf(node?.status?.allocatable?.[resource] ?? "0") / 1_000_000_000n;
        const asked = pods.reduce((sum, pod) => sum + pluginAmount(pod, resource), 0n) / 1_000_000_000n;
        if (asked + BigInt(units) <= has) continue;
        const problem = `${asked} of ${resource} are with pods and ${units} in claims, and there are ${has}`;
        evidence.push({ object: `nodes/${name}`, problem });
      }
    }
    return judged(evidence, `${gpus} GPUs, ${claimed.size} devices in claims`);
  },
};

/** What a pod has from the device plugin; what a claim serves is not the plugin's. */
function pluginAmount(pod: Pod, resource: string): bigint {
  const { requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
  if (!isPluginGpu(resource) || requestMappings.some(({ resourceName }) => resourceName === resource)) return 0n;
  return podRequests(pod).get(resource) ?? 0n;
}

/** By the key of a device: the claim that has it. */
function claimedDevices(snapshot: ClusterSnapshot): Map<string, string> {
  const claimed = new Map<string, string>();
  for (const claim of objectsOf<ResourceClaim>(snapshot, "resourceclaims")) {
    for (const { device } of usesOf(claim)) claimed.set(device, `${claim.metadata.namespace}/${claim.metadata.name}`);
  }
  return claimed;
}

/** The newest generation of each pool, by the node that it is of. */
function slicesByNode(snapshot: ClusterSnapshot): Map<string, ResourceSlice[]> {
  const slices = objectsOf<ResourceSlice>(snapshot, "resourceslices");
  const poolOf = ({ spec }: ResourceSlice): string =>
    deviceKey({ driver: spec.driver, pool: spec.pool.name, device: "" });
  const newest = new Map<string, number>();
  for (const slice of slices) {
    newest.set(poolOf(slice), Math.max(newest.get(poolOf(slice)) ?? 0, slice.spec.pool.generation));
  }
  const byNode = new Map<string, ResourceSlice[]>();
  for (const slice of slices) {
    const { nodeName, pool } = slice.spec;
    if (nodeName === undefined || newest.get(poolOf(slice)) !== pool.generation) continue;
    byNode.set(nodeName, [...(byNode.get(nodeName) ?? []), slice]);
  }
  return byNode;
}
