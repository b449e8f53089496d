import { assert } from "../../model/assert.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { DeviceFit } from "./cluster/deviceClaims.ts";
import type { Job } from "./cluster/job.ts";
import type { Holding, HoldState, NodeState } from "./cluster/nodeState.ts";
import type { Task, TaskStatus } from "./cluster/task.ts";
import type { QueueState } from "./queues/queueTree.ts";

/** Why a pod is evicted, and for which job. */
export interface EvictionReason {
  readonly action: "reclaim" | "preempt" | "consolidation" | "stalegangeviction";
  readonly evictor: Job | undefined;
  readonly why: string;
  /** The name of the evictor in it. */
  readonly evictorName?: string;
  /** For reclaim: the usage of the queues that lose pods, before they lost them. */
  readonly standings?: Map<QueueState, string>;
}

/** An eviction that is tried, and the former status of the task. */
interface TriedEviction {
  readonly reason: EvictionReason;
  readonly from: TaskStatus;
}

/** The state of a task before a trial. */
interface Before {
  readonly task: Task;
  readonly status: TaskStatus;
  readonly holdings: readonly Holding[];
  readonly states: readonly HoldState[];
  readonly devicesAt: number;
  readonly eviction: TriedEviction | undefined;
  readonly devices: (DeviceFit & { ok: true }) | undefined;
}

/**
 * Tries decisions on the cluster. Every step records the former state, and a rollback restores it exactly, in reverse
 * order. The decisions that remain at the end of a cycle are its plan.
 */
export class Statement {
  private readonly cluster: Cluster;
  private readonly befores: Before[] = [];
  private readonly evictions = new Map<Task, TriedEviction>();
  private readonly devices = new Map<Task, DeviceFit & { ok: true }>();

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  /** A position for `rollback`. */
  checkpoint(): number {
    return this.befores.length;
  }

  rollback(checkpoint: number): void {
    while (this.befores.length > checkpoint) {
      const { task, status, holdings, states, devicesAt, eviction, devices } = this.befores.pop() as Before;
      this.cluster.restore(task, holdings, states, status);
      this.cluster.devices.rollback(devicesAt);
      this.cluster.countClaims();
      setOrDelete(this.evictions, task, eviction);
      setOrDelete(this.devices, task, devices);
    }
  }

  /** Places a pending task on a node: allocated now, or pipelined until resources there are released. */
  place(
    task: Task,
    node: NodeState,
    groups: readonly string[],
    isPipelined: boolean,
    devices?: DeviceFit & { ok: true },
  ): void {
    assert(task.status === "pending", () => `pod ${task.key} is ${task.status}, not pending`);
    this.note(task);
    this.cluster.setHoldings(task, [{ node, groups, state: isPipelined ? "pipelined" : "used" }]);
    if (devices !== undefined) {
      this.cluster.devices.assume(task, node, devices);
      this.cluster.countClaims();
      this.devices.set(task, devices);
    }
    this.cluster.setStatus(task, isPipelined ? "pipelined" : "allocated");
  }

  evict(task: Task, reason: EvictionReason): void {
    const from = task.status;
    this.note(task);
    this.cluster.setHoldStates(task, "releasing");
    if (task.shape.hasDeviceClaims) {
      this.cluster.devices.release(task);
      this.cluster.countClaims();
    }
    this.cluster.setStatus(task, "releasing");
    this.evictions.set(task, { reason, from });
  }

  /** Removes the pod with everything it holds. Only to try something, and never in a plan. */
  removeForTrial(task: Task): void {
    this.note(task);
    if (task.shape.hasDeviceClaims) {
      this.cluster.devices.release(task);
      this.cluster.countClaims();
    }
    this.cluster.setHoldings(task, []);
    this.cluster.setStatus(task, "unknown");
  }

  /** Places an evicted task on another node, where its replacement will run. The same node means that it stays. */
  replace(task: Task, node: NodeState, groups: readonly string[]): void {
    assert(this.evictions.has(task), () => `pod ${task.key} was not evicted`);
    const [old] = task.holdings;
    if (old !== undefined && old.node === node && sameGroups(old.groups, groups)) {
      this.unevict(task);
      return;
    }
    this.note(task);
    this.cluster.addHolding(task, node, groups, "pipelined");
    this.cluster.setStatus(task, "pipelined");
  }

  /** Undoes the placement of a pending task. */
  unplace(task: Task): void {
    assert(!task.shape.hasDeviceClaims, () => `pod ${task.key} has devices`);
    this.note(task);
    this.cluster.setHoldings(task, []);
    this.cluster.setStatus(task, "pending");
  }

  unevict(task: Task): void {
    const eviction = this.evictions.get(task);
    assert(eviction !== undefined, () => `pod ${task.key} was not evicted`);
    this.note(task);
    this.cluster.setHoldStates(task, "used");
    this.cluster.setStatus(task, eviction.from);
    this.evictions.delete(task);
  }

  /** Turns allocations into nominations: no pod of a gang starts before all can. */
  pipelineAll(tasks: Iterable<Task>): void {
    for (const task of tasks) {
      if (task.status !== "allocated") continue;
      this.note(task);
      this.cluster.setHoldStates(task, "pipelined");
      this.cluster.setStatus(task, "pipelined");
    }
  }

  evictionOf(task: Task): EvictionReason | undefined {
    return this.evictions.get(task)?.reason;
  }

  devicesOf(task: Task): (DeviceFit & { ok: true }) | undefined {
    return this.devices.get(task);
  }

  /** Tasks that were changed since a checkpoint, each once, in order. */
  touchedSince(checkpoint: number): readonly Task[] {
    return [...new Set(this.befores.slice(checkpoint).map(({ task }) => task))];
  }

  private note(task: Task): void {
    this.befores.push({
      task,
      status: task.status,
      holdings: task.holdings,
      states: task.holdings.map(({ state }) => state),
      devicesAt: this.cluster.devices.checkpoint(),
      eviction: this.evictions.get(task),
      devices: this.devices.get(task),
    });
  }
}

function sameGroups(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((group, at) => group === b[at]);
}

function setOrDelete<V>(map: Map<Task, V>, task: Task, value: V | undefined): void {
  if (value !== undefined) map.set(task, value);
  else if (map.size > 0) map.delete(task);
}
