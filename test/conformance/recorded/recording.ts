/**
 * The requests of kubectl in a row of the conformance table, in an order that can be replayed without kubectl. Values
 * that the server generated are replaced by placeholders, which a replay fills in from its own server.
 */
import { Buffer } from "node:buffer";
import type { Core } from "../../../src/apiserver/verbs/core.ts";
import type { Deed } from "../changeCluster.ts";

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

/** kubectl sends these requests before almost every command; they do not belong to the row. */
export function isDiscovery(url: string): boolean {
  return /^\/(api|apis|openapi|version)([/?]|$)/.test(url) && !/^\/apis?\/.*\/.+|^\/api\/v1\/./.test(url);
}

const uidPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** Replaces UIDs, revisions, tokens and random numbers by placeholders. */
export function generalise(core: Core, request: RecordedRequest): RecordedRequest {
  const url = request.url
    .replace(/([?&]resourceVersion=)([1-9]\d*)/, "$1$rev")
    .replace(/([?&]continue=)[^&]+/, "$1$continue")
    .replace(/([?&]hash=)[^&]+/, "$1$hash")
    .replace(/([?&]timeoutSeconds=)\d+/, "$1300")
    .replace(uidPattern, (uid) => nameOf(core, uid) ?? uid);
  if (request.body === undefined || request.encoding === "base64") return { ...request, url };
  const body = request.body
    .trimEnd()
    .replace(/("resourceVersion":\s*"|"\/metadata\/resourceVersion","value":")([2-9]|\d\d+)"/g, '$1$rv"')
    .replace(uidPattern, (uid) => nameOf(core, uid) ?? uid);
  return { ...request, url, body };
}

/** Values from earlier responses of the row. */
export interface Learnt {
  continueToken: string;
  /** Addresses of OpenAPI documents, with their hashes. */
  documents: Record<string, string>;
}

/** Replaces placeholders by values. */
export function particularise(core: Core, request: RecordedRequest, learnt: Learnt): RecordedRequest {
  const uidOf = (_: string, key: string, namespace: string, name: string) =>
    core.store.get(key, namespace, name)?.side.uid ?? "";
  const [path = ""] = request.url.split("?");
  const url = request.url
    .replace("$rev", String(core.store.revision))
    .replace("$continue", encodeURIComponent(learnt.continueToken))
    .replace("$hash", /hash=([^&]*)/.exec(learnt.documents[path.replace("/openapi/v3/", "")] ?? "")?.[1] ?? "")
    .replace(uidWords, uidOf);
  if (request.body === undefined || request.encoding === "base64") return { ...request, url };
  const body = request.body.replace(uidWords, uidOf).replaceAll("$rv", () => revisionAt(core, url));
  return { ...request, url, body };
}

const uidWords = /\$uid\(([^/)]*\/[^/)]*)\/([^/)]*)\/([^/)]+)\)/g;

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
