/**
 * Decodes protobuf bodies, which Go clients send for built-in kinds, into JSON; protobufEncode.ts is the reverse.
 *
 * Go encodes value fields always and pointers only when set. So a zero in a value field means unset (unless JSON has it
 * too), while a zero behind a pointer was set.
 */
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";
import { append } from "../../model/values/append.ts";
import { formatInstant, formatMicroInstant } from "../../model/values/time.ts";
import { BodyError, nestingMax, parseJson, tooManyValues, valuesMax } from "./json.ts";
import { ProtobufError, ProtobufReader } from "./protobufReader.ts";
import { messageOf, messageOfKind, type ProtobufField, type ProtobufMessage, schemaMessage } from "./protobufTable.ts";

/** "k8s" and a zero byte, before every body. */
export const protobufMagic = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

/** Decodes an object from its envelope; `expected` is the kind for senders that omit it. Rejects with 400. */
export function decodeProtobuf(bytes: Uint8Array, expected?: { apiVersion: string; kind: string }): JsonObject {
  try {
    const object = readEnvelope(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), expected, 0);
    if (countValues(object) > valuesMax) throw tooManyValues();
    return object;
  } catch (error) {
    if (error instanceof ProtobufError) throw badRequest(`unable to decode the protobuf body: ${error.message}`);
    if (error instanceof BodyError)
      throw badRequest(`unable to decode JSON inside the protobuf body: ${error.message}`);
    throw error;
  }
}

function countValues(object: JsonObject): number {
  const rest: Json[] = [object];
  let count = 0;
  for (let value = rest.pop(); value !== undefined; value = rest.pop()) {
    count++;
    if (typeof value === "object" && value !== null) append(rest, Object.values(value));
  }
  return count;
}

function readEnvelope(
  bytes: Buffer,
  expected: { apiVersion: string; kind: string } | undefined,
  depth: number,
): JsonObject {
  if (!hasMagic(bytes)) {
    throw new ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
  }
  let apiVersion = "";
  let kind = "";
  let raw: Buffer | undefined;
  let encoding = "";
  let contentType = "";
  const reader = new ProtobufReader(bytes, protobufMagic.length);
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === 1) {
      const type = reader.readMessage();
      for (let field = type.nextField(); field !== 0; field = type.nextField()) {
        if (field === 1) apiVersion = type.readString();
        else if (field === 2) kind = type.readString();
        else type.skip();
      }
    } else if (number === 2) raw = reader.readBytes();
    else if (number === 3) encoding = reader.readString();
    else if (number === 4) contentType = reader.readString();
    else reader.skip();
  }
  if (apiVersion === "" && kind === "" && expected !== undefined) ({ apiVersion, kind } = expected);
  if (encoding !== "") throw new ProtobufError(`content encoding ${JSON.stringify(encoding)} is not supported`);
  if (contentType === "application/json")
    return { ...asObject(parseJson(raw ?? new Uint8Array()).value), apiVersion, kind };
  if (contentType !== "" && contentType !== "application/vnd.kubernetes.protobuf") {
    throw new ProtobufError(`content type ${JSON.stringify(contentType)} is not supported`);
  }
  const message = messageOfKind(apiVersion, kind);
  if (message === undefined) {
    throw badRequest(`no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)}`);
  }
  const object: JsonObject = { apiVersion, kind };
  if (raw !== undefined) readMessage(new ProtobufReader(raw), message, object, depth + 1);
  return object;
}

function readMessage(reader: ProtobufReader, message: ProtobufMessage, into: JsonObject, depth: number): JsonObject {
  if (depth > nestingMax) throw new ProtobufError("exceeded max depth");
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    const field = message.byNumber.get(number);
    // Newer clients have unknown fields; they are dropped, as an older server does.
    if (field === undefined) reader.skip();
    else readField(reader, field, into, depth);
  }
  return into;
}

