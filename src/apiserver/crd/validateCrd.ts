import type {
  CustomResourceColumnDefinition,
  CustomResourceConversion,
  CustomResourceDefinition,
  CustomResourceDefinitionNames,
  CustomResourceDefinitionVersion,
  CustomResourceSubresources,
  SelectableField,
} from "../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
  tooMany,
} from "../../model/objects/fieldError.ts";
import { equalJson, isObject, type JsonObject } from "../../model/objects/json.ts";
import { dns1035LabelErrors, dnsSubdomainErrors } from "../../model/objects/names.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { append } from "../../model/values/append.ts";
import type { Strategy, WriteContext } from "../strategy.ts";
import { approvalAnnotation, approvalOf, crdStatus, isEstablished } from "./crdNames.ts";
import { parseJsonPath, parseSimplePath } from "./jsonPath.ts";
import { structuralErrors } from "./structuralSchema.ts";

/** Defaults, validation and immutable fields of CustomResourceDefinitions. */
export const crdStrategy: Strategy = {
  name: "dnsSubdomain",
  generation: "spec",
  setDefaults: (object) => setCrdDefaults(crdOf(object)),
  prepareForCreate(object, context) {
    const crd = crdOf(object);
    warnOfConversion(crd, context);
    delete crd.status;
    // A status is only computed from a readable spec.
    if (isReadable(crd)) crd.status = crdStatus(crd, otherCrds(context), context.nowMs);
  },
  validate: (object) => crdErrors(crdOf(object), undefined),
  prepareForUpdate(next, old, context) {
    const crd = crdOf(next);
    warnOfConversion(crd, context);
    if (isReadable(crd) && !equalJson(crd.spec, crdOf(old).spec)) {
      crd.status = crdStatus(crd, otherCrds(context), context.nowMs);
    }
  },
  validateUpdate: (next, old) => [...crdErrors(crdOf(next), crdOf(old)), ...changeErrors(crdOf(next), crdOf(old))],
  validateStatusUpdate: (next) => storedVersionErrors(crdOf(next)),
};

/** Warns that the conversion webhook of a definition is not called. */
function warnOfConversion(crd: CustomResourceDefinition, context: WriteContext): void {
  if (crd.spec?.conversion?.strategy !== "Webhook") return;
  context.warn("spec.conversion.webhook is not called by this server: between versions only apiVersion changes");
}

/** The key under which CRDs are stored. */
export const crdResource = "apiextensions.k8s.io/customresourcedefinitions";

function crdOf(object: KubeObject): CustomResourceDefinition {
  return object as CustomResourceDefinition;
}

function isReadable(crd: CustomResourceDefinition): boolean {
  return crd.spec?.names !== undefined && Array.isArray(crd.spec.versions);
}

function* otherCrds(context: WriteContext): Iterable<CustomResourceDefinition> {
  for (const object of context.list(crdResource, "")) yield crdOf(object);
}

export function setCrdDefaults(crd: CustomResourceDefinition): void {
  const { spec } = crd;
  if (spec === undefined) return;
  const { names } = spec;
  if (names?.kind) {
    names.singular ||= names.kind.toLowerCase();
    names.listKind ||= `${names.kind}List`;
  }
  spec.conversion ??= { strategy: "None" };
  const service = spec.conversion.webhook?.clientConfig?.service;
  if (service !== undefined) service.port ??= 443;
}

export function crdErrors(crd: CustomResourceDefinition, old: CustomResourceDefinition | undefined): FieldError[] {
  const errors: FieldError[] = [];
  const { spec } = crd;
  if (spec === undefined) return [required("spec")];
  const expectedName = `${spec.names?.plural ?? ""}.${spec.group}`;
  if (crd.metadata.name !== expectedName) {
    errors.push(invalid("metadata.name", crd.metadata.name, 'must be spec.names.plural+"."+spec.group'));
  }
  checkGroup(spec.group, errors);
  checkApproval(crd, old, errors);
  if (spec.scope === undefined || spec.scope === "") errors.push(required("spec.scope"));
  else if (spec.scope !== "Cluster" && spec.scope !== "Namespaced") {
    errors.push(notSupported("spec.scope", spec.scope, ["Cluster", "Namespaced"]));
  }
  if (spec.preserveUnknownFields === true && old?.spec.preserveUnknownFields !== true) {
    const why =
      "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    errors.push(invalid("spec.preserveUnknownFields", true, why));
  }
  checkVersions(spec.versions ?? [], old?.spec.versions ?? [], errors);
  checkNames(spec.names, errors);
  checkConversion(spec.conversion, errors);
  append(errors, storedVersionErrors(crd));
  return errors;
}

