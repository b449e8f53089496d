/**
 * What a server has promised, as its clients saw it: for every key the last state that was acknowledged, and the writes
 * whose answer never came. After a crash each key must show the one or the other.
 */
import type { Answer, KubeJson } from "../httpCaller.ts";

/** A write that has been sent. */
export interface Pending {
  readonly effect: "write" | "delete";
  /** Whether this object is what the write would have made. */
  shows(object: KubeJson): boolean;
}

interface Entry {
  /** The last acknowledged state; undefined when the object is acknowledged to be absent. */
  acknowledged: KubeJson | undefined;
  pending: Set<Pending>;
}

export class Ledger {
  private readonly entries = new Map<string, Entry>();
  /** Every acknowledged write by revision. */
  readonly writes = new Map<number, KubeJson>();
  /** Acknowledged deletions: who went, and the last revision they had while they lived. */
  readonly deletions: { uid: string; path: string; lastRevision: number }[] = [];
  /** The highest revision that anybody was shown. */
  seenRevision = 0;
  /** Writes that were not acknowledged and took effect all the same. */
  survivors = 0;

  state(path: string): KubeJson | undefined {
    return this.entry(path).acknowledged;
  }

  paths(): IterableIterator<string> {
    return this.entries.keys();
  }

  send(path: string, pending: Pending): void {
    this.entry(path).pending.add(pending);
  }

  /** The answer came. Returns what is wrong with it, if anything. */
  acknowledge(path: string, pending: Pending, answer: Answer): string | undefined {
    const entry = this.entry(path);
    entry.pending.delete(pending);
    // A refusal promises nothing.
    if (answer.code >= 400) return answer.code === 409 ? undefined : `${path}: ${answer.code} ${answer.text}`;
    if (pending.effect === "delete") {
      const gone = entry.acknowledged;
      if (gone !== undefined) {
        this.deletions.push({ uid: gone.metadata.uid, path, lastRevision: revisionOf(gone) });
      }
      entry.acknowledged = undefined;
      return undefined;
    }
    return this.accept(entry, path, answer.json);
  }

  /** Compares what a restarted server shows at a key with the promises. Returns what is broken, if anything. */
  settle(path: string, found: KubeJson | undefined): string | undefined {
    const entry = this.entry(path);
    const pending = [...entry.pending];
    entry.pending.clear();
    const { acknowledged } = entry;
    if (found === undefined) {
      if (acknowledged === undefined) return undefined;
      if (!pending.some(({ effect }) => effect === "delete")) return `${path}: lost ${describe(acknowledged)}`;
      this.deletions.push({ uid: acknowledged.metadata.uid, path, lastRevision: revisionOf(acknowledged) });
      entry.acknowledged = undefined;
      this.survivors++;
      return undefined;
    }
    this.seenRevision = Math.max(this.seenRevision, revisionOf(found));
    if (acknowledged !== undefined && revisionOf(found) === revisionOf(acknowledged)) {
      return same(found, acknowledged) ? undefined : `${path}: ${describe(found)} is not what was acknowledged`;
    }
    if (acknowledged !== undefined && revisionOf(found) < revisionOf(acknowledged)) {
      return `${path}: went back from ${describe(acknowledged)} to ${describe(found)}`;
    }
    if (!pending.some((one) => one.effect === "write" && one.shows(found))) {
      return `${path}: ${describe(found)} was never sent, or is half of what was`;
    }
    this.survivors++;
    return this.accept(entry, path, found);
  }

  private accept(entry: Entry, path: string, object: KubeJson): string | undefined {
    const revision = revisionOf(object);
    if (this.writes.has(revision)) return `${path}: revision ${revision} was given twice`;
    this.writes.set(revision, object);
    this.seenRevision = Math.max(this.seenRevision, revision);
    // Answers of two writers to one key may arrive in either order.
    if (entry.acknowledged === undefined || revisionOf(entry.acknowledged) < revision) entry.acknowledged = object;
    return undefined;
  }

  private entry(path: string): Entry {
    let entry = this.entries.get(path);
    if (entry === undefined) {
      entry = { acknowledged: undefined, pending: new Set() };
      this.entries.set(path, entry);
    }
    return entry;
  }
}

export function revisionOf(object: KubeJson): number {
  return Number(object.metadata.resourceVersion);
}

export function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

/** Lists leave kind and apiVersion to the list, so that only the rest is compared. */
function canonical(value: unknown): string {
  const { kind: _, apiVersion: __, ...rest } = value as Record<string, unknown>;
  return JSON.stringify(rest, (_key, below: unknown) =>
    typeof below === "object" && below !== null && !Array.isArray(below)
      ? Object.fromEntries(Object.entries(below).sort(([a], [b]) => (a < b ? -1 : 1)))
      : below,
  );
}

function describe(object: KubeJson): string {
  return `${object.metadata.uid} at ${object.metadata.resourceVersion}`;
}
