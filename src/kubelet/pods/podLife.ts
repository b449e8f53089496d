/**
 * The next writes of a simulated node for one pod, from the bind to its end and deletion. The state machine is a table
 * of rules; each has a time at which it is due and an action. All due rules are applied in one write, so a node without
 * delays needs one write from Pending to Running; Running is always written before the end.
 */

import type { Pod } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { timeToMs } from "../../model/values/time.ts";
import { earliest, identityOf, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import { isAdmitted } from "./admission.ts";
import type { PodInput, PodNext } from "./podInput.ts";
import { sandboxDelayMs } from "./podPlan.ts";
import {
  type ContainerView,
  hasEnded,
  hasStarted,
  isInitialised,
  isRunning,
  letsNextStart,
  precise,
  startedMsOf,
  viewPod,
} from "./podStatus.ts";
import { type Due, firstDue, inOrder, PodStep } from "./podStep.ts";

/** The largest number of rounds in one reconcile. The rest is due at once. */
const roundsMax = 500;

export function nextForPod(input: PodInput): PodNext {
  const { pod, state, nowMs } = input;
  const memory = input.memory ?? {};
  const nothing = (wakeAtMs?: number): PodNext => ({ writes: [], wakeAtMs, memory, refusals: 0 });
  if (!state.alive) return nothing(state.nextMs);
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed") return { ...nothing(), writes: removal(pod) };
  if (pod.metadata.deletionTimestamp !== undefined) return stopPod(input);
  const step = new PodStep(input, viewPod(pod, memory));
  if (!isAdmitted(pod)) {
    const refused = step.admit();
    if (refused !== undefined) return refused;
  }
  for (let round = 0; round < roundsMax; round++) {
    const dues = duesOf(step);
    const [first] = dues;
    if (first === undefined || first.atMs > nowMs) return step.result(first?.atMs);
    // A pod that has just become Running is written before a container of it ends.
    if (first.ends === true && step.hasMoved()) return step.result(nowMs);
    // A pod may have thousands of containers: all due container rules are applied in one round, in order. Ends of
    // containers are in a round of their own, because the phase is computed before them.
    for (const due of dues) {
      if (due.atMs > nowMs || due.ends !== first.ends || step.isOver()) break;
      due.act();
    }
    step.settlePhase();
    if (step.isOver()) return step.result(pod.metadata.deletionTimestamp === undefined ? undefined : nowMs);
  }
  return step.result(nowMs);
}

/** What is due next: one rule for the pod, or rules of main containers before that. */
function duesOf(step: PodStep): Due[] {
  const first = firstDue(rules.map((rule) => rule.due(step)));
  const mains = mainDues(step);
  const before = first === undefined ? mains : mains.filter(({ atMs }) => atMs < first.atMs);
  return first === undefined || before.length > 0 ? before : [first];
}

/** Only the admission of a pod; stages do the rest. */
export function admitOnly(input: PodInput): PodNext {
  const step = new PodStep(input, viewPod(input.pod, input.memory ?? {}));
  return step.admit() ?? step.taken();
}

interface Rule {
  readonly name: string;
  /** When the rule is due; undefined when it does not apply. */
  due(step: PodStep): Due | undefined;
}

/**
 * The rules of a pod without those of its main containers, in the order in which they are applied when they are due at
 * the same time.
 */
const rules: readonly Rule[] = [
  {
    name: "activeDeadlineSeconds is over",
    due(step) {
      const seconds = step.pod.spec?.activeDeadlineSeconds;
      const startMs = timeToMs(step.view.status.startTime);
      if (seconds === undefined || startMs === undefined) return undefined;
      return {
        atMs: startMs + seconds * 1000,
        act: () => step.failAll("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
      };
    },
  },
  {
    name: "a reboot ends the containers that ran before it",
    due(step) {
      const { bootMs } = step.input.state;
      if (bootMs === undefined) return undefined;
      const old = step
        .containers()
        .find((each) => isRunning(each) && (startedMsOf(step.view, each) ?? bootMs) < Math.floor(bootMs / 1000) * 1000);
      return (
        old && {
          atMs: bootMs,
          act: () => step.end(old, { exitCode: 255, reason: "Unknown", message: "the node was rebooted" }),
        }
      );
    },
  },
  {
    name: "an unhealthy GPU may end its containers",
    due(step) {
      for (const fault of step.input.state.gpuFaults) {
        if (!fault.kill) continue;
        const uuids = new Set(
          [...step.units.values()]
            .flat()
            .filter(({ gpu }) => gpu === fault.device)
            .map(({ id }) => id),
        );
        const victim = step.containers().find(
          (each) =>
            isRunning(each) &&
            (startedMsOf(step.view, each) ?? 0) < fault.sinceMs &&
            // Applied once, also with the one-second precision of the object.
            (timeToMs(each.status.lastState?.terminated?.finishedAt) ?? 0) < Math.floor(fault.sinceMs / 1000) * 1000 &&
            step.devicesOf(each).some((id) => uuids.has(id)),
        );
        if (victim)
          return {
            atMs: fault.sinceMs,
            act: () => step.end(victim, { exitCode: 1, reason: "Error", message: fault.text }),
          };
      }
      return undefined;
    },
  },
  {
    name: "the sandbox gets its address once the claims are prepared",
    due(step) {
      const { status, memory } = step.view;
      if (status.podIP !== undefined || (status.hostIP !== undefined && status.podIPs !== undefined)) return undefined;
      if (step.input.claimsPrepared === false) return undefined;
      const admittedMs = precise(status.startTime, memory["admitted"]) ?? step.nowMs;
      return { atMs: admittedMs + sandboxDelayMs(step.planInput()), act: () => step.openSandbox() };
    },
  },
  {
    name: "init containers run one after the other",
    due(step) {
      if (!step.hasSandbox() || isInitialised(step.view)) return undefined;
      const each = step.view.inits.find((init) => !letsNextStart(init));
      if (each === undefined) return undefined;
      return step.dueForContainer(each, step.readyForInitMs(each));
    },
  },
  {
    name: "sidecars are restarted when they end",
    due(step) {
      // The sidecar that initialization waits for is handled by the rule before.
      const isReady = isInitialised(step.view);
      const waitedFor = isReady ? undefined : step.view.inits.find((init) => !letsNextStart(init));
      const others = step.view.inits.filter(
        (each) => each.role === "sidecar" && each !== waitedFor && hasStarted(each),
      );
      return firstDue(others.map((each) => step.dueForContainer(each, 0)));
    },
  },
];

/** Main containers start together after initialization. The earliest rule comes first. */
function mainDues(step: PodStep): Due[] {
  if (!step.hasSandbox() || !isInitialised(step.view)) return [];
  const sinceMs = step.initialisedMs();
  return inOrder(step.view.mains.map((each) => step.dueForContainer(each, sinceMs)));
}

/** A finished pod is deleted when it is terminating; the delete is sent once if a finalizer keeps the object. */
function removal(pod: Pod): NodeWrite<Pod>[] {
  const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
  if (deletionTimestamp === undefined || deletionGracePeriodSeconds === 0) return [];
  return [{ kind: "delete", ref: podRef(pod.metadata), expected: identityOf(pod.metadata), graceSeconds: 0 }];
}

/** Deletion: containers are stopped, killed when the grace is over, and only then is the object deleted. */
function stopPod(input: PodInput): PodNext {
  const { pod, nowMs } = input;
  const view = viewPod(pod, input.memory ?? {});
  const step = new PodStep(input, view);
  const graceMs = (pod.metadata.deletionGracePeriodSeconds ?? 0) * 1000;
  const stampMs = (timeToMs(pod.metadata.deletionTimestamp) ?? nowMs) - graceMs;
  const askedMs = Math.min(Math.max(view.memory["asked"] ?? nowMs, stampMs), stampMs + 1000);
  view.memory["asked"] = askedMs;
  let wakeAtMs: number | undefined;
  if (isAdmitted(pod)) {
    const stop = (each: ContainerView): void => {
      if (!isRunning(each)) return;
      // A preStop hook comes before the stop signal, within the grace.
      const hookMs = step.preStopMs(each);
      const stopMs = step.plan(each).stopMs + hookMs;
      const isKilled = stopMs > graceMs;
      const atMs = askedMs + Math.min(stopMs, graceMs);
      if (atMs > nowMs) wakeAtMs = earliest(wakeAtMs, atMs);
      else step.end(each, { exitCode: isKilled ? 137 : 143, reason: "Error" });
    };
    view.mains.forEach(stop);
    step.settleSidecars();
    view.inits.forEach(stop);
  }
  const memory = view.memory;
  if (wakeAtMs !== undefined) {
    const next = equalFields(view.status, pod.status ?? {}) ? undefined : step.result(wakeAtMs);
    return next === undefined ? { writes: [], wakeAtMs, memory, refusals: 0 } : { ...next, wakeAtMs };
  }
  const wasRunning = [...view.mains, ...view.inits].some(hasEnded);
  const writes: NodeWrite<Pod>[] = [];
  const graceIsOver = wasRunning || graceMs === 0;
  if (graceIsOver) {
    // The object is deleted in the next reconcile, on the version after this write.
    const allWell = view.mains.length > 0 && view.mains.every(({ status }) => status.state?.terminated?.exitCode === 0);
    view.status.phase = allWell ? "Succeeded" : "Failed";
    writes.push(...step.result(undefined).writes);
  } else
    writes.push({ kind: "delete", ref: podRef(pod.metadata), expected: identityOf(pod.metadata), graceSeconds: 0 });
  return { writes, wakeAtMs: graceIsOver ? nowMs : undefined, memory, refusals: 0 };
}
