import type { KubeObject } from "../../model/objects/object.ts";
import { failure, tooLarge } from "../../model/objects/status.ts";
import type { Sent } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { Core } from "./core.ts";

/**
 * The largest object that is stored. Kubernetes stores what etcd accepts, which is 1.5 MiB of protobuf; JSON is larger.
 * A small body can become a large object: each list item gets defaults and managedFields.
 */
export const objectBytesMax = 2 * 1024 * 1024;

/**
 * Rejects an object that is too large. An object that already was, from an earlier version of Muster, may become
 * smaller, and a terminating one may still be updated.
 */
export function refuseTooLarge(object: KubeObject, before?: Version): void {
  if (object.metadata.deletionTimestamp !== undefined) return;
  const bytes = roughBytes(object, objectBytesMax);
  if (bytes <= objectBytesMax) return;
  if (before !== undefined) {
    const atMost = 64 * objectBytesMax;
    if (roughBytes(object, atMost) <= roughBytes(before.object(), atMost)) return;
  }
  throw tooLarge(
    `Request entity too large: the object takes more than the limit of ${objectBytesMax} bytes in storage`,
  );
}

/** A body below this cannot become too large an object by decoding alone. */
const smallBodyBytes = 64 * 1024;

/**
 * Rejects a new object that is too large before its defaults are set, which takes time. The status, which may be
 * dropped, counts only once the object is stored.
 */
export function refuseTooLargeBody({ byteLength = 0 }: Sent, decoded: KubeObject): void {
  if (byteLength > smallBodyBytes) refuseTooLarge({ ...decoded, status: undefined } as KubeObject);
}

/** How much an object may grow where memory is scarce: a finalizer or a condition more, and no more data. */
const growthBytesMax = 4096;

/**
 * Every object is held in memory. Where that is nearly full nothing is added to it, so that the process lives and
 * objects can be deleted; else one tenant could end it with small objects.
 */
export function refuseWhereMemoryIsScarce({ memory }: Core, object: KubeObject, before?: Version): void {
  if (memory?.isScarce() !== true) return;
  const atMost = before === undefined ? 0 : roughBytes(before.object(), objectBytesMax) + growthBytesMax;
  if (roughBytes(object, objectBytesMax) <= atMost) return;
  const cure = "delete objects, or start the server with a larger heap (NODE_OPTIONS=--max-old-space-size)";
  throw failure(503, "ServiceUnavailable", `the memory of the server is nearly full: ${cure}`);
}

/** The approximate length of the object as JSON; counting stops beyond `enough`. */
function roughBytes(value: unknown, enough: number): number {
  let bytes = 0;
  const rest: object[] = [];
  const count = (each: unknown): void => {
    if (typeof each === "string") bytes += each.length + 3;
    else if (typeof each !== "object" || each === null) bytes += 6;
    else rest.push(each);
  };
  count(value);
  for (let each = rest.pop(); each !== undefined && bytes <= enough; each = rest.pop()) {
    bytes += 2;
    if (Array.isArray(each)) {
      for (let at = 0; at < each.length; at++) count(each[at]);
    } else {
      for (const key in each) {
        bytes += key.length + 3;
        count((each as Record<string, unknown>)[key]);
      }
    }
  }
  return bytes;
}
