/**
 * How long findings have held. A finding is reported when every snapshot had it for as long as the components involved
 * may need to resolve it:
 *
 *   snapshot       0 s         15 s         60 s
 *   finding A      since 0     -            since 60     a component was at work: not reported
 *   finding B      since 0     held 15 s    held 60 s    reported if its check settles within 60 s
 */
import type { AuditCheck } from "./auditCheck.ts";
import { type AuditLook, findingKey } from "./auditLook.ts";

/** A finding of the latest snapshot. */
export interface HeldFinding {
  readonly key: string;
  readonly check: AuditCheck;
  readonly object: string;
  readonly problem: string;
  readonly sinceMs: number;
  /** From its first snapshot to the latest one. */
  readonly heldMs: number;
  /** It has held for as long as it must. */
  readonly persists: boolean;
}

export class Persistence {
  /** How long each finding must hold; undefined is the time of its check. */
  private readonly settleMs: number | undefined;
  private since = new Map<string, number>();
  private held: readonly HeldFinding[] = [];

  constructor(settleMs?: number) {
    this.settleMs = settleMs;
  }

  /** Takes in the next snapshot. What a check that is unknown now has found before keeps its time. */
  record(look: AuditLook, nowMs: number): void {
    const since = new Map<string, number>();
    const held: HeldFinding[] = [];
    for (const { check, findings, unknown } of look.checks) {
      if (unknown !== undefined) {
        for (const [key, ms] of this.since) if (key.startsWith(`${check.name} `)) since.set(key, ms);
        continue;
      }
      const needMs = this.settleMs ?? check.settleMs;
      for (const finding of findings) {
        const key = findingKey(check, finding);
        const sinceMs = this.since.get(key) ?? nowMs;
        since.set(key, sinceMs);
        const heldMs = nowMs - sinceMs;
        held.push({ key, check, ...finding, sinceMs, heldMs, persists: heldMs >= needMs });
      }
    }
    this.since = since;
    this.held = held;
  }

  /** The findings of the latest snapshot, in the order of the checks. */
  get findings(): readonly HeldFinding[] {
    return this.held;
  }

  /** How long until the last of the findings that were there at `sinceMs` has held as long as it must. */
  leftMs(sinceMs: number): number {
    const open = this.held.filter((finding) => !finding.persists && finding.sinceMs <= sinceMs);
    return open.reduce((left, { check, heldMs }) => Math.max(left, (this.settleMs ?? check.settleMs) - heldMs), 0);
  }
}
