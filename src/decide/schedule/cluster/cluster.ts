import { assert } from "../../../model/assert.ts";
import type {
  Node,
  PodGroup as PlainGroup,
  Pod,
  PriorityClass,
  ResourceSlice,
} from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import {
  defaultSchedulerName,
  gpuGroupsOfLabels,
  kaiSchedulerName,
  scalingNamespace,
} from "../../../model/scheduling/keys.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { NodeGpus } from "../../devices/physicalGpus.ts";
import { DisruptionBudgets } from "../eviction/disruptionBudgets.ts";
import { Fit } from "../placement/fit.ts";
import { recharge } from "../queues/charging.ts";
import { QueueIndex } from "../queues/queueIndex.ts";
import type { QueueTree } from "../queues/queueTree.ts";
import { defaultSettings, type Settings } from "../settings.ts";
import type { WaitingJobs } from "../waiting/waitingJobs.ts";
import { assertCounts } from "./assertCounts.ts";
import { gpusIn } from "./claimDevices.ts";
import { ClusterTotal } from "./clusterTotal.ts";
import { type ClaimedUnits, type DeviceClaims, noDeviceClaims } from "./deviceClaims.ts";
import { Changes, FactMap } from "./facts.ts";
import type { Job } from "./job.ts";
import { JobIndex } from "./jobIndex.ts";
import { LabelDomains } from "./labelDomains.ts";
import {
  type Holding,
  type HoldState,
  type NodeState,
  sameHolding,
  sameHoldings,
  type WantedHolding,
} from "./nodeState.ts";
import { NodeTable } from "./nodeTable.ts";
import { type PodShape, PodShapes } from "./podShape.ts";
import { PodTerms } from "./podTerms.ts";
import { addTo, gpuAt, ResourceNames, type Vector, zeroVector } from "./resources.ts";
import { hasSameFacts, hasSamePodFacts, type PodFacts } from "./sameFacts.ts";
import { ServedResources } from "./servedResources.ts";
import { isAllocatedStatus, onePerNode, type Place, queueVector, statusOf, Task, type TaskStatus } from "./task.ts";
import { VolumeFacts } from "./volumeFacts.ts";

/** A pod that is not bound, or not evicted, before a time, because the last attempt was refused. */
export interface BackOff {
  readonly untilMs: number;
  readonly why: string;
  readonly times: number;
}

/**
 * The cluster as decisions read it: nodes with their idle resources, pods with their nodes, jobs, queues. An event
 * changes one object and costs as much as that object touches. Between events the cluster is a function of the assume
 * cache, whatever the order of the events was; what a decision tries on it is rolled back before the next event.
 */
export class Cluster {
  /** Counts every change that could change a decision. */
  readonly changes = new Changes();
  settings: Settings;
  readonly names = new ResourceNames();
  /** Extended resources that devices serve. */
  private readonly served = new ServedResources();
  readonly shapes = new PodShapes(this.names, this.served);
  readonly table: NodeTable;
  readonly fit: Fit;
  readonly terms: PodTerms;
  readonly volumes = new VolumeFacts(this.changes, () => this.table.nodes);
  readonly budgets = new DisruptionBudgets();
  readonly tasks = new FactMap<string, Task>(this.changes);
  readonly topologies = new FactMap<string, Topology>(this.changes);
  /** `namespace/name` of every ConfigMap; undefined while there is no cache of them. */
  configMaps: ReadonlySet<string> | undefined;
  /** Queues of other node pools, by name: which pool they are of. */
  readonly queuesOfOtherPools = new FactMap<string, string>(this.changes);
  /** Whether no scheduler serves the node pool of a group: every pod of the group stays pending. */
  isUnserved = false;
  /** Allocates devices for claims. */
  devices: DeviceClaims = noDeviceClaims;
  /** Back-offs of pods, by UID. */
  readonly backOffs = new FactMap<string, BackOff>(this.changes);
  /** Pods that are nominated to a node. */
  readonly nominated = new Set<Task>();
  /**
   * The victim search failed without some jobs whose pods are still being bound; these jobs are candidates once their
   * pods are bound.
   */
  awaitsArrivals = false;
  private readonly nodes = new FactMap<string, Node>(this.changes, hasSameFacts);
  private readonly namespaceLabels = new FactMap<string, Readonly<Record<string, string>>>(this.changes, equalFields);
  private readonly releasing = new Set<Task>();
  private readonly slicesOf = new FactMap<string, readonly ResourceSlice[]>(this.changes, hasSameSlices);
  /** The number of pods that name each ConfigMap, by `namespace/name`. */
  private readonly configMapUsers = new Map<string, number>();
  /** Inputs that are in no object. */
  private readonly inputs = new FactMap<"settings" | "usage" | "servedPools", unknown>(this.changes);
  private readonly nodeOfDevice = new Map<string, string>();
  /** Nodes whose devices, or pods with claims, have changed since they were counted. */
  private readonly claimsOn = new Set<string>();
  private readonly sum: ClusterTotal;
  private readonly queueIndex = new QueueIndex(this.changes);
  private readonly jobIndex: JobIndex;
  private gpuMemory = { leastMiB: 0, mostMiB: 0 };
  private isGpuMemoryDirty = true;

