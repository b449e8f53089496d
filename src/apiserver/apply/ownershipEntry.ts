import { equalJson } from "../../model/objects/json.ts";
import type { ManagedFieldsEntry } from "../../model/objects/object.ts";
import { decodeFieldSet, type FieldSet, fromFieldsV1, leaf, unionAll } from "./fieldSet.ts";

/**
 * One entry of metadata.managedFields: the manager, its fields and the operation. An entry is identified by manager,
 * operation and subresource, and for updates by version too, but not by its time.
 */

/** Keys in the order in which Go writes them. */
export function ownershipEntry(
  who: { manager: string; operation: "Apply" | "Update"; apiVersion: string; subresource: string },
  time: string | undefined,
  fields: FieldSet | undefined,
): ManagedFieldsEntry {
  const entry: ManagedFieldsEntry = { manager: who.manager, operation: who.operation, apiVersion: who.apiVersion };
  if (time !== undefined) entry.time = time;
  entry.fieldsType = "FieldsV1";
  entry.fieldsV1 = (fields ?? leaf) as Record<string, unknown>;
  if (who.subresource !== "") entry.subresource = who.subresource;
  return entry;
}

export function fieldsOfEntry(entry: ManagedFieldsEntry): FieldSet | undefined {
  return fromFieldsV1(entry.fieldsV1);
}

/** The same entry with other fields or another time. */
export function revised(
  entry: ManagedFieldsEntry,
  fields: FieldSet | undefined,
  time: string | undefined,
): ManagedFieldsEntry {
  return ownershipEntry(
    {
      manager: entry.manager ?? "",
      operation: entry.operation ?? "Update",
      apiVersion: entry.apiVersion ?? "",
      subresource: entry.subresource ?? "",
    },
    time,
    fields,
  );
}

/** Apply before Update, then by time, then by name: the order in which upstream lists them. Sorts in place. */
export function sortEntries(entries: ManagedFieldsEntry[]): ManagedFieldsEntry[] {
  return entries.length < 2 ? entries : entries.sort(compareEntries);
}

function compareEntries(a: ManagedFieldsEntry, b: ManagedFieldsEntry): number {
  return (
    compareText(a.operation, b.operation) ||
    compareText(a.time, b.time) ||
    compareText(a.manager, b.manager) ||
    compareText(a.apiVersion, b.apiVersion) ||
    compareText(a.subresource, b.subresource)
  );
}

function compareText(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The managedFields that a client sent, if they can be read: entries in canonical order and spelling, entries of one
 * identity once, entries without fields left out. Undefined if any entry is malformed.
 */
export function decodeEntries(sent: readonly ManagedFieldsEntry[]): ManagedFieldsEntry[] | undefined {
  const byIdentity = new Map<string, ManagedFieldsEntry>();
  try {
    for (const entry of sent) {
      if (entry.operation !== "Apply" && entry.operation !== "Update") return undefined;
      if (typeof entry.apiVersion !== "string" || entry.apiVersion === "") return undefined;
      if (entry.fieldsType !== "FieldsV1") return undefined;
      const fields = entry.fieldsV1 === undefined ? undefined : decodeFieldSet(entry.fieldsV1);
      if (fields === undefined) continue;
      byIdentity.set(identityText(entry), revised(entry, fields, entry.time ?? undefined));
    }
  } catch {
    return undefined;
  }
  return sortEntries([...byIdentity.values()]);
}

/** Text that is equal exactly for entries of one identity; sorts as upstream sorts managers in messages. */
export function identityText(entry: ManagedFieldsEntry): string {
  const { manager, operation, apiVersion, subresource } = entry;
  return JSON.stringify({
    manager,
    operation,
    apiVersion: operation === "Apply" ? undefined : apiVersion,
    subresource: subresource === "" ? undefined : subresource,
  });
}

/** An empty list, or a list of one empty entry: the client resets managedFields. */
export function isReset(sent: readonly ManagedFieldsEntry[]): boolean {
  return sent.length === 0 || (sent.length === 1 && Object.keys(sent[0] ?? {}).length === 0);
}

export function equalExceptTimes(
  a: readonly ManagedFieldsEntry[] | undefined,
  b: readonly ManagedFieldsEntry[] | undefined,
): boolean {
  if (a === b) return true;
  const count = a?.length ?? 0;
  if (count !== (b?.length ?? 0)) return false;
  // The order depends on times, so entries are matched by identity.
  const left = new Map<string, ManagedFieldsEntry>();
  for (const entry of a ?? []) left.set(identityText(entry), entry);
  for (const entry of b ?? []) {
    const twin = left.get(identityText(entry));
    if (twin === undefined || twin.apiVersion !== entry.apiVersion) return false;
    if (!equalJson(twin.fieldsV1, entry.fieldsV1)) return false;
  }
  return true;
}

const updateManagersMax = 10;
const ancientManager = "ancient-changes";

/**
 * Clients with a name of their own each (a pod name, a random suffix) would grow the list without end: beyond ten, the
 * oldest updates of each version are merged into one entry.
 */
export function foldAncient(entries: ManagedFieldsEntry[]): ManagedFieldsEntry[] {
  let updates = 0;
  for (const entry of entries) if (entry.operation === "Update") updates++;
  if (updates <= updateManagersMax) return entries;

  const identities = new Map(entries.map((entry) => [entry, identityText(entry)]));
  const oldestFirst = entries.filter((entry) => entry.operation === "Update");
  oldestFirst.sort((a, b) => compareText(a.time, b.time) || compareText(identities.get(a), identities.get(b)));
  const byIdentity = new Map(entries.map((entry) => [identities.get(entry) ?? "", entry]));
  const firstOfVersion = new Map<string, ManagedFieldsEntry>();
  /** The entries to merge, by version; united at the end, because there may be thousands. */
  const folded = new Map<string, { time: string | undefined; fields: (FieldSet | undefined)[] }>();
  const ancient = (apiVersion: string) =>
    ({ manager: ancientManager, operation: "Update", apiVersion, subresource: "" }) as const;
  for (const entry of oldestFirst) {
    if (updates <= updateManagersMax) break;
    const apiVersion = entry.apiVersion ?? "";
    const first = firstOfVersion.get(apiVersion);
    if (first === undefined) {
      firstOfVersion.set(apiVersion, entry);
      continue;
    }
    let bucket = folded.get(apiVersion);
    if (bucket === undefined) {
      const stored = byIdentity.get(identityText(ancient(apiVersion))) ?? first;
      if (stored === first) byIdentity.delete(identities.get(first) ?? "");
      bucket = { time: stored.time, fields: [fieldsOfEntry(stored)] };
      folded.set(apiVersion, bucket);
    }
    byIdentity.delete(identities.get(entry) ?? "");
    // The merged entry is the younger one, so its time is used.
    bucket.time = entry.time;
    bucket.fields.push(fieldsOfEntry(entry));
    updates--;
  }
  for (const [apiVersion, { time, fields }] of folded) {
    const who = ancient(apiVersion);
    byIdentity.set(identityText(who), ownershipEntry(who, time, unionAll(fields)));
  }
  return [...byIdentity.values()];
}
