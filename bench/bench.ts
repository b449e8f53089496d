import { UsageError } from "../src/model/userError.ts";
import { benchApiServer } from "./apiserver.ts";
import { benchAudit } from "./audit.ts";
import { benchBinder } from "./binder.ts";
import { benchDevices } from "./devices.ts";
import { benchFairness } from "./fairness.ts";
import { type Figure, figureLine, figureTable, verdict } from "./figure.ts";
import { benchGang } from "./gang.ts";
import { benchInventory } from "./inventory.ts";
import { benchNodes } from "./nodes.ts";
import { benchScheduler } from "./scheduler.ts";
import { benchSimulator } from "./simulator.ts";
import { benchVerify } from "./verify.ts";
import { benchWorkloads } from "./workloads.ts";

const benchmarks: Readonly<Record<string, (say: (text: string) => void) => AsyncGenerator<Figure>>> = {
  apiserver: benchApiServer,
  audit: benchAudit,
  binder: benchBinder,
  devices: benchDevices,
  fairness: benchFairness,
  inventory: benchInventory,
  gang: benchGang,
  nodes: benchNodes,
  scheduler: benchScheduler,
  simulator: benchSimulator,
  verify: benchVerify,
  workloads: benchWorkloads,
};

/** Runs benchmarks by name and prints what was measured. Never fails on a slow figure: machines differ. */
export async function runBench(names: string[], options: { output: "text" | "json" }): Promise<void> {
  const wanted = names.length === 0 ? Object.keys(benchmarks) : names;
  for (const name of wanted) {
    if (benchmarks[name] !== undefined) continue;
    const known = Object.keys(benchmarks).join(", ");
    throw new UsageError("benchmark-unknown", `there is no benchmark ${JSON.stringify(name)}`, `choose from: ${known}`);
  }
  const results: Record<string, Figure[]> = {};
  for (const name of wanted) {
    const run = benchmarks[name];
    if (run === undefined) continue;
    const figures: Figure[] = [];
    for await (const figure of run((text) => process.stderr.write(`${name}: ${text} ...\n`))) {
      figures.push(figure);
      process.stderr.write(`  ${figureLine(figure)}\n`);
    }
    results[name] = figures;
    if (options.output === "text") process.stdout.write(`\n${name}\n${figureTable(figures)}\n`);
  }
  if (options.output !== "json") return;
  const judged = Object.fromEntries(
    Object.entries(results).map(([name, figures]) => [
      name,
      figures.map((figure) => ({ ...figure, verdict: verdict(figure) })),
    ]),
  );
  process.stdout.write(`${JSON.stringify(judged)}\n`);
}
