/** The sets of Grove's scale tests produce what the specification counts, and after their deletion nothing is left. */
import { expect, test } from "vitest";
import { GangCluster } from "./gangCluster.ts";

test.each([
  { file: "scale-test-1000.yaml", set: "scale-test", replicas: 500 },
  { file: "scale-up.yaml", set: "scale-up", replicas: 250 },
])(
  "$file: $replicas cliques, $replicas gangs, two pods each",
  { timeout: 600_000 },
  async ({ file, set, replicas }) => {
    const cluster = await GangCluster.start({ nodes: 50, podsPerNode: 20 });
    await cluster.applyExample(file);
    for (let round = 0; round < 50 && cluster.set(set).status?.availableReplicas !== replicas; round++) {
      await cluster.settle(200);
    }
    const counts = (): Record<string, number> => ({
      cliques: cluster.names("grove.io/podcliques").length,
      gangs: cluster.names("scheduler.grove.io/podgangs").length,
      pods: cluster.pods().length,
      ready: cluster.readyPods(),
      services: cluster.names("/services").filter((name) => name !== "kubernetes").length,
    });
    const all = { cliques: replicas, gangs: replicas, pods: 2 * replicas, ready: 2 * replicas, services: replicas };
    expect(counts()).toEqual(all);
    expect(cluster.set(set).status).toMatchObject({ availableReplicas: replicas, observedGeneration: 1 });
    expect(cluster.set(set).status?.lastErrors).toBeUndefined();
    await cluster.scale("PodCliqueSet", set, 0);
    for (let round = 0; round < 50 && cluster.pods().length > 0; round++) await cluster.settle(200);
    expect(counts()).toEqual({ cliques: 0, gangs: 0, pods: 0, ready: 0, services: 0 });
  },
);
