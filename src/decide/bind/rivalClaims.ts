/**
 * Two allocators that do not know of each other can give one device to two claims: the API checks each claim alone.
 *
 *   kube-scheduler                    Muster
 *   t0  sees device d free            sees device d free
 *   t1  writes d to claim b
 *   t2                                writes d to claim a: given twice
 *
 * The other one never looks again, so Muster gives way. Before its own write it waits until the other one has been
 * quiet for a while, and does not take what was given out meanwhile. After its write and before the bind it looks once
 * more, and gives back what the other one had decided on before it could see our write. Waiting matters more than the
 * last look: kube-scheduler remembers devices as a set, without their claims, and takes a device that was given twice
 * for free when one of its two claims gives it back.
 */
import type { AllocationResult, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { claimNameOf, type ExtendedAllocation, isExtendedClaimOf } from "./claimStatus.ts";
import { hasEnded } from "./reservation.ts";

export const rivalPatience = {
  /** From the first look of a bind, where no other scheduler has anything to allocate. */
  quietMs: 250,
  /** Since the last sign of a pod of the other scheduler that has claims. */
  afterOthersMs: 2_000,
  /** The longest wait. */
  mostMs: 15_000,
} as const;

/** When a bind may write the devices of its claims. */
export function mayClaimAtMs(
  sinceMs: number,
  others: { readonly lastMs: number; readonly areWaiting: boolean },
): number {
  const { quietMs, afterOthersMs, mostMs } = rivalPatience;
  const afterOthers = Math.max(others.lastMs, others.areWaiting ? sinceMs : 0) + afterOthersMs;
  return Math.min(Math.max(sinceMs + quietMs, afterOthers), sinceMs + mostMs);
}

export interface Rival {
  /** The device, as `driver/pool/device`. */
  readonly device: string;
  readonly own: ResourceClaim;
  readonly other: ResourceClaim;
}

/** A device of these claims that another claim has, too. */
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

/** Whether another scheduler gives devices to this pod. */
export function isOfAnother(pod: Pod, served: ReadonlySet<string>): boolean {
  const { resourceClaims = [], schedulerName = "default-scheduler" } = pod.spec ?? {};
  return resourceClaims.length > 0 && !served.has(schedulerName) && !hasEnded(pod);
}

/** The claims of a bind as they are going to be: with the devices that were chosen, where they have none yet. */
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

/** Those that no other claim may have: not what an administrator looks at, nor a part of a device that is shared. */
function devicesHeldBy({ status }: ResourceClaim): string[] {
  const results = status?.allocation?.devices?.results ?? [];
  return results
    .filter(({ adminAccess, shareID }) => adminAccess !== true && shareID === undefined)
    .map(({ driver, pool, device }) => `${driver}/${pool}/${device}`);
}

export function rivalWhy({ device, own, other }: Rival): string {
  const { namespace = "", name } = other.metadata;
  return `device ${device} of claim ${own.metadata.name} was given to claim ${namespace}/${name} at the same time, by another scheduler`;
}
