import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused, succeeded } from "../../model/outcome.ts";
import {
  idleReflector,
  type ReflectorAction,
  type ReflectorInput,
  type ReflectorState,
  stepReflector,
} from "./stepReflector.ts";

function pod(name: string, resourceVersion: string): KubeObject {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  return { apiVersion: "v1", kind: "Pod", metadata: { name, uid: name, resourceVersion, creationTimestamp } };
}

const streaming: ReflectorState = { ...idleReflector, phase: "streaming" };
const listing: ReflectorState = { ...idleReflector, phase: "listing", canStream: false };
const live: ReflectorState = { ...idleReflector, phase: "live", known: "10" };
const heard: ReflectorState = { ...live, hasSpoken: true };

function waiting(next: ReflectorState["next"]): ReflectorState {
  return { ...idleReflector, phase: "waiting", next, known: "10", failures: 1 };
}

function put(name: string, revision: string): ReflectorInput {
  return { type: "event", event: { type: "ADDED", object: pod(name, revision) } };
}

function gone(name: string, revision: string): ReflectorInput {
  return { type: "event", event: { type: "DELETED", object: pod(name, revision) } };
}

function bookmark(revision: string, initialEventsEnd = false): ReflectorInput {
  return { type: "event", event: { type: "BOOKMARK", revision, initialEventsEnd } };
}

function ended(reason?: "Expired" | "Invalid" | "Unknown" | "Unavailable", livedMs = 60_000): ReflectorInput {
  return { type: "ended", why: reason === undefined ? undefined : refused(reason, "said the server"), livedMs };
}

function page(revision: string, names: string[], continueToken?: string): ReflectorInput {
  const items = names.map((name) => pod(name, "3"));
  return { type: "page", outcome: succeeded({ revision, items, ...(continueToken && { continueToken }) }) };
}

/** Actions as a short text. */
function textOf(actions: readonly ReflectorAction[]): string {
  return actions
    .map((action) => {
      if (action.type === "watch") return `watch from ${action.from}`;
      if (action.type === "list") return `list${action.isPaged ? "" : " all"} ${action.continueToken ?? "first"}`;
      if (action.type !== "emit") return action.type;
      const { event } = action;
      if (event.type === "relistBegins") return "begins";
      return "object" in event ? `${event.type} ${event.object.metadata.name}` : `${event.type} ${event.revision}`;
    })
    .join(", ");
}

