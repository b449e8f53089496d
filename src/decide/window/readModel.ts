/**
 * What every view of the window prints from: one function of the cluster model, at one revision. Parts that say the
 * same as before are the same objects.
 */
import { keepSame } from "../../model/window/delta.ts";
import type { ReadModel } from "../../model/window/parts.ts";
import type { GangObjects } from "../gang/gangTree.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import { gangsOf } from "./gangTable.ts";
import { queuesOf } from "./queueTable.ts";
import { jobsOf, type ReasonOf } from "./waiting.ts";
import { type WallMemory, type WallSources, wallOf } from "./wall.ts";

/** The cluster as the scheduler of one node pool has it, and why jobs wait in it. */
export interface PoolView {
  readonly cluster: Cluster;
  readonly reasonOf: ReasonOf;
}

export interface ReadSources extends Omit<WallSources, "clusters"> {
  readonly pools: readonly PoolView[];
  readonly gangs: GangObjects;
}

export interface Moment {
  readonly rev: number;
  readonly nowMs: number;
}

export function readModel(
  { pools, gangs, ...of }: ReadSources,
  { rev, nowMs }: Moment,
  memory: WallMemory,
  before?: ReadModel,
): ReadModel {
  const clusters = pools.map(({ cluster }) => cluster);
  const model: ReadModel = {
    rev,
    at: new Date(nowMs).toISOString(),
    wall: wallOf({ ...of, clusters }, memory),
    jobs: jobsOf(pools),
    queues: queuesOf(clusters),
    gangs: gangsOf(clusters, gangs, nowMs),
  };
  return before === undefined ? model : keepSame(before, model);
}
