import type { StoreEvent } from "../apiserver/storage/storeEvent.ts";
import type { Unstored } from "../model/objects/object.ts";

/** The events of a run in order: enough to print them, and to prove that two runs were equal. */
export class History {
  readonly entries: Entry[] = [];
  private low = 0x811c9dc5;
  private high = 0xcbf29ce4;

  add(entry: Entry): void {
    this.entries.push(entry);
  }

  /** Adds an event to the hash. */
  count(atUs: number, what: string, more: string): void {
    let { low, high } = this;
    low = Math.imul(low ^ (atUs >>> 0), 0x01000193);
    high = Math.imul(high ^ ((atUs / 4294967296) >>> 0), 0x01000193);
    for (let at = 0; at < what.length; at++) low = Math.imul(low ^ what.charCodeAt(at), 0x01000193);
    for (let at = 0; at < more.length; at++) high = Math.imul(high ^ more.charCodeAt(at), 0x01000193);
    this.low = low ^ (high >>> 15);
    this.high = high ^ (low >>> 13);
  }

  get hash(): string {
    return hex(this.high) + hex(this.low);
  }
}

function hex(value: number): string {
  return (value >>> 0).toString(16).padStart(8, "0");
}

/** One line of a timeline. */
export type Entry =
  | { readonly what: "commit"; readonly atUs: number; readonly commit: Commit }
  | { readonly what: "fault"; readonly atUs: number; readonly actor: string; readonly text: string }
  | { readonly what: "note"; readonly atUs: number; readonly actor: string; readonly text: string };

/** A change of the store, and the call that made it. */
export interface Commit {
  readonly atUs: number;
  readonly event: StoreEvent;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** `group/plural/namespace/name`. */
  readonly key: string;
  readonly call: CallRecord;
}

/** A call, with what its author had observed when it was sent. */
export interface CallRecord {
  readonly actor: string;
  /** Which life of the process. */
  readonly life: number;
  readonly verb: string;
  readonly key: string;
  /** When the author requested the call. Invariants judge the call by what the author had observed at this time. */
  readonly requestedUs: number;
  /** The author's clock at that time. */
  readonly requestedOwnMs: number;
  /** When the call was sent. A write may wait in its client before. */
  readonly sentUs: number;
  /** The newest state of the object that the author had observed when it sent the call. */
  readonly seen: Seen | undefined;
  readonly preconditions: { readonly uid?: string; readonly resourceVersion?: string };
  /** The object of a create. */
  readonly object: Unstored | undefined;
  /** The author chose the name, so that a second create with it is rejected. */
  readonly named: boolean;
  /** The fault of this call; empty when there is none. */
  readonly fault: string;
}

/** What an actor has observed of an object. */
export interface Seen {
  readonly uid: string;
  readonly revision: number;
  readonly gone: boolean;
}

/** `apps/deployments/ns/name`, `/nodes//n1`. */
export function objectKey(resource: string, namespace: string, name: string): string {
  return `${resource}/${namespace}/${name}`;
}
