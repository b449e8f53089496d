/**
 * The difference between two read models. The server computes it, the page applies it, and the past is stored as a
 * complete model with later differences.
 */
import { equalFields } from "../objects/json.ts";
import {
  type GangsPart,
  type GpuCell,
  type JobRow,
  type JobsPart,
  type NodeRow,
  type OccupantRow,
  type PartName,
  type Parts,
  partNames,
  type QueuesPart,
  type ReadModel,
  type Sums,
  type WallPart,
} from "./parts.ts";

type Indexed<T> = readonly (readonly [number, T])[];

/**
 * What changed of the wall. It is sent as a `whole` when nodes or GPUs were added, removed or moved, because rows are
 * identified by their index.
 */
export interface WallOps {
  readonly whole?: WallPart;
  readonly nodes?: Indexed<NodeRow>;
  readonly gpus?: Indexed<GpuCell>;
  readonly occupants?: { readonly set?: readonly OccupantRow[]; readonly gone?: readonly number[] };
  readonly sums?: Sums;
}

export interface JobsOps {
  readonly set?: readonly JobRow[];
  readonly gone?: readonly string[];
  /** All ids in order, if the order has changed. */
  readonly order?: readonly string[];
}

export interface Ops {
  readonly wall?: WallOps;
  readonly jobs?: JobsOps;
  readonly queues?: QueuesPart;
  readonly gangs?: GangsPart;
}