  constructor(settings: Settings = defaultSettings) {
    this.settings = settings;
    this.table = new NodeTable(this.names, this.served, (node) => {
      this.fit.factsChanged(node);
      labels.factsChanged(node);
      this.isGpuMemoryDirty = true;
    });
    const labels = new LabelDomains(this.table);
    this.fit = new Fit(this.table, settings);
    this.sum = new ClusterTotal(this.table, this.names, settings);
    this.jobIndex = new JobIndex({
      settings: () => this.settings,
      queueIndex: this.queueIndex,
      topologies: this.topologies,
      heldVector: (task) => this.heldVector(task),
      changes: this.changes,
    });
    this.terms = new PodTerms(
      (namespace) => this.namespaceLabels.get(namespace),
      () => this.tasks.values(),
      labels,
    );
  }

  /** Applies changed settings. The node pool cannot change: each pool has a cluster of its own. */
  configure(settings: Settings): void {
    assert(settings.nodePool === this.settings.nodePool, () => `this is the cluster of pool ${this.settings.nodePool}`);
    this.inputs.set("settings", settings);
    this.settings = settings;
    this.fit.configure(settings);
    this.sum.configure(settings);
    this.queueIndex.touched();
    this.waitingJobs.changedAll();
  }

  // Events

  putNode(node: Node): void {
    const known = this.table.get(node.metadata.name);
    // A heartbeat changes no decision.
    if (!this.nodes.replace(node.metadata.name, node) && known !== undefined) {
      known.node = node;
      return;
    }
    const type = known?.gpuType;
    const slices = this.slicesOf.get(node.metadata.name);
    if (slices !== undefined) this.table.getOrCreate(node.metadata.name).claimGpus = gpusIn(slices);
    const state = this.table.put(node);
    this.followGpus(state);
    if (type === undefined || type === state.gpuType) return;
    for (const { holder } of state.holdings) {
      const task = holder as Task;
      if (task.counted !== undefined) task.counted = recharge(task, this.heldVector(task));
    }
  }

  /** How many GPUs a node has published as devices for claims. */
  setClaimGpus(name: string, count: number): void {
    const known = this.table.get(name);
    if (count === 0 && known === undefined) return;
    const state = known ?? this.table.getOrCreate(name);
    if (state.claimGpus === count) return;
    state.claimGpus = count;
    if (state.servedPlaces.has(gpuAt)) this.table.updateAgain([state]);
    else if (state.index >= 0) this.table.recountAndMark(state);
  }

