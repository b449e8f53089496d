/**
 * What a simulated node does next about one pod: from the bound pod to its end and its removal. The machine is a table
 * of rules; each says when it is due and what it does. All that is due is done in one write, so a node without delays
 * costs one write from Pending to Running; a phase is always left visible for a moment.
 */
import { equalJson } from "../../model/json.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { formatTime, timeToMs } from "../../model/time.ts";
import { admitPod, isAdmitted } from "./admission.ts";
import {
  type Assignment,
  assignmentOf,
  type DeviceUnits,
  deviceHealthOf,
  heldDevices,
  pluginResources,
} from "./devices.ts";
import { type Fault, nextFaultMs, numberParam, podFaultsAt } from "./faults.ts";
import { marks } from "./marks.ts";
import type { NodeState } from "./nodeState.ts";
import { earliest, eventTarget, type Next, type NodeEvent, type NodeWrite, podRef } from "./nodeWrite.ts";
import { addressesFor } from "./podAddress.ts";
import { type ContainerPlan, type Delays, planContainer, sandboxDelayMs } from "./podPlan.ts";
import {
  backoffMs,
  type ContainerView,
  endContainer,
  endedMsOf,
  hasEnded,
  isFinal,
  isRunning,
  lightIsGreen,
  mayRestart,
  type PodMemory,
  type PodView,
  phaseOf,
  precise,
  settleConditions,
  startContainer,
  startedMsOf,
  viewPod,
  waiting,
} from "./podStatus.ts";
import type { SimNode } from "./simNode.ts";

export interface PodLifeOptions {
  readonly clusterSeed: string;
  readonly delays: Delays;
  /** Whether readiness gates wait for whoever sets them, or are set by the node as KWOK does. */
  readonly gates: "wait" | "satisfy";
  readonly events: "all" | "warnings" | "none";
  readonly ignoreMissing?: boolean;
}

export interface PodInput {
  readonly pod: Pod;
  readonly node: Node;
  readonly sim: SimNode;
  /** From nextForNode: what the node is capable of now. */
  readonly state: NodeState;
  readonly faults: readonly Fault[];
  /**
   * The pods bound to the node, this one included or not. It must show every write of ours that was acknowledged, or
   * a device or an address is given twice.
   */
  readonly pods: () => Iterable<Pod>;
  /** Devices whose pods are gone from the API while their processes still run. */
  readonly ghosts?: readonly Ghost[];
  /** False while claims of the pod are not prepared on the node. */
  readonly claimsPrepared?: boolean;
  readonly memory?: PodMemory;
  readonly options: PodLifeOptions;
  readonly nowMs: number;
}

export interface PodNext extends Next {
  /** To be handed in next time. */
  readonly memory: PodMemory;
  /** 1 when the node refused the pod in this step; scheduler tests want the sum at zero. */
  readonly refusals: number;
}

/** A pod that the API has forgotten and the node has not. */
export interface Ghost {
  readonly podUid: string;
  readonly devices: readonly string[];
  readonly untilMs: number;
}

const stepsMax = 10_000;

export function nextForPod(input: PodInput): PodNext {
  const { pod, state, nowMs } = input;
  const memory = input.memory ?? {};
  const nothing = (wakeAtMs?: number): PodNext => ({ writes: [], wakeAtMs, memory, refusals: 0 });
  if (!state.alive) return nothing(state.nextMs);
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed") return { ...nothing(), writes: removal(pod) };
  if (pod.metadata.deletionTimestamp !== undefined) return stopPod(input);
  const step = new Step(input, viewPod(pod, memory));
  if (!isAdmitted(pod)) {
    const refused = step.admit();
    if (refused !== undefined) return refused;
  }
  for (let i = 0; ; i++) {
    if (i > stepsMax) throw new Error(`pod ${pod.metadata.uid} takes steps without end`);
    const due = step.firstDue();
    if (due === undefined || due.atMs > nowMs) return step.result(due?.atMs);
    // A pod that has just become Running is shown so before anything in it ends.
    if (due.ends === true && step.hasMoved()) return step.result(nowMs);
    due.act();
    step.settlePhase();
    if (step.isOver()) return step.result(undefined);
  }
}

interface Due {
  readonly atMs: number;
  /** It ends a container. */
  readonly ends?: boolean;
  readonly act: () => void;
}

