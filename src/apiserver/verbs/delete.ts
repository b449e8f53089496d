import { invalid } from "../../model/objects/fieldError.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import {
  badRequest,
  conflict,
  forbiddenError,
  invalidObject,
  notFound,
  StatusError,
} from "../../model/objects/status.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { AdmissionAttributes } from "../admission/admission.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { Strategy } from "../strategy.ts";
import { type Call, type Core, inStoredOrder, sideRecord, type Target, writeContext } from "./core.ts";
import { detached, generationOf } from "./create.ts";
import { isFinished, uidMismatch } from "./update.ts";

export interface DeleteOptions {
  readonly gracePeriodSeconds?: number | undefined;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan" | undefined;
  readonly orphanDependents?: boolean | undefined;
  readonly preconditions?:
    | { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined }
    | undefined;
}

export interface Deleted {
  readonly version: Version;
  /** False while finalizers or grace keep the object. */
  readonly gone: boolean;
}

/** DELETE of one object: at once, or marked and left to its finalizers and its kubelet. */
export async function deleteObject(core: Core, target: Target, options: DeleteOptions, call: Call): Promise<Deleted> {
  const { resource } = target;
  const { storageKey } = resource.type;
  checkOptions(resource, target.name, options);
  for (;;) {
    const version = core.store.get(storageKey, target.namespace, target.name);
    if (version === undefined) throw notFound(resource.groupResource, target.name);
    checkDeletePreconditions(resource, target.name, version, options);
    const refusal = resource.strategy.refusesDeletion?.(version.object());
    if (refusal !== undefined) throw forbiddenError(resource.groupResource, target.name, refusal);
    const attributes: AdmissionAttributes = {
      operation: "DELETE",
      type: resource.type,
      subresource: target.subresource,
      namespace: target.namespace,
      name: target.name,
      object: undefined,
      oldObject: resource.fromStorage(version.object()),
      options: { kind: "DeleteOptions", apiVersion: "meta.k8s.io/v1", ...options },
      user: call.user,
      dryRun: call.dryRun,
      warn: call.warn,
    };
    const validation = core.admission.validate(attributes);
    if (validation !== undefined) {
      await validation;
      // The webhook may have taken time: the preconditions are checked against the current object.
      if (core.store.get(storageKey, target.namespace, target.name) !== version) continue;
    }
    if (hasNoPolicy(options) && resource.strategy.orphanWarning !== undefined)
      call.warn(resource.strategy.orphanWarning);
    const context = writeContext(core, call, target.subresource);
    core.admission.commit(attributes, context);
    return commitDeletion(core, resource, version, options, call, context.nowMs);
  }
}

/** DELETE of a collection: deletes its objects one after the other. Not atomic, as upstream. */
export async function deleteCollection(
  core: Core,
  target: Target,
  members: readonly Version[],
  options: DeleteOptions,
  call: Call,
): Promise<Version[]> {
  checkOptions(target.resource, "", options);
  const deleted: Version[] = [];
  for (const version of members) {
    try {
      const one: Target = { ...target, namespace: version.namespace, name: version.name };
      deleted.push((await deleteObject(core, one, options, call)).version);
    } catch (error) {
      if (!(error instanceof StatusError) || error.status.reason !== "NotFound") throw error;
    }
  }
  return deleted;
}

async function commitDeletion(
  core: Core,
  resource: Resource,
  version: Version,
  options: DeleteOptions,
  call: Call,
  nowMs: number,
): Promise<Deleted> {
  const old = version.object();
  const marked = markForDeletion(resource, old, options, nowMs);
  if (marked === old) {
    await core.store.whenDurable(version.revision);
    return { version, gone: false };
  }
  const gone = isFinished(resource, marked);
  // Kinds with a grace period are marked before they are deleted, and watches deliver both; of others only the deletion
  // is delivered.
  const showsMark = !gone || resource.strategy.graceSeconds !== undefined;
  const stored = showsMark ? inStoredOrder(marked) : old;
  if (call.dryRun) return { version: detached(version.resource, stored, resource, version.revision), gone };
  const kept = showsMark ? core.store.put(version.resource, stored, sideRecord(resource, stored)) : version;
  const after = gone ? core.store.remove(kept, kept.object()) : kept;
  if (gone) deleteSameNamed(core, resource, version);
  await core.store.whenDurable(after.revision);
  return { version: after, gone };
}

/** A new Service of the same name must not have the addresses of the old one. */
export function deleteSameNamed(core: Core, resource: Resource, { namespace, name }: Version): void {
  const { takesAlong } = resource.strategy;
  const companion = takesAlong === undefined ? undefined : core.store.get(takesAlong, namespace, name);
  if (companion !== undefined) core.store.remove(companion, companion.object());
}

/**
 * The object with deletionTimestamp, grace period and finalizers by the options; the same object when nothing changes.
 */
