/** The checks on one snapshot: what is found, and which checks could not be carried out. */
import type { Evidence } from "../verify/check.ts";
import type { ClusterSnapshot } from "../verify/clusterSnapshot.ts";
import type { AuditCheck } from "./auditCheck.ts";

export interface AuditLook {
  readonly snapshot: ClusterSnapshot;
  /** In the order of the checks. */
  readonly checks: readonly CheckLook[];
}

export interface CheckLook {
  readonly check: AuditCheck;
  readonly findings: readonly Evidence[];
  /** Why the check says nothing; undefined when it was carried out. */
  readonly unknown?: string;
}

export function auditLook(snapshot: ClusterSnapshot, checks: readonly AuditCheck[]): AuditLook {
  return { snapshot, checks: checks.map((check) => lookOf(check, snapshot)) };
}

function lookOf(check: AuditCheck, snapshot: ClusterSnapshot): CheckLook {
  const unknown = (why: string): CheckLook => ({ check, findings: [], unknown: why });
  for (const kind of check.needs) {
    const read = snapshot.kinds.get(kind);
    if (read === undefined) return unknown(`the snapshot was taken without ${kind}`);
    if (read.refused !== undefined) return unknown(`${kind} may not be listed: ${read.refused}`);
  }
  let findings: readonly Evidence[];
  try {
    findings = check.find(snapshot);
  } catch (error) {
    return unknown(`the check ended with an error: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (findings.length === 0) return { check, findings };
  // Objects of two revisions may contradict each other without a fault.
  for (const kind of check.needs) {
    const read = snapshot.kinds.get(kind);
    if (read?.served === true && read.revision !== snapshot.revision)
      return unknown(`${kind} could only be read at revision ${read.revision}, and the others at ${snapshot.revision}`);
  }
  return { check, findings };
}

/** The identity of a finding between two snapshots. Numbers in its text may differ: ages and counts change. */
export function findingKey({ name }: AuditCheck, { object, problem }: Evidence): string {
  return `${name} ${object} ${problem.replace(/\d+/g, "#")}`;
}
