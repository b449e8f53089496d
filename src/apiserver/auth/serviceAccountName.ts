import { dnsLabelErrors, dnsSubdomainErrors } from "../../model/objects/names.ts";

/** A service account as a user: `system:serviceaccount:<namespace>:<name>`, and its groups. */

const prefix = "system:serviceaccount:";

export const serviceAccountsGroup = "system:serviceaccounts";

export function serviceAccountUsername(namespace: string, name: string): string {
  return `${prefix}${namespace}:${name}`;
}

export function serviceAccountGroups(namespace: string): string[] {
  return [serviceAccountsGroup, `${serviceAccountsGroup}:${namespace}`];
}

/** The inverse; undefined when the user is no service account. */
export function splitServiceAccountUsername(username: string): { namespace: string; name: string } | undefined {
  if (!username.startsWith(prefix)) return undefined;
  const parts = username.slice(prefix.length).split(":");
  const [namespace = "", name = ""] = parts;
  if (parts.length !== 2 || dnsLabelErrors(namespace).length > 0 || dnsSubdomainErrors(name).length > 0)
    return undefined;
  return { namespace, name };
}
