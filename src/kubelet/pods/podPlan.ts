/**
 * What will happen to a container: when it starts, how long it runs, how it ends. It follows from annotations (ours and
 * KWOK's), faults and the seed, never from the order in which things happen.
 */
import type { Container, Pod } from "../../model/kubernetes.generated.ts";
import { marks, stageKnob } from "../../model/profiles/marks.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import { durationMs, type Fault, numberParam, podFaultsAt } from "../node/faults.ts";

export interface Span {
  readonly minMs: number;
  readonly maxMs: number;
}

export type DelayName = "sandbox" | "start" | "initRun" | "jobRun" | "stop";
export type Delays = Readonly<Record<DelayName, Span>>;

const noTime: Span = { minMs: 0, maxMs: 0 };

/** Everything at once, like KWOK's fast stages. */
export const fastDelays: Delays = { sandbox: noTime, start: noTime, initRun: noTime, jobRun: noTime, stop: noTime };

/** One to five seconds between the steps, like KWOK's general stages. */
const slow: Span = { minMs: 1000, maxMs: 5000 };
export const generalDelays: Delays = { sandbox: slow, start: slow, initRun: slow, jobRun: slow, stop: slow };

/** What `muster up` does: quick enough not to wait for, slow enough to be seen. */
export const livelyDelays: Delays = {
  sandbox: { minMs: 100, maxMs: 400 },
  start: { minMs: 100, maxMs: 600 },
  initRun: { minMs: 200, maxMs: 800 },
  jobRun: { minMs: 1000, maxMs: 5000 },
  stop: { minMs: 100, maxMs: 1000 },
};

export type ContainerRole = "init" | "sidecar" | "main";

export interface ContainerPlan {
  readonly startMs: number;
  /** From running to ready. */
  readonly readyMs: number;
  /** From running to started, where a startup probe is. */
  readonly startedMs: number;
  /** Undefined: runs until it is stopped. */
  readonly runMs: number | undefined;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string | undefined;
  readonly pullFails: boolean;
  /** From being asked to stop to stopping; longer than the grace is killed. */
  readonly stopMs: number;
  /** KWOK's chaos: when this container has ended so, the whole pod has. */
  readonly failsPod: boolean;
}

export interface PlanInput {
  readonly pod: Pod;
  readonly node: string;
  readonly container: Container;
  readonly role: ContainerRole;
  readonly restarts: number;
  readonly faults: readonly Fault[];
  readonly clusterSeed: string;
  readonly delays: Delays;
  readonly nowMs: number;
}

/** How a pod can ask to end. */
export const outcomes = [
  "Completed",
  "Error",
  "Failed",
  "OOMKilled",
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
] as const;

/** How long a container that is to crash lives by default. */
const crashRunMs = 1000;

export function planContainer(input: PlanInput): ContainerPlan {
  const { pod, container, role, delays } = input;
  const knob = (name: string): string | undefined => {
    const annotations = pod.metadata.annotations ?? {};
    return annotations[`${name}.${container.name}`] ?? annotations[name];
  };
  const duration = (name: string): number | undefined => {
    const text = knob(name);
    return text === undefined ? undefined : positive(durationMs(text));
  };
  const startStage = role === "init" ? "pod-init-container-running" : "pod-ready";
  const runStage = role === "init" ? "pod-init-container-completed" : "pod-complete";
  const ending = endingOf(input, knob);
  const isJob = pod.metadata.ownerReferences?.some(({ kind }) => kind === "Job") === true;
  let runMs = duration(marks.runDuration);
  if (runMs === undefined && ending.bad) runMs = crashRunMs;
  if (runMs === undefined && role === "init")
    runMs = kwokDelay(pod, runStage) ?? drawn(input, "initRun", delays.initRun);
  if (runMs === undefined && role === "main" && isJob) {
    runMs = kwokDelay(pod, runStage) ?? drawn(input, "jobRun", delays.jobRun);
  }
  // A sidecar serves until the others are done; a run duration for the whole pod is not meant for it.
  if (role === "sidecar" && knob(`${marks.runDuration}.${container.name}`) === undefined && !ending.bad)
    runMs = undefined;
  const plan: ContainerPlan = {
    startMs: duration(marks.startDelay) ?? kwokDelay(pod, startStage) ?? drawn(input, "start", delays.start),
    readyMs: duration(marks.readyDelay) ?? (container.readinessProbe?.initialDelaySeconds ?? 0) * 1000,
    startedMs: (container.startupProbe?.initialDelaySeconds ?? 0) * 1000,
    runMs,
    exitCode: ending.exitCode,
    reason: ending.reason,
    message: ending.message,
    pullFails: ending.pullFails,
    stopMs: duration(marks.stopDelay) ?? kwokDelay(pod, "pod-delete") ?? drawn(input, "stop", delays.stop),
    failsPod: false,
  };
  return withKwokChaos(input, withFaults(input, plan));
}

