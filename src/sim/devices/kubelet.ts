import type { Controllers } from "../../control/runtime/controllers.ts";
import type { ReconcileResult } from "../../control/runtime/loop.ts";
import { kindSource } from "../../control/runtime/sources.ts";
import { isReservedFor } from "../../decide/devices/claims/podClaims.ts";
import { deviceKey } from "../../decide/devices/search/poolDevice.ts";
import { lookAgainAtAll } from "../../intents/lookAgain.ts";
import type { AllocatedDeviceStatus, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { marks } from "../../model/profiles/marks.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { runControllers } from "../controllersProcess.ts";

const podsRef = builtin.Pod;
const claimsRef = builtin.ResourceClaim;
const slicesRef = builtin.ResourceSlice;
const gpuResource = "nvidia.com/gpu";
const startMs = 60;

/**
 * The state of a node, independent of the API: devices by the claim that they are prepared for, and running programs.
 */
export interface NodeMemory {
  readonly prepared: Map<string, string>;
  /** Programs by the UID of their pod. */
  readonly running: Map<string, Program>;
  /** GPUs that the device plugin has allocated, by the UID of the pod. */
  readonly plugged?: Map<string, readonly string[]>;
}

/** A program that runs: its pod, and the claims that it uses. */
export interface Program {
  readonly podKey: string;
  readonly claimUids: readonly string[];
  /** When the program ends; set when its pod is deleted or terminating. */
  endsMs: number | undefined;
}

export interface KubeletOptions {
  /** The time that a program takes to stop. */
  readonly stopMs: number;
  /** A bug of this node, for exhibits. */
  readonly mistakes?: readonly ("releases-unused-claims" | "says-nothing")[];
}

/**
 * The device part of the kubelets: a claim is prepared before a pod starts and unprepared after its last program has
 * stopped, and the status of the claim reports it. Only faults of the API affect this process.
 */
export function kubelet(name: string, memory: NodeMemory, options: KubeletOptions): ActorSpec {
  return {
    name,
    isExemptFromFaults: true,
    run: (ports) => runControllers(ports, (controllers) => addKubelet(controllers, ports, memory, options)),
  };
}

function addKubelet(controllers: Controllers, ports: ActorPorts, memory: NodeMemory, options: KubeletOptions): void {
  const pods = controllers.cache<Pod>(podsRef);
  const claims = controllers.cache<ResourceClaim>(claimsRef);
  const slices = controllers.cache<ResourceSlice>(slicesRef);
  const agent = new Agent(ports, memory, options, {
    pod: (key) => pods.get(key),
    pods: () => pods.view().objects.values(),
    claim: (key) => claims.get(key),
    claims: () => claims.view().objects.values(),
    slices: () => slices.view().objects.values(),
  });
  controllers.add({
    name: "kubelet",
    concurrency: 8,
    sources: [
      kindSource(pods, (event) => {
        const keys = [podPrefix + event.key];
        if (event.type === "deleted")
          for (const claim of agent.claimsOf(event.object) ?? []) keys.push(claimPrefix + keyOf(claim));
        if (event.type === "deleted") agent.deleted(event.object);
        if (event.type === "deleted" && agent.hasPlugged(event.object))
          keys.push(gonePrefix + event.object.metadata.uid);
        return keys;
      }),
      kindSource(claims, (event) => [
        claimPrefix + event.key,
        ...(event.object.status?.reservedFor ?? []).map(
          ({ name }) => `${podPrefix}${event.object.metadata.namespace}/${name}`,
        ),
      ]),
    ],
    reconcile: async (key) => {
      if (key.startsWith(podPrefix)) return agent.pod(key.slice(podPrefix.length));
      if (key.startsWith(gonePrefix)) return agent.gone(key.slice(gonePrefix.length));
      return agent.claim(key.slice(claimPrefix.length));
    },
  });
}

/** The extended resource of the device class of the scenarios. */
export const extendedDevice = "deviceclass.resource.kubernetes.io/gpu";

const podPrefix = "pod ";
const claimPrefix = "claim ";
const gonePrefix = "gone ";

function keyOf({ metadata }: ResourceClaim | Pod): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Whether the pod requests an extended resource of a device class. */
function asksForDevices({ spec }: Pod): boolean {
  return (spec?.containers ?? []).some(({ resources }) => resources?.requests?.[extendedDevice] !== undefined);
}

interface Look {
  pod(key: string): Pod | undefined;
  pods(): Iterable<Pod>;
  claim(key: string): ResourceClaim | undefined;
  claims(): Iterable<ResourceClaim>;
  slices(): Iterable<ResourceSlice>;
}

class Agent {
  private readonly ports: ActorPorts;
  private readonly memory: NodeMemory;
  private readonly options: KubeletOptions;
  private readonly look: Look;
  /** Claims that are being prepared for a program that does not run yet. */
  private readonly starting = new Set<string>();
  /** Claims that a node with the bug unprepares while a pod uses them. */
  private readonly mistaken = new Set<string>();

  constructor(ports: ActorPorts, memory: NodeMemory, options: KubeletOptions, look: Look) {
    this.ports = ports;
    this.memory = memory;
    this.options = options;
    this.look = look;
  }

  deleted(pod: Pod): void {
    if (this.options.mistakes?.includes("releases-unused-claims") !== true) return;
    if (this.memory.running.has(pod.metadata.uid)) return;
    for (const claim of this.claimsOf(pod) ?? []) this.mistaken.add(claim.metadata.uid);
  }

  async pod(key: string): Promise<ReconcileResult> {
    const pod = this.look.pod(key);
    if (!pod?.spec?.nodeName) return undefined;
    const { uid, namespace = "", name } = pod.metadata;
    const program = this.memory.running.get(uid);
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (program !== undefined) {
        program.endsMs ??= this.ports.clock.nowMs() + this.options.stopMs;
        const leftMs = program.endsMs - this.ports.clock.nowMs();
        if (leftMs > 0) return { requeueAfterMs: leftMs };
        this.memory.running.delete(uid);
      }
      for (const claim of this.claimsOf(pod) ?? []) {
        const released = await this.claim(keyOf(claim));
        if (released !== undefined) return { requeueAfterMs: 100 };
      }
      await this.ports.kube.delete({ ...podsRef, namespace, name }, { preconditions: { uid }, gracePeriodSeconds: 0 });
      return { requeueAfterMs: 1_000 };
    }
    if (program !== undefined) return this.sayRunning(pod);
    return this.start(pod);
  }

  private async start(pod: Pod): Promise<ReconcileResult> {
    const claims = this.claimsOf(pod);
    if (claims === undefined) return undefined;
    const plugged = await this.plugIn(pod);
    if (plugged !== undefined) return plugged;
    const claimUids = claims.map(({ metadata }) => metadata.uid);
    for (const uid of claimUids) this.starting.add(uid);
    try {
      for (const claim of claims) {
        const prepared = await this.prepare(claim, pod);
        if (prepared !== "done") return prepared === "wait" ? undefined : { requeueAfterMs: 100 };
      }
      await this.ports.sleep(startMs);
      this.memory.running.set(pod.metadata.uid, { podKey: keyOf(pod), claimUids, endsMs: undefined });
    } finally {
      for (const uid of claimUids) this.starting.delete(uid);
    }
    return this.sayRunning(pod);
  }

  /**
   * Allocates GPUs to the pod by the device plugin, and reports them on the pod. A GPU whose device is allocated to or
   * prepared for a claim is skipped; claims are read from the API, because their watch may lag behind that of pods.
   */
  private async plugIn(pod: Pod): Promise<ReconcileResult> {
    const wanted = Number(pod.spec?.containers[0]?.resources?.requests?.[gpuResource] ?? "0");
    if (wanted === 0) return undefined;
    const { plugged = new Map<string, readonly string[]>() } = this.memory;
    const { uid, namespace = "", name } = pod.metadata;
    if (!plugged.has(uid)) {
      const fresh = await lookAgainAtAll(this.ports.kube, claimsRef, {}, { atLeast: pod.metadata.resourceVersion });
      if (!fresh.ok) return { requeueAfterMs: 100 };
      this.unplug();
      const given = this.freeGpus(pod.spec?.nodeName ?? "", fresh.value.items).slice(0, wanted);
      if (given.length < wanted) return { requeueAfterMs: 200 };
      plugged.set(uid, given);
    }
    const assignment = JSON.stringify({ main: { [gpuResource]: plugged.get(uid) } });
    if (pod.metadata.annotations?.[marks.devices] === assignment) return undefined;
    const body = { metadata: { uid, annotations: { [marks.devices]: assignment } } };
    const outcome = await this.ports.kube.patch({ ...podsRef, namespace, name }, { type: "merge", body });
    return outcome.ok ? undefined : { requeueAfterMs: 200 };
  }

  private freeGpus(node: string, claims: readonly KubeObject[]): string[] {
    const taken = new Set([...(this.memory.plugged ?? new Map<string, readonly string[]>()).values()].flat());
    const devices = new Set(this.memory.prepared.keys());
    for (const claim of claims as readonly ResourceClaim[]) {
      for (const result of claim.status?.allocation?.devices?.results ?? []) devices.add(deviceKey(result));
    }
    const free: string[] = [];
    for (const { spec } of this.look.slices()) {
      if (spec.nodeName !== node) continue;
      for (const { name, attributes } of spec.devices ?? []) {
        const uuid = attributes?.["uuid"]?.string ?? "";
        if (taken.has(uuid) || devices.has(deviceKey({ driver: spec.driver, pool: spec.pool.name, device: name })))
          continue;
        free.push(uuid);
      }
    }
    return free;
  }

  /** A deleted pod keeps its GPUs until its program has stopped. */
  private unplug(): void {
    for (const uid of [...(this.memory.plugged?.keys() ?? [])]) {
      // After a restart the node may have missed the deletion of a pod.
      if (![...this.look.pods()].some(({ metadata }) => metadata.uid === uid)) this.gone(uid);
    }
  }

  /** The program of a pod that was force-deleted runs on for a while. */
  gone(uid: string): ReconcileResult {
    const program = this.memory.running.get(uid);
    if (program !== undefined) {
      program.endsMs ??= this.ports.clock.nowMs() + this.options.stopMs;
      const leftMs = program.endsMs - this.ports.clock.nowMs();
      if (leftMs > 0) return { requeueAfterMs: leftMs };
      this.memory.running.delete(uid);
    }
    this.memory.plugged?.delete(uid);
    return undefined;
  }

  hasPlugged({ metadata }: Pod): boolean {
    return this.memory.plugged?.has(metadata.uid) === true;
  }

  private isPlugged(device: string): boolean {
    const ids = new Set([...(this.memory.plugged?.values() ?? [])].flat());
    if (ids.size === 0) return false;
    for (const { spec } of this.look.slices()) {
      for (const { name, attributes } of spec.devices ?? []) {
        if (deviceKey({ driver: spec.driver, pool: spec.pool.name, device: name }) !== device) continue;
        return ids.has(attributes?.["uuid"]?.string ?? "");
      }
    }
    return false;
  }

  private async sayRunning(pod: Pod): Promise<ReconcileResult> {
    if (pod.status?.phase === "Running") return undefined;
    const { namespace = "", name, uid } = pod.metadata;
    const body = { metadata: { uid }, status: { phase: "Running" } };
    const ref = { ...podsRef, namespace, name, subresource: "status" };
    const outcome = await this.ports.kube.patch(ref, { type: "merge", body });
    return outcome.ok || outcome.reason === "NotFound" ? undefined : { requeueAfterMs: 200 };
  }

  claimsOf(pod: Pod): ResourceClaim[] | undefined {
    const found: ResourceClaim[] = [];
    for (const { name, resourceClaimName } of pod.spec?.resourceClaims ?? []) {
      const made = pod.status?.resourceClaimStatuses?.find((each) => each.name === name)?.resourceClaimName;
      const claimName = resourceClaimName ?? made;
      const claim = claimName === undefined ? undefined : this.look.claim(`${pod.metadata.namespace}/${claimName}`);
      if (claim === undefined) return undefined;
      found.push(claim);
    }
    if (asksForDevices(pod)) {
      const name = pod.status?.extendedResourceClaimStatus?.resourceClaimName;
      const claim = name === undefined ? undefined : this.look.claim(`${pod.metadata.namespace}/${name}`);
      if (claim === undefined) return undefined;
      found.push(claim);
    }
    return found;
  }

  /** The kubelet writes the status of the claim before it prepares devices. */
  private async prepare(claim: ResourceClaim, pod: Pod): Promise<"done" | "wait" | "again"> {
    const results = claim.status?.allocation?.devices?.results ?? [];
    if (results.length === 0 || !isReservedFor(claim, pod.metadata.uid)) return "wait";
    if (claim.metadata.deletionTimestamp !== undefined) return "wait";
    const { uid } = claim.metadata;
    const wanted = results.map(
      ({ driver, pool, device, shareID }): AllocatedDeviceStatus => ({
        driver,
        pool,
        device,
        ...(shareID !== undefined && { shareID }),
        conditions: [
          {
            type: "Ready",
            status: "True",
            reason: "Prepared",
            message: "",
            lastTransitionTime: "2026-01-01T00:00:00Z",
          },
        ],
      }),
    );
    if (this.options.mistakes?.includes("says-nothing") !== true && !equalFields(claim.status?.devices ?? [], wanted)) {
      const { namespace = "", name } = claim.metadata;
      const object = { ...claim, status: { ...claim.status, devices: wanted } };
      const outcome = await this.ports.kube.update({ ...claimsRef, namespace, name, subresource: "status" }, object);
      if (!outcome.ok) return "again";
    }
    // A GPU that the device plugin has allocated to a pod is not prepared for a claim.
    this.unplug();
    if (results.some((result) => this.isPlugged(deviceKey(result)))) return "again";
    for (const result of results) {
      const device = deviceKey(result);
      const holder = this.memory.prepared.get(device);
      if (holder === uid) continue;
      this.ports.observe("prepared", { device, claimUid: uid, holder });
      this.memory.prepared.set(device, uid);
    }
    return "done";
  }

  /** Unprepares a claim that no pod uses any more: the devices first, then the claim's status. */
  async claim(key: string): Promise<ReconcileResult> {
    const cached = this.look.claim(key);
    const [namespace = "", name = ""] = key.split("/");
    // The cache may not have observed this node's last status write yet.
    const fresh = await this.ports.kube.get({ ...claimsRef, namespace, name });
    if (!fresh.ok && fresh.reason !== "NotFound") return { requeueAfterMs: 100 };
    const claim = fresh.ok ? fresh.value : undefined;
    let waitMs: number | undefined;
    for (const uid of new Set([cached?.metadata.uid, claim?.metadata.uid, ...this.orphans()])) {
      if (uid === undefined) continue;
      const usedMs = this.usedFor(uid);
      const isMistaken = this.mistaken.delete(uid);
      if (usedMs !== undefined && !isMistaken) {
        if (usedMs > 0) waitMs = Math.min(waitMs ?? usedMs, usedMs);
        continue;
      }
      for (const [device, holder] of [...this.memory.prepared]) {
        if (holder !== uid) continue;
        this.memory.prepared.delete(device);
        this.ports.observe("released", { device, claimUid: uid, isUsed: usedMs !== undefined });
      }
      if (claim?.metadata.uid !== uid || claim.status?.devices === undefined || this.isAwaited(claim)) continue;
      const { devices: _devices, ...status } = claim.status;
      const object = { ...claim, status };
      const outcome = await this.ports.kube.update({ ...claimsRef, namespace, name, subresource: "status" }, object);
      if (!outcome.ok && outcome.reason !== "NotFound") return { requeueAfterMs: 100 };
    }
    return waitMs === undefined ? undefined : { requeueAfterMs: waitMs };
  }

  /** Undefined when no pod uses the claim; else the least time until it is unused, or 0 when that is unknown. */
  private usedFor(claimUid: string): number | undefined {
    if (this.starting.has(claimUid)) return 200;
    const nowMs = this.ports.clock.nowMs();
    let leftMs: number | undefined;
    for (const [podUid, program] of [...this.memory.running]) {
      if (!program.claimUids.includes(claimUid)) continue;
      if (this.look.pod(program.podKey)?.metadata.uid === podUid) {
        leftMs = 0;
        continue;
      }
      // The pod was force-deleted, and its program runs on for a while.
      program.endsMs ??= nowMs + this.options.stopMs;
      if (program.endsMs > nowMs) leftMs = Math.max(leftMs ?? 0, program.endsMs - nowMs);
      else this.memory.running.delete(podUid);
    }
    return leftMs;
  }

  /** Whether a pod on this node that has not started will use the claim. */
  private isAwaited(claim: ResourceClaim): boolean {
    for (const pod of this.look.pods()) {
      if (pod.metadata.deletionTimestamp === undefined && isReservedFor(claim, pod.metadata.uid)) return true;
    }
    return false;
  }

  /** Claims that are deleted from the API and still have devices prepared here. */
  private orphans(): string[] {
    const there = new Set<string>();
    for (const { metadata } of this.look.claims()) there.add(metadata.uid);
    return [...new Set(this.memory.prepared.values())].filter((uid) => !there.has(uid)).sort();
  }
}
