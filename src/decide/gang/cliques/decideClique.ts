/** The decision for a PodClique: its claims, its number of pods, their gates, its update, and its status. */
import { finalizers, gangGate, labels } from "../../../model/gang/keys.ts";
import { podsInReach } from "../../../model/gang/reach.ts";
import { cliqueNamed, groupReplicaOf, groupsOf, schedulerOf, setReplicaOf } from "../../../model/gang/setFacts.ts";
import type { GangSettings } from "../../../model/gang/settings.ts";
import type { CliqueTemplate, GroupTemplate, PodClique, PodCliqueSet, PodGang } from "../../../model/gang/types.ts";
import type { Pod, ResourceClaim, Secret } from "../../../model/kubernetes.generated.ts";
import { byName, isFinished, isReady } from "../../../model/objects/podFacts.ts";
import { type AbsentAt, dropFinalizer, type GangDecision, GangDraft, keepFinalizer, targetOf } from "../gangDraft.ts";
import { isLeaving } from "../gangLabels.ts";
import { conditionOf } from "../gangs/gangConditions.ts";
import { namesPod } from "../gangs/podGangObjects.ts";
import { cliqueName, groupName, memberName } from "../names.ts";
import type { ReconcileFailure } from "../reconcileEvents.ts";
import { cliqueClaims, type PodPlace, syncClaims, type TemplateNamed } from "../sets/claims.ts";
import { generationHash, isForeignHash, templateHash } from "../sets/hashes.ts";
import { isCliqueEnding, type ReplicaGangs } from "../termination.ts";
import { cliqueStatus } from "./cliqueStatus.ts";
import { cliqueUpdate, hashOf, targetHash } from "./cliqueUpdate.ts";
import { isLost, type NodeOf } from "./lostPods.ts";
import { podIndexOf, podName, podObject } from "./podObject.ts";

export interface CliqueSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly settings: GangSettings;
  readonly clique: PodClique;
  /** The set that it belongs to; undefined when that set does not exist, or exists under another UID. */
  readonly set: PodCliqueSet | undefined;
  /** The pods that the clique controls, by UID. */
  readonly pods: readonly Pod[];
  readonly nodeOf: NodeOf;
  /** The objects of the set replica that the clique belongs to; read only when an Event is written. */
  readonly replica: () => Pick<ReplicaGangs, "groups" | "cliques">;
  /** Whether the create of a pod of this name is in flight. */
  readonly isComing: (podName: string) => boolean;
  /** Whether the deletion of a pod that the cache still has is in flight. */
  readonly isGone: (podName: string) => boolean;
  /** Whether any pod has this name. */
  readonly isTaken: (podName: string) => boolean;
  readonly podGangNamed: (name: string) => PodGang | undefined;
  readonly cliqueNamed: (name: string) => PodClique | undefined;
  readonly claims: readonly ResourceClaim[];
  readonly templateNamed: TemplateNamed;
  readonly tokenSecret: Secret | undefined;
  /** Failures of its reconciles. */
  readonly failures: readonly ReconcileFailure[];
}

export function decideClique(snapshot: CliqueSnapshot, nowMs: number): GangDecision {
  const { clique, set } = snapshot;
  const draft = new GangDraft(snapshot.absentAtRevision);
  if (isLeaving(clique)) {
    dropFinalizer(draft, clique, finalizers.PodClique);
    return draft.decision();
  }
  const place = set === undefined ? undefined : placeOf(set, clique);
  // The owner is terminating, or the set no longer contains the clique: the owner deletes it.
  if (set === undefined || place === undefined || isLeaving(set)) return draft.decision();
  keepFinalizer(draft, clique, finalizers.PodClique);
  const problem = syncClaims(draft, cliqueClaims(set, clique, place.clique), snapshot.claims, snapshot.templateNamed);
  if (problem !== undefined) draft.wait(problem);
  const pods = snapshot.pods.filter(({ metadata }) => !snapshot.isGone(metadata.name));
  const isObserved =
    set.status?.currentGenerationHash === generationHash(set) && hashOf(clique) === templateHash(set, place.clique);
  const isGoneFor = (pod: Pod): boolean => isLost(pod, snapshot.nodeOf, nowMs);
  const { setReplica } = place;
  const update = cliqueUpdate({ set, clique, setReplica, pods, isLost: isGoneFor, isObserved }, nowMs);
  adoptForeign(draft, clique, pods);
  replaceEnded(draft, pods);
  const stillHash = update.progress?.podTemplateHash;
  for (const pod of update.victims) {
    draft.remove(pod, "it is of an older template", { stillRight: (fresh) => hashOf(fresh) !== stillHash });
  }
  if (problem === undefined) scale(draft, snapshot, { set, place, pods, isLost: isGoneFor });
  removeGates(draft, snapshot, { set, pods });
  cliqueStatus(
    draft,
    {
      clique,
      set,
      place,
      pods,
      nodeOf: snapshot.nodeOf,
      isEnding: () =>
        isCliqueEnding(clique, { set, setReplica, ...snapshot.replica() }, snapshot.settings.fullLossPolicy, nowMs),
      progress: update.progress,
      settings: snapshot.settings,
      problem,
      failures: snapshot.failures,
    },
    nowMs,
  );
  return draft.decision();
}