/** What changed between two revisions. */
export interface Delta {
  readonly from: number;
  readonly rev: number;
  readonly at: string;
  readonly ops: Ops;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export function diff(before: ReadModel, after: ReadModel): Delta {
  const ops: Mutable<Ops> = {};
  const wall = diffWall(before.wall, after.wall);
  if (wall !== undefined) ops.wall = wall;
  const jobs = diffJobs(before.jobs, after.jobs);
  if (jobs !== undefined) ops.jobs = jobs;
  if (!isSame(before.queues, after.queues)) ops.queues = after.queues;
  if (!isSame(before.gangs, after.gangs)) ops.gangs = after.gangs;
  return { from: before.rev, rev: after.rev, at: after.at, ops };
}

export function apply(before: ReadModel, { rev, at, ops }: Delta): ReadModel {
  return {
    rev,
    at,
    wall: ops.wall === undefined ? before.wall : applyWall(before.wall, ops.wall),
    jobs: ops.jobs === undefined ? before.jobs : applyJobs(before.jobs, ops.jobs),
    queues: ops.queues ?? before.queues,
    gangs: ops.gangs ?? before.gangs,
  };
}

/** The difference, limited to the requested parts. */
export function ofParts(delta: Delta, parts: ReadonlySet<PartName>): Delta {
  const ops = Object.fromEntries(partNames.flatMap((name) => (parts.has(name) ? [[name, delta.ops[name]]] : [])));
  return { ...delta, ops };
}

export function isEmpty({ ops }: Delta): boolean {
  return partNames.every((name) => ops[name] === undefined);
}

/** Reuses the objects of the old model for unchanged rows and parts of the new one. */
export function keepSame(before: ReadModel, after: ReadModel): ReadModel {
  const keep = <K extends PartName>(name: K): Parts[K] =>
    isSame(before[name], after[name]) ? before[name] : after[name];
  return {
    ...after,
    wall: keepWall(before.wall, after.wall),
    jobs: keep("jobs"),
    queues: keep("queues"),
    gangs: keep("gangs"),
  };
}

function keepWall(before: WallPart, after: WallPart): WallPart {
  if (!isSameLayout(before, after)) return after;
  const rows = <T>(old: readonly T[], now: readonly T[]): readonly T[] => {
    let isEqual = old.length === now.length;
    const kept = now.map((each, at) => {
      const was = old[at] as T;
      if (isSame(was, each)) return was;
      isEqual = false;
      return each;
    });
    return isEqual ? old : kept;
  };
  const kept: WallPart = {
    racks: before.racks,
    types: before.types,
    nodes: rows(before.nodes, after.nodes),
    gpus: rows(before.gpus, after.gpus),
    occupants: isSame(before.occupants, after.occupants) ? before.occupants : after.occupants,
    sums: isSame(before.sums, after.sums) ? before.sums : after.sums,
  };
  const isEqual = (Object.keys(kept) as (keyof WallPart)[]).every((name) => kept[name] === before[name]);
  return isEqual ? before : kept;
}

function diffWall(before: WallPart, after: WallPart): WallOps | undefined {
  if (before === after) return undefined;
  if (!isSameLayout(before, after)) return { whole: after };
  const ops: Mutable<WallOps> = {};
  const nodes = indexed(before.nodes, after.nodes);
  if (nodes.length > 0) ops.nodes = nodes;
  const gpus = indexed(before.gpus, after.gpus);
  if (gpus.length > 0) ops.gpus = gpus;
  const occupants = diffOccupants(before.occupants, after.occupants);
  if (occupants !== undefined) ops.occupants = occupants;
  if (!isSame(before.sums, after.sums)) ops.sums = after.sums;
  return Object.keys(ops).length === 0 ? undefined : ops;
}

/** Whether every index still is the same node or GPU. */
function isSameLayout(before: WallPart, after: WallPart): boolean {
  return (
    before.gpus.length === after.gpus.length &&
    before.nodes.length === after.nodes.length &&
    isSame(before.racks, after.racks) &&
    isSame(before.types, after.types) &&
    before.nodes.every((node, at) => {
      const other = after.nodes[at] as NodeRow;
      return (
        node === other || (node[0] === other[0] && node[1] === other[1] && node[2] === other[2] && node[4] === other[4])
      );
    })
  );
}

function diffOccupants(before: readonly OccupantRow[], after: readonly OccupantRow[]): WallOps["occupants"] {
  if (before === after) return undefined;
  const old = new Map(before.map((row) => [row[0], row]));
  const now = new Set(after.map(([id]) => id));
  const set = after.filter((row) => !isSame(old.get(row[0]), row));
  const gone = [...old.keys()].filter((id) => !now.has(id));
  if (set.length === 0 && gone.length === 0) return undefined;
  return { ...(set.length > 0 && { set }), ...(gone.length > 0 && { gone }) };
}

function diffJobs({ jobs: before }: JobsPart, { jobs: after }: JobsPart): JobsOps | undefined {
  if (before === after) return undefined;
  const old = new Map(before.map((job) => [job.id, job]));
  const now = new Set(after.map(({ id }) => id));
  const set = after.filter((job) => !isSame(old.get(job.id), job));
  const gone = before.filter(({ id }) => !now.has(id)).map(({ id }) => id);
  const order = after.map(({ id }) => id);
  const expected = [...before.map(({ id }) => id).filter((id) => now.has(id)), ...order.filter((id) => !old.has(id))];
  const isMoved = !isSame(order, expected);
  if (set.length === 0 && gone.length === 0 && !isMoved) return undefined;
  return { ...(set.length > 0 && { set }), ...(gone.length > 0 && { gone }), ...(isMoved && { order }) };
}

function applyWall(before: WallPart, ops: WallOps): WallPart {
  if (ops.whole !== undefined) return ops.whole;
  return {
    ...before,
    nodes: placed(before.nodes, ops.nodes),
    gpus: placed(before.gpus, ops.gpus),
    occupants: ops.occupants === undefined ? before.occupants : applyOccupants(before.occupants, ops.occupants),
    sums: ops.sums ?? before.sums,
  };
}

/** In order of their ids, as the server has them. */
function applyOccupants(
  before: readonly OccupantRow[],
  { set = [], gone = [] }: NonNullable<WallOps["occupants"]>,
): readonly OccupantRow[] {
  const byId = new Map(before.map((row) => [row[0], row]));
  for (const id of gone) byId.delete(id);
  for (const row of set) byId.set(row[0], row);
  return [...byId.values()].sort((a, b) => a[0] - b[0]);
}

export function applyJobs({ jobs }: JobsPart, { set = [], gone = [], order }: JobsOps): JobsPart {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  for (const id of gone) byId.delete(id);
  for (const job of set) byId.set(job.id, job);
  if (order === undefined) return { jobs: [...byId.values()] };
  return { jobs: order.flatMap((id) => byId.get(id) ?? []) };
}

function indexed<T>(before: readonly T[], after: readonly T[]): Indexed<T> {
  if (before === after) return [];
  const found: [number, T][] = [];
  for (const [at, each] of after.entries()) if (!isSame(before[at], each)) found.push([at, each]);
  return found;
}

function placed<T>(before: readonly T[], ops: Indexed<T> | undefined): readonly T[] {
  if (ops === undefined) return before;
  const copy = [...before];
  for (const [at, each] of ops) copy[at] = each;
  return copy;
}

function isSame(a: unknown, b: unknown): boolean {
  return a === b || equalFields(a, b);
}
