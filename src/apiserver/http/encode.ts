import { Buffer } from "node:buffer";
import type { KubeObject } from "../../model/objects/object.ts";
import { sameVersion } from "../registry.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";

/** The object in the version of the request. */
export function objectIn(resource: Resource, version: Version): KubeObject {
  return resource.fromStorage(version.object());
}

/** The object's JSON in the version of the request; the stored bytes when that is the stored version. */
export function bytesIn(resource: Resource, version: Version): Buffer {
  if (resource.fromStorage === sameVersion) return version.bytes();
  return Buffer.from(JSON.stringify(objectIn(resource, version)), "utf8");
}

const openBrace = Buffer.from("{");
const comma = Buffer.from(",");
const listEnd = Buffer.from("]}\n");

/** The beginning of a list, before its items. */
export function listHead(resource: Resource, metadata: Readonly<Record<string, unknown>>): Buffer {
  const { listKind } = resource.type;
  const head = `{"kind":${JSON.stringify(listKind)},"apiVersion":${JSON.stringify(resource.apiVersion)},"metadata":${JSON.stringify(metadata)},"items":[`;
  return Buffer.from(head, "utf8");
}

/** The size of one slice: large enough for throughput, small enough not to block other requests. */
const sliceBytes = 512 * 1024;

/** A list as a sequence of large buffers. Items of built-in kinds have no kind and apiVersion, as upstream. */
export function* encodeList(
  resource: Resource,
  metadata: Readonly<Record<string, unknown>>,
  versions: readonly Version[],
): Generator<Buffer> {
  const prefix =
    resource.custom === undefined
      ? Buffer.byteLength(
          `{"kind":${JSON.stringify(resource.type.kind)},"apiVersion":${JSON.stringify(resource.apiVersion)},`,
        )
      : 0;
  let parts: Buffer[] = [listHead(resource, metadata)];
  let length = 0;
  for (let at = 0; at < versions.length; at++) {
    const bytes = bytesIn(resource, versions[at] as Version);
    if (at > 0) parts.push(comma);
    if (prefix > 0) parts.push(openBrace, bytes.subarray(prefix));
    else parts.push(bytes);
    length += bytes.length;
    if (length >= sliceBytes) {
      yield Buffer.concat(parts);
      parts = [];
      length = 0;
    }
  }
  parts.push(listEnd);
  yield Buffer.concat(parts);
}
