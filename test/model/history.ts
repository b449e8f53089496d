/**
 * The reference: every change there ever was, read back from the log after the server has stopped, and what a list or a
 * watch must have said according to it. Written without a look at the server's own caches and filters.
 */
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import type { KubeJson } from "../httpCaller.ts";

export interface Change {
  revision: number;
  /** `/pods`, `coordination.k8s.io/leases`. */
  resource: string;
  key: string;
  /** Undefined for a deletion. */
  object: KubeJson | undefined;
  /** The state before. */
  before: KubeJson | undefined;
}

/** What a read asked for: as a query, and as a predicate that means the same. */
export interface Filter {
  query: string;
  matches(object: KubeJson): boolean;
}

export interface ExpectedEvent {
  type: "ADDED" | "MODIFIED" | "DELETED";
  revision: number;
  object: KubeJson;
  /** The object is gone, not only out of sight: its last state may be newer than what the log kept. */
  gone: boolean;
}

export class History {
  readonly changes: Change[] = [];
  readonly byRevision = new Map<number, Change>();

  static async read(directory: string): Promise<History> {
    const history = new History();
    const heads = new Map<string, KubeJson>();
    const store = new FileStore({ directory });
    const report = await store.open({
      object: () => {
        throw new Error("a snapshot hides the past; the test must not let one happen");
      },
      change: ({ revision, key: { resource, namespace, name }, body }) => {
        const key = `${namespace}/${name}`;
        const object = body === null ? undefined : (JSON.parse(Buffer.from(body).toString("utf8")) as KubeJson);
        const before = heads.get(`${resource} ${key}`);
        if (object === undefined) heads.delete(`${resource} ${key}`);
        else heads.set(`${resource} ${key}`, object);
        const change = { revision, resource, key, object, before };
        history.changes.push(change);
        history.byRevision.set(revision, change);
      },
    });
    await store.close();
    if (report.revision !== history.changes.length) {
      throw new Error(`revision ${report.revision} after ${history.changes.length} changes`);
    }
    return history;
  }

  /** The objects as they were at a revision, in the order of lists. */
  stateAt(resource: string, revision: number, filter: Filter): KubeJson[] {
    const state = new Map<string, KubeJson>();
    for (const change of this.changes) {
      if (change.revision > revision) break;
      if (change.resource !== resource) continue;
      if (change.object === undefined) state.delete(change.key);
      else state.set(change.key, change.object);
    }
    return [...state]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object)
      .filter((object) => filter.matches(object));
  }

  /** What a watcher hears between two revisions: after the first, up to and including the second. */
  eventsBetween(resource: string, after: number, upTo: number, filter: Filter): ExpectedEvent[] {
    const events: ExpectedEvent[] = [];
    for (const { revision, resource: changed, object, before } of this.changes) {
      if (changed !== resource || revision <= after || revision > upTo) continue;
      const matched = before !== undefined && filter.matches(before);
      const matches = object !== undefined && filter.matches(object);
      if (matches) events.push({ type: matched ? "MODIFIED" : "ADDED", revision, object, gone: false });
      else if (matched) {
        const metadata = { ...before.metadata, resourceVersion: String(revision) };
        events.push({ type: "DELETED", revision, object: { ...before, metadata }, gone: object === undefined });
      }
    }
    return events;
  }

  /** The change of the same object before this one. */
  previousOf(change: Change): Change | undefined {
    for (let at = change.revision - 1; at > 0; at--) {
      const candidate = this.byRevision.get(at);
      if (candidate?.resource === change.resource && candidate.key === change.key) return candidate;
    }
    return undefined;
  }

  /** Whether the object changed after one revision, and not later than the other. */
  changedBetween(resource: string, key: string, after: number, upTo: number): boolean {
    return this.changes.some(
      (change) =>
        change.resource === resource && change.key === key && change.revision > after && change.revision <= upTo,
    );
  }
}
