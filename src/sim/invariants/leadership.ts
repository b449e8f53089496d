import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { CallRecord, Commit } from "../history.ts";
import type { Invariant } from "../invariant.ts";
import type { Held } from "./general.ts";

const leases = "coordination.k8s.io/leases";

/** The holder of a lease. */
export function leaderOf(store: ObjectStore, lease: string): string {
  const found = [...store.collection(leases).all()].find(({ name }) => name === lease)?.object();
  return (found?.["spec"] as { holderIdentity?: string } | undefined)?.holderIdentity ?? "";
}

/**
 * I12: one epoch writes. A client refuses to send once its lease has expired, or once it has observed another holder. A
 * write that was sent before that must carry a precondition, so that it fails if the next leader has written.
 *
 * A lease lasts from when its renewal was sent, by the clock that is never set: by a wall clock that steps back before
 * a renewal and forward after it, a correct leader would seem late.
 */
export const oneEpochWrites = (held: Held, lease: string): Invariant => ({
  id: "I12",
  fact: "one leader writes: a former leader sends nothing, and its writes in flight carry a precondition",
  begin: () => {
    const holders = new Map<string, Holder>();
    let current: { readonly holder: string; readonly who: string } | undefined;
    return {
      commit: (commit) => {
        const { call, event, key } = commit;
        if (event.current.resource === leases) {
          if (event.current.name !== lease || event.current.deleted) return undefined;
          const { holderIdentity = "", leaseDurationSeconds = 0 } = specOf(event.current.object());
          const who = `${call.actor}|${call.life}`;
          current = { holder: holderIdentity, who };
          const untilUs = call.sentUs + leaseDurationSeconds * 1_000_000;
          holders.set(who, { identity: holderIdentity, revision: event.revision, untilUs, lost: false });
          return undefined;
        }
        if (!held(call.actor) || current === undefined || call.key !== key) return undefined;
        if (current.who === `${call.actor}|${call.life}` || isGuarded(commit)) return undefined;
        return `${call.verb} ${key} of ${call.actor} took effect without a precondition while ${current.holder} was the leader`;
      },
      delivered: (actor, life, { resource, object }) => {
        if (resource !== leases || object.metadata.name !== lease) return;
        const mine = holders.get(`${actor}|${life}`);
        if (mine === undefined || Number(object.metadata.resourceVersion) <= mine.revision) return;
        if (specOf(object).holderIdentity !== mine.identity) mine.lost = true;
      },
      sent: (call: CallRecord) => {
        if (!held(call.actor) || reads.has(call.verb) || call.key.startsWith(leases)) return undefined;
        const mine = holders.get(`${call.actor}|${call.life}`);
        const what = `${call.actor} sent ${call.verb} ${call.key}`;
        if (mine === undefined) return `${what} and was never the leader`;
        if (mine.lost) return `${what} after it observed another leader`;
        if (call.sentUs >= mine.untilUs) {
          return `${what} ${(call.sentUs - mine.untilUs) / 1000} ms after its lease had run out`;
        }
        return undefined;
      },
    };
  },
});

const reads = new Set(["get", "list"]);

interface Holder {
  readonly identity: string;
  readonly revision: number;
  readonly untilUs: number;
  lost: boolean;
}

function isGuarded({ type, call }: Commit): boolean {
  const { uid, resourceVersion } = call.preconditions;
  if (type === "ADDED") return call.named;
  if (type === "MODIFIED") return resourceVersion !== undefined;
  return uid !== undefined && resourceVersion !== undefined;
}

function specOf(object: KubeObject): { holderIdentity?: string; leaseDurationSeconds?: number } {
  return (object["spec"] ?? {}) as { holderIdentity?: string; leaseDurationSeconds?: number };
}
