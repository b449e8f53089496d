/**
 * Two allocators that do not share state can allocate one device to two claims: the API validates each claim by itself.
 *
 *   kube-scheduler                    Muster
 *   t0  sees device d free            sees device d free
 *   t1  writes d to claim b
 *   t2                                writes d to claim a: given twice
 *
 * kube-scheduler does not check again, so Muster yields. Before its own write it waits until the other scheduler has
 * been quiet for a while, and does not use devices that were allocated meanwhile. After its write and before the bind
 * it checks once more, and deallocates devices that the other scheduler had decided on before it could observe Muster's
 * write. Waiting matters more than the last check: kube-scheduler keeps allocated devices as a set, without their
 * claims, so a device that was allocated twice counts as free when one of its two claims is deallocated.
 */
import type { AllocationResult, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { claimNameOf, type ExtendedAllocation, isExtendedClaimOf } from "./claimStatus.ts";
import { hasEnded } from "./reservation.ts";

export const rivalDelays = {
  /** From the first check of a bind, where no pod of another scheduler has claims. */
  quietMs: 250,
  /** Since the last event of another scheduler's pod with claims. */
  afterOthersMs: 2_000,
  /** The longest wait. */
  mostMs: 15_000,
} as const;

/** When a bind may write the devices of its claims. */
export function mayClaimAtMs(
  sinceMs: number,
  others: { readonly lastMs: number; readonly areWaiting: boolean },
): number {
  const { quietMs, afterOthersMs, mostMs } = rivalDelays;
  const afterOthers = Math.max(others.lastMs, others.areWaiting ? sinceMs : 0) + afterOthersMs;
  return Math.min(Math.max(sinceMs + quietMs, afterOthers), sinceMs + mostMs);
}

export interface Rival {
  /** The device, as `driver/pool/device`. */
  readonly device: string;
  readonly own: ResourceClaim;
  readonly other: ResourceClaim;
}

/** A device of these claims that another claim has as well. */
export function findRival(own: readonly ResourceClaim[], all: readonly ResourceClaim[]): Rival | undefined {
  const ours = new Map<string, ResourceClaim>();
  for (const claim of own) for (const device of devicesHeldBy(claim)) ours.set(device, claim);
  const uids = new Set(own.map(({ metadata }) => metadata.uid));
  for (const other of all) {
    if (uids.has(other.metadata.uid)) continue;
    for (const device of devicesHeldBy(other)) {
      const claim = ours.get(device);
      if (claim !== undefined) return { device, own: claim, other };
    }
  }
  return undefined;
}

/** Whether another scheduler allocates devices for this pod. */
export function isOfAnother(pod: Pod, served: ReadonlySet<string>): boolean {
  const { resourceClaims = [], schedulerName = "default-scheduler" } = pod.spec ?? {};
  return resourceClaims.length > 0 && !served.has(schedulerName) && !hasEnded(pod);
}

/** The claims of a bind after its writes: with the chosen devices, where they have none yet. */
export function intendedClaims(request: BindRequest, pod: Pod, all: readonly ResourceClaim[]): ResourceClaim[] {
  const intended: ResourceClaim[] = [];
  for (const { name: entry = "", allocation } of request.spec?.resourceClaimAllocations ?? []) {
    const name = claimNameOf(pod, entry);
    const claim = all.find(
      ({ metadata }) => metadata.name === name && (metadata.namespace ?? "") === (pod.metadata.namespace ?? ""),
    );
    if (claim === undefined) continue;
    if (claim.status?.allocation !== undefined) intended.push(claim);
    else if (allocation !== undefined && allocation !== null) {
      intended.push({ ...claim, status: { ...claim.status, allocation: allocation as AllocationResult } });
    }
  }
  const extended = request.spec?.extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  const chosen = extended?.allocation;
  if (chosen !== undefined) {
    const claim = all.find((each) => isExtendedClaimOf(each, pod));
    const metadata = claim?.metadata ?? { name: pod.metadata.name, uid: "", resourceVersion: "" };
    intended.push({ ...claim, metadata, spec: {}, status: { allocation: chosen } } as ResourceClaim);
  }
  return intended;
}

/** Devices that no other claim may have: not those with admin access, nor shares of a device. */
function devicesHeldBy({ status }: ResourceClaim): string[] {
  const results = status?.allocation?.devices?.results ?? [];
  return results
    .filter(({ adminAccess, shareID }) => adminAccess !== true && shareID === undefined)
    .map(({ driver, pool, device }) => `${driver}/${pool}/${device}`);
}

export function rivalWhy({ device, own, other }: Rival): string {
  const { namespace = "", name } = other.metadata;
  return `device ${device} of claim ${own.metadata.name} was allocated to claim ${namespace}/${name} at the same time, by another scheduler`;
}