const rows: {
  name: string;
  from: ReflectorState;
  input: ReflectorInput;
  to: Partial<ReflectorState>;
  does: string;
}[] = [
  {
    name: "it begins with a stream of what exists",
    from: idleReflector,
    input: { type: "start" },
    to: { phase: "streaming" },
    does: "begins, stream",
  },
  {
    name: "a streamed object is delivered",
    from: streaming,
    input: put("p", "3"),
    to: { phase: "streaming" },
    does: "put p",
  },
  {
    name: "a deletion within the stream is delivered",
    from: streaming,
    input: gone("p", "3"),
    to: { phase: "streaming" },
    does: "removed p",
  },
  {
    name: "a bookmark within the stream has no effect",
    from: streaming,
    input: bookmark("5"),
    to: { phase: "streaming", known: undefined },
    does: "",
  },
  {
    name: "the end of the stream completes the list, and the same watch continues",
    from: streaming,
    input: bookmark("9", true),
    to: { phase: "live", known: "9" },
    does: "relistDone 9",
  },
  {
    name: "a stream that is older than the known revision is refused, and counted",
    from: { ...streaming, known: "12" },
    input: bookmark("9", true),
    to: { phase: "waiting", next: "list", failures: 1, known: "12", refusals: 1 },
    does: "close, wait",
  },
  {
    name: "a server that cannot stream is listed at once, and never asked again",
    from: streaming,
    input: ended("Invalid"),
    to: { phase: "listing", canStream: false },
    does: "begins, list first",
  },
  {
    name: "a stream that breaks is tried as a list after a wait",
    from: streaming,
    input: ended("Unknown"),
    to: { phase: "waiting", next: "list", failures: 1 },
    does: "wait",
  },
  {
    name: "a stream that the server ends in the middle is tried as a list after a wait",
    from: streaming,
    input: ended(),
    to: { phase: "waiting", next: "list" },
    does: "wait",
  },
  {
    name: "a page is delivered and the next one fetched",
    from: listing,
    input: page("7", ["a", "b"], "more"),
    to: { phase: "listing", listRevision: "7" },
    does: "put a, put b, list more",
  },
  {
    name: "the last page completes the list, and a watch continues from it",
    from: { ...listing, listRevision: "7" },
    input: page("7", ["c"]),
    to: { phase: "live", known: "7" },
    does: "put c, relistDone 7, watch from 7",
  },
  {
    name: "a page of another revision begins the list again, in one piece",
    from: { ...listing, listRevision: "7" },
    input: page("8", ["c"]),
    to: { phase: "waiting", next: "list", isPaged: false },
    does: "wait",
  },
  {
    name: "a list older than the known revision is refused, and counted",
    from: { ...listing, known: "12", refusals: 2 },
    input: page("7", ["a"]),
    to: { phase: "waiting", next: "list", known: "12", refusals: 3 },
    does: "wait",
  },
  {
    name: "a list whose token has expired is asked for in one piece, at once",
    from: { ...listing, listRevision: "7" },
    input: { type: "page", outcome: refused("Expired", "too old") },
    to: { phase: "listing", isPaged: false, listRevision: undefined },
    does: "begins, list all first",
  },
  {
    name: "a list that fails backs off",
    from: listing,
    input: { type: "page", outcome: refused("Unavailable", "busy") },
    to: { phase: "waiting", next: "list", failures: 1 },
    does: "wait",
  },
  {
    name: "a list that fails on a server that can stream is tried as a stream",
    from: { ...listing, canStream: true },
    input: { type: "page", outcome: refused("Unavailable", "busy") },
    to: { phase: "waiting", next: "stream" },
    does: "wait",
  },
  {
    name: "a change is delivered",
    from: live,
    input: put("p", "11"),
    to: { known: "11", hasSpoken: true },
    does: "put p",
  },
  { name: "a deletion is delivered", from: live, input: gone("p", "11"), to: { known: "11" }, does: "removed p" },
  { name: "a repeated change is not delivered", from: live, input: put("p", "10"), to: { known: "10" }, does: "" },
  { name: "an older change is not delivered", from: live, input: put("p", "9"), to: { known: "10" }, does: "" },
  {
    name: "a deletion without a revision of its own is delivered, and the known revision does not go back",
    from: live,
    input: gone("p", "9"),
    to: { known: "10" },
    does: "removed p",
  },
  {
    name: "a bookmark advances the known revision",
    from: live,
    input: bookmark("20"),
    to: { known: "20" },
    does: "bookmark 20",
  },
  { name: "a repeated bookmark has no effect", from: live, input: bookmark("10"), to: { known: "10" }, does: "" },
  {
    name: "a bookmark older than the known revision leads to a list",
    from: live,
    input: bookmark("5"),
    to: { phase: "listing", known: "10" },
    does: "close, begins, list first",
  },
  {
    name: "a watch without any event or bookmark leads to a list",
    from: live,
    input: { type: "silent" },
    to: { phase: "listing", known: "10" },
    does: "close, begins, list first",
  },
  {
    name: "a stream whose initial events never end is replaced by lists, for good",
    from: streaming,
    input: { type: "silent" },
    to: { phase: "listing", canStream: false },
    does: "close, begins, list first",
  },
  {
    name: "a watch that has delivered an event may be silent",
    from: heard,
    input: { type: "silent" },
    to: { phase: "live" },
    does: "",
  },
  {
    name: "a watch that fails again and again is not tried without a new list",
    from: { ...live, failures: 3 },
    input: ended("Unavailable", 5),
    to: { phase: "waiting", next: "stream", failures: 4 },
    does: "wait",
  },
  {
    name: "a success resets the count of failures",
    from: { ...live, failures: 5 },
    input: put("p", "11"),
    to: { failures: 0 },
    does: "put p",
  },
  {
    name: "a watch that times out is opened again at once from the known revision",
    from: heard,
    input: ended(),
    to: { phase: "live", hasSpoken: false },
    does: "watch from 10",
  },
  {
    name: "a quiet watch that times out is opened again at once",
    from: live,
    input: ended(undefined, 300_000),
    to: { phase: "live" },
    does: "watch from 10",
  },
  {
    name: "a watch that ended at once without an event backs off",
    from: live,
    input: ended(undefined, 5),
    to: { phase: "waiting", next: "watch", failures: 1 },
    does: "wait",
  },
  {
    name: "a watch that failed backs off and continues from the known revision",
    from: heard,
    input: ended("Unknown"),
    to: { phase: "waiting", next: "watch", failures: 1, known: "10" },
    does: "wait",
  },
  {
    name: "a watch whose revision has expired lists again at once",
    from: heard,
    input: ended("Expired"),
    to: { phase: "streaming", known: "10" },
    does: "begins, stream",
  },
  {
    name: "a watch that resumes after an outage and has expired lists at once, whatever failed before",
    from: { ...live, failures: 7 },
    input: ended("Expired", 3),
    to: { phase: "streaming", known: "10", failures: 0 },
    does: "begins, stream",
  },
  {
    name: "a watch that expires as soon as it is opened at the revision of a list backs off before it lists again",
    from: { ...live, isAfterList: true, failures: 2 },
    input: ended("Expired", 3),
    to: { phase: "waiting", next: "stream", failures: 3 },
    does: "wait",
  },
  {
    name: "a list that the cache refused is repeated after a back-off",
    from: live,
    input: { type: "refused" },
    to: { phase: "waiting", next: "stream", failures: 1, refusals: 1 },
    does: "close, wait",
  },
  {
    name: "a list that was accepted resets the count",
    from: { ...live, refusals: 4 },
    input: { type: "accepted" },
    to: { phase: "live", refusals: 0 },
    does: "",
  },
  {
    name: "after the back-off a watch continues",
    from: waiting("watch"),
    input: { type: "due" },
    to: { phase: "live" },
    does: "watch from 10",
  },
  {
    name: "after the back-off a stream begins",
    from: waiting("stream"),
    input: { type: "due" },
    to: { phase: "streaming" },
    does: "begins, stream",
  },
  {
    name: "after the back-off a list begins",
    from: waiting("list"),
    input: { type: "due" },
    to: { phase: "listing" },
    does: "begins, list first",
  },
  { name: "it stops from anywhere", from: heard, input: { type: "stop" }, to: { phase: "stopped" }, does: "close" },
  {
    name: "what arrives after the stop is not delivered",
    from: { ...heard, phase: "stopped" },
    input: put("p", "11"),
    to: { phase: "stopped" },
    does: "",
  },
];

