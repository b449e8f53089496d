/** Encodes JSON objects of built-in kinds as protobuf, in the form in which Go encodes them. */
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { parseMicroTime, parseTime } from "../../model/values/time.ts";
import { messageOf, messageOfKind, type ProtobufField, type ProtobufMessage, schemaMessage } from "./protobufTable.ts";
import { ProtobufWriter } from "./protobufWriter.ts";

const magic = Buffer.from([0x6b, 0x38, 0x73, 0x00]);
const delimited = 2;
const emptyTail = Buffer.from([0x1a, 0x00, 0x22, 0x00]);

/** Encodes an object with its envelope. */
export function encodeProtobuf(object: JsonObject): Buffer {
  const apiVersion = String(object["apiVersion"] ?? "");
  const kind = String(object["kind"] ?? "");
  const message = messageOfKind(apiVersion, kind);
  if (message === undefined) throw new Error(`no message for ${apiVersion} ${kind}`);
  const writer = new ProtobufWriter();
  writeMessage(writer, object, message);
  const raw = writer.finish();
  return Buffer.concat([envelopeHead(apiVersion, kind, raw.length), raw, emptyTail]);
}

/** Encodes a list from its metadata and slices of items that `encodeItems` encoded. */
export function encodeProtobufList(
  { apiVersion, kind, metadata }: { apiVersion: string; kind: string; metadata: JsonObject },
  slices: readonly Buffer[],
): Buffer[] {
  const writer = new ProtobufWriter();
  writeNested(writer, 1, metadata, messageNamed("meta/v1.ListMeta"));
  const head = writer.finish();
  const length = slices.reduce((sum, slice) => sum + slice.length, head.length);
  return [envelopeHead(apiVersion, kind, length), head, ...slices, emptyTail];
}

/** Items of a list, as its fields. */
export function encodeItems(objects: readonly JsonObject[], message: ProtobufMessage): Buffer {
  const writer = new ProtobufWriter();
  for (const object of objects.toReversed()) writeNested(writer, 2, object, message);
  return writer.finish();
}

/** A frame of a watch: the length as four bytes, then a WatchEvent whose object has its envelope. */
export function encodeWatchFrame(type: string, object: JsonObject): Buffer {
  const writer = new ProtobufWriter();
  const encoded = encodeProtobuf(object);
  writer.bytes(encoded);
  writer.varint(encoded.length);
  writer.tag(1, delimited);
  writer.varint(writer.length);
  writer.tag(2, delimited);
  writeText(writer, 1, type);
  const event = writer.finish();
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.length);
  return Buffer.concat([length, event]);
}

/** The envelope up to the content of the object. */
function envelopeHead(apiVersion: string, kind: string, length: number): Buffer {
  const writer = new ProtobufWriter();
  writer.varint(length);
  writer.tag(2, delimited);
  const after = writer.length;
  writeText(writer, 2, kind);
  writeText(writer, 1, apiVersion);
  writer.varint(writer.length - after);
  writer.tag(1, delimited);
  return Buffer.concat([magic, writer.finish()]);
}

function messageNamed(name: string): ProtobufMessage {
  const message = messageOf(name);
  if (message === undefined) throw new Error(`no message ${name}`);
  return message;
}

/** Writes the fields of one message. Value fields are written even when absent, as Go does. */
function writeMessage(writer: ProtobufWriter, object: JsonObject, { fields }: ProtobufMessage): void {
  for (let at = fields.length - 1; at >= 0; at--) {
    const field = fields[at] as ProtobufField;
    const value = field.name === "." ? object : object[field.name];
    if (field.shape === "list") {
      const items = (value as Json[] | null | undefined) ?? [];
      for (let item = items.length - 1; item >= 0; item--) writeField(writer, field.number, items[item], field);
    } else if (field.shape === "map") {
      writeMap(writer, (value as JsonObject | null | undefined) ?? {}, field);
    } else if (field.shape === "value" || (value !== undefined && value !== null)) {
      writeField(writer, field.number, value, field);
    }
  }
}

