import { annotationKeys, labelKeys, nodeHeldBy } from "../../model/scheduling/keys.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { type ClusterObjects, clusterOf } from "./explain/report.ts";
import { defaultSettings } from "./settings.ts";
import { settingsOfShard } from "./shardSettings.ts";

/** One cluster for each node pool, as the scheduler of that pool sees it; the pool without a name first. */
export function poolClusters(objects: ClusterObjects, shards: readonly SchedulingShard[]): Cluster[] {
  const pools = new Set([""]);
  for (const each of [...objects.nodes, ...objects.queues, ...objects.groups]) pools.add(poolOf(each));
  const groupPools = new Map(
    objects.groups.map((group) => [`${group.metadata.namespace}/${group.metadata.name}`, poolOf(group)]),
  );
  return [...pools].sort().map((pool) => {
    const shard = shards.find(({ spec }) => (spec?.partitionLabelValue ?? "") === pool);
    const { settings } = settingsOfShard({ ...shard?.spec, partitionLabelValue: pool }, defaultSettings);
    const nodes = objects.nodes.filter((each) => poolOf(each) === pool);
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    const cluster = clusterOf(
      {
        ...objects,
        nodes,
        queues: objects.queues.filter((each) => poolOf(each) === pool),
        groups: objects.groups.filter((each) => poolOf(each) === pool),
        // Every pod on a node of the pool takes room there, whichever pool or scheduler it belongs to.
        pods: objects.pods.filter((pod) => {
          const { metadata } = pod;
          const group = metadata.annotations?.[annotationKeys.podGroup];
          const ofGroup = group === undefined ? undefined : groupPools.get(`${metadata.namespace}/${group}`);
          return (ofGroup ?? "") === pool || names.has(nodeHeldBy(pod) ?? "");
        }),
      },
      settings,
    );
    for (const each of objects.queues) {
      if (poolOf(each) !== pool) cluster.queuesElsewhere.set(each.metadata.name, poolOf(each));
    }
    // The pool without a name has a scheduler always.
    cluster.isUnserved = pool !== "" && shard === undefined;
    return cluster;
  });
}

function poolOf({ metadata }: { readonly metadata: { readonly labels?: Readonly<Record<string, string>> } }): string {
  return metadata.labels?.[labelKeys.nodePool] ?? "";
}
