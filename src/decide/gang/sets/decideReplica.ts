/**
 * The decision for one replica of a PodCliqueSet: its Service, autoscalers, claims, cliques, groups and gangs, and its
 * termination.
 */
import { podsInReach, replicasInReach } from "../../../model/gang/reach.ts";
import { groupsOf, standaloneCliques } from "../../../model/gang/setFacts.ts";
import type { GangSettings } from "../../../model/gang/settings.ts";
import type {
  ClusterTopologyBinding,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodGang,
} from "../../../model/gang/types.ts";
import type { HorizontalPodAutoscaler, Pod, ResourceClaim, Service } from "../../../model/kubernetes.generated.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { isOwnedBy } from "../../../model/objects/ownership.ts";
import { formatTime } from "../../../model/values/time.ts";
import { cliqueObject, cliquePatch, metadataPatch, replaced } from "../cliques/cliqueObject.ts";
import { type AbsentAt, type GangDecision, GangDraft, targetOf } from "../gangDraft.ts";
import { isLeaving } from "../gangLabels.ts";
import { conditionOf, withCondition } from "../gangs/gangConditions.ts";
import {
  type GangContext,
  type GangShape,
  gangShapes,
  isSameGang,
  podGangObject,
  referablePods,
} from "../gangs/podGangObjects.ts";
import { removeRecorded } from "../groups/decideGroup.ts";
import { groupObject, groupPatch } from "../groups/groupObject.ts";
import { judgeSetReplica, type Verdict } from "../termination.ts";
import { missingClaim, setClaims } from "./claims.ts";
import { autoscalerObjects, publishesNotReady, serviceObject } from "./sharedObjects.ts";

export interface ReplicaSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly settings: GangSettings;
  readonly set: PodCliqueSet;
  readonly setReplica: number;
  /** All cliques of the replica, of its groups as well. */
  readonly cliques: readonly PodClique[];
  readonly groups: readonly PodCliqueScalingGroup[];
  /** The gangs with the replica's index; one without an index is found by name. */
  readonly podGangs: readonly PodGang[];
  readonly podGangNamed: (name: string) => PodGang | undefined;
  readonly pods: readonly Pod[];
  readonly service: Service | undefined;
  /** All gangs of the set. */
  readonly autoscalerNamed: (name: string) => HorizontalPodAutoscaler | undefined;
  /** Claims of the set, of all its replicas. */
  readonly claims: readonly ResourceClaim[];
  readonly binding: ClusterTopologyBinding | undefined;
}

export interface ReplicaDecision extends GangDecision {
  readonly verdict: Verdict;
}

export function decideReplica(snapshot: ReplicaSnapshot, nowMs: number): ReplicaDecision {
  const { set, setReplica, settings } = snapshot;
  const draft = new GangDraft(snapshot.absentAtRevision);
  const calm: Verdict = { verdict: "calm" };
  if (isLeaving(set) || setReplica >= replicasInReach(set)) return { ...draft.decision(), verdict: calm };
  syncService(draft, snapshot);
  syncAutoscalers(draft, snapshot);
  const problem = missingClaim(setClaims(set, [setReplica]), snapshot.claims);
  if (problem !== undefined) draft.wait(problem);
  const record = (set.status?.gangTerminations ?? []).filter(({ replicaIndex }) => replicaIndex === setReplica);
  removeRecorded(draft, record, snapshot.cliques, () => {});
  // Pods that use a claim are created after it.
  if (problem === undefined) {
    syncCliques(draft, snapshot);
    syncGroups(draft, snapshot);
  }
  syncGangs(draft, snapshot, nowMs);
  const verdict = record.length > 0 ? calm : judgeSetReplica(snapshot, settings.fullLossPolicy, nowMs);
  if (verdict.verdict === "wait") {
    draft.wakeAt(verdict.untilMs);
    draft.wait(`${verdict.because}: replica ${setReplica} is terminated at ${formatTime(verdict.untilMs)}`);
  }
  return { ...draft.decision(), verdict };
}

function syncService(draft: GangDraft, { set, setReplica, service }: ReplicaSnapshot): void {
  const wanted = serviceObject(set, setReplica);
  if (service === undefined) draft.create(wanted, "the pods of the replica have DNS names");
  else if (!isLeaving(service)) {
    const metadata = metadataPatch(service, wanted);
    const isSame = (service.spec?.publishNotReadyAddresses ?? false) === publishesNotReady(set);
    if (metadata === undefined && isSame) return;
    const spec = { publishNotReadyAddresses: publishesNotReady(set) };
    draft.patch(service, { ...(metadata && { metadata }), ...(!isSame && { spec }) }, "its template has changed");
  }
}

function syncAutoscalers(draft: GangDraft, { set, setReplica, autoscalerNamed }: ReplicaSnapshot): void {
  for (const wanted of autoscalerObjects(set, setReplica)) {
    const stored = autoscalerNamed(wanted.metadata.name);
    if (stored === undefined) draft.create(wanted, "its replicas are scaled by the autoscaler");
    else if (!isLeaving(stored) && isOwnedBy(stored, set)) {
      const { scaleTargetRef, minReplicas, maxReplicas, metrics } = stored.spec ?? {};
      const now = {
        scaleTargetRef,
        ...(minReplicas !== undefined && { minReplicas }),
        maxReplicas,
        // Without metrics the API server sets its default.
        ...(wanted.spec?.metrics !== undefined && metrics !== undefined && { metrics }),
      };
      if (!equalFields(now, wanted.spec)) {
        draft.patch(stored, { spec: replaced(wanted.spec ?? {}, now) as JsonObject }, "its bounds have changed");
      }
    }
  }
}