function checkGroup(group: string, errors: FieldError[]): void {
  if (group === undefined || group === "") {
    errors.push(required("spec.group"));
    return;
  }
  const [problem] = dnsSubdomainErrors(group);
  if (problem !== undefined) errors.push(invalid("spec.group", group, problem));
  else if (!group.includes(".")) errors.push(invalid("spec.group", group, "should be a domain with at least one dot"));
}

function checkApproval(
  crd: CustomResourceDefinition,
  old: CustomResourceDefinition | undefined,
  errors: FieldError[],
): void {
  const approval = approvalOf(crd);
  const field = `metadata.annotations[${approvalAnnotation}]`;
  // Definitions from before the policy are exempt.
  if (approval === undefined || (old !== undefined && approvalOf(old)?.reason === approval.reason)) return;
  if (approval.reason === "MissingAnnotation") errors.push(required(field, approval.message));
  if (approval.reason === "InvalidAnnotation") {
    errors.push(invalid(field, crd.metadata.annotations?.[approvalAnnotation] ?? "", approval.message));
  }
}

function checkVersions(
  versions: readonly CustomResourceDefinitionVersion[],
  old: readonly CustomResourceDefinitionVersion[],
  errors: FieldError[],
): void {
  const seen = new Set<string>();
  let repeated = false;
  versions.forEach((version, i) => {
    const path = `spec.versions[${i}]`;
    repeated ||= seen.has(version.name);
    seen.add(version.name);
    const [problem] = dns1035LabelErrors(version.name ?? "");
    if (problem !== undefined) errors.push(invalid(`${path}.name`, version.name ?? "", problem));
    if (version.deprecationWarning !== undefined) {
      if (version.deprecated !== true) {
        const why = "can only be set for deprecated versions";
        errors.push(invalid(`${path}.deprecationWarning`, version.deprecationWarning, why));
      } else if (version.deprecationWarning.length > 256) {
        errors.push(
          invalid(`${path}.deprecationWarning`, version.deprecationWarning, "must be <= 256 characters long"),
        );
      }
    }
    const before = old.find((other) => other.name === version.name);
    const schema = version.schema?.openAPIV3Schema as JsonObject | undefined;
    const schemaPath = `${path}.schema.openAPIV3Schema`;
    if (!isObject(schema)) errors.push(required(schemaPath, "schemas are required"));
    // An accepted schema stays accepted when validation becomes stricter.
    else if (!equalJson(schema, before?.schema?.openAPIV3Schema)) {
      for (const error of structuralErrors(schema, schemaPath)) errors.push(error);
    }
    checkSubresources(version.subresources, `${path}.subresources`, errors);
    checkColumns(version.additionalPrinterColumns ?? [], `${path}.additionalPrinterColumns`, errors);
    checkSelectableFields(version.selectableFields ?? [], schema, `${path}.selectableFields`, errors);
  });
  if (repeated) errors.push(invalid("spec.versions", versions, "must contain unique version names"));
  if (versions.filter((version) => version.storage).length !== 1) {
    errors.push(
      invalid(
        "spec.versions",
        versions.map(({ name }) => name),
        "must have exactly one version marked as storage version",
      ),
    );
  }
}

