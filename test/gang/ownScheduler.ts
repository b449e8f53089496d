/**
 * A cluster whose gangs are placed by this project's own scheduler and binder: the operator's PodGroups are what they
 * read.
 */
import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import { GangCluster, type GangClusterOptions } from "./gangCluster.ts";

const queues = { group: "scheduling.run.ai", version: "v2", plural: "queues" };

/** A node has room for one pod of 80Mi. */
export async function ownSchedulerCluster(options: GangClusterOptions): Promise<GangCluster> {
  const components = [schedulerComponent(), binderComponent()];
  const made = await GangCluster.start({ nodeMemory: "150Mi", ...options, components });
  const unbounded = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const spec = { resources: { cpu: unbounded, memory: unbounded, gpu: unbounded } };
  await made.must(
    made.kube.create(queues, {
      apiVersion: "scheduling.run.ai/v2",
      kind: "Queue",
      metadata: { name: "test" },
      spec,
    }),
  );
  return made;
}
