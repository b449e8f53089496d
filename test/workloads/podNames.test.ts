/** A client that waits for the deletion of a pod by name must not wait for ever. */
import { expect, test } from "vitest";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster, named, selector, template } from "./liveCluster.ts";

const owners = [
  ["apps/replicasets", named("apps/v1", "ReplicaSet", { replicas: 2, selector, template: template() })],
  ["apps/daemonsets", named("apps/v1", "DaemonSet", { selector, template: template() })],
  [
    "batch/jobs",
    named("batch/v1", "Job", { parallelism: 2, completions: 4, template: template({ restartPolicy: "Never" }) }),
  ],
] as const;

test.each(owners)("a pod of %s that was deleted is replaced under another name", async (resource, object) => {
  const cluster = await LiveCluster.start();
  await cluster.test.create(resource, object);
  await cluster.pass(3_000);
  const used = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const names = cluster.all<k.Pod>("/pods").map(({ metadata }) => metadata.name);
    expect(names).toHaveLength(2);
    expect(names.filter((name) => used.has(name))).toEqual([]);
    for (const name of names) {
      used.add(name);
      await cluster.test.delete("/pods", `default/${name}`);
    }
    await cluster.pass(60_000);
  }
  await cluster.stop();
});
