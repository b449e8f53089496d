import { Buffer } from "node:buffer";
import { copyJson, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject, ObjectMeta } from "../../model/objects/object.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { WatchEvent } from "../storage/watchHub.ts";
import { type ColumnDefinition, type TableKind, tableFor } from "../table/table.ts";
import type { ListResult } from "../verbs/getListWatch.ts";
import { encodeItems, encodeProtobufList, encodeWatchFrame } from "../wire/protobufEncode.ts";
import { messageOfKind, type ProtobufMessage } from "../wire/protobufTable.ts";
import { bytesIn, encodeList, objectIn } from "./encode.ts";
import type { Exchange } from "./exchange.ts";
import { type Offer, protobufType, type Representation } from "./negotiate.ts";
import { bookmarkMetadata, type EncodeEvent, type FrameCache, jsonForm, type WatchForm } from "./watchStream.ts";

/** Negotiates the representation of an object, a list or a watch of a resource. */
export function negotiateObject(exchange: Exchange, resource: Resource): Representation {
  return exchange.negotiate(objectOffers, (as) =>
    as === "" ? messageFor(resource) !== undefined : as.startsWith("PartialObjectMetadata"),
  );
}

/** The protobuf message of a built-in kind. */
function messageFor({ custom, apiVersion, type }: Resource): ProtobufMessage | undefined {
  return custom === undefined ? messageOfKind(apiVersion, type.kind) : undefined;
}

/** Representations of objects besides the objects themselves. */
const objectOffers: Offer = (as, group, version) =>
  group === "meta.k8s.io" &&
  (version === "v1" || version === "v1beta1") &&
  (as === "Table" || as === "PartialObjectMetadata" || as === "PartialObjectMetadataList");

type IncludeObject = "None" | "Metadata" | "Object";

function includeObject(exchange: Exchange): IncludeObject {
  const asked = exchange.query.text("includeObject");
  return asked === "None" || asked === "Object" ? asked : "Metadata";
}

/** Sends one object in the negotiated representation. */
export function sendObject(
  exchange: Exchange,
  code: number,
  resource: Resource,
  version: Version,
  nowMs: number,
): void {
  const representation = negotiateObject(exchange, resource);
  if (representation.as === "Table") {
    const table = tableOf(resource, representation);
    const metadata = { resourceVersion: String(version.revision) };
    const rows = [rowOf(table, objectIn(resource, version), includeObject(exchange), nowMs, representation)];
    exchange.sendJson(code, { ...tableHead(representation, metadata, table.columns), rows }, representation);
  } else if (representation.as.startsWith("PartialObjectMetadata")) {
    exchange.sendJson(code, partial(objectIn(resource, version), representation), representation);
  } else if (representation.format === "json" && !exchange.query.flag("pretty")) {
    exchange.sendBytes(code, "application/json", bytesIn(resource, version));
  } else {
    exchange.sendJson(code, objectIn(resource, version), representation);
  }
}

/** Sends a list. Large lists are sent in slices, so that other requests run in between. */
export async function sendList(exchange: Exchange, resource: Resource, list: ListResult, nowMs: number): Promise<void> {
  const representation = negotiateObject(exchange, resource);
  const metadata = listMetadata(list);
  if (representation.as === "Table") {
    const table = tableOf(resource, representation);
    const include = includeObject(exchange);
    const rows = list.versions.map((version) =>
      rowOf(table, objectIn(resource, version), include, nowMs, representation),
    );
    exchange.sendJson(200, { ...tableHead(representation, metadata, table.columns), rows }, representation);
    return;
  }
  if (representation.as.startsWith("PartialObjectMetadata")) {
    const items = list.versions.map((version) => partial(objectIn(resource, version), representation));
    const apiVersion = `meta.k8s.io/${representation.version}`;
    exchange.sendJson(200, { kind: "PartialObjectMetadataList", apiVersion, metadata, items }, representation);
    return;
  }
  const message = messageFor(resource);
  if (representation.format === "protobuf" && message !== undefined) {
    await sendProtobufList(exchange, resource, message, list);
    return;
  }
  if (representation.format === "yaml" || exchange.query.flag("pretty")) {
    const items = list.versions.map((version) => withoutKind(resource, objectIn(resource, version)));
    const { listKind } = resource.type;
    exchange.sendJson(200, { kind: listKind, apiVersion: resource.apiVersion, metadata, items }, representation);
    return;
  }
  await sendSlices(exchange, resource, metadata, list.versions);
}

/** Items that are encoded before other requests run. */
const protobufSlice = 256;

/** The envelope begins with the length of the list, so all items are encoded before the first byte is sent. */
async function sendProtobufList(
  exchange: Exchange,
  resource: Resource,
  message: ProtobufMessage,
  list: ListResult,
): Promise<void> {
  const slices: Buffer[] = [];
  for (let at = 0; at < list.versions.length; at += protobufSlice) {
    if (at > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    const versions = list.versions.slice(at, at + protobufSlice);
    slices.push(
      encodeItems(
        versions.map((version) => objectIn(resource, version) as JsonObject),
        message,
      ),
    );
  }
  const { apiVersion, type } = resource;
  const head = { apiVersion, kind: type.listKind, metadata: listMetadata(list) as JsonObject };
  exchange.sendBytes(200, protobufType, Buffer.concat(encodeProtobufList(head, slices)));
}

async function sendSlices(
  exchange: Exchange,
  resource: Resource,
  metadata: Readonly<Record<string, unknown>>,
  versions: readonly Version[],
): Promise<void> {
  const { response } = exchange;
  const slices = encodeList(resource, metadata, versions);
  const first = slices.next();
  if (first.done === true) return;
  const second = slices.next();
  if (second.done === true) {
    exchange.sendBytes(200, "application/json", first.value);
    return;
  }
  exchange.head(200, "application/json");
  if (exchange.method === "HEAD") {
    response.end();
    return;
  }
  response.write(first.value);
  for (let slice: IteratorResult<Buffer> = second; slice.done !== true; slice = slices.next()) {
    if (response.destroyed) return;
    if (response.write(slice.value)) await new Promise<void>((resolve) => setImmediate(resolve));
    else await drained(exchange);
  }
  response.end();
}

function drained({ response }: Exchange): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}

