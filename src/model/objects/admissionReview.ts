import { append } from "../values/append.ts";
import type { AdmissionHook, AdmissionLookup, AdmissionRequest } from "./admissionHook.ts";
import { causeReason } from "./fieldError.ts";
import { equalJson, isObject, type Json, type JsonObject } from "./json.ts";
import type { KubeObject } from "./object.ts";

/** The response of a webhook without its envelope; the patch is JSON, not base64. */
export interface ReviewAnswer {
  readonly uid: string;
  readonly allowed: boolean;
  readonly patch?: readonly PatchStep[];
  readonly warnings?: readonly string[];
  readonly status?: JsonObject;
}

export type PatchStep =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

/** Runs a hook on an AdmissionReview. Undefined when the body is not a valid AdmissionReview. */
export function reviewResponse(hook: AdmissionHook, body: unknown, lookup: AdmissionLookup): ReviewAnswer | undefined {
  const review = isObject(body) && body["kind"] === "AdmissionReview" ? body["request"] : undefined;
  if (!isObject(review) || typeof review["uid"] !== "string") return undefined;
  const request = requestIn(review);
  if (request === undefined) return undefined;
  const { uid } = review;
  const verdict = hook.review(request, lookup);
  if (!verdict.allowed) {
    const causes = (verdict.errors ?? []).map((error) => ({
      reason: causeReason(error),
      // kubectl prints the field before the message.
      message: error.body,
      field: error.field,
    }));
    const refusal = causes.length === 0 ? { code: 403, reason: "Forbidden" } : { code: 422, reason: "Invalid" };
    const details = causes.length === 0 ? {} : { details: { name: request.name, ...kindIn(review), causes } };
    return { uid, allowed: false, status: { ...refusal, message: verdict.message, ...details } };
  }
  const warnings =
    verdict.warnings === undefined || verdict.warnings.length === 0 ? {} : { warnings: verdict.warnings };
  if (verdict.object === undefined || request.object === undefined) return { uid, allowed: true, ...warnings };
  const patch = patchBetween(request.object as JsonObject, verdict.object as JsonObject);
  return { uid, allowed: true, ...(patch.length === 0 ? {} : { patch }), ...warnings };
}

/** The steps of a JSON patch that make one object of the other. Lists are replaced whole. */
export function patchBetween(before: JsonObject, after: JsonObject, at = ""): PatchStep[] {
  const steps: PatchStep[] = [];
  for (const key of Object.keys(before)) {
    if (after[key] === undefined) steps.push({ op: "remove", path: `${at}/${escaped(key)}` });
  }
  for (const [key, value] of Object.entries(after)) {
    if (value === undefined) continue;
    const path = `${at}/${escaped(key)}`;
    const old = before[key];
    if (old === undefined) steps.push({ op: "add", path, value });
    else if (isObject(old) && isObject(value)) append(steps, patchBetween(old, value, path));
    else if (!equalJson(old, value)) steps.push({ op: "replace", path, value });
  }
  return steps;
}

function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function requestIn(review: JsonObject): AdmissionRequest | undefined {
  const { operation, userInfo } = review;
  if (operation !== "CREATE" && operation !== "UPDATE" && operation !== "DELETE") return undefined;
  const object = objectIn(review["object"]);
  const oldObject = objectIn(review["oldObject"]);
  // The objects that each operation must have; hooks rely on them.
  if (operation !== "DELETE" && object === undefined) return undefined;
  if (operation !== "CREATE" && oldObject === undefined) return undefined;
  const user = isObject(userInfo) ? userInfo : {};
  const groups = Array.isArray(user["groups"]) ? user["groups"].filter((group) => typeof group === "string") : [];
  return {
    uid: textIn(review["uid"]),
    operation,
    namespace: textIn(review["namespace"]),
    name: textIn(review["name"]),
    object,
    oldObject,
    user: { username: textIn(user["username"]), groups },
    dryRun: review["dryRun"] === true,
  };
}

/** The kind that the write is about, as kubectl shows it. */
function kindIn(review: JsonObject): { group?: string; kind?: string } {
  const asked = isObject(review["requestKind"]) ? review["requestKind"] : review["kind"];
  if (!isObject(asked)) return {};
  return { group: textIn(asked["group"]), kind: textIn(asked["kind"]) };
}

function textIn(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function objectIn(value: Json | undefined): KubeObject | undefined {
  return isObject(value) && isObject(value["metadata"]) ? (value as KubeObject) : undefined;
}
