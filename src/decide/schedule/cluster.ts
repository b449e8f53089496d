import { assert } from "../../model/assert.ts";
import { equalJson } from "../../model/json.ts";
import type { Node, PodGroup as PlainGroup, Pod, PriorityClass } from "../../model/kubernetes.generated.ts";
import {
  defaultSchedulerName,
  gpuGroupsOfLabels,
  kaiSchedulerName,
  scalingNamespace,
} from "../../model/scheduling/keys.ts";
import { defaultPriority, type PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Queue } from "../../model/scheduling/queue.ts";
import type { Topology } from "../../model/scheduling/topology.ts";
import { timeToMs } from "../../model/time.ts";
import { ClusterTotal } from "./clusterTotal.ts";
import { type DeviceClaims, noDeviceClaims } from "./deviceClaims.ts";
import { Fit } from "./fit.ts";
import { isBelowMinimum } from "./gang.ts";
import { Job } from "./job.ts";
import type { Holding, HoldState, NodeState } from "./nodeState.ts";
import { NodeTable } from "./nodeTable.ts";
import { impliedTopology, plainGangId, plainGangOf, plainGangSpec } from "./plainGang.ts";
import { PodShapes } from "./podShape.ts";
import { PodTerms } from "./podTerms.ts";
import { QueueTree } from "./queueTree.ts";
import { addTo, gpuAt, ResourceNames, type Vector, zeroVector } from "./resources.ts";
import { defaultSettings, type Settings } from "./settings.ts";
import { isAllocatedStatus, type Place, queueVector, Task, type TaskStatus } from "./task.ts";
import { VolumeFacts } from "./volumeFacts.ts";

/**
 * The cluster as decisions see it: nodes with what they have left, pods with where they are, jobs, queues. Events change it one
 * object at a time, and an event costs what it touches. Between events it is the same function of the picture, however it got
 * there; what a decision tries on it is undone before the next event comes.
 */
export class Cluster {
  settings: Settings;
  readonly names = new ResourceNames();
  readonly shapes = new PodShapes(this.names);
  readonly table: NodeTable;
  readonly fit: Fit;
  readonly terms: PodTerms;
  readonly volumes = new VolumeFacts();
  readonly tasks = new Map<string, Task>();
  readonly jobs = new Map<string, Job>();
  readonly topologies = new Map<string, Topology>();
  /** `namespace/name` of every ConfigMap; undefined while nobody tells of them. */
  configMaps: Set<string> | undefined;
  queues = new QueueTree([]);
  /** Who answers for claims of devices. */
  devices: DeviceClaims = noDeviceClaims;
  /** Jobs that have pods to place. */
  readonly waiting = new Set<Job>();
  /** Gangs that have pods somewhere, but fewer than they need. */
  readonly unwell = new Set<Job>();
  /** Pods that are not tried again before a time, because the last try was refused. */
  readonly heldBack = new Map<string, { readonly untilMs: number; readonly why: string }>();
  /** Grows with everything that could change a decision. */
  version = 0;
  private readonly groups = new Map<string, PodGroup>();
  private readonly queueObjects = new Map<string, Queue>();
  private readonly priorityClasses = new Map<string, PriorityClass>();
  private readonly namespaceLabels = new Map<string, Readonly<Record<string, string>>>();
  private readonly releasing = new Set<Task>();
  /** Pods that name a group that is not there, by its key. */
  readonly withoutGroup = new Map<string, Set<Task>>();
  private readonly sum: ClusterTotal;
  private usage: ReadonlyMap<string, Readonly<Vector>> = new Map();
  private areQueuesDirty = true;
  private gpuMemory = { leastMiB: 0, mostMiB: 0 };
  private isGpuMemoryDirty = true;

  constructor(settings: Settings = defaultSettings) {
    this.settings = settings;
    this.table = new NodeTable(this.names, (node) => {
      this.fit.factsChanged(node);
      this.isGpuMemoryDirty = true;
    });
    this.fit = new Fit(this.table, settings);
    this.sum = new ClusterTotal(this.table, this.names);
    this.terms = new PodTerms(
      (namespace) => this.namespaceLabels.get(namespace),
      () => this.tasks.values(),
    );
  }

