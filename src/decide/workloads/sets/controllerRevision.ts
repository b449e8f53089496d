/**
 * The history of a DaemonSet or StatefulSet: one ControllerRevision for each template, in the form that `kubectl
 * rollout history` and `undo` read: a patch that restores the template.
 */

import type { ControllerRevision, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import type { Draft } from "../../../model/objects/draft.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { ownerReference } from "../../../model/objects/ownership.ts";
import { byAge } from "../../../model/objects/podFacts.ts";
import { templateHash } from "../../../model/objects/podTemplate.ts";
import type { Revision } from "../../../model/revision.ts";

export const revisionHashLabel = "controller-revision-hash";

export interface History {
  readonly owner: KubeObject;
  readonly template: PodTemplateSpec;
  readonly collisionCount: number | undefined;
  /** The label of a ControllerRevision that carries its hash. */
  readonly hashLabel: string;
  /** The revisions of the owner. */
  readonly revisions: readonly ControllerRevision[];
  /** All revisions of the namespace, for their names. */
  readonly all: readonly ControllerRevision[];
  readonly absentAtRevision: Revision;
}

export interface PresentRevision {
  readonly name: string;
  readonly hash: string;
  /** Another object has the name: the collision is counted and another name used. */
  readonly collides: boolean;
}

/** The revision of the current template. It is created if it does not exist, and renumbered if it is an old one. */
export function presentRevision(draft: Draft, history: History): PresentRevision {
  const { owner, template, revisions, hashLabel } = history;
  const data = { spec: { template: { ...template, $patch: "replace" } } };
  const sorted = inOrder(revisions);
  const last = sorted.at(-1)?.revision ?? 0;
  const equal = sorted.findLast((revision) => equalFields(revision.data, data));
  if (equal !== undefined) {
    if (equal.revision < last && !draft.has(equal)) {
      draft.patch(equal, { revision: last + 1 }, `${owner.kind} ${owner.metadata.name} is back at this revision`);
    }
    const hash = equal.metadata.labels?.[hashLabel] ?? equal.metadata.name.slice(owner.metadata.name.length + 1);
    return { name: equal.metadata.name, hash, collides: false };
  }
  const hash = templateHash(template, history.collisionCount);
  const name = `${owner.metadata.name}-${hash}`;
  const { namespace } = owner.metadata;
  if (history.all.some(({ metadata }) => metadata.name === name && metadata.namespace === namespace)) {
    return { name, hash, collides: true };
  }
  const object = {
    apiVersion: "apps/v1",
    kind: "ControllerRevision",
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { ...template.metadata?.labels, [hashLabel]: hash },
      ...(owner.metadata.annotations && { annotations: { ...owner.metadata.annotations } }),
      ownerReferences: [ownerReference(owner)],
    },
    data,
    revision: last + 1,
  };
  draft.create(history.absentAtRevision, object, `${owner.kind} ${owner.metadata.name} has a new template`);
  return { name, hash, collides: false };
}

export function inOrder(revisions: readonly ControllerRevision[]): ControllerRevision[] {
  return [...revisions].sort((a, b) => a.revision - b.revision || byAge(a, b));
}

/** The template that a revision holds. */
export function templateOf({ data }: ControllerRevision): PodTemplateSpec | undefined {
  const held = (data as { spec?: { template?: PodTemplateSpec & { $patch?: string } } } | undefined)?.spec?.template;
  if (held === undefined) return undefined;
  const { $patch: _how, ...template } = held;
  return template;
}

/** Deletes revisions without pods beyond the limit, the oldest first. */
export function deleteOldRevisions(
  draft: Draft,
  owner: KubeObject,
  revisions: readonly ControllerRevision[],
  { limit, isLive }: { limit: number; isLive: (revision: ControllerRevision) => boolean },
): void {
  const unused = inOrder(revisions).filter((revision) => !isLive(revision) && !draft.has(revision));
  for (const revision of unused.slice(0, Math.max(0, unused.length - limit))) {
    draft.remove(revision, `${owner.kind} ${owner.metadata.name} keeps ${limit} old revisions`);
  }
}
