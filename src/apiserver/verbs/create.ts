import { invalid } from "../../model/objects/fieldError.ts";
import type { KubeObject, ObjectMeta } from "../../model/objects/object.ts";
import {
  alreadyExists,
  badRequest,
  failure,
  forbiddenError,
  invalidObject,
  notFound,
} from "../../model/objects/status.ts";
import { append } from "../../model/values/append.ts";
import { formatTime } from "../../model/values/time.ts";
import type { AdmissionAttributes } from "../admission/admission.ts";
import type { FieldSet } from "../apply/fieldSet.ts";
import {
  resetSpec,
  resetSpecAndLabels,
  resetSpecAndMetadata,
  resetStatus,
  updateManagedFields,
} from "../apply/managedFields.ts";
import { type Resource, type Sent, sentByUs } from "../resource.ts";
import { zeroValue } from "../schema/decode.ts";
import { RecentlyParsed, Version } from "../storage/version.ts";
import type { Strategy } from "../strategy.ts";
import {
  type Call,
  type Core,
  inStoredOrder,
  newUid,
  sideRecord,
  type Target,
  type Written,
  writeContext,
} from "./core.ts";
import { validateMetadata } from "./metadata.ts";
import { refuseTooLarge, refuseTooLargeBody, refuseWhereMemoryIsScarce } from "./objectSize.ts";

/** POST to a collection. */
export async function createObject(core: Core, target: Target, body: Sent, call: Call): Promise<Written> {
  const object = target.resource.decode(body, call.fieldValidation, call.warn);
  // Upstream checks this in its storage, which a dry run does not reach.
  if (object.metadata.resourceVersion && !call.dryRun) {
    throw failure(500, "InternalError", "resourceVersion should not be set on objects to be created");
  }
  refuseTooLargeBody(body, object);
  target.resource.setDefaults(object);
  return insertObject(core, target, object, call, "Update");
}

/**
 * The second half of a create, for POST, and for PUT and apply to a missing name. The object is decoded and defaulted;
 * for an apply its managedFields have been set already.
 */
export async function insertObject(
  core: Core,
  target: Target,
  object: KubeObject,
  call: Call,
  operation: "Update" | "Apply",
): Promise<Written> {
  const { resource } = target;
  const { strategy, type } = resource;
  if (resource.custom?.terminating === true) {
    const why = "create not allowed while custom resource definition is terminating";
    throw forbiddenError(resource.groupResource, object.metadata.name ?? "", why);
  }
  const context = writeContext(core, call, target.subresource);
  // Errors for an object with generateName use that prefix as its name.
  const called = object.metadata.name || object.metadata.generateName || "";
  const stamped = stampNew(core, target, object, context.nowMs);
  requireNamespace(core, target, called);
  if (operation === "Update") {
    const managedFields = updateManagedFields({
      schema: resource.schema,
      live: undefined,
      next: stamped,
      manager: call.fieldManager,
      apiVersion: resource.apiVersion,
      subresource: target.subresource,
      time: formatTime(context.nowMs),
      ...resetFieldsOf(resource, target.subresource),
    });
    setManagedFields(stamped, managedFields);
  }
  wipeStatus(resource, stamped);
  strategy.prepareForCreate?.(stamped, context);
  if (generationOf(resource) !== "none") stamped.metadata.generation = 1;

  let admitted = stamped;
  const attributes: AdmissionAttributes = {
    operation: "CREATE",
    type,
    subresource: "",
    namespace: target.namespace,
    name: stamped.metadata.name,
    object: stamped,
    oldObject: undefined,
    options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: call.fieldManager },
    user: call.user,
    dryRun: call.dryRun,
    warn: call.warn,
  };
  const mutation = core.admission.mutate(attributes, () => ({ ...attributes, ...beforeMutation(object, stamped) }));
  if (mutation !== undefined) {
    admitted = redecode(resource, await mutation, stamped, call);
    requireNamespace(core, target, called);
  }
  const errors = validateMetadata(admitted, resource);
  const sentGeneration = object.metadata.generation ?? 0;
  // Where generations are counted, the one that was sent is replaced, so it is checked only for other kinds.
  if (sentGeneration < 0 && generationOf(resource) === "none") {
    errors.push(invalid("metadata.generation", sentGeneration, "must be greater than or equal to 0"));
  }
  if (resource.custom !== undefined) append(errors, resource.custom.validate(admitted, undefined));
  if (strategy.validate !== undefined) append(errors, strategy.validate(admitted, context));
  if (errors.length > 0) throw invalidObject({ group: type.group, kind: type.kind }, admitted.metadata.name, errors);
  const validation = core.admission.validate({ ...attributes, object: admitted });
  if (validation !== undefined) {
    await validation;
    requireNamespace(core, target, called);
  }

  // Nothing else runs from here to the commit.
  const existing = core.store.get(type.storageKey, target.namespace, admitted.metadata.name);
  if (existing !== undefined) {
    const beingDeleted = existing.object().metadata.deletionTimestamp !== undefined;
    throw alreadyExists(resource.groupResource, admitted.metadata.name, beingDeleted);
  }
  const stored = inStoredOrder(resource.toStorage(admitted));
  refuseTooLarge(stored);
  refuseWhereMemoryIsScarce(core, stored);
  core.admission.commit({ ...attributes, object: admitted }, context);
  if (call.dryRun) return { version: detached(type.storageKey, stored, resource), created: true };
  const version = core.store.put(type.storageKey, stored, sideRecord(resource, stored));
  await core.store.whenDurable(version.revision);
  return { version, created: true };
}