  /** The ResourceSlices of a node: which of its GPUs can be allocated to claims as well. */
  setSlices(name: string, slices: readonly ResourceSlice[]): void {
    this.setClaimGpus(name, gpusIn(slices));
    if (slices.length > 0) this.slicesOf.set(name, slices);
    else this.slicesOf.delete(name);
    if (slices.length === 0 && this.table.get(name) === undefined) return;
    this.followGpus(this.table.getOrCreate(name));
  }

  /** A device was allocated to a claim or released: the node's device plugin has fewer or more free GPUs. */
  deviceChanged(device: string): void {
    const node = this.nodeOfDevice.get(device);
    if (node !== undefined) this.claimsOn.add(node);
  }

  private followGpus(state: NodeState): void {
    const slices = this.slicesOf.get(state.name) ?? [];
    for (const key of state.gpus?.keys() ?? []) this.nodeOfDevice.delete(key);
    state.gpus = slices.length === 0 ? undefined : new NodeGpus(state.node, slices);
    for (const key of state.gpus?.keys() ?? []) this.nodeOfDevice.set(key, state.name);
    this.claimsOn.add(state.name);
  }

  /** Recounts the free GPUs of device plugins on nodes whose claims have changed. */
  countClaims(): void {
    if (this.claimsOn.size === 0) return;
    for (const name of this.claimsOn) {
      const state = this.table.get(name);
      if (state === undefined) continue;
      const units = this.devices.unitsOn(state);
      const claimed = units === undefined || units.now.size + units.later.size === 0 ? undefined : units;
      if (sameUnits(state.claimed, claimed)) continue;
      state.claimed = claimed;
      for (const each of [...(claimed?.now.keys() ?? []), ...(claimed?.later.keys() ?? [])]) this.names.placeOf(each);
      this.table.refresh();
      this.table.recountAndMark(state);
    }
    this.claimsOn.clear();
  }

  /** The extended resources that a DeviceClass serves (`extendedResourceName`). */
  setServedResources(names: ReadonlySet<string>): void {
    const changed = this.served.replace(names);
    if (changed.size === 0) return;
    this.table.updateAgain();
    for (const task of this.tasks.values()) {
      if (![...podRequests(task.pod).keys()].some((name) => changed.has(name))) continue;
      this.folding(task, () => {
        this.reshape(task);
        this.derive(task);
      });
    }
  }

  removeNode(name: string): void {
    if (!this.nodes.delete(name)) return;
    this.table.remove(name);
    // Its ResourceSlices and its pods may be deleted later than the node.
    const state = this.table.get(name);
    if (state !== undefined) this.followGpus(state);
    this.isGpuMemoryDirty = true;
  }

  putPod(pod: Pod): void {
    const known = this.tasks.get(pod.metadata.uid);
    if (known === undefined) this.addPod(pod);
    else this.folding(known, () => this.updatePod(known, pod));
  }

  private addPod(pod: Pod): void {
    const scheduler = pod.spec?.schedulerName ?? defaultSchedulerName;
    const isOurs = scheduler === kaiSchedulerName || pod.metadata.namespace === scalingNamespace;
    const task = new Task(pod, this.shapes.shapeOf(pod), !isOurs);
    this.tasks.set(pod.metadata.uid, task);
    this.countConfigMaps(task, task.shape, 1);
    this.jobIndex.addTask(task);
    this.derive(task);
  }

  private updatePod(task: Task, pod: Pod): void {
    const { groupName, subGroupName, pod: before } = task;
    const hasSameLabels = equalFields(before.metadata.labels, pod.metadata.labels);
    const isSameSpec =
      hasSameLabels && before.spec === pod.spec && before.metadata.annotations === pod.metadata.annotations;
    task.pod = pod;
    if (!isSameSpec) this.reshape(task);
    if (!equalFields(before.status?.resourceClaimStatuses, pod.status?.resourceClaimStatuses)) {
      this.claimsChanged(pod.metadata.uid);
    }
    if (!hasSameLabels && !this.terms.isEmpty) this.terms.relabelled(task);
    if (groupName !== task.groupName || subGroupName !== task.subGroupName) {
      this.jobIndex.withdraw(task);
      this.jobIndex.addTask(task);
    }
    this.derive(task);
    if (before.spec?.nodeName === pod.spec?.nodeName || !task.shape.hasDeviceClaims) return;
    // From now on the node knows that the pod's devices are in use, and pods may get GPUs of its device plugin again.
    this.recountDevicesOf(task);
    this.changes.note();
  }

