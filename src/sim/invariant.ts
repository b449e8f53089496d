import type { ObjectStore } from "../apiserver/storage/objectStore.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { CallRecord, Commit } from "./history.ts";

/** Something that must hold after every commit, whatever the order of events: a small named fact with its number. */
export interface Invariant {
  /** I1 to I22, as the field's list numbers them. */
  readonly id: string;
  /** The fact, as a sentence. */
  readonly fact: string;
  /** Begins to watch a run. What it keeps belongs to that run. */
  begin(run: ObservedRun): Checks;
}

/** What an invariant may read besides its input. */
export interface ObservedRun {
  readonly store: ObjectStore;
  nowUs(): number;
  /** The time on a process's own clock. */
  nowMsOf(actor: string): number;
}

/** Each check returns what is wrong, or undefined. It is called only for what was touched. */
export interface Checks {
  commit?(commit: Commit): string | undefined;
  /** A call leaves its author. */
  sent?(call: CallRecord): string | undefined;
  /** An answer or an event reached a process. */
  learned?(actor: string, life: number, told: Told): void;
  /**
   * Nothing comes of a call any more that has not come by now: the server has decided about it, or it was lost on its
   * way.
   */
  over?(call: CallRecord): void;
  /** A process says what it believes. */
  observe?(actor: string, what: string, value: unknown): string | undefined;
  /** A process came to life, with nothing in its memory. */
  born?(actor: string, life: number): void;
  /** Faults have stopped and everything has settled. */
  atRest?(): string | undefined;
}

/** News that reached a process: by a list or a watch that it follows, or as the answer to a single call. */
export interface Told {
  readonly resource: string;
  readonly object: KubeObject;
  readonly gone: boolean;
  readonly via: "stream" | "answer";
}

export interface Violation {
  readonly invariant: string;
  readonly fact: string;
  readonly detail: string;
  readonly atUs: number;
  readonly revision: number;
}
