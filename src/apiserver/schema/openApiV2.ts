import { isObject } from "../../model/objects/json.ts";
import type { OpenApiSchema } from "./openApiSchemas.ts";

/** Converts OpenAPI v3 schemas and paths to v2, in the form in which a kube-apiserver publishes it. */

const from = "#/components/schemas/";
const to = "#/definitions/";
/** Keywords that version 2 does not have. */
const dropped = new Set(["allOf", "anyOf", "oneOf", "not", "nullable"]);

/**
 * A schema in version 2: references are beside their description instead of inside `allOf`. A nullable value has no
 * type, and preserved content no properties, because version 2 cannot describe either.
 */
export function definitionOf(schema: OpenApiSchema): OpenApiSchema {
  const out: OpenApiSchema = {};
  const isOpen = schema["nullable"] === true || schema["x-kubernetes-preserve-unknown-fields"] === true;
  for (const [key, value] of Object.entries(schema)) {
    if (key === "$ref" && typeof value === "string") out[key] = value.replace(from, to);
    else if (key === "allOf") Object.assign(out, onlyReference(value));
    else if (dropped.has(key)) continue;
    else if (key === "type" && schema["nullable"] === true) continue;
    else if (key === "properties" && isObject(value)) {
      if (!isOpen) out[key] = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, nested(inner)]));
    } else if (key === "items" || key === "additionalProperties") {
      if (!isOpen) out[key] = nested(value);
    } else out[key] = value;
  }
  return out;
}

function nested(value: unknown): unknown {
  return isObject(value) ? definitionOf(value) : value;
}

function onlyReference(value: unknown): OpenApiSchema {
  const [first, ...rest] = Array.isArray(value) ? (value as unknown[]) : [];
  return isObject(first) && rest.length === 0 && typeof first["$ref"] === "string" ? definitionOf(first) : {};
}

/** The operations of one path in version 2. */
export function pathItemOf(item: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(item).map(([key, value]) => {
      if (key === "parameters") return [key, parametersOf(value)];
      return [key, isObject(value) ? operationOf(value) : value];
    }),
  );
}

const jsonTypes = ["application/json", "application/yaml"];

function operationOf({ parameters, requestBody, responses, ...rest }: Record<string, unknown>): object {
  const content = isObject(requestBody) && isObject(requestBody["content"]) ? requestBody["content"] : undefined;
  const [body] = Object.values(content ?? {});
  const bodies = isObject(body) ? [{ name: "body", in: "body", required: true, schema: nested(body["schema"]) }] : [];
  const all = [...bodies, ...parametersOf(parameters)];
  return {
    consumes: content === undefined ? ["*/*"] : Object.keys(content),
    produces: jsonTypes,
    ...(all.length > 0 ? { parameters: all } : {}),
    responses: Object.fromEntries(
      Object.entries(isObject(responses) ? responses : {}).map(([code, response]) => [code, responseOf(response)]),
    ),
    ...rest,
  };
}

function responseOf(response: unknown): object {
  const { description, content } = isObject(response) ? response : {};
  const [media] = isObject(content) ? Object.values(content) : [];
  return { description, ...(isObject(media) ? { schema: nested(media["schema"]) } : {}) };
}

function parametersOf(parameters: unknown): object[] {
  return (Array.isArray(parameters) ? (parameters as unknown[]) : []).filter(isObject).map(({ schema, ...rest }) => ({
    ...rest,
    ...(isObject(schema) ? schema : {}),
  }));
}
