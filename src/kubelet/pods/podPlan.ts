/**
 * The plan of a container: when it starts, how long it runs, how it ends. It is derived from annotations (Muster's and
 * KWOK's), faults and the seed, never from the order of events.
 */
import type { Container, Pod, Probe } from "../../model/kubernetes.generated.ts";
import { marks, stageKnob } from "../../model/profiles/marks.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import type { CommandInput } from "../commands/programs.ts";
import { type MainRun, playMain, probeSucceeds, runCommand } from "../commands/runCommand.ts";
import { durationMs, type Fault, numberParam, podFaultsAt } from "../node/faults.ts";
import type { SimNode } from "../node/simNode.ts";

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

/** The default of `muster up`: short, but visible delays. */
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
  /** Undefined: the container runs until it is stopped. */
  readonly runMs: number | undefined;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string | undefined;
  readonly pullFails: boolean;
  /** From the stop signal to the end; a container that takes longer than the grace is killed. */
  readonly stopMs: number;
  /** KWOK's chaos: when this container ends, the pod ends. */
  readonly failsPod: boolean;
  /** Why the kubelet kills the container at the end of its run, if it does. */
  readonly killedBy?: "liveness probe" | "startup probe" | "postStart hook";
}

export interface PlanInput {
  readonly pod: Pod;
  readonly node: string;
  /** The simulated hardware, for commands that read it. */
  readonly sim?: SimNode;
  readonly container: Container;
  readonly role: ContainerRole;
  readonly restarts: number;
  readonly faults: readonly Fault[];
  readonly clusterSeed: string;
  readonly delays: Delays;
  readonly nowMs: number;
}

/** The values of the outcome annotation. */
export const outcomes = [
  "Completed",
  "Error",
  "Failed",
  "OOMKilled",
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
] as const;

/** A container with stdin runs at least this long, so that its client can attach before it ends. */
const attachMs = 1000;
/** How long a container that crashes runs by default. */
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
  const annotated = endingOf(input, knob);
  const isSet = [marks.outcome, marks.exitCode, marks.failures].some((name) => knob(name) !== undefined);
  const main = isSet || knob(marks.runDuration) !== undefined ? undefined : mainRunOf(input);
  const ending = main === undefined ? annotated : endingOfCommand(input, main, annotated);
  const isJob = pod.metadata.ownerReferences?.some(({ kind }) => kind === "Job") === true;
  let runMs = duration(marks.runDuration);
  if (main !== undefined) runMs = kwokDelay(pod, runStage) ?? main.run.runMs;
  if (main !== undefined && runMs !== undefined && container.stdin === true) runMs = Math.max(runMs, attachMs);
  else if (runMs === undefined && ending.bad) runMs = crashRunMs;
  if (main === undefined && runMs === undefined && role === "init")
    runMs = kwokDelay(pod, runStage) ?? drawn(input, "initRun", delays.initRun);
  if (main === undefined && runMs === undefined && role === "main" && isJob) {
    runMs = kwokDelay(pod, runStage) ?? drawn(input, "jobRun", delays.jobRun);
  }
  // A sidecar runs until the others have ended; a run duration of the pod does not apply to it.
  if (
    main === undefined &&
    role === "sidecar" &&
    knob(`${marks.runDuration}.${container.name}`) === undefined &&
    !ending.bad
  )
    runMs = undefined;
  const probes = cached(probeTimes, input, probesOf);
  const plan: ContainerPlan = {
    startMs: duration(marks.startDelay) ?? kwokDelay(pod, startStage) ?? drawn(input, "start", delays.start),
    readyMs: duration(marks.readyDelay) ?? probes.readyMs,
    startedMs: probes.startedMs,
    runMs,
    exitCode: ending.exitCode,
    reason: ending.reason,
    message: ending.message,
    pullFails: ending.pullFails,
    stopMs: duration(marks.stopDelay) ?? kwokDelay(pod, "pod-delete") ?? drawn(input, "stop", delays.stop),
    failsPod: false,
  };
  return withKwokChaos(input, withFaults(input, killedByProbe(plan, probes)));
}

/** By container of one version of a pod and by restart: every rule of every step reads them. */
type Cached<T> = WeakMap<Container, Map<number, T>>;
const mainRuns: Cached<MainRun | undefined> = new WeakMap();
const probeTimes: Cached<ProbeTimes> = new WeakMap();

function cached<T>(cache: Cached<T>, input: PlanInput, compute: (input: PlanInput) => T): T {
  const { container, restarts } = input;
  const known = cache.get(container) ?? new Map<number, T>();
  cache.set(container, known);
  if (!known.has(restarts)) known.set(restarts, compute(input));
  return known.get(restarts) as T;
}

