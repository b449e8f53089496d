/** Extended resources that are GPUs, of the vendors whose device plugins are common. */
import type { Node, Pod, PodResourceClaim } from "../../model/kubernetes.generated.ts";
import { nanoOf, podRequests } from "../../model/objects/podRequests.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { claimOfPod, claimsByKey } from "../verify/claims.ts";
import type { ClusterSnapshot } from "../verify/clusterSnapshot.ts";

const gpuResources = /^(?:nvidia\.com\/(?:gpu|mig-)|amd\.com\/gpu|gpu\.intel\.com\/|habana\.ai\/gaudi)/;

export function isGpuResource(resource: string): boolean {
  return gpuResources.test(resource);
}

/** The amounts of GPU resources that a pod has from device plugins; those that a claim provides do not count. */
export function pluginGpus(pod: Pod): ReadonlyMap<string, bigint> {
  const mappings = pod.status?.extendedResourceClaimStatus?.requestMappings ?? [];
  const amounts = new Map<string, bigint>();
  for (const [resource, amount] of podRequests(pod)) {
    if (amount === 0n || !isGpuResource(resource)) continue;
    if (!mappings.some(({ resourceName }) => resourceName === resource)) amounts.set(resource, amount);
  }
  return amounts;
}

/** Whether a pod has a GPU in any way: from a device plugin, by a claim, or a share. */
export function hasGpu(pod: Pod, snapshot: ClusterSnapshot): boolean {
  const { annotations } = pod.metadata;
  return (
    (pod.spec?.resourceClaims ?? []).some((entry) => isGpuClaim(pod, entry, snapshot)) ||
    annotations?.[annotationKeys.gpuFraction] !== undefined ||
    annotations?.[annotationKeys.gpuMemory] !== undefined ||
    [...podRequests(pod)].some(([resource, amount]) => amount > 0n && isGpuResource(resource))
  );
}

/** Drivers of GPUs are named after them: gpu.nvidia.com, gpu.amd.com, gpu.intel.com. Claims may be of network cards. */
function isGpuClaim(pod: Pod, entry: PodResourceClaim, snapshot: ClusterSnapshot): boolean {
  const named = claimOfPod(pod, entry);
  if (named.type !== "named") return false;
  const claim = claimsByKey(snapshot).get(`${pod.metadata.namespace ?? ""}/${named.name}`);
  return (claim?.status?.allocation?.devices?.results ?? []).some(({ driver }) => /\bgpu\b/.test(driver));
}

/** The units of a resource of a node. */
export function unitsOf(node: Node, amounts: "capacity" | "allocatable", resource: string): number {
  return Number(nanoOf(node.status?.[amounts]?.[resource] ?? "0") / 1_000_000_000n);
}
