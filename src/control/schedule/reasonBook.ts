import { sentenceOf, type Verdict } from "../../decide/schedule/verdict.ts";
import type { Revision } from "../../model/revision.ts";

/** What is told about one job. */
export interface Reason {
  readonly verdict: Verdict;
  readonly sentence: string;
  /** The revision that it was found at. */
  readonly revision: Revision;
  /** Which of its pods wait. */
  readonly waiting: string;
}

/** A verdict about a job, or about the pods of a group that is not there. */
export interface Found {
  /** `namespace/name` of the group, or the UID of a pod without one. */
  readonly id: string;
  readonly verdict: Verdict;
  /** Which pods wait: another text, others. */
  readonly waiting: string;
}

/** Why each job waits, as the last cycle found it. Whoever is not in it has no reason to wait. */
export class ReasonBook {
  private readonly byJob = new Map<string, Reason>();
  private readonly push: (key: string) => void;
  private broken: ReadonlyMap<string, string> = new Map();

  /** `push` is told the id of every job whose reason came, changed or went. */
  constructor(push: (key: string) => void) {
    this.push = push;
  }

  get size(): number {
    return this.byJob.size;
  }

  get(jobId: string): Reason | undefined {
    return this.byJob.get(jobId);
  }

  /**
   * Whether the last cycle had no place for a pod that was promised one. That it says nothing about the pod proves nothing: its bind may have
   * been on its way.
   */
  isBroken(uid: string): boolean {
    return this.broken.has(uid);
  }

  /**
   * The UIDs of pods that were promised a place and have none, with their jobs. Known before the first write of a cycle: what that promises anew
   * must not be taken back.
   */
  noteBroken(broken: ReadonlyMap<string, string>): void {
    for (const [uid, id] of broken) if (!this.broken.has(uid)) this.push(id);
    this.broken = broken;
  }

  /** Replaces everything by what a cycle found. */
  note(revision: Revision, found: readonly Found[]): void {
    const now = new Set<string>();
    for (const { id, verdict, waiting } of found) {
      now.add(id);
      const sentence = sentenceOf(verdict);
      const known = this.byJob.get(id);
      // Other pods of it may wait by now, and each of them says why.
      const isSame = known?.sentence === sentence && known.verdict.reason === verdict.reason;
      if (isSame && known?.waiting === waiting) continue;
      this.byJob.set(id, { verdict, sentence, revision, waiting });
      this.push(id);
    }
    for (const id of [...this.byJob.keys()]) {
      if (now.has(id)) continue;
      this.byJob.delete(id);
      this.push(id);
    }
  }
}
