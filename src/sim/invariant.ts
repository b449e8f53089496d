import type { ObjectStore } from "../apiserver/storage/objectStore.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { CallRecord, Commit } from "./history.ts";

/** A fact that must hold after every commit, in every order of events. */
export interface Invariant {
  /** I1 to I23: an entry of `invariantFacts`. */
  readonly id: string;
  /** The fact, as a sentence. */
  readonly fact: string;
  /** Starts the checks of one run. Their state belongs to that run. */
  begin(run: ObservedRun): Checks;
}

/** What checks may read besides their arguments. */
export interface ObservedRun {
  readonly store: ObjectStore;
  nowUs(): number;
  /** The time on a process's own clock. */
  nowMsOf(actor: string): number;
}

/** Each check returns a violation as text, or undefined. */
export interface Checks {
  commit?(commit: Commit): string | undefined;
  /** A process sends a call. */
  sent?(call: CallRecord): string | undefined;
  /** A response or a watch event is delivered to a process. */
  delivered?(actor: string, life: number, told: Delivery): void;
  /**
   * A call can have no further effect: the server has processed it, or it was lost.
   */
  over?(call: CallRecord): void;
  /** The server accepted an update or a patch that changes nothing; the object stays at its revision. */
  unchanged?(call: CallRecord, revision: number): string | undefined;
  /** A watch of a process was opened by the server, or its end was delivered. */
  watched?(actor: string, resource: string, isOpen: boolean): void;
  /** A process reports its own state. */
  observe?(actor: string, what: string, value: unknown): string | undefined;
  /** A process started with empty memory. */
  started?(actor: string, life: number): void;
  /** Faults have stopped and the cluster is quiescent. */
  atRest?(): string | undefined;
}

/** A state of an object that a process received: by list and watch, or in the response to a single call. */
export interface Delivery {
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
