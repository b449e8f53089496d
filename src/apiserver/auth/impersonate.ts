import { badRequest } from "../../model/objects/status.ts";
import type { UserInfo } from "../strategy.ts";
import { type Authorizer, demandAccess, type ResourceAccess, resourceAccess } from "./access.ts";
import { anonymous, authenticatedGroup } from "./authenticate.ts";
import { serviceAccountGroups, splitServiceAccountUsername } from "./serviceAccountName.ts";

/**
 * Impersonation (`kubectl --as`). The user, each group, the UID and each extra value of the impersonated identity
 * require the verb `impersonate`, authorized for the user that sent the request.
 *
 * Takes the raw header list of Node (name, value, name, value...), because the parsed form joins repeated headers by
 * commas and a group may contain a comma. Returns the requester when there is no such header.
 */
export function impersonate(requester: UserInfo, rawHeaders: readonly string[], authorizer: Authorizer): UserInfo {
  const wanted = readHeaders(rawHeaders);
  if (wanted === undefined) return requester;
  const demand = (access: Partial<ResourceAccess>): void =>
    demandAccess(authorizer, requester, resourceAccess({ verb: "impersonate", ...access }));

  const account = splitServiceAccountUsername(wanted.user);
  if (account === undefined) demand({ resource: "users", name: wanted.user });
  else demand({ resource: "serviceaccounts", namespace: account.namespace, name: account.name });
  for (const name of wanted.groups) demand({ resource: "groups", name });
  const authentication = "authentication.k8s.io";
  for (const [key, values] of wanted.extra) {
    for (const name of values) demand({ group: authentication, resource: "userextras", subresource: key, name });
  }
  if (wanted.uid !== "") demand({ group: authentication, resource: "uids", name: wanted.uid });

  return {
    username: wanted.user,
    ...(wanted.uid === "" ? {} : { uid: wanted.uid }),
    groups: groupsOf(wanted, account?.namespace),
    ...(wanted.extra.size === 0 ? {} : { extra: Object.fromEntries(wanted.extra) }),
  };
}

interface Wanted {
  user: string;
  uid: string;
  groups: string[];
  extra: Map<string, string[]>;
}

/**
 * Without group headers the groups follow from the user name; given groups are used as they are, plus
 * system:authenticated.
 */
function groupsOf(wanted: Wanted, accountNamespace: string | undefined): string[] {
  const groups = [...wanted.groups];
  if (groups.length === 0 && accountNamespace !== undefined) groups.push(...serviceAccountGroups(accountNamespace));
  const stranger = "system:unauthenticated";
  if (wanted.user === anonymous.username) {
    if (!groups.includes(stranger)) groups.push(stranger);
  } else if (!groups.includes(authenticatedGroup) && !groups.includes(stranger)) groups.push(authenticatedGroup);
  return groups;
}

const prefix = "impersonate-";
const extraPrefix = "impersonate-extra-";

function readHeaders(rawHeaders: readonly string[]): Wanted | undefined {
  let wanted: Wanted | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const raw = rawHeaders[i] ?? "";
    // Nearly every request has no such header: compare one letter before making a lower-case copy.
    const first = raw.charCodeAt(0) | 0x20;
    if (first !== 0x69 || raw.length < prefix.length) continue;
    const name = raw.toLowerCase();
    if (!name.startsWith(prefix)) continue;
    const value = readUtf8(rawHeaders[i + 1] ?? "");
    wanted ??= { user: "", uid: "", groups: [], extra: new Map() };
    if (name === "impersonate-user") wanted.user ||= value;
    else if (name === "impersonate-uid") wanted.uid ||= value;
    else if (name === "impersonate-group") wanted.groups.push(value);
    else if (name.startsWith(extraPrefix)) {
      const key = unescapeKey(name.slice(extraPrefix.length));
      const values = wanted.extra.get(key);
      if (values === undefined) wanted.extra.set(key, [value]);
      else values.push(value);
    }
  }
  if (wanted === undefined) return undefined;
  const asked = wanted.uid !== "" || wanted.groups.length > 0 || wanted.extra.size > 0;
  if (wanted.user !== "") return wanted;
  if (!asked) return undefined;
  throw badRequest("requested impersonation of a group, UID or extra value without impersonating a user name");
}

/** Node reads headers as Latin-1; clients write names outside ASCII in UTF-8. */
function readUtf8(value: string): string {
  return /[\x80-\xff]/.test(value) ? Buffer.from(value, "latin1").toString("utf8") : value;
}

/**
 * Keys of extra values may contain characters that a header name cannot; those are percent-encoded. A key that cannot
 * be decoded is used as it is.
 */
function unescapeKey(key: string): string {
  if (!key.includes("%")) return key;
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