  /** Somebody wants another behaviour. The pool stays: who works for another pool sees another cluster. */
  configure(settings: Settings): void {
    assert(settings.nodePool === this.settings.nodePool, () => `this is the cluster of pool ${this.settings.nodePool}`);
    this.version++;
    this.settings = settings;
    this.fit.configure(settings);
    this.areQueuesDirty = true;
  }

  // Events

  putNode(node: Node): void {
    const known = this.table.get(node.metadata.name);
    // Heartbeats change nothing that decides.
    if (known?.node !== undefined && hasSameFacts(known.node, node)) {
      known.node = node;
      return;
    }
    this.version++;
    const type = known?.gpuType;
    const state = this.table.put(node);
    if (type === undefined || type === state.gpuType) return;
    for (const { holder } of state.holdings) {
      const task = holder as Task;
      if (task.counted !== undefined) task.counted = this.recharge(task, this.heldVector(task));
    }
  }

  /** How many GPUs a node has published as devices for claims. */
  setClaimGpus(name: string, count: number): void {
    const known = this.table.get(name);
    if (count === 0 && known === undefined) return;
    const state = known ?? this.table.named(name);
    if (state.claimGpus === count) return;
    this.version++;
    state.claimGpus = count;
    if (state.index >= 0) this.table.recount(state);
  }

  removeNode(name: string): void {
    this.version++;
    this.table.remove(name);
    this.isGpuMemoryDirty = true;
  }

  putPod(pod: Pod): void {
    const { uid } = pod.metadata;
    let task = this.tasks.get(uid);
    if (task === undefined) {
      const scheduler = pod.spec?.schedulerName ?? defaultSchedulerName;
      const isOurs = scheduler === kaiSchedulerName || pod.metadata.namespace === scalingNamespace;
      this.version++;
      task = new Task(pod, this.shapes.shapeOf(pod), !isOurs);
      this.tasks.set(uid, task);
      this.enrol(task);
    } else {
      const before = task.shape;
      const { groupName, subGroupName } = task;
      const { resourceClaimStatuses, nominatedNodeName } = task.pod.status ?? {};
      const hasSameLabels = equalJson(task.pod.metadata.labels, pod.metadata.labels);
      const isSameSpec =
        hasSameLabels && task.pod.spec === pod.spec && task.pod.metadata.annotations === pod.metadata.annotations;
      task.pod = pod;
      if (!isSameSpec) {
        const shape = this.shapes.shapeOf(pod);
        if (shape === before) {
          this.shapes.release(shape);
        } else {
          // Amounts are counted by shape: whoever changes it lets go of everything first.
          this.version++;
          this.setHoldings(task, []);
          task.shape = shape;
          task.counted = this.recharge(task, undefined);
          if (this.shapes.release(before)) this.fit.forget(before);
        }
      }
      // Its claims were made, or a place was promised to it.
      if (nominatedNodeName !== pod.status?.nominatedNodeName) this.version++;
      if (!equalJson(resourceClaimStatuses, pod.status?.resourceClaimStatuses)) this.claimsChanged(pod.metadata.uid);
      if (!hasSameLabels && !this.terms.isEmpty) {
        this.version++;
        this.terms.relabelled(task);
      }
      if (groupName !== task.groupName || subGroupName !== task.subGroupName) {
        this.version++;
        this.withdraw(task);
        this.enrol(task);
      }
    }
    this.settle(task);
  }

  removePod(uid: string): void {
    const task = this.tasks.get(uid);
    if (task === undefined) return;
    this.version++;
    if (task.shape.hasDeviceClaims) this.devices.left(task.pod);
    task.places = [];
    this.setHoldings(task, []);
    this.setStatus(task, "unknown");
    this.withdraw(task);
    this.tasks.delete(uid);
    this.heldBack.delete(uid);
    this.releasing.delete(task);
    if (this.shapes.release(task.shape)) this.fit.forget(task.shape);
  }

  /** Where the picture has the pod: by its own node name, by a durable intent, or by one that is on its way. */
  setPlaces(uid: string, places: readonly Place[], isBeingEvicted = false): void {
    const task = this.tasks.get(uid);
    if (task === undefined) return;
    task.places = onePerNode(places);
    task.isBeingEvicted = isBeingEvicted;
    this.settle(task);
  }

