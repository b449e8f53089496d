import type { Version } from "./version.ts";

/** One change, as watches deliver it. */
export interface StoreEvent {
  readonly revision: number;
  readonly atMs: number;
  /** The version before; undefined for a creation. */
  readonly previous: Version | undefined;
  /** The version after; a tombstone for a deletion. */
  readonly current: Version;
  /** Bytes that retaining this change takes. */
  readonly bytes: number;
}
