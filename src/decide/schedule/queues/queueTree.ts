import { assert } from "../../../model/assert.ts";
import { defaultQueuePriority, type Queue, type QueueResource, unlimited } from "../../../model/scheduling/queue.ts";
import { durationToMs } from "../../../model/values/goDuration.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { addTo, type Vector, zeroVector } from "../cluster/resources.ts";

/**
 * A queue in the tree, with its bounds, usage and fair share. GPUs in thousandths, CPU in thousandths of a core, memory
 * in bytes.
 */
export class QueueState {
  readonly name: string;
  readonly queue: Queue;
  readonly uid: string;
  readonly createdMs: number;
  readonly priority: number;
  /** The quota, as KAI calls it; -1 is unlimited. */
  readonly deserved: Readonly<Vector>;
  readonly limit: Readonly<Vector>;
  readonly weight: Readonly<Vector>;
  /** By type of GPU, in thousandths of a device; -1 is unlimited. */
  readonly typeBounds: ReadonlyMap<string, { readonly quota: number; readonly limit: number }>;
  readonly preemptMinRuntimeMs: number | undefined;
  readonly reclaimMinRuntimeMs: number | undefined;
  parent: QueueState | undefined;
  readonly children: QueueState[] = [];
  allocated: Vector = zeroVector();
  allocatedNonPreemptible: Vector = zeroVector();
  private readonly byType = new Map<string, TypeUse>();
  /** The number of charges with a negative sign. */
  releases = 0;
  /** Allocated and pending. */
  request: Vector = zeroVector();
  fairShare: Vector = zeroVector();
  /** Historical usage as a portion of the cluster, 0 to 1. */
  usage: Vector = zeroVector();

  constructor(queue: Queue) {
    this.queue = queue;
    this.name = queue.metadata.name;
    this.uid = queue.metadata.uid;
    this.createdMs = timeToMs(queue.metadata.creationTimestamp) ?? 0;
    const { resources, priority, preemptMinRuntime, reclaimMinRuntime } = queue.spec;
    this.priority = priority ?? defaultQueuePriority;
    const all = [resources?.gpu, resources?.cpu, resources?.memory] as const;
    this.deserved = vectorOf(all, "quota");
    this.limit = vectorOf(all, "limit");
    this.weight = all.map((each) => Math.max(0, each?.overQuotaWeight ?? 0)) as Vector;
    this.typeBounds = new Map(
      Object.entries(resources?.gpuTypes ?? {}).map(([type, { quota = unlimited, limit = unlimited }]) => [
        type,
        { quota: milliOf(quota), limit: milliOf(limit) },
      ]),
    );
    this.preemptMinRuntimeMs = durationToMs(preemptMinRuntime);
    this.reclaimMinRuntimeMs = durationToMs(reclaimMinRuntime);
  }

  get isLeaf(): boolean {
    return this.children.length === 0;
  }

  get displayName(): string {
    return this.queue.spec.displayName ?? this.name;
  }

  /** Itself, then its parent, up to the top. */
  *path(): Iterable<QueueState> {
    for (let at: QueueState | undefined = this; at !== undefined; at = at.parent) yield at;
  }

  ofType(type: string): Readonly<TypeUse> {
    return this.byType.get(type) ?? { allocated: 0, nonPreemptible: 0 };
  }

  chargeType(type: string, gpuMilli: number, isPreemptible: boolean, sign: number): void {
    for (const { byType } of this.path()) {
      const use = byType.get(type) ?? { allocated: 0, nonPreemptible: 0 };
      byType.set(type, use);
      use.allocated += gpuMilli * sign;
      if (!isPreemptible) use.nonPreemptible += gpuMilli * sign;
    }
  }

