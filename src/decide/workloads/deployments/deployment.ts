/** The decision of the Deployment controller: it writes no pods, only ReplicaSets, one for each template. */

import type { Deployment, Pod, ReplicaSet } from "../../../model/kubernetes.generated.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import type { JsonObject } from "../../../model/objects/json.ts";
import { selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { claim, controllerOf, ownerReference } from "../../../model/objects/ownership.ts";
import { byAge, isFinished } from "../../../model/objects/podFacts.ts";
import { templateHash, templateHashLabel } from "../../../model/objects/podTemplate.ts";
import type { Revision } from "../../../model/revision.ts";
import {
  byRevision,
  missingAnnotations,
  nextRevision,
  presentAnnotations,
  presentSet,
  revisionAnnotation,
  revisionOf,
  sizeAnnotations,
} from "./deploymentRevision.ts";
import { grownSize, isResized, resizedSizes, rollingSizes, type Sizes, sizeOf } from "./deploymentScale.ts";
import { deploymentStatus, isComplete, nextDeadlineMs, type StatusCause } from "./deploymentStatus.ts";

export interface DeploymentSnapshot {
  readonly revision: Revision;
  readonly deployment: Deployment;
  /** All ReplicaSets of the namespace: one of another owner may have the name of the next one. */
  readonly replicaSets: readonly ReplicaSet[];
  /** The pods of those sets; needed for Recreate, which waits until the old ones are deleted. */
  readonly pods: readonly Pod[];
}

export function decideDeployment(snapshot: DeploymentSnapshot, nowMs: number): Decision {
  const draft = new Draft();
  const { deployment } = snapshot;
  const { spec, metadata } = deployment;
  if (spec === undefined) return draft.decision();
  const requirements = selectorRequirements(spec.selector);
  // An empty selector would match every pod of the namespace; such a Deployment is ignored.
  if (requirements.length === 0) {
    const status = { ...deployment.status, observedGeneration: metadata.generation ?? 0 };
    draft.status(deployment, status, `Deployment ${metadata.name} has an empty selector and is ignored`);
    return draft.decision();
  }
  const candidates = [...snapshot.replicaSets].sort(byAge);
  const claimed = claim(draft, deployment, requirements, candidates);
  // Adopted objects are reconciled after the adoption, on their new version.
  if (draft.intents.length > 0) return draft.decision();
  new Rollout(draft, snapshot, claimed, nowMs).decide();
  return draft.decision();
}

class Rollout {
  readonly draft: Draft;
  readonly snapshot: DeploymentSnapshot;
  readonly sets: readonly ReplicaSet[];
  readonly present: ReplicaSet | undefined;
  readonly old: readonly ReplicaSet[];
  readonly nowMs: number;

  constructor(draft: Draft, snapshot: DeploymentSnapshot, sets: readonly ReplicaSet[], nowMs: number) {
    this.draft = draft;
    this.snapshot = snapshot;
    this.sets = sets;
    this.present = presentSet(snapshot.deployment, sets);
    this.old = sets.filter((set) => set !== this.present);
    this.nowMs = nowMs;
  }

  decide(): void {
    const { deployment } = this.snapshot;
    const { spec, metadata } = deployment;
    if (metadata.deletionTimestamp !== undefined) {
      this.status("watch");
      return;
    }
    if (this.present !== undefined && this.alignPresent(this.present)) return;
    if (spec?.paused === true) {
      this.resize();
      this.cleanUp();
      this.status("paused");
      return;
    }
    if (isResized(deployment, this.sets)) {
      this.resize();
      this.status("resize");
      return;
    }
    if (spec?.strategy?.type === "Recreate") this.recreate();
    else this.roll();
  }

  /** Copies annotations, revision and minReadySeconds of the Deployment; returns whether the reconcile ends here. */
  alignPresent(present: ReplicaSet): boolean {
    const { deployment } = this.snapshot;
    const { name } = deployment.metadata;
    const revision = nextRevision(this.old);
    const annotations = missingAnnotations(present, presentAnnotations(deployment, present, revision));
    const minReadySeconds = deployment.spec?.minReadySeconds ?? 0;
    const isSlower = (present.spec?.minReadySeconds ?? 0) !== minReadySeconds;
    if (annotations !== undefined || isSlower) {
      const patch: JsonObject = {};
      if (annotations !== undefined) patch["metadata"] = { annotations };
      if (isSlower) patch["spec"] = { minReadySeconds };
      this.draft.patch(present, patch, `ReplicaSet ${present.metadata.name} is updated from Deployment ${name}`);
      return true;
    }
    if (revisionOf(deployment) === revisionOf(present)) return false;
    const text = String(revisionOf(present));
    const patch = { metadata: { annotations: { [revisionAnnotation]: text } } };
    // Written through /status: the revision is not part of the spec and makes no new generation.
    this.draft.patch(deployment, patch, `Deployment ${name} is at revision ${text}`, "status");
    return true;
  }

  roll(): void {
    if (this.present === undefined) {
      this.createPresent();
      return;
    }
    this.setSizes(rollingSizes(this.snapshot.deployment, this.present, this.old));
    this.cleanUpWhenComplete();
    this.status("rollout");
  }

  recreate(): void {
    const { deployment } = this.snapshot;
    const sizes: Sizes = new Map();
    for (const set of this.old) if (sizeOf(set) > 0) sizes.set(set.metadata.uid, 0);
    if (sizes.size > 0) {
      this.setSizes(sizes);
      this.status("rollout");
      return;
    }
    if (this.oldPodsLive()) {
      this.status("rollout");
      return;
    }
    if (this.present === undefined) {
      this.createPresent();
      return;
    }
    const replicas = deployment.spec?.replicas ?? 1;
    if (sizeOf(this.present) !== replicas) this.setSizes(new Map([[this.present.metadata.uid, replicas]]));
    this.cleanUpWhenComplete();
    this.status("rollout");
  }

  /** A terminating pod counts as running: both versions must never run at once. */
  oldPodsLive(): boolean {
    if (this.old.some(({ status }) => (status?.replicas ?? 0) > 0)) return true;
    const old = new Set(this.old.map(({ metadata }) => metadata.uid));
    return this.snapshot.pods.some((pod) => old.has(controllerOf(pod.metadata)?.uid ?? "") && !isFinished(pod));
  }

  createPresent(): void {
    const { deployment, revision, replicaSets } = this.snapshot;
    const { metadata, spec } = deployment;
    const hash = templateHash(spec?.template, deployment.status?.collisionCount);
    const name = `${metadata.name}-${hash}`;
    const namesake = replicaSets.some(
      (set) => set.metadata.name === name && set.metadata.namespace === metadata.namespace,
    );
    if (namesake) {
      const collisionCount = (deployment.status?.collisionCount ?? 0) + 1;
      const status = { ...deployment.status, collisionCount };
      this.draft.status(deployment, status, `another ReplicaSet has the name ${name}`);
      return;
    }
    const replicas = grownSize(deployment, this.sets, 0);
    const number = nextRevision(this.old);
    const labels = { ...spec?.template.metadata?.labels, [templateHashLabel]: hash };
    const selector = spec?.selector ?? {};
    const object = {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: {
        name,
        ...(metadata.namespace !== undefined && { namespace: metadata.namespace }),
        labels,
        annotations: { ...presentAnnotations(deployment, undefined, number), ...sizeAnnotations(deployment) },
        ownerReferences: [ownerReference(deployment)],
      },
      spec: {
        replicas,
        ...(spec?.minReadySeconds !== undefined && { minReadySeconds: spec.minReadySeconds }),
        selector: { ...selector, matchLabels: { ...selector.matchLabels, [templateHashLabel]: hash } },
        template: { ...spec?.template, metadata: { ...spec?.template.metadata, labels } },
      },
    };
    this.draft.create(revision, object, `Deployment ${metadata.name} has a new template: revision ${number}`);
    this.status("created");
  }

  resize(): void {
    const { deployment } = this.snapshot;
    const { sizes, tells } = resizedSizes(deployment, this.present, this.old);
    this.setSizes(sizes, tells);
  }

  setSizes(sizes: Sizes, tells: readonly ReplicaSet[] = []): void {
    const { deployment } = this.snapshot;
    for (const set of this.sets) {
      const size = sizes.get(set.metadata.uid);
      const isChanged = size !== undefined && size !== sizeOf(set);
      if (!isChanged && !tells.includes(set)) continue;
      const annotations = missingAnnotations(set, sizeAnnotations(deployment));
      const patch: JsonObject = {};
      if (isChanged) patch["spec"] = { replicas: size };
      if (annotations !== undefined) patch["metadata"] = { annotations };
      if (Object.keys(patch).length === 0) continue;
      const why = `Deployment ${deployment.metadata.name}: ${set.metadata.name} from ${sizeOf(set)} to ${size ?? sizeOf(set)}`;
      this.draft.patch(set, patch, why);
    }
  }

  cleanUpWhenComplete(): void {
    const { deployment } = this.snapshot;
    const { status } = deploymentStatus({ deployment, present: this.present, sets: this.sets }, "watch", this.nowMs);
    if (isComplete(deployment, status)) this.cleanUp();
  }

  /** Deletes old ReplicaSets beyond revisionHistoryLimit. */
  cleanUp(): void {
    const { deployment } = this.snapshot;
    const limit = deployment.spec?.revisionHistoryLimit ?? 10;
    const old = this.old.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const surplus = old.length - limit;
    if (surplus <= 0) return;
    const oldest = [...old].sort(byRevision);
    for (const set of oldest.slice(0, surplus)) {
      const { status, metadata } = set;
      const isSeen = (metadata.generation ?? 0) <= (status?.observedGeneration ?? 0);
      if ((status?.replicas ?? 0) !== 0 || sizeOf(set) !== 0 || !isSeen || this.draft.has(set)) continue;
      this.draft.remove(set, `Deployment ${deployment.metadata.name} keeps ${limit} old revisions`, {
        propagationPolicy: "Background",
      });
    }
  }

  status(cause: StatusCause): void {
    const { deployment } = this.snapshot;
    if (this.draft.has(deployment)) return;
    const { status, why } = deploymentStatus({ deployment, present: this.present, sets: this.sets }, cause, this.nowMs);
    this.draft.status(deployment, status, why);
    this.draft.wakeAt(nextDeadlineMs(deployment, status, this.nowMs));
  }
}
