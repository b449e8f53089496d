import { invalid } from "../../model/objects/fieldError.ts";
import { equalJson, isObject, type Json } from "../../model/objects/json.ts";
import type { KubeObject, ObjectMeta } from "../../model/objects/object.ts";
import {
  badRequest,
  conflict,
  failure,
  invalidObject,
  modifiedConflict,
  notFound,
} from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import type { AdmissionAttributes } from "../admission/admission.ts";
import { isSameExceptTimes, updateManagedFields } from "../apply/managedFields.ts";
import type { Resource, Sent } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import { type Call, type Core, inStoredOrder, sideRecord, type Target, type Written, writeContext } from "./core.ts";
import {
  detached,
  generationOf,
  insertObject,
  redecode,
  resetFieldsOf,
  separatesStatus,
  setManagedFields,
  statusKeeps,
} from "./create.ts";
import { deletionMarkErrors, type validateMetadata, validateMetadataUpdate } from "./metadata.ts";
import { refuseTooLarge, refuseWhereMemoryIsScarce } from "./objectSize.ts";

/** Attempts before an update gives up on conflicts. */
const attemptsMax = 50;

/** A change of an object. Called again from the start when the object changed meanwhile. */
export interface Change {
  /**
   * The next state in the version of the request, decoded and with defaults: a private copy that shares nothing with
   * `current`, which must not be changed.
   */
  build(current: KubeObject): KubeObject;
  /** Replaces the usual separation of spec and status: how a subresource writes the object. */
  restrict?(next: KubeObject, current: KubeObject, nowMs: number): KubeObject;
  /** Validation of the subresource; replaces the kind's update validation when given. */
  validate?(next: KubeObject, current: KubeObject): ReturnType<typeof validateMetadata>;
  /** An apply has computed managedFields itself. */
  readonly ownsFields?: boolean;
  readonly options: Readonly<Record<string, unknown>>;
}

/** PUT. */
export async function replaceObject(
  core: Core,
  target: Target,
  body: Sent,
  call: Call,
  limits: Pick<Change, "restrict" | "validate"> = {},
): Promise<Written> {
  const { resource } = target;
  const { strategy, type } = resource;
  const sent = resource.decode(body, call.fieldValidation, call.warn);
  keepManagedFieldsReset(sent, body.value);
  resource.setDefaults(sent);
  checkIdentity(target, sent);
  const version = core.store.get(type.storageKey, target.namespace, target.name);
  if (version === undefined && target.subresource === "" && strategy.createOnUpdate === true) {
    if (sent.metadata.uid) {
      throw conflict(resource.groupResource, target.name, uidMismatch(sent.metadata.uid, ""));
    }
    call.demandCreate?.();
    return insertObject(core, target, sent, call, "Update");
  }
  const needsRevision = strategy.requiresRevision === true || resource.custom !== undefined;
  if (needsRevision && version !== undefined && !namesRevision(sent.metadata)) {
    const why = [invalid("metadata.resourceVersion", 0, "must be specified for an update")];
    // Upstream's store knows the resource and not its kind, so the error names the resource.
    throw invalidObject({ group: type.group, kind: type.plural }, target.name, why);
  }
  const options = { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: call.fieldManager };
  // The body is decoded once; every attempt works on a shallow copy with its own metadata, which is all that attempts
  // change.
  const build = () => ({ ...sent, metadata: { ...sent.metadata } });
  return updateObject(core, target, { ...limits, build, options }, call);
}

/** Decoding drops an empty list, but empty `managedFields` request a reset. */
export function keepManagedFieldsReset(decoded: KubeObject, sent: Json): void {
  const metadata = isObject(sent) ? sent["metadata"] : undefined;
  const managedFields = isObject(metadata) ? metadata["managedFields"] : undefined;
  if (Array.isArray(managedFields) && managedFields.length === 0) decoded.metadata.managedFields = [];
}

/** The pipeline of every change to an existing object: PUT, the four patches, and the subresources. */
export async function updateObject(core: Core, target: Target, change: Change, call: Call): Promise<Written> {
  const { resource } = target;
  const { storageKey } = resource.type;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const version = core.store.get(storageKey, target.namespace, target.name);
    if (version === undefined) throw notFound(resource.groupResource, target.name);
    const written = await attemptUpdate(core, target, change, call, version);
    if (written !== "changed meanwhile") return written;
  }
  const message = `The update operation against ${resource.type.plural} could not be completed at this time, please try again.`;
  throw failure(500, "ServerTimeout", message, { retryAfterSeconds: 2 });
}