/**
 * The object as mutating admission gets it: Kubernetes sets UID, creationTimestamp and a generated name only after
 * that. A webhook can tell two such objects apart by the UID of the request.
 */
function beforeMutation(
  sent: KubeObject,
  stamped: KubeObject,
): Pick<AdmissionAttributes, "name" | "object" | "requestUid"> {
  const {
    name: given,
    uid: requestUid,
    creationTimestamp: _,
    resourceVersion: __,
    generation: ___,
    ...rest
  } = stamped.metadata;
  const isGenerated = (sent.metadata.name ?? "") === "" && (rest.generateName ?? "") !== "";
  const name = isGenerated ? "" : given;
  const metadata = { ...(isGenerated ? {} : { name }), ...rest } as KubeObject["metadata"];
  return { name, object: { ...stamped, metadata }, requestUid };
}

/**
 * Sets name, namespace, UID and creationTimestamp of a decoded object, and drops fields that only the server may set.
 */
function stampNew(core: Core, target: Target, object: KubeObject, nowMs: number): KubeObject {
  const { resource, namespace } = target;
  const sent: Partial<KubeObject["metadata"]> = object.metadata;
  if (resource.type.namespaced) {
    if (sent.namespace !== undefined && sent.namespace !== "" && sent.namespace !== namespace) {
      throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
    }
  }
  if (target.name !== "" && sent.name !== undefined && sent.name !== "" && sent.name !== target.name) {
    throw badRequest(`the name of the object (${sent.name}) does not match the name on the URL (${target.name})`);
  }
  const name = sent.name || target.name || generateName(core, target, sent.generateName ?? "");
  const metadata: KubeObject["metadata"] = {
    name,
    ...(sent.generateName === undefined || sent.generateName === "" ? {} : { generateName: sent.generateName }),
    ...(resource.type.namespaced ? { namespace } : {}),
    uid: newUid(core.random),
    resourceVersion: "",
    creationTimestamp: formatTime(nowMs),
    ...(sent.labels === undefined ? {} : { labels: sent.labels }),
    ...(sent.annotations === undefined ? {} : { annotations: sent.annotations }),
    ...(sent.ownerReferences === undefined ? {} : { ownerReferences: sent.ownerReferences }),
    ...(sent.finalizers === undefined ? {} : { finalizers: sent.finalizers }),
    ...(sent.managedFields === undefined ? {} : { managedFields: sent.managedFields }),
  };
  return { ...object, metadata };
}

/** Consonants and digits that spell no words. */
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789";

function generateName(core: Core, target: Target, base: string): string {
  if (base === "") return "";
  const stem = base.slice(0, 58);
  for (let attempt = 0; attempt < 8; attempt++) {
    let name = stem;
    for (let at = 0; at < 5; at++) name += nameAlphabet[core.random.uint32() % nameAlphabet.length];
    if (core.store.get(target.resource.type.storageKey, target.namespace, name) === undefined) return name;
  }
  const error = alreadyExists(target.resource.groupResource, stem);
  error.status.message = `${error.status.message}, the server was not able to generate a unique name for the object`;
  error.status.details = { ...error.status.details, retryAfterSeconds: 1 };
  throw error;
}

