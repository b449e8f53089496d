import type {
  CustomResourceColumnDefinition,
  CustomResourceDefinition,
  CustomResourceDefinitionVersion,
} from "../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { equalJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { apiVersionOf } from "../../model/objects/object.ts";
import { append } from "../../model/values/append.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { timeToMs } from "../../model/values/time.ts";
import { compareVersions } from "../discovery.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { decodeFields } from "../schema/decode.ts";
import type { StructNode } from "../schema/schemaNode.ts";
import { checkRules, compileRules, type RuleNode } from "./celRules.ts";
import { cleanEmbedded, embeddedErrors } from "./embeddedResource.ts";
import { findFirst, getField, type JsonPath, parseJsonPath, parseSimplePath } from "./jsonPath.ts";
import { duplicateItems } from "./listUniqueness.ts";
import { prune } from "./prune.ts";
import { rootSchemaNode } from "./schemaNodeOf.ts";
import { setDefaults } from "./setDefaults.ts";
import { compileStructural, type Structural } from "./structural.ts";
import { validateSchema } from "./validateSchema.ts";

/** One compiled version of a custom resource, with everything that its reads and writes need. */
export interface CustomResource {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly served: boolean;
  readonly isStorage: boolean;
  /** The apiVersion in which objects are stored. */
  readonly storageVersion: string;
  /** The deprecation warning for requests; empty if the version is not deprecated. */
  readonly deprecationWarning: string;
  readonly hasStatus: boolean;
  readonly scale: ScalePaths | undefined;
  readonly columns: readonly PrinterColumn[];
  /** As selectors name them: `spec.color`. */
  readonly selectableFields: readonly string[];
  readonly schema: StructNode;
  /** The schema as it was written, for the OpenAPI document. */
  readonly openApiSchema: JsonObject;
  /** Throws DecodeError if metadata has wrong types. Changes the value in place. */
  decode(value: JsonObject): { object: JsonObject; unknownPaths: string[] };
  setDefaults(object: JsonObject): void;
  /** Prunes, in place, fields that this version does not have: for objects from the store or from another version. */
  prune(object: JsonObject): void;
  /** `old` is the stored object on update, in this version. */
  validate(object: JsonObject, old?: JsonObject): FieldError[];
  selectFields(object: JsonObject): string[];
}

/** Field names along the way to each number of the scale subresource. */
export interface ScalePaths {
  readonly specReplicas: readonly string[];
  readonly statusReplicas: readonly string[];
  readonly labelSelector: readonly string[] | undefined;
}

export interface PrinterColumn {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  readonly priority: number;
  /** The cell of the table: null where the value is absent; dates become ages. */
  cell(object: JsonObject, nowMs: number): Json;
}

interface Compiled {
  readonly generation: number;
  /** The accepted names: they can change without a new generation. */
  readonly names: unknown;
  readonly versions: readonly CustomResource[];
}

const cache = new Map<string, Compiled>();
const cacheMax = 512;

/** All versions of a CRD, served or not, in its order. Compiled once for each generation. */
export function customResources(crd: CustomResourceDefinition): readonly CustomResource[] {
  const { uid } = crd.metadata;
  const generation = crd.metadata.generation ?? 0;
  const known = uid === undefined ? undefined : cache.get(uid);
  const names = crd.status?.acceptedNames;
  if (known !== undefined && known.generation === generation && equalJson(known.names, names)) return known.versions;
  const versions = crd.spec.versions.map((version) => compileVersion(crd, version));
  if (uid !== undefined) {
    if (cache.size >= cacheMax) cache.delete(cache.keys().next().value as string);
    cache.set(uid, { generation, names, versions });
  }
  return versions;
}

/**
 * The deprecation warning of a version without a warning of its own: names the version to use instead, if there is one.
 */
function deprecationOf({ spec }: CustomResourceDefinition, version: string, kind: string): string {
  const [better] = spec.versions
    .filter((one) => one.served && !one.deprecated && compareVersions(one.name, version) < 0)
    .map((one) => one.name)
    .sort(compareVersions);
  const use = better === undefined ? "" : `; use ${apiVersionOf(spec.group, better)} ${kind}`;
  return `${apiVersionOf(spec.group, version)} ${kind} is deprecated${use}`;
}

