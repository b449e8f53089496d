import { type ReadSources, readModel } from "../../decide/window/readModel.ts";
import { nameOfJob, WallMemory } from "../../decide/window/wall.ts";
import { whyOf } from "../../decide/window/why.ts";
import { gangResources } from "../../model/gang/keys.ts";
import { resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { laterOf } from "../../model/revision.ts";
import type { ReadModel } from "../../model/window/parts.ts";
import type { WhyFindings } from "../../model/window/why.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type SchedulerPool, SchedulerPools } from "../schedule/schedulerPools.ts";

/** The cluster that this process schedules, for the window: read models of the scheduler's own model. */
export class LiveCluster {
  private readonly controllers: Controllers;
  private readonly memory = new WallMemory();
  private seen = "";

  constructor(controllers: Controllers) {
    this.controllers = controllers;
  }

  /** Undefined while the caches have not synced; the same object as before while nothing has changed. */
  read(before: ReadModel | undefined): ReadModel | undefined {
    const pools = this.pools();
    const [first] = pools;
    if (first === undefined || !first.caches.assumeCache.snapshot().isComplete) return undefined;
    const seen = pools.map(stateOf).join();
    if (before !== undefined && seen === this.seen) return before;
    this.seen = seen;
    for (const { caches } of pools) caches.model.applyAssumed();
    const newest = first.caches.neededWatches.map(({ revision }) => revision).reduce(laterOf);
    const nowMs = this.controllers.ports.clock.nowMs();
    return readModel(this.sourcesOf(pools), { rev: Number(newest), nowMs }, this.memory, before);
  }

  /** Why a job waits, tried on a copy of the cluster: the scheduler's own is not touched. */
  why(id: string): WhyFindings | undefined {
    const nowMs = this.controllers.ports.clock.nowMs();
    for (const { caches } of this.pools()) {
      const hasJob = [...caches.cluster.jobs.values()].some((job) => nameOfJob(job) === id);
      const found = hasJob ? whyOf(caches.model.refolded().cluster, id, nowMs) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** A kind that decides is not followed now: what is shown may be of the past. */
  get isBehind(): boolean {
    return this.pools().some(({ caches }) => caches.neededWatches.some(({ isFollowed }) => !isFollowed));
  }

  private pools(): readonly SchedulerPool[] {
    return this.controllers.known(SchedulerPools)?.all() ?? [];
  }

  private sourcesOf(pools: readonly SchedulerPool[]): ReadSources {
    const devices = pools.find(({ caches }) => caches.devices !== undefined)?.caches.devices?.model;
    return {
      pools: pools.map(({ caches, reasons }) => ({
        cluster: caches.cluster,
        reasonOf: (id) => reasons.get(id)?.verdict,
      })),
      slicesOn: (node) => devices?.slicesOn(node) ?? [],
      claimsOf: (uid) => devices?.claimsByUser.get(uid) ?? [],
      gangs: {
        sets: this.objectsOf(gangResources.PodCliqueSet),
        groups: this.objectsOf(gangResources.PodCliqueScalingGroup),
        cliques: this.objectsOf(gangResources.PodClique),
      },
    };
  }

  /** None where no controller of the process follows the kind. */
  private objectsOf<T extends KubeObject>(resource: Resource<T>): T[] {
    const cache = this.controllers.allCaches().find(({ kind }) => kind === resourceKey(resource));
    // The kind names the resource, and the handle of a resource names the type of its objects.
    return cache === undefined ? [] : [...(cache as ObjectCache<T>).table.view().objects.values()];
  }
}

/**
 * Another text, another cluster: kinds are followed by watches of their own, and decisions count before they are seen.
 */
function stateOf({ caches, reasons }: SchedulerPool): string {
  const revisions = caches.neededWatches.map(({ revision }) => revision).join(" ");
  return `${revisions} ${caches.cluster.changes.count} ${reasons.cycles}`;
}
