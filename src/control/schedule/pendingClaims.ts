import { deleteProtection } from "../../decide/devices/podClaims.ts";
import type { AllocationResult, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { DeviceWorld } from "../devices/deviceWorld.ts";

/** Devices that were chosen for an entry of a pod's claims. */
export interface ChosenDevices {
  readonly name: string;
  readonly allocation: unknown;
}

/**
 * Devices that were chosen for pods and are not in their claims yet count as taken, for everybody in the process who gives devices away: from
 * the moment of the decision until the BindRequest that carries them is gone.
 */
export class PendingClaims {
  private readonly devices: DeviceWorld;
  private readonly podOf: (uid: string) => Pod | undefined;
  private readonly wanted = new Map<string, readonly ChosenDevices[]>();
  /** By pod: the UIDs of the claims that count because of it. */
  private readonly counted = new Map<string, readonly string[]>();
  /** Pods of which a claim is not known yet, though somebody has chosen devices for it. */
  private readonly unsettled = new Set<string>();

  constructor(devices: DeviceWorld, podOf: (uid: string) => Pod | undefined) {
    this.devices = devices;
    this.podOf = podOf;
    devices.claims.onChanges(() => {
      for (const uid of [...this.unsettled]) this.settle(uid);
    });
  }

  /** What the picture has for a pod now. */
  set(uid: string, chosen: readonly ChosenDevices[]): void {
    if (chosen.length === 0 && !this.wanted.has(uid)) return;
    if (chosen.length === 0) this.wanted.delete(uid);
    else this.wanted.set(uid, chosen);
    this.settle(uid);
  }

  /** New ones first: a device that stays chosen is free at no moment. */
  private settle(uid: string): void {
    const { tracker } = this.devices;
    this.unsettled.delete(uid);
    const before = this.counted.get(uid) ?? [];
    const after: string[] = [];
    const wanted = this.wanted.get(uid);
    const pod = wanted === undefined ? undefined : this.podOf(uid);
    for (const { name, allocation } of wanted ?? []) {
      const claim = pod === undefined ? undefined : this.claimOf(pod, name);
      if (claim === undefined) {
        this.unsettled.add(uid);
        continue;
      }
      after.push(claim.metadata.uid);
      if (before.includes(claim.metadata.uid)) continue;
      tracker.signalClaimPendingAllocation(withAllocation(claim, allocation as AllocationResult), uid);
    }
    for (const claimUid of before) {
      if (!after.includes(claimUid)) tracker.removeClaimPendingAllocation(claimUid, uid);
    }
    if (after.length === 0) this.counted.delete(uid);
    else this.counted.set(uid, after);
  }

  private claimOf(pod: Pod, entry: string): ResourceClaim | undefined {
    const named = pod.spec?.resourceClaims?.find(({ name }) => name === entry)?.resourceClaimName;
    const made = pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
    const name = named ?? made;
    return name === undefined ? undefined : this.devices.tracker.get(pod.metadata.namespace ?? "", name);
  }
}

function withAllocation(claim: ResourceClaim, allocation: AllocationResult): ResourceClaim {
  const finalizers = [...new Set([...(claim.metadata.finalizers ?? []), deleteProtection])];
  return { ...claim, metadata: { ...claim.metadata, finalizers }, status: { ...claim.status, allocation } };
}
