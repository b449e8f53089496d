import { enforcedText } from "../../decide/bind/mpsLimits.ts";
import { devicesAnnotation } from "../../decide/bind/reservation.ts";
import { type ShareView, whyRefused, whyShare } from "../../decide/bind/whyShare.ts";
import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import { lastEviction } from "../../decide/schedule/explain/decisionLog.ts";
import { nodeList } from "../../decide/schedule/explain/nodeList.ts";
import {
  answerWhy,
  jobRows,
  nodeRows,
  type QueueRow,
  queueRows,
  type WhyAnswer,
} from "../../decide/schedule/explain/report.ts";
import { whyUnhealthy } from "../../decide/schedule/explain/unhealthyDevices.ts";
import { whyNotStarted } from "../../decide/schedule/explain/whyNotStarted.ts";
import { clusterOf } from "../../decide/schedule/model/clusterOf.ts";
import { poolClusters } from "../../decide/schedule/poolClusters.ts";
import type { CoreEvent } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { UsageError } from "../../model/userError.ts";
import { humanDuration } from "../../model/values/humanDuration.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type Answer, type ReadFlags, withObjects } from "./readCluster.ts";
import { tableText } from "./table.ts";

/** The flags of views that the scheduler's own code computes from one revision of the cluster. */
export interface ViewFlags extends ReadFlags {
  readonly all?: boolean;
  /** Show this namespace only. */
  readonly namespace?: string;
  /** Show this queue only. */
  readonly queue?: string;
  /** Show the names of groups and the sentences of reasons, and the pods of nodes. */
  readonly wide?: boolean;
  /** Show GPUs by type of node. */
  readonly byType?: boolean;
}

export async function showJobs(flags: ViewFlags): Promise<void> {
  await withCluster(flags, ({ pools }, nowMs, revision) => {
    const rows = pools
      .flatMap((cluster) => jobRows(cluster, nowMs, flags.all === true))
      .filter(({ namespace }) => flags.namespace === undefined || namespace === flags.namespace)
      .filter(({ queue }) => flags.queue === undefined || queue === flags.queue);
    if (flags.output === "json") return { revision, jobs: rows };
    if (rows.length === 0) return `no workload is pending (revision ${revision})\n`;
    const hasNamespace = flags.namespace === undefined;
    const table = rows.map((row) => [
      ...(hasNamespace ? [row.namespace] : []),
      row.workload,
      row.queue,
      String(row.priority),
      row.gpus,
      row.gang,
      row.state,
      humanDuration(Math.max(0, nowMs - row.createdMs)),
      ...(flags.wide === true ? [row.id, row.message === "" ? row.reason : row.message] : [row.reason]),
    ]);
    const head = ["WORKLOAD", "QUEUE", "PRI", "GPUS", "PODS", "STATE", "AGE"];
    const last = flags.wide === true ? ["GROUP", "MESSAGE"] : ["REASON"];
    const text = tableText([[...(hasNamespace ? ["NAMESPACE"] : []), ...head, ...last], ...table], widthFor(flags));
    return `${text}PODS is bound/minimum/all; revision ${revision}\n`;
  });
}

/** The width of the terminal; unlimited with --wide and in a pipe. */
function widthFor({ wide }: ViewFlags): number {
  return wide === true || !process.stdout.isTTY ? Number.POSITIVE_INFINITY : process.stdout.columns;
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
    const types = nodeRows(all, nowMs);
    const lines = nodeList(all, nowMs);
    if (flags.output === "json") return { revision, types, nodes: lines };
    if (flags.byType === true) {
      const table = types.map((row) =>
        [row.type, row.nodes, row.total, row.free, row.fullNodes, row.maxReservable, row.drained, row.bad].map(String),
      );
      const head = ["TYPE", "NODES", "TOTAL", "FREE", "EMPTY-NODES", "LARGEST", "CORDONED", "UNHEALTHY"];
      return `${tableText([head, ...table])}GPUs at revision ${revision}\n`;
    }
    if (lines.length === 0) return `no node has GPUs (revision ${revision})\n`;
    const table = lines.map(({ name, type, state, gpus, free, unhealthy, pods }) => [
      name,
      type,
      state,
      String(gpus),
      String(free),
      unhealthy === 0 ? "-" : String(unhealthy),
      flags.wide === true ? pods.map((pod) => `${pod.name} (${pod.gpus})`).join(", ") || "-" : String(pods.length),
    ]);
    const head = ["NODE", "TYPE", "STATE", "GPUS", "FREE", "UNHEALTHY", "PODS"];
    return `${tableText([head, ...table], widthFor(flags))}GPUs at revision ${revision}\n`;
  });
}

/** `job/train`, `pod/web-0` and `deployment/web` are the names that kubectl prints. */
function plainName(text: string, namespace: string | undefined): string {
  const [first = "", ...rest] = text.split("/");
  const isKind =
    /^(po|pods?|jobs?|deploy|deployments?|rs|replicasets?|sts|statefulsets?|ds|daemonsets?|pg|podgroups?|pcs|podcliquesets?)(\.[a-z0-9.-]+)?$/;
  const name = rest.length > 0 && isKind.test(first) ? rest.join("/") : text;
  return namespace === undefined || name.includes("/") ? name : `${namespace}/${name}`;
}

