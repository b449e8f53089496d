import type { Version } from "./version.ts";

/** One change, as watches see it. */
export interface StoreEvent {
  readonly revision: number;
  readonly atMs: number;
  /** What was there before; undefined for a creation. */
  readonly previous: Version | undefined;
  /** What is there now; a tombstone for a deletion. */
  readonly current: Version;
  /** What it costs to remember this change. */
  readonly bytes: number;
}
