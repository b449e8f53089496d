import { type FieldError, forbidden, invalid, required, tooLong } from "../../model/objects/fieldError.ts";
import { equalJson } from "../../model/objects/json.ts";
import { validateLabels } from "../../model/objects/labelSelector.ts";
import { generateNameErrors, nameErrors, qualifiedNameErrors } from "../../model/objects/names.ts";
import { type KubeObject, type ObjectMeta, type OwnerReference, splitApiVersion } from "../../model/objects/object.ts";
import { append } from "../../model/values/append.ts";
import type { Resource } from "../resource.ts";

/** Total size of the keys and values of all annotations. */
const annotationBytesMax = 256 * 1024;

/** Validates the metadata of any object. */
export function validateMetadata(object: KubeObject, resource: Resource): FieldError[] {
  const { metadata } = object;
  const errors: FieldError[] = [];
  const rule = resource.strategy.name ?? "dnsSubdomain";
  if (metadata.generateName !== undefined) {
    for (const message of generateNameErrors(rule, metadata.generateName)) {
      errors.push(invalid("metadata.generateName", metadata.generateName, message));
    }
  }
  if (metadata.name === "") {
    errors.push(required("metadata.name", "name or generateName is required"));
  } else {
    for (const message of nameErrors(rule, metadata.name))
      errors.push(invalid("metadata.name", metadata.name, message));
  }
  if (metadata.labels !== undefined) append(errors, validateLabels(metadata.labels, "metadata.labels"));
  if (metadata.annotations !== undefined) append(errors, validateAnnotations(metadata.annotations));
  if (metadata.ownerReferences !== undefined) append(errors, validateOwners(metadata.ownerReferences));
  if (metadata.finalizers !== undefined) append(errors, validateFinalizers(metadata.finalizers, resource));
  return errors;
}

/** Validates an update of metadata; system fields have been copied from `old` already. */
export function validateMetadataUpdate(next: KubeObject, old: KubeObject, resource: Resource): FieldError[] {
  const metadata = next.metadata;
  const before = old.metadata;
  const errors: FieldError[] = [];
  // Unchanged fields were validated when they were written.
  if (
    metadata.labels !== before.labels &&
    metadata.labels !== undefined &&
    !equalJson(metadata.labels, before.labels)
  ) {
    append(errors, validateLabels(metadata.labels, "metadata.labels"));
  }
  if (metadata.annotations !== undefined && !equalJson(metadata.annotations, before.annotations)) {
    append(errors, validateAnnotations(metadata.annotations));
  }
  if (metadata.ownerReferences !== undefined && !equalJson(metadata.ownerReferences, before.ownerReferences)) {
    append(errors, validateOwners(metadata.ownerReferences));
  }
  if (metadata.finalizers !== undefined && !equalJson(metadata.finalizers, before.finalizers)) {
    append(errors, validateFinalizers(metadata.finalizers, resource));
    append(errors, validateFinalizerAdditions(metadata, before));
  }
  if (metadata.name !== before.name) {
    errors.push(invalid("metadata.name", metadata.name, "field is immutable"));
  }
  if (resource.type.namespaced && metadata.namespace !== before.namespace) {
    errors.push(invalid("metadata.namespace", metadata.namespace, "field is immutable"));
  }
  return errors;
}

/** deletionTimestamp is set by DELETE only; an update may not change it. */
export function deletionMarkErrors(sent: ObjectMeta, before: ObjectMeta): FieldError[] {
  const errors: FieldError[] = [];
  const { deletionTimestamp, deletionGracePeriodSeconds } = sent;
  if (deletionTimestamp !== undefined && before.deletionTimestamp === undefined) {
    errors.push(invalid("metadata.deletionTimestamp", deletionTimestamp, "field is immutable"));
  }
  if (deletionGracePeriodSeconds !== undefined && deletionGracePeriodSeconds !== before.deletionGracePeriodSeconds) {
    errors.push(invalid("metadata.deletionGracePeriodSeconds", deletionGracePeriodSeconds, "field is immutable"));
  }
  return errors;
}

