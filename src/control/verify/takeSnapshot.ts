/**
 * Reads a cluster at one revision: pods as they are now, then every other kind exactly as it was at the revision of
 * that list.
 *
 *   us                       API                            a controller
 *   list pods         -->    revision 70, p has no node
 *                            revision 71, p is on n1   <--  bind p
 *   list nodes at 70  -->    as of revision 70              (a plain list would be of revision 71: n1 full, p nowhere)
 *
 * One list a kind; a list that comes in pages is read to its end at its own revision or begun again, never patched
 * together.
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
  /** The kinds whose lists have not come yet, kept up to date. */
  readonly pending?: Set<KindName>;
  /** Called for every list that came: an API that answers is slow at worst, and does not hang. */
  readonly answered?: () => void;
}

export type Taken =
  | { readonly ok: true; readonly snapshot: ClusterSnapshot }
  | { readonly ok: false; readonly kind: KindName; readonly refusal: Refusal };

/**
 * History may be compacted while we read. After this many restarts kinds are read as they are, and the result says so.
 */
const roundsMax = 3;

/** Large enough for one page in most clusters, small enough for an API server to build in one piece. */
const pageMax = 5_000;

export async function takeSnapshot(kube: KubeApi, kinds: readonly KindName[], options: TakeOptions): Promise<Taken> {
  let expired: Taken | undefined;
  for (let round = 1; round <= roundsMax; round++) {
    const takenAtMs = options.nowMs();
    const pods = await readAt(kube, "pods", undefined, options);
    if (!pods.ok) {
      if (pods.reason !== "Expired") return { ok: false, kind: "pods", refusal: pods };
      expired = { ok: false, kind: "pods", refusal: pods };
      continue;
    }
    const { revision } = pods.value;
    const why = new Map<KindName, string>();
    const others = kinds.filter((name) => name !== "pods");
    const read = await Promise.all(
      others.map(async (name) => {
        const exact = await readAt(kube, name, revision, options);
        if (exact.ok || !isOfAnotherTime(exact)) return { name, outcome: exact };
        if (exact.reason === "Expired" && round < roundsMax) return { name, outcome: exact };
        why.set(name, exact.message);
        return { name, outcome: await readAt(kube, name, undefined, options) };
      }),
    );
    const hurt = read.find(({ outcome }) => !outcome.ok);
    if (hurt !== undefined && !hurt.outcome.ok) {
      expired = { ok: false, kind: hurt.name, refusal: hurt.outcome };
      if (hurt.outcome.reason === "Expired") continue;
      return expired;
    }
    const found = new Map<KindName, SnapshotKind>([["pods", pods.value]]);
    for (const { name, outcome } of read) if (outcome.ok) found.set(name, outcome.value);
    return { ok: true, snapshot: clusterSnapshot(revision, takenAtMs, found, why) };
  }
  return expired ?? { ok: false, kind: "pods", refusal: refused("Expired", "the past was forgotten while reading") };
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
  if (!outcome.ok && isOfAnotherTime(outcome)) {
    why.set(name, outcome.message);
    outcome = await readAt(kube, name, undefined, options);
  }
  if (!outcome.ok) return { ok: false, kind: name, refusal: outcome };
  const kinds = new Map(snapshot.kinds).set(name, outcome.value);
  const whole = clusterSnapshot(snapshot.revision, snapshot.takenAtMs, kinds, why);
  const incoherent = [...snapshot.incoherent, ...whole.incoherent.filter((text) => text.startsWith(`${name} `))];
  return { ok: true, snapshot: { ...whole, coherent: incoherent.length === 0, incoherent } };
}

/** The revision is forgotten, or of another store: some clusters keep events, and aggregated kinds, elsewhere. */
function isOfAnotherTime({ reason, status }: Refusal): boolean {
  if (reason === "Expired") return true;
  return status?.details?.causes?.some((cause) => cause.reason === "ResourceVersionTooLarge") === true;
}

async function readAt(
  kube: KubeApi,
  name: KindName,
  revision: string | undefined,
  { cancel, pending, answered }: TakeOptions,
): Promise<Outcome<SnapshotKind>> {
  const { group, versions, plural, builtin } = readKind(name);
  pending?.add(name);
  for (const version of versions) {
    const ref = { group, version, plural };
    const list = await listWhole(kube, ref, revision, { cancel, answered });
    if (!list.ok && list.reason === "NotFound" && builtin !== true) continue;
    pending?.delete(name);
    return list.ok ? succeeded({ ...ref, ...list.value, served: true }) : list;
  }
  pending?.delete(name);
  return succeeded({ group, version: versions[0], plural, revision: revision ?? "", served: false, objects: [] });
}

async function listWhole(
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
    // A server that continues with another revision has lost the list; two halves of two moments are no list.
    if (page.value.revision !== at) return refused("Expired", `the list went on at revision ${page.value.revision}`);
    for (const item of page.value.items) objects.push(item);
    token = page.value.continueToken;
  }
  return succeeded({ revision: at, objects });
}