  putPodGroup(group: PodGroup): void {
    const id = `${group.metadata.namespace}/${group.metadata.name}`;
    const before = this.groups.get(id);
    this.groups.set(id, group);
    const job = this.jobs.get(id);
    if (job === undefined || before === undefined) {
      this.version++;
      this.makeJob(id, group);
      return;
    }
    job.setOwner(group);
    // What it has and asks for is told on its status, and decides nothing.
    if (!hasSameMarks(before, group)) this.version++;
    if (before.metadata.uid === group.metadata.uid && equalJson(before.spec, group.spec)) return;
    this.version++;
    this.chargeJob(job, -1);
    job.reshape(group.spec ?? {});
    job.priority = this.priorityOf(group);
    job.queue = this.queues.byName.get(job.queueName);
    this.chargeJob(job, 1);
    this.noteWaiting(job);
    this.noteHealth(job);
  }

  removePodGroup(id: string): void {
    this.groups.delete(id);
    this.removeJob(id);
  }

  private removeJob(id: string): void {
    this.version++;
    const job = this.jobs.get(id);
    if (job === undefined) return;
    const left = [...job.tasks];
    for (const task of left) this.withdraw(task);
    this.jobs.delete(id);
    this.waiting.delete(job);
    this.unwell.delete(job);
    for (const task of left) this.enrol(task);
  }

  /** A group of Kubernetes' own kind: its pods wait in no queue. */
  putPlainGroup(group: PlainGroup): void {
    const { namespace = "", name } = group.metadata;
    const id = plainGangId(namespace, name);
    const spec = plainGangSpec(group);
    const implied = impliedTopology(group);
    if (implied !== undefined) this.topologies.set(implied.metadata.name, implied);
    const job = this.jobs.get(id);
    if (job === undefined) {
      this.version++;
      this.addJob(new Job(id, group as unknown as PodGroup, false, spec, group.spec.priority ?? 0));
      return;
    }
    job.setOwner(group as unknown as PodGroup);
    if (job.priority === (group.spec.priority ?? 0) && equalJson(job.spec, spec)) return;
    this.version++;
    job.priority = group.spec.priority ?? 0;
    job.reshape(spec);
    this.noteWaiting(job);
  }

  removePlainGroup(key: string): void {
    const [namespace = "", name = ""] = key.split("/");
    this.removeJob(plainGangId(namespace, name));
  }

  putQueue(queue: Queue): void {
    const before = this.queueObjects.get(queue.metadata.name);
    if (before?.metadata.uid === queue.metadata.uid && equalJson(before.spec, queue.spec)) return;
    this.version++;
    this.queueObjects.set(queue.metadata.name, queue);
    this.areQueuesDirty = true;
  }

  removeQueue(name: string): void {
    this.version++;
    this.queueObjects.delete(name);
    this.areQueuesDirty = true;
  }

  /** What queues have had of the cluster in the past, from 0 to 1 of each resource. */
  setUsage(usage: ReadonlyMap<string, Readonly<Vector>>): void {
    this.version++;
    this.usage = usage;
    this.takeUsage();
  }

  putPriorityClass(priorityClass: PriorityClass): void {
    this.version++;
    this.priorityClasses.set(priorityClass.metadata.name, priorityClass);
    this.repriceJobs();
  }

  removePriorityClass(name: string): void {
    this.version++;
    this.priorityClasses.delete(name);
    this.repriceJobs();
  }

  putTopology(topology: Topology): void {
    this.version++;
    this.topologies.set(topology.metadata.name, topology);
  }

  removeTopology(name: string): void {
    this.version++;
    this.topologies.delete(name);
  }

  putNamespace(name: string, labels: Readonly<Record<string, string>>): void {
    this.version++;
    this.namespaceLabels.set(name, labels);
  }

  /** Something that is read only when a decision is taken (volumes, ConfigMaps, claims) changed. */
  touched(): void {
    this.version++;
  }

  // Reading

  group(id: string): PodGroup | undefined {
    return this.groups.get(id);
  }

  /** Brings everything up to date before a decision. */
  refresh(nowMs: number): void {
    this.table.refresh();
    if (this.areQueuesDirty) this.rebuildQueues();
    for (const task of this.releasing) this.settle(task, nowMs);
  }

