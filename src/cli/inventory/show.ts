/** Text output of the inventory: tables with ages instead of times, without colour when standard output is a pipe. */

import type { RunReport } from "../../control/inventory/runInventory.ts";
import { humanDuration } from "../../model/values/humanDuration.ts";
import type { AvailabilityView, DiskView, DriftView, RunView } from "../../ports/database.ts";

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => plain(row[at] ?? "").length)));
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, at) => cell + " ".repeat(Math.max(0, (widths[at] ?? 0) - plain(cell).length)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters.
const colours = /\u001b\[[0-9]+m/g;

function plain(text: string): string {
  return text.replace(colours, "");
}

/** Numbers older than this, three run intervals, are marked as stale. */
const oldMs = 15 * 60_000;

export interface Availability {
  readonly type: string;
  readonly free: number;
  readonly free_now: number;
  readonly max_reservable: number;
  readonly full_nodes: number;
  readonly total: number;
  readonly in_use: number;
  readonly queued: number;
  readonly max_per_node: number;
  readonly running_instances: number;
  readonly desired_capacity: number;
  readonly schedulable: number;
  readonly unmanaged_nodes: number;
  readonly etas: Readonly<Record<string, string>>;
  readonly age_seconds: number | null;
  readonly stale: boolean;
  readonly state: string;
  readonly source: string;
  readonly error: string;
  readonly parent: string | null;
}

export function availabilityRows({ readMs, types }: AvailabilityView): Availability[] {
  return types.map(({ gpuType, maxPerNode, parent, numbers, lastUpdateMs, queued, inUse }) => {
    const ageMs = lastUpdateMs === null ? null : Math.max(0, readMs - lastUpdateMs);
    return {
      type: gpuType,
      free: numbers.availableGpus,
      free_now: numbers.availableNow,
      max_reservable: numbers.maxReservable,
      full_nodes: numbers.fullNodesAvailable,
      total: numbers.totalClusterGpus,
      in_use: inUse,
      queued,
      max_per_node: maxPerNode,
      running_instances: numbers.runningInstances,
      desired_capacity: numbers.desiredCapacity,
      schedulable: numbers.schedulableGpus,
      unmanaged_nodes: numbers.unmanagedNodes,
      etas: numbers.sizeEtas,
      age_seconds: ageMs === null ? null : Math.round(ageMs / 1000),
      stale: numbers.state !== "fresh" || ageMs === null || ageMs > oldMs,
      state: numbers.state,
      source: numbers.source,
      error: numbers.error,
      parent,
    };
  });
}

/** Green: a whole node is free; yellow: some GPUs are free; red: none is. */
export function availabilityTable(view: AvailabilityView, colour: boolean): string {
  const rows = availabilityRows(view).map((row) => {
    const shade = row.full_nodes > 0 ? 32 : row.free > 0 ? 33 : 31;
    // The numbers of a type that was never reconciled are unknown, not zero.
    const known = row.age_seconds !== null;
    const number = (value: number): string => (known ? String(value) : "-");
    const paint = (text: string): string => (colour && known ? `\u001b[${shade}m${text}\u001b[0m` : text);
    const age = row.age_seconds === null ? "never" : humanDuration(row.age_seconds * 1000);
    return [
      row.type,
      paint(number(row.free)),
      number(row.max_reservable),
      number(row.full_nodes),
      number(row.total),
      String(row.queued),
      etaOf(row, view.readMs),
      age,
      row.stale ? `STALE ${row.error}`.trim() : "",
    ];
  });
  return table(["TYPE", "FREE", "MAX", "WHOLE-NODES", "TOTAL", "QUEUED", "ETA", "AGE", ""], rows);
}

/** When the smallest size that is not free now is expected to be free. */
function etaOf({ etas }: Availability, nowMs: number): string {
  const sizes = Object.entries(etas).sort(([a], [b]) => Number(a) - Number(b));
  const next = sizes.find(([, at]) => at !== "now");
  if (next === undefined) return sizes.length === 0 ? "" : "now";
  const [size, at] = next;
  if (at === "unknown") return `${size}: unknown`;
  return `${size}: ${humanDuration(Math.max(0, Date.parse(at) - nowMs))}`;
}

export function diskState(disk: DiskView): string {
  if (disk.isDeleted) return disk.deleteDate === null ? "deleted" : `deleted, purged on ${disk.deleteDate}`;
  if (disk.conflicts.length > 0) return "conflict";
  if (disk.inUse) return disk.reservationId === null ? "in use" : `in use by ${disk.reservationId}`;
  if (disk.isBackingUp) return "backing up";
  if (disk.volumeId === null) return "at rest";
  if (disk.volumeState !== "missing") return "available";
  // An unused disk is restored from its newest snapshot; without a snapshot its data is lost.
  return disk.snapshotCount > 0 ? "at rest" : "volume missing";
}

export function diskTable(disks: readonly DiskView[], nowMs: number): string {
  const rows = disks.map((disk) => [
    disk.userId,
    disk.diskName,
    disk.sizeGb === null ? "" : `${disk.sizeGb}G`,
    diskState(disk),
    String(disk.snapshotCount),
    disk.lastUsedMs === null ? "never" : humanDuration(nowMs - disk.lastUsedMs),
    disk.volumeId ?? "",
    disk.conflicts.join("; "),
  ]);
  return table(["USER", "DISK", "SIZE", "STATE", "SNAPSHOTS", "USED", "VOLUME", ""], rows);
}

export function runTable(runs: readonly RunView[], nowMs: number): string {
  const rows = runs.map(({ runId, kind, status, startedMs, finishedMs, counters, error }) => {
    const { disks, gpu } = counters as { disks?: Record<string, number>; gpu?: Record<string, number> };
    const done =
      disks === undefined
        ? ""
        : `${disks["created"] ?? 0} created, ${disks["updated"] ?? 0} updated, ${disks["errors"] ?? 0} errors`;
    const types = gpu === undefined ? "" : `${gpu["types_fresh"] ?? 0}/${gpu["types_active"] ?? 0} types fresh`;
    const took = finishedMs === null ? "" : `${((finishedMs - startedMs) / 1000).toFixed(1)}s`;
    return [
      runId.slice(0, 8),
      kind,
      status,
      `${humanDuration(nowMs - startedMs)} ago`,
      took,
      types,
      done,
      error.slice(0, 80),
    ];
  });
  return table(["RUN", "KIND", "STATUS", "STARTED", "TOOK", "TYPES", "DISKS", ""], rows);
}

export function driftTable(events: readonly DriftView[], nowMs: number): string {
  const rows = events.map((event) => [
    `${humanDuration(nowMs - event.atMs)} ago`,
    `${event.entity}/${event.entityId}`,
    event.field,
    event.old === null && event.new === null ? "" : `${event.old ?? "-"} -> ${event.new ?? "-"}`,
    event.action === "reported" && event.closedMs !== null ? "reported, over" : event.action,
    event.reason,
  ]);
  return table(["WHEN", "WHAT", "FIELD", "CHANGE", "ACTION", "WHY"], rows);
}

const documentCounters = [
  "aws_volumes",
  "db_records",
  "synced",
  "updated",
  "created",
  "errors",
  "orphaned_db_active",
  "orphaned_db_deleted",
];

/** The summary of a run: the documented counters, then other counters that are not zero. */
export function reportText(report: RunReport): string {
  const { phases, status, durationMs, plan } = report;
  const lines = [
    `${report.dryRun ? "dry run" : `run ${report.runId ?? "-"}`}: ${status.toUpperCase()} in ${(durationMs / 1000).toFixed(2)}s`,
  ];
  if (phases.gpu !== undefined) {
    const { counters, rowsWritten, durationMs: tookMs } = phases.gpu;
    const { types_fresh: fresh = 0, types_active: active = 0, types_stale: stale = 0 } = counters;
    lines.push(
      `gpu availability: ${phases.gpu.status}, ${(tookMs / 1000).toFixed(2)}s: ${fresh} of ${active} types fresh, ${stale} stale, ${rowsWritten} rows written`,
    );
  }
  if (phases.disks !== undefined) {
    const { counters, rowsWritten, durationMs: tookMs } = phases.disks;
    lines.push(`disks: ${phases.disks.status}, ${(tookMs / 1000).toFixed(2)}s: ${rowsWritten} rows written`);
    for (const name of documentCounters) lines.push(`  ${name}: ${counters[name] ?? 0}`);
    const others = Object.entries(counters).filter(([name, value]) => !documentCounters.includes(name) && value > 0);
    if (others.length > 0) lines.push(`  ${others.map(([name, value]) => `${name}: ${value}`).join(", ")}`);
  }
  const calls = Object.values(report.cloud.calls).reduce((sum, count) => sum + count, 0);
  lines.push(`aws: ${calls} calls, ${report.cloud.retries} retries, ${report.cloud.throttles} throttled`);
  if (report.error !== "") lines.push(`problem: ${report.error}`);
  if (report.dryRun) lines.push(...planLines(plan));
  return lines.join("\n");
}

/** The plan, a line for each write. */
function planLines({ types, disks, reports }: RunReport["plan"]): string[] {
  const lines: string[] = ["plan:"];
  for (const { gpuType, numbers, changed } of types) {
    if (!changed) continue;
    const { availableGpus, totalClusterGpus, maxReservable, state } = numbers;
    lines.push(
      `  gpu_types ${gpuType}: available ${availableGpus} of ${totalClusterGpus}, max ${maxReservable}, ${state}`,
    );
  }
  for (const write of disks) {
    for (const { entityId, field, old, new: now, reason } of write.drift) {
      lines.push(`  disks ${entityId}: ${field} ${old ?? "-"} -> ${now ?? "-"} (${reason})`);
    }
  }
  for (const { entity, entityId, reason, action } of reports) {
    if (action === "reported") lines.push(`  report ${entity}/${entityId}: ${reason}`);
  }
  if (lines.length === 1) lines.push("  nothing to write");
  return lines;
}
