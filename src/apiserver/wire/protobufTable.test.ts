import { describe, expect, test } from "vitest";
import { hasSchema, schemaFor } from "../schema/builtinSchemas.ts";
import type { SchemaNode } from "../schema/schemaNode.ts";
import { messageNames, messageOf, type ProtobufField, type ProtobufMessage } from "./protobufTable.ts";

/** The name of the same type in the schema bundle. */
function definitionOf(message: string): string {
  const dot = message.lastIndexOf(".");
  const [group = "", version = ""] = message.slice(0, dot).split("/");
  const kind = message.slice(dot + 1);
  if (group === "meta") return `io.k8s.apimachinery.pkg.apis.meta.${version}.${kind}`;
  if (group.startsWith("apiextensions"))
    return `io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.${version}.${kind}`;
  return `io.k8s.api.${group.split(".")[0]}.${version}.${kind}`;
}

function flatFields(message: ProtobufMessage): ProtobufField[] {
  return message.fields.flatMap((field) => (field.name === "." ? flatFields(messageOf(field.message)!) : [field]));
}

function describeSchema(schema: SchemaNode): string {
  if (schema.kind === "scalar")
    return schema.type === "number" ? "double" : schema.type === "boolean" ? "bool" : schema.type;
  if (schema.kind === "list") return `[]${describeSchema(schema.items)}`;
  if (schema.kind === "map") return `{}${describeSchema(schema.values)}`;
  return schema.kind === "any" ? "raw" : "struct";
}
function describeField(field: ProtobufField): string {
  // A message without fields has nothing that a schema could name.
  if (field.scalar === undefined && messageOf(field.message)?.fields.length === 0) return "raw";
  const shape = field.shape === "list" ? "[]" : field.shape === "map" ? "{}" : "";
  const type =
    field.scalar === undefined
      ? "struct"
      : field.scalar === "strings"
        ? "[]string"
        : field.scalar.startsWith("schemaOr")
          ? "raw"
          : field.scalar;
  return `${shape}${type}`;
}

const shared = messageNames().filter((name) => hasSchema(definitionOf(name)));

test("most messages have a schema of the same name", () => {
  expect(shared.length).toBeGreaterThan(400);
});

describe("the wire table and the schemas have the same fields", () => {
  test.each(shared)("%s", (name) => {
    const schema = schemaFor(definitionOf(name));
    const wire = new Map(flatFields(messageOf(name)!).map((field) => [field.name, describeField(field)]));
    const known = new Map<string, string>();
    for (const [field, { schema: node }] of schema.fields) {
      if (field !== "apiVersion" && field !== "kind") known.set(field, describeSchema(node));
    }
    wire.delete("apiVersion");
    wire.delete("kind");
    expect(Object.fromEntries([...wire].sort())).toEqual(Object.fromEntries([...known].sort()));
  });
});
