import type { KubeObject } from "../../model/objects/object.ts";
import type { UserInfo } from "../strategy.ts";
import { serviceAccountGroups, serviceAccountUsername } from "./serviceAccountName.ts";
import type { Reference, TokenClaims } from "./serviceAccountToken.ts";

/** Reads the current object; `resource` is group and plural, `/pods` for the core group. */
export type Lookup = (resource: string, namespace: string, name: string) => KubeObject | undefined;

/** Tokens stay valid this long after the deletion of their object began, for pods that are terminating. */
const deletionGraceMs = 60_000;

/**
 * Why a token is no longer valid: the service account, or the Pod, Secret or Node that it is bound to, no longer
 * exists. Objects are compared by UID, since an object may have been deleted and created again under the same name.
 * Undefined for a valid token.
 */
export function tokenInvalidReason(claims: TokenClaims, lookup: Lookup, nowMs: number): string | undefined {
  const { namespace, serviceAccount, pod, secret, node } = claims;
  const account = lookup("/serviceaccounts", namespace, serviceAccount.name);
  if (account === undefined) return `serviceaccounts ${JSON.stringify(serviceAccount.name)} not found`;
  if (isDeleted(account, nowMs)) return `service account ${namespace}/${serviceAccount.name} has been deleted`;
  if (account.metadata.uid !== serviceAccount.uid) {
    return `service account UID (${account.metadata.uid}) does not match claim (${serviceAccount.uid})`;
  }
  const isAlive = (resource: string, home: string, reference: Reference): boolean => {
    const found = lookup(resource, home, reference.name);
    return found !== undefined && !isDeleted(found, nowMs) && found.metadata.uid === reference.uid;
  };
  const gone = "service account token has been invalidated";
  if (secret !== undefined && !isAlive("/secrets", namespace, secret)) return gone;
  if (pod !== undefined && !isAlive("/pods", namespace, pod)) return gone;
  // In a pod's token the node claim only records where the pod ran when the token was issued.
  if (node !== undefined && pod === undefined && !isAlive("/nodes", "", node)) return gone;
  return undefined;
}

/** The user of a service account token. */
export function serviceAccountUser(claims: TokenClaims): UserInfo {
  const { namespace, serviceAccount, pod, node, id } = claims;
  const extra: Record<string, string[]> = {};
  if (id !== "") extra["authentication.kubernetes.io/credential-id"] = [`JTI=${id}`];
  if (node !== undefined) {
    extra["authentication.kubernetes.io/node-name"] = [node.name];
    extra["authentication.kubernetes.io/node-uid"] = [node.uid];
  }
  if (pod !== undefined) {
    extra["authentication.kubernetes.io/pod-name"] = [pod.name];
    extra["authentication.kubernetes.io/pod-uid"] = [pod.uid];
  }
  return {
    username: serviceAccountUsername(namespace, serviceAccount.name),
    uid: serviceAccount.uid,
    groups: serviceAccountGroups(namespace),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

function isDeleted(object: KubeObject, nowMs: number): boolean {
  const { deletionTimestamp } = object.metadata;
  return deletionTimestamp !== undefined && Date.parse(deletionTimestamp) < nowMs - deletionGraceMs;
}
