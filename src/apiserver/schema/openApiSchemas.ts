import { type BundleField, type FieldExtras, schemaBundle, schemaDescriptions } from "./schemaBundle.ts";

/**
 * The built-in definitions as OpenAPI v3 schemas, in the form that kubectl's explain and apply read: references are
 * inside `allOf` so that they may have a description, and merge rules are `x-kubernetes-*`.
 */
export type OpenApiSchema = { [key: string]: unknown };

const meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
export const objectMetaDefinition = `${meta}.ObjectMeta`;
export const listMetaDefinition = `${meta}.ListMeta`;
export const statusDefinition = `${meta}.Status`;
export const deleteOptionsDefinition = `${meta}.DeleteOptions`;
export const patchDefinition = `${meta}.Patch`;

/** Types that are encoded as a scalar have a definition of their own, which the bundle does not have. */
const scalarDefinitions: Record<string, [name: string, schema: OpenApiSchema]> = {
  quantity: [
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    { description: "An amount such as 500m, 2Gi or 1e3.", oneOf: [{ type: "string" }, { type: "number" }] },
  ],
  time: [`${meta}.Time`, { description: "A moment, RFC 3339 in seconds.", type: "string", format: "date-time" }],
  microTime: [
    `${meta}.MicroTime`,
    { description: "A moment, RFC 3339 with six digits.", type: "string", format: "date-time" },
  ],
  intOrString: [
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    {
      description: "An integer or a string.",
      format: "int-or-string",
      oneOf: [{ type: "integer" }, { type: "string" }],
    },
  ],
};

const handWritten = new Map<string, OpenApiSchema>([
  ...Object.values(scalarDefinitions),
  [patchDefinition, { description: "The body of a PATCH request; its media type says which kind.", type: "object" }],
]);

const plainScalars: Record<string, OpenApiSchema> = {
  string: { type: "string" },
  boolean: { type: "boolean" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
  number: { type: "number", format: "double" },
  bytes: { type: "string", format: "byte" },
};

export function reference(definition: string): OpenApiSchema {
  return { $ref: `#/components/schemas/${definition}` };
}

/** The schemas of these definitions and of all definitions that they refer to. */
export function schemasFor(definitions: Iterable<string>): Map<string, OpenApiSchema> {
  const schemas = new Map<string, OpenApiSchema>();
  const open = [...definitions];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (schemas.has(name)) continue;
    schemas.set(name, handWritten.get(name) ?? structSchema(name, open));
  }
  return schemas;
}

function structSchema(definition: string, open: string[]): OpenApiSchema {
  const source = schemaBundle()[definition];
  if (source === undefined) throw new Error(`no schema for ${definition}`);
  const texts = schemaDescriptions()[definition] ?? {};
  const properties: Record<string, OpenApiSchema> = {};
  const required: string[] = [];
  for (const [name, entry] of Object.entries(source.fields)) {
    const [type, flags, extras]: BundleField = typeof entry === "string" ? [entry, ""] : entry;
    if (flags.includes("R")) required.push(name);
    const description = texts[name];
    properties[name] = {
      ...(description === undefined ? {} : { description }),
      ...typeSchema(definition, type, extras, open),
    };
  }
  return {
    ...(texts[""] === undefined ? {} : { description: texts[""] }),
    type: "object",
    ...(required.length > 0 ? { required } : {}),
    properties,
    ...(source.atomic ? { "x-kubernetes-map-type": "atomic" } : {}),
  };
}

function typeSchema(owner: string, type: string, extras: FieldExtras | undefined, open: string[]): OpenApiSchema {
  if (type.startsWith("[]")) {
    return { type: "array", items: typeSchema(owner, type.slice(2), undefined, open), ...listRules(extras) };
  }
  if (type.startsWith("{}")) {
    return {
      type: "object",
      additionalProperties: typeSchema(owner, type.slice(2), undefined, open),
      ...objectRules(extras),
    };
  }
  if (type === "any") {
    // In a custom schema raw JSON is any value; elsewhere it is always an object.
    return owner.startsWith("io.k8s.apiextensions") ? {} : { type: "object" };
  }
  const plain = plainScalars[type];
  if (plain !== undefined) return plain;
  const name = type.startsWith("#") ? type.slice(1) : scalarDefinitions[type]?.[0];
  if (name === undefined) throw new Error(`${owner} has the unknown type ${type}`);
  open.push(name);
  return { allOf: [reference(name)], ...objectRules(extras) };
}

function listRules(extras: FieldExtras | undefined): OpenApiSchema {
  const { list = "atomic", keys, merge, retain } = extras ?? {};
  return {
    "x-kubernetes-list-type": list,
    ...(keys === undefined ? {} : { "x-kubernetes-list-map-keys": keys }),
    ...(merge === undefined ? {} : { "x-kubernetes-patch-strategy": retain ? "merge,retainKeys" : "merge" }),
    ...(merge === undefined || merge === "" ? {} : { "x-kubernetes-patch-merge-key": merge }),
  };
}

function objectRules(extras: FieldExtras | undefined): OpenApiSchema {
  const { atomic, retain, replace } = extras ?? {};
  const strategy = retain ? "retainKeys" : replace ? "replace" : undefined;
  return {
    ...(atomic === undefined ? {} : { "x-kubernetes-map-type": atomic ? "atomic" : "granular" }),
    ...(strategy === undefined ? {} : { "x-kubernetes-patch-strategy": strategy }),
  };
}
