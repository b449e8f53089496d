import { existsSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import type { KubeConnection } from "../../adapters/kubeHttp/connection.ts";
import { inClusterConnection, isInCluster } from "../../adapters/kubernetes/inCluster.ts";
import { loadKubeconfig } from "../../adapters/kubernetes/kubeconfig.ts";
import { UserError } from "../../model/userError.ts";
import { processOf, type RunningCluster, runningCluster } from "./runningCluster.ts";

/** The flags that choose a cluster. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly dataDir?: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const usualDataDir = ".muster";

/**
 * Connects to the chosen cluster: that of `--kubeconfig` or `--context`; else of a `--data-dir` other than the usual
 * one; else of `$KUBECONFIG`; else the embedded cluster of the data folder, which must be running; else the cluster of
 * the pod that this process runs in; else that of kubectl's own file.
 */
export async function findCluster(flags: ClusterFlags, env: Env = process.env): Promise<KubeConnection> {
  const { kubeconfig, context } = flags;
  switch (choiceOf(flags, env)) {
    case "flags":
      return loadKubeconfig({ path: kubeconfig, context, env });
    case "embedded":
      return loadKubeconfig({ path: embeddedKubeconfig(flags), env });
    case "pod":
      return inClusterConnection();
    case "kubectl":
      return loadKubeconfig({ env });
  }
}

function choiceOf(flags: ClusterFlags, env: Env): "flags" | "embedded" | "pod" | "kubectl" {
  if (flags.kubeconfig !== undefined || flags.context !== undefined) return "flags";
  const isNamed = (flags.dataDir ?? usualDataDir) !== usualDataDir;
  if (!isNamed && kubeconfigFiles(env).length > 0) return "kubectl";
  if (!existsSync(embeddedKubeconfig(flags))) {
    // A misspelt folder must not choose another cluster.
    if (isNamed) throw noCluster(dataDirOf(flags));
    return isInCluster() ? "pod" : "kubectl";
  }
  if (processOf(dataDirOf(flags)) === undefined) {
    throw new UserError(
      "cluster-stopped",
      `the cluster of ${dataDirOf(flags)} is not running`,
      "start it with `muster up`, or choose another cluster with --kubeconfig or KUBECONFIG",
    );
  }
  return "embedded";
}

function noCluster(folder: string): UserError {
  return new UserError(
    "cluster-missing",
    `${folder} has no cluster`,
    "correct --data-dir, start a cluster there with `muster up`, or choose another one with --kubeconfig",
  );
}

/** Whether the data folder is that of an embedded cluster, running or not. */
export function hasCluster(flags: ClusterFlags): boolean {
  return existsSync(embeddedKubeconfig(flags));
}

/** Whether the flags choose the cluster of the data folder. */
export function isEmbedded(flags: ClusterFlags, env: Env = process.env): boolean {
  const embedded = embeddedKubeconfig(flags);
  if (flags.context !== undefined || !existsSync(embedded)) return false;
  if (flags.kubeconfig !== undefined) return resolve(flags.kubeconfig) === embedded;
  const isNamed = (flags.dataDir ?? usualDataDir) !== usualDataDir;
  const files = isNamed ? [] : kubeconfigFiles(env);
  return files.length === 0 || (files.length === 1 && resolve(files[0] ?? "") === embedded);
}

/** The `muster up` whose cluster the flags choose; undefined for any other cluster. */
export function chosenUp(flags: ClusterFlags, env: Env = process.env): RunningCluster | undefined {
  const isNamed = (flags.dataDir ?? usualDataDir) !== usualDataDir;
  const files = flags.kubeconfig !== undefined ? [flags.kubeconfig] : isNamed ? [] : kubeconfigFiles(env);
  const folder = files[0] === undefined ? dataDirOf(flags) : dirname(resolve(files[0]));
  const running = flags.context === undefined ? runningCluster(folder) : undefined;
  return running?.command === "up" ? running : undefined;
}

function kubeconfigFiles(env: Env): string[] {
  return (env["KUBECONFIG"] ?? "").split(delimiter).filter((file) => file !== "");
}

function dataDirOf(flags: ClusterFlags): string {
  return resolve(flags.dataDir ?? usualDataDir);
}

function embeddedKubeconfig(flags: ClusterFlags): string {
  return join(dataDirOf(flags), "kubeconfig");
}
