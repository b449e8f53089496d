import type { Expected, Intent } from "../model/intent.ts";
import type { KubeObject, MergePatch } from "../model/objects/object.ts";
import { type Outcome, succeeded } from "../model/outcome.ts";
import type { Revision } from "../model/revision.ts";
import type { Cancel } from "../ports/cancel.ts";
import type { KubeApi } from "../ports/kubeApi.ts";

/** The result of a write: the object after it, where the API returns it, and the revision of the write. */
export interface Written<T extends KubeObject = KubeObject> {
  readonly object?: T;
  readonly revision?: Revision;
  /** The write has changed the object, although the API returns no revision. */
  readonly isChange?: boolean;
}

export interface ApplyOptions {
  readonly cancel?: Cancel;
  readonly fieldManager?: string;
  /** A dry run: everything is validated and nothing is stored. */
  readonly dryRun?: boolean;
}

/**
 * Sends one intent as one call that carries the intent's precondition, and returns the outcome. It does not retry: the
 * caller reads and decides again.
 */
export async function applyIntent<T extends KubeObject>(
  kube: KubeApi,
  intent: Intent<T>,
  options: ApplyOptions = {},
): Promise<Outcome<Written<T>>> {
  const { target } = intent;
  switch (intent.type) {
    case "create":
      return written(await kube.create(target, intent.object, options));
    case "update":
      return written(await kube.update(target, pinned(intent.object, intent.expected), options));
    case "status": {
      const ref = { ...target, subresource: "status" };
      return written(await kube.update(ref, pinned(intent.object, intent.expected), options));
    }
    case "patch": {
      const { subresource, expected, strategy: type = "merge" } = intent;
      const ref = subresource === undefined ? target : { ...target, subresource };
      return written(await kube.patch(ref, { type, body: guarded(intent.patch, expected) }, options));
    }
    case "apply": {
      const { subresource, expected, fields, force } = intent;
      const ref = subresource === undefined ? target : { ...target, subresource };
      const patch = { type: "apply" as const, body: guarded(named(fields, target), expected), ...(force && { force }) };
      return written(await kube.patch(ref, patch, options));
    }
    case "bind": {
      const { node, expected, labels, annotations } = intent;
      const more = { ...(labels && { labels }), ...(annotations && { annotations }) };
      const { uid, resourceVersion } = expected;
      // The answer to a bind has no revision; the first later version of the pod shows it. A bound pod is not bound
      // again.
      const bound = await kube.bind(target, { node, uid, resourceVersion, ...more }, options);
      return bound.ok ? succeeded({ isChange: true }) : bound;
    }
    case "evict": {
      const { expected, gracePeriodSeconds } = intent;
      const more = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
      const evicted = await kube.evict(target, { preconditions: { ...expected }, ...more, ...cancelOf(options) });
      return evicted.ok ? succeeded({ isChange: true }) : evicted;
    }
    case "delete": {
      const { expected, gracePeriodSeconds, propagationPolicy } = intent;
      const more = {
        ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
        ...(propagationPolicy !== undefined && { propagationPolicy }),
      };
      const outcome = await kube.delete(target, { preconditions: { ...expected }, ...more, ...cancelOf(options) });
      // The answer to a delete may be the last version before it, so its revision is not used. It counts as a change: a
      // write that timed out on the same version must no longer count for the deleted object (sim replay --scenario
      // pod-sets --seed 4231).
      if (!outcome.ok) return outcome;
      return succeeded(outcome.value === undefined ? { isChange: true } : { object: outcome.value, isChange: true });
    }
  }
}

function written<T extends KubeObject>(outcome: Outcome<T>): Outcome<Written<T>> {
  if (!outcome.ok) return outcome;
  return succeeded({ object: outcome.value, revision: outcome.value.metadata.resourceVersion });
}

function cancelOf({ cancel }: ApplyOptions): { cancel?: Cancel } {
  return cancel === undefined ? {} : { cancel };
}

/** The object with the precondition in its metadata. */
function pinned<T extends KubeObject>(object: T, { uid, resourceVersion }: Expected): T {
  const { metadata } = object;
  if (metadata.uid === uid && metadata.resourceVersion === resourceVersion) return object;
  return { ...object, metadata: { ...metadata, uid, resourceVersion } };
}

/** An applied configuration contains the name of its object. */
function named<P extends MergePatch>(fields: P, { namespace, name }: { namespace: string; name: string }): P {
  const place = namespace === "" ? { name } : { name, namespace };
  return { ...fields, metadata: { ...fields.metadata, ...place } };
}

/** A patch with a resourceVersion is refused with a conflict on any other version. */
function guarded<P extends MergePatch>(patch: P, { uid, resourceVersion }: Expected): P {
  return { ...patch, metadata: { ...patch.metadata, uid, resourceVersion } };
}