/** A namespaced object requires a namespace that exists and is not terminating. */
function requireNamespace(core: Core, target: Target, name: string): void {
  const { resource, namespace } = target;
  if (!resource.type.namespaced) return;
  if (namespace === "") throw badRequest("an empty namespace may not be set during creation");
  const found = core.store.get("/namespaces", "", namespace);
  if (found === undefined) throw notFound({ group: "", resource: "namespaces" }, namespace);
  if (found.object().metadata.deletionTimestamp === undefined) return;
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  throw forbiddenError(resource.groupResource, name, why, [
    {
      reason: "NamespaceTerminating",
      message: `namespace ${namespace} is being terminated`,
      field: "metadata.namespace",
    },
  ]);
}

/** The response of a mutating webhook is untrusted, so it is decoded again; identity and system fields stay. */
export function redecode(resource: Resource, changed: KubeObject, before: KubeObject, call: Call): KubeObject {
  const object = resource.decode(sentByUs(changed), "Ignore", call.warn);
  resource.setDefaults(object);
  const { name, namespace, uid, resourceVersion, creationTimestamp, generation, managedFields } = before.metadata;
  const { deletionTimestamp, deletionGracePeriodSeconds } = before.metadata;
  const { labels, annotations, ownerReferences, finalizers, generateName: base } = object.metadata;
  object.metadata = {
    name,
    ...(base === undefined ? {} : { generateName: base }),
    ...(namespace === undefined ? {} : { namespace }),
    uid,
    resourceVersion,
    ...(generation === undefined ? {} : { generation }),
    creationTimestamp,
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds }),
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
    ...(finalizers === undefined ? {} : { finalizers }),
    ...(managedFields === undefined ? {} : { managedFields }),
  };
  return object;
}

/** Whether and how the kind counts generations. */
export function generationOf(resource: Resource): NonNullable<Strategy["generation"]> {
  return resource.custom !== undefined ? "content" : (resource.strategy.generation ?? "none");
}

/** True where `status` is written through its own endpoint only. */
export function separatesStatus(resource: Resource): boolean {
  return resource.custom !== undefined ? resource.custom.hasStatusSubresource : resource.type.hasStatus;
}

function wipeStatus(resource: Resource, object: KubeObject): void {
  if (!separatesStatus(resource) || resource.strategy.statusOnCreate === true) return;
  const field = resource.schema.fields.get("status");
  if (field?.zero === "always") object["status"] = zeroValue(field.schema);
  else delete object["status"];
}

/** The metadata that a write to /status keeps. */
export function statusKeeps(resource: Resource): Strategy["statusKeeps"] {
  return resource.custom !== undefined ? "metadata" : resource.strategy.statusKeeps;
}

/** Fields that the endpoint does not take from the caller, so that no manager gets to own them through it. */
export function resetFieldsOf(resource: Resource, subresource: string): { resetFields?: FieldSet } {
  if (subresource === "status") {
    const keeps = statusKeeps(resource);
    if (keeps === "labels") return { resetFields: resetSpecAndLabels };
    return { resetFields: keeps === "metadata" ? resetSpecAndMetadata : resetSpec };
  }
  return separatesStatus(resource) && resource.strategy.statusOnCreate !== true ? { resetFields: resetStatus } : {};
}

export function setManagedFields(object: KubeObject, managedFields: ObjectMeta["managedFields"] | undefined): void {
  if (managedFields === undefined) delete object.metadata.managedFields;
  else object.metadata.managedFields = managedFields;
}

/** A version that is in no collection, for responses to dry runs. */
export function detached(storageKey: string, stored: KubeObject, resource: Resource, revision = 0): Version {
  const { namespace = "", name } = stored.metadata;
  const metadata = { ...stored.metadata };
  if (revision > 0) metadata.resourceVersion = String(revision);
  else delete (metadata as Partial<typeof metadata>).resourceVersion;
  const object = { ...stored, metadata };
  const at = { revision, resource: storageKey, namespace, name, deleted: false };
  return new Version(at, sideRecord(resource, stored), object, undefined, new RecentlyParsed(1));
}
