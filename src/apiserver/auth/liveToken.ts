import type { KubeObject } from "../../model/objects/object.ts";
import type { UserInfo } from "../strategy.ts";
import { serviceAccountGroups, serviceAccountUsername } from "./serviceAccountName.ts";
import type { Reference, TokenClaims } from "./serviceAccountToken.ts";

/** Reads one object as it is now; `resource` is group and plural, `/pods` for the core group. */
export type Lookup = (resource: string, namespace: string, name: string) => KubeObject | undefined;

/** An object that is being deleted still vouches for its tokens this long, for pods that finish their work. */
const deletionGraceMs = 60_000;

/**
 * Whether what a token speaks of still exists: the account itself, and the pod, secret or node it is bound to. Identity
 * is the UID, since an object may have been deleted and made again under the same name. Returns what is wrong, or
 * nothing.
 */
export function whyTokenIsDead(claims: TokenClaims, lookup: Lookup, nowMs: number): string | undefined {
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
  // In the token of a pod the node only says where it ran when the token was made.
  if (node !== undefined && pod === undefined && !isAlive("/nodes", "", node)) return gone;
  return undefined;
}

/** The user that a service-account token stands for. */
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