async function attemptUpdate(
  core: Core,
  target: Target,
  change: Change,
  call: Call,
  version: Version,
): Promise<Written | "changed meanwhile"> {
  const { resource, subresource } = target;
  const { strategy, type } = resource;
  const old = resource.fromStorage(version.object());
  const context = writeContext(core, call, subresource);
  const built = change.build(old);
  checkPreconditions(resource, target.name, built.metadata, old.metadata);
  const sentMetadata = built.metadata;
  const sentManagedFields = sentMetadata.managedFields;
  let next = restrict(resource, change, subresource, built, old, context.nowMs);
  keepSystemMetadata(next, old);
  // managedFields are computed before admission: fields that the server adds have no owner.
  setManagedFields(
    next,
    change.ownsFields === true
      ? sentManagedFields
      : updateManagedFields({
          schema: resource.schema,
          live: old,
          next: sentManagedFields === undefined ? next : withManagedFields(next, sentManagedFields),
          manager: call.fieldManager,
          apiVersion: resource.apiVersion,
          subresource,
          time: formatTime(context.nowMs),
          ...resetFieldsOf(resource, subresource),
        }),
  );
  if (subresource === "") strategy.prepareForUpdate?.(next, old, context);
  if (subresource !== "status" && subresource !== "binding") countGeneration(resource, next, old);

  const attributes: AdmissionAttributes = {
    operation: "UPDATE",
    type,
    subresource,
    namespace: target.namespace,
    name: target.name,
    object: next,
    oldObject: old,
    options: change.options,
    user: call.user,
    dryRun: call.dryRun,
    warn: call.warn,
  };
  const mutation = core.admission.mutate(attributes, () => attributes);
  if (mutation !== undefined) {
    next = redecode(resource, await mutation, next, call);
    if (!isCurrent(core, version)) return "changed meanwhile";
    if (subresource !== "status" && subresource !== "binding") countGeneration(resource, next, old);
  }
  const errors = [
    ...deletionMarkErrors(sentMetadata, old.metadata),
    ...validateMetadataUpdate(next, old, resource),
    ...validateChange(resource, change, subresource, next, old, context),
  ];
  if (errors.length > 0) throw invalidObject({ group: type.group, kind: type.kind }, target.name, errors);
  const validation = core.admission.validate({ ...attributes, object: next });
  if (validation !== undefined) {
    await validation;
    if (!isCurrent(core, version)) return "changed meanwhile";
  }

  // Nothing else runs from here to the commit.
  const stored = inStoredOrder(resource.toStorage(next));
  if (isSameExceptTimes(version.object(), stored)) {
    await core.store.whenDurable(version.revision);
    return { version, created: false };
  }
  refuseTooLarge(stored, version);
  refuseWhereMemoryIsScarce(core, stored, version);
  core.admission.commit({ ...attributes, object: next }, context);
  if (isFinished(resource, stored)) {
    if (call.dryRun)
      return { version: detached(type.storageKey, stored, resource, version.revision), created: false, deleted: true };
    // Watches deliver the object's last stored state; the response has the requested one.
    const tombstone = core.store.remove(version, version.object());
    await core.store.whenDurable(tombstone.revision);
    const answered = detached(type.storageKey, stored, resource, version.revision);
    return { version: answered, created: false, deleted: true };
  }
  if (call.dryRun) return { version: detached(type.storageKey, stored, resource, version.revision), created: false };
  const after = core.store.put(type.storageKey, stored, sideRecord(resource, stored));
  await core.store.whenDurable(after.revision);
  return { version: after, created: false };
}

/** Whether a terminating object can be removed: no finalizers and no grace period are left. */
export function isFinished(resource: Resource, object: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = object.metadata;
  if (deletionTimestamp === undefined) return false;
  if ((deletionGracePeriodSeconds ?? 0) > 0) return false;
  if (finalizers !== undefined && finalizers.length > 0) return false;
  return resource.strategy.holdsDeletion?.(object) !== true;
}

function isCurrent(core: Core, version: Version): boolean {
  return core.store.get(version.resource, version.namespace, version.name) === version;
}

