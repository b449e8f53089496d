import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { isObject } from "../../model/objects/json.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import { badRequest, conflict, invalidObject, notFound } from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Random } from "../../ports/random.ts";
import type { Lookup } from "./liveToken.ts";
import { strings } from "./policyRule.ts";
import type { Reference, TokenIssuer } from "./serviceAccountToken.ts";

const defaultSeconds = 3600;
const minSeconds = 600;
/** Longer lifetimes are shortened to this, with a warning. */
const maxSeconds = 365 * 24 * 3600;
/** The maximum that validation accepts. */
const fieldMaxSeconds = 2 ** 32;

export interface TokenRequestContext {
  readonly tokens: TokenIssuer;
  readonly lookup: Lookup;
  readonly nowMs: number;
  readonly random: Random;
  warn(text: string): void;
}

/** Answers `POST .../serviceaccounts/{name}/token`: the request with a new token in its status. */
export function answerTokenRequest(
  request: KubeObject,
  target: { namespace: string; name: string },
  context: TokenRequestContext,
): KubeObject {
  const { namespace, name } = target;
  const spec = isObject(request["spec"]) ? request["spec"] : {};
  const wishedSeconds = spec["expirationSeconds"] ?? defaultSeconds;
  validate(request, target, wishedSeconds);

  const account = context.lookup("/serviceaccounts", namespace, name);
  if (account === undefined) throw notFound({ group: "", resource: "serviceaccounts" }, name);
  const bound = isObject(spec["boundObjectRef"]) ? bindTo(spec["boundObjectRef"], target, context.lookup) : {};

  const lifetimeSeconds = Math.min(Number(wishedSeconds), maxSeconds);
  if (lifetimeSeconds < Number(wishedSeconds)) {
    context.warn(`requested expiration of ${wishedSeconds} seconds shortened to ${lifetimeSeconds} seconds`);
  }
  const wished = strings(spec["audiences"]);
  const audiences = wished.length === 0 ? [context.tokens.issuer] : [...wished];
  const issued = context.tokens.issue(
    { audiences, namespace, serviceAccount: { name, uid: account.metadata.uid }, ...bound },
    { nowMs: context.nowMs, lifetimeSeconds, random: context.random },
  );
  return {
    ...request,
    metadata: { ...request.metadata, name, namespace, creationTimestamp: formatTime(context.nowMs) },
    spec: { ...spec, audiences, expirationSeconds: lifetimeSeconds },
    status: { token: issued.token, expirationTimestamp: formatTime(issued.expiresAtSeconds * 1000) },
  };
}

function validate(request: KubeObject, target: { namespace: string; name: string }, wishedSeconds: unknown): void {
  const kind = { group: "authentication.k8s.io", kind: "TokenRequest" };
  for (const part of ["name", "namespace"] as const) {
    const said = request.metadata?.[part] ?? "";
    if (said !== "" && said !== target[part]) {
      const detail = `must match the service account ${part} if specified`;
      throw invalidObject(kind, target.name, [invalid(`metadata.${part}`, said, detail)]);
    }
  }
  const errors: FieldError[] = [];
  const field = "spec.expirationSeconds";
  if (typeof wishedSeconds !== "number" || wishedSeconds < minSeconds) {
    errors.push(invalid(field, wishedSeconds, "may not specify a duration less than 10 minutes"));
  } else if (wishedSeconds > fieldMaxSeconds) {
    errors.push(invalid(field, wishedSeconds, "may not specify a duration larger than 2^32 seconds"));
  }
  if (errors.length > 0) throw invalidObject(kind, "", errors);
}

/** The object that the token is bound to, as claims. A pod's token also has the node of the pod. */
function bindTo(
  reference: Record<string, unknown>,
  target: { namespace: string; name: string },
  lookup: Lookup,
): { pod?: Reference; secret?: Reference; node?: Reference } {
  const { group, version } = splitApiVersion(String(reference["apiVersion"] ?? ""));
  const kind = String(reference["kind"] ?? "");
  const name = String(reference["name"] ?? "");
  const find = (resource: string, namespace: string): Reference & { object: KubeObject } => {
    const object = lookup(`/${resource}`, namespace, name);
    if (object === undefined) throw notFound({ group: "", resource }, name);
    const uid = object.metadata.uid;
    const said = String(reference["uid"] ?? "");
    if (said !== "" && said !== uid) {
      const why = `the UID in the bound object reference (${said}) does not match the UID in record. The object might have been deleted and then recreated`;
      throw conflict({ group: "", resource: kind }, name, why);
    }
    return { name, uid, object };
  };
  if (group === "" && kind === "Pod") {
    const { uid, object } = find("pods", target.namespace);
    const spec = isObject(object["spec"]) ? object["spec"] : {};
    if (spec["serviceAccountName"] !== target.name) {
      throw badRequest(
        `cannot bind token for serviceaccount ${JSON.stringify(target.name)} to pod running with different serviceaccount name.`,
      );
    }
    const nodeName = String(spec["nodeName"] ?? "");
    const node = nodeName === "" ? undefined : lookup("/nodes", "", nodeName);
    return {
      pod: { name, uid },
      ...(node === undefined ? {} : { node: { name: nodeName, uid: node.metadata.uid } }),
    };
  }
  if (group === "" && kind === "Secret") return { secret: { name, uid: find("secrets", target.namespace).uid } };
  if (group === "" && kind === "Node") return { node: { name, uid: find("nodes", "").uid } };
  throw badRequest(`cannot bind token to object of type ${group}/${version}, Kind=${kind}`);
}
