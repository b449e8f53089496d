import { readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { errorOf } from "../../control/verify/runVerify.ts";
import { enforcedText } from "../../decide/bind/mpsLimits.ts";
import { devicesAnnotation } from "../../decide/bind/reservation.ts";
import { type ShareView, whyRefused, whyShare } from "../../decide/bind/whyShare.ts";
import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import {
  answerWhy,
  jobRows,
  nodeRows,
  type QueueRow,
  queueRows,
  type WhyAnswer,
} from "../../decide/schedule/explain/report.ts";
import { type ClusterObjects, clusterOf } from "../../decide/schedule/model/clusterOf.ts";
import { poolClusters } from "../../decide/schedule/poolClusters.ts";
import { savedObjects } from "../../decide/schedule/savedObjects.ts";
import type { ClusterSnapshot } from "../../decide/verify/clusterSnapshot.ts";
import { parseSnapshot } from "../../decide/verify/snapshotFile.ts";
import { exitCodes } from "../../decide/verify/verifyResult.ts";
import type { CoreEvent } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "../cluster/findCluster.ts";
import { schedulingObjects, type UnknownKind } from "../cluster/schedulingObjects.ts";

/** Questions about scheduling, answered from one revision of the cluster by the scheduler's own code. */
export interface ViewFlags extends ClusterFlags {
  readonly output: "text" | "json";
  readonly all?: boolean;
  /** A file of `muster snapshot save` instead of a cluster. */
  readonly snapshot?: string;
}

export async function showJobs(flags: ViewFlags): Promise<void> {
  await withCluster(flags, ({ pools }, nowMs, revision) => {
    const rows = pools.flatMap((cluster) => jobRows(cluster, nowMs, flags.all === true));
    if (flags.output === "json") return { revision, jobs: rows };
    const table = rows.map(({ id, queue, priority, gpus, gang, state, reason }) => [
      id,
      queue,
      String(priority),
      gpus,
      gang,
      state,
      reason,
      revision,
    ]);
    return table.length === 0
      ? `nothing waits (revision ${revision})\n`
      : tableText([["ID", "QUEUE", "PRI", "GPUS", "GANG", "STATE", "REASON", "@REV"], ...table]);
  });
}

export async function showQueues(flags: ViewFlags): Promise<void> {
  await withCluster(flags, ({ pools }, nowMs, revision) => {
    const rows = pools.flatMap((cluster) => queueRows(cluster, nowMs));
    if (flags.output === "json") return { revision, queues: rows };
    const hasClasses = rows.some(({ classes }) => Object.keys(classes.requested).length > 0);
    const table = rows.map((row) => [
      `${"  ".repeat(row.depth)}${row.name}`,
      String(row.priority),
      row.quota,
      row.limit,
      row.fairShare,
      row.allocated,
      row.requested,
      row.borrowed,
      String(row.pending),
      ...(hasClasses ? [classesText(row.classes)] : []),
      row.note,
    ]);
    const noted = rows.some(({ note }) => note !== "") ? ["NOTE"] : [];
    const head = ["QUEUE", "PRI", "QUOTA", "LIMIT", "FAIR", "ALLOCATED", "REQUESTED", "BORROWED", "PENDING"];
    if (hasClasses) head.push("CLASSES");
    return `${tableText([[...head, ...noted], ...table])}GPUs at revision ${revision}\n`;
  });
}

export async function showNodes(flags: ViewFlags): Promise<void> {
  await withCluster(flags, ({ all }, nowMs, revision) => {
    const rows = nodeRows(all, nowMs);
    if (flags.output === "json") return { revision, types: rows };
    const table = rows.map((row) =>
      [row.type, row.nodes, row.total, row.free, row.fullNodes, row.maxReservable, row.drained, row.bad].map(String),
    );
    const head = ["TYPE", "NODES", "TOTAL", "FREE", "FULL-NODES", "MAX-RESERVABLE", "DRAIN", "BAD"];
    return `${tableText([head, ...table])}GPUs at revision ${revision}\n`;
  });
}

export async function showWhy(name: string, flags: ViewFlags): Promise<void> {
  await withCluster(flags, async ({ pools }, nowMs, revision, { objects, kube }) => {
    const found = pools
      .flatMap((cluster) => answerWhy(cluster, name, nowMs))
      .map((answer) => withShareCause(answer, objects));
    const answers: readonly ShownAnswer[] = found.length > 0 ? found : await refusedWorkloads(name, kube);
    if (answers.length === 0) {
      throw new UsageError(
        "workload-unknown",
        `no pod and no group is called ${JSON.stringify(name)}`,
        "name it as NAMESPACE/NAME, or list what waits with `muster q`",
      );
    }
    if (flags.output === "json") return { revision, answers };
    return answers
      .map(({ name: who, kind, state, reason, message, cure, next, share }) => {
        const lines = [`${kind} ${who}: ${state} (revision ${revision})`];
        if (reason !== "") lines.push(`  ${reason}: ${message}`);
        if (cure !== "") lines.push(`  to run: ${cure}`);
        if (next !== "") lines.push(`  next: ${next}`);
        if (reason === "" && next === "") lines.push("  nothing keeps it waiting");
        if (share !== undefined) lines.push(`  share: ${share}`);
        return `${lines.join("\n")}\n`;
      })
      .join("");
  });
}

interface ShownAnswer extends WhyAnswer {
  /** Whether anything keeps a running share within its bounds. */
  readonly share?: string;
}

/** For a pod that asks for a share of a GPU and has its place: what keeps it from starting there. */
function withShareCause(answer: WhyAnswer, objects: ShareView): ShownAnswer {
  const isOpen = answer.next === "" && ["", "BindingRefused"].includes(answer.reason);
  const pod = objects.pods.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === answer.name);
  const found = isOpen && answer.kind === "Pod" && pod !== undefined ? whyShare(pod, objects) : undefined;
  if (found !== undefined) return { ...answer, reason: found.cause, message: found.message, cure: found.cure };
  const hasShare =
    answer.kind === "Pod" && pod?.spec?.nodeName !== undefined && devicesAnnotation in (pod.metadata.annotations ?? {});
  return hasShare ? { ...answer, share: enforcedText(pod) } : answer;
}

