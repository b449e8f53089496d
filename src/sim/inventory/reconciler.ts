/** The product's reconciler as a process of the simulated world, again and again. Mistakes are put around it, not into it. */
import { inventoryDefaults } from "../../control/inventory/inventoryDefaults.ts";
import { readCluster } from "../../control/inventory/readCluster.ts";
import { type InventoryPorts, type RunReport, runInventory } from "../../control/inventory/runInventory.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { SimCloud } from "./simCloud.ts";
import { leaseMs, prefix, type Stage, told } from "./stage.ts";

/** A run that fails says so in its report; that is no mistake of the program. */
const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const uncounted: Metrics = { count: () => {}, gauge: () => {}, observe: () => {} };

/** Puts something wrong between the reconciler and the world. */
export type Mistake = (ports: InventoryPorts, stage: Stage, actor: ActorPorts) => InventoryPorts;

export function reconciler(
  name: string,
  stage: Stage,
  options: { mistake?: Mistake; everyMs?: number } = {},
): ActorSpec {
  return {
    name,
    run: async (actor) => {
      if (stage.tables.lockedBy !== undefined && owners.get(stage.tables.lockedBy) === name) stage.forgetLocks();
      while (!actor.cancel.cancelled) {
        await runOnce(stage, actor, options.mistake);
        await actor.sleep(options.everyMs ?? 600);
      }
    },
  };
}

/** Who took which lock, so that a process that starts again is not kept out by its own past. */
const owners = new WeakMap<object, string>();

export async function runOnce(stage: Stage, actor: ActorPorts, mistake?: Mistake): Promise<RunReport> {
  const database = stage.database(actor);
  const right: InventoryPorts = {
    clock: actor.clock,
    log: silent,
    metrics: uncounted,
    database: {
      look: () => database.look(),
      begin: async (start) => {
        const answer = await database.begin(start);
        if (answer.ok && answer.value.status === "begun") owners.set(answer.value.run, actor.name);
        return answer;
      },
    },
    cloud: new SimCloud(stage.cloud, actor),
    cluster: (cancel) => readCluster(actor.kube, cancel),
  };
  const { disks } = inventoryDefaults;
  const report = await runInventory(mistake?.(right, stage, actor) ?? right, {
    ...inventoryDefaults,
    names: { prefix, aliases: {} },
    nodeRules: { toleratedTaints: [], heartbeatMsMax: 0 },
    deadlineMs: 0,
    disks: {
      ...disks,
      disks: { ...disks.disks, leaseMs, staleClaimMs: 1_000 },
      trust: { dropMax: 1, dropCountMin: 1_000 },
      acceptDrop: true,
      batchRows: 3,
      snapshotsFullEveryMs: 2_000,
    },
  });
  if (report.phases.gpu !== undefined) {
    actor.observe(told.writesTypes, { types: report.plan.types, status: report.phases.gpu.status });
  }
  return report;
}
