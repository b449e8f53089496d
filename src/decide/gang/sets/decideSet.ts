/**
 * The decision for a PodCliqueSet: service account and token, surplus objects to delete, its update, and its status.
 */
import { finalizers, labels } from "../../../model/gang/keys.ts";
import { limitOf, replicasInReach } from "../../../model/gang/reach.ts";
import {
  groupMinAvailable,
  groupsOf,
  indexLabel,
  minAvailableOf,
  replicasOf,
  setReplicaOf,
  standaloneCliques,
  strategyOf,
} from "../../../model/gang/setFacts.ts";
import type { GangSettings } from "../../../model/gang/settings.ts";
import type {
  ClusterTopologyBinding,
  GangTermination,
  LastError,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodCliqueSetStatus,
  PodGang,
  SetUpdateProgress,
} from "../../../model/gang/types.ts";
import type { HorizontalPodAutoscaler, ResourceClaim, Service } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { isOwnedBy } from "../../../model/objects/ownership.ts";
import { formatTime } from "../../../model/values/time.ts";
import { announceTermination } from "../announceTermination.ts";
import { breachType, terminationType } from "../breach.ts";
import { type AbsentAt, dropFinalizer, type GangDecision, GangDraft, keepFinalizer, targetOf } from "../gangDraft.ts";
import { defaultLabels, isLeaving, selectorText } from "../gangLabels.ts";
import { conditionOf, withCondition, withoutCondition } from "../gangs/gangConditions.ts";
import { gangShapes } from "../gangs/podGangObjects.ts";
import { topologyCondition } from "../gangs/topologyCondition.ts";
import { datedError, type ReconcileFailure } from "../reconcileEvents.ts";
import { setClaims, syncClaims, type TemplateNamed } from "./claims.ts";
import { generationHash, isForeignHash } from "./hashes.ts";
import { countUpdated, isReplicaUpdated, nextProgress, type SetReplicaChildren } from "./setUpdate.ts";
import { accountObjects, autoscalerObjects } from "./sharedObjects.ts";

export interface SetSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly settings: GangSettings;
  readonly set: PodCliqueSet;
  readonly cliques: readonly PodClique[];
  readonly groups: readonly PodCliqueScalingGroup[];
  readonly podGangs: readonly PodGang[];
  readonly services: readonly Service[];
  readonly autoscalers: readonly HorizontalPodAutoscaler[];
  readonly claims: readonly ResourceClaim[];
  readonly templateNamed: TemplateNamed;
  /** The account, role, binding and token of this name, if it exists. */
  readonly accountNamed: (kind: string, name: string) => KubeObject | undefined;
  readonly bindingNamed: (name: string) => ClusterTopologyBinding | undefined;
  /** Failures of its reconciles. */
  readonly failures: readonly ReconcileFailure[];
}

export function decideSet(snapshot: SetSnapshot, nowMs: number): GangDecision {
  const { set } = snapshot;
  const draft = new GangDraft(snapshot.absentAtRevision);
  if (isLeaving(set)) {
    dropFinalizer(draft, set, finalizers.PodCliqueSet);
    return draft.decision();
  }
  keepFinalizer(draft, set, finalizers.PodCliqueSet);
  const conflict = syncAccount(draft, snapshot);
  if (conflict !== undefined) draft.wait(conflict.description);
  const problem = syncClaims(draft, setClaims(set), snapshot.claims, snapshot.templateNamed);
  if (problem !== undefined) draft.wait(problem);
  removeExcess(draft, snapshot);
  const limit = limitOf(set);
  if (limit !== undefined) draft.wait(limit);
  const errors = [
    ...(limit === undefined ? [] : [{ code: limitCode, description: limit }]),
    ...(conflict === undefined ? [] : [conflict]),
    ...(problem === undefined ? [] : [{ code: "ERR_SYNC_PCS_RESOURCE_CLAIM", description: problem }]),
    ...snapshot.failures,
  ];
  if (setStatus(draft, snapshot, errors, nowMs) && limit !== undefined) sayLimit(draft, set, limit);
  return draft.decision();
}

const limitCode = "ERR_REPLICAS_LIMITED";

/** An Event when the limit begins or changes, with the status write that records it. */
function sayLimit(draft: GangDraft, set: PodCliqueSet, limit: string): void {
  const isRecorded = set.status?.lastErrors?.some(
    ({ code, description }) => code === limitCode && description === limit,
  );
  if (isRecorded === true) return;
  draft.note({ regarding: set, type: "Warning", reason: "ReplicasLimited", action: "Reconciling", note: limit });
}