/** Workloads of that name whose pods are refused, so that there is nothing to schedule. */
async function refusedWorkloads(name: string, kube: KubeApi | undefined): Promise<WhyAnswer[]> {
  const events = await kube?.list(builtin.CoreEvent, { fieldSelector: "reason=FailedCreate" });
  if (events === undefined || !events.ok) return [];
  const byWorkload = new Map<string, CoreEvent[]>();
  for (const event of events.value.items) {
    const { kind = "", namespace = "", name: who = "" } = event.involvedObject;
    if (who !== name && `${namespace}/${who}` !== name) continue;
    byWorkload.set(`${kind} ${namespace}/${who}`, [...(byWorkload.get(`${kind} ${namespace}/${who}`) ?? []), event]);
  }
  return [...byWorkload].flatMap(([key, said]) => {
    const found = whyRefused(said.map(({ message = "" }) => ({ message })));
    const [kind = "", who = ""] = key.split(" ");
    if (found === undefined) return [];
    const { cause, message, cure } = found;
    return [{ name: who, kind, state: "has no pods", reason: cause, message, cure, next: "" }];
  });
}

type Answer = string | object;

/** The cluster as a whole, and as the scheduler of each node pool sees it. */
interface Views {
  readonly all: Cluster;
  readonly pools: readonly Cluster[];
}

function viewsOf(objects: ClusterObjects, shards: readonly SchedulingShard[]): Views {
  return { all: clusterOf(objects), pools: poolClusters(objects, shards) };
}

/** What an answer may read besides the scheduler's cluster. */
interface Sources {
  readonly objects: ShareView;
  /** Undefined for a file. */
  readonly kube: KubeApi | undefined;
}

async function withCluster(
  flags: ViewFlags,
  answer: (views: Views, nowMs: number, revision: string, sources: Sources) => Answer | Promise<Answer>,
): Promise<void> {
  if (flags.snapshot !== undefined) {
    const snapshot = await readSnapshot(flags.snapshot);
    const { objects, shards } = savedObjects(snapshot);
    const views = viewsOf(objects, shards);
    say(await answer(views, snapshot.takenAtMs, snapshot.revision, { objects, kube: undefined }));
    return;
  }
  const connection = await findCluster(flags);
  const clock = systemClock();
  const kube = kubeHttp(connection, { clock, log: pinoLog({ level: "error" }) }, { fieldManager: "muster-view" });
  try {
    const read = await schedulingObjects(kube, () => clock.nowMs());
    if ("ok" in read) {
      process.stderr.write(`muster: ${errorOf(read.kind, read.refusal).message}\n`);
      process.exitCode = exitCodes.noSnapshot;
      return;
    }
    const { objects, shards, revision, unknown } = read;
    const said = await answer(viewsOf(objects, shards), clock.nowMs(), revision, { objects, kube });
    say(typeof said === "string" ? `${said}${unknownText(unknown)}` : { ...said, unknown });
  } finally {
    kube.close();
  }
}

async function readSnapshot(file: string): Promise<ClusterSnapshot> {
  try {
    const bytes = await readFile(file);
    return parseSnapshot((file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8"), file);
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UserError(
      "snapshot-unreadable",
      `cannot read the snapshot ${file}: ${why}`,
      "make one with `muster snapshot save FILE`",
      {
        cause,
      },
    );
  }
}

/** What could not be read is named: an answer without it may be wrong. */
function unknownText(unknown: readonly UnknownKind[]): string {
  return unknown
    .map(({ resource, why }) => `unknown: ${resource} could not be listed (${why}); this answer does not count them\n`)
    .join("");
}

function say(result: Answer): void {
  process.stdout.write(typeof result === "string" ? result : `${JSON.stringify(result)}\n`);
}

function tableText(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join("   ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** `gpu.example.com 2/3`: allocated of requested. */
function classesText({ allocated, requested }: QueueRow["classes"]): string {
  const names = Object.keys(requested).sort();
  return names.map((name) => `${name} ${allocated[name] ?? 0}/${requested[name]}`).join(", ");
}
