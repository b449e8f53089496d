import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome, Refusal } from "../../model/outcome.ts";
import { isLater, type Revision } from "../../model/revision.ts";
import type { KubeList, WatchEvent } from "../../ports/kubeApi.ts";
import type { KindEvent } from "../../snapshot/kindTable.ts";

/**
 * How a kind is listed and watched, as a state machine without time or network: input in, next state and actions out.
 *
 *   idle ──► streaming ──initial events end──► live ──ended──► live again from the known revision
 *              │   ▲                            │
 *        fails │   │ fails                      │ Expired, or a list that was refused
 *              ▼   │                            ▼
 *             listing ──last page──► live     streaming
 *
 * Every failure backs off first. A list is always of one revision: a page of another revision, or a list older than the
 * known revision, starts it again.
 *
 * A server that was restored from a backup is behind the known revision, and stays so. The signs are a watch without
 * events and bookmarks, a bookmark older than the known revision, or watches that keep failing; all of them lead to
 * lists, which are older and refused, and `refusals` counts those in a row. A cache never goes back to an older
 * revision, so its process becomes unhealthy and has to be restarted.
 */
export interface ReflectorState {
  readonly phase: "idle" | "streaming" | "listing" | "live" | "waiting" | "stopped";
  /**
   * The known revision: everything up to it has been delivered. A watch resumes from it, and nothing older is accepted.
   */
  readonly known: Revision | undefined;
  /** Failures in a row since the last success. */
  readonly failures: number;
  /** False once the server has shown that it does not support streaming lists. */
  readonly canStream: boolean;
  /** A server whose continue tokens expire between two pages is asked for the whole list at once. */
  readonly isPaged: boolean;
  /** The revision of the list whose pages are being read. */
  readonly listRevision: Revision | undefined;
  /** Lists in a row that were older than the known revision. */
  readonly refusals: number;
  /** Whether this watch has delivered anything. */
  readonly hasSpoken: boolean;
  /** Whether this watch began at the revision of a list, and not where an earlier watch ended. */
  readonly isAfterList: boolean;
  /** What follows the back-off. */
  readonly next: "stream" | "list" | "watch";
}

export type ReflectorInput =
  | { readonly type: "start" }
  | { readonly type: "event"; readonly event: WatchEvent }
  | { readonly type: "ended"; readonly why: Outcome<never> | undefined; readonly livedMs: number }
  | { readonly type: "page"; readonly outcome: Outcome<KubeList> }
  /** The cache found that the new list contradicts its objects. */
  | { readonly type: "refused" }
  /** The cache accepted the new list. */
  | { readonly type: "accepted" }
  /** An event, a bookmark or the end of the initial list of the open watch is overdue. */
  | { readonly type: "silent" }
  /** The back-off has ended. */
  | { readonly type: "due" }
  | { readonly type: "stop" };

export type ReflectorAction =
  | { readonly type: "emit"; readonly event: KindEvent }
  | { readonly type: "stream" }
  | { readonly type: "watch"; readonly from: Revision }
  | { readonly type: "list"; readonly continueToken: string | undefined; readonly isPaged: boolean }
  /** Ends the open watch or the call in flight. */
  | { readonly type: "close" }
  | { readonly type: "wait"; readonly failures: number; readonly why: string; readonly atLeastMs?: number };

export interface ReflectorStep {
  readonly state: ReflectorState;
  readonly actions: readonly ReflectorAction[];
}

export const idleReflector: ReflectorState = {
  phase: "idle",
  known: undefined,
  failures: 0,
  canStream: true,
  isPaged: true,
  listRevision: undefined,
  refusals: 0,
  hasSpoken: false,
  isAfterList: false,
  next: "stream",
};

/** A watch that delivered nothing and ended sooner than this counts as failed. */
const healthyMs = 10_000;
/** After this many failures in a row the kind is listed before it is watched again. */
const watchFailuresMax = 3;

