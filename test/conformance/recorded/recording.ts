/**
 * What kubectl sent in a row of the conformance table, in an order that can be played again without kubectl. Values that
 * only the server of that day knew are replaced by words which a replay fills in from its own server.
 */
import { Buffer } from "node:buffer";
import type { Core } from "../../../src/apiserver/verbs/core.ts";
import type { Deed } from "../world.ts";

export interface RecordedRequest {
  method: string;
  /** Path and query. */
  url: string;
  headers: Record<string, string>;
  /** JSON and YAML as text, protobuf as base64. */
  body?: string;
  encoding?: "base64";
}

export type Step = { act: Deed } | { request: RecordedRequest };

/** Rows of one file of tests, by the name of the test. */
export type Recording = Record<string, Step[]>;

/** Headers that change the answer. */
export const relevantHeaders = [
  "accept",
  "content-type",
  "impersonate-user",
  "impersonate-group",
  "upgrade",
  "connection",
  "x-stream-protocol-version",
  "sec-websocket-protocol",
] as const;

/** Kubectl asks for these before almost every command; they say nothing about the row. */
export function isDiscovery(url: string): boolean {
  return /^\/(api|apis|openapi|version)([/?]|$)/.test(url) && !/^\/apis?\/.*\/.+|^\/api\/v1\/./.test(url);
}

/** Replaces uids, revisions and tokens by words. */
export function generalise(core: Core, request: RecordedRequest): RecordedRequest {
  const url = request.url
    .replace(/([?&]resourceVersion=)([1-9]\d*)/, "$1$rev")
    .replace(/([?&]continue=)[^&]+/, "$1$continue");
  if (request.body === undefined || request.encoding === "base64") return { ...request, url };
  const body = request.body
    .replace(/("resourceVersion":\s*")\d+"/g, '$1$rv"')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (uid) => nameOf(core, uid) ?? uid);
  return { ...request, url, body };
}

/** Fills the words in again. */
export function particularise(core: Core, request: RecordedRequest, continueToken: string): RecordedRequest {
  const url = request.url
    .replace("$rev", String(core.store.revision))
    .replace("$continue", encodeURIComponent(continueToken));
  if (request.body === undefined || request.encoding === "base64") return { ...request, url };
  const body = request.body
    .replace(/\$uid\(([^)]*)\/([^/)]*)\/([^/)]+)\)/g, (_, key: string, namespace: string, name: string) => {
      return core.store.get(key, namespace, name)?.side.uid ?? "";
    })
    .replaceAll("$rv", () => revisionAt(core, url));
  return { ...request, url, body };
}

function nameOf(core: Core, uid: string): string | undefined {
  for (const key of core.store.resources()) {
    for (const version of core.store.collection(key).at(core.store.revision, "")) {
      if (version.side.uid !== uid) continue;
      const { namespace = "", name } = version.object().metadata;
      return `$uid(${key}/${namespace}/${name})`;
    }
  }
  return undefined;
}

/** The revision of the object that a path names. */
function revisionAt(core: Core, url: string): string {
  const [path = ""] = url.split("?");
  const match =
    /^\/apis?(?:\/([^/]+\.[^/]+|apps|batch|policy|autoscaling))?\/(v[^/]+)(?:\/namespaces\/([^/]+))?\/([^/]+)\/([^/]+)/.exec(
      path,
    );
  if (match === null) return "";
  const [, group = "", , namespace = "", plural = "", name = ""] = match;
  return core.store.get(`${group}/${plural}`, namespace, name)?.object().metadata.resourceVersion ?? "";
}

export function bodyBytes(request: RecordedRequest): Buffer {
  return Buffer.from(request.body ?? "", request.encoding === "base64" ? "base64" : "utf8");
}
