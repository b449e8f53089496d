/** Labels that name what an object belongs to. */
import { labels, managedByValue } from "../../model/gang/keys.ts";
import type { KubeObject, ObjectMeta, OwnerReference } from "../../model/objects/object.ts";

export function defaultLabels(set: string): Record<string, string> {
  return { [labels.managedBy]: managedByValue, [labels.partOf]: set };
}

/** A name with a colon is not a valid label value. */
export function childLabels(set: string, component: string, name: string): Record<string, string> {
  return { ...defaultLabels(set), [labels.component]: component, [labels.name]: name.replaceAll(":", "-") };
}

/** The labels as a selector, in the order of their keys. */
export function selectorText(selected: Readonly<Record<string, string>>): string {
  return Object.entries(selected)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

export function ownerOf({ apiVersion, kind, metadata }: KubeObject): OwnerReference {
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true, blockOwnerDeletion: true };
}

export function isManaged({ metadata }: { metadata: ObjectMeta }): boolean {
  return metadata.labels?.[labels.managedBy] === managedByValue;
}

export function setNameOf({ metadata }: { metadata: ObjectMeta }): string | undefined {
  return isManaged({ metadata }) ? metadata.labels?.[labels.partOf] : undefined;
}

export function isLeaving({ metadata }: { metadata: ObjectMeta }): boolean {
  return metadata.deletionTimestamp !== undefined;
}