/** The body must name the object of the URL. */
export function checkIdentity(target: Target, object: KubeObject): void {
  const sent: Partial<ObjectMeta> = object.metadata;
  if (sent.name !== undefined && sent.name !== "" && sent.name !== target.name) {
    throw badRequest(`the name of the object (${sent.name}) does not match the name on the URL (${target.name})`);
  }
  if (sent.name === undefined || sent.name === "") {
    throw badRequest(
      `name must be provided: the name of the object () does not match the name on the URL (${target.name})`,
    );
  }
  if (!target.resource.type.namespaced) return;
  if (sent.namespace !== undefined && sent.namespace !== "" && sent.namespace !== target.namespace) {
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
}

function checkPreconditions(resource: Resource, name: string, sent: ObjectMeta, live: ObjectMeta): void {
  if (sent.uid && sent.uid !== live.uid) {
    throw conflict(resource.groupResource, name, uidMismatch(sent.uid, live.uid));
  }
  if (namesRevision(sent) && sent.resourceVersion !== live.resourceVersion) {
    if (!/^[0-9]+$/.test(sent.resourceVersion)) {
      // Upstream returns an internal error here.
      const { group, kind } = resource.type;
      const why = [invalid("metadata.resourceVersion", sent.resourceVersion, "must be a whole number")];
      throw invalidObject({ group, kind }, name, why);
    }
    throw modifiedConflict(resource.groupResource, name);
  }
}

/** The resourceVersion "0" means any, as an empty one does. */
function namesRevision({ resourceVersion }: ObjectMeta): boolean {
  return resourceVersion !== undefined && resourceVersion !== "" && resourceVersion !== "0";
}

export function uidMismatch(wanted: string, found: string): string {
  return `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${found}`;
}

function withManagedFields(object: KubeObject, managedFields: NonNullable<ObjectMeta["managedFields"]>): KubeObject {
  return { ...object, metadata: { ...object.metadata, managedFields } };
}

/** Takes fields that the endpoint may not write from the stored object. */
function restrict(
  resource: Resource,
  change: Change,
  subresource: string,
  built: KubeObject,
  old: KubeObject,
  nowMs: number,
): KubeObject {
  if (change.restrict !== undefined) return change.restrict(built, old, nowMs);
  if (subresource === "status") {
    const next: KubeObject = { ...old, metadata: statusMetadata(resource, built.metadata, old.metadata) };
    if (built["status"] === undefined) delete next["status"];
    else next["status"] = built["status"];
    return next;
  }
  if (separatesStatus(resource)) {
    if (old["status"] === undefined) delete built["status"];
    else built["status"] = old["status"];
  }
  return built;
}

function statusMetadata(resource: Resource, sent: ObjectMeta, live: ObjectMeta): ObjectMeta {
  const keeps = statusKeeps(resource);
  if (keeps === "metadata") return { ...live };
  const metadata = { ...sent };
  if (keeps === undefined) return metadata;
  delete metadata[keeps];
  return live[keeps] === undefined ? metadata : { ...metadata, [keeps]: live[keeps] };
}

/** Identity and system metadata are set by the server only. */
function keepSystemMetadata(next: KubeObject, old: KubeObject): void {
  const { generateName, labels, annotations, ownerReferences, finalizers } = next.metadata;
  const live = old.metadata;
  next.metadata = {
    name: live.name,
    ...(live.generateName === undefined ? {} : { generateName: generateName ?? live.generateName }),
    ...(live.namespace === undefined ? {} : { namespace: live.namespace }),
    uid: live.uid,
    resourceVersion: live.resourceVersion,
    ...(live.generation === undefined ? {} : { generation: live.generation }),
    creationTimestamp: live.creationTimestamp,
    ...(live.deletionTimestamp === undefined ? {} : { deletionTimestamp: live.deletionTimestamp }),
    ...(live.deletionGracePeriodSeconds === undefined
      ? {}
      : { deletionGracePeriodSeconds: live.deletionGracePeriodSeconds }),
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
    ...(finalizers === undefined || finalizers.length === 0 ? {} : { finalizers }),
    ...(next.metadata.managedFields === undefined ? {} : { managedFields: next.metadata.managedFields }),
  };
}

function countGeneration(resource: Resource, next: KubeObject, old: KubeObject): void {
  const rule = generationOf(resource);
  if (rule === "none") return;
  const before = old.metadata.generation ?? 0;
  next.metadata.generation = isNewGeneration(rule, resource, next, old) ? before + 1 : before;
}

function isNewGeneration(
  rule: Exclude<ReturnType<typeof generationOf>, "none">,
  resource: Resource,
  next: KubeObject,
  old: KubeObject,
): boolean {
  if (rule === "content") return contentChanged(resource, next, old);
  if (!equalJson(next["spec"], old["spec"])) return true;
  return rule === "specAndAnnotations" && !equalJson(next.metadata.annotations ?? {}, old.metadata.annotations ?? {});
}

function contentChanged(resource: Resource, next: KubeObject, old: KubeObject): boolean {
  const skip = separatesStatus(resource) ? ["metadata", "status"] : ["metadata"];
  for (const key of new Set([...Object.keys(next), ...Object.keys(old)])) {
    if (!skip.includes(key) && !equalJson(next[key], old[key])) return true;
  }
  return false;
}

function validateChange(
  resource: Resource,
  change: Change,
  subresource: string,
  next: KubeObject,
  old: KubeObject,
  context: ReturnType<typeof writeContext>,
): ReturnType<typeof validateMetadata> {
  if (change.validate !== undefined) return change.validate(next, old);
  if (resource.custom !== undefined) return resource.custom.validate(next, old);
  if (subresource === "status") return resource.strategy.validateStatusUpdate?.(next, old, context) ?? [];
  return resource.strategy.validateUpdate?.(next, old, context) ?? [];
}
