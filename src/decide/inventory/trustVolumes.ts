/**
 * Whether a listing of volumes can be believed. The wrong region, account or credentials answer with an empty list and
 * no error; acting on it would free every disk at once.
 */
import type { CloudIdentity } from "../../model/inventory/cloud.ts";

export interface TrustRules {
  /** The part of the volumes that may be gone since the last reading. */
  readonly dropMax: number;
  /** Fewer than this are never a suspicious number to lose, unless all are gone. */
  readonly dropCountMin: number;
}

export const trustRulesDefault: TrustRules = { dropMax: 0.3, dropCountMin: 5 };

/** The last listing that was believed: whether its run succeeded in everything else does not matter. */
export interface LastReading {
  readonly volumes: number;
  readonly identity: CloudIdentity;
}

/** Why not, or undefined. */
export function whyNotTrusted(
  seen: {
    readonly volumes: number;
    readonly liveLinkedRows: number;
    /** Disks in use that have a volume, and those of them whose volume is listed. */
    readonly inUse: { readonly rows: number; readonly listed: number };
    readonly identity: CloudIdentity;
  },
  last: LastReading | undefined,
  rules: TrustRules,
): string | undefined {
  const { volumes, liveLinkedRows, inUse, identity } = seen;
  if (last !== undefined && last.identity.account !== identity.account) {
    return `this is account ${identity.account}; the last reading was of ${last.identity.account}`;
  }
  if (last !== undefined && last.identity.region !== identity.region) {
    return `this is region ${identity.region}; the last reading was of ${last.identity.region}`;
  }
  // Disks at rest have no volume, so none at all can be true; but a person has to confirm it once.
  if (volumes === 0 && liveLinkedRows > 0 && last?.volumes !== 0) {
    return `the cloud lists no volume, and ${liveLinkedRows} disks have one`;
  }
  if (last === undefined) {
    // The first reading over tables that exist has only the rows to be compared with. Disks at rest have no volume;
    // disks in use have.
    return isDrop(inUse.rows, inUse.listed, rules)
      ? `${inUse.rows} disks are in use, and the cloud lists the volumes of ${inUse.listed} of them`
      : undefined;
  }
  return isDrop(last.volumes, volumes, rules)
    ? `the cloud lists ${volumes} volumes; the last reading had ${last.volumes}`
    : undefined;
}

function isDrop(before: number, now: number, { dropMax, dropCountMin }: TrustRules): boolean {
  const lost = before - now;
  return lost >= dropCountMin && lost > before * dropMax;
}
