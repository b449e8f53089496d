import { annotationKeys, nodeHeldBy, nodePoolOf } from "../../model/scheduling/keys.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { type ClusterObjects, clusterWithPlaces, deviceModelOf } from "./model/clusterOf.ts";
import { defaultSettings } from "./settings.ts";
import { settingsOfShard } from "./shardSettings.ts";

/** One cluster for each node pool, as its scheduler reads it; the default pool first. */
export function poolClusters(objects: ClusterObjects, shards: readonly SchedulingShard[]): Cluster[] {
  const devices = deviceModelOf(objects);
  const pools = new Set([""]);
  for (const each of [...objects.nodes, ...objects.queues, ...objects.groups]) pools.add(nodePoolOf(each));
  const groupPools = new Map(
    objects.groups.map((group) => [`${group.metadata.namespace}/${group.metadata.name}`, nodePoolOf(group)]),
  );
  return [...pools].sort().map((pool) => {
    const shard = shards.find(({ spec }) => (spec?.partitionLabelValue ?? "") === pool);
    const { settings } = settingsOfShard({ ...shard?.spec, partitionLabelValue: pool }, defaultSettings);
    const nodes = objects.nodes.filter((each) => nodePoolOf(each) === pool);
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    const cluster = clusterWithPlaces(
      {
        ...objects,
        // Every pod on a node of the pool uses resources there, whichever pool or scheduler it belongs to.
        pods: objects.pods.filter((pod) => {
          const { metadata } = pod;
          const group = metadata.annotations?.[annotationKeys.podGroup];
          const ofGroup = group === undefined ? undefined : groupPools.get(`${metadata.namespace}/${group}`);
          return (ofGroup ?? "") === pool || names.has(nodeHeldBy(pod) ?? "");
        }),
      },
      settings,
      { ...(devices && { devices }) },
    );
    // The default pool always has a scheduler.
    cluster.isUnserved = pool !== "" && shard === undefined;
    return cluster;
  });
}