/** An existing object of this name with another owner is not adopted. */
function syncAccount(
  draft: GangDraft,
  { set, accountNamed }: SetSnapshot,
): Pick<LastError, "code" | "description"> | undefined {
  let conflict: Pick<LastError, "code" | "description"> | undefined;
  for (const wanted of accountObjects(set)) {
    const stored = accountNamed(wanted.kind, wanted.metadata.name);
    if (stored === undefined) draft.create(wanted, "the pods of the set have their own service account");
    else if (wanted.kind === "Secret" && !isOwnedBy(stored, set)) {
      conflict = {
        code: "ERR_SECRET_CONFLICT",
        description: `Secret ${wanted.metadata.name} exists and does not belong to this set`,
      };
    }
  }
  return conflict;
}

/** Deletes all objects of surplus replicas, Services included, and surplus autoscalers. */
function removeExcess(draft: GangDraft, snapshot: SetSnapshot): void {
  const { set } = snapshot;
  const asked = replicasOf(set);
  const ground = {
    target: targetOf("PodCliqueSet", set.metadata),
    holds: (fresh: PodCliqueSet | undefined): boolean =>
      fresh?.metadata.uid === set.metadata.uid && replicasOf(fresh) <= asked,
  };
  const why = `the set has ${asked} replicas`;
  const isOurs = (object: KubeObject): boolean => isOwnedBy(object, set);
  // Cliques of groups are deleted with their group.
  for (const object of [...snapshot.groups, ...snapshot.cliques, ...snapshot.podGangs, ...snapshot.services]) {
    const index = setReplicaOf(object);
    if (index !== undefined && index >= asked && isOurs(object)) draft.remove(object, why, { ground });
  }
  const unnumbered = snapshot.podGangs.filter((gang) => setReplicaOf(gang) === undefined);
  if (unnumbered.length > 0) removeUnexpectedGangs(draft, snapshot, unnumbered);
  if (snapshot.autoscalers.length === 0) return;
  const scalers = new Set<string>();
  for (let index = 0; index < replicasInReach(set); index++) {
    for (const { metadata } of autoscalerObjects(set, index)) scalers.add(metadata.name);
  }
  for (const scaler of snapshot.autoscalers) {
    if (!scalers.has(scaler.metadata.name) && isOurs(scaler))
      draft.remove(scaler, "its target is no longer scaled", { ground });
  }
}

/** Gangs without the index label, which another operator created, are found by name. */
function removeUnexpectedGangs(draft: GangDraft, { set, groups }: SetSnapshot, gangs: readonly PodGang[]): void {
  const names = new Set<string>();
  for (let index = 0; index < replicasInReach(set); index++) {
    for (const { name } of gangShapes(set, index, groups)) names.add(name);
  }
  for (const gang of gangs)
    if (!names.has(gang.metadata.name) && isOwnedBy(gang, set))
      draft.remove(gang, "its replica does not exist any more");
}

export function childrenByReplica({
  set,
  cliques,
  groups,
}: Pick<SetSnapshot, "set" | "cliques" | "groups">): SetReplicaChildren[] {
  const replicas = Array.from({ length: replicasInReach(set) }, (_, index) => ({
    index,
    cliques: [] as PodClique[],
    groups: [] as PodCliqueScalingGroup[],
  }));
  for (const clique of cliques) replicas[setReplicaOf(clique) ?? -1]?.cliques.push(clique);
  for (const group of groups) replicas[setReplicaOf(group) ?? -1]?.groups.push(group);
  return replicas;
}

/** All its cliques and groups exist and have their minimum ready. */
export function isReplicaAvailable(set: PodCliqueSet, { cliques, groups }: SetReplicaChildren): boolean {
  const own = cliques.filter((clique) => !isLeaving(clique) && indexLabel(clique, labels.groupReplica) === undefined);
  const staying = groups.filter((group) => !isLeaving(group));
  return (
    own.length === standaloneCliques(set).length &&
    own.every(({ spec, status }) => (status?.readyReplicas ?? 0) >= minAvailableOf(spec)) &&
    staying.length === groupsOf(set).length &&
    staying.every(({ spec, status }) => (status?.availableReplicas ?? 0) >= groupMinAvailable(spec))
  );
}