function readField(reader: ProtobufReader, field: ProtobufField, into: JsonObject, depth: number): void {
  const { name } = field;
  switch (field.shape) {
    case "list":
      into[name] ??= [];
      readItem(reader, field, into[name] as Json[], depth);
      return;
    case "map":
      into[name] ??= {};
      readEntry(reader, field, into[name] as JsonObject, depth);
      return;
    case "value":
    case "pointer":
      break;
  }
  if (field.scalar !== undefined) {
    const value = readScalar(reader, field, depth);
    if (field.shape === "value" && !field.keep && isZero(value, field)) delete into[name];
    else if (value !== undefined) into[name] = value;
    else if (field.keep) into[name] = null;
    return;
  }
  const message = typeOf(field);
  if (name === ".") {
    readMessage(reader.readMessage(), message, into, depth + 1);
    return;
  }
  // A message that comes twice is merged.
  const before = into[name];
  const value = readMessage(reader.readMessage(), message, isMap(before) ? before : {}, depth + 1);
  if (field.shape === "value" && !field.keep && isEmpty(value)) delete into[name];
  else into[name] = value;
}

function readItem(reader: ProtobufReader, field: ProtobufField, items: Json[], depth: number): void {
  const { scalar } = field;
  if (scalar === undefined) {
    items.push(readMessage(reader.readMessage(), typeOf(field), {}, depth + 1));
  } else if (
    reader.isPacked &&
    (scalar === "bool" || scalar === "int32" || scalar === "int64" || scalar === "double")
  ) {
    const { reader: values, more } = reader.packed(scalar === "double" ? 1 : 0);
    while (more()) items.push(readScalar(values, field, depth) ?? null);
  } else {
    items.push(readScalar(reader, field, depth) ?? null);
  }
}

function readEntry(reader: ProtobufReader, field: ProtobufField, map: JsonObject, depth: number): void {
  const entry = reader.readMessage();
  let key = "";
  let value: Json | undefined;
  for (let number = entry.nextField(); number !== 0; number = entry.nextField()) {
    if (number === 1) key = entry.readString();
    else if (number !== 2) entry.skip();
    else if (field.scalar === undefined) value = readMessage(entry.readMessage(), typeOf(field), {}, depth + 1);
    else value = readScalar(entry, field, depth) ?? null;
  }
  // A plain copy of such a key would set a prototype.
  if (key === "__proto__") throw new ProtobufError('key "__proto__" is not allowed');
  map[key] = value ?? zeroOf(field);
}

/** One value; undefined for an absent time or absent raw JSON. */
function readScalar(reader: ProtobufReader, field: ProtobufField, depth: number): Json | undefined {
  switch (field.scalar) {
    case "string":
      return reader.readString();
    case "bool":
      return reader.readBool();
    case "int32":
      return reader.readInt32();
    case "int64":
      return reader.readInt64();
    case "double": {
      const number = reader.readDouble();
      if (!Number.isFinite(number)) throw new ProtobufError(`${number} is not a JSON number`);
      return number;
    }
    case "bytes":
      return reader.readBytes().toString("base64");
    case "quantity":
      return readQuantity(reader.readMessage());
    case "time":
    case "microTime":
      return readTime(reader.readMessage(), field.scalar);
    case "intOrString":
      return readIntOrString(reader.readMessage());
    case "raw":
      return readRaw(reader.readMessage(), depth);
    case "strings":
      return readStrings(reader.readMessage(), 1);
    case "schemaOrArray":
    case "schemaOrBool":
    case "schemaOrStrings":
      return readUnion(reader.readMessage(), field.scalar, depth);
    case undefined:
      throw new ProtobufError(`field ${field.name} is a message`);
  }
}

function readQuantity(reader: ProtobufReader): string {
  let text = "";
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === 1) text = reader.readString();
    else reader.skip();
  }
  return text === "" ? "0" : text;
}