function markForDeletion(resource: Resource, old: KubeObject, options: DeleteOptions, nowMs: number): KubeObject {
  const { strategy } = resource;
  const before = old.metadata;
  const finalizers = finalizersFor(strategy, before.finalizers ?? [], options);
  const finalizersChanged = !sameList(finalizers, before.finalizers ?? []);
  const next: KubeObject = { ...old, metadata: { ...before } };
  if (finalizers.length > 0) next.metadata.finalizers = finalizers;
  else delete next.metadata.finalizers;

  if (before.deletionTimestamp !== undefined) {
    const grace = before.deletionGracePeriodSeconds ?? 0;
    const requested = options.gracePeriodSeconds;
    const shorter = requested !== undefined && strategy.graceSeconds !== undefined && Math.max(requested, 0) < grace;
    if (shorter) {
      const seconds = requested < 0 ? 1 : requested;
      const begunMs = (timeToMs(before.deletionTimestamp) ?? nowMs) - grace * 1000;
      // A grace period that was cut at the maximum does not tell when it began.
      const startMs = begunMs < 0 ? nowMs : begunMs;
      next.metadata.deletionTimestamp = formatTime(endOf(startMs, seconds));
      next.metadata.deletionGracePeriodSeconds = seconds;
      return next;
    }
    return finalizersChanged ? next : old;
  }
  const grace = strategy.graceSeconds?.(old, options.gracePeriodSeconds) ?? 0;
  next.metadata.deletionTimestamp = formatTime(endOf(nowMs, grace));
  next.metadata.deletionGracePeriodSeconds = grace;
  if (generationOf(resource) !== "none" && (before.generation ?? 0) > 0) {
    next.metadata.generation = (before.generation ?? 0) + 1;
  }
  strategy.beginDeletion?.(next);
  return next;
}

/** The latest time with a four-digit year: every grace period ends there at the latest. */
const timeMsMax = Date.UTC(9999, 11, 31, 23, 59, 59);

function endOf(startMs: number, graceSeconds: number): number {
  return Math.min(startMs + graceSeconds * 1000, timeMsMax);
}

/** The finalizers of the propagation policy, for the garbage collector. */
function finalizersFor(strategy: Strategy, existing: readonly string[], options: DeleteOptions): string[] {
  const policy = policyOf(strategy, existing, options);
  if (policy === undefined) return [...existing];
  const kept = existing.filter((finalizer) => finalizer !== "orphan" && finalizer !== "foregroundDeletion");
  if (policy === "Orphan") kept.push("orphan");
  if (policy === "Foreground") kept.push("foregroundDeletion");
  return kept;
}

/** The propagation policy of the options, of the object's finalizers, or the default of the kind, in this order. */
function policyOf(
  strategy: Strategy,
  existing: readonly string[],
  options: DeleteOptions,
): DeleteOptions["propagationPolicy"] {
  if (options.orphanDependents !== undefined) return options.orphanDependents ? "Orphan" : "Background";
  if (options.propagationPolicy !== undefined) return options.propagationPolicy;
  const isDecided = existing.includes("orphan") || existing.includes("foregroundDeletion");
  return strategy.orphansByDefault === true && !isDecided ? "Orphan" : undefined;
}

function hasNoPolicy(options: DeleteOptions): boolean {
  return options.propagationPolicy === undefined && options.orphanDependents === undefined;
}

function checkOptions(resource: Resource, name: string, options: DeleteOptions): void {
  const { propagationPolicy: policy, orphanDependents } = options;
  const errors = [];
  if (policy !== undefined && orphanDependents !== undefined) {
    errors.push(invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"));
  }
  if (policy !== undefined && !["Background", "Foreground", "Orphan"].includes(policy)) {
    errors.push(invalid("propagationPolicy", policy, 'must be one of "Background", "Foreground", "Orphan"'));
  }
  if (errors.length > 0) throw invalidObject({ group: "meta.k8s.io", kind: "DeleteOptions" }, name, errors);
  const grace = options.gracePeriodSeconds;
  if (grace !== undefined && !Number.isInteger(grace)) {
    throw badRequest(`gracePeriodSeconds of ${resource.type.plural} ${name} must be a whole number`);
  }
}

/** Throws a conflict when UID or resourceVersion differ from the preconditions. */
export function checkDeletePreconditions(
  resource: Resource,
  name: string,
  version: Version,
  options: DeleteOptions,
): void {
  const { uid, resourceVersion } = options.preconditions ?? {};
  if (uid !== undefined && uid !== version.side.uid) {
    throw conflict(resource.groupResource, name, uidMismatch(uid, version.side.uid));
  }
  if (resourceVersion !== undefined && resourceVersion !== String(version.revision)) {
    const why = `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${version.revision}`;
    throw conflict(resource.groupResource, name, why);
  }
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at]);
}