export function stepReflector(state: ReflectorState, input: ReflectorInput): ReflectorStep {
  const isOver = state.phase === "stopped";
  if (input.type === "stop" && !isOver) return { state: { ...state, phase: "stopped" }, actions: [{ type: "close" }] };
  if (input.type === "refused" && !isOver) return fail(refusing(state), "the list was refused", relistBy(state), true);
  if (input.type === "accepted") return stay({ ...state, refusals: 0 });
  switch (state.phase) {
    case "stopped":
      return stay(state);
    case "idle":
      return input.type === "start" ? begin(state, relistBy(state)) : stay(state);
    case "waiting":
      if (input.type !== "due") return stay(state);
      return state.next === "watch" ? resume(state) : begin(state, state.next);
    case "streaming":
      return stepStreaming(state, input);
    case "listing":
      return input.type === "page" ? stepListing(state, input.outcome) : stay(state);
    case "live":
      return stepLive(state, input);
  }
}

function stepStreaming(state: ReflectorState, input: ReflectorInput): ReflectorStep {
  if (input.type === "event") {
    const { event } = input;
    if (event.type !== "BOOKMARK") return { state, actions: [emitted(event.type, event.object)] };
    if (!event.initialEventsEnd) return stay(state);
    if (isOlder(state, event.revision)) return fail(refusing(state), olderThanKnown, "list", true);
    const { revision } = event;
    const live: ReflectorState = { ...state, phase: "live", known: revision, hasSpoken: false, isAfterList: true };
    return { state: live, actions: [{ type: "emit", event: { type: "relistDone", revision } }] };
  }
  // An older server, or a proxy, ignores the request for a streaming list: it sends what exists and never its end.
  if (input.type === "silent") return compareByList({ ...state, canStream: false });
  if (input.type !== "ended") return stay(state);
  if (reasonOf(input.why) === "Invalid") return begin({ ...state, canStream: false }, "list");
  // After a stream that fails before its end, a list is tried.
  return fail(state, `the stream ended: ${textOf(input.why)}`, "list", false, input.why);
}

function stepListing(state: ReflectorState, outcome: Outcome<KubeList>): ReflectorStep {
  if (!outcome.ok) {
    if (outcome.reason === "Expired" && state.isPaged) return begin({ ...state, isPaged: false }, "list");
    return fail(state, `the list failed: ${textOf(outcome)}`, relistBy(state), false, outcome);
  }
  const { revision, items, continueToken } = outcome.value;
  if (isOlder(state, revision)) return fail(refusing(state), olderThanKnown, "list", false);
  if (state.listRevision !== undefined && state.listRevision !== revision) {
    // The pages are of two revisions: together they were never the state of the server.
    return fail({ ...state, isPaged: false }, "the pages of the list are of two revisions", "list", false);
  }
  const actions: ReflectorAction[] = items.map((object) => emitted("ADDED", object));
  if (continueToken !== undefined && continueToken !== "") {
    actions.push({ type: "list", continueToken, isPaged: state.isPaged });
    return { state: { ...state, listRevision: revision }, actions };
  }
  actions.push({ type: "emit", event: { type: "relistDone", revision } }, { type: "watch", from: revision });
  const spoken = { hasSpoken: false, isAfterList: true };
  const live: ReflectorState = { ...state, phase: "live", known: revision, ...spoken, isPaged: true };
  return { state: live, actions };
}

function stepLive(state: ReflectorState, input: ReflectorInput): ReflectorStep {
  if (input.type === "event") return stepEvent(state, input.event);
  if (input.type === "silent" && !state.hasSpoken) return compareByList(state);
  if (input.type !== "ended") return stay(state);
  const { why, livedMs } = input;
  const isHealthy = state.hasSpoken || livedMs >= healthyMs;
  const calm = isHealthy ? { ...state, failures: 0 } : state;
  const isExpired = reasonOf(why) === "Expired";
  // A restarted server answers so to every watch that resumes: a back-off from the outage before would be for nothing.
  if (isExpired && (isHealthy || !state.isAfterList)) return begin({ ...calm, failures: 0 }, relistBy(calm));
  if (isHealthy && (why === undefined || why.ok)) return resume(calm);
  const next = isExpired || calm.failures >= watchFailuresMax ? relistBy(calm) : "watch";
  return fail(calm, `the watch ended: ${textOf(why)}`, next, false, why);
}

