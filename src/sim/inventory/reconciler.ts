/** The product's reconciler in a loop, as a process of the simulation. Bugs are injected around it, not into it. */
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
import { leaseMs, prefix, reports, type Stage } from "./stage.ts";

/** A failed run is recorded in its report; it is not a bug of the program. */
const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const uncounted: Metrics = { count: () => {}, gauge: () => {}, observe: () => {} };

/** Injects a bug between the reconciler and its ports. */
export type Mistake = (ports: InventoryPorts, stage: Stage, actor: ActorPorts) => InventoryPorts;

export interface ReconcilerOptions {
  readonly mistake?: Mistake;
  readonly everyMs?: number;
  /** Faults between the reconciler and its ports that are not bugs. */
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

/** The lock of each process, so that a restarted process is not locked out by its earlier life. */
const owners = new WeakMap<object, string>();

const { disks } = inventoryDefaults;

/** Short times, and without the guards that are made for more than three disks. */
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
  actor.observe(reports.runBegins, actor.clock.nowMs());
  const report = await runInventory(mistake?.(right, stage, actor) ?? right, settings);
  actor.observe(reports.runEnds, report);
  if (report.phases.gpu !== undefined) {
    actor.observe(reports.writesTypes, { types: report.plan.types, status: report.phases.gpu.status });
  }
  return report;
}
