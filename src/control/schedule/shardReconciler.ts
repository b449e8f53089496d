import type { Settings } from "../../decide/schedule/settings.ts";
import { settingsOfShard } from "../../decide/schedule/shardSettings.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type SchedulingShard, schedulingShardRef } from "../../model/scheduling/schedulingShard.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { Channel, kindSource } from "../runtime/sources.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";
import { addShard, type Shard, type ShardOptions } from "./shard.ts";

/** There are few shards, so they are reconciled together. */
const shardsKey = "shards";

/**
 * Runs one scheduler for each node pool that a SchedulingShard names, with the settings of the shard. The default pool,
 * which has no label, always has a scheduler, also without a shard. Returns a function for the caches of all pools.
 */
export function addShardReconciler(
  controllers: Controllers,
  first: Shard,
  base: Settings,
  options: ShardOptions,
): () => SchedulerCaches[] {
  const cache = controllers.cache(schedulingShardRef);
  const shards = new Map<string, Shard>([[base.nodePool, first]]);
  /** Caches of pools whose shard was deleted: their ledger has the in-flight writes. */
  const retired = new Map<string, SchedulerCaches>();

  const configure = ({ caches, wake }: Shard, settings: Settings): void => {
    if (equalFields(caches.cluster.settings, settings)) return;
    caches.cluster.configure(settings);
    wake();
  };

  /** The scheduler of the default pool reports pods of pools that no scheduler serves. */
  const serve = (pools: ReadonlySet<string>): void => {
    const { caches, wake } = first;
    const { servedPools } = caches.cluster;
    if (servedPools !== undefined && equalFields([...servedPools].sort(), [...pools].sort())) return;
    caches.cluster.servedPools = pools;
    wake();
  };

  const reconcile = async (): Promise<undefined> => {
    const wanted = new Map([[base.nodePool, base]]);
    for (const { metadata, spec = {} } of byAge(cache.table.view().objects.values())) {
      const { settings, problems } = settingsOfShard(spec, base, options.environment);
      for (const problem of problems) {
        controllers.ports.log.warn(
          { shard: metadata.name, problem },
          "a setting of a SchedulingShard is invalid and was ignored",
        );
      }
      const { nodePool } = settings;
      // Of two shards for one pool the older one counts.
      if (!wanted.has(nodePool) || wanted.get(nodePool) === base) wanted.set(nodePool, settings);
    }
    for (const [pool, settings] of wanted) {
      const known = shards.get(pool);
      if (known !== undefined) {
        configure(known, settings);
        continue;
      }
      const before = retired.get(pool);
      retired.delete(pool);
      before?.cluster.configure(settings);
      shards.set(pool, addShard(controllers, settings, options, before));
      controllers.ports.log.info({ pool }, "scheduler of a node pool started");
    }
    serve(new Set(wanted.keys()));
    for (const [pool, shard] of shards) {
      if (wanted.has(pool)) continue;
      shards.delete(pool);
      retired.set(pool, shard.caches);
      await shard.remove();
      controllers.ports.log.info({ pool }, "scheduler of a node pool stopped");
    }
    return undefined;
  };
  const always = new Channel();
  controllers.add({ name: "shards", sources: [always, kindSource(cache, () => [shardsKey])], reconcile });
  // That there is none is something to know as well.
  always.push(shardsKey);
  return () => [...shards.values()].map(({ caches }) => caches);
}

function byAge(objects: Iterable<KubeObject>): SchedulingShard[] {
  const timeOf = ({ metadata }: SchedulingShard): string => metadata.creationTimestamp ?? "";
  return [...objects].sort((a, b) => {
    if (timeOf(a) !== timeOf(b)) return timeOf(a) < timeOf(b) ? -1 : 1;
    return a.metadata.uid < b.metadata.uid ? -1 : 1;
  });
}