export async function showWhy(given: string, flags: ViewFlags): Promise<void> {
  const name = plainName(given, flags.namespace);
  await withCluster(flags, async ({ pools }, nowMs, revision, { objects, kube }) => {
    const found = pools
      .flatMap((cluster) => answerWhy(cluster, name, nowMs))
      .map((answer) => withShareCause(answer, objects));
    const started = await Promise.all(found.map((answer) => withNodeCause(answer, objects, kube)));
    const evicted = await Promise.all(started.map((answer) => withEviction(answer, objects, kube)));
    const answers: readonly ShownAnswer[] = evicted.length > 0 ? evicted : await refusedWorkloads(name, kube);
    if (answers.length === 0) {
      throw new UsageError(
        "workload-unknown",
        `there is no pod, group or workload ${JSON.stringify(name)}`,
        "write it as NAMESPACE/NAME, or list pending workloads with `muster q`",
      );
    }
    if (flags.output === "json") return { revision, answers };
    return answers
      .map(({ name: who, kind, state, reason, message, cure, next, share, evicted: last }) => {
        const lines = [`${kind} ${who}: ${state} (revision ${revision})`];
        if (last !== undefined) {
          lines.push(`  evicted ${humanDuration(Math.max(0, nowMs - last.atMs))} ago: ${last.message}`);
        }
        if (reason !== "") lines.push(`  ${reason}: ${message}`);
        if (cure !== "") lines.push(`  to run: ${cure}`);
        if (next !== "") lines.push(`  next: ${next}`);
        if (reason === "" && next === "") lines.push("  nothing blocks it");
        if (share !== undefined) lines.push(`  share: ${share}`);
        return `${lines.join("\n")}\n`;
      })
      .join("");
  });
}

interface ShownAnswer extends WhyAnswer {
  /** How the limits of a running GPU share are enforced. */
  readonly share?: string;
  /** The last eviction from the group of a workload that is pending. */
  readonly evicted?: { readonly atMs: number; readonly message: string };
}

/** For a pod with a GPU share that has a node: why it does not start there. */
function withShareCause(answer: WhyAnswer, objects: ShareView): ShownAnswer {
  const isOpen = answer.next === "" && ["", "BindingRefused"].includes(answer.reason);
  const pod = objects.pods.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === answer.name);
  const found = isOpen && answer.kind === "Pod" && pod !== undefined ? whyShare(pod, objects) : undefined;
  if (found !== undefined) return { ...answer, reason: found.cause, message: found.message, cure: found.cure };
  const hasShare =
    answer.kind === "Pod" && pod?.spec?.nodeName !== undefined && devicesAnnotation in (pod.metadata.annotations ?? {});
  return hasShare ? { ...answer, share: enforcedText(pod) } : answer;
}

/**
 * For a pod that has a node: which of its devices has failed, or why it does not run there. A saved cluster is read
 * without Events.
 */
async function withNodeCause(
  answer: ShownAnswer,
  { pods }: ShareView,
  kube: KubeApi | undefined,
): Promise<ShownAnswer> {
  if (answer.kind !== "Pod" || answer.reason !== "" || answer.next !== "") return answer;
  const pod = pods.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === answer.name);
  if (pod?.spec?.nodeName === undefined) return answer;
  const failed = whyUnhealthy(pod, pods);
  if (failed !== undefined) return { ...answer, ...failed };
  const { namespace = "", uid } = pod.metadata;
  const events = await kube?.list(builtin.CoreEvent, { namespace, fieldSelector: `involvedObject.uid=${uid}` });
  const cause = whyNotStarted(pod, events?.ok === true ? events.value.items : []);
  return cause === undefined ? answer : { ...answer, ...cause };
}

/** For a workload that is pending: when and why it was evicted. The controller has replaced the evicted pod since. */
async function withEviction(answer: ShownAnswer, { pods }: ShareView, kube: KubeApi | undefined): Promise<ShownAnswer> {
  if (answer.reason === "" && answer.next === "") return answer;
  const [namespace = "", own = ""] = answer.name.split("/");
  const pod = pods.find(({ metadata }) => metadata.namespace === namespace && metadata.name === own);
  const name = answer.kind === "Pod" ? pod?.metadata.annotations?.[annotationKeys.podGroup] : own;
  if (name === undefined) return answer;
  const fieldSelector = `involvedObject.kind=PodGroup,involvedObject.name=${name}`;
  const events = await kube?.list(builtin.CoreEvent, { namespace, fieldSelector });
  const evicted = events?.ok === true ? lastEviction(events.value.items, { namespace, name }) : undefined;
  return evicted === undefined ? answer : { ...answer, evicted };
}

/** Workloads of that name whose pods are rejected at creation, so that there is nothing to schedule. */
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

/** The whole cluster, and the part of it that the scheduler of each node pool handles. */
interface Views {
  readonly all: Cluster;
  readonly pools: readonly Cluster[];
}

/** What a view may read besides the scheduler's model. */
interface Sources {
  readonly objects: ShareView;
  /** Undefined for a saved snapshot. */
  readonly kube: KubeApi | undefined;
}

function withCluster(
  flags: ViewFlags,
  answer: (views: Views, nowMs: number, revision: string, sources: Sources) => Answer | Promise<Answer>,
): Promise<void> {
  return withObjects(flags, ({ objects, shards, nowMs, revision, kube }) => {
    const views = { all: clusterOf(objects), pools: poolClusters(objects, shards) };
    return answer(views, nowMs, revision, { objects, kube });
  });
}

/** `gpu.example.com 2/3`: allocated of requested. */
function classesText({ allocated, requested }: QueueRow["classes"]): string {
  const names = Object.keys(requested).sort();
  return names.map((name) => `${name} ${allocated[name] ?? 0}/${requested[name]}`).join(", ");
}
