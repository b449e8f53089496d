import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { DeviceClass, Node, Pod, ResourceClaim, ResourceSlice } from "../../../src/model/kubernetes.generated.ts";
import type { Queue } from "../../../src/model/scheduling/queue.ts";
import type { SchedulingShard } from "../../../src/model/scheduling/schedulingShard.ts";
import type { Topology } from "../../../src/model/scheduling/topology.ts";

/**
 * KAI's own decision tests as data: a cluster, and where each pod should be afterwards. The cases are not part of the
 * repository: they lie beside it, or where MUSTER_KAI_CASES points.
 */

/** As KAI calls them. */
export type KaiStatus =
  | "Pending"
  | "Gated"
  | "Allocated"
  | "Pipelined"
  | "Binding"
  | "Bound"
  | "Running"
  | "Releasing"
  | "Succeeded"
  | "Failed"
  | "Unknown";

export interface KaiPlace {
  readonly Status: KaiStatus;
  readonly NodeName: string;
}

export interface KaiTopologyConstraint {
  readonly Topology: string;
  readonly RequiredLevel: string;
  readonly PreferredLevel: string;
}

export interface KaiPodSet {
  readonly Name: string;
  readonly MinAvailable: number;
  readonly Topology: KaiTopologyConstraint | null;
}

export interface KaiGroup {
  readonly Name: string;
  readonly Topology: KaiTopologyConstraint | null;
  readonly Groups: readonly KaiGroup[] | null;
  readonly PodSets: readonly KaiPodSet[] | null;
}

export interface KaiTask {
  readonly Pod: Pod;
  readonly Status: KaiStatus;
  readonly GPUGroups: readonly string[] | null;
  readonly SubGroup: string;
  readonly ClaimTemplates: Readonly<Record<string, string>> | null;
}

export interface KaiJob {
  readonly Name: string;
  readonly Namespace: string;
  readonly Queue: string;
  readonly Priority: number;
  readonly Preemptibility: "preemptible" | "non-preemptible";
  readonly AgeSeconds: number;
  readonly StaleSeconds: number | null;
  readonly DeleteJobInTest: boolean;
  /** GPUs that a pod has a share of each, where that is more than one. */
  readonly Multi: number | null;
  readonly Root: KaiGroup;
  readonly Tasks: readonly KaiTask[];
}

export interface KaiNode {
  readonly Node: Node;
  readonly GpuMemorySynced: boolean;
  readonly MaxTaskNum: number;
  readonly GPUs: number;
}

interface KaiConf {
  readonly tiers?: readonly {
    readonly plugins?: readonly { readonly name: string; readonly arguments?: Readonly<Record<string, string>> }[];
  }[];
  readonly queueDepthPerAction?: NonNullable<SchedulingShard["spec"]>["queueDepthPerAction"];
}

export interface KaiCase {
  readonly id: string;
  /** KAI's name for it. */
  readonly name: string;
  /** KAI's file. */
  readonly file: string;
  /** Played over several cycles with all actions, as KAI's integration tests are. */
  readonly integration: boolean;
  /** Cycles before the comparison, and after each of which it is repeated. */
  readonly roundsUntil: number;
  readonly roundsAfter: number;
  readonly input: {
    readonly Nodes: readonly KaiNode[];
    readonly Jobs: readonly KaiJob[];
    readonly Queues: readonly Queue[];
    readonly Topologies: readonly Topology[];
    readonly DeviceClasses: readonly DeviceClass[];
    readonly ResourceSlices: readonly ResourceSlice[];
    readonly ResourceClaims: readonly ResourceClaim[];
    readonly Conf: KaiConf | null;
  };
  readonly expectedJobs: Readonly<Record<string, KaiPlace>> | null;
  readonly expectedTasks: Readonly<Record<string, KaiPlace>> | null;
  /** What KAI itself did, with the action alone and with `allocate` before it. */
  readonly kai: Readonly<Record<string, KaiPlace>>;
  readonly kaiWithAllocateFirst?: Readonly<Record<string, KaiPlace>>;
}

export const casesFile =
  process.env["MUSTER_KAI_CASES"] ?? join(import.meta.dirname, "../../../../shared/checks/kai-cases/cases.jsonl.gz");

/** Undefined where the cases are missing. */
export function readCases(): readonly KaiCase[] | undefined {
  if (!existsSync(casesFile)) return undefined;
  const lines = gunzipSync(readFileSync(casesFile)).toString("utf8").trimEnd().split("\n");
  return lines.map((line) => withLists(JSON.parse(line) as KaiCase));
}

/** Empty lists are null in the file. */
function withLists(read: KaiCase): KaiCase {
  const { input } = read;
  return {
    ...read,
    input: {
      ...input,
      Nodes: input.Nodes ?? [],
      Jobs: (input.Jobs ?? []).map((job) => ({ ...job, Tasks: job.Tasks ?? [] })),
      Queues: input.Queues ?? [],
      Topologies: input.Topologies ?? [],
      DeviceClasses: input.DeviceClasses ?? [],
      ResourceSlices: input.ResourceSlices ?? [],
      ResourceClaims: input.ResourceClaims ?? [],
    },
  };
}
