/** Durable storage of the API server: an ordered log of changes that survives a crash. */
export interface Store {
  /**
   * Reads everything back, in order of revision, oldest first: the last snapshot, then the log behind it. Called once,
   * before the first append. An incomplete last record is cut and reported; corruption before it is refused.
   */
  open(replay: Replay): Promise<OpenReport>;
  /** Queues changes of one commit; they reach the disk in order and together or not at all. */
  append(changes: readonly StoredChange[]): void;
  /**
   * Resolves when everything appended before this call is on the disk; rejects if the disk failed (nothing after it is
   * accepted).
   */
  synced(): Promise<void>;
  /** Called once when the disk fails, also while nothing is being written. */
  onFailure?(listener: (error: Error) => void): void;
  /** Whether the log has grown enough for a snapshot. */
  wantsSnapshot(): boolean;
  /** Writes the complete state at a revision and drops the log before it. Appends may continue meanwhile. */
  snapshot(state: { revision: number; objects: Iterable<StoredChange> }): Promise<void>;
  /** Syncs and closes. */
  close(): Promise<void>;
}

export interface Replay {
  /** One object of the snapshot: the state before the log begins. */
  object(change: StoredChange): void;
  /** One change of the log, in order. */
  change(change: StoredChange): void;
}

export interface OpenReport {
  /** Highest revision that was found, 0 for an empty store. */
  revision: number;
  /** Revision of the snapshot that the log continues, 0 if there is none. */
  snapshotRevision: number;
  /** Bytes of an incomplete last record that were cut off, 0 after a clean stop. */
  cutBytes: number;
  /** Acknowledged changes that are gone: the start goes on without them. */
  lost?: { readonly after: number; readonly upTo: number };
  /** Changes up to this revision were lost at this or an earlier start: no watch can continue from before it. */
  lostUpTo?: number;
}

/** One object written or deleted at one revision. */
export interface StoredChange {
  readonly revision: number;
  readonly key: StoredKey;
  /** What lists and watches filter by, so that a restart need not parse bodies. Null for a deletion. */
  readonly side: SideRecord | null;
  /** The object as JSON. Null for a deletion. */
  readonly body: Uint8Array | null;
}

export interface StoredKey {
  /** Group and plural: `apps/deployments`, `/pods` for the core group. */
  readonly resource: string;
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/** Values of an object that are needed without parsing it. */
export interface SideRecord {
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>> | null;
  /** Values of the resource's selectable fields, in the order of its table. */
  readonly fields: readonly string[];
  /** UIDs of the owners, for garbage collection. */
  readonly owners: readonly string[] | null;
}
