import type { Pod } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { marks } from "../../model/profiles/marks.ts";
import { formatTime } from "../../model/values/time.ts";
import { runCommand } from "../commands/runCommand.ts";
import {
  type Assignment,
  assignmentOf,
  type DeviceUnits,
  deviceHealthOf,
  heldDevices,
  pluginResources,
} from "../devices/devices.ts";
import { nextFaultMs } from "../node/faults.ts";
import { invalidAnnotations } from "../node/invalidAnnotations.ts";
import { earliest, eventTarget, type NodeEvent, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import { admitPod } from "./admission.ts";
import { addressesFor } from "./podAddress.ts";
import type { PodInput, PodNext } from "./podInput.ts";
import { type ContainerPlan, planContainer } from "./podPlan.ts";
import {
  backoffMs,
  type ContainerView,
  endContainer,
  endedMsOf,
  isFinal,
  isRunning,
  mayRestart,
  type PodView,
  phaseOf,
  precise,
  settleConditions,
  startContainer,
  startEphemeral,
  startedMsOf,
  waiting,
} from "./podStatus.ts";

/** The largest number of Events in one step of one pod. */
const eventsMax = 25;

/** An action on a pod and its time. */
export interface Due {
  readonly atMs: number;
  /** Whether the action ends a container. */
  readonly ends?: boolean;
  readonly act: () => void;
}

/** The earliest action; of equals the first. */
export function firstDue(dues: readonly (Due | undefined)[]): Due | undefined {
  let found: Due | undefined;
  for (const due of dues) if (due !== undefined && (found === undefined || due.atMs < found.atMs)) found = due;
  return found;
}

/** Sorted by time; equals keep their order. */
export function inOrder(dues: readonly (Due | undefined)[]): Due[] {
  return dues.filter((due) => due !== undefined).sort((a, b) => a.atMs - b.atMs);
}

/** The state of one step: the view that rules change, and the Events so far. */
export class PodStep {
  readonly input: PodInput;
  readonly pod: Pod;
  readonly view: PodView;
  readonly nowMs: number;
  readonly units: DeviceUnits;
  readonly events: NodeEvent[] = [];
  #assignment: Assignment;
  #annotations: Record<string, string> | undefined;
  #initsBefore: Map<ContainerView, ContainerView | undefined> | undefined;
  readonly #plans = new Map<string, { readonly restarts: number; readonly plan: ContainerPlan }>();

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

  /** Admits the pod, or returns the refusal. */
  admit(): PodNext | undefined {
    const { pod, input, nowMs } = this;
    const pods = [...input.pods()];
    const held = heldDevices(pods.filter(({ metadata }) => metadata.uid !== pod.metadata.uid));
    for (const { podUid, devices, untilMs } of input.orphans ?? []) {
      if (untilMs > nowMs) for (const id of devices) held.set(id, podUid);
    }
    const claimed = input.claimedGpus?.() ?? new Map<string, string>();
    if (claimed.size > 0) {
      for (const list of this.units.values()) {
        for (const { id, gpu } of list) {
          const claim = claimed.get(id) ?? claimed.get(input.sim.devices[gpu]?.uuid ?? "");
          if (claim !== undefined) held.set(id, claim);
        }
      }
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
      const write: NodeWrite<Pod> = { kind: "update", ref: podRef(pod.metadata, "status"), object: refused };
      return { writes: [write, ...this.events], wakeAtMs: undefined, memory: {}, refusals: 1 };
    }
    for (const problem of invalidAnnotations(pod)) this.say("Warning", "AnnotationUnreadable", problem);
    status.phase = "Pending";
    this.#assignment = admission.assignment;
    if (Object.keys(admission.assignment).length > 0) {
      this.#annotations = { ...pod.metadata.annotations, [marks.devices]: JSON.stringify(admission.assignment) };
    }
    return undefined;
  }

  /** The status of a pod that was just admitted, without more: stages write the rest. */
  taken(): PodNext {
    const { pod, view } = this;
    const metadata =
      this.#annotations === undefined ? pod.metadata : { ...pod.metadata, annotations: this.#annotations };
    const { startTime = "" } = view.status;
    const object = { ...pod, metadata, status: { ...pod.status, phase: "Pending", startTime } };
    const write: NodeWrite<Pod> = { kind: "update", ref: podRef(pod.metadata, "status"), object };
    return { writes: [write, ...this.events], wakeAtMs: undefined, memory: view.memory, refusals: 0 };
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

  /** The time from which this init container may start: when the one before it has completed. */
  readyForInitMs(each: ContainerView): number {
    const before = this.#initBefore(each);
    if (before === undefined) return this.sandboxMs();
    return Math.max(this.sandboxMs(), this.gaveWayMs(before));
  }

  #initBefore(each: ContainerView): ContainerView | undefined {
    this.#initsBefore ??= new Map(this.view.inits.map((init, at) => [init, this.view.inits[at - 1]]));
    return this.#initsBefore.get(each);
  }

  initialisedMs(): number {
    return this.view.inits.reduce((ms, each) => Math.max(ms, this.gaveWayMs(each)), this.sandboxMs());
  }

  gaveWayMs(each: ContainerView): number {
    const ms = each.role === "sidecar" ? startedMsOf(this.view, each) : endedMsOf(this.view, each);
    return ms ?? 0;
  }

  planInput() {
    const { faults, options, sim } = this.input;
    const { clusterSeed, delays } = options;
    const annotations = this.#annotations;
    const pod = annotations === undefined ? this.pod : { ...this.pod, metadata: { ...this.pod.metadata, annotations } };
    return { pod, node: sim.name, sim, faults, clusterSeed, delays, nowMs: this.nowMs };
  }

  plan(each: ContainerView): ContainerPlan {
    const { container, role, status } = each;
    // A container that waits for its restart has the plan of the next run.
    const isWaitingAgain =
      status.state?.running === undefined && (status.state?.terminated ?? status.lastState?.terminated);
    const restarts = status.restartCount + (isWaitingAgain ? 1 : 0);
    // Cached: a plan does not change within a step, and every rule reads it.
    const known = this.#plans.get(container.name);
    if (known?.restarts === restarts) return known.plan;
    const plan = planContainer({ ...this.planInput(), container, role, restarts });
    this.#plans.set(container.name, { restarts, plan });
    return plan;
  }

  /** How long the preStop hook of a container runs. */
  preStopMs({ container, status }: ContainerView): number {
    const { sleep, exec } = container.lifecycle?.preStop ?? {};
    if (exec?.command === undefined) return 1000 * (sleep?.seconds ?? 0);
    const { pod, sim, nowMs } = this.planInput();
    const input = { pod, container: container.name, sim, restarts: status.restartCount, nowMs };
    const run = runCommand(exec.command, input);
    return run.unknown === undefined ? (run.runMs ?? Number.POSITIVE_INFINITY) : 0;
  }

  /** The next action of one container. `sinceMs` is when it was first allowed to start. */
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

  /** An image that cannot be pulled: ErrImagePull first, and the back-off from then on. */
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
    const dues: Due[] = [];
    // A container that ends at once is started and ready first: clients wait for that.
    if (role !== "init" && status.started !== true) {
      dues.push({ atMs: startedMs + plan.startedMs, act: () => Object.assign(status, { started: true }) });
    } else if (role !== "init" && !status.ready) {
      const readyMs = startedMs + Math.max(plan.readyMs, container.startupProbe === undefined ? 0 : plan.startedMs);
      dues.push({ atMs: readyMs, act: () => Object.assign(status, { ready: true }) });
    }
    if (plan.runMs !== undefined) {
      dues.push({
        atMs: startedMs + plan.runMs,
        ends: true,
        act: () => {
          if (plan.killedBy !== undefined) this.reportKill(container.name, plan.killedBy);
          this.end(each, plan);
          if (plan.failsPod) this.failAll(plan.reason, plan.message);
        },
      });
    }
    return firstDue(dues.filter(({ atMs }) => atMs !== Number.POSITIVE_INFINITY));
  }

  private reportKill(container: string, by: NonNullable<ContainerPlan["killedBy"]>): void {
    if (by === "postStart hook") this.say("Warning", "FailedPostStartHook", "PostStartHook failed");
    else this.say("Warning", "Unhealthy", `${by === "liveness probe" ? "Liveness" : "Startup"} probe failed`);
    const text =
      by === "postStart hook" ? "FailedPostStartHook" : `Container ${container} failed ${by}, will be restarted`;
    this.say("Normal", "Killing", text);
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
  }

  /** Sidecars are stopped when the last main container has ended. */
  settleSidecars(): void {
    if (this.view.mains.every((main) => isFinal(this.pod, main))) this.endSidecars();
  }

  endSidecars(): void {
    for (const each of this.view.inits) {
      if (each.role === "sidecar" && isRunning(each)) {
        endContainer(this.view, each, { exitCode: 0, reason: "Completed" }, this.nowMs);
      }
    }
  }

  /** Ends the pod, whatever the state of its containers. */
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
    this.settleSidecars();
    if (status.phase === "Failed") this.endSidecars();
  }

  hasMoved(): boolean {
    return this.view.status.phase !== (this.pod.status?.phase ?? "Pending");
  }

  isOver(): boolean {
    const { phase } = this.view.status;
    return phase === "Succeeded" || phase === "Failed";
  }

  /** Without faults of other nodes. */
  ownFaults() {
    return this.input.faults.filter(({ node }) => node === undefined || node === this.input.sim.name);
  }

  say(type: "Normal" | "Warning", reason: string, message: string): void {
    const { events } = this.input.options;
    if (events === "none" || (events === "warnings" && type === "Normal")) return;
    // A burst limit, as in a kubelet: one pod must not fill the server with Events of its containers.
    if (this.events.length >= eventsMax) return;
    this.events.push({ kind: "event", regarding: eventTarget(this.pod), type, reason, message });
  }

  result(wakeAtMs: number | undefined): PodNext {
    const { pod, view, nowMs, input } = this;
    for (const each of this.containers()) {
      const health = deviceHealthOf(this.#assignment[each.container.name], this.units, input.state.gpuFaults);
      if (health !== undefined) each.status.allocatedResourcesStatus = health;
      reportResources(each);
    }
    if (pod.metadata.generation !== undefined) view.status.observedGeneration = pod.metadata.generation;
    if (!this.isOver() && this.hasSandbox()) startEphemeral(view, nowMs);
    const restoreReady = input.state.notReady === undefined;
    settleConditions(view, { gates: input.options.gates, nowMs, restoreReady });
    const changed = this.#annotations !== undefined || !equalFields(view.status, pod.status);
    const metadata =
      this.#annotations === undefined ? pod.metadata : { ...pod.metadata, annotations: this.#annotations };
    const object = { ...pod, metadata, status: view.status };
    const writes: NodeWrite<Pod>[] = changed ? [{ kind: "update", ref: podRef(pod.metadata, "status"), object }] : [];
    const wake = this.isOver()
      ? undefined
      : earliest(wakeAtMs, input.state.nextMs, nextFaultMs(this.ownFaults(), nowMs));
    return { writes: [...writes, ...this.events], wakeAtMs: wake, memory: view.memory, refusals: 0 };
  }
}

/** The resources of a running container, which equal its requests: a resize is applied at once. */
function reportResources({ container, status }: ContainerView): void {
  const { resources } = container;
  if (status.state?.running === undefined || resources === undefined) return;
  const { limits, requests } = resources;
  status.resources = { ...(limits && { limits }), ...(requests && { requests }) };
  if (requests !== undefined && Object.keys(requests).length > 0) status.allocatedResources = requests;
  else delete status.allocatedResources;
}

function goSeconds(ms: number): string {
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
