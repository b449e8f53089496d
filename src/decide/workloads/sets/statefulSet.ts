/**
 * The decision of the StatefulSet controller: numbered pods that keep name and volumes, created and updated in order.
 */

import type {
  ControllerRevision,
  PersistentVolumeClaim,
  Pod,
  PodTemplateSpec,
  StatefulSet,
  StatefulSetStatus,
} from "../../../model/kubernetes.generated.ts";
import { type IsTaken, TakenNames } from "../../../model/objects/derivedName.ts";
import { type Decision, Draft, withoutZeros } from "../../../model/objects/draft.ts";
import { selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { claim } from "../../../model/objects/ownership.ts";
import {
  availableAtMs,
  byAge,
  byName,
  isAvailable,
  isFinished,
  isLeaving,
  isReady,
} from "../../../model/objects/podFacts.ts";
import type { Revision } from "../../../model/revision.ts";
import { pendingPodsMessage, pendingPodsRoom } from "../pendingPods.ts";
import { shareOf } from "../shareOf.ts";
import { deleteOldRevisions, presentRevision, revisionHashLabel, templateOf } from "./controllerRevision.ts";
import { claimNameOf, claimOwners, newClaim, ordinalOf, podNameOf, statefulPod } from "./statefulPod.ts";

export interface StatefulSetSnapshot {
  readonly revision: Revision;
  readonly statefulSet: StatefulSet;
  /** All pods of the namespace, or at least those that the set controls or selects. */
  readonly pods: readonly Pod[];
  /**
   * Whether any pod of the namespace has a name. Needed where `pods` is not the whole namespace: another owner's pod
   * may have a name that the set needs.
   */
  readonly isTaken?: IsTaken;
  /**
   * The claim of this name in the set's namespace. Looked up by name: a set may have more claims than can be listed.
   */
  readonly claimNamed: (name: string) => PersistentVolumeClaim | undefined;
  /** All ControllerRevisions of the namespace. */
  readonly revisions: readonly ControllerRevision[];
}

/** No more creates than this in one reconcile. */
const burst = 500;

const hashLabel = "controller.kubernetes.io/hash";

export function decideStatefulSet(snapshot: StatefulSetSnapshot, nowMs: number): Decision {
  const draft = new Draft();
  const { statefulSet } = snapshot;
  const { spec, metadata, status } = statefulSet;
  if (spec === undefined) return draft.decision();
  const requirements = selectorRequirements(spec.selector);
  const pods = claim(draft, statefulSet, requirements, [...snapshot.pods].sort(byName), {
    adopts: (pod) => ordinalOf(statefulSet, pod) !== undefined,
  });
  const revisions = claim(draft, statefulSet, requirements, [...snapshot.revisions].sort(byAge));
  const present = presentRevision(draft, {
    owner: statefulSet,
    template: spec.template,
    collisionCount: status?.collisionCount,
    hashLabel,
    revisions,
    all: snapshot.revisions,
    absentAtRevision: snapshot.revision,
  });
  if (present.collides) {
    const collisionCount = (status?.collisionCount ?? 0) + 1;
    draft.status(
      statefulSet,
      { replicas: 0, ...status, collisionCount },
      `another revision has the name ${present.name}`,
    );
    return draft.decision();
  }
  const roll = new Roll(draft, snapshot, pods, revisions, present.name, nowMs);
  if (metadata.deletionTimestamp === undefined) roll.manage();
  roll.writeStatus();
  const live = new Set(pods.map((pod) => pod.metadata.labels?.[revisionHashLabel]));
  live.add(present.name).add(roll.current);
  deleteOldRevisions(draft, statefulSet, revisions, {
    limit: spec.revisionHistoryLimit ?? 10,
    isLive: (each) => live.has(each.metadata.name),
  });
  return draft.decision();
}

class Roll {
  readonly draft: Draft;
  readonly snapshot: StatefulSetSnapshot;
  readonly set: StatefulSet;
  readonly nowMs: number;
  /** Names of the current and the update revision. */
  readonly current: string;
  readonly update: string;
  readonly currentTemplate: PodTemplateSpec;
  readonly start: number;
  readonly replicas: number;
  readonly minReadySeconds: number;
  readonly pods: readonly Pod[];
  readonly byOrdinal = new Map<number, Pod>();
  readonly taken: TakenNames;
  /** Pods beyond the desired ordinals, the highest first. */
  readonly condemned: readonly Pod[];
  readonly isOrdered: boolean;

  constructor(
    draft: Draft,
    snapshot: StatefulSetSnapshot,
    pods: readonly Pod[],
    revisions: readonly ControllerRevision[],
    update: string,
    nowMs: number,
  ) {
    this.draft = draft;
    this.snapshot = snapshot;
    this.set = snapshot.statefulSet;
    this.nowMs = nowMs;
    this.update = update;
    const { spec, status } = this.set;
    const stored = revisions.find(({ metadata }) => metadata.name === status?.currentRevision);
    this.current = stored?.metadata.name ?? update;
    const template = spec?.template ?? {};
    this.currentTemplate = stored === undefined ? template : (templateOf(stored) ?? template);
    this.start = spec?.ordinals?.start ?? 0;
    this.replicas = spec?.replicas ?? 1;
    this.minReadySeconds = spec?.minReadySeconds ?? 0;
    this.isOrdered = spec?.podManagementPolicy !== "Parallel";
    this.pods = pods;
    this.taken = new TakenNames(this.set.metadata.namespace, snapshot.pods, snapshot.isTaken);
    const condemned: { pod: Pod; ordinal: number }[] = [];
    for (const pod of pods) {
      const ordinal = ordinalOf(this.set, pod);
      if (ordinal === undefined) continue;
      if (this.isWanted(ordinal)) this.byOrdinal.set(ordinal, pod);
      else condemned.push({ pod, ordinal });
    }
    this.condemned = condemned.sort((a, b) => b.ordinal - a.ordinal).map(({ pod }) => pod);
  }

  isWanted(ordinal: number): boolean {
    return ordinal >= this.start && ordinal < this.start + this.replicas;
  }

  isHealthy(pod: Pod | undefined): boolean {
    if (pod === undefined || isLeaving(pod) || pod.status?.phase !== "Running") return false;
    return isAvailable(pod, this.minReadySeconds, this.nowMs);
  }

  manage(): void {
    if (!this.alignClaims()) return;
    if (!this.fill() && this.isOrdered) return;
    if (!this.shrink() && this.isOrdered) return;
    this.roll();
  }

  /**
   * Owners of claims follow the retention policy before any pod is deleted: a claim that is to be deleted with its pod
   * needs the owner reference first.
   */
  alignClaims(): boolean {
    const { set, draft, snapshot } = this;
    let isAligned = true;
    for (const pod of [...this.byOrdinal.values(), ...this.condemned]) {
      const ordinal = ordinalOf(set, pod);
      if (ordinal === undefined) continue;
      for (const template of set.spec?.volumeClaimTemplates ?? []) {
        const found = snapshot.claimNamed(claimNameOf(set, template, ordinal));
        if (found === undefined || found.metadata.deletionTimestamp !== undefined) continue;
        const before = found.metadata.ownerReferences ?? [];
        const wanted = claimOwners(set, pod, !this.isWanted(ordinal));
        const others = before.filter(
          ({ uid, kind, name }) => uid !== set.metadata.uid && !(kind === "Pod" && name === pod.metadata.name),
        );
        const next = [...others, ...wanted];
        if (next.length === before.length && next.every((each) => before.some(({ uid }) => uid === each.uid))) continue;
        const patch = { metadata: { ownerReferences: next.length > 0 ? next : null } };
        draft.patch(
          found,
          patch,
          `ownerReferences of PersistentVolumeClaim ${found.metadata.name} follow persistentVolumeClaimRetentionPolicy of StatefulSet ${set.metadata.name}`,
        );
        isAligned = false;
      }
    }
    return isAligned;
  }

  /**
   * Creates missing pods, a bounded number in one reconcile. Returns whether every desired pod exists and is healthy.
   */
  fill(): boolean {
    const { set, draft } = this;
    let isWhole = true;
    const room = pendingPodsRoom(this.byOrdinal.values());
    let made = 0;
    for (let ordinal = this.start; ordinal < this.start + this.replicas; ordinal++) {
      const pod = this.byOrdinal.get(ordinal);
      if (pod === undefined) {
        if (room === 0) draft.limitedBy(pendingPodsMessage("StatefulSet"));
        if (made >= Math.min(burst, room)) return false;
        if (this.create(ordinal)) made++;
      } else if (isFinished(pod) && !isLeaving(pod)) {
        if (!draft.has(pod))
          draft.remove(pod, `pod ${pod.metadata.name} of StatefulSet ${set.metadata.name} has finished`);
      } else if (this.isHealthy(pod)) continue;
      else this.wakeFor(pod);
      isWhole = false;
      if (this.isOrdered) return false;
    }
    return isWhole;
  }

  wakeFor(pod: Pod): void {
    const atMs = availableAtMs(pod, this.minReadySeconds);
    if (atMs !== undefined && atMs > this.nowMs) this.draft.wakeAt(atMs);
  }

  /** Returns true when a pod is created; false when its claim or its name is not free yet. */
  create(ordinal: number): boolean {
    const { set, draft, snapshot } = this;
    const { name } = set.metadata;
    for (const template of set.spec?.volumeClaimTemplates ?? []) {
      const claimName = claimNameOf(set, template, ordinal);
      const found = snapshot.claimNamed(claimName);
      // A terminating claim belongs to the earlier pod; the new pod waits for its own.
      if (found?.metadata.deletionTimestamp !== undefined) return false;
      if (found === undefined)
        draft.create(snapshot.revision, newClaim(set, template, ordinal), `pod ${ordinal} of ${name} needs it`);
    }
    const podName = podNameOf(set, ordinal);
    // A pod of another owner has the name, or one that is being released; its deletion enqueues the set.
    if (this.taken.has(podName)) return false;
    const identity = this.usesCurrent(ordinal)
      ? { ordinal, revision: this.current, template: this.currentTemplate }
      : { ordinal, revision: this.update, template: set.spec?.template ?? {} };
    draft.create(snapshot.revision, statefulPod(set, identity), `StatefulSet ${name} needs pod ${ordinal}`);
    return true;
  }

  /** Below the partition a pod is created again from the old template. */
  usesCurrent(ordinal: number): boolean {
    const { type = "RollingUpdate", rollingUpdate } = this.set.spec?.updateStrategy ?? {};
    if (type !== "RollingUpdate") return false;
    return ordinal < this.start + (rollingUpdate?.partition ?? 0);
  }

  /** Deletes surplus pods, from the highest ordinal. True when none is left. */
  shrink(): boolean {
    const { set, draft } = this;
    for (const pod of this.condemned) {
      if (isLeaving(pod)) {
        if (this.isOrdered) return false;
        continue;
      }
      if (!draft.has(pod)) draft.remove(pod, `StatefulSet ${set.metadata.name} has ${this.replicas} replicas`);
      if (this.isOrdered) return false;
    }
    return this.condemned.length === 0;
  }

  /** One step of a rolling update, from the highest ordinal down to the partition. */
  roll(): void {
    const { set, draft } = this;
    const { type = "RollingUpdate", rollingUpdate } = set.spec?.updateStrategy ?? {};
    if (type !== "RollingUpdate") return;
    const maxUnavailable = Math.max(1, shareOf(rollingUpdate?.maxUnavailable ?? 1, this.replicas, "up"));
    const from = this.start + (rollingUpdate?.partition ?? 0);
    // Only existing pods are counted: there may be two billion desired ones.
    let unavailable = this.replicas;
    for (const pod of this.byOrdinal.values()) if (this.isHealthy(pod)) unavailable--;
    for (const [ordinal, pod] of [...this.byOrdinal].sort(([a], [b]) => b - a)) {
      if (ordinal < from) break;
      if (isLeaving(pod) || draft.has(pod) || this.revisionOf(pod) === this.update) continue;
      // An unhealthy pod may be deleted whatever number of others is unavailable.
      const isFree = !this.isHealthy(pod);
      if (!isFree && unavailable >= maxUnavailable) continue;
      if (!isFree) unavailable++;
      draft.remove(pod, `pod ${ordinal} of StatefulSet ${set.metadata.name} is updated to ${this.update}`);
    }
  }

  revisionOf({ metadata }: Pod): string | undefined {
    return metadata.labels?.[revisionHashLabel];
  }

  writeStatus(): void {
    const { set, draft } = this;
    const { spec, metadata, status: before } = set;
    const alive = [...this.byOrdinal.values(), ...this.condemned].filter((pod) => !isFinished(pod));
    const settled = alive.filter((pod) => !isLeaving(pod));
    const status: StatefulSetStatus = {
      ...before,
      observedGeneration: metadata.generation ?? 0,
      replicas: alive.length,
      readyReplicas: alive.filter((pod) => pod.status?.phase === "Running" && isReady(pod)).length,
      availableReplicas: settled.filter((pod) => this.isHealthy(pod)).length,
      currentReplicas: settled.filter((pod) => this.revisionOf(pod) === this.current).length,
      updatedReplicas: settled.filter((pod) => this.revisionOf(pod) === this.update).length,
      currentRevision: this.current,
      updateRevision: this.update,
      collisionCount: before?.collisionCount ?? 0,
    };
    const isRolling = (spec?.updateStrategy?.type ?? "RollingUpdate") === "RollingUpdate";
    const isDone = status.updatedReplicas === status.replicas && status.readyReplicas === status.replicas;
    // When every pod has the update revision, it becomes the current one.
    if (isRolling && isDone && status.replicas === this.replicas) {
      status.currentReplicas = status.updatedReplicas ?? 0;
      status.currentRevision = this.update;
    }
    for (const pod of settled) this.wakeFor(pod);
    const shown = withoutZeros(status, ["readyReplicas", "currentReplicas", "updatedReplicas"]);
    const why = `StatefulSet ${metadata.name}: ${status.readyReplicas} of ${this.replicas} pods ready`;
    draft.status(set, shown, why);
  }
}
