import { readFile } from "node:fs/promises";
import { parseAllDocuments } from "yaml";
import type { ClusterObjects } from "../../decide/schedule/model/clusterOf.ts";
import { type NewWorkload, whyUnsupported } from "../../decide/schedule/whatIf/newWorkloads.ts";
import { type Change, type WhatIf, type WorkloadChange, whatIf } from "../../decide/schedule/whatIf/whatIf.ts";
import { newNodes } from "../../kubelet/node/newNodes.ts";
import { isObject } from "../../model/objects/json.ts";
import { parsePools, profilesWith } from "../../model/profiles/profiles.ts";
import type { QueueResource } from "../../model/scheduling/queue.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { readProfiles } from "../cluster/readProfiles.ts";
import { type ReadFlags, withObjects } from "./readCluster.ts";
import { tableText } from "./table.ts";

export interface WhatIfFlags extends ReadFlags {
  /** `h100=2`. */
  readonly addPool?: readonly string[];
  readonly profileFile?: readonly string[];
  readonly queue?: string;
  readonly quota?: string;
  readonly limit?: string;
  /** Names of nodes. */
  readonly drain?: readonly string[];
  /** A file with workloads. */
  readonly job?: string;
}

/** Prints what a change would change. Nothing is written to the cluster. */
export async function showWhatIf(flags: WhatIfFlags): Promise<void> {
  const { addPool = [], drain = [], queue, job } = flags;
  if (addPool.length === 0 && drain.length === 0 && queue === undefined && job === undefined) {
    throw new UsageError(
      "what-if-empty",
      "no change is given",
      "pass --add-pool h100=2, --queue NAME --quota 32, --drain NODE or --job FILE",
    );
  }
  const pools = parsePools(addPool, profilesWith(await readProfiles(flags.profileFile ?? [])));
  const workloads = job === undefined ? [] : await readWorkloads(job);
  const gpu = gpuOf(flags);
  await withObjects(flags, ({ objects, shards, nowMs, revision }) => {
    for (const name of drain) mustExist("node", name, objects.nodes);
    if (queue !== undefined) mustExist("queue", queue, objects.queues);
    const change: Change = {
      nodes: newNodes(pools, objects.nodes, nowMs),
      drain,
      workloads,
      ...(queue !== undefined && { queue: { name: queue, gpu } }),
    };
    const answer = whatIf(objects, shards, change, nowMs);
    return flags.output === "json" ? { revision, ...answer } : textOf(answer, objects, revision);
  });
}

function gpuOf({ queue, quota, limit }: WhatIfFlags): QueueResource {
  const number = (flag: string, text: string): number => {
    const value = Number(text);
    if (text !== "" && (value >= 0 || value === -1)) return value;
    throw new UsageError(
      "bad-number",
      `${flag} must be 0 or more, or -1, got ${text}`,
      `write ${flag} 32, or ${flag} -1 for no bound`,
    );
  };
  const gpu: QueueResource = {
    ...(quota !== undefined && { quota: number("--quota", quota) }),
    ...(limit !== undefined && { limit: number("--limit", limit) }),
  };
  const isGiven = Object.keys(gpu).length > 0;
  if (isGiven === (queue !== undefined)) return gpu;
  throw isGiven
    ? new UsageError("what-if-queue", "--quota and --limit need the queue that they are for", "add --queue NAME")
    : new UsageError("what-if-empty", `nothing about queue ${queue} is changed`, "add --quota GPUS or --limit GPUS");
}

function mustExist(kind: string, name: string, all: readonly { readonly metadata: { readonly name: string } }[]): void {
  if (all.some(({ metadata }) => metadata.name === name)) return;
  const names = all.map(({ metadata }) => metadata.name).sort();
  const some = names.length > 10 ? [...names.slice(0, 10), "..."] : names;
  throw new UsageError(
    "what-if-unknown",
    `there is no ${kind} ${JSON.stringify(name)}`,
    some.length === 0 ? `the cluster has no ${kind}s` : `choose from: ${some.join(", ")}`,
  );
}

async function readWorkloads(file: string): Promise<NewWorkload[]> {
  const text = await readFile(file, "utf8").catch((cause: Error) => {
    throw new UserError(
      "what-if-job-unreadable",
      `cannot read ${file}: ${cause.message}`,
      "pass --job with a YAML file",
      {
        cause,
      },
    );
  });
  return parseAllDocuments(text).flatMap((document, at) => {
    const refuse = (why: string): never => {
      throw new UserError("what-if-job-refused", `document ${at + 1} of ${file}: ${why}`, "correct the file");
    };
    const [syntax] = document.errors;
    if (syntax !== undefined) return refuse(syntax.message);
    const object: unknown = document.toJS();
    if (object === null) return [];
    if (!isObject(object) || !isObject(object["metadata"]) || typeof object["kind"] !== "string") {
      return refuse("it is not a Kubernetes object");
    }
    const { name, generateName } = object["metadata"];
    const known = typeof name === "string" ? name : typeof generateName === "string" ? `${generateName}new` : undefined;
    if (known === undefined) return refuse("it has no metadata.name");
    const workload = { ...object, metadata: { ...object["metadata"], name: known } } as NewWorkload;
    const why = whyUnsupported(workload);
    return why === undefined ? [workload] : refuse(why);
  });
}

function textOf(answer: WhatIf, { pods }: ClusterObjects, revision: string): string {
  const { starts, stops, waits, restarts, queues, isSettled } = answer;
  const sections: string[] = [];
  const workloads = (title: string, changes: readonly WorkloadChange[]): void => {
    if (changes.length === 0) return;
    const hasWhy = changes.some(({ why }) => why !== "");
    const rows = changes.map((each) => [
      `  ${each.namespace}/${each.workload}`,
      each.queue,
      `${each.before} -> ${each.after}`,
      `${each.gpusBefore} -> ${each.gpusAfter}`,
      ...(hasWhy ? [each.why] : []),
    ]);
    const head = ["  WORKLOAD", "QUEUE", "PODS", "GPUS", ...(hasWhy ? ["WHY"] : [])];
    sections.push(`${title}\n${tableText([head, ...rows])}`);
  };
  workloads(`${plural(starts.length, "workload")} would start or grow:`, starts);
  workloads(`${plural(stops.length, "workload")} would lose pods:`, stops);
  workloads(`${plural(waits.length, "new workload")} would wait:`, waits);
  if (restarts.length > 0) {
    const rows = restarts.map(({ pod, why }) => [`  ${pod}`, why]);
    sections.push(`${plural(restarts.length, "pod")} would be evicted and start again:\n${tableText(rows)}`);
  }
  if (queues.length > 0) {
    const rows = queues.map(({ name, before, after }) => [
      `  ${name}`,
      ...(["quota", "fairShare", "allocated", "pending"] as const).map((field) => {
        const [had, has] = [String(before?.[field] ?? "-"), String(after?.[field] ?? "-")];
        return had === has ? has : `${had} -> ${has}`;
      }),
    ]);
    sections.push(`queues:\n${tableText([["  QUEUE", "QUOTA", "FAIR", "ALLOCATED", "PENDING"], ...rows])}`);
  }
  if (sections.length === 0) sections.push("nothing would change\n");
  if (!isSettled)
    sections.push("the scheduler would go on changing this cluster: the answer is its state after 40 cycles\n");
  const running = pods.filter(({ status }) => status?.phase === "Running").length;
  sections.push(`if none of ${running} running pods ended; revision ${revision}\n`);
  return sections.join("\n");
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
