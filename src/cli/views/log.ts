import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { decisionLog } from "../../decide/schedule/explain/decisionLog.ts";
import { builtin } from "../../model/resources.generated.ts";
import { humanDuration } from "../../model/values/humanDuration.ts";
import { formatTime } from "../../model/values/time.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { tableText } from "./table.ts";

export interface LogFlags extends ClusterFlags {
  readonly namespace?: string;
  readonly evictions?: boolean;
  readonly wide?: boolean;
  readonly output: "text" | "json";
}

/** Prints what the scheduler decided, from the Events of the cluster or of one namespace. */
export async function showLog(flags: LogFlags): Promise<void> {
  const clock = systemClock();
  const ports = { clock, log: pinoLog({ level: "error" }) };
  const kube = kubeHttp(await findCluster(flags), ports, { fieldManager: "muster-view" });
  try {
    const place = flags.namespace === undefined ? {} : { namespace: flags.namespace };
    const { items, revision } = mustSucceed(await kube.list(builtin.CoreEvent, place), "events could not be listed");
    const decisions = decisionLog(items, flags.evictions === true);
    if (flags.output === "json") {
      const shown = decisions.map(({ atMs, ...rest }) => ({ time: formatTime(atMs), ...rest }));
      process.stdout.write(`${JSON.stringify({ revision, decisions: shown })}\n`);
      return;
    }
    if (decisions.length === 0) {
      const what = flags.evictions === true ? "eviction" : "decision";
      process.stdout.write(`no ${what} is recorded (revision ${revision}); the API server keeps events for an hour\n`);
      return;
    }
    const nowMs = clock.nowMs();
    const rows = decisions.map(({ atMs, namespace, object, reason, message }) => [
      humanDuration(Math.max(0, nowMs - atMs)),
      ...(flags.namespace === undefined ? [namespace] : []),
      object,
      reason,
      message,
    ]);
    const head = ["AGE", ...(flags.namespace === undefined ? ["NAMESPACE"] : []), "OBJECT", "DECISION", "MESSAGE"];
    const isCut = flags.wide !== true && process.stdout.isTTY;
    process.stdout.write(tableText([head, ...rows], isCut ? process.stdout.columns : undefined));
  } finally {
    kube.close();
  }
}
