import { Buffer } from "node:buffer";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { type Status, StatusError } from "../../model/objects/status.ts";

/** A validated AdmissionReview response. */
export type WebhookAnswer =
  | { readonly kind: "allowed"; readonly patch: Json | undefined; readonly warnings: readonly string[] }
  | { readonly kind: "denied"; readonly error: StatusError; readonly warnings: readonly string[] };

/** Reads the body of a response; throws an Error when it does not answer this request. */
export function readAnswer(text: string, asked: { uid: string; webhook: string; mayPatch: boolean }): WebhookAnswer {
  let review: unknown;
  try {
    review = JSON.parse(text);
  } catch {
    throw new Error("the answer is not JSON");
  }
  if (!isObject(review)) throw new Error("the answer is not an AdmissionReview");
  if (review["apiVersion"] !== "admission.k8s.io/v1" || review["kind"] !== "AdmissionReview") {
    const got = `${String(review["apiVersion"])}, Kind=${String(review["kind"])}`;
    throw new Error(`expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${got}`);
  }
  const { response } = review;
  if (!isObject(response)) throw new Error("webhook response was absent");
  if (response["uid"] !== asked.uid) {
    throw new Error(`expected response.uid=${JSON.stringify(asked.uid)}, got ${JSON.stringify(response["uid"] ?? "")}`);
  }
  const listed = response["warnings"];
  const warnings = Array.isArray(listed) ? listed.filter((warning) => typeof warning === "string") : [];
  if (response["allowed"] !== true)
    return { kind: "denied", error: denial(asked.webhook, response["status"]), warnings };
  const patch = patchOf(response);
  if (patch !== undefined && !asked.mayPatch) throw new Error("validating webhook may not return response.patch");
  return { kind: "allowed", patch, warnings };
}

function patchOf(response: JsonObject): Json | undefined {
  const { patch, patchType } = response;
  if (patch === undefined || patch === null || patch === "") {
    if (patchType !== undefined && patchType !== null) {
      throw new Error("webhook returned response.patchType but not response.patch");
    }
    return undefined;
  }
  if (patchType === undefined || patchType === null) {
    throw new Error("webhook returned response.patch but not response.patchType");
  }
  if (patchType !== "JSONPatch") {
    throw new Error(`webhook returned invalid response.patchType of ${JSON.stringify(patchType)}`);
  }
  if (typeof patch !== "string") throw new Error("webhook returned a response.patch that is not base64 text");
  try {
    return JSON.parse(Buffer.from(patch, "base64").toString("utf8")) as Json;
  } catch {
    throw new Error("webhook returned a response.patch that is not JSON in base64");
  }
}

/** The status of the response, changed into a rejection if it is not one. */
function denial(webhook: string, given: Json | undefined): StatusError {
  const said: JsonObject = isObject(given) ? given : {};
  const code = typeof said["code"] === "number" && said["code"] >= 400 ? said["code"] : 400;
  const words = [said["message"], said["reason"]].find((word) => typeof word === "string" && word !== "");
  const deniedBy = `admission webhook ${JSON.stringify(webhook)} denied the request`;
  const message = words === undefined ? `${deniedBy} without explanation` : `${deniedBy}: ${String(words)}`;
  const reason = typeof said["reason"] === "string" ? said["reason"] : undefined;
  const status: Status = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(isObject(said["details"]) ? { details: said["details"] as NonNullable<Status["details"]> } : {}),
    code,
  };
  return new StatusError(status);
}
