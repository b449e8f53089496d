import type { RefusalReason as DeviceRefusal } from "../../decide/devices/refusalReason.ts";
import { sentenceOf, type Verdict } from "../../decide/schedule/explain/verdict.ts";
import type { Revision } from "../../model/revision.ts";

/** The reason that conditions and events report about one job. */
export interface Reason {
  readonly verdict: Verdict;
  readonly sentence: string;
  /** The revision that it was found at. */
  readonly revision: Revision;
  /** Identifies its pending pods. */
  readonly waiting: string;
}

/** A verdict about a job, or about the pods of a group that does not exist. */
export interface Found {
  /** `namespace/name` of the group, or the UID of a pod without one. */
  readonly id: string;
  readonly verdict: Verdict;
  /** Identifies the pending pods. */
  readonly waiting: string;
}

interface Entry {
  reason: Reason;
  /** The last cycle that found it. */
  round: number;
}

/** Why each job is pending, by the last cycle. A job without an entry is not pending. */
export class PendingReasons {
  private readonly byJob = new Map<string, Entry>();
  private readonly byNamespace = new Map<string, number>();
  private round = 0;
  /** Jobs whose reason holds for one cycle only. */
  private unheld: ReadonlySet<string> = new Set();
  private readonly push: (key: string) => void;
  private readonly onRefusal: (id: string, refusal: DeviceRefusal) => void;
  private broken: ReadonlyMap<string, string> = new Map();

  /**
   * `push` gets the id of every job whose reason was added, changed or removed. `onRefusal` gets the jobs that begin to
   * wait for devices of claims, or that wait for them with other pods or for another reason than before.
   */
  constructor(push: (key: string) => void, onRefusal: (id: string, refusal: DeviceRefusal) => void = () => {}) {
    this.push = push;
    this.onRefusal = onRefusal;
  }

  /** How many cycles have reported to it. */
  get cycles(): number {
    return this.round;
  }

  get size(): number {
    return this.byJob.size;
  }

  /** How many jobs of the same namespace are pending. */
  countBeside(jobId: string): number {
    return this.byNamespace.get(namespaceOf(jobId)) ?? 0;
  }

  get(jobId: string): Reason | undefined {
    return this.byJob.get(jobId)?.reason;
  }

  /**
   * Whether the last cycle found no node for a pod that was nominated. A pod without a verdict may have a bind in
   * flight.
   */
  isBroken(uid: string): boolean {
    return this.broken.has(uid);
  }

  /**
   * The UIDs of pods whose nomination cannot be met, with their jobs. Set before the first write of a cycle, because
   * nominations of that cycle must not be cleared.
   */
  noteBroken(broken: ReadonlyMap<string, string>): void {
    for (const [uid, id] of broken) if (!this.broken.has(uid)) this.push(id);
    this.broken = broken;
  }

  /**
   * Takes over the reasons that a cycle has found, and removes those that it did not find again. `released`: jobs that
   * were tried, have changed or have ended; `isHeld`: whether the reason of a job still holds without a try.
   */
  note(
    revision: Revision,
    found: readonly Found[],
    { released, isHeld }: { readonly released: ReadonlySet<string>; readonly isHeld: (id: string) => boolean },
  ): void {
    this.round++;
    for (const { id, verdict, waiting } of found) {
      const known = this.byJob.get(id);
      if (known !== undefined) known.round = this.round;
      // Other pods of the job may be pending by now, and each of them gets the condition.
      if (known?.reason.waiting === waiting && isSame(known.reason, verdict)) continue;
      const { refusal } = verdict;
      if (refusal !== undefined && (known?.reason.waiting !== waiting || known.reason.verdict.refusal !== refusal))
        this.onRefusal(id, refusal);
      const reason = { verdict, sentence: sentenceOf(verdict), revision, waiting };
      if (known !== undefined) known.reason = reason;
      else {
        this.byJob.set(id, { reason, round: this.round });
        this.count(id, 1);
      }
      this.push(id);
    }
    for (const ids of [this.unheld, released]) {
      for (const id of ids) {
        const known = this.byJob.get(id);
        if (known === undefined || known.round === this.round || isHeld(id)) continue;
        this.byJob.delete(id);
        this.count(id, -1);
        this.push(id);
      }
    }
    this.unheld = new Set(found.map(({ id }) => id).filter((id) => !isHeld(id)));
  }

  private count(id: string, by: number): void {
    const namespace = namespaceOf(id);
    const count = (this.byNamespace.get(namespace) ?? 0) + by;
    if (count === 0) this.byNamespace.delete(namespace);
    else this.byNamespace.set(namespace, count);
  }
}

function namespaceOf(jobId: string): string {
  return jobId.slice(0, Math.max(0, jobId.indexOf("/")));
}

function isSame(known: Reason, verdict: Verdict): boolean {
  if (known.verdict === verdict) return true;
  return known.verdict.reason === verdict.reason && known.sentence === sentenceOf(verdict);
}
