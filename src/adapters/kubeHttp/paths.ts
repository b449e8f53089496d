import type { Resource } from "../../model/objects/resource.ts";
import type { ListOptions, ObjectRef, WatchOptions } from "../../ports/kubeApi.ts";

/** `/apis/apps/v1/namespaces/team/deployments`; without a namespace all namespaces. */
export function collectionPath({ group, version, plural }: Resource, namespace: string): string {
  const words = group === "" ? ["api", version] : ["apis", group, version];
  if (namespace !== "") words.push("namespaces", namespace);
  words.push(plural);
  return `/${words.map(encodeURIComponent).join("/")}`;
}

export function objectPath(ref: ObjectRef): string {
  const path = `${collectionPath(ref, ref.namespace)}/${encodeURIComponent(ref.name)}`;
  return ref.subresource === undefined || ref.subresource === ""
    ? path
    : `${path}/${encodeURIComponent(ref.subresource)}`;
}

/** A query string with its question mark, or an empty string. Undefined and empty parameters are left out. */
export function queryText(parameters: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export function listQuery(options: ListOptions): string {
  return queryText({
    labelSelector: options.labelSelector,
    fieldSelector: options.fieldSelector,
    limit: options.limit,
    continue: options.continueToken,
    resourceVersion: options.resourceVersion,
    resourceVersionMatch: options.resourceVersionMatch,
  });
}

export function watchQuery(options: WatchOptions): string {
  const { sendInitialEvents } = options;
  return queryText({
    watch: true,
    labelSelector: options.labelSelector,
    fieldSelector: options.fieldSelector,
    resourceVersion: options.resourceVersion,
    // The end of the initial events is a bookmark, so sendInitialEvents implies bookmarks.
    allowWatchBookmarks: wantsBookmarks(options) ? true : undefined,
    sendInitialEvents,
    resourceVersionMatch: sendInitialEvents === undefined ? undefined : "NotOlderThan",
    timeoutSeconds: options.timeoutSeconds,
  });
}

export function wantsBookmarks({ allowBookmarks, sendInitialEvents }: WatchOptions): boolean {
  return allowBookmarks === true || sendInitialEvents === true;
}
