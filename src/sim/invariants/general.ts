import type { KubeObject } from "../../model/objects/object.ts";
import type { CallRecord, Commit } from "../history.ts";
import type { Invariant } from "../invariant.ts";

/** Invariants of any controller. `Held` selects the actors that they apply to; they do not apply to users. */
export type Held = (actor: string) => boolean;

/** I5: a controller changes the version that it had observed; a change in between is a conflict. */
export const changesWhatItSaw = (held: Held): Invariant => ({
  id: "I5",
  fact: "a change commits only on the version that its author had observed",
  begin: () => ({
    commit: ({ type, call, key, event }) => {
      if (type !== "MODIFIED" || !held(call.actor) || call.key !== key) return undefined;
      const before = event.previous?.revision ?? 0;
      if (call.seen?.revision === before) return undefined;
      return `${call.actor} changed ${key}, which was at revision ${before}; it had seen ${seenText(call.seen?.revision)}`;
    },
  }),
});

/**
 * I23: a controller that takes an absent field, or another form of a value, for a change writes for ever. A write that
 * is repeated after an unknown outcome does not count until its author sees the first one.
 */
export const writesChangeSomething = (held: Held): Invariant => ({
  id: "I23",
  fact: "an update or patch of an object that its author has seen as it is changes it",
  begin: () => ({
    unchanged: (call, revision) => {
      if (!held(call.actor) || call.seen?.revision !== revision) return undefined;
      return `${call.actor} sent ${call.verb} of ${call.key}, which changed nothing: it had seen revision ${revision}`;
    },
  }),
});

/** I7: another object may have the name by now. */
export const destroysTheSameObject = (held: Held): Invariant => ({
  id: "I7",
  fact: "a delete removes the UID that its author had observed under that name",
  begin: () => ({
    commit: ({ type, call, key, event }) => {
      if (type !== "DELETED" || !held(call.actor) || call.key !== key) return undefined;
      const { uid } = event.current.side;
      if (call.seen?.uid === uid) return undefined;
      return `${call.actor} deleted ${key}: UID ${short(uid)} was deleted, it had observed ${short(call.seen?.uid ?? "none")}`;
    },
  }),
});

/** I13: a process that relies on an object records that on it, so a delete must carry the version that was read. */
export const destroysWhatItLookedAt = (held: Held, { withGrace = false } = {}): Invariant => ({
  id: "I13",
  fact: "a delete removes the very version that its author had observed",
  begin: () => {
    /**
     * A pod that is deleted without grace is marked first: one call makes two revisions, and the author observed the
     * first.
     */
    const beforeMark = new WeakMap<CallRecord, number>();
    return {
      commit: ({ type, call, key, event }) => {
        if (!held(call.actor) || call.key !== key) return undefined;
        const before = beforeMark.get(call) ?? event.previous?.revision ?? 0;
        if (type !== "DELETED" && call.verb === "delete") beforeMark.set(call, before);
        // A graceful delete only sets deletionTimestamp; with `withGrace` it counts like the removal.
        const isDelete = type === "DELETED" || (withGrace && call.verb === "delete");
        if (!isDelete || call.seen?.revision === before) return undefined;
        return `${call.actor} deleted ${key} at revision ${before}; it had seen ${seenText(call.seen?.revision)}`;
      },
    };
  },
});

/** I8: a cache that went back to an older revision would show deleted objects again. */
export const neverGoesBack: Invariant = {
  id: "I8",
  fact: "what a process observes never goes back to an older revision",
  begin: () => {
    const newest = new Map<string, number>();
    return {
      started: (actor) => {
        for (const key of newest.keys()) if (key.startsWith(`${actor}|`)) newest.delete(key);
      },
      observe: (actor, what, value) => {
        if (what !== "revision") return undefined;
        const { kind, revision } = value as { kind: string; revision: number };
        const key = `${actor}|${kind}`;
        const before = newest.get(key) ?? 0;
        newest.set(key, revision);
        return revision < before ? `${actor} sees ${kind} at revision ${revision} after ${before}` : undefined;
      },
    };
  },
};

