/**
 * A pod's status during a step: containers with their roles and plans, the phase that is derived from them, and the
 * conditions that are derived from both.
 */

import type {
  Container,
  ContainerState,
  ContainerStatus,
  Pod,
  PodCondition,
  PodStatus,
} from "../../model/kubernetes.generated.ts";
import { copyJson } from "../../model/objects/json.ts";
import { seededHex } from "../../model/values/seeded.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { ContainerRole } from "./podPlan.ts";

/**
 * What a node remembers about a pod beyond its object: times in milliseconds, where objects have seconds. It may be
 * lost or stale: a remembered time counts only if it is within the second of the object.
 */
export type PodMemory = Readonly<Record<string, number>>;

export interface ContainerView {
  readonly container: Container;
  readonly role: ContainerRole;
  readonly status: ContainerStatus;
}

export interface PodView {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly inits: readonly ContainerView[];
  readonly mains: readonly ContainerView[];
  readonly memory: Record<string, number>;
}

/** A copy to work on; missing container statuses are added. */
export function viewPod(pod: Pod, memory: PodMemory): PodView {
  const status: PodStatus = copyJson(pod.status ?? {});
  const hasInits = (pod.spec?.initContainers ?? []).length > 0;
  const view = (container: Container, role: ContainerRole, known: Map<string, ContainerStatus>): ContainerView => ({
    container,
    role,
    status: known.get(container.name) ?? freshStatus(container, role, hasInits),
  });
  const knownInits = byName(status.initContainerStatuses);
  const inits = (pod.spec?.initContainers ?? []).map((each) =>
    view(each, each.restartPolicy === "Always" ? "sidecar" : "init", knownInits),
  );
  const knownMains = byName(status.containerStatuses);
  const mains = (pod.spec?.containers ?? []).map((each) => view(each, "main", knownMains));
  if (hasInits) status.initContainerStatuses = inits.map((each) => each.status);
  status.containerStatuses = mains.map((each) => each.status);
  return { pod, status, inits, mains, memory: { ...memory } };
}

function byName(statuses: readonly ContainerStatus[] | undefined): Map<string, ContainerStatus> {
  return new Map((statuses ?? []).map((each) => [each.name, each]));
}

function freshStatus(container: Container, role: ContainerRole, hasInits: boolean): ContainerStatus {
  const status: ContainerStatus = {
    name: container.name,
    image: container.image ?? "",
    imageID: "",
    ready: false,
    restartCount: 0,
    state: { waiting: { reason: hasInits ? "PodInitializing" : "ContainerCreating" } },
  };
  return role === "init" ? status : { ...status, started: false };
}

export function startContainer(view: PodView, { container, role, status }: ContainerView, nowMs: number): void {
  const before = status.state?.terminated ?? status.lastState?.terminated;
  const isRestart = before !== undefined;
  if (isRestart) {
    status.lastState = { terminated: before };
    status.restartCount++;
  }
  const { uid } = view.pod.metadata;
  const id = `${seededHex(32, uid, container.name, status.restartCount)}${seededHex(32, uid, "id", container.name, status.restartCount)}`;
  status.state = { running: { startedAt: formatTime(nowMs) } };
  status.containerID = `containerd://${id}`;
  status.imageID = `${container.image ?? ""}@sha256:${seededHex(32, "image", container.image ?? "")}${seededHex(32, container.image ?? "")}`;
  status.ready = false;
  if (role !== "init") status.started = container.startupProbe === undefined;
  view.memory[`start/${container.name}`] = nowMs;
}

/** Ephemeral containers start at once and do not affect the phase. */
export function startEphemeral({ pod, status }: PodView, nowMs: number): void {
  const known = byName(status.ephemeralContainerStatuses);
  const fresh: ContainerStatus[] = [];
  for (const { name, image = "" } of pod.spec?.ephemeralContainers ?? []) {
    if (known.has(name)) continue;
    const running: ContainerStatus = {
      name,
      image,
      imageID: "",
      ready: false,
      restartCount: 0,
      state: { running: { startedAt: formatTime(nowMs) } },
    };
    fresh.push(running);
  }
  if (fresh.length > 0) status.ephemeralContainerStatuses = [...(status.ephemeralContainerStatuses ?? []), ...fresh];
}

export interface ContainerEnd {
  readonly exitCode: number;
  readonly reason: string;
  readonly message?: string | undefined;
}

