/**
 * The way back, as a Go client does it: JSON to the wire. The server never answers with protobuf; this is for tests and
 * for the benchmark, which must send what real clients send.
 */
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { parseMicroTime, parseTime } from "../../model/values/time.ts";
import { messageOf, messageOfKind, type ProtobufField, type ProtobufMessage, schemaMessage } from "./protobufTable.ts";

/** Writes an object with its envelope. */
export function encodeProtobuf(object: JsonObject): Buffer {
  const apiVersion = String(object["apiVersion"] ?? "");
  const kind = String(object["kind"] ?? "");
  const message = messageOfKind(apiVersion, kind);
  if (message === undefined) throw new Error(`no message for ${apiVersion} ${kind}`);
  const type = [...delimited(1, text(apiVersion)), ...delimited(2, text(kind))];
  const parts: Buffer[] = [Buffer.from([0x6b, 0x38, 0x73, 0x00]), Buffer.from(delimited(1, Buffer.from(type)))];
  const raw = encodeMessage(object, message);
  parts.push(Buffer.from(tag(2, 2)), Buffer.from(varint(BigInt(raw.length))), raw);
  parts.push(Buffer.from(delimited(3, text(""))), Buffer.from(delimited(4, text(""))));
  return Buffer.concat(parts);
}

/** Writes the fields of one message. Value fields are written even when absent, as Go does. */
export function encodeMessage(object: JsonObject, message: ProtobufMessage): Buffer {
  const parts: Buffer[] = [];
  for (const field of message.fields) {
    const value = field.name === "." ? object : object[field.name];
    if (field.shape === "list") {
      for (const item of (value as Json[] | undefined) ?? []) parts.push(encodeField(field.number, item, field));
    } else if (field.shape === "map") {
      for (const [key, item] of Object.entries((value as JsonObject | undefined) ?? {})) {
        const entry = Buffer.concat([Buffer.from(delimited(1, text(key))), encodeField(2, item, field)]);
        parts.push(withLength(field.number, entry));
      }
    } else if (field.shape === "value" || value !== undefined) {
      parts.push(encodeField(field.number, value, field));
    }
  }
  return Buffer.concat(parts);
}

function encodeField(number: number, value: Json | undefined, field: ProtobufField): Buffer {
  switch (field.scalar) {
    case undefined: {
      const message = messageOf(field.message);
      if (message === undefined) throw new Error(`no message ${field.message}`);
      return withLength(number, encodeMessage((value as JsonObject | undefined) ?? {}, message));
    }
    case "string":
      return Buffer.from(delimited(number, text((value as string | undefined) ?? "")));
    case "bytes":
      return withLength(number, Buffer.from((value as string | undefined) ?? "", "base64"));
    case "bool":
      return Buffer.from([...tag(number, 0), value === true ? 1 : 0]);
    case "int32":
    case "int64":
      return Buffer.from([...tag(number, 0), ...varint(BigInt((value as number | undefined) ?? 0))]);
    case "double": {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE((value as number | undefined) ?? 0);
      return Buffer.concat([Buffer.from(tag(number, 1)), bytes]);
    }
    default:
      return withLength(number, encodeSpecial(value, field.scalar));
  }
}

function encodeSpecial(value: Json | undefined, type: Exclude<ProtobufField["scalar"], undefined>): Buffer {
  switch (type) {
    case "quantity":
      return Buffer.from(delimited(1, text(value === undefined || value === null ? "0" : String(value))));
    case "time":
    case "microTime": {
      if (value === undefined || value === null) return Buffer.alloc(0);
      const { seconds, nanos } = type === "time" ? parseTime(String(value)) : parseMicroTime(String(value));
      return Buffer.from([...tag(1, 0), ...varint(BigInt(seconds)), ...tag(2, 0), ...varint(BigInt(nanos))]);
    }
    case "intOrString": {
      const isText = typeof value === "string";
      const int = typeof value === "number" ? value : 0;
      const head = [...tag(1, 0), isText ? 1 : 0, ...tag(2, 0), ...varint(BigInt(int))];
      return Buffer.from([...head, ...delimited(3, text(isText ? value : ""))]);
    }
    case "raw":
      return value === undefined ? Buffer.alloc(0) : withLength(1, text(JSON.stringify(value)));
    case "strings":
      return Buffer.concat(((value as string[] | undefined) ?? []).map((item) => withLength(1, text(item))));
    case "schemaOrArray":
      if (Array.isArray(value)) return Buffer.concat(value.map((item) => withLength(2, encodeSchema(item))));
      return withLength(1, encodeSchema(value));
    case "schemaOrStrings":
      if (Array.isArray(value)) return Buffer.concat(value.map((item) => withLength(2, text(String(item)))));
      return withLength(1, encodeSchema(value));
    case "schemaOrBool": {
      if (typeof value === "boolean") return Buffer.from([...tag(1, 0), value ? 1 : 0]);
      return Buffer.concat([Buffer.from([...tag(1, 0), 1]), withLength(2, encodeSchema(value))]);
    }
    default:
      throw new Error(`${type} is no message`);
  }
}

function encodeSchema(value: Json | undefined): Buffer {
  return encodeMessage((value as JsonObject | undefined) ?? {}, messageOf(schemaMessage) as ProtobufMessage);
}

function text(value: string): Buffer {
  return Buffer.from(value, "utf8");
}

function tag(number: number, wireType: number): number[] {
  return varint(BigInt(number * 8 + wireType));
}

function delimited(number: number, bytes: Buffer): number[] {
  return [...tag(number, 2), ...varint(BigInt(bytes.length)), ...bytes];
}

function withLength(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([...tag(number, 2), ...varint(BigInt(bytes.length))]), bytes]);
}

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return bytes;
}
