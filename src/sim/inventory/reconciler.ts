/** The product's reconciler as a process of the simulation, in a loop. Mistakes are put around it, not into it. */
import { inventoryDefaults } from "../../control/inventory/inventoryDefaults.ts";
import { readCluster } from "../../control/inventory/readCluster.ts";
import {
  type InventoryOptions,
  type InventoryPorts,
  type RunReport,
  runInventory,
} from "../../control/inventory/runInventory.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { SimCloud } from "./simCloud.ts";
import { leaseMs, prefix, type Stage, told } from "./stage.ts";

/** A failed run is in its report; it is no mistake of the program. */
const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const uncounted: Metrics = { count: () => {}, gauge: () => {}, observe: () => {} };

/** Puts a mistake between the reconciler and its ports. */
export type Mistake = (ports: InventoryPorts, stage: Stage, actor: ActorPorts) => InventoryPorts;

export interface ReconcilerOptions {
  readonly mistake?: Mistake;
  readonly everyMs?: number;
  /** What else is between the reconciler and its ports, and is no mistake. */
  readonly surroundings?: Mistake;
  readonly settings?: InventoryOptions;
}

export function reconciler(name: string, stage: Stage, options: ReconcilerOptions = {}): ActorSpec {
  return {
    name,
    run: async (actor) => {
      if (stage.tables.lockedBy !== undefined && owners.get(stage.tables.lockedBy) === name) stage.forgetLocks();
      while (!actor.cancel.cancelled) {
        await runOnce(stage, actor, options);
        await actor.sleep(options.everyMs ?? 600);
      }
    },
  };
}

/** Which process took which lock, so that a restarted process is not locked out by its own past. */
const owners = new WeakMap<object, string>();

const { disks } = inventoryDefaults;

/** Small and quick, and without the guards that a cloud of three disks would trip over. */
export const simSettings: InventoryOptions = {
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
};

export async function runOnce(
  stage: Stage,
  actor: ActorPorts,
  { mistake, surroundings, settings = simSettings }: ReconcilerOptions = {},
): Promise<RunReport> {
  const database = stage.database(actor);
  const bare: InventoryPorts = {
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
  const right = surroundings?.(bare, stage, actor) ?? bare;
  actor.observe(told.runBegins, actor.clock.nowMs());
  const report = await runInventory(mistake?.(right, stage, actor) ?? right, settings);
  actor.observe(told.runEnds, report);
  if (report.phases.gpu !== undefined) {
    actor.observe(told.writesTypes, { types: report.plan.types, status: report.phases.gpu.status });
  }
  return report;
}