  /** Lets devices be tried anew. What a pod has that goes by itself will be free; what one has that is stuck will not. */
  beginDevices(nowMs: number): void {
    const going = [...this.releasing].filter(({ shape, status }) => shape.hasDeviceClaims && status === "releasing");
    this.devices.begin(nowMs, going);
  }

  /** A pod's claims have changed, or who shares them: they may count for another number of GPUs. */
  claimsChanged(uid: string): void {
    const task = this.tasks.get(uid);
    if (task === undefined || !task.shape.hasDeviceClaims) return;
    this.version++;
    if (task.job !== undefined) task.job.pendingVector = undefined;
    if (task.counted !== undefined) task.counted = this.recharge(task, this.heldVector(task));
  }

  /** The memory of the smallest and of the largest GPU there is. */
  gpuMemoryRange(): { leastMiB: number; mostMiB: number } {
    if (!this.isGpuMemoryDirty) return this.gpuMemory;
    let leastMiB = Number.POSITIVE_INFINITY;
    let mostMiB = 0;
    for (const node of this.table.nodes) {
      if ((node.capacity[gpuAt] ?? 0) <= 0 || !node.knowsGpuMemory) continue;
      leastMiB = Math.min(leastMiB, node.gpuMemoryMiB);
      mostMiB = Math.max(mostMiB, node.gpuMemoryMiB);
    }
    this.gpuMemory = mostMiB === 0 ? { leastMiB: 100, mostMiB: 100 } : { leastMiB, mostMiB };
    this.isGpuMemoryDirty = false;
    for (const job of this.waiting) job.pendingVector = undefined;
    return this.gpuMemory;
  }

  /** What queues divide; after a refresh. */
  total(): Vector {
    return this.sum.vector();
  }

  /** What the pending pods of a job ask for, for fairness. */
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

  // Changes, by events and by what is tried

  setStatus(task: Task, status: TaskStatus): void {
    const before = task.status;
    if (before === status) return;
    task.podSet?.shift(before, -1);
    task.status = status;
    task.podSet?.shift(status, 1);
    const { job } = task;
    // Whether a pod is bound, binding or running is all the same to a decision; but the rest of a gang waits for those on their way.
    const isAwaited = before === "binding" && job !== undefined && job.pendingCount > 0;
    if (!isAllocatedStatus[before] || !isAllocatedStatus[status] || isAwaited) this.version++;
    if (job === undefined) return;
    this.noteHealth(job);
    if (before === "pending" || status === "pending") {
      job.pendingVector = undefined;
      this.noteWaiting(job);
    }
    if (isAllocatedStatus[before] !== isAllocatedStatus[status]) {
      task.counted = this.recharge(task, isAllocatedStatus[status] ? this.heldVector(task) : undefined);
    }
  }

  setHoldings(task: Task, wanted: readonly WantedHolding[]): void {
    const before = task.holdings;
    if (before.length === wanted.length && wanted.every((each, at) => sameHolding(before[at], each))) {
      for (const [at, { state }] of wanted.entries()) {
        const holding = before[at] as Holding;
        if (holding.state === state) continue;
        this.version++;
        this.table.setState(holding, state);
      }
      return;
    }
    this.version++;
    for (const holding of before) this.drop(task, holding);
    task.holdings = [];
    task.holdings = wanted.map(({ node, groups, state }) => {
      this.terms.took(task, node);
      return this.table.hold(task, node, groups, state);
    });
  }

  /** Restores what a task had, exactly. */
  restore(task: Task, holdings: readonly Holding[], states: readonly HoldState[], status: TaskStatus): void {
    for (const holding of task.holdings) if (!holdings.includes(holding)) this.drop(task, holding);
    for (const [at, holding] of holdings.entries()) {
      const state = states[at] as HoldState;
      if (task.holdings.includes(holding)) {
        if (holding.state !== state) this.table.setState(holding, state);
        continue;
      }
      holding.state = state;
      this.terms.took(task, holding.node);
      this.table.holdAgain(holding);
    }
    task.holdings = holdings;
    this.setStatus(task, status);
  }

  /** One more holding beside those that it has. */
  addHolding(task: Task, node: NodeState, groups: readonly string[], state: HoldState): void {
    this.terms.took(task, node);
    task.holdings = [...task.holdings, this.table.hold(task, node, groups, state)];
  }

  setHoldStates(task: Task, state: HoldState): void {
    for (const holding of task.holdings) if (holding.state !== state) this.table.setState(holding, state);
  }