function mainRunOf(input: PlanInput): MainRun | undefined {
  const { command, args, image } = input.container;
  if (command === undefined && args === undefined && image?.includes("pause") !== true) return undefined;
  return cached(mainRuns, input, (each) => playMain(commandInput(each)));
}

function commandInput({ pod, container, sim, restarts, nowMs }: PlanInput): CommandInput {
  return { pod, container: container.name, sim, restarts, nowMs };
}

/** The end of a command that is understood. Its message is the termination log, as a kubelet reads it. */
function endingOfCommand({ container }: PlanInput, { run, files }: MainRun, annotated: Ending): Ending {
  const exitCode = run.exitCode ?? 0;
  const written = files.get(container.terminationMessagePath ?? "/dev/termination-log");
  const usesLog = container.terminationMessagePolicy === "FallbackToLogsOnError" && exitCode !== 0;
  const log = usesLog
    ? run.output
        .map(({ text }) => text)
        .join("")
        .slice(-2048)
    : "";
  const message = annotated.message ?? (written || log || undefined);
  return { bad: exitCode !== 0, exitCode, reason: exitCode === 0 ? "Completed" : "Error", message, pullFails: false };
}

interface ProbeTimes {
  readonly startedMs: number;
  readonly readyMs: number;
  /** When the kubelet kills the container. */
  readonly kill?: { readonly atMs: number; readonly by: NonNullable<ContainerPlan["killedBy"]> };
}

/** Attempts of a probe that are computed: a probe that has not failed by then counts as successful. */
const attemptsMax = 60;

/** The results of exec probes and of the postStart hook. Probes by HTTP, TCP and gRPC always succeed. */
function probesOf(input: PlanInput): ProbeTimes {
  const { container } = input;
  const { startupProbe, readinessProbe, livenessProbe } = container;
  const command = commandInput(input);
  const hook = container.lifecycle?.postStart?.exec?.command;
  const hookRun = hook === undefined ? undefined : runCommand(hook, command);
  const hookMs = hookRun?.runMs ?? 0;
  if (hookRun !== undefined && hookRun.unknown === undefined && (hookRun.exitCode ?? 1) !== 0) {
    return { startedMs: hookMs, readyMs: Number.POSITIVE_INFINITY, kill: { atMs: hookMs, by: "postStart hook" } };
  }
  const firstMs = (probe: Probe | undefined) => (probe?.initialDelaySeconds ?? 0) * 1000;
  const started = startupProbe && attempts(startupProbe, command, hookMs);
  if (started?.successMs === undefined && started?.failureMs !== undefined) {
    return {
      startedMs: Number.POSITIVE_INFINITY,
      readyMs: Number.POSITIVE_INFINITY,
      kill: { atMs: started.failureMs, by: "startup probe" },
    };
  }
  const startedMs = Math.max(hookMs, started?.successMs ?? firstMs(startupProbe));
  const ready =
    readinessProbe?.exec === undefined
      ? undefined
      : attempts({ ...readinessProbe, failureThreshold: Number.POSITIVE_INFINITY }, command, startedMs);
  const readyMs =
    ready === undefined ? Math.max(hookMs, firstMs(readinessProbe)) : (ready.successMs ?? Number.POSITIVE_INFINITY);
  const failureMs =
    livenessProbe?.exec === undefined ? undefined : attempts(livenessProbe, command, startedMs).failureMs;
  if (failureMs === undefined) return { startedMs, readyMs };
  return { startedMs, readyMs, kill: { atMs: failureMs, by: "liveness probe" } };
}

/** When an exec probe first succeeds, and when it has failed `failureThreshold` times in a row. */
function attempts(probe: Probe, command: CommandInput, fromMs: number): { successMs?: number; failureMs?: number } {
  const { initialDelaySeconds = 0, periodSeconds = 10, failureThreshold = 3 } = probe;
  let successMs: number | undefined;
  let failures = 0;
  for (let at = 0; at < attemptsMax; at++) {
    const atMs = fromMs + 1000 * (initialDelaySeconds + at * periodSeconds);
    if (probeSucceeds(probe, command, atMs)) {
      failures = 0;
      successMs ??= atMs;
    } else if (++failures >= failureThreshold) {
      return successMs === undefined ? { failureMs: atMs } : { successMs, failureMs: atMs };
    }
  }
  return successMs === undefined ? {} : { successMs };
}

function killedByProbe(plan: ContainerPlan, { kill }: ProbeTimes): ContainerPlan {
  if (kill === undefined || (plan.runMs !== undefined && plan.runMs <= kill.atMs)) return plan;
  return { ...plan, runMs: kill.atMs, exitCode: 137, reason: "Error", message: undefined, killedBy: kill.by };
}

/** The delay until the pod has its sandbox, before any container. */
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
  // The first runs fail and the next one succeeds.
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

/** An injected fault overrides the pod's annotations. */
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
