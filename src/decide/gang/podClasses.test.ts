/** The classes of section 4.1: which pods count as scheduled, gated, ready, and which of the scheduled speak against their clique. */
import { expect, test } from "vitest";
import type { Pod } from "../../model/kubernetes.generated.ts";
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
  }) as unknown as Pod;

const failed = { terminated: { exitCode: 1 } };
const ended = { terminated: { exitCode: 0 } };
const nothing = { live: 1, ready: 0, scheduled: 0, gated: 0, readyOrStarting: 0 };
const starting = { ...nothing, scheduled: 1, readyOrStarting: 1 };
const against = { ...nothing, scheduled: 1, readyOrStarting: 0 };

test.each<[string, Wish, object]>([
  ["waits at its gate", { scheduled: "False", reason: "SchedulingGated" }, { ...nothing, gated: 1 }],
  ["finds no node", { scheduled: "False", reason: "Unschedulable" }, nothing],
  ["pulls its image", { phase: "Pending", main: { started: false, ready: false } }, starting],
  ["is inside its startup probe", { main: { started: false, ready: false } }, starting],
  ["is ready", { isReady: true, main: { started: true, ready: true } }, { ...starting, ready: 1 }],
  ["runs and does not answer", { main: { started: true, ready: false } }, against],
  ["has failed before and waits to start again", { main: { ready: false, lastState: failed } }, against],
  ["has an init container that failed before", { init: { ready: false, lastState: failed } }, against],
  ["fails for the first time: its state swings and is not asked", { main: { ready: false, state: failed } }, starting],
  ["has ended well before", { main: { ready: false, lastState: ended } }, starting],
  ["has failed before and is ready", { isReady: true, main: { lastState: failed } }, { ...starting, ready: 1 }],
  ["was evicted: it has ended and holds no node", { phase: "Failed" }, nothing],
  ["is going and still ready", { isReady: true, isLeaving: true }, { ...starting, ready: 1, live: 0 }],
])("a pod that %s", (_does, wish, counts) => {
  expect(countPods([pod(wish)])).toEqual(counts);
});
