/**
 * Phase 1: reads the GPU types, the Auto Scaling groups and the cluster once each, and writes all types in one
 * transaction.
 */
import type { GroupNames } from "../../decide/inventory/assignGroups.ts";
import { groupsOfNodes } from "../../decide/inventory/groupsOfNodes.ts";
import type { InventorySnapshot } from "../../decide/inventory/inventorySnapshot.ts";
import { typeNodes } from "../../decide/inventory/nodeTypes.ts";
import { type AvailabilityPlan, planAvailability, type Read } from "../../decide/inventory/planAvailability.ts";
import type { NodeRules } from "../../decide/inventory/schedulableNode.ts";
import type { ScalingGroup } from "../../model/inventory/cloud.ts";
import type { DriftEvent, GpuTypeRow } from "../../model/inventory/rows.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Cloud } from "../../ports/cloud.ts";
import type { InventoryReads, InventoryRun } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import { endedEarly, type PhaseResult } from "./phase.ts";

export interface GpuPhaseInput {
  readonly reads: InventoryReads;
  /** Undefined for a dry run: nothing is written. */
  readonly run: InventoryRun | undefined;
  /** Undefined without a cloud: each node then counts as an instance. */
  readonly cloud: Cloud | undefined;
  readonly cluster: (cancel: Cancel) => Promise<Read<InventorySnapshot>>;
  readonly names: GroupNames;
  readonly nodeRules?: NodeRules;
  readonly cancel: Cancel;
  readonly log: Log;
}

export interface GpuPhaseResult extends PhaseResult<AvailabilityPlan> {
  /** The age of each type's last fresh numbers after this run. */
  readonly agesMs: Readonly<Record<string, number>>;
  readonly clusterRevision: string | undefined;
}

export async function gpuPhase(input: GpuPhaseInput): Promise<GpuPhaseResult> {
  const { reads, run, cancel, log } = input;
  const none = { clusterRevision: undefined, agesMs: {} };
  const types = await reads.types();
  if (!types.ok) return { ...endedEarly("failed", `database: ${types.why}`), ...none };
  const [groupsRead, clusterRead] = await Promise.all([readGroups(input.cloud, cancel), input.cluster(cancel)]);
  if (cancel.cancelled)
    return { ...endedEarly("deadline", "the deadline passed before anything was written"), ...none };
  const { cluster, groups, untyped } =
    input.cloud === undefined && clusterRead.ok
      ? withoutCloud(clusterRead.value, types.value.types, input.names.prefix)
      : { cluster: clusterRead, groups: groupsRead, untyped: 0 };
  const planned = planAvailability({
    types: types.value.types,
    groups,
    cluster,
    reservations: types.value.reservations,
    names: input.names,
    ...(input.nodeRules === undefined ? {} : { nodeRules: input.nodeRules }),
    nowMs: types.value.nowMs,
  });
  const plan = input.cloud === undefined ? ofNodesAlone(planned, untyped) : planned;
  const problems: string[] = [];
  if (!groups.ok) problems.push(`cloud: ${groups.why}`);
  if (!cluster.ok) problems.push(`cluster: ${cluster.why}`);
  if (plan.notTrusted !== undefined) {
    problems.push(`cluster: ${plan.notTrusted}`);
    log.error({ reason: plan.notTrusted }, "the list of nodes is not trusted");
  }
  for (const { reason } of plan.drift.filter(hasNoGroups)) {
    log.warn({ reason, cure: "check MUSTER_ASG_PREFIX and MUSTER_GPU_TYPE_ALIASES" }, "No ASGs found matching pattern");
  }
  let rowsWritten = 0;
  const drift: DriftEvent[] = [...plan.drift];
  if (run !== undefined) {
    const written = await run.writeTypes(plan.types, plan.drift);
    if (!written.ok) return { ...endedEarly("failed", `database: ${written.why}`), ...none };
    rowsWritten = written.value.written;
    for (const gpuType of written.value.unknown) {
      const reason = "the type was removed while the run was under way";
      drift.push({
        entity: "gpu_type",
        entityId: gpuType,
        field: "gpu_type",
        old: gpuType,
        new: null,
        action: "reported",
        reason,
      });
    }
    const reported = await run.report(
      "gpu",
      drift.filter(({ action }) => action === "reported"),
    );
    if (!reported.ok) problems.push(`database: ${reported.why}`);
  }
  const bothFailed = !groups.ok && (!cluster.ok || plan.notTrusted !== undefined);
  const complete = problems.length === 0 && plan.counters.types_stale === 0 && plan.counters.types_skipped === 0;
  const stale = plan.types.filter(({ numbers }) => numbers.state !== "fresh" && numbers.error !== "");
  if (problems.length === 0)
    problems.push(...new Set(stale.map(({ gpuType, numbers }) => `${gpuType}: ${numbers.error}`)));
  const updatedMs = new Map(types.value.types.map(({ gpuType, lastUpdateMs }) => [gpuType, lastUpdateMs]));
  const agesMs: Record<string, number> = {};
  for (const { gpuType, numbers } of plan.types) {
    const lastMs = numbers.state === "fresh" ? types.value.nowMs : updatedMs.get(gpuType);
    if (lastMs !== null && lastMs !== undefined) agesMs[gpuType] = types.value.nowMs - lastMs;
  }
  return {
    plan,
    drift,
    agesMs,
    clusterRevision: cluster.ok ? cluster.value.revision : undefined,
    report: {
      status: bothFailed ? "failed" : complete ? "ok" : "partial",
      counters: { ...plan.counters },
      problems,
      rowsRead: types.value.types.length,
      rowsWritten,
      durationMs: 0,
    },
  };
}