  /** Counts a change if the fold changed a fact of the pod. */
  private folding(task: Task, fold: () => void): void {
    const before = this.factsOf(task);
    fold();
    if (
      hasSamePodFacts(before, this.factsOf(task), {
        isLabelled: !this.terms.isEmpty,
        isSliced: this.slicesOf.size > 0,
      })
    )
      return;
    this.changes.note();
    this.waitingJobs.changed(task.job);
  }

  private factsOf({ pod, shape, groupName, subGroupName, status, holdings, job }: Task): PodFacts {
    // Bound and running are the same to a decision. Binding is not: the rest of a gang waits for pods that are being
    // bound, and so does a job that would evict them.
    const isAwaited = status === "binding" && job !== undefined && (job.pendingCount > 0 || this.awaitsArrivals);
    const decisive = isAllocatedStatus[status] && !isAwaited ? "allocated" : status;
    const states = holdings.map(({ state }) => state).join();
    return { pod, shape, groupName, subGroupName, status: decisive, holdings, states };
  }

  /**
   * Amounts are counted by shape: a task whose shape changes releases everything first and is derived again afterwards.
   */
  private reshape(task: Task): void {
    const before = task.shape;
    const shape = this.shapes.shapeOf(task.pod);
    if (shape === before) {
      this.shapes.release(shape);
      return;
    }
    this.setHoldings(task, []);
    task.shape = shape;
    this.requestChanged(task.job);
    task.counted = recharge(task, undefined);
    this.countConfigMaps(task, before, -1);
    this.countConfigMaps(task, shape, 1);
    this.releaseShape(before);
  }

  /** One pod fewer has the shape: its scores and terms are dropped with the last one. */
  private releaseShape(shape: PodShape): void {
    if (this.shapes.release(shape)) this.fit.forget(shape.need.id);
    if (shape.users === 0) this.terms.forget(shape);
  }

  private countConfigMaps({ namespace }: Task, { configMaps }: PodShape, by: number): void {
    for (const name of configMaps) {
      const key = `${namespace}/${name}`;
      const users = (this.configMapUsers.get(key) ?? 0) + by;
      if (users === 0) this.configMapUsers.delete(key);
      else this.configMapUsers.set(key, users);
    }
  }

  /** A ConfigMap was created or deleted: that changes a decision only if a pod names it. */
  configMapChanged(key: string): void {
    if (this.configMapUsers.has(key)) this.changes.note();
  }

  removePod(uid: string): void {
    const task = this.tasks.get(uid);
    if (task === undefined) return;
    task.places = [];
    this.setHoldings(task, []);
    this.setStatus(task, "unknown");
    this.jobIndex.withdraw(task);
    assert(task.holdings.length === 0 && task.counted === undefined, () => `pod ${task.key} is deleted and counts`);
    this.tasks.delete(uid);
    this.backOffs.delete(uid);
    this.nominated.delete(task);
    this.releasing.delete(task);
    this.countConfigMaps(task, task.shape, -1);
    this.releaseShape(task.shape);
  }

  /** The nodes of a pod by the assume cache: by its `nodeName`, its BindRequest, or an in-flight intent. */
  setPlaces(uid: string, places: readonly Place[], isBeingEvicted = false): void {
    const task = this.tasks.get(uid);
    if (task === undefined) return;
    this.folding(task, () => {
      task.places = onePerNode(places);
      task.isBeingEvicted = isBeingEvicted;
      this.derive(task);
    });
  }

  putPodGroup(group: PodGroup): void {
    this.jobIndex.putPodGroup(group);
  }

  removePodGroup(id: string): void {
    this.jobIndex.removePodGroup(id);
  }

