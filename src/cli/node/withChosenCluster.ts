import type { KubeConnection } from "../../adapters/kubeHttp/connection.ts";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";

export interface NodeFlags extends ClusterFlags {
  readonly output: "text" | "json";
}

export interface ChosenCluster {
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly connection: KubeConnection;
}

/** Runs a command with the chosen cluster. */
export async function withChosenCluster<T>(
  flags: ClusterFlags,
  run: (cluster: ChosenCluster) => Promise<T>,
): Promise<T> {
  const clock = systemClock();
  const connection = await findCluster(flags);
  const kube = kubeHttp(connection, { clock, log: pinoLog({ level: "error" }) }, { fieldManager: "muster-node" });
  try {
    return await run({ kube, clock, connection });
  } finally {
    kube.close();
  }
}
