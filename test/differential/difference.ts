/** What two answers to one request differ in, after everything that differs by nature was replaced. */
import type { Answer, ApiUnderTest, Loose } from "./apiUnderTest.ts";

export interface Difference {
  /** `STATUS`, `HEADER name`, `TEXT`, or the path of a field of the body. */
  readonly path: string;
  readonly real: string;
  readonly ours: string;
  /** Only sentences differ: messages, warnings, descriptions. */
  readonly wording: boolean;
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const time = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z)?( m=[+-][\d.]+)?/g;
const age = /^(\d+[smhd])+$|^<unknown>$|^<invalid>$/;
const masked = new Set(["uid", "resourceVersion", "creationTimestamp", "continue", "selfLink"]);
const times = new Set(
  "time lastTransitionTime lastUpdateTime deletionTimestamp lastProbeTime startTime expirationTimestamp eventTime".split(
    " ",
  ),
);
const comparedHeaders = ["content-type", "retry-after", "warning", "allow", "location"];
const wordingPaths =
  /^TEXT$|^HEADER warning text$|^\.message$|\.details\.causes\[\d+\]\.message$|\.description$|^\.status\.message$/;

/** `keep` narrows a body to what a case is about. */
export function differences(
  answers: { real: Answer; ours: Answer },
  apis: { real: ApiUnderTest; ours: ApiUnderTest },
  keep: (body: Loose) => Loose = (body) => body,
): Difference[] {
  const found: Difference[] = [];
  const add = (path: string, real: unknown, ours: unknown) =>
    found.push({ path, real: brief(real), ours: brief(ours), wording: wordingPaths.test(path) });
  const { real, ours } = answers;
  if (real.status !== ours.status) add("STATUS", real.status, ours.status);
  for (const name of comparedHeaders) {
    const a = (real.headers[name] ?? []).map((value) => clean(value, apis.real)).sort();
    const b = (ours.headers[name] ?? []).map((value) => clean(value, apis.ours)).sort();
    if (a.join("\n") === b.join("\n")) continue;
    add(name === "warning" && a.length === b.length ? "HEADER warning text" : `HEADER ${name}`, a, b);
  }
  const [a, b] = [tried(keep, real.json), tried(keep, ours.json)];
  if (a === undefined || b === undefined) {
    const [left, right] = [clean(real.text, apis.real), clean(ours.text, apis.ours)];
    if (left !== right) add(a === b ? "TEXT" : "BODY", left, right);
  } else compare(normal(a, apis.real), normal(b, apis.ours), "", add);
  return found;
}

function tried(keep: (body: Loose) => Loose, body: Loose): Loose {
  try {
    return keep(body);
  } catch {
    return body;
  }
}

function clean(text: string, api: ApiUnderTest): string {
  let result = text;
  for (const [from, to] of api.aliases) result = result.replaceAll(from, to);
  return result
    .replaceAll(uuid, "<uuid>")
    .replaceAll(time, "<time>")
    .replaceAll(/resource version: \d+/g, "resource version: <n>")
    .replaceAll(/kube-api-access-[a-z0-9]{5}/g, "kube-api-access-<random>")
    .replaceAll(/\\?"resourceVersion\\?": ?\\?"\d+\\?"/g, '"resourceVersion":"<n>"');
}

function normal(value: Loose, api: ApiUnderTest, key = ""): Loose {
  if (Array.isArray(value)) {
    const items = value.map((item) => normal(item, api, key));
    return key === "managedFields" ? items.sort((a, b) => (managerOf(a) < managerOf(b) ? -1 : 1)) : items;
  }
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [clean(name, api), normal(inner, api, name)]),
    );
  }
  if (typeof value !== "string") return value;
  if (masked.has(key) && value !== "") return `<${key}>`;
  if (times.has(key) && value !== "") return "<time>";
  if (key === "cells" && age.test(value)) return "<age>";
  if (key === "token" && value.length > 100) return "<token>";
  return clean(value, api);
}

function managerOf(entry: Loose): string {
  return `${entry?.manager}\n${entry?.operation}\n${entry?.subresource ?? ""}\n${entry?.apiVersion}`;
}

function compare(a: Loose, b: Loose, path: string, add: (path: string, a: unknown, b: unknown) => void): void {
  if (kindOf(a) !== kindOf(b)) return void add(path, a, b);
  if (Array.isArray(a)) {
    if (a.length !== b.length) return void add(path, a, b);
    a.forEach((item, at) => {
      compare(item, b[at], `${path}[${at}]`, add);
    });
    return;
  }
  if (a !== null && typeof a === "object") {
    for (const key of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort()) {
      const inner = `${path}.${key}`;
      if (!(key in b)) add(inner, a[key], undefined);
      else if (!(key in a)) add(inner, undefined, b[key]);
      else compare(a[key], b[key], inner, add);
    }
    return;
  }
  if (a !== b) add(path, a, b);
}

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
}

export function brief(value: unknown, length = 300): string {
  const text = value === undefined ? "-" : (JSON.stringify(value) ?? "-");
  return text.length <= length ? text : `${text.slice(0, length)}...`;
}
