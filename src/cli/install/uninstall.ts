import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { UserError } from "../../model/userError.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { namespaceOf } from "./install.ts";
import { removeInstallation } from "./uninstallObjects.ts";

export interface UninstallFlags extends ClusterFlags {
  readonly namespace: string;
  readonly crds?: boolean;
  readonly dryRun?: boolean;
  readonly output: "text" | "json";
}

/**
 * `muster uninstall`: deletes the objects of `muster install` and `muster run --install` in an order in which no object
 * waits for one that is already deleted.
 */
export async function runUninstall(flags: UninstallFlags): Promise<void> {
  const clock = systemClock();
  const connection = await findCluster(flags);
  const kube = kubeHttp(connection, { clock, log: pinoLog({ level: "error" }) }, { fieldManager: "muster-install" });
  const tell = (line: string): void => void (flags.output === "text" && process.stdout.write(`${line}\n`));
  try {
    const options = { namespace: namespaceOf(flags.namespace), definitions: flags.crds === true };
    const removed = await removeInstallation({ kube, clock }, { ...options, dryRun: flags.dryRun === true, tell });
    if (flags.output === "json") process.stdout.write(`${JSON.stringify({ api: connection.server, ...removed })}\n`);
    else {
      for (const note of removed.notes) process.stdout.write(`note: ${note}\n`);
      const verb = flags.dryRun === true ? "would be removed" : "removed";
      process.stdout.write(`${removed.removed.length} objects ${verb} on ${connection.server}\n`);
    }
    if (removed.failed.length > 0) {
      const problem = `not everything could be removed: ${removed.failed.join("; ")}`;
      throw new UserError(
        "uninstall-incomplete",
        problem,
        "fix the problem that the message names, and run `muster uninstall` again",
      );
    }
  } finally {
    kube.close();
  }
}