  putPlainGroup(group: PlainGroup): void {
    this.jobIndex.putPlainGroup(group);
  }

  removePlainGroup(key: string): void {
    this.jobIndex.removePlainGroup(key);
  }

  putPriorityClass(priorityClass: PriorityClass): void {
    this.jobIndex.putPriorityClass(priorityClass);
  }

  removePriorityClass(name: string): void {
    this.jobIndex.removePriorityClass(name);
  }

  /** Node pools that a scheduler serves; undefined until the shards are known. */
  get servedPools(): ReadonlySet<string> | undefined {
    return this.inputs.get("servedPools") as ReadonlySet<string> | undefined;
  }

  set servedPools(pools: ReadonlySet<string>) {
    this.inputs.set("servedPools", pools);
  }

  putQueue(queue: Queue): void {
    this.queueIndex.put(queue);
  }

  removeQueue(name: string): void {
    this.queueIndex.remove(name);
  }

  /** The historical usage of queues, as a portion (0 to 1) of each resource of the cluster. */
  setUsage(usage: ReadonlyMap<string, Readonly<Vector>>): void {
    this.inputs.set("usage", usage);
    this.queueIndex.setUsage(usage);
  }

  putTopology(topology: Topology): void {
    this.topologies.set(topology.metadata.name, topology);
  }

  removeTopology(name: string): void {
    this.topologies.delete(name);
  }

  putNamespace(name: string, labels: Readonly<Record<string, string>>): void {
    if (this.namespaceLabels.replace(name, labels)) this.terms.namespaceChanged(name);
  }

  removeNamespace(name: string): void {
    if (this.namespaceLabels.delete(name)) this.terms.namespaceChanged(name);
  }

  // Reading

  get queues(): QueueTree {
    return this.queueIndex.tree;
  }

  get jobs(): ReadonlyMap<string, Job> {
    return this.jobIndex.jobs;
  }

  /** Jobs with pending pods. */
  get waiting(): ReadonlySet<Job> {
    return this.jobIndex.waiting.all;
  }

  /** The same, with those that the next cycle tries. */
  get waitingJobs(): WaitingJobs {
    return this.jobIndex.waiting;
  }

  /** Gangs that run fewer pods than their minimum. */
  get unwell(): ReadonlySet<Job> {
    return this.jobIndex.unwell;
  }

  /** Pods whose PodGroup does not exist, by the key of the group. */
  get withoutGroup(): ReadonlyMap<string, ReadonlySet<Task>> {
    return this.jobIndex.withoutGroup;
  }

  group(id: string): PodGroup | undefined {
    return this.jobIndex.group(id);
  }

  /** Brings everything up to date before a decision. */
  refresh(nowMs: number): void {
    this.table.refresh();
    // Requests of pending jobs for GPU memory are counted in GPUs of these sizes.
    this.gpuMemoryRange();
    this.fit.follow();
    if (this.queueIndex.refresh(this.jobs.values(), this.settings)) this.waitingJobs.changedAll();
    for (const task of this.releasing) this.derive(task, nowMs);
  }

  /**
   * Begins a trial of devices. Devices of terminating pods will be free; devices of pods that are stuck terminating
   * will not.
   */
  beginDevices(nowMs: number): void {
    const going = [...this.releasing].filter(({ shape, status }) => shape.hasDeviceClaims && status === "releasing");
    this.devices.begin(nowMs, going);
    this.countClaims();
  }

  /** A pod's claims, or the pods that share them, have changed: the pod may count for another number of GPUs. */
  claimsChanged(uid: string): void {
    const task = this.tasks.get(uid);
    if (task === undefined || !task.shape.hasDeviceClaims) return;
    this.recountDevicesOf(task);
    this.requestChanged(task.job);
    this.waitingJobs.changed(task.job);
    if (task.counted !== undefined) task.counted = recharge(task, this.heldVector(task));
  }

