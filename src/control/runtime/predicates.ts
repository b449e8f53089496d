import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { CacheEvent } from "../cache/objectCache.ts";

/**
 * Whether an event enqueues a reconcile. Additions and deletions always do; an update only if a field that the
 * controller reads has changed.
 */
export type Predicate<T extends KubeObject = KubeObject> = (event: CacheEvent<T>) => boolean;

/** The desired state has changed: the spec, or a deletion has begun. */
export const generationChanged: Predicate = onUpdate(
  (before, object) =>
    before.metadata.generation !== object.metadata.generation ||
    before.metadata.deletionTimestamp !== object.metadata.deletionTimestamp,
);

/** Any change of the resourceVersion: skips resyncs. */
export const revisionChanged: Predicate = onUpdate(
  (before, object) => before.metadata.resourceVersion !== object.metadata.resourceVersion,
);

export const labelsChanged: Predicate = onUpdate(
  (before, object) => !equalFields(before.metadata.labels ?? {}, object.metadata.labels ?? {}),
);

export const annotationsChanged: Predicate = onUpdate(
  (before, object) => !equalFields(before.metadata.annotations ?? {}, object.metadata.annotations ?? {}),
);

/** The status or reason of the condition has changed. Changes of its time or message do not count. */
export function conditionChanged(type: string): Predicate {
  return onUpdate((before, object) => {
    const [was, is] = [conditionOf(before, type), conditionOf(object, type)];
    return was?.status !== is?.status || was?.reason !== is?.reason;
  });
}

/** The value of one field has changed. */
export function fieldChanged<T extends KubeObject>(read: (object: T) => unknown): Predicate<T> {
  return onUpdate<T>((before, object) => !equalFields(read(before), read(object)));
}

export function all<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (event) => predicates.every((predicate) => predicate(event));
}

export function any<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (event) => predicates.some((predicate) => predicate(event));
}

export function not<T extends KubeObject>(predicate: Predicate<T>): Predicate<T> {
  return (event) => !predicate(event);
}

function onUpdate<T extends KubeObject = KubeObject>(hasChanged: (before: T, object: T) => boolean): Predicate<T> {
  return (event) => event.type !== "updated" || hasChanged(event.before, event.object);
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
}

function conditionOf(object: KubeObject, type: string): Condition | undefined {
  const { conditions } = (object["status"] ?? {}) as { conditions?: readonly Condition[] };
  return conditions?.find((condition) => condition.type === type);
}