export function endContainer(
  view: PodView,
  { container, role, status }: ContainerView,
  end: ContainerEnd,
  nowMs: number,
): void {
  const startedAt = status.state?.running?.startedAt;
  status.state = {
    terminated: {
      exitCode: end.exitCode,
      reason: end.reason,
      ...(end.message === undefined ? {} : { message: end.message }),
      ...(startedAt === undefined ? {} : { startedAt }),
      finishedAt: formatTime(nowMs),
      ...(status.containerID === undefined ? {} : { containerID: status.containerID }),
    },
  };
  // A completed init container counts as ready; other terminated containers do not.
  status.ready = role === "init" && end.exitCode === 0;
  if (role !== "init") status.started = false;
  view.memory[`end/${container.name}`] = nowMs;
}

/** When the container started, in milliseconds if known. */
export function startedMsOf(view: PodView, { container, status }: ContainerView): number | undefined {
  return precise(status.state?.running?.startedAt, view.memory[`start/${container.name}`]);
}

/** When its last run ended, from its state or its lastState. */
export function endedMsOf(view: PodView, { container, status }: ContainerView): number | undefined {
  const ended = status.state?.terminated ?? status.lastState?.terminated;
  return precise(ended?.finishedAt, view.memory[`end/${container.name}`]);
}

export function precise(stamp: string | undefined, remembered: number | undefined): number | undefined {
  const ms = timeToMs(stamp);
  if (ms === undefined || remembered === undefined) return ms;
  return Math.floor(remembered / 1000) * 1000 === ms ? remembered : ms;
}

export function hasEnded({ status }: ContainerView): boolean {
  return status.state?.terminated !== undefined;
}

export function isRunning({ status }: ContainerView): boolean {
  return status.state?.running !== undefined;
}

/** Whether an init container allows the next one to start. */
export function letsNextStart({ role, status }: ContainerView): boolean {
  if (role === "sidecar") return status.state?.running !== undefined && status.started === true;
  return status.state?.terminated?.exitCode === 0;
}

export function hasStarted({ status }: ContainerView): boolean {
  // The API keeps an empty `lastState` for a container that has never run.
  return (status.state?.running ?? status.state?.terminated ?? status.lastState?.terminated) !== undefined;
}

/** Once a main container has started, initialization is complete: a sidecar that ends later does not change that. */
export function isInitialised({ inits, mains }: PodView): boolean {
  return mains.some(hasStarted) || inits.every(letsNextStart);
}

/**
 * Whether a terminated container is restarted; container rules come before the container's policy, and that before the
 * pod's.
 */
export function mayRestart(pod: Pod, { container, role }: ContainerView, exitCode: number): boolean {
  for (const { action, exitCodes } of container.restartPolicyRules ?? []) {
    const listed = exitCodes?.values?.includes(exitCode) === true;
    const matches = exitCodes?.operator === "NotIn" ? !listed : listed;
    if (matches && exitCodes !== undefined) return action === "Restart";
  }
  if (role === "sidecar") return true;
  const policy = container.restartPolicy ?? pod.spec?.restartPolicy ?? "Always";
  if (policy === "Never") return false;
  return exitCode !== 0 || (policy === "Always" && role === "main");
}

const backoffBaseMs = 10_000;
const backoffMsMax = 300_000;
/** A container that has run this long resets its back-off. */
const backoffResetMs = 600_000;

/** The restart back-off: none the first time, then 10 s, 20 s and so on up to five minutes. */
export function backoffMs(view: PodView, each: ContainerView): number {
  const { container, status } = each;
  const key = `forgiven/${container.name}`;
  const ended = status.state?.terminated ?? status.lastState?.terminated;
  const ranMs = (timeToMs(ended?.finishedAt) ?? 0) - (timeToMs(ended?.startedAt) ?? Number.POSITIVE_INFINITY);
  if (ranMs >= backoffResetMs) view.memory[key] = status.restartCount;
  const crashes = status.restartCount - Math.min(view.memory[key] ?? 0, status.restartCount);
  return crashes === 0 ? 0 : Math.min(backoffMsMax, backoffBaseMs * 2 ** Math.min(crashes - 1, 10));
}

export function isFinal(pod: Pod, each: ContainerView): boolean {
  const ended = each.status.state?.terminated;
  return ended !== undefined && !mayRestart(pod, each, ended.exitCode);
}

