import { assert } from "../../../model/assert.ts";
import type { Cluster } from "./cluster.ts";
import { ClusterTotal } from "./clusterTotal.ts";
import { addTo, zeroVector } from "./resources.ts";

/** For tests: recounts every incremental count from the holders. */
export function assertCounts(cluster: Cluster): void {
  // Without a cycle since nodes came or went, the arrays still have the earlier set of nodes.
  cluster.table.refresh();
  for (const node of cluster.table.nodes) {
    const idle = cluster.table.idle.map((amounts) => amounts[node.index]);
    const later = cluster.table.later.map((amounts) => amounts[node.index]);
    cluster.table.recountAndMark(node);
    for (const [place, name] of cluster.names.names.entries()) {
      assert(
        idle[place] === cluster.table.idle[place]?.[node.index] &&
          later[place] === cluster.table.later[place]?.[node.index],
        () => `${name} of ${node.name} was counted as ${idle[place]}/${later[place]}`,
      );
    }
  }
  const [kept, counted] = [
    cluster.total(),
    new ClusterTotal(cluster.table, cluster.names, cluster.settings).vector(),
  ].map((each) => each.join());
  assert(kept === counted, () => `the total was counted as ${kept}, and the nodes have ${counted}`);
  const sums = new Map([...cluster.queues.byName.keys()].map((name) => [name, zeroVector()]));
  for (const task of cluster.tasks.values()) {
    if (task.counted === undefined) continue;
    for (const queue of task.job?.queue?.path() ?? []) addTo(sums.get(queue.name) ?? zeroVector(), task.counted);
  }
  for (const [name, expected] of sums) {
    const { allocated } = cluster.queues.byName.get(name) ?? { allocated: zeroVector() };
    const types = new Map<string, number>();
    for (const { counted, countedType, job } of cluster.tasks.values()) {
      if (counted === undefined || ![...(job?.queue?.path() ?? [])].some((queue) => queue.name === name)) continue;
      types.set(countedType, (types.get(countedType) ?? 0) + counted[0]);
    }
    for (const [type, gpuMilli] of types) {
      const has = cluster.queues.byName.get(name)?.ofType(type).allocated;
      assert(has === gpuMilli, () => `queue ${name} was counted as ${has} of ${type}, and its pods hold ${gpuMilli}`);
    }
    assert(
      allocated.every((each, at) => each === expected[at]),
      () => `queue ${name} was counted as ${allocated.join()}, and its pods hold ${expected.join()}`,
    );
  }
}