function checkNames(names: CustomResourceDefinitionNames | undefined, errors: FieldError[]): void {
  const path = "spec.names";
  const label = (field: string, value: string | undefined, mixedCase: boolean) => {
    if (value === undefined || value === "") {
      errors.push(required(`${path}.${field}`));
      return;
    }
    const [problem] = dns1035LabelErrors(mixedCase ? value.toLowerCase() : value);
    if (problem === undefined) return;
    const why = mixedCase ? `may have mixed case, but should otherwise match: ${problem}` : problem;
    errors.push(invalid(`${path}.${field}`, value, why));
  };
  label("plural", names?.plural, false);
  label("singular", names?.singular, false);
  label("kind", names?.kind, true);
  label("listKind", names?.listKind, true);
  names?.shortNames?.forEach((name, i) => {
    label(`shortNames[${i}]`, name, false);
  });
  names?.categories?.forEach((name, i) => {
    label(`categories[${i}]`, name, false);
  });
  if (names?.kind && names.kind === names.listKind) {
    errors.push(invalid(`${path}.listKind`, names.listKind, "kind and listKind may not be the same"));
  }
}

function checkSubresources(
  subresources: CustomResourceSubresources | undefined,
  path: string,
  errors: FieldError[],
): void {
  const scale = subresources?.scale;
  if (scale === undefined) return;
  checkScalePath(scale.specReplicasPath, [".spec."], `${path}.scale.specReplicasPath`, errors);
  checkScalePath(scale.statusReplicasPath, [".status."], `${path}.scale.statusReplicasPath`, errors);
  if (scale.labelSelectorPath !== undefined && scale.labelSelectorPath !== "") {
    checkScalePath(scale.labelSelectorPath, [".spec.", ".status."], `${path}.scale.labelSelectorPath`, errors);
  }
}

function checkScalePath(text: string | undefined, roots: readonly string[], field: string, errors: FieldError[]): void {
  if (text === undefined || text === "") {
    errors.push(required(field));
    return;
  }
  if (!roots.some((root) => text.startsWith(root))) {
    const where = roots.map((root) => root.slice(0, -1)).join(" or ");
    errors.push(invalid(field, text, `should be a json path under ${roots.length > 1 ? "either " : ""}${where}`));
    return;
  }
  // Steps are names between dots: `.spec.n[0]` is accepted and matches nothing.
}

const columnTypes = ["boolean", "date", "integer", "number", "string"];
const columnFormats = ["binary", "bool", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

function checkColumns(columns: readonly CustomResourceColumnDefinition[], path: string, errors: FieldError[]): void {
  columns.forEach((column, i) => {
    const where = `${path}[${i}]`;
    if (!column.name) errors.push(required(`${where}.name`));
    if (!column.type) errors.push(required(`${where}.type`, `must be one of ${columnTypes.join(",")}`));
    else if (!columnTypes.includes(column.type)) {
      errors.push(invalid(`${where}.type`, column.type, `must be one of ${columnTypes.join(",")}`));
    }
    if (column.format && !columnFormats.includes(column.format)) {
      errors.push(invalid(`${where}.format`, column.format, `must be one of ${columnFormats.join(",")}`));
    }
    if (!column.jsonPath) {
      errors.push(required(`${where}.jsonPath`));
      return;
    }
    const parsed = column.jsonPath.startsWith(".") ? parseJsonPath(column.jsonPath) : "must start with a dot";
    if (typeof parsed === "string") {
      errors.push(invalid(`${where}.jsonPath`, column.jsonPath, `is an invalid path: ${parsed}`));
    }
  });
}

const selectableMax = 8;

function checkSelectableFields(
  fields: readonly SelectableField[],
  schema: JsonObject | undefined,
  path: string,
  errors: FieldError[],
): void {
  if (fields.length > selectableMax) errors.push(tooMany(path, fields.length, selectableMax));
  const seen = new Set<string>();
  fields.forEach(({ jsonPath }, i) => {
    const where = `${path}[${i}].jsonPath`;
    if (!jsonPath) {
      errors.push(required(where));
      return;
    }
    const names = jsonPath.startsWith(".") ? parseSimplePath(jsonPath) : "must start with a dot";
    if (typeof names === "string") {
      errors.push(invalid(where, jsonPath, `is an invalid path: ${names}`));
      return;
    }
    if (names[0] === "metadata") errors.push(invalid(where, jsonPath, "must not point to fields in metadata"));
    else if (schema !== undefined) checkSelectableType(names, schema, where, jsonPath, errors);
    if (seen.has(jsonPath)) errors.push(duplicate(where, jsonPath));
    seen.add(jsonPath);
  });
}

function checkSelectableType(
  names: readonly string[],
  schema: JsonObject,
  where: string,
  jsonPath: string,
  errors: FieldError[],
): void {
  let place: JsonObject | undefined = schema;
  for (const name of names) {
    const properties: unknown = place["properties"];
    const child = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!isObject(child)) {
      errors.push(invalid(where, jsonPath, "is an invalid path: does not refer to a valid field"));
      return;
    }
    place = child;
  }
  const type = place["type"];
  if (type !== "string" && type !== "boolean" && type !== "integer") {
    const why =
      "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
    errors.push(invalid(where, jsonPath, why));
  }
}