  private recountDevicesOf({ shape, holdings }: Task): void {
    if (shape.hasDeviceClaims) for (const { node } of holdings) this.claimsOn.add(node.name);
  }

  private requestChanged(job: Job | undefined): void {
    if (job === undefined) return;
    job.pendingVector = undefined;
    this.waitingJobs.requestsChanged(job);
  }

  /** The memory of the smallest and of the largest GPU of the cluster. */
  gpuMemoryRange(): { leastMiB: number; mostMiB: number } {
    if (!this.isGpuMemoryDirty) return this.gpuMemory;
    let leastMiB = Number.POSITIVE_INFINITY;
    let mostMiB = 0;
    // Called between two refreshes, when pods are counted that are observed together with their nodes.
    for (const node of this.table.known()) {
      if ((node.capacity[gpuAt] ?? 0) <= 0 || !node.knowsGpuMemory || node.servedPlaces.has(gpuAt)) continue;
      leastMiB = Math.min(leastMiB, node.gpuMemoryMiB);
      mostMiB = Math.max(mostMiB, node.gpuMemoryMiB);
    }
    this.gpuMemory = mostMiB === 0 ? { leastMiB: 100, mostMiB: 100 } : { leastMiB, mostMiB };
    this.isGpuMemoryDirty = false;
    for (const job of this.waiting) this.requestChanged(job);
    return this.gpuMemory;
  }

  /** The resources that queues divide. Call `refresh` first. */
  total(): Vector {
    return this.sum.vector();
  }

  /** The requests of the pending pods of a job, for fairness. */
  pendingVector(job: Job): Vector {
    if (job.pendingVector !== undefined) return job.pendingVector;
    const { leastMiB } = this.gpuMemoryRange();
    const sum = zeroVector();
    for (const set of job.podSets) {
      for (const task of set.tasks) if (task.status === "pending") addTo(sum, this.vectorOf(task, leastMiB));
    }
    job.pendingVector = sum;
    return sum;
  }

  vectorOf(task: Task, deviceMemoryMiB: number): Vector {
    return queueVector(task.shape, deviceMemoryMiB, task.shape.hasDeviceClaims ? this.devices.gpusOf(task) : 0);
  }

  // Changes, by events and by statements

  setStatus(task: Task, status: TaskStatus): void {
    const before = task.status;
    if (before === status) return;
    task.podSet?.shift(before, -1);
    task.status = status;
    task.podSet?.shift(status, 1);
    const { job } = task;
    if (job === undefined) return;
    this.jobIndex.noteHealth(job);
    if (before === "pending" || status === "pending") {
      job.pendingVector = undefined;
      this.jobIndex.noteWaiting(job);
    }
    if (isAllocatedStatus[before] !== isAllocatedStatus[status]) {
      task.counted = recharge(task, isAllocatedStatus[status] ? this.heldVector(task) : undefined);
    }
  }

  setHoldings(task: Task, wanted: readonly WantedHolding[]): void {
    const before = task.holdings;
    if (before.length === wanted.length && wanted.every((each, at) => sameHolding(before[at], each))) {
      for (const [at, { state }] of wanted.entries()) {
        const holding = before[at] as Holding;
        if (holding.state !== state) this.table.setState(holding, state);
      }
      return;
    }
    assert(
      wanted.length < 2 || new Set(wanted.map(({ node }) => node)).size === wanted.length,
      () => `pod ${task.key} would hold ${wanted.map(({ node }) => node.name).join(" and ")}`,
    );
    for (const holding of before) this.drop(task, holding);
    task.holdings = [];
    task.holdings = wanted.map(({ node, groups, state }) => {
      this.took(task, node);
      return this.table.hold(task, node, groups, state);
    });
  }