const namedMax = 5;

/** Counts each node as an instance. If a node with GPUs has no type, every number is unknown. */
function withoutCloud(
  snapshot: InventorySnapshot,
  types: readonly GpuTypeRow[],
  prefix: string,
): { cluster: Read<InventorySnapshot>; groups: Read<readonly ScalingGroup[]>; untyped: number } {
  const { nodes, untyped } = typeNodes(snapshot.nodes, types);
  const cluster = { ok: true as const, value: { ...snapshot, nodes } };
  if (untyped.length === 0) return { cluster, groups: { ok: true, value: groupsOfNodes(nodes, prefix) }, untyped: 0 };
  const named = `${untyped.slice(0, namedMax).join(", ")}${untyped.length > namedMax ? ", ..." : ""}`;
  const why = `no cloud is configured, and ${untyped.length} nodes with GPUs have no label GpuType (${named}): label them with their type`;
  return { cluster, groups: { ok: false, why }, untyped: untyped.length };
}

/** The complete list of groups has none for the type. */
function hasNoGroups({ entity, field }: DriftEvent): boolean {
  return entity === "gpu_type" && field === "groups";
}

/** Without groups the report names nodes instead. */
function ofNodesAlone(plan: AvailabilityPlan, untyped: number): AvailabilityPlan {
  const reason = "the cluster has no node of this type";
  return {
    ...plan,
    drift: plan.drift.map((event) => (hasNoGroups(event) ? { ...event, field: "nodes", reason } : event)),
    counters: { ...plan.counters, asgs_seen: 0, nodes_unknown: plan.counters.nodes_unknown + untyped },
  };
}

async function readGroups(cloud: Cloud | undefined, cancel: Cancel): Promise<Read<readonly ScalingGroup[]>> {
  if (cloud === undefined) return { ok: false, why: "no cloud is configured, and the cluster could not be read" };
  const groups: ScalingGroup[] = [];
  const read = await cloud.scalingGroups((page) => groups.push(...page), { cancel });
  return read.ok ? { ok: true, value: groups } : { ok: false, why: read.why };
}