function stepEvent(state: ReflectorState, event: WatchEvent): ReflectorStep {
  const spoken = state.hasSpoken ? state : { ...state, hasSpoken: true, failures: 0 };
  if (event.type === "BOOKMARK") {
    const { revision } = event;
    if (isOlder(state, revision)) return compareByList(state);
    if (!isNews(state, revision)) return stay(spoken);
    return {
      state: { ...spoken, known: revision },
      actions: [{ type: "emit", event: { type: "bookmark", revision } }],
    };
  }
  const { resourceVersion } = event.object.metadata;
  const news = isNews(state, resourceVersion);
  // An older state is a repetition. An older deletion is left to the cache: some servers do not give it a revision of
  // its own.
  if (!news && event.type !== "DELETED") return stay(spoken);
  const known = news ? resourceVersion : state.known;
  return { state: { ...spoken, known }, actions: [emitted(event.type, event.object)] };
}

function begin(state: ReflectorState, how: "stream" | "list"): ReflectorStep {
  const begins: ReflectorAction = { type: "emit", event: { type: "relistBegins" } };
  const fresh = { ...state, listRevision: undefined };
  if (how === "stream") return { state: { ...fresh, phase: "streaming" }, actions: [begins, { type: "stream" }] };
  const list: ReflectorAction = { type: "list", continueToken: undefined, isPaged: state.isPaged };
  return { state: { ...fresh, phase: "listing" }, actions: [begins, list] };
}

/** The server may be behind the cache: a list shows whether it is. */
function compareByList(state: ReflectorState): ReflectorStep {
  const { state: listing, actions } = begin(state, "list");
  return { state: listing, actions: [{ type: "close" }, ...actions] };
}

function resume(state: ReflectorState): ReflectorStep {
  if (state.known === undefined) return begin(state, relistBy(state));
  const live: ReflectorState = { ...state, phase: "live", hasSpoken: false, isAfterList: false };
  return { state: live, actions: [{ type: "watch", from: state.known }] };
}

function fail(
  state: ReflectorState,
  why: string,
  next: ReflectorState["next"],
  isOpen: boolean,
  refusal?: Outcome<unknown>,
): ReflectorStep {
  const failures = state.failures + 1;
  // A Retry-After is obeyed.
  const atLeastMs = refusal === undefined || refusal.ok ? undefined : refusal.retryAfterMs;
  const wait: ReflectorAction = { type: "wait", failures, why, ...(atLeastMs !== undefined && { atLeastMs }) };
  const waiting: ReflectorState = { ...state, phase: "waiting", failures, next };
  return { state: waiting, actions: isOpen ? [{ type: "close" }, wait] : [wait] };
}

const olderThanKnown = "the list is older than the known revision";

function refusing(state: ReflectorState): ReflectorState {
  return { ...state, refusals: state.refusals + 1 };
}

function stay(state: ReflectorState): ReflectorStep {
  return { state, actions: [] };
}

function relistBy({ canStream }: ReflectorState): "stream" | "list" {
  return canStream ? "stream" : "list";
}

function isOlder({ known }: ReflectorState, revision: Revision): boolean {
  return known !== undefined && isLater(known, revision);
}

function isNews({ known }: ReflectorState, revision: Revision): boolean {
  return known === undefined || isLater(revision, known);
}

function emitted(type: "ADDED" | "MODIFIED" | "DELETED", object: KubeObject): ReflectorAction {
  return { type: "emit", event: { type: type === "DELETED" ? "removed" : "put", object } };
}

function reasonOf(why: Outcome<never> | undefined): Refusal["reason"] | undefined {
  return why === undefined || why.ok ? undefined : why.reason;
}

function textOf(why: Outcome<unknown> | undefined): string {
  return why === undefined || why.ok ? "no reason given" : `${why.reason}: ${why.message}`;
}