  private drop(task: Task, holding: Holding): void {
    this.terms.left(task, holding.node);
    this.table.release(holding);
  }

  /** Works out a task's status and what it holds, from its pod and its places. */
  private settle(task: Task, nowMs?: number): void {
    const status = this.statusOf(task, nowMs);
    if (status === "releasing" || status === "stuck") this.releasing.add(task);
    else this.releasing.delete(task);
    const state: HoldState = status === "releasing" ? "releasing" : status === "stuck" ? "stuck" : "used";
    const isOver = status === "succeeded" || status === "failed";
    const wanted: WantedHolding[] = isOver
      ? []
      : task.places.map(({ node, groups }) => ({
          node: this.table.named(node),
          groups: task.isReservation ? gpuGroupsOfLabels(task.pod.metadata.labels) : groups,
          state,
        }));
    if (isOver && task.shape.hasDeviceClaims) this.devices.left(task.pod);
    const isMoved = !sameHoldings(task.holdings, wanted);
    this.setHoldings(task, wanted);
    this.setStatus(task, status);
    if (isAllocatedStatus[status] && (isMoved || task.counted === undefined)) {
      task.counted = this.recharge(task, this.heldVector(task));
    }
  }

  private statusOf(task: Task, nowMs: number | undefined): TaskStatus {
    const { metadata, spec, status } = task.pod;
    if (status?.phase === "Succeeded") return "succeeded";
    if (status?.phase === "Failed") return "failed";
    const isPlaced = task.places.length > 0;
    if (metadata.deletionTimestamp !== undefined || task.isBeingEvicted) {
      const endMs = timeToMs(metadata.deletionTimestamp);
      const isStuck = endMs !== undefined && nowMs !== undefined && nowMs > endMs + this.settings.stuckInReleasingMs;
      if (isStuck || (nowMs === undefined && task.status === "stuck")) return "stuck";
      return "releasing";
    }
    if (spec?.nodeName !== undefined && spec.nodeName !== "") return status?.phase === "Running" ? "running" : "bound";
    if (isPlaced) return "binding";
    if ((spec?.schedulingGates?.length ?? 0) > 0) return "gated";
    return status?.phase === undefined || status.phase === "Pending" ? "pending" : "unknown";
  }

  /** Finds the job of a pod, if it has one. */
  private enrol(task: Task): void {
    const { pod } = task;
    // What keeps a GPU for others waits for nobody.
    if (task.isReservation) return;
    const scheduler = pod.spec?.schedulerName ?? defaultSchedulerName;
    if (scheduler === defaultSchedulerName) {
      if (!this.settings.placesPlainPods) return;
      const gang = this.settings.formsPlainGangs ? plainGangOf(pod) : undefined;
      if (gang !== undefined) {
        this.enrolIn(gang, task);
        return;
      }
      const job = new Job(task.uid, pod, false, { minMember: 1 }, pod.spec?.priority ?? 0);
      this.jobs.set(job.id, job);
      this.join(job, task);
      return;
    }
    if (scheduler !== kaiSchedulerName || task.groupName === undefined) return;
    this.enrolIn(`${task.namespace}/${task.groupName}`, task);
  }

  private enrolIn(id: string, task: Task): void {
    const job = this.jobs.get(id);
    if (job !== undefined) {
      this.join(job, task);
      return;
    }
    const early = this.withoutGroup.get(id);
    task.waitsForGroup = id;
    if (early === undefined) this.withoutGroup.set(id, new Set([task]));
    else early.add(task);
  }

  private join(job: Job, task: Task): void {
    task.waitsForGroup = undefined;
    task.job = job;
    job.tasks.add(task);
    job.seat(task);
    job.pendingVector = undefined;
    if (isAllocatedStatus[task.status]) task.counted = this.recharge(task, this.heldVector(task));
    this.noteWaiting(job);
    this.noteHealth(job);
  }

  private withdraw(task: Task): void {
    const { job } = task;
    if (job === undefined) {
      const { waitsForGroup: id } = task;
      task.waitsForGroup = undefined;
      const early = id === undefined ? undefined : this.withoutGroup.get(id);
      if (id !== undefined && early?.delete(task) === true && early.size === 0) this.withoutGroup.delete(id);
      return;
    }
    task.counted = this.recharge(task, undefined);
    job.unseat(task);
    job.tasks.delete(task);
    job.pendingVector = undefined;
    task.job = undefined;
    this.noteWaiting(job);
    this.noteHealth(job);
    if (job.id === task.uid) {
      this.jobs.delete(job.id);
      this.waiting.delete(job);
    }
  }

