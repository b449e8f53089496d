/**
 * The controller of an object, by the UID of its owner reference. A recreated owner of the same name does not own the
 * objects of the former one.
 */

import type { PodTemplateSpec } from "../kubernetes.generated.ts";
import type { Draft } from "./draft.ts";
import { type LabelRequirements, matchesLabels } from "./labelSelector.ts";
import type { KubeObject, ObjectMeta, OwnerReference } from "./object.ts";

export function controllerOf(metadata: ObjectMeta): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

export function isOwnedBy(object: { metadata: ObjectMeta }, owner: { metadata: ObjectMeta }): boolean {
  return controllerOf(object.metadata)?.uid === owner.metadata.uid;
}

export function ownerReference({ apiVersion, kind, metadata }: KubeObject): OwnerReference {
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true, blockOwnerDeletion: true };
}

/**
 * The candidates that belong to the owner: objects that it controls and selects, and orphans that it selects, which are
 * adopted. Objects that it controls and no longer selects are released. A terminating owner neither adopts nor
 * releases.
 */
export function claim<T extends KubeObject>(
  draft: Draft,
  owner: KubeObject,
  requirements: LabelRequirements,
  candidates: readonly T[],
  options: { readonly adopts?: (orphan: T) => boolean; readonly finalizer?: string } = {},
): T[] {
  const ours: T[] = [];
  const leaves = owner.metadata.deletionTimestamp !== undefined;
  for (const object of candidates) {
    const { metadata } = object;
    if (metadata.namespace !== owner.metadata.namespace) continue;
    const controller = controllerOf(metadata);
    const selected = matchesLabels(requirements, metadata.labels);
    if (controller !== undefined) {
      if (controller.uid !== owner.metadata.uid) continue;
      if (selected) ours.push(object);
      else if (!leaves) release(draft, owner, object);
      continue;
    }
    if (leaves || !selected || metadata.deletionTimestamp !== undefined) continue;
    if (options.adopts?.(object) === false) continue;
    ours.push(adopt(draft, owner, object, options.finalizer));
  }
  return ours;
}

function adopt<T extends KubeObject>(draft: Draft, owner: KubeObject, object: T, finalizer: string | undefined): T {
  const { metadata } = object;
  const ownerReferences = [...(metadata.ownerReferences ?? []), ownerReference(owner)];
  const finalizers = new Set(metadata.finalizers ?? []);
  if (finalizer !== undefined) finalizers.add(finalizer);
  const more = { ownerReferences, ...(finalizer !== undefined && { finalizers: [...finalizers] }) };
  const orphan: KubeObject = object;
  draft.patch(
    orphan,
    { metadata: more },
    `${owner.kind} ${owner.metadata.name} selects ${metadata.name}, which has no controller`,
  );
  draft.adopted();
  return { ...object, metadata: { ...metadata, ...more } };
}

function release(draft: Draft, owner: KubeObject, object: KubeObject): void {
  const { metadata } = object;
  const rest = (metadata.ownerReferences ?? []).filter(({ uid }) => uid !== owner.metadata.uid);
  const patch = { metadata: { ownerReferences: rest.length === 0 ? null : rest } };
  draft.patch(object, patch, `${owner.kind} ${owner.metadata.name} no longer selects ${metadata.name}`);
}

/** A pod of the template, controlled by the owner. */
export function podFromTemplate(owner: KubeObject, template: PodTemplateSpec | undefined, name: string) {
  const { labels, annotations, finalizers } = template?.metadata ?? {};
  const { namespace } = owner.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels: { ...labels } }),
      ...(annotations && { annotations: { ...annotations } }),
      ...(finalizers && { finalizers: [...finalizers] }),
      ownerReferences: [ownerReference(owner)],
    },
    spec: { ...template?.spec, containers: template?.spec?.containers ?? [] },
  };
}
