/** `muster window`: the window of a cluster that was saved. */
import { systemClock } from "../../adapters/systemClock.ts";
import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import { jobRows } from "../../decide/schedule/explain/report.ts";
import { deviceModelOf } from "../../decide/schedule/model/clusterOf.ts";
import { poolClusters } from "../../decide/schedule/poolClusters.ts";
import { savedObjects } from "../../decide/schedule/savedObjects.ts";
import type { ClusterSnapshot } from "../../decide/verify/clusterSnapshot.ts";
import { gangsIn } from "../../decide/verify/gangsIn.ts";
import { type PoolView, readModel } from "../../decide/window/readModel.ts";
import { nameOfJob, WallMemory } from "../../decide/window/wall.ts";
import { whyOf } from "../../decide/window/why.ts";
import type { ReadModel } from "../../model/window/parts.ts";
import type { WhyFindings } from "../../model/window/why.ts";
import { untilSignal } from "../cluster/untilSignal.ts";
import { readSnapshot } from "../views/readCluster.ts";
import { serveWindow, type WindowFlags, whyAnswer } from "./serveWindow.ts";

export interface SavedWindowFlags extends WindowFlags {
  readonly snapshot: string;
  readonly output: "text" | "json";
}

export async function showSaved(flags: SavedWindowFlags): Promise<void> {
  const saved = new SavedCluster(await readSnapshot(flags.snapshot));
  const questions = { why: (name: string) => whyAnswer(saved, name) };
  const server = await serveWindow(flags, {
    source: saved,
    clock: systemClock(),
    questions,
    actions: {},
    isDemo: false,
    mode: "file",
  });
  const json = `${JSON.stringify({ ready: true, dashboard: server.url })}\n`;
  process.stdout.write(flags.output === "json" ? json : `window: ${server.url}\n`);
  await untilSignal();
  await server.stop();
}

/** One revision, which does not change. */
export class SavedCluster {
  readonly isBehind = false;
  private readonly model: ReadModel;
  private readonly clusters: readonly Cluster[];
  private readonly takenAtMs: number;

  constructor(snapshot: ClusterSnapshot) {
    const { objects, shards } = savedObjects(snapshot);
    const devices = deviceModelOf(objects);
    this.takenAtMs = snapshot.takenAtMs;
    this.clusters = poolClusters(objects, shards);
    this.model = readModel(
      {
        pools: this.clusters.map((cluster) => poolOf(cluster, snapshot.takenAtMs)),
        gangs: gangsIn(snapshot),
        slicesOn: (node) => devices?.slicesOn(node) ?? [],
        claimsOf: (uid) => devices?.claimsByUser.get(uid) ?? [],
      },
      { rev: Number(snapshot.revision), nowMs: snapshot.takenAtMs },
      new WallMemory(),
    );
  }

  read(): ReadModel {
    return this.model;
  }

  why(id: string): WhyFindings | undefined {
    for (const cluster of this.clusters) {
      const found = whyOf(cluster, id, this.takenAtMs);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** With the reasons that the scheduler would report. */
function poolOf(cluster: Cluster, nowMs: number): PoolView {
  const rows = new Map(jobRows(cluster, nowMs).map((row) => [row.id, row]));
  return {
    cluster,
    reasonOf: (id) => {
      const job = cluster.jobs.get(id);
      const row = rows.get(job === undefined ? id : nameOfJob(job));
      return row === undefined ? undefined : { reason: row.reason, message: row.message, cure: "" };
    },
  };
}
