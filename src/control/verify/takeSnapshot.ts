/**
 * Reads a cluster at one revision: pods as they are now, then every other kind exactly as it was at the revision of
 * that list.
 *
 *   verify                   API server                     a controller
 *   list pods         -->    revision 70, p has no node
 *                            revision 71, p is on n1   <--  bind p
 *   list nodes at 70  -->    as of revision 70              (a plain list would be at revision 71: n1 full, p unbound)
 *
 * Each kind is listed once. A list in pages is read to its end at one revision, or restarted.
 */
import { type ClusterSnapshot, clusterSnapshot, type SnapshotKind } from "../../decide/verify/clusterSnapshot.ts";
import { type KindName, readKind } from "../../decide/verify/readKinds.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, type Refusal, refused, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi, KubeList, ListOptions } from "../../ports/kubeApi.ts";

export interface TakeOptions {
  readonly nowMs: () => number;
  readonly cancel?: Cancel;
  /** Kinds whose lists are still pending; updated during the read. */
  readonly pending?: Set<KindName>;
  /** Called for every answered list: an API that answers does not hang. */
  readonly answered?: () => void;
  /** Kinds that are recorded as refused, with the reason, when they may not be listed; without it the read fails. */
  readonly mayLack?: (kind: KindName) => boolean;
}

export type Taken =
  | { readonly ok: true; readonly snapshot: ClusterSnapshot }
  | { readonly ok: false; readonly kind: KindName; readonly refusal: Refusal };

/**
 * The API server may compact its history during the read. After this many restarts the other kinds are read at the
 * newest revision, and the snapshot is marked incoherent.
 */
const roundsMax = 3;

/** Large enough for one page in most clusters, small enough for the memory of an API server. */
const pageMax = 5_000;

export async function takeSnapshot(kube: KubeApi, kinds: readonly KindName[], options: TakeOptions): Promise<Taken> {
  let expired: Taken | undefined;
  for (let round = 1; round <= roundsMax; round++) {
    const takenAtMs = options.nowMs();
    const found = new Map<KindName, SnapshotKind>();
    const first = await readFirst(kube, ["pods", ...kinds.filter((name) => name !== "pods")], found, options);
    if (!first.ok) {
      if (first.refusal.reason !== "Expired") return first;
      expired = first;
      continue;
    }
    const { revision } = first;
    const why = new Map<KindName, string>();
    const others = kinds.filter((name) => !found.has(name));
    const read = await Promise.all(
      others.map(async (name) => {
        const exact = await readAt(kube, name, revision, options);
        if (exact.ok || !isRevisionUnavailable(exact)) return { name, outcome: exact };
        if (exact.reason === "Expired" && round < roundsMax) return { name, outcome: exact };
        why.set(name, exact.message);
        return { name, outcome: await readAt(kube, name, undefined, options) };
      }),
    );
    const failed = read.find(({ outcome }) => !outcome.ok);
    if (failed !== undefined && !failed.outcome.ok) {
      expired = { ok: false, kind: failed.name, refusal: failed.outcome };
      if (failed.outcome.reason === "Expired") continue;
      return expired;
    }
    for (const { name, outcome } of read) if (outcome.ok) found.set(name, outcome.value);
    return { ok: true, snapshot: clusterSnapshot(revision, takenAtMs, found, why) };
  }
  return (
    expired ?? { ok: false, kind: "pods", refusal: refused("Expired", "the revision was compacted during the read") }
  );
}

/** Reads pods, or else the first kind that may be listed and is served: all others are read at its revision. */
async function readFirst(
  kube: KubeApi,
  kinds: readonly KindName[],
  found: Map<KindName, SnapshotKind>,
  options: TakeOptions,
): Promise<{ ok: true; revision: string } | (Taken & { ok: false })> {
  for (const name of kinds) {
    const read = await readAt(kube, name, undefined, options);
    if (!read.ok) return { ok: false, kind: name, refusal: read };
    found.set(name, read.value);
    if (read.value.refused === undefined && read.value.served) return { ok: true, revision: read.value.revision };
  }
  return { ok: true, revision: "" };
}

