/**
 * Everything that decisions read of a cluster, as plain data in a fixed order: clusters with equal descriptions lead to
 * the same decisions, whatever events they were built from.
 */
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";
import type { ClusterModel } from "./clusterModel.ts";

export type ClusterDescription = Readonly<Record<string, unknown>>;

/** Call `Cluster.refresh` first. */
export function describeCluster(cluster: Cluster): ClusterDescription {
  const { volumes, topologies, configMaps, queuesOfOtherPools } = cluster;
  const nodes = [...cluster.table.known()].filter(({ node, holdings }) => node !== undefined || holdings.size > 0);
  return {
    nodes: byName(nodes.map((node) => [node.name, describeNode(cluster, node)])),
    pods: byName([...cluster.tasks].map(([uid, task]) => [uid, describeTask(cluster, task)])),
    jobs: byName([...cluster.jobs].map(([id, job]) => [id, describeJob(cluster, job)])),
    waiting: [...cluster.waiting].map(({ id }) => id).sort(),
    unwell: [...cluster.unwell].map(({ id }) => id).sort(),
    withoutGroup: byName([...cluster.withoutGroup].map(([id, tasks]) => [id, uidsOf(tasks)])),
    queues: byName(
      [...cluster.queues.byName].map(([name, queue]) => {
        const { allocated, allocatedNonPreemptible, deserved, limit, weight, priority, usage, createdMs } = queue;
        const { preemptMinRuntimeMs, reclaimMinRuntimeMs, typeBounds } = queue;
        const bounds = { deserved, limit, weight, priority, preemptMinRuntimeMs, reclaimMinRuntimeMs };
        const parent = queue.parent?.name;
        const types = byName(typeBounds);
        return [name, { parent, createdMs, allocated, allocatedNonPreemptible, usage, types, ...bounds }];
      }),
    ),
    orphans: [...cluster.queues.orphans.keys()].sort(),
    terms: byName(cluster.terms.describe()),
    backOffs: byName(cluster.backOffs),
    total: cluster.total(),
    queuesOfOtherPools: byName(queuesOfOtherPools),
    // Topologies that a PodGroup of `scheduling.k8s.io` implies stay when it is deleted.
    topologies: [...topologies.keys()].filter((name) => !name.includes(" ")).sort(),
    configMaps: configMaps === undefined ? undefined : [...configMaps].sort(),
    volumeClaims: revisionsOf(volumes.volumeClaims),
    volumes: revisionsOf(volumes.volumes),
    classes: revisionsOf(volumes.classes),
    csiNodes: revisionsOf(volumes.csiNodes),
    budgets: revisionsOf(cluster.budgets.byKey),
  };
}

/** The description of a model: its cluster and its devices. */
export function describeModel({ cluster, devices }: ClusterModel): ClusterDescription {
  if (devices === undefined) return describeCluster(cluster);
  const { devices: taken, sharedIds } = devices.tracker.gatherAllocatedState();
  return { ...describeCluster(cluster), devices: { taken, sharedIds, slices: devices.nodes() } };
}

/** The first difference as text: the path and both values. */
export function differenceOf(kept: unknown, fresh: unknown, path = "cluster"): string | undefined {
  if (JSON.stringify(kept) === JSON.stringify(fresh)) return undefined;
  const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
  if (isRecord(kept) && isRecord(fresh)) {
    for (const key of new Set([...Object.keys(kept), ...Object.keys(fresh)])) {
      const found = differenceOf(kept[key], fresh[key], `${path}.${key}`);
      if (found !== undefined) return found;
    }
  }
  return `${path} is ${JSON.stringify(kept)}, and folded again ${JSON.stringify(fresh)}`;
}

function describeNode({ table, names }: Cluster, node: NodeState): object {
  const amounts = (of: readonly ArrayLike<number>[]): object =>
    byName(
      names.names
        .map((name, place): [string, number] => [name, of[place]?.[node.index] ?? 0])
        .filter(([, amount]) => amount !== 0),
    );
  return {
    revision: node.node?.metadata.resourceVersion,
    ...(node.index >= 0 && { idle: amounts(table.idle), later: amounts(table.later) }),
    ...(node.node !== undefined && { claimGpus: node.claimGpus }),
    heldByOthers: node.heldByOthers,
    groups: byName(node.groups),
    holders: [...node.holdings].map(({ holder, groups, state }) => `${holder.uid} ${groups.join()} ${state}`).sort(),
  };
}

function describeTask({ nominated }: Cluster, task: Task): object {
  return {
    status: task.status,
    places: [...task.places].map(({ node, groups }) => `${node} ${groups.join()}`).sort(),
    isBeingEvicted: task.isBeingEvicted,
    job: task.job?.id,
    waitsForGroup: task.waitsForGroup,
    podSet: task.podSet?.name,
    counted: task.counted,
    isNominated: nominated.has(task),
  };
}

function describeJob(cluster: Cluster, job: Job): object {
  return {
    queue: job.queue?.name,
    priority: job.priority,
    mayPreempt: job.mayPreempt,
    allocated: job.allocated,
    pending: cluster.pendingVector(job),
    pods: uidsOf(job.tasks),
    sets: job.podSets.map(({ name, min, allocated, pending, alive }) => ({ name, min, allocated, pending, alive })),
  };
}

function uidsOf(tasks: Iterable<Task>): string[] {
  return [...tasks].map(({ uid }) => uid).sort();
}

function revisionsOf(
  objects: ReadonlyMap<string, { readonly metadata: { readonly resourceVersion?: string } }>,
): object {
  return byName([...objects].map(([key, { metadata }]) => [key, metadata.resourceVersion]));
}

function byName(entries: Iterable<readonly [string, unknown]>): object {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}