interface Rule {
  readonly name: string;
  /** When it should happen; undefined when it does not apply. */
  due(step: Step): Due | undefined;
}

/** The life of a container, in the order in which rules that are due at one moment are applied. */
const rules: readonly Rule[] = [
  {
    name: "the pod has run longer than it may",
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
    name: "a reboot ends what ran before it",
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
    name: "a broken GPU may end the containers on it",
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
            // Once is enough, also for a node that remembers only seconds.
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
      if (!step.hasSandbox()) return undefined;
      const each = step.view.inits.find((init) => !lightIsGreen(init));
      if (each === undefined) return undefined;
      return step.dueForContainer(each, step.readyForInitMs(each));
    },
  },
  {
    name: "sidecars come back when they end",
    due(step) {
      const ended = step.view.inits.filter((each) => each.role === "sidecar");
      const blocked = step.view.inits.find((init) => !lightIsGreen(init));
      const due = ended.filter((each) => each !== blocked).map((each) => step.dueForContainer(each, 0));
      return first(due);
    },
  },
  {
    name: "main containers start together when initialisation is done, and run their course",
    due(step) {
      if (!step.hasSandbox() || !step.view.inits.every(lightIsGreen)) return undefined;
      const sinceMs = step.initialisedMs();
      return first(step.view.mains.map((each) => step.dueForContainer(each, sinceMs)));
    },
  },
];

function first(dues: readonly (Due | undefined)[]): Due | undefined {
  let found: Due | undefined;
  for (const due of dues) if (due !== undefined && (found === undefined || due.atMs < found.atMs)) found = due;
  return found;
}

/** One step in the making: the view that rules change, and what has been said on the way. */
class Step {
  readonly input: PodInput;
  readonly pod: Pod;
  readonly view: PodView;
  readonly nowMs: number;
  readonly units: DeviceUnits;
  readonly events: NodeEvent[] = [];
  #assignment: Assignment;
  #annotations: Record<string, string> | undefined;

  constructor(input: PodInput, view: PodView) {
    this.input = input;
    this.pod = input.pod;
    this.view = view;
    this.nowMs = input.nowMs;
    const { mig } = input.state;
    this.units = pluginResources(input.sim, {
      unhealthy: input.state.unhealthy,
      down: input.state.pluginDown,
      ...(mig === undefined ? {} : { mig }),
    });
    this.#assignment = assignmentOf(input.pod);
  }

  containers(): ContainerView[] {
    return [...this.view.inits, ...this.view.mains];
  }

