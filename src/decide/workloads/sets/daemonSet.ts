/** The decision of the DaemonSet controller: one pod on every node that its template selects. */

import type { ControllerRevision, DaemonSet, DaemonSetStatus, Node, Pod } from "../../../model/kubernetes.generated.ts";
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
import { endedAtMs } from "../jobs/jobFailure.ts";
import { shareOf } from "../shareOf.ts";
import { deleteOldRevisions, presentRevision, revisionHashLabel } from "./controllerRevision.ts";
import { daemonPod, fitOf, type NodeFit, nodeNameOf } from "./daemonPod.ts";

export interface DaemonSetSnapshot {
  readonly revision: Revision;
  readonly daemonSet: DaemonSet;
  readonly nodes: readonly Node[];
  /** All pods of the namespace, or at least those that the set controls or selects. */
  readonly pods: readonly Pod[];
  /**
   * Whether any pod of the namespace has a name. Needed where `pods` is not the whole namespace: a pod that was
   * released by a change of its labels keeps its name.
   */
  readonly isTaken?: IsTaken;
  /** All ControllerRevisions of the namespace. */
  readonly revisions: readonly ControllerRevision[];
}

const burst = 250;
/** Back-off for pods that end at once. */
const replaceAfterMs = 5_000;

export function decideDaemonSet(snapshot: DaemonSetSnapshot, nowMs: number): Decision {
  const draft = new Draft();
  const { daemonSet } = snapshot;
  const { spec, metadata } = daemonSet;
  if (spec === undefined) return draft.decision();
  const requirements = selectorRequirements(spec.selector);
  if (requirements.length === 0) {
    const status = { ...emptyStatus, ...daemonSet.status, observedGeneration: metadata.generation ?? 0 };
    draft.status(daemonSet, status, `DaemonSet ${metadata.name} has an empty selector and is ignored`);
    return draft.decision();
  }
  const pods = claim(draft, daemonSet, requirements, [...snapshot.pods].sort(byAge));
  const revisions = claim(draft, daemonSet, requirements, [...snapshot.revisions].sort(byAge));
  if (metadata.deletionTimestamp !== undefined) return draft.decision();
  const present = presentRevision(draft, {
    owner: daemonSet,
    template: spec.template,
    collisionCount: daemonSet.status?.collisionCount,
    hashLabel: revisionHashLabel,
    revisions,
    all: snapshot.revisions,
    absentAtRevision: snapshot.revision,
  });
  if (present.collides) {
    const collisionCount = (daemonSet.status?.collisionCount ?? 0) + 1;
    const status = { ...emptyStatus, ...daemonSet.status, collisionCount };
    draft.status(daemonSet, status, `another revision has the name ${present.name}`);
    return draft.decision();
  }
  const fleet = new Fleet(draft, snapshot, pods, present.hash, nowMs);
  fleet.manage();
  fleet.update();
  const hashes = new Set(pods.map((pod) => pod.metadata.labels?.[revisionHashLabel]));
  deleteOldRevisions(draft, daemonSet, revisions, {
    limit: spec.revisionHistoryLimit ?? 10,
    isLive: (each) => each.metadata.name === present.name || hashes.has(each.metadata.labels?.[revisionHashLabel]),
  });
  fleet.writeStatus();
  return draft.decision();
}

const emptyStatus: DaemonSetStatus = {
  currentNumberScheduled: 0,
  desiredNumberScheduled: 0,
  numberMisscheduled: 0,
  numberReady: 0,
};

interface Place {
  readonly name: string;
  readonly fit: NodeFit;
  readonly pods: readonly Pod[];
}

class Fleet {
  readonly draft: Draft;
  readonly snapshot: DaemonSetSnapshot;
  readonly hash: string;
  readonly nowMs: number;
  readonly places: readonly Place[];
  readonly taken: TakenNames;
  readonly minReadySeconds: number;
  readonly maxSurge: number;
  readonly maxUnavailable: number;

