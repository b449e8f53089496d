import { isObject } from "../../model/objects/json.ts";
import { type OpenApiSchema, objectMetaDefinition, reference } from "./openApiSchemas.ts";

/**
 * The schema of a custom resource as it is published: that of the definition, with apiVersion, kind and metadata added,
 * which the definition need not have.
 */
export function publishedSchema(schema: unknown): OpenApiSchema {
  return withObjectFields(isObject(schema) ? publish(schema) : { type: "object" });
}

/** `example.com`, `v1`, `Foo` to `com.example.v1.Foo`. */
export function customDefinitionName(group: string, version: string, kind: string): string {
  return `${group.split(".").reverse().join(".")}.${version}.${kind}`;
}

const typeMetaTexts = {
  apiVersion: "The group and version of the schema that this object follows, such as example.com/v1.",
  kind: "The kind of this object, in CamelCase; it cannot be changed.",
};

function withObjectFields(schema: OpenApiSchema): OpenApiSchema {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  return {
    ...schema,
    type: "object",
    properties: {
      ...properties,
      apiVersion: { type: "string", description: typeMetaTexts.apiVersion },
      kind: { type: "string", description: typeMetaTexts.kind },
      metadata: {
        description: "Name, namespace, labels, annotations and what the server keeps about the object.",
        allOf: [reference(objectMetaDefinition)],
      },
    },
  };
}

/** Walks nested schemas; values such as `default` and `enum` are data and stay unchanged. */
function publish(schema: OpenApiSchema): OpenApiSchema {
  const out: OpenApiSchema = {};
  for (const [key, value] of Object.entries(schema)) {
    if ((key === "properties" || key === "patternProperties") && isObject(value)) {
      out[key] = Object.fromEntries(
        Object.entries(value).map(([name, inner]) => [name, isObject(inner) ? publish(inner) : inner]),
      );
    } else if ((key === "items" || key === "additionalProperties" || key === "not") && isObject(value)) {
      out[key] = publish(value);
    } else if ((key === "allOf" || key === "anyOf" || key === "oneOf") && Array.isArray(value)) {
      out[key] = value.map((inner: unknown) => (isObject(inner) ? publish(inner) : inner));
    } else {
      out[key] = value;
    }
  }
  return out["x-kubernetes-embedded-resource"] === true ? withObjectFields(out) : out;
}