function setStatus(
  draft: GangDraft,
  snapshot: SetSnapshot,
  errors: readonly Pick<LastError, "code" | "description">[],
  nowMs: number,
): boolean {
  const { set, settings } = snapshot;
  const { lastErrors, gangTerminations, ...before } = set.status ?? {};
  const replicas = childrenByReplica(snapshot);
  const { hash, progress: begun } = beginUpdate(set, nowMs);
  // Compared with the stored hash: the children may not have observed a newer one yet.
  const isNew = hash !== set.status?.currentGenerationHash;
  const moved = begun === undefined || isNew ? begun : nextProgress(set, begun, replicas, nowMs);
  const counts = countUpdated(set, replicas);
  const progress: SetUpdateProgress | undefined = moved && {
    ...moved,
    updatedPodCliquesCount: isNew ? 0 : counts.updatedCliques,
    totalPodCliquesCount: counts.totalCliques,
    updatedPodCliqueScalingGroupsCount: isNew ? 0 : counts.updatedGroups,
    totalPodCliqueScalingGroupsCount: counts.totalGroups,
  };
  const available = replicas.filter((replica) => isReplicaAvailable(set, replica));
  const updated = isNew ? 0 : available.filter((replica) => isReplicaUpdated(set, replica)).length;
  const { generation } = set.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const topology = topologyCondition(set, settings, snapshot.bindingNamed);
  const conditions =
    topology === undefined
      ? withoutCondition(before.conditions, "TopologyLevelsUnavailable")
      : withCondition(before.conditions, { ...topology, ...observed }, nowMs);
  const terminations = openTerminations(draft, snapshot, gangTerminations, settings);
  const isSettled = available.length === replicas.length && terminations.length === 0 && !isRunningUpdate(progress);
  const status: PodCliqueSetStatus = {
    ...before,
    ...(isSettled && observed),
    ...(conditions.length > 0 ? { conditions } : {}),
    ...(errors.length > 0 && { lastErrors: errors.map((error) => datedError(error, lastErrors, nowMs)) }),
    replicas: replicasInReach(set),
    updatedReplicas: updated,
    availableReplicas: available.length,
    hpaPodSelector: selectorText(defaultLabels(set.metadata.name)),
    currentGenerationHash: hash,
    ...(progress && { updateProgress: progress }),
    fullLossPolicy: settings.fullLossPolicy,
    ...(terminations.length > 0 && { gangTerminations: terminations }),
  };
  if (topology === undefined && before.conditions !== undefined && conditions.length === 0) delete status.conditions;
  return draft.status(set, status, "the status of its replicas");
}

function isRunningUpdate(progress: SetUpdateProgress | undefined): boolean {
  return progress !== undefined && progress.updateEndedAt === undefined;
}

/** The first hash is stored, one of another operator is adopted, and a new one begins an update. */
function beginUpdate(set: PodCliqueSet, nowMs: number): { hash: string; progress: SetUpdateProgress | undefined } {
  const hash = generationHash(set);
  const stored = set.status?.currentGenerationHash;
  const progress = set.status?.updateProgress;
  if (stored === undefined || stored === hash || isForeignHash(stored)) return { hash, progress };
  const now = formatTime(nowMs);
  return { hash, progress: { updateStartedAt: now, ...(strategyOf(set) === "OnDelete" && { updateEndedAt: now }) } };
}

/** A record is over when its cliques are gone and every group of the replica has observed it, where that matters. */
function openTerminations(
  draft: GangDraft,
  { set, cliques, groups }: SetSnapshot,
  records: readonly GangTermination[] | undefined,
  { fullLossPolicy }: GangSettings,
): GangTermination[] {
  return (records ?? []).filter((record) => {
    const uids = new Set(record.podCliques.map(({ uid }) => uid));
    const left = cliques.filter(({ metadata }) => uids.has(metadata.uid)).length;
    const unaware = groups.filter(
      (group) =>
        setReplicaOf(group) === record.replicaIndex &&
        !isLeaving(group) &&
        conditionOf(group, breachType)?.status === "True" &&
        conditionOf(group, terminationType)?.status !== "True",
    ).length;
    const isOpen =
      record.replicaIndex < replicasOf(set) && (left > 0 || (fullLossPolicy === "Terminate" && unaware > 0));
    if (!isOpen) {
      announceTermination(draft, set, record, {
        regarding: set,
        reason: "PodCliqueSetReplicaDeleteSuccessful",
        note: `Replica ${record.replicaIndex} is terminated and starts again: ${record.because}`,
      });
    } else draft.wait(`replica ${record.replicaIndex} is being terminated: ${left} cliques are left`);
    return isOpen;
  });
}
