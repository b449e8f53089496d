import type { AnyNode, ScalarNode, SchemaNode, StructField, StructNode } from "../schema/schemaNode.ts";
import type { Structural } from "./structural.ts";

/** A structural schema in the form that decoding, patching and server-side apply use. */
export function rootSchemaNode(schema: Structural, objectMeta: SchemaNode): StructNode {
  const fields = fieldsOf(schema);
  const text: ScalarNode = { kind: "scalar", type: "string" };
  fields.set("apiVersion", { name: "apiVersion", schema: text, required: false, zero: "pointer" });
  fields.set("kind", { name: "kind", schema: text, required: false, zero: "pointer" });
  fields.set("metadata", { name: "metadata", schema: objectMeta, required: false, zero: "pointer" });
  return { kind: "struct", name: "", fields, atomic: false, preserveUnknown: schema.preserveUnknown };
}

const anything: AnyNode = { kind: "any", atomic: false };

export function schemaNodeOf(schema: Structural): SchemaNode {
  if (schema.intOrString) return { kind: "scalar", type: "intOrString" };
  switch (schema.type) {
    case "object":
      return objectNode(schema);
    case "array":
      return {
        kind: "list",
        items: schema.items === undefined ? anything : schemaNodeOf(schema.items),
        listType: schema.listType,
        listKeys: schema.listKeys,
        // Strategic merge patch is for built-in kinds, so these values are not used.
        patchMerge: false,
        patchMergeKey: "",
        patchRetainKeys: false,
      };
    case "string":
      return { kind: "scalar", type: "string" };
    case "boolean":
      return { kind: "scalar", type: "boolean" };
    case "integer":
      return { kind: "scalar", type: "int64" };
    case "number":
      return { kind: "scalar", type: "number" };
    case "":
      return schema.properties.size > 0 ? objectNode(schema) : anything;
  }
}

function objectNode(schema: Structural): SchemaNode {
  if (schema.additional !== undefined && schema.properties.size === 0) {
    return { kind: "map", values: schemaNodeOf(schema.additional), atomic: schema.mapAtomic };
  }
  const fields = fieldsOf(schema);
  if (schema.embedded) {
    for (const name of ["apiVersion", "kind", "metadata"]) {
      if (!fields.has(name)) fields.set(name, { name, schema: anything, required: false, zero: "pointer" });
    }
  }
  return { kind: "struct", name: "", fields, atomic: schema.mapAtomic, preserveUnknown: schema.preserveUnknown };
}

function fieldsOf(schema: Structural): Map<string, StructField> {
  const fields = new Map<string, StructField>();
  for (const [name, child] of schema.properties) {
    const required = schema.required.includes(name);
    // Absent, null and zero differ in a custom resource.
    fields.set(name, { name, schema: schemaNodeOf(child), required, zero: "pointer" });
  }
  return fields;
}
