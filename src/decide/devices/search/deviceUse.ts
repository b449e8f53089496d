/** The devices of a claim, as keys of the ledger: one for each device or share. */
import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { parseQuantity } from "../../../model/values/quantity.ts";
import type { Effect } from "../../../snapshot/ledger.ts";
import { deviceKey } from "./poolDevice.ts";

/** One device, or one share of it, that is allocated to one claim. */
export interface DeviceUse {
  readonly device: string;
  readonly claimUid: string;
  /** Undefined: the whole device. */
  readonly shareId: string | undefined;
  readonly consumed: Readonly<Record<string, string>> | undefined;
}

export function usesOf(claim: ResourceClaim): DeviceUse[] {
  const uses: DeviceUse[] = [];
  for (const result of claim.status?.allocation?.devices?.results ?? []) {
    // Admin access holds no device.
    if (result.adminAccess === true) continue;
    uses.push({
      device: deviceKey(result),
      claimUid: claim.metadata.uid,
      shareId: result.shareID,
      consumed: result.consumedCapacity,
    });
  }
  return uses;
}

/** The one node on which the claim's devices are, where there is only one. */
export function nodeOfAllocation(claim: ResourceClaim): string | undefined {
  for (const { matchFields = [] } of claim.status?.allocation?.nodeSelector?.nodeSelectorTerms ?? []) {
    const name = matchFields.find(({ key, operator }) => key === "metadata.name" && operator === "In");
    if (name?.values?.length === 1) return name.values[0];
  }
  return undefined;
}

/** A whole device has one key for all claims; a share has a key of its own. */
export function useKey({ device, shareId }: DeviceUse): string {
  return shareId === undefined ? device : `${device} ${shareId}`;
}

/** The effects of a claim in an assume cache. */
export function deviceEffects(claim: KubeObject): readonly Effect<DeviceUse>[] {
  return usesOf(claim as ResourceClaim).map((value) => ({ key: useKey(value), value }));
}

/** The total consumed capacity of the uses: by name, in billionths. */
export function sumOf(uses: Iterable<Pick<DeviceUse, "consumed">>): Map<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const { consumed } of uses) {
    for (const [name, amount] of Object.entries(consumed ?? {})) {
      sums.set(name, (sums.get(name) ?? 0n) + parseQuantity(amount).nano);
    }
  }
  return sums;
}