function writeMap(writer: ProtobufWriter, map: JsonObject, field: ProtobufField): void {
  const keys = Object.keys(map).sort();
  for (let at = keys.length - 1; at >= 0; at--) {
    const key = keys[at] as string;
    const after = writer.length;
    writeField(writer, 2, map[key], field);
    writeText(writer, 1, key);
    writer.varint(writer.length - after);
    writer.tag(field.number, delimited);
  }
}

function writeNested(writer: ProtobufWriter, number: number, object: JsonObject, message: ProtobufMessage): void {
  const after = writer.length;
  writeMessage(writer, object, message);
  writer.varint(writer.length - after);
  writer.tag(number, delimited);
}

function writeText(writer: ProtobufWriter, number: number, text: string): void {
  writer.varint(writer.text(text));
  writer.tag(number, delimited);
}

function writeNumber(writer: ProtobufWriter, number: number, value: number): void {
  writer.varint(value);
  writer.tag(number, 0);
}

function writeField(writer: ProtobufWriter, number: number, value: Json | undefined, field: ProtobufField): void {
  switch (field.scalar) {
    case undefined:
      writeNested(writer, number, (value as JsonObject | null | undefined) ?? {}, messageNamed(field.message));
      return;
    case "string":
      writeText(writer, number, (value as string | null | undefined) ?? "");
      return;
    case "bool":
      writeNumber(writer, number, value === true ? 1 : 0);
      return;
    case "int32":
    case "int64":
      writeNumber(writer, number, (value as number | null | undefined) ?? 0);
      return;
    case "double": {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE((value as number | null | undefined) ?? 0);
      writer.bytes(bytes);
      writer.tag(number, 1);
      return;
    }
    default: {
      const after = writer.length;
      writeSpecial(writer, value, field.scalar);
      writer.varint(writer.length - after);
      writer.tag(number, delimited);
    }
  }
}

/** Writes the content of a type whose JSON differs from its message. */
function writeSpecial(
  writer: ProtobufWriter,
  value: Json | undefined,
  type: Exclude<ProtobufField["scalar"], undefined>,
): void {
  const isAbsent = value === undefined || value === null;
  switch (type) {
    case "bytes":
      writer.bytes(Buffer.from((value as string | null | undefined) ?? "", "base64"));
      return;
    case "quantity":
      writeText(writer, 1, isAbsent ? "0" : String(value));
      return;
    case "time":
    case "microTime": {
      if (isAbsent) return;
      const { seconds, nanos } = type === "time" ? parseTime(String(value)) : parseMicroTime(String(value));
      writeNumber(writer, 2, nanos);
      writeNumber(writer, 1, seconds);
      return;
    }
    case "intOrString":
      writeText(writer, 3, typeof value === "string" ? value : "");
      writeNumber(writer, 2, typeof value === "number" ? value : 0);
      writeNumber(writer, 1, typeof value === "string" ? 1 : 0);
      return;
    case "raw":
      if (value !== undefined) writeText(writer, 1, JSON.stringify(value));
      return;
    case "strings":
      for (const item of ((value as string[] | null | undefined) ?? []).toReversed()) writeText(writer, 1, item);
      return;
    case "schemaOrArray":
      if (Array.isArray(value)) for (const item of value.toReversed()) writeSchema(writer, 2, item);
      else writeSchema(writer, 1, value);
      return;
    case "schemaOrStrings":
      if (Array.isArray(value)) for (const item of value.toReversed()) writeText(writer, 2, String(item));
      else writeSchema(writer, 1, value);
      return;
    case "schemaOrBool":
      if (typeof value !== "boolean") writeSchema(writer, 2, value);
      writeNumber(writer, 1, value === false ? 0 : 1);
      return;
    default:
      throw new Error(`${type} is not a message`);
  }
}

function writeSchema(writer: ProtobufWriter, number: number, value: Json | undefined): void {
  writeNested(writer, number, (value as JsonObject | null | undefined) ?? {}, messageNamed(schemaMessage));
}