/** What a process has cached of a kind, as it reports it to the invariants. */
export interface ObservedMirror {
  /** `apps/deployments`, `/pods`. */
  readonly kind: string;
  objects(): Iterable<readonly [string, KubeObject]>;
}

/** I9: a watch loses nothing. Compared when everything has come to rest. */
export const cachesAreComplete: Invariant = {
  id: "I9",
  fact: "at rest, the caches of a process equal the store",
  begin: ({ store }) => {
    const mirrors = new Map<string, ObservedMirror>();
    return {
      observe: (actor, what, value) => {
        if (what !== "mirror") return undefined;
        const mirror = value as ObservedMirror;
        // Leases are renewed for ever, so a cache is always slightly behind.
        if (mirror.kind === "coordination.k8s.io/leases") return undefined;
        mirrors.set(`${actor}|${mirror.kind}`, mirror);
        return undefined;
      },
      atRest: () => {
        for (const [who, { kind, objects }] of mirrors) {
          const there = new Map([...store.collection(kind).all()].map((version) => [version.side.uid, version]));
          for (const [key, { metadata }] of objects()) {
            const version = there.get(metadata.uid);
            if (version === undefined) return `${who} still has ${key} in its cache, which is deleted`;
            if (metadata.resourceVersion !== String(version.revision)) {
              return `${who} sees ${key} at revision ${metadata.resourceVersion}, it is at ${version.revision}`;
            }
            there.delete(metadata.uid);
          }
          for (const version of there.values()) return `${who} does not have ${version.key} in its cache`;
        }
        return undefined;
      },
    };
  },
};

/**
 * Intents of unknown outcome that a process cannot end, as it reports them to the invariants: it does not lead, or they
 * are no longer wanted.
 */
export interface ObservedKept {
  ids(): Iterable<string>;
}

/** I11: an intent is decided once and ends once. An unknown outcome may stay unknown if its owner reports it. */
export const intentsEndOnce: Invariant = {
  id: "I11",
  fact: "every intent ends applied, rejected or abandoned, once",
  begin: () => {
    /** By actor: the ids that are open. */
    const open = new Map<string, Set<string>>();
    const kept = new Map<string, ObservedKept>();
    return {
      started: (actor) => {
        // Intents in memory are lost with the process.
        open.delete(actor);
        kept.delete(actor);
      },
      observe: (actor, what, value) => {
        if (what === "kept") kept.set(actor, value as ObservedKept);
        if (what !== "intent") return undefined;
        const { id, state } = value as { id: string; state: string };
        const mine = open.get(actor) ?? new Set();
        open.set(actor, mine);
        if (state === "decided") {
          if (mine.has(id)) return `${actor} decided ${id} while it was open`;
          mine.add(id);
        } else if (isEnd(state)) {
          if (!mine.delete(id)) return `${id} of ${actor} became ${state} and was not open`;
        } else if (!mine.has(id)) return `${id} of ${actor} is ${state} and was not decided`;
        return undefined;
      },
      atRest: () => {
        for (const [actor, ids] of open) {
          const excused = new Set(kept.get(actor)?.ids() ?? []);
          for (const id of ids) if (!excused.has(id)) return `${id} of ${actor} never ended`;
        }
        return undefined;
      },
    };
  },
};

function isEnd(state: string): boolean {
  return state === "observed" || state === "rejected" || state === "abandoned";
}

/** I22: a status never describes an older generation than the status before. */
export const statusKeepsUp: Invariant = {
  id: "I22",
  fact: "observedGeneration never decreases",
  begin: () => ({
    commit: ({ event, key }: Commit) => {
      const before = observed(event.previous?.object());
      const after = event.current.deleted ? undefined : observed(event.current.object());
      if (before === undefined || after === undefined || after >= before) return undefined;
      return `the status of ${key} went back from generation ${before} to ${after}`;
    },
  }),
};

function observed(object: KubeObject | undefined): number | undefined {
  return (object?.["status"] as { observedGeneration?: number } | undefined)?.observedGeneration;
}

function seenText(revision: number | undefined): string {
  return revision === undefined ? "nothing" : `revision ${revision}`;
}

export function short(uid: string): string {
  return uid.slice(0, 8);
}