/** The events of a watch in the negotiated representation. */
export function watchForm(exchange: Exchange, resource: Resource, frames: FrameCache, nowMs: () => number): WatchForm {
  const representation = negotiateObject(exchange, resource);
  if (representation.as === "Table") return jsonForm(tableEvents(exchange, resource, representation, nowMs));
  const isPartial = representation.as.startsWith("PartialObjectMetadata");
  if (representation.format === "protobuf") {
    return protobufForm(isPartial ? partialFrames(resource, representation) : frames.protobufEncoder(resource));
  }
  if (!isPartial) return jsonForm(frames.encoder(resource));
  return jsonForm((event) =>
    eventLine(event, (object) => partial(object, representation), resource, {
      kind: "PartialObjectMetadata",
      apiVersion: `meta.k8s.io/${representation.version}`,
    }),
  );
}

function protobufForm(encode: EncodeEvent): WatchForm {
  return {
    contentType: `${protobufType};stream=watch`,
    encode,
    encodeError: (status) =>
      encodeWatchFrame("ERROR", { ...(status as object as JsonObject), apiVersion: "v1", kind: "Status" }),
  };
}

function partialFrames(resource: Resource, representation: Representation): EncodeEvent {
  return (event) => {
    const metadata =
      event.type === "BOOKMARK"
        ? (JSON.parse(`{${bookmarkMetadata(event)}}`) as ObjectMeta)
        : objectIn(resource, event.version).metadata;
    return encodeWatchFrame(event.type, partial({ metadata }, representation) as object as JsonObject);
  };
}

function eventLine(
  event: WatchEvent,
  transform: (object: KubeObject) => unknown,
  resource: Resource,
  bookmarkOf: { kind: string; apiVersion: string },
): Buffer {
  if (event.type === "BOOKMARK") {
    const head = `"kind":${JSON.stringify(bookmarkOf.kind)},"apiVersion":${JSON.stringify(bookmarkOf.apiVersion)}`;
    return Buffer.from(`{"type":"BOOKMARK","object":{${head},"metadata":{${bookmarkMetadata(event)}}}}\n`);
  }
  return Buffer.from(
    `{"type":"${event.type}","object":${JSON.stringify(transform(objectIn(resource, event.version)))}}\n`,
  );
}

function tableEvents(
  exchange: Exchange,
  resource: Resource,
  representation: Representation,
  nowMs: () => number,
): EncodeEvent {
  const table = tableOf(resource, representation);
  const include = includeObject(exchange);
  let first = true;
  const wrap = (revision: number, row: unknown) => {
    const columns = first ? table.columns : undefined;
    first = false;
    return { ...tableHead(representation, { resourceVersion: String(revision) }, columns), rows: [row] };
  };
  return (event) => {
    if (event.type === "BOOKMARK") {
      const head = `"kind":${JSON.stringify(resource.type.kind)},"apiVersion":${JSON.stringify(resource.apiVersion)}`;
      const object = JSON.parse(`{${head},"metadata":{${bookmarkMetadata(event)}}}`);
      const row = { cells: table.columns.map(() => null), object };
      return Buffer.from(`${JSON.stringify({ type: "BOOKMARK", object: wrap(event.revision, row) })}\n`);
    }
    const row = rowOf(table, objectIn(resource, event.version), include, nowMs(), representation);
    return Buffer.from(`${JSON.stringify({ type: event.type, object: wrap(event.revision, row) })}\n`);
  };
}

function tableOf(resource: Resource, _representation: Representation): TableKind {
  return resource.table ?? tableFor(resource.type.storageKey);
}

function tableHead(
  { version }: Representation,
  metadata: Readonly<Record<string, unknown>>,
  columnDefinitions: readonly ColumnDefinition[] | undefined,
): Record<string, unknown> {
  return {
    kind: "Table",
    apiVersion: `meta.k8s.io/${version}`,
    metadata,
    ...(columnDefinitions === undefined ? { columnDefinitions: null } : { columnDefinitions }),
  };
}

function rowOf(
  table: TableKind,
  object: KubeObject,
  include: IncludeObject,
  nowMs: number,
  representation: Representation,
): Record<string, unknown> {
  const conditions = table.conditions?.(object);
  return {
    cells: table.cells(object, nowMs),
    ...(conditions === undefined ? {} : { conditions }),
    object: include === "None" ? null : include === "Object" ? object : partial(object, representation),
  };
}

function partial(
  object: Pick<KubeObject, "metadata">,
  { version }: Representation,
): { kind: string; apiVersion: string; metadata: ObjectMeta } {
  return { kind: "PartialObjectMetadata", apiVersion: `meta.k8s.io/${version}`, metadata: object.metadata };
}

function withoutKind(resource: Resource, object: KubeObject): Record<string, unknown> {
  if (resource.custom !== undefined) return object;
  const copy: Record<string, unknown> = copyJson(object);
  delete copy["kind"];
  delete copy["apiVersion"];
  return copy;
}

function listMetadata(list: ListResult): Record<string, unknown> {
  return {
    resourceVersion: String(list.revision),
    ...(list.continueToken === undefined ? {} : { continue: list.continueToken }),
    ...(list.remaining === undefined ? {} : { remainingItemCount: list.remaining }),
  };
}
