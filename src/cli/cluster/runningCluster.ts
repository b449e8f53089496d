import { readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { lockHolder } from "../../adapters/store/directoryLock.ts";

/** The process that runs the embedded cluster of a data folder. */
export interface RunningCluster {
  readonly pid: number;
  /** `up` runs controllers and simulated nodes, `apiserver` runs neither. */
  readonly command: "up" | "apiserver";
  readonly api: string;
  readonly kubeconfig: string;
  /** The context of the kubeconfig. */
  readonly context: string;
  readonly startedMs: number;
  /** The address of the window, with its token. */
  readonly dashboard?: string;
}

const fileName = "running.json";

/** The cluster that runs on a data folder; undefined when it is stopped, also when its process was killed. */
export function runningCluster(dataDir: string): RunningCluster | undefined {
  const pid = lockHolder(join(resolve(dataDir), "apiserver"));
  if (pid === undefined) return undefined;
  const recorded = recordedCluster(dataDir);
  return recorded?.pid === pid ? recorded : undefined;
}

/** The process that has the data folder open, also while it is still starting. */
export function processOf(dataDir: string): number | undefined {
  return lockHolder(join(resolve(dataDir), "apiserver"));
}

export async function recordRunning(dataDir: string, cluster: RunningCluster): Promise<void> {
  await writeFile(join(dataDir, fileName), `${JSON.stringify(cluster)}\n`, { mode: 0o600 });
}

export async function forgetRunning(dataDir: string): Promise<void> {
  if (recordedCluster(dataDir)?.pid === process.pid) await rm(join(dataDir, fileName), { force: true });
}

function recordedCluster(dataDir: string): RunningCluster | undefined {
  try {
    return JSON.parse(readFileSync(join(resolve(dataDir), fileName), "utf8")) as RunningCluster;
  } catch {
    return undefined;
  }
}