  constructor(draft: Draft, snapshot: DaemonSetSnapshot, pods: readonly Pod[], hash: string, nowMs: number) {
    const { daemonSet, nodes } = snapshot;
    this.draft = draft;
    this.snapshot = snapshot;
    this.hash = hash;
    this.nowMs = nowMs;
    const byNode = new Map<string, Pod[]>();
    for (const pod of pods) {
      // Finished and terminating: only the object is left.
      if (isLeaving(pod) && isFinished(pod)) continue;
      const nodeName = nodeNameOf(pod);
      // An adopted pod may have no node affinity; it counts on its node.
      if (nodeName === undefined) continue;
      const onNode = byNode.get(nodeName);
      if (onNode === undefined) byNode.set(nodeName, [pod]);
      else onNode.push(pod);
    }
    const known = [...nodes].sort(byName).map((node): Place => {
      const { name } = node.metadata;
      return { name, fit: fitOf(daemonSet, node), pods: byNode.get(name) ?? [] };
    });
    const names = new Set(known.map(({ name }) => name));
    for (const [name, onNode] of byNode) if (!names.has(name)) this.dropUnbound(onNode);
    this.places = known;
    this.taken = new TakenNames(daemonSet.metadata.namespace, snapshot.pods, snapshot.isTaken);
    const { updateStrategy, minReadySeconds = 0 } = daemonSet.spec ?? {};
    const desired = known.filter(({ fit }) => fit.shouldRun).length;
    const rolling = updateStrategy?.rollingUpdate;
    const isRolling = (updateStrategy?.type ?? "RollingUpdate") === "RollingUpdate";
    this.minReadySeconds = minReadySeconds;
    this.maxSurge = isRolling ? shareOf(rolling?.maxSurge, desired, "up") : 0;
    const unavailable = shareOf(rolling?.maxUnavailable ?? 1, desired, "up");
    this.maxUnavailable = isRolling ? (this.maxSurge === 0 ? Math.max(1, unavailable) : unavailable) : 0;
  }

  /** Unscheduled pods for deleted nodes. Scheduled ones are left to the pod garbage collector. */
  dropUnbound(pods: readonly Pod[]): void {
    for (const pod of pods) {
      if ((pod.spec?.nodeName ?? "") === "") this.remove(pod, "the node of the pod does not exist");
    }
  }

  isUpdated({ metadata }: Pod): boolean {
    return metadata.labels?.[revisionHashLabel] === this.hash;
  }

  isAvailable(pod: Pod): boolean {
    return !isLeaving(pod) && isAvailable(pod, this.minReadySeconds, this.nowMs);
  }

  remove(pod: Pod, why: string): void {
    if (!isLeaving(pod) && !this.draft.has(pod)) this.draft.remove(pod, why);
  }

  create(nodeName: string): void {
    const { daemonSet, revision } = this.snapshot;
    const pod = daemonPod(daemonSet, nodeName, this.hash, this.taken);
    this.draft.create(revision, pod, `DaemonSet ${daemonSet.metadata.name} needs a pod on node ${nodeName}`);
  }

  manage(): void {
    let created = 0;
    for (const { name, fit, pods } of this.places) {
      if (!fit.shouldContinue) {
        for (const pod of pods)
          this.remove(pod, `DaemonSet ${this.snapshot.daemonSet.metadata.name} does not select node ${name}`);
        continue;
      }
      if (fit.shouldRun && pods.length === 0 && created < burst) {
        this.create(name);
        created++;
      }
      this.thin(pods, name);
    }
  }

  /** Deletes finished pods, and of two pods on one node keeps the older. */
  thin(pods: readonly Pod[], nodeName: string): void {
    const running: Pod[] = [];
    for (const pod of pods) {
      if (isLeaving(pod)) continue;
      if (!isFinished(pod)) running.push(pod);
      else {
        const atMs = endedAtMs(pod) + replaceAfterMs;
        if (atMs > this.nowMs) this.draft.wakeAt(atMs);
        else this.remove(pod, `the daemon pod on node ${nodeName} has finished and is replaced`);
      }
    }
    const groups =
      this.maxSurge > 0
        ? [running.filter((pod) => this.isUpdated(pod)), running.filter((pod) => !this.isUpdated(pod))]
        : [running];
    for (const group of groups) {
      const ordered = [...group].sort(
        (a, b) => Number((a.spec?.nodeName ?? "") === "") - Number((b.spec?.nodeName ?? "") === "") || byAge(a, b),
      );
      for (const pod of ordered.slice(1)) this.remove(pod, `node ${nodeName} has another pod of this DaemonSet`);
    }
  }