  private makeJob(id: string, group: PodGroup): void {
    const job = new Job(id, group, true, group.spec ?? {}, this.priorityOf(group));
    job.queue = this.queues.byName.get(job.queueName);
    this.addJob(job);
  }

  private addJob(job: Job): void {
    this.jobs.set(job.id, job);
    // Pods may have come before their group.
    const early = this.withoutGroup.get(job.id);
    this.withoutGroup.delete(job.id);
    for (const task of early ?? []) this.join(job, task);
  }

  /** Notes whether a gang runs with less than it needs. */
  private noteHealth(job: Job): void {
    if (!job.isGroup) return;
    // One pod is enough: whoever has one has enough.
    if ((job.root.podSet?.min ?? 2) < 2) return;
    let used = 0;
    let succeeded = 0;
    for (const set of job.podSets) {
      // Who is only on its way runs nothing yet: a set of requests that stays incomplete is taken back, and its pods go on waiting.
      used += set.used - set.countOf("binding");
      succeeded += set.countOf("succeeded");
    }
    if (used > 0 && succeeded === 0 && isBelowMinimum(job.root)) this.unwell.add(job);
    else this.unwell.delete(job);
  }

  private noteWaiting(job: Job): void {
    if (job.pendingCount > 0) this.waiting.add(job);
    else this.waiting.delete(job);
  }

  /** Replaces what the queues count for a task, and says what they count now. */
  private recharge(task: Task, vector: Vector | undefined): Vector | undefined {
    const { job, counted } = task;
    if (job === undefined) return undefined;
    if (counted !== undefined) {
      addTo(job.allocated, counted, -1);
      job.queue?.charge(counted, job.isPreemptible, -1);
      this.chargeType(job, task.countedType, -counted[0]);
    }
    if (vector !== undefined) {
      addTo(job.allocated, vector);
      job.queue?.charge(vector, job.isPreemptible, 1);
      task.countedType = task.holdings.at(-1)?.node.gpuType ?? "";
      this.chargeType(job, task.countedType, vector[0]);
    }
    return vector;
  }

  private chargeType(job: Job, type: string, gpuMilli: number): void {
    if (gpuMilli === 0) return;
    job.allocatedByType.set(type, (job.allocatedByType.get(type) ?? 0) + gpuMilli);
    job.queue?.chargeType(type, gpuMilli, job.isPreemptible, 1);
  }

  private heldVector(task: Task): Vector {
    const node = task.holdings.at(-1)?.node;
    return this.vectorOf(task, node?.knowsGpuMemory === true ? node.gpuMemoryMiB : this.gpuMemoryRange().leastMiB);
  }

  private chargeJob(job: Job, times: number): void {
    job.queue?.charge(job.allocated, job.isPreemptible, times);
    for (const [type, gpuMilli] of job.allocatedByType) job.queue?.chargeType(type, gpuMilli, job.isPreemptible, times);
  }

  private rebuildQueues(): void {
    this.areQueuesDirty = false;
    this.queues = new QueueTree(this.queueObjects.values(), { hasFullHierarchy: this.settings.hasFullHierarchy });
    this.takeUsage();
    for (const job of this.jobs.values()) {
      job.queue = this.queues.byName.get(job.queueName);
      this.chargeJob(job, 1);
    }
  }

  private takeUsage(): void {
    for (const queue of this.queues.byName.values()) queue.usage = [...(this.usage.get(queue.name) ?? zeroVector())];
  }

  private repriceJobs(): void {
    for (const [id, group] of this.groups) {
      const job = this.jobs.get(id);
      if (job === undefined) continue;
      this.chargeJob(job, -1);
      job.priority = this.priorityOf(group);
      this.chargeJob(job, 1);
    }
  }

  private priorityOf(group: PodGroup): number {
    const named = this.priorityClasses.get(group.spec?.priorityClassName ?? "");
    if (named !== undefined) return named.value ?? 0;
    for (const each of this.priorityClasses.values()) if (each.globalDefault === true) return each.value ?? 0;
    return defaultPriority;
  }