export interface CliquePosition extends Omit<PodPlace, "podIndex" | "cliqueName"> {
  readonly clique: CliqueTemplate;
}

/** The position of a clique in its set, found by complete names. */
export function placeOf(set: PodCliqueSet, clique: PodClique): CliquePosition | undefined {
  const setReplica = setReplicaOf(clique);
  if (setReplica === undefined) return undefined;
  const { name } = clique.metadata;
  const replica = groupReplicaOf(clique);
  if (replica === undefined) {
    const template = set.spec.template.cliques.find(
      (each) => cliqueName(set.metadata.name, setReplica, each.name) === name,
    );
    return template === undefined ? undefined : { set, setReplica, clique: template };
  }
  const found = groupsOf(set).find(
    (group: GroupTemplate) =>
      groupName(set.metadata.name, setReplica, group.name) === clique.metadata.labels?.[labels.group],
  );
  if (found === undefined) return undefined;
  const whole = groupName(set.metadata.name, setReplica, found.name);
  const member = found.cliqueNames.find((each) => memberName(whole, replica, each) === name);
  const template = member === undefined ? undefined : cliqueNamed(set, member);
  if (template === undefined) return undefined;
  return { set, setReplica, clique: template, group: { template: found, name: whole, replica } };
}

/** The template hash of another operator's pods cannot be compared: such pods count as up to date. */
function adoptForeign(draft: GangDraft, clique: PodClique, pods: readonly Pod[]): void {
  const hash = clique.metadata.labels?.[labels.templateHash];
  if (hash === undefined || isForeignHash(hash)) return;
  for (const pod of pods) {
    if (isLeaving(pod) || !isForeignHash(hashOf(pod)) || draft.has(pod)) continue;
    draft.patch(
      pod,
      { metadata: { labels: { [labels.templateHash]: hash } } },
      "its template hash was written by another operator",
    );
  }
}

/** A finished pod is deleted and replaced; otherwise it would count for ever and never run. */
function replaceEnded(draft: GangDraft, pods: readonly Pod[]): void {
  for (const pod of pods) {
    if (!isFinished(pod) || isLeaving(pod)) continue;
    draft.remove(pod, "it has finished and is replaced", {
      stillRight: (fresh) => isFinished(fresh),
    });
  }
}

interface Scaling {
  readonly set: PodCliqueSet;
  readonly place: CliquePosition;
  readonly pods: readonly Pod[];
  readonly isLost: (pod: Pod) => boolean;
}

/**
 * Creates the missing pods, each with the lowest free index. A pod on a silent node keeps its index until it is
 * evicted: its containers may still run, and a second pod of that index would run beside them.
 */
function scale(draft: GangDraft, snapshot: CliqueSnapshot, { set, place, pods, isLost: isGoneFor }: Scaling): void {
  const { clique } = snapshot;
  const wanted = podsInReach(set, clique.spec);
  const active = pods.filter((pod) => !isLeaving(pod) && !isFinished(pod));
  const numbers = new Set<number>();
  const doubled: Pod[] = [];
  for (const pod of [...active].sort(byUsefulness(clique, isGoneFor))) {
    const number = podIndexOf(pod);
    if (number === undefined || numbers.has(number)) doubled.push(pod);
    else numbers.add(number);
  }
  const excess = Math.max(0, active.length - clique.spec.replicas);
  if (excess > 0 || doubled.length > 0) {
    shrink(
      draft,
      clique,
      [...new Set([...doubled, ...rankForRemoval(active, clique, isGoneFor)])].slice(
        0,
        Math.max(excess, doubled.length),
      ),
    );
    return;
  }
  if (isTokenMissing(snapshot, set)) {
    draft.wait("the token Secret of its pods does not exist yet");
    return;
  }
  let missing = wanted - active.length;
  const made = new Set<string>();
  for (let number = 0; missing > 0 && made.size < createsMax; number++) {
    if (numbers.has(number)) continue;
    const name = freeName(snapshot, number, made);
    missing--;
    if (snapshot.isComing(name)) continue;
    made.add(name);
    const wish = { set, clique, name, settings: snapshot.settings };
    const pod = podObject({ ...wish, place: { ...place, cliqueName: clique.metadata.name, podIndex: number } });
    draft.create(pod, `clique ${clique.metadata.name} has spec.replicas ${wanted}`);
  }
  if (active.length < wanted) draft.wait(`${wanted - active.length} pods of ${clique.metadata.name} do not exist yet`);
}

/** No more creates than this in one reconcile; their events start the next one. */
const createsMax = 500;

/** The largest number of creates in flight for one index. */
const attemptsMax = 8;

/**
 * The name whose create for this index is in flight, else the first free one. A later attempt may be in flight while
 * the name of an earlier one has become free again: that pod counts. Among thousands of indexes two may have the same
 * first name: `made` has the names of this reconcile.
 */
