import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { type Decision, decisionLog } from "../../decide/schedule/explain/decisionLog.ts";
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
    const isNarrow = flags.wide !== true && process.stdout.isTTY;
    process.stdout.write(logText(decisions, { nowMs, namespace: flags.namespace, isNarrow }));
  } finally {
    kube.close();
  }
}

/** One line for each decision; on a terminal its message follows on a line of its own, so that it is not cut. */
export function logText(
  decisions: readonly Decision[],
  about: { readonly nowMs: number; readonly namespace: string | undefined; readonly isNarrow: boolean },
): string {
  const isOfAll = about.namespace === undefined;
  const head = ["AGE", "DECISION", ...(isOfAll ? ["NAMESPACE"] : []), "OBJECT", ...(about.isNarrow ? [] : ["MESSAGE"])];
  const rows = decisions.map(({ atMs, namespace, object, reason, message }) => [
    humanDuration(Math.max(0, about.nowMs - atMs)),
    reason,
    ...(isOfAll ? [namespace] : []),
    object,
    ...(about.isNarrow ? [] : [message]),
  ]);
  const text = tableText([head, ...rows]);
  if (!about.isNarrow) return text;
  const [first = "", ...lines] = text.trimEnd().split("\n");
  return `${[first, ...lines.flatMap((line, at) => [line, `      ${decisions[at]?.message ?? ""}`])].join("\n")}\n`;
}