function validateAnnotations(annotations: Record<string, string>): FieldError[] {
  const errors: FieldError[] = [];
  let bytes = 0;
  for (const key of Object.keys(annotations)) {
    // The prefix of an annotation key may have upper case; that of a label may not.
    for (const message of qualifiedNameErrors(key.toLowerCase())) {
      errors.push(invalid("metadata.annotations", key, message));
    }
    bytes += byteLength(key) + byteLength(annotations[key] as string);
  }
  if (bytes > annotationBytesMax) errors.push(tooLong("metadata.annotations", annotationBytesMax));
  return errors;
}

function validateOwners(owners: readonly OwnerReference[]): FieldError[] {
  const errors: FieldError[] = [];
  let controller: string | undefined;
  owners.forEach((owner) => {
    const path = "metadata.ownerReferences";
    const { group, version } = splitApiVersion(owner.apiVersion ?? "");
    if (version === "") errors.push(invalid(`${path}.apiVersion`, owner.apiVersion ?? "", "version must not be empty"));
    if ((owner.kind ?? "") === "") errors.push(invalid(`${path}.kind`, "", "must not be empty"));
    if ((owner.name ?? "") === "") errors.push(invalid(`${path}.name`, "", "must not be empty"));
    if ((owner.uid ?? "") === "") errors.push(invalid(`${path}.uid`, "", "must not be empty"));
    if (group === "" && version === "v1" && owner.kind === "Event") {
      errors.push(invalid(path, `${owner.apiVersion}, Kind=${owner.kind}`, "is disallowed from being an owner"));
    }
    if (owner.controller !== true) return;
    if (controller !== undefined) {
      const both = `Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${owner.name}`;
      errors.push(invalid("metadata.ownerReferences", null, both));
    }
    controller = owner.name;
  });
  return errors;
}

/** The only finalizers without a domain. */
const plainFinalizers = new Set(["kubernetes", "orphan", "foregroundDeletion"]);

function validateFinalizers(finalizers: readonly string[], resource: Resource): FieldError[] {
  const errors: FieldError[] = [];
  finalizers.forEach((finalizer) => {
    for (const message of qualifiedNameErrors(finalizer)) {
      errors.push(invalid("metadata.finalizers", finalizer, message));
    }
    if (!hasFreeFinalizers(resource) && !finalizer.includes("/") && !plainFinalizers.has(finalizer)) {
      const why = "name is neither a standard finalizer name nor is it fully qualified";
      errors.push(invalid("metadata.finalizers", finalizer, why));
    }
  });
  if (finalizers.includes("orphan") && finalizers.includes("foregroundDeletion")) {
    const why = "finalizer orphan and foregroundDeletion cannot be both set";
    errors.push(invalid("metadata.finalizers", finalizers, why));
  }
  return errors;
}

/** Custom resources and a few built-in kinds accept finalizers without a domain. */
function hasFreeFinalizers({ custom, type }: Resource): boolean {
  return custom !== undefined || type.group === "admissionregistration.k8s.io" || freeFinalizers.has(type.storageKey);
}

const freeFinalizers = new Set([
  "/events",
  "coordination.k8s.io/leases",
  "node.k8s.io/runtimeclasses",
  "policy/poddisruptionbudgets",
]);

function validateFinalizerAdditions(metadata: ObjectMeta, before: ObjectMeta): FieldError[] {
  if (before.deletionTimestamp === undefined) return [];
  const known = new Set(before.finalizers ?? []);
  const added = (metadata.finalizers ?? []).filter((finalizer) => !known.has(finalizer));
  if (added.length === 0) return [];
  const why = `no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`;
  return [forbidden("metadata.finalizers", why)];
}

function byteLength(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit >= 0x80) bytes += unit >= 0x800 ? 2 : 1;
    if (unit >= 0xd800 && unit < 0xe000) bytes -= 1;
  }
  return bytes;
}