function compileVersion(crd: CustomResourceDefinition, version: CustomResourceDefinitionVersion): CustomResource {
  const { spec } = crd;
  const names = crd.status?.acceptedNames?.plural ? crd.status.acceptedNames : spec.names;
  const openApiSchema = (version.schema?.openAPIV3Schema ?? {}) as JsonObject;
  const structural = compileStructural(openApiSchema);
  const objectMeta = schemaFor("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
  const rules = compileRules(structural, true);
  const selectors = (version.selectableFields ?? []).map(({ jsonPath }) => {
    const path = parseSimplePath(jsonPath);
    return typeof path === "string" ? [] : path;
  });
  const storage = spec.versions.find((each) => each.storage)?.name ?? version.name;
  const scale = version.subresources?.scale;
  return {
    group: spec.group,
    version: version.name,
    kind: names.kind,
    listKind: names.listKind ?? `${names.kind}List`,
    plural: names.plural,
    singular: names.singular ?? names.kind.toLowerCase(),
    shortNames: names.shortNames ?? [],
    categories: names.categories ?? [],
    namespaced: spec.scope === "Namespaced",
    served: version.served,
    isStorage: version.storage,
    storageVersion: apiVersionOf(spec.group, storage),
    deprecationWarning: version.deprecated
      ? (version.deprecationWarning ?? deprecationOf(crd, version.name, names.kind))
      : "",
    hasStatus: version.subresources?.status !== undefined,
    scale:
      scale === undefined
        ? undefined
        : {
            specReplicas: plainPath(scale.specReplicasPath),
            statusReplicas: plainPath(scale.statusReplicasPath),
            labelSelector: scale.labelSelectorPath ? plainPath(scale.labelSelectorPath) : undefined,
          },
    columns: columnsOf(version.additionalPrinterColumns),
    selectableFields: selectors.map((path) => path.join(".")),
    schema: rootSchemaNode(structural, objectMeta),
    openApiSchema,
    decode: (value) => decode(value, structural, objectMeta),
    setDefaults: (object) => setDefaults(object, structural),
    prune: (object) => {
      prune(object, structural);
    },
    validate: (object, old) => {
      const errors = validate(object, old, structural, rules);
      if (scale !== undefined) append(errors, scaleErrors(object, [scale.specReplicasPath, scale.statusReplicasPath]));
      return errors;
    },
    selectFields: (object) => selectors.map((path) => selectorText(getField(path, object))),
  };
}

function plainPath(text: string): string[] {
  const path = parseSimplePath(text);
  return typeof path === "string" ? text.split(".").slice(1) : path;
}

function decode(
  value: JsonObject,
  structural: Structural,
  objectMeta: StructNode,
): { object: JsonObject; unknownPaths: string[] } {
  const unknownPaths = prune(value, structural);
  const { metadata } = value;
  if (metadata !== undefined) {
    const { object, unknownFields } = decodeFields(objectMeta, metadata, true);
    value["metadata"] = object;
    for (const field of unknownFields) unknownPaths.push(`metadata.${field}`);
  }
  if (structural.has.embedded) append(unknownPaths, cleanEmbedded(value, structural, objectMeta));
  return { object: value, unknownPaths };
}

/** Errors after which CEL rules are not evaluated, because they would report the same mistake again. */
const blocking = new Set<FieldError["type"]>(["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"]);

function validate(
  object: JsonObject,
  old: JsonObject | undefined,
  structural: Structural,
  rules: RuleNode | undefined,
): FieldError[] {
  const errors = validateSchema(object, structural, old);
  if (structural.has.embedded) append(errors, embeddedErrors(object, structural));
  if (structural.has.uniqueLists) {
    const repeated = duplicateItems(object, structural);
    const tolerated = repeated.length > 0 && old !== undefined && duplicateItems(old, structural).length > 0;
    if (!tolerated) append(errors, repeated);
  }
  if (rules === undefined) return errors;
  if (errors.some((error) => blocking.has(error.type))) {
    const why =
      "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    errors.push(invalid("<nil>", null, why));
    return errors;
  }
  for (const error of checkRules(rules, object, old)) errors.push(error);
  return errors;
}

/** The value of a scale path must be a number of replicas. */
function scaleErrors(object: JsonObject, paths: readonly string[]): FieldError[] {
  const errors: FieldError[] = [];
  for (const path of paths) {
    const value = getField(plainPath(path), object);
    if (typeof value !== "number") continue;
    const field = path.replace(/^\./, "");
    if (value < 0) errors.push(invalid(field, value, "should be a non-negative integer"));
    else if (value > 2147483647) errors.push(invalid(field, value, "should be less than or equal to 2147483647"));
  }
  return errors;
}

function selectorText(value: Json | undefined): string {
  if (typeof value === "string") return value;
  return typeof value === "boolean" || typeof value === "number" ? String(value) : "";
}

const ageColumn: CustomResourceColumnDefinition = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "How long ago the object was created.",
};

function columnsOf(definitions: readonly CustomResourceColumnDefinition[] | undefined): PrinterColumn[] {
  const columns = definitions === undefined || definitions.length === 0 ? [ageColumn] : definitions;
  return columns.map((column) => {
    const path = parseJsonPath(column.jsonPath);
    return {
      name: column.name,
      type: column.type,
      format: column.format ?? "",
      description: column.description ?? `Custom resource definition column (in JSONPath format): ${column.jsonPath}`,
      priority: column.priority ?? 0,
      cell: typeof path === "string" ? () => null : (object, nowMs) => cellOf(path, column.type, object, nowMs),
    };
  });
}

function cellOf(path: JsonPath, type: string, object: JsonObject, nowMs: number): Json {
  const value = findFirst(path, object);
  if (value === undefined || value === null) return null;
  switch (type) {
    case "integer":
      return typeof value === "number" ? Math.trunc(value) : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "boolean":
      return typeof value === "boolean" ? value : null;
    case "date":
      if (typeof value !== "string") return null;
      return timeToMs(value) === undefined ? "<invalid>" : humanAge(value, nowMs);
    default:
      return typeof value === "string"
        ? value
        : isObject(value) || Array.isArray(value)
          ? JSON.stringify(value)
          : String(value);
  }
}