/** The phase that is derived from the containers; it never goes back. */
export function phaseOf({ pod, inits, mains, status }: PodView): string {
  const before = status.phase ?? "Pending";
  if (before === "Succeeded" || before === "Failed") return before;
  const failedInit = inits.some((each) => each.role === "init" && isFinal(pod, each) && !letsNextStart(each));
  if (failedInit) return "Failed";
  if (mains.length > 0 && mains.every((each) => isFinal(pod, each))) {
    const allWell = mains.every((each) => each.status.state?.terminated?.exitCode === 0);
    return allWell ? "Succeeded" : "Failed";
  }
  if (before === "Running") return "Running";
  return mains.some(hasStarted) ? "Running" : "Pending";
}

export interface ConditionOptions {
  readonly gates: "wait" | "satisfy";
  readonly nowMs: number;
  /**
   * Sets Ready again that the node lifecycle controller set to False while the node was silent; only for a healthy
   * node.
   */
  readonly restoreReady: boolean;
}

/** Sets the conditions that a kubelet owns. */
export function settleConditions(view: PodView, wish: ConditionOptions): void {
  const { pod, status, inits, mains } = view;
  const phase = status.phase;
  const { generation: observedGeneration } = pod.metadata;
  const generation = observedGeneration === undefined ? {} : { observedGeneration };
  const set = (type: string, isTrue: boolean, why?: { reason: string; message?: string }) =>
    setCondition(
      status,
      { type, ...generation, status: isTrue ? "True" : "False", ...(isTrue ? {} : why) },
      wish.nowMs,
    );
  set("PodReadyToStartContainers", status.podIP !== undefined && phase !== "Succeeded" && phase !== "Failed");
  const ended = phase === "Succeeded" ? "PodCompleted" : phase === "Failed" ? "PodFailed" : undefined;
  const waitingInits = isInitialised(view) ? [] : inits.filter((each) => !letsNextStart(each));
  if (phase === "Succeeded")
    setCondition(status, { type: "Initialized", ...generation, status: "True", reason: "PodCompleted" }, wish.nowMs);
  else
    set("Initialized", waitingInits.length === 0, {
      reason: "ContainersNotInitialized",
      message: `containers with incomplete status: [${names(waitingInits)}]`,
    });
  const serving = [...inits.filter(({ role }) => role === "sidecar"), ...mains];
  const unready = serving.filter(({ status: each }) => !each.ready);
  const notReady = { reason: "ContainersNotReady", message: `containers with unready status: [${names(unready)}]` };
  const containersReady = ended === undefined && unready.length === 0 && phase === "Running";
  const why = ended === undefined ? notReady : { reason: ended };
  if (!wish.restoreReady && wasTakenBack(status, containersReady)) return;
  set("ContainersReady", containersReady, why);
  const gates = (pod.spec?.readinessGates ?? []).map(({ conditionType }) => conditionType);
  if (wish.gates === "satisfy" && containersReady) for (const gate of gates) set(gate, true);
  const closed = gates.filter((gate) => status.conditions?.find(({ type }) => type === gate)?.status !== "True");
  const shut = {
    reason: "ReadinessGatesNotReady",
    message: `corresponding condition of pod readiness gate ${closed.map((gate) => JSON.stringify(gate)).join(", ")} is not "True"`,
  };
  set("Ready", containersReady && closed.length === 0, containersReady ? shut : why);
  set("PodScheduled", true);
}

function wasTakenBack(status: PodStatus, containersReady: boolean): boolean {
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  return containersReady && ready?.status === "False" && ready.reason !== "ContainersNotReady";
}

function names(views: readonly ContainerView[]): string {
  return views.map(({ container }) => container.name).join(" ");
}

/** lastTransitionTime changes only with the status. */
export function setCondition(status: PodStatus, wanted: PodCondition, nowMs: number): void {
  status.conditions ??= [];
  const at = status.conditions.findIndex(({ type }) => type === wanted.type);
  const before = status.conditions[at];
  const moved = before?.status !== wanted.status;
  const next: PodCondition = {
    ...(before?.observedGeneration === undefined ? {} : { observedGeneration: before.observedGeneration }),
    ...wanted,
    lastTransitionTime: moved ? formatTime(nowMs) : (before?.lastTransitionTime ?? formatTime(nowMs)),
  };
  if (before === undefined) status.conditions.push(next);
  else status.conditions[at] = next;
}

export function waiting(reason: string, message?: string): ContainerState {
  return { waiting: message === undefined ? { reason } : { reason, message } };
}