  /** Restores the former holdings of a task exactly. */
  restore(task: Task, holdings: readonly Holding[], states: readonly HoldState[], status: TaskStatus): void {
    for (const holding of task.holdings) if (!holdings.includes(holding)) this.drop(task, holding);
    for (const [at, holding] of holdings.entries()) {
      const state = states[at] as HoldState;
      if (task.holdings.includes(holding)) {
        // The surplus of its job may have changed on this node, though the task holds the same here.
        if (holding.state === state) this.table.touch(holding.node);
        else this.table.setState(holding, state);
        continue;
      }
      holding.state = state;
      this.took(task, holding.node);
      this.table.holdAgain(holding);
    }
    task.holdings = holdings;
    this.setStatus(task, status);
  }

  /** Adds a holding to those that the task has. */
  addHolding(task: Task, node: NodeState, groups: readonly string[], state: HoldState): void {
    this.took(task, node);
    task.holdings = [...task.holdings, this.table.hold(task, node, groups, state)];
  }

  setHoldStates(task: Task, state: HoldState): void {
    for (const holding of task.holdings) if (holding.state !== state) this.table.setState(holding, state);
  }

  private took(task: Task, node: NodeState): void {
    this.terms.took(task, node);
    if (task.shape.volumeClaims.length > 0) this.volumes.took(task, node);
    if (task.shape.hasDeviceClaims) this.claimsOn.add(node.name);
  }

  private drop(task: Task, holding: Holding): void {
    this.terms.left(task, holding.node);
    if (task.shape.volumeClaims.length > 0) this.volumes.left(task);
    if (task.shape.hasDeviceClaims) this.claimsOn.add(holding.node.name);
    this.table.release(holding);
  }

  /** Derives a task's status and holdings from its pod and its places. */
  private derive(task: Task, nowMs?: number): void {
    if (task.pod.status?.nominatedNodeName === undefined) this.nominated.delete(task);
    else this.nominated.add(task);
    const status = statusOf(task, nowMs, this.settings.stuckInReleasingMs);
    if (status === "releasing" || status === "stuck") this.releasing.add(task);
    else this.releasing.delete(task);
    const state: HoldState = status === "releasing" ? "releasing" : status === "stuck" ? "stuck" : "used";
    const isOver = status === "succeeded" || status === "failed";
    const wanted: WantedHolding[] = isOver
      ? []
      : task.places.map(({ node, groups }) => ({
          node: this.table.getOrCreate(node),
          groups: task.isReservation ? gpuGroupsOfLabels(task.pod.metadata.labels) : groups,
          state,
        }));
    const isMoved = !sameHoldings(task.holdings, wanted);
    this.setHoldings(task, wanted);
    this.setStatus(task, status);
    if (isAllocatedStatus[status] && (isMoved || task.counted === undefined)) {
      task.counted = recharge(task, this.heldVector(task));
    }
  }

  private heldVector(task: Task): Vector {
    const node = task.holdings.at(-1)?.node;
    return this.vectorOf(task, node?.knowsGpuMemory === true ? node.gpuMemoryMiB : this.gpuMemoryRange().leastMiB);
  }

  /** For checks: copies the inputs of another cluster that are in no object, and the back-offs of its pods. */
  adopt({ inputs, backOffs }: Cluster): void {
    const usage = inputs.get("usage");
    if (usage !== undefined) this.setUsage(usage as ReadonlyMap<string, Readonly<Vector>>);
    for (const [uid, backOff] of backOffs) if (this.tasks.has(uid)) this.backOffs.set(uid, backOff);
  }

  /** For tests: recounts every incremental count from the holders. */
  assertCounts(): void {
    assertCounts(this);
  }
}

function hasSameSlices(a: readonly ResourceSlice[], b: readonly ResourceSlice[]): boolean {
  return a.length === b.length && a.every((slice, at) => slice === b[at]);
}

function sameUnits(a: ClaimedUnits | undefined, b: ClaimedUnits | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.isPending !== b.isPending || a.foreignGpus !== b.foreignGpus) return false;
  return sameAmounts(a.now, b.now) && sameAmounts(a.later, b.later);
}

function sameAmounts(a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean {
  return a.size === b.size && [...a].every(([name, units]) => b.get(name) === units);
}