  /** For tests: everything that is counted as it changes, counted again from who holds it. */
  assertCounts(): void {
    for (const node of this.table.nodes) {
      const idle = this.table.idle.map((amounts) => amounts[node.index]);
      const later = this.table.later.map((amounts) => amounts[node.index]);
      this.table.recount(node);
      for (const [place, name] of this.names.names.entries()) {
        assert(
          idle[place] === this.table.idle[place]?.[node.index] &&
            later[place] === this.table.later[place]?.[node.index],
          () => `${name} of ${node.name} was counted as ${idle[place]}/${later[place]}`,
        );
      }
    }
    const [kept, counted] = [this.sum, new ClusterTotal(this.table, this.names)].map((each) => each.vector().join());
    assert(kept === counted, () => `the total was counted as ${kept}, and the nodes have ${counted}`);
    const sums = new Map([...this.queues.byName.keys()].map((name) => [name, zeroVector()]));
    for (const task of this.tasks.values()) {
      if (task.counted === undefined) continue;
      for (const queue of task.job?.queue?.path() ?? []) addTo(sums.get(queue.name) ?? zeroVector(), task.counted);
    }
    for (const [name, expected] of sums) {
      const { allocated } = this.queues.byName.get(name) ?? { allocated: zeroVector() };
      const types = new Map<string, number>();
      for (const { counted, countedType, job } of this.tasks.values()) {
        if (counted === undefined || ![...(job?.queue?.path() ?? [])].some((queue) => queue.name === name)) continue;
        types.set(countedType, (types.get(countedType) ?? 0) + counted[0]);
      }
      for (const [type, gpuMilli] of types) {
        const has = this.queues.byName.get(name)?.ofType(type).allocated;
        assert(has === gpuMilli, () => `queue ${name} was counted as ${has} of ${type}, and its pods hold ${gpuMilli}`);
      }
      assert(
        allocated.every((each, at) => each === expected[at]),
        () => `queue ${name} was counted as ${allocated.join()}, and its pods hold ${expected.join()}`,
      );
    }
  }
}

/** Whether two states of a node are the same to a decision. */
function hasSameFacts(a: Node, b: Node): boolean {
  if (a.metadata.uid !== b.metadata.uid || a.metadata.deletionTimestamp !== b.metadata.deletionTimestamp) return false;
  return (
    (a.metadata.labels === b.metadata.labels || equalJson(a.metadata.labels, b.metadata.labels)) &&
    equalJson(a.spec?.taints, b.spec?.taints) &&
    a.spec?.unschedulable === b.spec?.unschedulable &&
    equalJson(a.status?.allocatable, b.status?.allocatable) &&
    equalJson(a.status?.conditions?.map(verdictOf), b.status?.conditions?.map(verdictOf))
  );
}

/** Whether two states of one group are the same to a decision, leaving the spec aside. */
function hasSameMarks(a: PodGroup, b: PodGroup): boolean {
  return (
    equalJson(a.metadata.annotations, b.metadata.annotations) &&
    equalJson(a.status?.schedulingConditions, b.status?.schedulingConditions)
  );
}

function verdictOf({ type, status }: { type: string; status: string }): string {
  return `${type}=${status}`;
}

export interface WantedHolding {
  readonly node: NodeState;
  readonly groups: readonly string[];
  readonly state: HoldState;
}

function sameHolding(a: Holding | undefined, b: WantedHolding): boolean {
  return (
    a !== undefined &&
    a.node === b.node &&
    a.groups.length === b.groups.length &&
    a.groups.every((group, at) => group === b.groups[at])
  );
}

function sameHoldings(a: readonly Holding[], b: readonly WantedHolding[]): boolean {
  return a.length === b.length && b.every((each, at) => sameHolding(a[at], each));
}

/** A pod that is bound and has not got its labels yet is on one node, with the groups that its intent names. */
function onePerNode(places: readonly Place[]): readonly Place[] {
  if (places.length < 2) return places;
  const byNode = new Map<string, Place>();
  for (const place of places) {
    const known = byNode.get(place.node);
    if (known === undefined || place.groups.length > known.groups.length) byNode.set(place.node, place);
  }
  return [...byNode.values()];
}
