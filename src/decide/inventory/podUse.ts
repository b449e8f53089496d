/**
 * What pods use on a node: the effective request (init containers, sidecars and overhead included) and the devices of
 * their claims. A pod counts from its binding until it is Succeeded or Failed; a terminating pod, or one on a lost
 * node, still holds its GPUs.
 */
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { podRequests } from "../../model/objects/podRequests.ts";

const nanoPerUnit = 1_000_000_000n;

export function holdsItsNode(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return pod.spec?.nodeName !== undefined && pod.spec.nodeName !== "" && phase !== "Succeeded" && phase !== "Failed";
}

/**
 * Units of a resource, rounded up: a fraction of a GPU counts as one GPU. Throws QuantityError if the amount cannot be
 * parsed.
 */
export function unitsRequested(pod: Pod, resource: string): number {
  const nano = podRequests(pod).get(resource) ?? 0n;
  return Number((nano + nanoPerUnit - 1n) / nanoPerUnit);
}

/** A warm pod is idle until a user gets it, and can be evicted at any time. */
export function isWarm(pod: Pod): boolean {
  const labels = pod.metadata.labels;
  return labels?.["app"] === "gpu-dev-warm" && labels["warm-state"] === "ready";
}

/** A pod that runs a user's reservation. A sidecar pod that only shares the prefix of the name has another label. */
export function isReservationPod(pod: Pod): boolean {
  const app = pod.metadata.labels?.["app"];
  return app === undefined ? pod.metadata.name.startsWith("gpu-dev-") : app === "gpu-dev-pod";
}

/**
 * Devices that claims hold, by the UID of the pod that they are reserved for. A device that two pods share counts once.
 */
export function claimedDevices(claims: readonly ResourceClaim[], drivers: readonly string[]): Map<string, string[]> {
  const byPod = new Map<string, string[]>();
  for (const claim of claims) {
    const results = claim.status?.allocation?.devices?.results ?? [];
    const devices = results
      .filter(({ driver, adminAccess }) => drivers.includes(driver) && adminAccess !== true)
      .map(({ driver, pool, device }) => `${driver}/${pool}/${device}`);
    if (devices.length === 0) continue;
    for (const { resource, uid } of claim.status?.reservedFor ?? []) {
      if (resource !== "pods") continue;
      byPod.set(uid, [...(byPod.get(uid) ?? []), ...devices]);
    }
  }
  return byPod;
}
