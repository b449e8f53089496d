/**
 * The field numbers of the published wire format, by message. The data file is text that can be read and compared; a
 * message is parsed on first use.
 */
import { readFileSync } from "node:fs";
import { splitApiVersion } from "../../model/objects/object.ts";

export type ScalarType =
  | "string"
  | "bool"
  | "int32"
  | "int64"
  | "double"
  | "bytes"
  | "quantity"
  | "time"
  | "microTime"
  | "intOrString"
  /** JSON inside a message. */
  | "raw"
  /** A message around a list of strings. */
  | "strings"
  /** The three unions of a JSON schema: a schema or a list of them, or a boolean, or strings. */
  | "schemaOrArray"
  | "schemaOrBool"
  | "schemaOrStrings";

export interface ProtobufField {
  readonly number: number;
  /** Name in JSON; `.` when the fields of the message are inlined. */
  readonly name: string;
  readonly shape: "value" | "pointer" | "list" | "map";
  /** Written even when zero. */
  readonly keep: boolean;
  /** Undefined when the type is a message. */
  readonly scalar: ScalarType | undefined;
  /** Name of the message, empty for scalars. */
  readonly message: string;
}

export interface ProtobufMessage {
  readonly name: string;
  readonly fields: readonly ProtobufField[];
  readonly byNumber: ReadonlyMap<number, ProtobufField>;
}

export const schemaMessage = "apiextensions.k8s.io/v1.JSONSchemaProps";

const scalarTypes = new Set<string>([
  "string",
  "bool",
  "int32",
  "int64",
  "double",
  "bytes",
  "quantity",
  "time",
  "microTime",
  "intOrString",
  "raw",
  "strings",
  "schemaOrArray",
  "schemaOrBool",
  "schemaOrStrings",
]);

let texts: Map<string, string> | undefined;
const messages = new Map<string, ProtobufMessage>();

function table(): Map<string, string> {
  // The path works from src/ and from dist/, which are equally deep.
  texts ??= new Map(
    Object.entries(
      JSON.parse(
        readFileSync(new URL("../../../src/apiserver/schema/protobuf.json", import.meta.url), "utf8"),
      ) as Record<string, string>,
    ),
  );
  return texts;
}

export function messageNames(): string[] {
  return [...table().keys()];
}

export function messageOf(name: string): ProtobufMessage | undefined {
  const known = messages.get(name);
  if (known !== undefined) return known;
  const text = table().get(name);
  if (text === undefined) return undefined;
  const fields = text === "" ? [] : text.split(";").map(parseField);
  const message = { name, fields, byNumber: new Map(fields.map((field) => [field.number, field])) };
  messages.set(name, message);
  return message;
}

/** The message of a kind. Options and Status are the same in every group. */
export function messageOfKind(apiVersion: string, kind: string): ProtobufMessage | undefined {
  const { group, version } = splitApiVersion(apiVersion);
  return messageOf(`${group === "" ? "core" : group}/${version}.${kind}`) ?? messageOf(`meta/v1.${kind}`);
}

function parseField(text: string): ProtobufField {
  const [number = "", nameText = "", typeText = ""] = text.split(" ");
  const keep = nameText.endsWith("!");
  const name = keep ? nameText.slice(0, -1) : nameText;
  let shape: ProtobufField["shape"] = "value";
  let type = typeText;
  if (type.startsWith("*")) [shape, type] = ["pointer", type.slice(1)];
  else if (type.startsWith("[]")) [shape, type] = ["list", type.slice(2)];
  else if (type.startsWith("{}")) [shape, type] = ["map", type.slice(2)];
  const scalar = scalarTypes.has(type) ? (type as ScalarType) : undefined;
  return { number: Number(number), name, shape, keep, scalar, message: scalar === undefined ? type : "" };
}