function freeName({ clique, isTaken, isComing }: CliqueSnapshot, number: number, made: ReadonlySet<string>): string {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const name = podName(clique, number, attempt);
    if (isComing(name)) return name;
  }
  for (let attempt = 0; ; attempt++) {
    const name = podName(clique, number, attempt);
    if (!isTaken(name) && !made.has(name)) return name;
  }
}

/**
 * The init container of a start-up order reads pods with this token; without it the container would fail and restart.
 */
function isTokenMissing({ settings, clique, tokenSecret }: CliqueSnapshot, set: PodCliqueSet): boolean {
  if (settings.startOrder.by !== "container" || (clique.spec.startsAfter ?? []).length === 0) return false;
  return set.spec.template.cliques.length > 0 && tokenSecret?.data?.["token"] === undefined;
}

function shrink(draft: GangDraft, clique: PodClique, victims: readonly Pod[]): void {
  const asked = clique.spec.replicas;
  // The clique may have been scaled out meanwhile; then none of these pods is surplus.
  const ground = {
    target: targetOf("PodClique", clique.metadata),
    holds: (fresh: { metadata: { uid: string }; [field: string]: unknown } | undefined): boolean =>
      fresh?.metadata.uid === clique.metadata.uid && ((fresh["spec"] as { replicas: number }).replicas ?? 0) <= asked,
  };
  for (const pod of victims) draft.remove(pod, `clique ${clique.metadata.name} has spec.replicas ${asked}`, { ground });
}

const phases: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

/**
 * In the order of removal: lost with its node, without a node, not running, not ready, of an older template, youngest.
 */
export function rankForRemoval(
  pods: readonly Pod[],
  clique: PodClique,
  isGoneFor: (pod: Pod) => boolean = () => false,
): Pod[] {
  const hash = targetHash(clique);
  const isAssigned = ({ spec }: Pod): number => Number((spec?.nodeName ?? "") !== "");
  const phase = ({ status }: Pod): number => phases[status?.phase ?? "Pending"] ?? 0;
  return [...pods].sort(
    (a, b) =>
      Number(isGoneFor(b)) - Number(isGoneFor(a)) ||
      isAssigned(a) - isAssigned(b) ||
      phase(a) - phase(b) ||
      Number(isReady(a)) - Number(isReady(b)) ||
      Number(hashOf(a) === hash) - Number(hashOf(b) === hash) ||
      -compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
      -byName(a, b),
  );
}

/** Of two pods with the same index the better one is kept. */
function byUsefulness(clique: PodClique, isGoneFor: (pod: Pod) => boolean): (a: Pod, b: Pod) => number {
  return (a, b) => (rankForRemoval([a, b], clique, isGoneFor)[0] === a ? 1 : -1);
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/**
 * The gate of a pod is removed when its gang references it and, beyond a group's minimum, when the base gang has its
 * minimum scheduled.
 */
function removeGates(draft: GangDraft, snapshot: CliqueSnapshot, { set, pods }: Pick<Scaling, "set" | "pods">): void {
  const { clique, settings } = snapshot;
  const gated = pods.filter((pod) => !isLeaving(pod) && hasGate(pod) && !draft.has(pod));
  if (gated.length === 0) return;
  const gangName = clique.metadata.labels?.[labels.podGang] ?? "";
  const gang = snapshot.podGangNamed(gangName);
  if (gang === undefined) {
    draft.wait(`gang ${gangName} does not exist yet`);
    return;
  }
  // Without a gang scheduler no pod starts before all pods of the gang exist.
  const isWhole = conditionOf(gang, "Initialized")?.status === "True";
  if (schedulerOf(set, settings.defaultProfile) === "default-scheduler" && !isWhole) {
    draft.wait(`gang ${gangName} does not have all its pods yet`);
    return;
  }
  const base = clique.metadata.labels?.[labels.basePodGang];
  const missing = base === undefined ? undefined : missingInBase(snapshot, base);
  if (missing !== undefined) {
    draft.wait(missing);
    return;
  }
  for (const pod of gated) {
    if (!namesPod(gang, pod)) {
      draft.wait(`gang ${gangName} does not reference ${pod.metadata.name} yet`);
      continue;
    }
    const rest = (pod.spec?.schedulingGates ?? []).filter(({ name }) => name !== gangGate);
    const patch = { spec: { schedulingGates: rest.length === 0 ? null : rest } };
    draft.patch(pod, patch, `gang ${gangName} references it`);
  }
}

function missingInBase({ podGangNamed, cliqueNamed: named }: CliqueSnapshot, base: string): string | undefined {
  const gang = podGangNamed(base);
  if (gang === undefined) return `base gang ${base} does not exist yet`;
  for (const { name, minReplicas } of gang.spec.podgroups) {
    const scheduled = named(name)?.status?.scheduledReplicas ?? 0;
    if (scheduled < minReplicas)
      return `clique ${name} of base gang ${base} has ${scheduled} of ${minReplicas} scheduled`;
  }
  return undefined;
}

export function hasGate({ spec }: Pod): boolean {
  return (spec?.schedulingGates ?? []).some(({ name }) => name === gangGate);
}