/** How long until the pod has its network: before any container. */
export function sandboxDelayMs(input: Omit<PlanInput, "container" | "role" | "restarts">): number {
  const { pod, node, faults, nowMs } = input;
  const [slowStart] = podFaultsAt(faults, ["slow-start"], { node, pod: pod.metadata, nowMs });
  const extra = slowStart === undefined ? 0 : numberParam(slowStart, "delay");
  const base = kwokDelay(pod, "pod-create");
  return extra + (base ?? drawnFor(input, "sandbox", input.delays.sandbox, ""));
}

interface Ending {
  readonly bad: boolean;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string | undefined;
  readonly pullFails: boolean;
}

function endingOf(input: PlanInput, knob: (name: string) => string | undefined): Ending {
  const outcome = knob(marks.outcome) ?? "Completed";
  const message = knob(marks.message);
  const code = Number(knob(marks.exitCode) ?? Number.NaN);
  const given = Number.isInteger(code) && code >= 0 && code <= 255 ? code : undefined;
  // The first so many runs fail and the next one succeeds.
  const failures = Number(knob(marks.failures) ?? Number.NaN);
  const recovered = Number.isInteger(failures) && input.restarts >= failures;
  const good: Ending = { bad: false, exitCode: 0, reason: "Completed", message: undefined, pullFails: false };
  if (input.role === "init" && knob(`${marks.outcome}.${input.container.name}`) === undefined) return good;
  if (recovered) return good;
  switch (outcome) {
    case "OOMKilled":
      return { bad: true, exitCode: 137, reason: "OOMKilled", message, pullFails: false };
    case "ImagePullBackOff":
    case "ErrImagePull":
      return { ...good, pullFails: true };
    case "Error":
    case "Failed":
    case "CrashLoopBackOff":
      return { bad: true, exitCode: given || 1, reason: "Error", message, pullFails: false };
    default:
      if (given !== undefined && given !== 0)
        return { bad: true, exitCode: given, reason: "Error", message, pullFails: false };
      if (Number.isInteger(failures) && failures > 0) {
        return { bad: true, exitCode: 1, reason: "Error", message, pullFails: false };
      }
      return { ...good, message };
  }
}

/** An injected fault is stronger than what the pod says about itself. */
function withFaults(input: PlanInput, plan: ContainerPlan): ContainerPlan {
  const { pod, node, faults, nowMs, role } = input;
  if (role === "init") return plan;
  const [fault] = podFaultsAt(faults, ["image-pull-error", "crash-loop", "oom"], { node, pod: pod.metadata, nowMs });
  switch (fault?.kind) {
    case "image-pull-error":
      return { ...plan, pullFails: true };
    case "crash-loop":
      return { ...plan, runMs: numberParam(fault, "after"), exitCode: numberParam(fault, "code"), reason: "Error" };
    case "oom":
      return { ...plan, runMs: numberParam(fault, "after"), exitCode: 137, reason: "OOMKilled" };
    default:
      return plan;
  }
}

/** KWOK's chaos stages are switched on by a label; annotations name the container and the failure. */
function withKwokChaos({ pod, container, role }: PlanInput, plan: ContainerPlan): ContainerPlan {
  const stage = role === "init" ? "pod-init-container-running-failed" : "pod-container-running-failed";
  if (role === "sidecar" || pod.metadata.labels?.[stageKnob(stage)] !== "true") return plan;
  const annotation = (knob: string) => pod.metadata.annotations?.[stageKnob(stage, knob)];
  const list = role === "init" ? pod.spec?.initContainers : pod.spec?.containers;
  const target = annotation("container-name") ?? list?.[0]?.name;
  if (target !== container.name) return plan;
  const code = Number(annotation("exit-code") ?? 1);
  return {
    ...plan,
    runMs: kwokDelay(pod, stage) ?? 1000,
    exitCode: Number.isInteger(code) ? code : 1,
    reason: annotation("reason") ?? "Error",
    message: annotation("message"),
    failsPod: true,
  };
}

/**
 * KWOK's `/delay` with `/jitter-delay` as its upper bound, here only where a pod sets them: without the annotation the
 * node's own delays apply.
 */
function kwokDelay(pod: Pod, stage: string): number | undefined {
  const annotations = pod.metadata.annotations;
  const delay = annotations?.[stageKnob(stage, "delay")];
  if (delay === undefined) return undefined;
  const base = positive(durationMs(delay));
  if (base === undefined) return undefined;
  const bound = positive(durationMs(annotations?.[stageKnob(stage, "jitter-delay")] ?? ""));
  if (bound === undefined || bound <= base) return bound ?? base;
  return base + Math.floor((bound - base) * seededFraction(pod.metadata.uid, stage));
}

function drawn(input: PlanInput, name: DelayName, span: Span): number {
  return drawnFor(input, name, span, `${input.container.name}#${input.restarts}`);
}

function drawnFor({ clusterSeed, pod }: { clusterSeed: string; pod: Pod }, name: DelayName, span: Span, which: string) {
  if (span.maxMs <= span.minMs) return span.minMs;
  const fraction = seededFraction(clusterSeed, name, pod.metadata.uid, which);
  return span.minMs + Math.floor(fraction * (span.maxMs - span.minMs));
}

function positive(length: number | undefined): number | undefined {
  return length === undefined || length < 0 ? undefined : length;
}
