/**
 * The data of the window, as the server sends it to the page. Amounts are thousandths of a GPU, times are RFC 3339.
 * Long lists are tuples; a GPU is identified by its index.
 */

/**
 * `ready`; `cordoned`: takes no new pods; `unknown`: not ready or without a heartbeat, so the state of its GPUs is
 * unknown.
 */
export type NodeHealth = "ready" | "cordoned" | "unknown";

/** A node: name, index of the rack, index of the type, health, how many GPUs, since when it is not ready. */
export type NodeRow = readonly [string, number, number, NodeHealth, number, string];

/**
 * A group, or a pod without one, that occupies GPUs: id, `namespace/name` of the group or pod, queue, since when, pods
 * with a place, thousandths of a GPU a pod.
 */
export type OccupantRow = readonly [number, string, string, string, number, number];

/** Id of the occupant, number of the pod, thousandths, 1 while it is being released. */
export type Hold = readonly [number, number, number, 0 | 1];

/** `f` free, `u` in use, `l` leaving (a part of it at least), `c` free on a cordoned node, `?` unknown, `x` broken. */
export type GpuState = "f" | "u" | "l" | "c" | "?" | "x";

/** State, holds, the id of the nominated occupant (0: none), the fault. Empty trailing fields are omitted. */
export type GpuCell = readonly [GpuState, (readonly Hold[])?, number?, string?];

/** `total` is the sum of all other fields. */
export interface Sums {
  readonly total: number;
  readonly used: number;
  readonly leaving: number;
  readonly free: number;
  readonly freeInShares: number;
  readonly cordoned: number;
  readonly unknown: number;
  readonly broken: number;
}

export interface WallPart {
  readonly racks: readonly string[];
  readonly types: readonly string[];
  readonly nodes: readonly NodeRow[];
  readonly occupants: readonly OccupantRow[];
  readonly gpus: readonly GpuCell[];
  readonly sums: Sums;
}

/** A job that has pods to place. */
export interface JobRow {
  /** `namespace/name` of its group, or of its pod. */
  readonly id: string;
  readonly queue: string;
  readonly priority: number;
  readonly gpus: number;
  /** Placed pods, the minimum to start, and all pods. */
  readonly placed: number;
  readonly minimum: number;
  readonly pods: number;
  /** `Nominated`: nodes are reserved for it until the victims are deleted. */
  readonly state: "Pending" | "Nominated" | "Gated";
  readonly reason: string;
  readonly message: string;
  readonly cure: string;
  /** The dominant reason: a sentence, and a few words for a list. */
  readonly head: string;
  readonly short: string;
  readonly since: string;
  /** Its position among the pending jobs of its queue, from 1. */
  readonly line: number;
}

export interface JobsPart {
  readonly jobs: readonly JobRow[];
}

/** Limits and quotas below zero are unlimited. */
export interface QueueRow {
  readonly name: string;
  readonly parent: string;
  readonly depth: number;
  readonly priority: number;
  readonly weight: number;
  readonly quota: number;
  readonly limit: number;
  readonly fairShare: number;
  readonly allocated: number;
  /** The part of it that is non-preemptible. */
  readonly allocatedNonPreemptible: number;
  readonly requested: number;
  readonly pending: number;
  readonly isLeaf: boolean;
  /** Why the queue is not scheduled; empty when it is. */
  readonly note: string;
}

export interface QueuesPart {
  readonly queues: readonly QueueRow[];
  /** The total that the queues share. */
  readonly total: number;
}

/** A line of the tree of gangs. */
export interface GangLine {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly depth: number;
  /** Of a PodGroup; empty and 0 for the others. */
  readonly queue: string;
  readonly gpus: number;
  readonly since: string;
  readonly minimum: number;
  readonly replicas: number;
  readonly scheduled: number;
  readonly ready: number;
  /** Why it has fewer pods than its minimum; empty when it has enough. */
  readonly breach: string;
  /** Why it is being terminated; empty when it is not. */
  readonly ending: string;
  /** When it is terminated if the breach lasts; empty without a breach. */
  readonly endsAt: string;
}

export interface GangsPart {
  readonly gangs: readonly GangLine[];
}

export interface Parts {
  readonly wall: WallPart;
  readonly jobs: JobsPart;
  readonly queues: QueuesPart;
  readonly gangs: GangsPart;
}

export type PartName = keyof Parts;
export const partNames = ["wall", "jobs", "queues", "gangs"] as const satisfies readonly PartName[];

/** Everything that the window shows, at one revision. */
export interface ReadModel extends Parts {
  readonly rev: number;
  /** The server's time when the model was read. */
  readonly at: string;
}
