/**
 * Whether a list of volumes can be trusted. With the wrong region, account or credentials the cloud returns an empty
 * list and no error; acting on it would release every disk at once.
 */
import type { CloudIdentity } from "../../model/inventory/cloud.ts";

export interface TrustRules {
  /** The fraction of volumes that may be missing since the last trusted list. */
  readonly dropMax: number;
  /** Fewer missing volumes than this are accepted, unless all are missing. */
  readonly dropCountMin: number;
}

export const trustRulesDefault: TrustRules = { dropMax: 0.3, dropCountMin: 5 };

/** The last list of volumes that was trusted, whether or not the rest of its run succeeded. */
export interface LastTrustedList {
  readonly volumes: number;
  readonly identity: CloudIdentity;
}

/** Why the list is not trusted; undefined when it is. */
export function whyVolumesNotTrusted(
  seen: {
    readonly volumes: number;
    readonly liveLinkedRows: number;
    /** Disks in use that have a volume, and those of them whose volume is listed. */
    readonly inUse: { readonly rows: number; readonly listed: number };
    readonly identity: CloudIdentity;
  },
  last: LastTrustedList | undefined,
  rules: TrustRules,
): string | undefined {
  const { volumes, liveLinkedRows, inUse, identity } = seen;
  if (last !== undefined && last.identity.account !== identity.account) {
    return `the credentials are of account ${identity.account}; the last run read account ${last.identity.account}`;
  }
  if (last !== undefined && last.identity.region !== identity.region) {
    return `the region is ${identity.region}; the last run read region ${last.identity.region}`;
  }
  // Idle disks have no volume, so an empty list can be right, but an operator has to confirm it once.
  if (volumes === 0 && liveLinkedRows > 0 && last?.volumes !== 0) {
    return `the cloud lists no volumes, and ${liveLinkedRows} disks have one in the database`;
  }
  if (last === undefined) {
    // The first run over existing tables can only compare with the rows. Idle disks have no volume; disks in use have
    // one.
    return isDrop(inUse.rows, inUse.listed, rules)
      ? `${inUse.rows} disks are in use, and the cloud lists the volumes of ${inUse.listed} of them`
      : undefined;
  }
  return isDrop(last.volumes, volumes, rules)
    ? `the cloud lists ${volumes} volumes; the last run read ${last.volumes}`
    : undefined;
}

function isDrop(before: number, now: number, { dropMax, dropCountMin }: TrustRules): boolean {
  const lost = before - now;
  return lost >= dropCountMin && lost > before * dropMax;
}
