/** Bootstrap tokens: Secrets by which a kubelet without a certificate requests one. */
import { Buffer } from "node:buffer";
import { timingSafeEqual } from "node:crypto";
import type { Secret } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { UserInfo } from "../strategy.ts";
import type { Lookup } from "./liveToken.ts";

export const bootstrapTokenNamespace = "kube-system";
export const bootstrapTokenType = "bootstrap.kubernetes.io/token";
export const bootstrapTokenPrefix = "bootstrap-token-";
/** The group of all bootstrap tokens: it may create CertificateSigningRequests, and those of kubelets are approved. */
export const bootstrappersGroup = "system:bootstrappers";

const tokenShape = /^([a-z0-9]{6})\.([a-z0-9]{16})$/;
const extraGroup = /^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$/;

/** The user of a bootstrap token; undefined when the text is none or its Secret does not allow it. */
export function bootstrapTokenUser(token: string, lookup: Lookup, nowMs: number): UserInfo | undefined {
  const [, id = "", secret = ""] = tokenShape.exec(token) ?? [];
  if (id === "") return undefined;
  const found = lookup("/secrets", bootstrapTokenNamespace, `${bootstrapTokenPrefix}${id}`) as Secret | undefined;
  if (found === undefined || found.type !== bootstrapTokenType || found.metadata.deletionTimestamp !== undefined)
    return undefined;
  const isValid = isSame(secretText(found, "token-secret"), secret) && secretText(found, "token-id") === id;
  if (!isValid || secretText(found, "usage-bootstrap-authentication") !== "true") return undefined;
  if (expiryMs(found) <= nowMs) return undefined;
  const groups = secretText(found, "auth-extra-groups")
    .split(",")
    .map((group) => group.trim())
    .filter((group) => group !== "");
  if (!groups.every((group) => extraGroup.test(group))) return undefined;
  return { username: `system:bootstrap:${id}`, groups: [bootstrappersGroup, ...groups] };
}

/** When the token of a Secret expires: never without a time, at once with a malformed one. */
export function expiryMs(secret: Secret): number {
  const text = secretText(secret, "expiration");
  return text === "" ? Number.POSITIVE_INFINITY : (timeToMs(text) ?? 0);
}

function secretText({ data }: Secret, key: string): string {
  return Buffer.from(data?.[key] ?? "", "base64").toString("utf8");
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
