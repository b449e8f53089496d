/** Which pods count as scheduled, gated and ready, and which scheduled ones count against their clique. */
import { expect, test } from "vitest";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { countPods } from "./podClasses.ts";

interface Wish {
  readonly scheduled?: "True" | "False";
  readonly reason?: string;
  readonly isReady?: boolean;
  readonly main?: object;
  readonly init?: object;
  readonly phase?: string;
  readonly isLeaving?: boolean;
}

const pod = ({ scheduled = "True", reason, isReady = false, main, init, phase = "Running", isLeaving }: Wish): Pod =>
  ({
    metadata: { name: "p", ...(isLeaving && { deletionTimestamp: "2026-01-01T00:00:00Z" }) },
    status: {
      phase,
      conditions: [
        { type: "PodScheduled", status: scheduled, ...(reason && { reason }) },
        { type: "Ready", status: isReady ? "True" : "False" },
      ],
      ...(main && { containerStatuses: [main] }),
      ...(init && { initContainerStatuses: [init] }),
    },
  }) as Pod;

const failed = { terminated: { exitCode: 1 } };
const ended = { terminated: { exitCode: 0 } };
const nothing = {
  live: 1,
  ready: 0,
  scheduled: 0,
  gated: 0,
  readyOrStarting: 0,
  lostWithNode: 0,
  nextLossMs: undefined,
};
const starting = { ...nothing, scheduled: 1, readyOrStarting: 1 };
const against = { ...nothing, scheduled: 1, readyOrStarting: 0 };

test.each<[string, Wish, object]>([
  ["waits at its gate", { scheduled: "False", reason: "SchedulingGated" }, { ...nothing, gated: 1 }],
  ["finds no node", { scheduled: "False", reason: "Unschedulable" }, nothing],
  ["pulls its image", { phase: "Pending", main: { started: false, ready: false } }, starting],
  ["is inside its startup probe", { main: { started: false, ready: false } }, starting],
  ["is ready", { isReady: true, main: { started: true, ready: true } }, { ...starting, ready: 1 }],
  ["runs and does not answer", { main: { started: true, ready: false } }, against],
  ["has failed before and waits for its restart", { main: { ready: false, lastState: failed } }, against],
  ["has an init container that failed before", { init: { ready: false, lastState: failed } }, against],
  ["fails for the first time: only earlier failures count", { main: { ready: false, state: failed } }, starting],
  ["has terminated with exit code 0 before", { main: { ready: false, lastState: ended } }, starting],
  ["has failed before and is ready", { isReady: true, main: { lastState: failed } }, { ...starting, ready: 1 }],
  ["was evicted: it has failed and no longer counts as scheduled", { phase: "Failed" }, nothing],
  ["is terminating and still ready: it no longer counts", { isReady: true, isLeaving: true }, { ...nothing, live: 0 }],
])("a pod that %s", (_does, wish, counts) => {
  expect(countPods([pod(wish)], () => undefined, 0)).toEqual(counts);
});

const nowMs = Date.UTC(2026, 0, 1, 0, 1);
const atMs = (ms: number): string => new Date(ms).toISOString();

interface NodeWish {
  readonly ready: "True" | "False" | "Unknown" | undefined;
  /** How long ago. */
  readonly forMs?: number;
  readonly taintedForMs?: number;
}

const node = ({ ready, forMs, taintedForMs }: NodeWish): Node =>
  ({
    metadata: { name: "n" },
    spec: {
      ...(taintedForMs !== undefined && {
        taints: [{ key: "node.kubernetes.io/unreachable", effect: "NoExecute", timeAdded: atMs(nowMs - taintedForMs) }],
      }),
    },
    status: {
      conditions: ready
        ? [{ type: "Ready", status: ready, ...(forMs !== undefined && { lastTransitionTime: atMs(nowMs - forMs) }) }]
        : [],
    },
  }) as Node;

const bound = (tolerationSeconds?: number | "for ever", isLeaving = false): Pod => {
  const keys = ["unreachable", "not-ready"].map((key) => `node.kubernetes.io/${key}`);
  const tolerations = keys.map((key) => ({
    key,
    operator: "Exists",
    effect: "NoExecute",
    ...(tolerationSeconds !== "for ever" && { tolerationSeconds }),
  }));
  const made = pod({ isReady: true, isLeaving });
  return {
    ...made,
    metadata: { ...made.metadata, creationTimestamp: atMs(nowMs - 3_600_000) },
    spec: { nodeName: "n", containers: [], ...(tolerationSeconds !== undefined && { tolerations }) },
  } as Pod;
};

test.each<{ node: NodeWish | "gone" | "not observed yet"; pod: Pod; scheduled: number; lost: number; nextMs?: number }>(
  [
    { node: { ready: "True", forMs: 1 }, pod: bound(5), scheduled: 1, lost: 0 },
    { node: { ready: undefined }, pod: bound(5), scheduled: 1, lost: 0 },
    { node: "not observed yet", pod: bound(5), scheduled: 1, lost: 0 },
    { node: "gone", pod: bound(300), scheduled: 0, lost: 1 },
    { node: "gone", pod: bound("for ever"), scheduled: 0, lost: 1 },
    { node: { ready: "Unknown", forMs: 4_999 }, pod: bound(5), scheduled: 1, lost: 0, nextMs: nowMs + 1 },
    { node: { ready: "Unknown", forMs: 5_000 }, pod: bound(5), scheduled: 0, lost: 1 },
    { node: { ready: "False", forMs: 5_000 }, pod: bound(5), scheduled: 0, lost: 1 },
    { node: { ready: "Unknown", taintedForMs: 4_000 }, pod: bound(5), scheduled: 1, lost: 0, nextMs: nowMs + 1_000 },
    { node: { ready: "Unknown", taintedForMs: 5_000 }, pod: bound(5), scheduled: 0, lost: 1 },
    { node: { ready: "Unknown", forMs: 5_000, taintedForMs: 1_000 }, pod: bound(5), scheduled: 0, lost: 1 },
    { node: { ready: "Unknown", forMs: 3_000_000 }, pod: bound("for ever"), scheduled: 1, lost: 0 },
    { node: { ready: "Unknown", forMs: 0 }, pod: bound(undefined), scheduled: 0, lost: 1 },
    { node: { ready: "Unknown" }, pod: bound(5), scheduled: 1, lost: 0 },
    { node: { ready: "True" }, pod: bound(5, true), scheduled: 0, lost: 0 },
    { node: { ready: "Unknown", forMs: 5_000 }, pod: bound(5, true), scheduled: 0, lost: 1 },
  ],
)("a pod on a node that is $node", ({ node: where, pod: own, scheduled, lost, nextMs }) => {
  const of = where === "gone" ? where : where === "not observed yet" ? undefined : node(where);
  const counts = countPods([own], () => of, nowMs);
  expect(counts).toMatchObject({ scheduled, ready: scheduled, readyOrStarting: scheduled, lostWithNode: lost });
  expect(counts.nextLossMs).toBe(nextMs);
});