function checkConversion(conversion: CustomResourceConversion | undefined, errors: FieldError[]): void {
  const path = "spec.conversion";
  if (conversion === undefined) return;
  const { strategy, webhook } = conversion;
  if (!strategy) errors.push(required(`${path}.strategy`));
  else if (strategy !== "None" && strategy !== "Webhook") {
    errors.push(notSupported(`${path}.strategy`, strategy, ["None", "Webhook"]));
  }
  if (strategy !== "Webhook") {
    if (webhook !== undefined) {
      errors.push(forbidden(`${path}.webhook`, "should not be set when strategy is not set to Webhook"));
    }
    return;
  }
  const config = webhook?.clientConfig;
  if (config === undefined) {
    errors.push(required(`${path}.webhook.clientConfig`, "required when strategy is set to Webhook"));
  } else if ((config.url === undefined) === (config.service === undefined)) {
    errors.push(required(`${path}.webhook.clientConfig`, "exactly one of url or service is required"));
  } else if (config.url !== undefined && !/^https:\/\/[^/?#@]+[^?#]*$/.test(config.url)) {
    errors.push(invalid(`${path}.webhook.clientConfig.url`, config.url, "'https' is the only allowed URL scheme"));
  }
  const reviews = webhook?.conversionReviewVersions ?? [];
  if (reviews.length === 0) {
    errors.push(required(`${path}.webhook.conversionReviewVersions`));
  } else if (!reviews.includes("v1") && !reviews.includes("v1beta1")) {
    const why = "must include at least one of v1, v1beta1";
    errors.push(invalid(`${path}.webhook.conversionReviewVersions`, reviews, why));
  }
}

/** A version in which objects are stored must stay in the definition. */
function storedVersionErrors(crd: CustomResourceDefinition): FieldError[] {
  const stored = crd.status?.storedVersions;
  if (stored === undefined) return [];
  const errors: FieldError[] = [];
  const names = new Set((crd.spec.versions ?? []).map((version) => version.name));
  stored.forEach((name, i) => {
    if (names.has(name)) return;
    const why = `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`;
    errors.push(invalid(`status.storedVersions[${i}]`, name, why));
  });
  const storage = crd.spec.versions?.find((version) => version.storage)?.name;
  if (stored.length === 0) {
    errors.push(invalid("status.storedVersions", stored, "must have at least one stored version"));
  } else if (storage !== undefined && !stored.includes(storage)) {
    errors.push(invalid("status.storedVersions", stored, `must have the storage version ${storage}`));
  }
  return errors;
}

function changeErrors(next: CustomResourceDefinition, old: CustomResourceDefinition): FieldError[] {
  const errors: FieldError[] = [];
  if (next.spec === undefined) return errors;
  const same = (field: string, a: string | undefined, b: string | undefined) => {
    if (a !== b) errors.push(invalid(field, a ?? "", "field is immutable"));
  };
  same("spec.group", next.spec.group, old.spec.group);
  same("spec.names.plural", next.spec.names?.plural, old.spec.names.plural);
  // Objects of these names exist only once the CRD is established.
  if (isEstablished(old.status)) {
    same("spec.scope", next.spec.scope, old.spec.scope);
    same("spec.names.kind", next.spec.names?.kind, old.spec.names.kind);
  }
  return errors;
}