  update(): void {
    const { daemonSet } = this.snapshot;
    if ((daemonSet.spec?.updateStrategy?.type ?? "RollingUpdate") !== "RollingUpdate") return;
    if (this.maxSurge > 0) this.surge();
    else this.replace();
  }

  /** The active pods of a node, the old and the new one. */
  pairOf({ pods }: Place): { old: Pod | undefined; updated: Pod | undefined } {
    const live = pods.filter((pod) => !isLeaving(pod) && !isFinished(pod) && !this.draft.has(pod));
    return { old: live.find((pod) => !this.isUpdated(pod)), updated: live.find((pod) => this.isUpdated(pod)) };
  }

  /** Deletes old pods, as many as may be unavailable; those that are not available already are deleted at once. */
  replace(): void {
    const why = `DaemonSet ${this.snapshot.daemonSet.metadata.name} has a new template`;
    const candidates: Pod[] = [];
    let unavailable = 0;
    for (const place of this.places) {
      if (!place.fit.shouldRun) continue;
      const { old, updated } = this.pairOf(place);
      const serving = place.pods.some((pod) => this.isAvailable(pod) && !this.draft.has(pod));
      if (!serving) unavailable++;
      if (old === undefined || updated !== undefined) continue;
      if (serving) candidates.push(old);
      else this.remove(old, why);
    }
    const room = Math.max(0, this.maxUnavailable - unavailable);
    for (const pod of candidates.slice(0, room)) this.remove(pod, why);
  }

  /** Creates new pods beside the old ones, up to maxSurge; an old pod is deleted when its successor is available. */
  surge(): void {
    const why = `DaemonSet ${this.snapshot.daemonSet.metadata.name} has a new template`;
    const atOnce: string[] = [];
    const candidates: string[] = [];
    let surging = 0;
    for (const place of this.places) {
      if (!place.fit.shouldRun) continue;
      const { old, updated } = this.pairOf(place);
      if (old === undefined) continue;
      if (updated === undefined) (this.isAvailable(old) ? candidates : atOnce).push(place.name);
      else if (this.isAvailable(updated)) this.remove(old, why);
      else surging++;
    }
    const room = Math.max(0, this.maxSurge - surging);
    for (const name of [...atOnce, ...candidates].slice(0, room)) this.create(name);
  }

  writeStatus(): void {
    const { daemonSet } = this.snapshot;
    const status: DaemonSetStatus = {
      ...emptyStatus,
      ...(daemonSet.status?.collisionCount !== undefined && { collisionCount: daemonSet.status.collisionCount }),
      ...(daemonSet.status?.conditions && { conditions: daemonSet.status.conditions }),
      observedGeneration: daemonSet.metadata.generation ?? 0,
    };
    let [updated, available] = [0, 0];
    for (const { fit, pods } of this.places) {
      const [first] = [...pods].sort((a, b) => Number(isLeaving(a)) - Number(isLeaving(b)) || byAge(a, b));
      if (!fit.shouldRun) {
        if (first !== undefined) status.numberMisscheduled++;
        continue;
      }
      status.desiredNumberScheduled++;
      if (first === undefined) continue;
      status.currentNumberScheduled++;
      if (isReady(first)) status.numberReady++;
      if (this.isUpdated(first)) updated++;
      if (isAvailable(first, this.minReadySeconds, this.nowMs)) available++;
      else {
        const atMs = availableAtMs(first, this.minReadySeconds);
        if (atMs !== undefined && atMs > this.nowMs) this.draft.wakeAt(atMs);
      }
    }
    status.updatedNumberScheduled = updated;
    status.numberAvailable = available;
    status.numberUnavailable = status.desiredNumberScheduled - available;
    const shown = withoutZeros(status, ["updatedNumberScheduled", "numberAvailable", "numberUnavailable"]);
    const why = `DaemonSet ${daemonSet.metadata.name}: ${available} of ${status.desiredNumberScheduled} nodes have an available pod`;
    this.draft.status(daemonSet, shown, why);
  }
}
