import { equalJson } from "../../model/objects/json.ts";
import type { ManagedFieldsEntry } from "../../model/objects/object.ts";
import { decodeFieldSet, type FieldSet, fromFieldsV1, leaf, unionAll } from "./fieldSet.ts";

/**
 * One entry of metadata.managedFields: the manager, its fields and the operation. An entry is known by manager,
 * operation and subresource, and for updates by version too; its time is no part of it.
 */

/** Keys in the order in which a typed server writes them. */
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
 * What a client sent as managedFields, if it can be read: entries in our order and spelling, those of one identity
 * taken once, those that own nothing left out. Undefined if any entry is broken.
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

/** Text that two entries share exactly if they are one; sorts as upstream sorts managers in messages. */
export function identityText(entry: ManagedFieldsEntry): string {
  const { manager, operation, apiVersion, subresource } = entry;
  return JSON.stringify({
    manager,
    operation,
    apiVersion: operation === "Apply" ? undefined : apiVersion,
    subresource: subresource === "" ? undefined : subresource,
  });
}

/** An empty list, or a list of one empty entry: the client wants ownership forgotten. */
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
 * Many clients with a name of their own (a pod name, a random suffix) would grow the list without end: beyond ten, the
 * oldest updates of each version are folded into one entry.
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
  /** What is folded, by version; put together at the end, for there may be thousands. */
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
    // The entry that is folded in is the younger one, so the bucket takes its time.
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
