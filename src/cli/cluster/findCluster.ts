import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { KubeConnection } from "../../adapters/kubeHttp/connection.ts";
import { inClusterConnection, isInCluster } from "../../adapters/kubernetes/inCluster.ts";
import { loadKubeconfig } from "../../adapters/kubernetes/kubeconfig.ts";

/** Flags by which a person says which cluster is meant. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly dataDir?: string;
}

/**
 * Which cluster is meant: the kubeconfig or context that was asked for; else the one that `muster up` or `muster
 * apiserver` runs on this data folder; else the cluster whose pod we are; else what kubectl would take.
 */
export async function findCluster(flags: ClusterFlags): Promise<KubeConnection> {
  const { kubeconfig, context } = flags;
  if (kubeconfig !== undefined || context !== undefined) return loadKubeconfig({ path: kubeconfig, context });
  const embedded = embeddedKubeconfig(flags);
  if (existsSync(embedded)) return loadKubeconfig({ path: embedded });
  return isInCluster() ? inClusterConnection() : loadKubeconfig();
}

/** Whether the flags mean the cluster of the data folder. */
export function isEmbedded(flags: ClusterFlags): boolean {
  const embedded = embeddedKubeconfig(flags);
  if (flags.context !== undefined || !existsSync(embedded)) return false;
  return flags.kubeconfig === undefined || resolve(flags.kubeconfig) === embedded;
}

function embeddedKubeconfig(flags: ClusterFlags): string {
  return join(resolve(flags.dataDir ?? ".muster"), "kubeconfig");
}