  devicesOf({ container }: ContainerView): string[] {
    return Object.values(this.#assignment[container.name] ?? {}).flat();
  }

  /** Takes the pod, or answers with the refusal. */
  admit(): PodNext | undefined {
    const { pod, input, nowMs } = this;
    const pods = [...input.pods()];
    const held = heldDevices(pods.filter(({ metadata }) => metadata.uid !== pod.metadata.uid));
    for (const { podUid, devices, untilMs } of input.ghosts ?? []) {
      if (untilMs > nowMs) for (const id of devices) held.set(id, podUid);
    }
    const { node, options } = input;
    const ignoreMissing = options.ignoreMissing === true;
    const admission = admitPod({ pod, node, pods, units: this.units, held, ignoreMissing });
    const { status } = this.view;
    status.startTime = formatTime(nowMs);
    this.view.memory["admitted"] = nowMs;
    if (!admission.ok) {
      const { reason, message } = admission;
      this.say("Warning", reason, message);
      const refused = {
        ...pod,
        status: { ...pod.status, phase: "Failed", reason, message, startTime: formatTime(nowMs) },
      };
      const write: NodeWrite = { kind: "update", ref: podRef(pod.metadata, "status"), object: refused };
      return { writes: [write, ...this.events], wakeAtMs: undefined, memory: {}, refusals: 1 };
    }
    status.phase = "Pending";
    this.#assignment = admission.assignment;
    if (Object.keys(admission.assignment).length > 0) {
      this.#annotations = { ...pod.metadata.annotations, [marks.devices]: JSON.stringify(admission.assignment) };
    }
    return undefined;
  }

  firstDue(): Due | undefined {
    return first(rules.map((rule) => rule.due(this)));
  }

  hasSandbox(): boolean {
    return this.view.status.podIP !== undefined;
  }

  openSandbox(): void {
    const { status, memory } = this.view;
    const addresses = addressesFor(this.pod, this.input.node, this.input.pods());
    if (addresses === undefined) {
      const message = `no free address in the pod range of node ${this.input.sim.name}`;
      this.say("Warning", "FailedCreatePodSandBox", message);
      this.failAll("OutOfPodIPs", message);
      return;
    }
    const [hostIP] = addresses.hostIPs;
    if (hostIP !== undefined) status.hostIP = hostIP;
    status.hostIPs = addresses.hostIPs.map((ip) => ({ ip }));
    const [podIP] = addresses.podIPs;
    status.podIP = podIP ?? "127.0.0.1";
    status.podIPs = (addresses.podIPs.length > 0 ? addresses.podIPs : ["127.0.0.1"]).map((ip) => ({ ip }));
    memory["sandbox"] = this.nowMs;
  }

  sandboxMs(): number {
    const { status, memory } = this.view;
    const condition = status.conditions?.find(({ type }) => type === "PodReadyToStartContainers");
    if (condition?.status !== "True") return memory["sandbox"] ?? this.nowMs;
    return precise(condition.lastTransitionTime, memory["sandbox"]) ?? this.nowMs;
  }

  /** The moment from which this init container may start: when the one before it gave way. */
  readyForInitMs(each: ContainerView): number {
    const before = this.view.inits[this.view.inits.indexOf(each) - 1];
    if (before === undefined) return this.sandboxMs();
    return Math.max(this.sandboxMs(), this.gaveWayMs(before));
  }

  initialisedMs(): number {
    return Math.max(this.sandboxMs(), ...this.view.inits.map((each) => this.gaveWayMs(each)));
  }

  gaveWayMs(each: ContainerView): number {
    const ms = each.role === "sidecar" ? startedMsOf(this.view, each) : endedMsOf(this.view, each);
    return ms ?? 0;
  }

  planInput() {
    const { pod, faults, options, sim } = this.input;
    const { clusterSeed, delays } = options;
    return { pod, node: sim.name, faults, clusterSeed, delays, nowMs: this.nowMs };
  }

  plan(each: ContainerView): ContainerPlan {
    const { container, role, status } = each;
    // A container that waits for its restart is planned as the run that comes next.
    const isWaitingAgain =
      status.state?.running === undefined && (status.state?.terminated ?? status.lastState?.terminated);
    const restarts = status.restartCount + (isWaitingAgain ? 1 : 0);
    return planContainer({ ...this.planInput(), container, role, restarts });
  }

  /** What happens to one container next. `sinceMs` is when it was first allowed to start. */
  dueForContainer(each: ContainerView, sinceMs: number): Due | undefined {
    const { state } = each.status;
    if (state?.terminated !== undefined) return this.dueAfterEnd(each);
    if (state?.running !== undefined) return this.dueWhileRunning(each);
    if (each.status.lastState?.terminated !== undefined) return this.dueAfterEnd(each);
    const plan = this.plan(each);
    const startMs = sinceMs + plan.startMs;
    if (!plan.pullFails) return { atMs: startMs, act: () => this.start(each) };
    return this.dueForPull(each, startMs);
  }

  /** An image that cannot be had: the error first, and the back-off from then on. */
  dueForPull(each: ContainerView, startMs: number): Due | undefined {
    const image = each.container.image ?? "";
    const reason = each.status.state?.waiting?.reason;
    if (reason === "ImagePullBackOff") return undefined;
    const failedKey = `pull/${each.container.name}`;
    const failedMs = this.view.memory[failedKey] ?? this.nowMs;
    if (reason === "ErrImagePull") {
      return {
        atMs: failedMs + 10_000,
        act: () => {
          each.status.state = waiting("ImagePullBackOff", `Back-off pulling image ${JSON.stringify(image)}`);
          this.say("Warning", "BackOff", `Back-off pulling image ${JSON.stringify(image)}`);
        },
      };
    }
    return {
      atMs: startMs,
      act: () => {
        const message = `failed to pull image ${JSON.stringify(image)}: not found`;
        each.status.state = waiting("ErrImagePull", message);
        this.view.memory[failedKey] = this.nowMs;
        this.say("Warning", "Failed", message);
      },
    };
  }

  dueWhileRunning(each: ContainerView): Due | undefined {
    const { status, container, role } = each;
    const plan = this.plan(each);
    const startedMs = startedMsOf(this.view, each) ?? this.nowMs;
    const dues: (Due | undefined)[] = [];
    if (plan.runMs !== undefined) {
      dues.push({
        atMs: startedMs + plan.runMs,
        ends: true,
        act: () => {
          this.end(each, plan);
          if (plan.failsPod) this.failAll(plan.reason, plan.message);
        },
      });
    }
    if (role !== "init" && status.started !== true) {
      dues.push({ atMs: startedMs + plan.startedMs, act: () => Object.assign(status, { started: true }) });
    } else if (role !== "init" && !status.ready) {
      const readyMs = startedMs + Math.max(plan.readyMs, container.startupProbe === undefined ? 0 : plan.startedMs);
      dues.push({ atMs: readyMs, act: () => Object.assign(status, { ready: true }) });
    }
    return first(dues);
  }

  dueAfterEnd(each: ContainerView): Due | undefined {
    const { status, container } = each;
    const ended = status.state?.terminated ?? status.lastState?.terminated;
    if (ended === undefined || !mayRestart(this.pod, each, ended.exitCode)) return undefined;
    const wait = backoffMs(this.view, each);
    const endedMs = endedMsOf(this.view, each) ?? this.nowMs;
    const atMs = endedMs + wait;
    if (status.state?.terminated !== undefined && wait > 0 && atMs > this.nowMs) {
      const message = `back-off ${wait >= 300_000 ? "5m0s" : goSeconds(wait)} restarting failed container=${container.name} pod=${this.pod.metadata.name}_${this.pod.metadata.namespace ?? ""}(${this.pod.metadata.uid})`;
      return {
        atMs: endedMs,
        act: () => {
          status.lastState = { terminated: ended };
          status.state = waiting("CrashLoopBackOff", message);
          this.say(
            "Warning",
            "BackOff",
            `Back-off restarting failed container ${container.name} in pod ${this.pod.metadata.name}`,
          );
        },
      };
    }
    return { atMs, act: () => this.start(each) };
  }

  start(each: ContainerView): void {
    startContainer(this.view, each, this.nowMs);
    this.say("Normal", "Started", `Container started: ${each.container.name}`);
  }

  end(each: ContainerView, how: { exitCode: number; reason: string; message?: string | undefined }): void {
    endContainer(this.view, each, how, this.nowMs);
    if (each.role === "sidecar" || !isFinal(this.pod, each)) return;
    // Sidecars leave when the last of the others has.
    if (this.view.mains.every((main) => isFinal(this.pod, main))) this.endSidecars();
  }

  endSidecars(): void {
    for (const each of this.view.inits) {
      if (each.role === "sidecar" && isRunning(each)) {
        endContainer(this.view, each, { exitCode: 0, reason: "Completed" }, this.nowMs);
      }
    }
  }

  /** The pod is over, whatever its containers say. */
  failAll(reason: string, message: string | undefined): void {
    for (const each of this.containers()) {
      if (isRunning(each)) endContainer(this.view, each, { exitCode: 137, reason: "Error" }, this.nowMs);
    }
    const { status } = this.view;
    status.phase = "Failed";
    status.reason = reason;
    if (message !== undefined) status.message = message;
  }

  settlePhase(): void {
    const { status } = this.view;
    status.phase = phaseOf(this.view);
    if (status.phase === "Failed") this.endSidecars();
  }

  hasMoved(): boolean {
    return this.view.status.phase !== (this.pod.status?.phase ?? "Pending");
  }

  isOver(): boolean {
    const { phase } = this.view.status;
    return phase === "Succeeded" || phase === "Failed";
  }

  say(type: "Normal" | "Warning", reason: string, message: string): void {
    const { events } = this.input.options;
    if (events === "none" || (events === "warnings" && type === "Normal")) return;
    this.events.push({ kind: "event", regarding: eventTarget(this.pod), type, reason, message });
  }

  result(wakeAtMs: number | undefined): PodNext {
    const { pod, view, nowMs, input } = this;
    for (const each of this.containers()) {
      const health = deviceHealthOf(this.#assignment[each.container.name], this.units);
      if (health !== undefined) each.status.allocatedResourcesStatus = health;
    }
    const restoreReady = input.state.notReady === undefined;
    settleConditions(view, { gates: input.options.gates, nowMs, restoreReady });
    const changed = this.#annotations !== undefined || !equalJson(view.status, pod.status);
    const metadata =
      this.#annotations === undefined ? pod.metadata : { ...pod.metadata, annotations: this.#annotations };
    const object = { ...pod, metadata, status: view.status };
    const writes: NodeWrite[] = changed ? [{ kind: "update", ref: podRef(pod.metadata, "status"), object }] : [];
    const wake = this.isOver() ? undefined : earliest(wakeAtMs, input.state.nextMs, nextFaultMs(input.faults, nowMs));
    return { writes: [...writes, ...this.events], wakeAtMs: wake, memory: view.memory, refusals: 0 };
  }
}

function goSeconds(ms: number): string {
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** A pod that has ended leaves when it is asked to; once is enough if a finalizer keeps its object. */
function removal(pod: Pod): NodeWrite[] {
  const { deletionTimestamp, deletionGracePeriodSeconds, uid } = pod.metadata;
  if (deletionTimestamp === undefined || deletionGracePeriodSeconds === 0) return [];
  return [{ kind: "delete", ref: podRef(pod.metadata), uid, graceSeconds: 0 }];
}

/** Deletion: containers are asked to stop, killed when the grace is over, and only then is the object let go. */
function stopPod(input: PodInput): PodNext {
  const { pod, nowMs } = input;
  const view = viewPod(pod, input.memory ?? {});
  const step = new Step(input, view);
  const graceMs = (pod.metadata.deletionGracePeriodSeconds ?? 0) * 1000;
  const stampMs = (timeToMs(pod.metadata.deletionTimestamp) ?? nowMs) - graceMs;
  const askedMs = Math.min(Math.max(view.memory["asked"] ?? nowMs, stampMs), stampMs + 1000);
  view.memory["asked"] = askedMs;
  let wakeAtMs: number | undefined;
  if (isAdmitted(pod)) {
    for (const each of [...view.mains, ...view.inits]) {
      if (!isRunning(each)) continue;
      const plan = step.plan(each);
      const isKilled = plan.stopMs > graceMs;
      const atMs = askedMs + Math.min(plan.stopMs, graceMs);
      if (atMs > nowMs) wakeAtMs = earliest(wakeAtMs, atMs);
      else step.end(each, { exitCode: isKilled ? 137 : 143, reason: "Error" });
    }
  }
  const memory = view.memory;
  if (wakeAtMs !== undefined) {
    const next = equalJson(view.status, pod.status ?? {}) ? undefined : step.result(wakeAtMs);
    return next === undefined ? { writes: [], wakeAtMs, memory, refusals: 0 } : { ...next, wakeAtMs };
  }
  const wasRunning = [...view.mains, ...view.inits].some(hasEnded);
  const writes: NodeWrite[] = [];
  if (wasRunning || graceMs === 0) {
    const allWell = view.mains.length > 0 && view.mains.every(({ status }) => status.state?.terminated?.exitCode === 0);
    view.status.phase = allWell ? "Succeeded" : "Failed";
    writes.push(...step.result(undefined).writes);
  }
  if (graceMs > 0) writes.push({ kind: "delete", ref: podRef(pod.metadata), uid: pod.metadata.uid, graceSeconds: 0 });
  return { writes, wakeAtMs: undefined, memory, refusals: 0 };
}

/**
 * Called when a pod object has disappeared. If its containers were still running (a forced delete), its devices stay in
 * use until they have stopped: the node knows better than the API.
 */
export function ghostOf(input: Pick<PodInput, "pod" | "sim" | "faults" | "options" | "nowMs">): Ghost | undefined {
  const { pod, sim, faults, options, nowMs } = input;
  const devices = Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each).flat());
  if (devices.length === 0 || !isAdmitted(pod)) return undefined;
  const view = viewPod(pod, {});
  const running = [...view.inits, ...view.mains].filter(isRunning);
  const [slow] = podFaultsAt(faults, ["slow-release"], { node: sim.name, pod: pod.metadata, nowMs });
  const extraMs = slow === undefined ? 0 : numberParam(slow, "delay");
  const stops = running.map(({ container, role, status }) => {
    const { clusterSeed, delays } = options;
    return planContainer({
      pod,
      node: sim.name,
      container,
      role,
      restarts: status.restartCount,
      faults,
      clusterSeed,
      delays,
      nowMs,
    }).stopMs;
  });
  const untilMs = nowMs + extraMs + Math.max(0, ...stops);
  return untilMs > nowMs ? { podUid: pod.metadata.uid, devices: [...new Set(devices)], untilMs } : undefined;
}
