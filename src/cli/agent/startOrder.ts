import { readFile } from "node:fs/promises";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { awaitCliques } from "../../control/agent/awaitCliques.ts";
import { readWaitArguments } from "../../decide/gang/cliques/startOrder.ts";
import { podInfoFolder } from "../../model/gang/keys.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { untilStopped } from "./agentProgram.ts";

export interface StartOrderFlags extends ClusterFlags {
  readonly podcliques: readonly string[];
  readonly namespace?: string;
  readonly gang?: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/** The entrypoint of the init container of a pod that starts after other pods of its gang. */
export async function runStartOrder(flags: StartOrderFlags): Promise<void> {
  const read = readWaitArguments(flags.podcliques);
  if ("error" in read) {
    throw new UsageError("start-order-invalid", read.error, "pass --podcliques=NAME:MINIMUM for each clique");
  }
  const namespace = flags.namespace ?? (await podInfo("namespace", "--namespace"));
  const gang = flags.gang ?? (await podInfo("podgangname", "--gang"));
  const stopped = untilStopped();
  const clock = systemClock();
  const log = pinoLog({ level: flags.logLevel });
  const kube = kubeHttp(await findCluster(flags), { clock, log }, { fieldManager: "muster-start-order" });
  try {
    const end = await awaitCliques({ kube, clock, log, stopped }, { namespace, gang, waits: read.waits });
    // An init container that is stopped while it waits must not exit with success.
    if (end.type === "stopped") process.exitCode = 143;
  } finally {
    kube.close();
  }
}

/** Reads a file of the downward API. */
async function podInfo(name: string, flag: string): Promise<string> {
  const path = `${podInfoFolder}/${name}`;
  const text = (await readFile(path, "utf8").catch(() => "")).trim();
  if (text !== "") return text;
  throw new UserError("agent-pod-unknown", `neither ${flag} nor ${path} names the gang`, `pass ${flag}`);
}