describe("a reflector", () => {
  test.each(rows)("$name", ({ from, input, to, does }) => {
    const { state, actions } = stepReflector(from, input);
    expect(textOf(actions)).toBe(does);
    expect(state).toMatchObject(to);
  });

  test("the Retry-After of a refused watch or list is obeyed", () => {
    const busy = refused("TooManyRequests", "busy", { retryAfterMs: 7_000 });
    const waits = [
      stepReflector(live, { type: "ended", why: busy, livedMs: 1 }),
      stepReflector(listing, { type: "page", outcome: busy }),
      stepReflector(streaming, { type: "ended", why: busy, livedMs: 1 }),
    ].map(({ actions }) => actions.at(-1));
    expect(waits).toMatchObject([{ atLeastMs: 7_000 }, { atLeastMs: 7_000 }, { atLeastMs: 7_000 }]);
  });

  test("every input in every phase has a next state, and the known revision never goes back", () => {
    const phases = ["idle", "streaming", "listing", "live", "waiting", "stopped"] as const;
    const inputs: ReflectorInput[] = [
      ...rows.map(({ input }) => input),
      page("11", []),
      ended("Unavailable", 0),
      bookmark("10", true),
    ];
    for (const phase of phases) {
      for (const input of inputs) {
        const { state } = stepReflector({ ...idleReflector, phase, known: "10" }, input);
        expect(Number(state.known)).toBeGreaterThanOrEqual(10);
      }
    }
  });
});
