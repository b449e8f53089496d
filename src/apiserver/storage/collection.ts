import { SortedMap } from "./sortedMap.ts";
import type { StoreEvent } from "./storeEvent.ts";
import type { Version } from "./version.ts";

const weighEvery = 64;

/** All objects of one resource, in key order, with their versions since the last compaction. */
export class Collection {
  readonly resource: string;
  /**
   * The newest version of each key. A deleted key stays until its tombstone is compacted, for reads at earlier
   * revisions.
   */
  private readonly heads = new SortedMap<Version>();
  /** Retained changes of this resource, oldest first, after a prefix of dropped entries. */
  events: (StoreEvent | undefined)[] = [];
  private forgotten = 0;
  private weighed = 0;
  private typicalBytes = 0;
  private liveCount = 0;
  /** Position in the side record of the one indexed field, and the index: value to keys. */
  private readonly indexedField: number | undefined;
  private readonly index = new Map<string, Set<string>>();

  constructor(resource: string, indexedField?: number) {
    this.resource = resource;
    this.indexedField = indexedField;
  }

  /** How many objects exist now. */
  get size(): number {
    return this.liveCount;
  }

  head(key: string): Version | undefined {
    return this.heads.get(key);
  }

  setHead(version: Version): void {
    const before = this.heads.get(version.key);
    const wasLive = before !== undefined && !before.deleted;
    if (wasLive !== !version.deleted) this.liveCount += version.deleted ? -1 : 1;
    this.heads.set(version.key, version);
    if (this.indexedField !== undefined) this.reindex(version.key, wasLive ? before : undefined, version);
  }

  /** Objects with this value in the indexed field, in key order; undefined when the field has no index. */
  indexed(field: number, value: string): Version[] | undefined {
    if (field !== this.indexedField) return undefined;
    const keys = [...(this.index.get(value) ?? [])].sort();
    return keys.map((key) => this.heads.get(key) as Version);
  }

  /** The current objects. */
  *all(): Generator<Version> {
    for (const version of this.heads.values()) if (!version.deleted) yield version;
  }

  /**
   * Objects of a namespace (of all when it is empty) from a key on, at the revision. The collection must not change
   * during the iteration.
   */
  *at(revision: number, namespace: string, fromKey = ""): Generator<Version> {
    const { low, high } = rangeOf(namespace, fromKey);
    for (const head of this.heads.range(low, high)) {
      const version = atRevision(head, revision);
      if (version !== undefined) yield version;
    }
  }

  /**
   * The number of current objects of the namespace from a key on; undefined when they would have to be counted one by
   * one.
   */
  countFrom(namespace: string, fromKey: string): number | undefined {
    // Retained tombstones would be counted too.
    if (this.heads.size !== this.liveCount) return undefined;
    const { low, high } = rangeOf(namespace, fromKey);
    return this.heads.countRange(low, high);
  }

  /** One object at the revision. */
  oneAt(revision: number, key: string): Version | undefined {
    return atRevision(this.heads.get(key), revision);
  }

  /** Index in `events` of the first change after the revision. */
  firstAfter(revision: number): number {
    let low = this.forgotten;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.events[middle] as StoreEvent).revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * Bytes that a version occupies. Where nothing is encoded only every 64th version is measured, and the others are
   * assumed to be like the last one; a parsed object takes three times its bytes.
   */
  weightOf(version: Version): number {
    if (version.byteLength > 0) return version.byteLength;
    if (this.weighed++ % weighEvery === 0) this.typicalBytes = 3 * JSON.stringify(version.object()).length;
    return this.typicalBytes;
  }

  remember(event: StoreEvent): void {
    this.events.push(event);
  }

  /** Drops the oldest retained change. */
  forget(event: StoreEvent): void {
    this.events[this.forgotten++] = undefined;
    if (this.forgotten >= 256 && this.forgotten * 2 > this.events.length) {
      this.events = this.events.slice(this.forgotten);
      this.forgotten = 0;
    }
    const { current } = event;
    if (current.deleted && this.heads.get(current.key) === current) this.heads.delete(current.key);
  }

  private reindex(key: string, before: Version | undefined, after: Version): void {
    const field = this.indexedField as number;
    const old = before?.side.fields[field];
    const now = after.deleted ? undefined : after.side.fields[field];
    if (old === now) return;
    if (old !== undefined) {
      const keys = this.index.get(old);
      keys?.delete(key);
      if (keys?.size === 0) this.index.delete(old);
    }
    if (now === undefined) return;
    const keys = this.index.get(now);
    if (keys === undefined) this.index.set(now, new Set([key]));
    else keys.add(key);
  }
}

function atRevision(head: Version | undefined, revision: number): Version | undefined {
  let version = head;
  while (version !== undefined && version.revision > revision) version = version.previous;
  return version === undefined || version.deleted ? undefined : version;
}

/** The keys of one namespace, from a key on, are a range: "/" sorts right before "0". */
function rangeOf(namespace: string, fromKey: string): { low: string; high: string | undefined } {
  const first = namespace === "" ? "" : `${namespace}/`;
  return { low: fromKey > first ? fromKey : first, high: namespace === "" ? undefined : `${namespace}0` };
}
