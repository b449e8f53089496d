/**
 * What pods take from a node: Kubernetes' effective request (init containers, sidecars and overhead included), and the
 * devices that claims have been given there. A pod counts from the moment it has a node until it has ended for good;
 * one that is terminating, or on a lost node, still holds its GPUs.
 */
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { podRequests } from "../../model/objects/podRequests.ts";

const nanoPerUnit = 1_000_000_000n;

export function holdsItsNode(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return pod.spec?.nodeName !== undefined && pod.spec.nodeName !== "" && phase !== "Succeeded" && phase !== "Failed";
}

/** Whole units of a resource, rounded up: part of a GPU takes a GPU. Throws QuantityError on an amount that is none. */
export function unitsRequested(pod: Pod, resource: string): number {
  const nano = podRequests(pod).get(resource) ?? 0n;
  return Number((nano + nanoPerUnit - 1n) / nanoPerUnit);
}

/** A warm pod that waits for the next user: it is assigned or evicted at once. */
export function isWarm(pod: Pod): boolean {
  const labels = pod.metadata.labels;
  return labels?.["app"] === "gpu-dev-warm" && labels["warm-state"] === "ready";
}

/** A pod that runs a user's reservation. A sidecar pod that only shares the prefix of the name has another label. */
export function isReservationPod(pod: Pod): boolean {
  const app = pod.metadata.labels?.["app"];
  return app === undefined ? pod.metadata.name.startsWith("gpu-dev-") : app === "gpu-dev-pod";
}

/** Devices that claims hold, by the UID of the pod that they are reserved for. A device two pods share counts once. */
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