function readTime(reader: ProtobufReader, type: "time" | "microTime"): string | undefined {
  let seconds = 0;
  let nanos = 0;
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === 1) seconds = reader.readInt64();
    else if (number === 2) nanos = reader.readInt32();
    else reader.skip();
  }
  if (seconds === 0 && nanos === 0) return undefined;
  // Years 1 to 9999, the range of the text form.
  if (seconds < -62_135_596_800 || seconds >= 253_402_300_800 || nanos < 0 || nanos >= 1_000_000_000) {
    throw new ProtobufError("time out of range");
  }
  if (seconds === -62_135_596_800 && nanos === 0) return undefined;
  return type === "time" ? formatInstant({ seconds, nanos }) : formatMicroInstant({ seconds, nanos });
}

function readIntOrString(reader: ProtobufReader): number | string {
  let isText = false;
  let int = 0;
  let text = "";
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === 1) isText = reader.readInt64() !== 0;
    else if (number === 2) int = reader.readInt32();
    else if (number === 3) text = reader.readString();
    else reader.skip();
  }
  return isText ? text : int;
}

function readRaw(reader: ProtobufReader, depth: number): Json | undefined {
  let raw: Buffer | undefined;
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === 1) raw = reader.readBytes();
    else reader.skip();
  }
  if (raw === undefined || raw.length === 0) return undefined;
  if (depth > nestingMax) throw new ProtobufError("exceeded max depth");
  return hasMagic(raw) ? readEnvelope(raw, undefined, depth + 1) : parseJson(raw).value;
}

function readStrings(reader: ProtobufReader, wanted: number): string[] {
  const strings: string[] = [];
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === wanted) strings.push(reader.readString());
    else reader.skip();
  }
  return strings;
}

/** In JSON these unions are the value of the member that is set. */
function readUnion(
  reader: ProtobufReader,
  type: "schemaOrArray" | "schemaOrBool" | "schemaOrStrings",
  depth: number,
): Json {
  const schema = messageOf(schemaMessage) as ProtobufMessage;
  const readSchema = () => readMessage(reader.readMessage(), schema, {}, depth + 1);
  let one: JsonObject | undefined;
  let bool = false;
  const many: Json[] = [];
  const schemaNumber = type === "schemaOrBool" ? 2 : 1;
  for (let number = reader.nextField(); number !== 0; number = reader.nextField()) {
    if (number === schemaNumber) one = readSchema();
    else if (type === "schemaOrBool" && number === 1) bool = reader.readBool();
    else if (type === "schemaOrArray" && number === 2) many.push(readSchema());
    else if (type === "schemaOrStrings" && number === 2) many.push(reader.readString());
    else reader.skip();
  }
  if (type === "schemaOrBool") return one ?? bool;
  return many.length > 0 ? many : (one ?? null);
}

function isZero(value: Json | undefined, { scalar }: ProtobufField): boolean {
  // Raw JSON has no zero value, and Go encodes a zero quantity in JSON too.
  if (scalar === "raw" || scalar === "quantity") return value === undefined;
  if (Array.isArray(value)) return value.length === 0;
  return value === undefined || value === "" || value === 0 || value === false;
}

/** The value of a map entry without a value. */
function zeroOf(field: ProtobufField): Json {
  switch (field.scalar) {
    case undefined:
      return {};
    case "string":
    case "bytes":
      return "";
    case "bool":
    case "schemaOrBool":
      return false;
    case "int32":
    case "int64":
    case "double":
    case "intOrString":
      return 0;
    case "quantity":
      return "0";
    case "strings":
      return [];
    case "time":
    case "microTime":
    case "raw":
    case "schemaOrArray":
    case "schemaOrStrings":
      return null;
  }
}

function typeOf(field: ProtobufField): ProtobufMessage {
  const message = messageOf(field.message);
  if (message === undefined) throw new Error(`the table has no message ${field.message}`);
  return message;
}

function hasMagic(bytes: Buffer): boolean {
  return bytes.length >= 4 && bytes.subarray(0, 4).equals(protobufMagic);
}

function asObject(value: Json): JsonObject {
  if (!isMap(value)) throw new ProtobufError("the body is not an object");
  return value;
}

function isMap(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEmpty(value: JsonObject): boolean {
  for (const _key in value) return false;
  return true;
}