  charge(by: Readonly<Vector>, isPreemptible: boolean, sign: number): void {
    for (const queue of this.path()) {
      if (sign < 0) queue.releases++;
      addTo(queue.allocated, by, sign);
      assert(
        queue.allocated.every((amount) => amount > -0.5),
        () => `queue ${queue.name} has a negative allocation: ${queue.allocated.join()}`,
      );
      if (!isPreemptible) addTo(queue.allocatedNonPreemptible, by, sign);
    }
  }
}

/** The usage of one type of GPU by a queue, in thousandths of a device. */
export interface TypeUse {
  allocated: number;
  nonPreemptible: number;
}

function milliOf(devices: number): number {
  return devices < 0 ? unlimited : Math.round(devices * 1000);
}

/** GPUs are in thousandths and memory in bytes here; in the object in devices and megabytes. */
const unitOf: Readonly<Vector> = [1000, 1, 1_000_000];

function vectorOf(all: readonly (QueueResource | undefined)[], field: "quota" | "limit"): Vector {
  return all.map((each, at) => {
    const value = each?.[field] ?? 0;
    return value === unlimited || value < 0 ? unlimited : Math.round(value * (unitOf[at] as number));
  }) as Vector;
}

/** Why a queue is not in the tree. */
export interface Orphan {
  readonly queue: Queue;
  /** The queue, itself or an ancestor, with an invalid parent. */
  readonly child: string;
  readonly parent: string;
  /** Queues whose parents form a cycle, each the child of the next. */
  readonly circle?: readonly string[];
}

/** All queues of a node pool. A queue whose parent does not exist is an orphan, with its descendants. */
export class QueueTree {
  readonly byName = new Map<string, QueueState>();
  readonly roots: QueueState[] = [];
  /** Whether any queue bounds a type of GPU. */
  readonly hasTypes: boolean;
  /** Queues that are not in the tree, by name, and why. */
  readonly orphans = new Map<string, Orphan>();

  constructor(queues: Iterable<Queue>, options: { hasFullHierarchy: boolean } = { hasFullHierarchy: true }) {
    const all = new Map<string, QueueState>();
    for (const queue of [...queues].sort(byUid)) all.set(queue.metadata.name, new QueueState(queue));
    for (const state of all.values()) {
      const orphan = orphanOf(state, all);
      if (orphan === undefined) this.byName.set(state.name, state);
      else this.orphans.set(state.name, orphan);
    }
    this.hasTypes = [...this.byName.values()].some(({ typeBounds }) => typeBounds.size > 0);
    for (const state of this.byName.values()) {
      const parentName = state.queue.spec.parentQueue ?? "";
      const parent = parentName === "" ? undefined : this.parentOf(parentName, options.hasFullHierarchy);
      state.parent = parent;
      if (parent === undefined) this.roots.push(state);
      else parent.children.push(state);
    }
  }

  /** Without the full hierarchy, the parent of a queue is the top-level queue above it. */
  private parentOf(parentName: string, hasFullHierarchy: boolean): QueueState | undefined {
    let parent = this.byName.get(parentName);
    if (hasFullHierarchy) return parent;
    for (;;) {
      const above: QueueState | undefined = this.byName.get(parent?.queue.spec.parentQueue ?? "");
      if (above === undefined) return parent;
      parent = above;
    }
  }
}

function orphanOf(state: QueueState, all: ReadonlyMap<string, QueueState>): Orphan | undefined {
  const path: string[] = [];
  for (let at = state; ; ) {
    path.push(at.name);
    const parentName = at.queue.spec.parentQueue ?? "";
    if (parentName === "") return undefined;
    const seenAt = path.indexOf(parentName);
    if (seenAt >= 0) return { queue: state.queue, child: at.name, parent: parentName, circle: path.slice(seenAt) };
    const parent = all.get(parentName);
    if (parent === undefined) return { queue: state.queue, child: at.name, parent: parentName };
    at = parent;
  }
}

function byUid(a: Queue, b: Queue): number {
  return a.metadata.uid < b.metadata.uid ? -1 : a.metadata.uid > b.metadata.uid ? 1 : 0;
}
