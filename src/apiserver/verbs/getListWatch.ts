import { Buffer } from "node:buffer";
import { type FieldError, forbidden, notSupported } from "../../model/objects/fieldError.ts";
import { type FieldRequirement, matchesFields, parseFieldSelector } from "../../model/objects/fieldSelector.ts";
import { type LabelRequirements, matchesLabels, parseLabelSelector } from "../../model/objects/labelSelector.ts";
import { badRequest, expired, invalidObject, notFound, timeout } from "../../model/objects/status.ts";
import { keyOf, type Version } from "../storage/version.ts";
import type { WatchEvent, WatchFilter } from "../storage/watchHub.ts";
import type { Core, Target } from "./core.ts";

/** The options of a read, from the query. */
export interface ReadOptions {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly resourceVersionMatch?: string | undefined;
  readonly limit?: number | undefined;
  readonly continueToken?: string | undefined;
}

export interface WatchReadOptions extends ReadOptions {
  readonly allowBookmarks: boolean;
  readonly sendInitialEvents?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface ListResult {
  readonly revision: number;
  readonly versions: Version[];
  readonly continueToken?: string | undefined;
  readonly remaining?: number | undefined;
}

/** How long a read waits for a future revision. */
const futureRevisionWaitMs = 3_000;

/** Parsed selectors of a read. */
export interface Selection extends WatchFilter {
  readonly empty: boolean;
}

export async function getObject(core: Core, target: Target, resourceVersion?: string): Promise<Version> {
  const wanted = parseRevision(resourceVersion);
  if (wanted !== undefined && wanted > core.store.revision) await waitForRevision(core, wanted);
  const version = core.store.get(target.resource.type.storageKey, target.namespace, target.name);
  if (version === undefined) {
    await core.store.whenDurable(core.store.revision);
    throw notFound(target.resource.groupResource, target.name);
  }
  await core.store.whenDurable(version.revision);
  return version;
}

export async function listObjects(core: Core, target: Target, options: ReadOptions): Promise<ListResult> {
  const selection = selectionOf(target, options);
  const planned = await planList(core, options);
  const { store } = core;
  // Another write may have happened since the plan, and only the newest state has an index.
  const plan = planned.isNewest ? { ...planned, revision: store.revision } : planned;
  if (plan.revision < store.compactedRevision) {
    if (plan.fromKey !== "") throw continueExpired(core, plan.fromKey);
    throw expired("The resourceVersion for the provided list is too old.", undefined);
  }
  const versions: Version[] = [];
  let more: Version | undefined;
  let rest = 0;
  for (const version of candidates(core, target, selection, plan)) {
    if (plan.limit > 0 && versions.length === plan.limit) {
      // Whether the remaining objects match is decided with the next page.
      more ??= version;
      // remainingItemCount is given only without selectors.
      const left = selection.empty ? countLeft(core, target, plan, more) : 0;
      rest = left ?? rest + 1;
      if (left !== undefined) break;
      continue;
    }
    if (selection.matches(version)) versions.push(version);
  }
  await store.whenDurable(Math.min(plan.revision, store.revision));
  if (more === undefined) return { revision: plan.revision, versions };
  const last = versions[versions.length - 1] as Version;
  const token = continueToken(plan.revision, `${last.key}\u0000`, core.clock.nowMs());
  return { revision: plan.revision, versions, continueToken: token, remaining: selection.empty ? rest : undefined };
}

/** Upstream compacts every five minutes; clients must handle expired tokens here as well. */
const continueMs = 5 * 60_000;

function continueExpired(core: Core, fromKey: string): Error {
  const message =
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
  return expired(message, continueToken(-1, fromKey, core.clock.nowMs()));
}

/** The number of remaining objects, where the collection knows it without iterating. */
function countLeft(core: Core, target: Target, plan: ListPlan, from: Version): number | undefined {
  if (plan.revision < core.store.revision) return undefined;
  return core.store.collection(target.resource.type.storageKey).countFrom(target.namespace, from.key);
}

interface ListPlan {
  readonly revision: number;
  /** The newest revision, not a requested one. */
  readonly isNewest: boolean;
  readonly fromKey: string;
  readonly limit: number;
}

/** A superset of the matching objects, in key order: one object, an index entry, or the range of the namespace. */
function* candidates(core: Core, target: Target, selection: Selection, plan: ListPlan): Generator<Version> {
  const collection = core.store.collection(target.resource.type.storageKey);
  if (selection.name !== undefined && (selection.namespace !== "" || !target.resource.type.namespaced)) {
    const key = keyOf(selection.namespace, selection.name);
    const version = key >= plan.fromKey ? collection.oneAt(plan.revision, key) : undefined;
    if (version !== undefined) yield version;
    return;
  }
  if (selection.indexedValue !== undefined && plan.revision >= core.store.revision) {
    const field = target.resource.type.selectableFields.indexOf(indexedField);
    const indexed = collection.indexed(field, selection.indexedValue);
    if (indexed !== undefined) {
      for (const version of indexed) {
        if (selection.namespace !== "" && version.namespace !== selection.namespace) continue;
        if (version.key >= plan.fromKey) yield version;
      }
      return;
    }
  }
  for (const version of collection.at(plan.revision, selection.namespace, plan.fromKey)) {
    if (selection.name === undefined || version.name === selection.name) yield version;
  }
}

/** The revision of a list, by resourceVersion and resourceVersionMatch. */
async function planList(core: Core, options: ReadOptions): Promise<ListPlan> {
  const match = options.resourceVersionMatch ?? "";
  const asked = options.resourceVersion ?? "";
  const limit = options.limit ?? 0;
  refuseOptions(listOptionErrors(options));
  if (options.continueToken !== undefined && options.continueToken !== "") {
    if (asked !== "" && asked !== "0") {
      throw badRequest("specifying resource version is not allowed when using continue");
    }
    const token = parseContinueToken(options.continueToken);
    if (token.revision === 0 || token.revision > core.store.revision) throw badContinueToken();
    const isNewest = token.revision < 0;
    if (!isNewest && core.clock.nowMs() - token.atMs > continueMs) throw continueExpired(core, token.fromKey);
    return { revision: isNewest ? core.store.revision : token.revision, isNewest, fromKey: token.fromKey, limit };
  }
  const revision = parseRevision(asked) ?? 0;
  if (revision > core.store.revision) await waitForRevision(core, revision);
  const exactly = match === "Exact" || (match === "" && limit > 0 && revision > 0);
  if (exactly) return { revision, isNewest: false, fromKey: "", limit };
  return { revision: core.store.revision, isNewest: true, fromKey: "", limit: asked === "0" ? 0 : limit };
}

const matchField = "resourceVersionMatch";

function listOptionErrors(options: ReadOptions): FieldError[] {
  const errors: FieldError[] = [];
  const match = options.resourceVersionMatch ?? "";
  if (match === "") return errors;
  if (!options.resourceVersion) {
    errors.push(forbidden(matchField, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
  }
  if (options.continueToken) errors.push(matchWithContinue());
  if (match !== "Exact" && match !== "NotOlderThan") {
    errors.push(notSupported(matchField, match, ["Exact", "NotOlderThan", ""]));
  }
  if (match === "Exact" && options.resourceVersion === "0") {
    errors.push(forbidden(matchField, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
  }
  return errors;
}

function watchOptionErrors(options: WatchReadOptions): FieldError[] {
  const errors: FieldError[] = [];
  const match = options.resourceVersionMatch ?? "";
  if (options.sendInitialEvents !== undefined && match !== "NotOlderThan") {
    errors.push(forbidden(matchField, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  if (match !== "") {
    if (options.sendInitialEvents === undefined) {
      errors.push(
        forbidden(matchField, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
      );
    }
    if (match !== "NotOlderThan") errors.push(notSupported(matchField, match, ["NotOlderThan"]));
  }
  if (options.continueToken) errors.push(matchWithContinue());
  return errors;
}

function matchWithContinue(): FieldError {
  return forbidden(matchField, "resourceVersionMatch is forbidden when continue is provided");
}

function refuseOptions(errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidObject({ group: "meta.k8s.io", kind: "ListOptions" }, "", errors);
}

/** Receives the events of a watch. */
export interface WatchSink {
  deliver(event: WatchEvent): void;
  /** The watch ended on its own. */
  closed(): void;
  /**
   * While initial events are sent: undefined when more are accepted at once; false when the client has disconnected.
   */
  room?(): Promise<boolean> | undefined;
}

/** A started watch, and how to stop it. */
export interface StartedWatch {
  stop(): void;
}

/**
 * Starts a watch. Errors that belong in the stream (a revision that is too old) are thrown as 410 like the others: the
 * HTTP layer writes them as an ERROR event.
 */
export async function watchObjects(
  core: Core,
  target: Target,
  options: WatchReadOptions,
  sink: WatchSink,
): Promise<StartedWatch> {
  const selection = selectionOf(target, options);
  refuseOptions(watchOptionErrors(options));
  const revision = parseRevision(options.resourceVersion) ?? 0;
  const initial = options.sendInitialEvents ?? revision === 0;
  const start = {
    resource: target.resource.type.storageKey,
    filter: selection,
    bookmarks: options.allowBookmarks,
    timeoutMs: options.timeoutMs,
    deliver: sink.deliver,
    closed: sink.closed,
  };
  if (!initial) {
    // Without a revision the watch starts at the current one.
    const since = revision === 0 ? core.store.durableRevision : revision;
    if (since < core.store.compactedRevision) throw tooOld(since, core.store.compactedRevision);
    return { stop: core.hub.watch({ ...start, sinceRevision: since }) };
  }
  if (revision > core.store.revision) await waitForRevision(core, revision);
  const at = core.store.revision;
  await core.store.whenDurable(at);
  // Events after `at` may have been delivered to others meanwhile; the history still has them.
  if (at < core.store.compactedRevision) throw tooOld(at, core.store.compactedRevision);
  // The set of initial events is fixed before the first one is sent, so the client may read it slowly.
  const initialSet: Version[] = [];
  for (const version of candidates(core, target, selection, { isNewest: false, revision: at, fromKey: "", limit: 0 })) {
    if (selection.matches(version)) initialSet.push(version);
  }
  for (const version of initialSet) {
    sink.deliver({ type: "ADDED", version, revision: version.revision, initial: true });
    const room = sink.room?.();
    if (room !== undefined && !(await room)) return { stop: () => {} };
  }
  if (at < core.store.compactedRevision) throw tooOld(at, core.store.compactedRevision);
  if (options.allowBookmarks) sink.deliver({ type: "BOOKMARK", revision: at, initialEventsEnd: true });
  return { stop: core.hub.watch({ ...start, sinceRevision: at }) };
}

function tooOld(asked: number, oldest: number): Error {
  return expired(`too old resource version: ${asked} (${oldest})`);
}

/** The only field that can have an index (see indexedFields): kubelets and DRA drivers list and watch by it. */
const indexedField = "spec.nodeName";

/** Compiles the selectors of a read; an invalid or unsupported one is rejected with 400. */
export function selectionOf(
  target: Target,
  options: { labelSelector?: string | undefined; fieldSelector?: string | undefined },
): Selection {
  const { resource } = target;
  const labels = options.labelSelector ? parseLabelSelector(options.labelSelector) : noLabels;
  const fields = options.fieldSelector ? parseFieldSelector(options.fieldSelector) : noFields;
  let name = target.name === "" ? undefined : target.name;
  let namespace = target.namespace;
  let indexedValue: string | undefined;
  const others: { at: number; requirement: FieldRequirement }[] = [];
  const metadata: FieldRequirement[] = [];
  for (const requirement of fields) {
    const equals = requirement.operator !== "!=";
    if (requirement.field === "metadata.name") {
      if (equals && name === undefined) name = requirement.value;
      else metadata.push(requirement);
    } else if (requirement.field === "metadata.namespace" && resource.type.namespaced) {
      if (equals && namespace === "") namespace = requirement.value;
      else metadata.push(requirement);
    } else {
      const at = resource.type.selectableFields.indexOf(requirement.field);
      if (at < 0) throw badRequest(`field label not supported: ${requirement.field}`);
      if (equals && requirement.field === indexedField && indexedValue === undefined) indexedValue = requirement.value;
      others.push({ at, requirement });
    }
  }
  const simple = labels.length === 0 && others.length === 0 && metadata.length === 0;
  return {
    namespace,
    name,
    indexedValue,
    empty: simple && name === undefined && fields.length === 0,
    matches: simple ? () => true : (version) => matchesAll(version, labels, others, metadata),
  };
}

/**
 * The values that a field selector requires, for the authorizer: a list of one name is authorized as a request for that
 * name, and a node may list its own objects. Empty for verbs without a selector.
 */
export function pinnedFields(
  verb: string,
  fieldSelector: string | undefined,
): { name: string; fields?: Record<string, string> } {
  if (!fieldSelector || !["list", "watch", "deletecollection"].includes(verb)) return { name: "" };
  const fields: Record<string, string> = {};
  for (const { field, operator, value } of parseFieldSelector(fieldSelector)) {
    if (operator === "=") fields[field] ??= value;
  }
  return { name: fields["metadata.name"] ?? "", fields };
}

const noLabels: LabelRequirements = [];
const noFields: FieldRequirement[] = [];

function matchesAll(
  version: Version,
  labels: LabelRequirements,
  fields: readonly { at: number; requirement: FieldRequirement }[],
  metadata: readonly FieldRequirement[],
): boolean {
  if (labels.length > 0 && !matchesLabels(labels, version.side.labels ?? undefined)) return false;
  for (const { at, requirement } of fields) {
    const same = (version.side.fields[at] ?? "") === requirement.value;
    if (same === (requirement.operator === "!=")) return false;
  }
  if (metadata.length === 0) return true;
  return matchesFields(metadata, (field) => (field === "metadata.name" ? version.name : version.namespace));
}

function parseRevision(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  const revision = Number(text);
  if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(revision)) {
    const quoted = JSON.stringify(text);
    const why = `Invalid value: ${quoted}: strconv.ParseUint: parsing ${quoted}: invalid syntax`;
    throw badRequest(`invalid resource version: resourceVersion: ${why}`);
  }
  return revision;
}

async function waitForRevision(core: Core, revision: number): Promise<void> {
  const { promise, cancel } = core.store.reach(revision);
  const reached = await new Promise<boolean>((resolve, reject) => {
    const cancelTimer = core.clock.after(futureRevisionWaitMs, () => {
      cancel();
      resolve(false);
    });
    promise.then(() => {
      cancelTimer();
      resolve(true);
    }, reject);
  });
  if (reached) return;
  throw timeout(`Too large resource version: ${revision}, current: ${core.store.revision}`, 1, [
    { reason: "ResourceVersionTooLarge", message: "Too large resource version" },
  ]);
}

function continueToken(revision: number, fromKey: string, nowMs: number): string {
  const token = { v: "meta.k8s.io/v1", rv: revision, start: fromKey, at: nowMs };
  return Buffer.from(JSON.stringify(token)).toString("base64url");
}

function parseContinueToken(token: string): { revision: number; fromKey: string; atMs: number } {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(token, "base64url").toString("utf8"));
    const { v, rv, start, at } = parsed as { v?: unknown; rv?: unknown; start?: unknown; at?: unknown };
    if (v === "meta.k8s.io/v1" && Number.isSafeInteger(rv) && typeof start === "string" && start !== "") {
      return { revision: rv as number, fromKey: start, atMs: typeof at === "number" ? at : 0 };
    }
  } catch {
    // Falls through to the error below: whatever the reason, the token is invalid.
  }
  throw badContinueToken();
}

function badContinueToken(): Error {
  return badRequest("continue key is not valid: invalid continue token");
}