/** The same snapshot with one more kind, as of the same revision. */
export async function withKind(
  kube: KubeApi,
  snapshot: ClusterSnapshot,
  name: KindName,
  options: TakeOptions,
): Promise<Taken> {
  const why = new Map<KindName, string>();
  let outcome = await readAt(kube, name, snapshot.revision, options);
  if (!outcome.ok && isRevisionUnavailable(outcome)) {
    why.set(name, outcome.message);
    outcome = await readAt(kube, name, undefined, options);
  }
  if (!outcome.ok) return { ok: false, kind: name, refusal: outcome };
  const kinds = new Map(snapshot.kinds).set(name, outcome.value);
  const complete = clusterSnapshot(snapshot.revision, snapshot.takenAtMs, kinds, why);
  const incoherent = [...snapshot.incoherent, ...complete.incoherent.filter((text) => text.startsWith(`${name} `))];
  return { ok: true, snapshot: { ...complete, coherent: incoherent.length === 0, incoherent } };
}

/**
 * The revision is compacted, or unknown to the store of this kind: some clusters keep events, and aggregated APIs, in
 * another etcd.
 */
function isRevisionUnavailable({ reason, status }: Refusal): boolean {
  if (reason === "Expired") return true;
  return status?.details?.causes?.some((cause) => cause.reason === "ResourceVersionTooLarge") === true;
}

async function readAt(
  kube: KubeApi,
  name: KindName,
  revision: string | undefined,
  { cancel, pending, answered, mayLack }: TakeOptions,
): Promise<Outcome<SnapshotKind>> {
  const { group, versions, plural, builtin } = readKind(name);
  pending?.add(name);
  for (const version of versions) {
    const ref = { group, version, plural };
    const list = await listAllPages(kube, ref, revision, { cancel, answered });
    if (!list.ok && list.reason === "NotFound" && builtin !== true) continue;
    pending?.delete(name);
    if (list.ok) return succeeded({ ...ref, ...list.value, served: true });
    if (list.reason !== "Forbidden" || mayLack?.(name) !== true) return list;
    return succeeded({ ...ref, revision: revision ?? "", served: false, refused: list.message, objects: [] });
  }
  pending?.delete(name);
  return succeeded({ group, version: versions[0], plural, revision: revision ?? "", served: false, objects: [] });
}

async function listAllPages(
  kube: KubeApi,
  ref: Resource,
  revision: string | undefined,
  { cancel, answered }: { cancel: Cancel | undefined; answered: (() => void) | undefined },
): Promise<Outcome<{ revision: string; objects: readonly KubeObject[] }>> {
  const limits: ListOptions = { limit: pageMax, ...(cancel === undefined ? {} : { cancel }) };
  const exactly: ListOptions =
    revision === undefined ? {} : { resourceVersion: revision, resourceVersionMatch: "Exact" };
  const first = await kube.list(ref, { ...limits, ...exactly });
  if (!first.ok) return first;
  answered?.();
  const at = first.value.revision;
  if (first.value.continueToken === undefined) return succeeded({ revision: at, objects: first.value.items });
  const objects = [...first.value.items];
  for (let token: string | undefined = first.value.continueToken; token !== undefined; ) {
    const page: Outcome<KubeList> = await kube.list(ref, { ...limits, continueToken: token });
    if (!page.ok) return page;
    answered?.();
    // A page at another revision does not belong to the same list.
    if (page.value.revision !== at)
      return refused("Expired", `a page of the list is at revision ${page.value.revision}, the first at ${at}`);
    for (const item of page.value.items) objects.push(item);
    token = page.value.continueToken;
  }
  return succeeded({ revision: at, objects });
}