function syncCliques(draft: GangDraft, { set, setReplica, cliques }: ReplicaSnapshot): void {
  for (const clique of standaloneCliques(set)) {
    const wanted = cliqueObject({ set, setReplica, clique });
    const stored = cliques.find(({ metadata }) => metadata.name === wanted.metadata.name);
    if (stored === undefined) {
      draft.wait(`clique ${wanted.metadata.name} does not exist yet`);
      draft.create(wanted, `replica ${setReplica} has a clique ${clique.name}`);
    } else if (!isLeaving(stored) && isOwnedBy(stored, set) && !draft.has(stored)) {
      const patch = cliquePatch(stored, wanted);
      if (patch !== undefined) draft.patch(stored, patch, "its template has changed");
    }
  }
}

function syncGroups(draft: GangDraft, { set, setReplica, groups }: ReplicaSnapshot): void {
  for (const template of groupsOf(set)) {
    const wanted = groupObject(set, setReplica, template);
    const stored = groups.find(({ metadata }) => metadata.name === wanted.metadata.name);
    if (stored === undefined) {
      draft.wait(`group ${wanted.metadata.name} does not exist yet`);
      draft.create(wanted, `replica ${setReplica} has a group ${template.name}`);
    } else if (!isLeaving(stored) && isOwnedBy(stored, set)) {
      const patch = groupPatch(stored, wanted);
      if (patch !== undefined) draft.patch(stored, patch, "its template has changed");
    }
  }
}

/**
 * A gang exists before its pods may be scheduled, references them as they are created, and is initialized when all
 * exist.
 */
function syncGangs(draft: GangDraft, snapshot: ReplicaSnapshot, nowMs: number): void {
  const { set, setReplica, groups, pods, binding, settings } = snapshot;
  const shapes = gangShapes(set, setReplica, groups);
  const wanted = new Set(shapes.map(({ name }) => name));
  for (const gang of snapshot.podGangs) if (!wanted.has(gang.metadata.name)) removeGang(draft, set, gang);
  const around: GangContext = { set, pods, binding, settings };
  for (const shape of shapes) {
    const stored =
      snapshot.podGangs.find(({ metadata }) => metadata.name === shape.name) ?? snapshot.podGangNamed(shape.name);
    const object = podGangObject(shape, around, stored);
    const missing = missingOf(shape, snapshot);
    if (missing !== undefined) draft.wait(missing);
    if (stored === undefined) {
      draft.create(object, `replica ${setReplica} is scheduled as a gang`);
      continue;
    }
    if (isLeaving(stored) || !isOwnedBy(stored, set)) continue;
    const metadata = gangMetadataPatch(stored, object);
    const isSame = isSameGang(stored.spec, object.spec);
    if (metadata !== undefined || !isSame) {
      const spec = isSame ? undefined : replaced(object.spec, stored.spec);
      draft.patch(
        stored,
        { ...(metadata && { metadata }), ...(spec && { spec: spec as JsonObject }) },
        "its pods or its set have changed",
      );
      continue;
    }
    sayInitialized(draft, stored, missing, nowMs);
  }
}

function gangMetadataPatch(stored: PodGang, wanted: ReturnType<typeof podGangObject>): JsonObject | undefined {
  const patch: JsonObject = metadataPatch(stored, wanted) ?? {};
  for (const field of ["labels", "annotations"] as const) {
    for (const key of Object.keys(stored.metadata[field] ?? {})) {
      if (wanted.metadata[field]?.[key] !== undefined) continue;
      patch[field] = { ...(patch[field] as JsonObject | undefined), [key]: null };
    }
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

function removeGang(draft: GangDraft, set: PodCliqueSet, gang: PodGang): void {
  draft.remove(gang, "its replica does not exist any more", {
    stillRight: (fresh) => fresh.metadata.ownerReferences?.some(({ uid }) => uid === set.metadata.uid) === true,
    ground: {
      target: targetOf("PodCliqueSet", set.metadata),
      holds: (fresh: KubeObject | undefined) => fresh?.metadata.uid === set.metadata.uid,
    },
  });
}

/** Why a gang is incomplete: a clique is missing, too few pods exist, or pods belong to another gang. */
function missingOf({ name, members }: GangShape, { set, cliques, pods }: ReplicaSnapshot): string | undefined {
  for (const member of members) {
    const clique = cliques.find(({ metadata }) => metadata.name === member.name);
    if (clique === undefined || isLeaving(clique)) return `gang ${name} waits for clique ${member.name}`;
    const found = referablePods(pods, member.name, name).length;
    const wanted = podsInReach(set, clique.spec);
    if (found < wanted) return `gang ${name} has ${found} of ${wanted} pods of ${member.name}`;
  }
  return undefined;
}

/** Initialized stays True once it was: later changes of the pods do not affect this condition. */
function sayInitialized(draft: GangDraft, gang: PodGang, missing: string | undefined, nowMs: number): void {
  const before = conditionOf(gang, "Initialized");
  if (before?.status === "True" || (before !== undefined && missing !== undefined)) return;
  const initialized =
    missing === undefined
      ? { status: "True" as const, reason: "PodGangPodsCreated", message: "all pods of the gang exist" }
      : { status: "False" as const, reason: "PodGangPodsCreationPending", message: "not all pods of the gang exist" };
  const conditions = withCondition(gang.status?.conditions, { type: "Initialized", ...initialized }, nowMs);
  draft.status(gang, { ...gang.status, phase: gang.status?.phase ?? "Pending", conditions }, initialized.message);
}
