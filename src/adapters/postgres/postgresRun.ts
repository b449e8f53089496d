/**
 * The writes of one run. One connection holds the lock and makes all writes, so a run that loses the lock cannot write.
 * Every transaction also checks the fence under a row lock, so a run that was considered dead cannot overwrite its
 * successor.
 */
import type { DriftEvent } from "../../model/inventory/rows.ts";
import type { DiskWrite, SnapshotBase, TypeWrite, WriteOutcome } from "../../model/inventory/writes.ts";
import type {
  Answer,
  DisksRead,
  InventoryRun,
  RunEnd,
  SnapshotMemory,
  TypesRead,
  TypesWritten,
  VolumesReading,
} from "../../ports/database.ts";
import { answering, answerOf, isDataError } from "./answer.ts";
import { readDisks, readTypes } from "./reads.ts";
import type { Queries, TimedClient } from "./timedClient.ts";

export const inventoryLock = 987_654_321;
/** The newest runs that are kept, however old they are. */
const keptRuns = 1_000;
const prunedAtOnce = 5_000;

interface Begun {
  readonly runId: string;
  readonly fence: number;
  readonly updatedBy: string;
  readonly historyDays?: number;
}

/** Runs a function with another connection of the pool. */
export type WithOtherClient = <T>(use: (client: Queries) => Promise<T>) => Promise<T>;

/** A newer run has taken the fence. */
class Fenced extends Error {}

export class PostgresRun implements InventoryRun {
  readonly runId: string;
  readonly fence: number;
  private readonly client: TimedClient;
  private readonly withOtherClient: WithOtherClient;
  private readonly updatedBy: string;
  private readonly historyDays: number | undefined;
  private released = false;
  private last: Promise<unknown> = Promise.resolve();

  constructor(client: TimedClient, begun: Begun, withOtherClient: WithOtherClient) {
    this.client = client;
    this.historyDays = begun.historyDays;
    this.withOtherClient = withOtherClient;
    this.runId = begun.runId;
    this.fence = begun.fence;
    this.updatedBy = begun.updatedBy;
  }

  types(): Promise<Answer<TypesRead>> {
    return this.query(() => readTypes(this.client));
  }

  disks(): Promise<Answer<DisksRead>> {
    return this.query(() => readDisks(this.client));
  }

  recordReading({ volumes, identity }: VolumesReading): Promise<Answer<undefined>> {
    return this.query(async () => {
      await this.client.query(
        `update reconcile_runs set aws_account = $2, aws_region = $3, counters = jsonb_build_object('volumes_read', $4::int)
         where run_id = $1`,
        [this.runId, identity.account, identity.region, volumes],
      );
      return undefined;
    });
  }

  writeTypes(types: readonly TypeWrite[], drift: readonly DriftEvent[]): Promise<Answer<TypesWritten>> {
    return this.transaction(async () => {
      const rows = types.map(({ gpuType, numbers }) => ({
        gpu_type: gpuType,
        total: numbers.totalClusterGpus,
        available: numbers.availableGpus,
        available_now: numbers.availableNow,
        most: numbers.maxReservable,
        whole: numbers.fullNodesAvailable,
        running: numbers.runningInstances,
        desired: numbers.desiredCapacity,
        allocatable: numbers.k8sAllocatableGpus,
        schedulable: numbers.schedulableGpus,
        unmanaged: numbers.unmanagedNodes,
        state: numbers.state,
        source: numbers.source,
        error: numbers.error,
        etas: numbers.sizeEtas,
      }));
      const { rows: written } = await this.client.query<{ gpu_type: string }>(
        `update gpu_types g set
           total_cluster_gpus = x.total, available_gpus = x.available, available_now = x.available_now,
           max_reservable = x.most, full_nodes_available = x.whole, running_instances = x.running,
           desired_capacity = x.desired, k8s_allocatable_gpus = x.allocatable, schedulable_gpus = x.schedulable,
           unmanaged_nodes = x.unmanaged, availability_state = x.state, availability_source = x.source,
           availability_error = x.error, size_etas = x.etas,
           last_availability_update = case when x.state = 'fresh' then now() else g.last_availability_update end,
           last_availability_updated_by = $2
         from jsonb_to_recordset($1::jsonb) as x(gpu_type text, total int, available int, available_now int, most int,
           whole int, running int, desired int, allocatable int, schedulable int, unmanaged int, state text, source text,
           error text, etas jsonb)
         where g.gpu_type = x.gpu_type
           and (x.state = 'fresh' or (g.total_cluster_gpus, g.available_gpus, g.available_now, g.running_instances,
             g.desired_capacity, g.availability_state, g.availability_source, g.availability_error)
             is distinct from (x.total, x.available, x.available_now, x.running, x.desired, x.state, x.source, x.error)
             or g.max_reservable <> x.most or g.full_nodes_available <> x.whole or g.k8s_allocatable_gpus <> x.allocatable
             or g.schedulable_gpus <> x.schedulable or g.unmanaged_nodes <> x.unmanaged or g.size_etas <> x.etas)
         returning g.gpu_type`,
        [JSON.stringify(rows), this.updatedBy.slice(0, 100)],
      );
      const there = new Set(written.map(({ gpu_type }) => gpu_type));
      const changed = types.filter((type) => type.changed && there.has(type.gpuType)).length;
      await this.insertDrift("gpu", drift);
      const known = await this.client.query<{ gpu_type: string }>("select gpu_type from gpu_types");
      const all = new Set(known.rows.map(({ gpu_type }) => gpu_type));
      return {
        written: changed,
        confirmed: there.size - changed,
        unknown: types.map(({ gpuType }) => gpuType).filter((name) => !all.has(name)),
      };
    });
  }

  async writeDisks(writes: readonly DiskWrite[]): Promise<Answer<readonly WriteOutcome[]>> {
    if (writes.length === 0) return { ok: true, value: [] };
    const answer = await this.transaction(() => this.writeBatch(writes));
    // One row of the batch is invalid: the batch is halved until that row is found, and all others are written.
    if (answer.ok || answer.reason !== "Refused") return answer;
    if (writes.length === 1) {
      const [write] = writes;
      return { ok: true, value: [{ volumeId: write?.volumeId, result: "failed", why: answer.why }] };
    }
    const middle = writes.length >> 1;
    const first = await this.writeDisks(writes.slice(0, middle));
    if (!first.ok) return first;
    const second = await this.writeDisks(writes.slice(middle));
    return second.ok ? { ok: true, value: [...first.value, ...second.value] } : second;
  }

  private async writeBatch(writes: readonly DiskWrite[]): Promise<WriteOutcome[]> {
    const updates = writes.filter((write) => write.kind === "update");
    const inserts = writes.filter((write) => write.kind === "insert");
    const done = new Set<string>();
    if (updates.length > 0) {
      const rows = updates.map(({ diskId, rowVersion, change }) => ({
        disk_id: diskId,
        row_version: rowVersion,
        volume_id: change.volumeId,
        size_gb: change.sizeGb,
        in_use: change.inUse,
        clear_reservation: change.reservationId === null,
        is_backing_up: change.isBackingUp,
        snapshot_count: change.snapshotCount,
        last_snapshot_at:
          change.lastSnapshotMs === undefined ? undefined : new Date(change.lastSnapshotMs).toISOString(),
        volume_state: change.volumeState,
        missing: change.missing,
      }));
      const { rows: written } = await this.client.query<{ disk_id: string }>(
        `update disks d set
           ebs_volume_id = coalesce(x.volume_id, d.ebs_volume_id),
           size_gb = coalesce(x.size_gb, d.size_gb),
           in_use = coalesce(x.in_use, d.in_use),
           reservation_id = case when x.clear_reservation then null else d.reservation_id end,
           is_backing_up = coalesce(x.is_backing_up, d.is_backing_up),
           snapshot_count = coalesce(x.snapshot_count, d.snapshot_count),
           last_snapshot_at = coalesce(x.last_snapshot_at, d.last_snapshot_at),
           volume_state = coalesce(x.volume_state, d.volume_state),
           observed_at = case when x.volume_state is null then d.observed_at else now() end,
           missing_since = case when x.missing then now() when not x.missing then null else d.missing_since end
         from jsonb_to_recordset($1::jsonb) as x(disk_id uuid, row_version bigint, volume_id text, size_gb int, in_use boolean,
           clear_reservation boolean, is_backing_up boolean, snapshot_count int, last_snapshot_at timestamptz,
           volume_state text, missing boolean)
         where d.disk_id = x.disk_id and d.row_version = x.row_version
         returning d.disk_id::text`,
        [JSON.stringify(rows)],
      );
      for (const { disk_id } of written) done.add(disk_id);
    }
    if (inserts.length > 0) {
      const rows = inserts.map(({ row }) => ({
        user_id: row.userId,
        disk_name: row.diskName,
        volume_id: row.volumeId,
        size_gb: row.sizeGb,
        created_at: new Date(row.createdMs).toISOString(),
        in_use: row.inUse,
        reservation_id: row.reservationId,
        is_backing_up: row.isBackingUp,
        snapshot_count: row.snapshotCount,
        last_snapshot_at: row.lastSnapshotMs === null ? null : new Date(row.lastSnapshotMs).toISOString(),
        volume_state: row.volumeState,
      }));
      // Insert only: a row that has the name by now keeps all its columns. A reservation that was purged meanwhile is
      // left out instead of failing the import.
      const { rows: written } = await this.client.query<{ ebs_volume_id: string }>(
        `insert into disks (user_id, disk_name, ebs_volume_id, size_gb, created_at, in_use, reservation_id, is_backing_up,
           snapshot_count, last_snapshot_at, volume_state, observed_at)
         select x.user_id, x.disk_name, x.volume_id, x.size_gb, x.created_at, x.in_use, r.reservation_id, x.is_backing_up,
           x.snapshot_count, x.last_snapshot_at, x.volume_state, now()
         from jsonb_to_recordset($1::jsonb) as x(user_id text, disk_name text, volume_id text, size_gb int,
           created_at timestamptz, in_use boolean, reservation_id text, is_backing_up boolean, snapshot_count int,
           last_snapshot_at timestamptz, volume_state text)
         left join reservations r on r.reservation_id = x.reservation_id
         on conflict do nothing returning ebs_volume_id`,
        [JSON.stringify(rows)],
      );
      for (const { ebs_volume_id } of written) done.add(ebs_volume_id);
    }
    const isDone = (write: DiskWrite): boolean => done.has(write.kind === "update" ? write.diskId : write.volumeId);
    const refused = (event: DriftEvent): DriftEvent => ({
      ...event,
      action: "refused",
      reason: "the row has changed since it was read",
    });
    await this.insertDrift(
      "disks",
      writes.flatMap((write) => (isDone(write) ? write.drift : write.drift.map(refused))),
    );
    return writes.map((write) => ({ volumeId: write.volumeId, result: isDone(write) ? "written" : "changed" }));
  }

  report(phase: "gpu" | "disks", reports: readonly DriftEvent[]): Promise<Answer<{ opened: number; closed: number }>> {
    return this.transaction(async () => {
      const rows = JSON.stringify(reports.map(driftJson));
      const closed = await this.client.query(
        `update drift_events d set closed_at = now()
         where d.phase = $2 and d.action = 'reported' and d.closed_at is null and not exists (
           select from jsonb_to_recordset($1::jsonb) as x(${driftShape})
           where x.entity = d.entity and x.entity_id = d.entity_id and x.field = d.field and x.reason = d.reason)`,
        [rows, phase],
      );
      const opened = await this.client.query(
        `insert into drift_events (run_id, phase, entity, entity_id, field, old, new, action, reason)
         select distinct on (x.entity, x.entity_id, x.field, x.reason) $3::uuid, $2, x.entity, x.entity_id, x.field,
           x.old, x.new, 'reported', x.reason
         from jsonb_to_recordset($1::jsonb) as x(${driftShape})
         on conflict (phase, entity, entity_id, field, md5(reason)) where action = 'reported' and closed_at is null
         do nothing`,
        [rows, phase, this.runId],
      );
      return { opened: opened.rowCount ?? 0, closed: closed.rowCount ?? 0 };
    });
  }

  rememberSnapshots({ fullAtMs, baseBeforeMs, bases }: SnapshotMemory): Promise<Answer<{ written: number }>> {
    return this.transaction(async () => {
      const rows = [...bases].map(([diskId, base]: [string, SnapshotBase]) => ({
        disk_id: diskId,
        completed: base.completed,
        last: base.lastCompletedMs === null ? null : new Date(base.lastCompletedMs).toISOString(),
      }));
      let written = 0;
      for (let at = 0; at < rows.length; at += 5_000) {
        const { rowCount } = await this.client.query(
          `insert into snapshot_bases as b (disk_id, completed, last_completed_at)
           select x.disk_id, x.completed, x.last from jsonb_to_recordset($1::jsonb)
             as x(disk_id uuid, completed int, last timestamptz) join disks d on d.disk_id = x.disk_id
           on conflict (disk_id) do update set completed = excluded.completed, last_completed_at = excluded.last_completed_at
           where (b.completed, b.last_completed_at) is distinct from (excluded.completed, excluded.last_completed_at)`,
          [JSON.stringify(rows.slice(at, at + 5_000))],
        );
        written += rowCount ?? 0;
      }
      await this.client.query(
        "update reconcile_control set snapshots_full_at = $1, snapshots_base_before = $2 where id = 1",
        [new Date(fullAtMs).toISOString(), new Date(baseBeforeMs).toISOString()],
      );
      return { written };
    });
  }

  finish(end: RunEnd): Promise<Answer<undefined>> {
    const write = async (client: Queries): Promise<undefined> => {
      await client.query(
        `update reconcile_runs set finished_at = now(), status = $2, aws_read_at = $3, aws_account = coalesce($4, aws_account),
           aws_region = coalesce($5, aws_region), k8s_rv = $6, counters = counters || $7, error = $8 where run_id = $1`,
        [
          this.runId,
          end.status,
          end.cloudReadMs === undefined ? null : new Date(end.cloudReadMs).toISOString(),
          end.identity?.account ?? null,
          end.identity?.region ?? null,
          end.clusterRevision ?? null,
          JSON.stringify(end.counters),
          end.error,
        ],
      );
      return undefined;
    };
    // A run that lost its fence or its connection may still record its result, because the row is its own.
    return this.serialize(async () => {
      const answer = await this.queryNow(() => write(this.client));
      // A role without the right to delete keeps the history.
      if (answer.ok) await this.queryNow(() => this.prune());
      return answer.ok || this.client.broken === undefined ? answer : answering(() => this.withOtherClient(write));
    });
  }

  /**
   * Deletes old history in batches. These are kept, however old: the newest runs, the last run whose disks were
   * reconciled completely (the next run is compared with it), and open reports.
   */
  private async prune(): Promise<void> {
    if (this.historyDays === undefined) return;
    await this.client.query(
      `delete from reconcile_runs where run_id in (
         select run_id from reconcile_runs where started_at < now() - make_interval(days => $1)
           and run_id not in (select run_id from reconcile_runs order by started_at desc limit ${keptRuns})
           and run_id not in (select run_id from reconcile_runs
             where counters ? 'volumes_read' or counters #>> '{disks,status}' = 'ok' order by started_at desc limit 1)
         order by started_at limit ${prunedAtOnce})`,
      [this.historyDays],
    );
    await this.client.query(
      `delete from drift_events where id in (
         select id from drift_events where at < now() - make_interval(days => $1)
           and (action <> 'reported' or closed_at is not null)
         order by at limit ${prunedAtOnce})`,
      [this.historyDays],
    );
  }

  async release(): Promise<void> {
    await this.last;
    if (this.released) return;
    this.released = true;
    // A connection that fails here is closed, and the lock is released with it.
    await this.client.query("select pg_advisory_unlock($1)", [inventoryLock]).catch((error) => this.client.fail(error));
    await this.client.release();
  }

  private async insertDrift(phase: "gpu" | "disks", events: readonly DriftEvent[]): Promise<void> {
    const rows = events.filter(({ action }) => action !== "reported").map(driftJson);
    if (rows.length === 0) return;
    await this.client.query(
      `insert into drift_events (run_id, phase, entity, entity_id, field, old, new, action, reason)
       select $3::uuid, $2, x.entity, x.entity_id, x.field, x.old, x.new, x.action, x.reason
       from jsonb_to_recordset($1::jsonb) as x(${driftShape})`,
      [JSON.stringify(rows), phase, this.runId],
    );
  }

  /** Both phases of a run share the connection, so their transactions run one after the other. */
  private serialize<T>(run: () => Promise<T>): Promise<T> {
    const queued = this.last.then(run);
    this.last = queued.catch(() => {});
    return queued;
  }

  private query<T>(run: () => Promise<T>): Promise<Answer<T>> {
    return this.serialize(() => this.queryNow(run));
  }

  private async queryNow<T>(run: () => Promise<T>): Promise<Answer<T>> {
    try {
      await this.client.setTimeouts();
      return { ok: true, value: await run() };
    } catch (error) {
      return answerOf(error);
    }
  }

  private transaction<T>(run: () => Promise<T>): Promise<Answer<T>> {
    return this.serialize(() => this.transactNow(run));
  }

  private async transactNow<T>(run: () => Promise<T>): Promise<Answer<T>> {
    if (this.released) return { ok: false, reason: "Fenced", why: "the run has released its lock" };
    try {
      await this.client.setTimeouts();
      await this.client.query("begin");
      // A share lock on the row: the next run cannot increment the fence before this transaction ends.
      const { rows } = await this.client.query<{ fence: string }>(
        "select fence from reconcile_control where id = 1 for share",
      );
      if (Number(rows[0]?.fence) !== this.fence) throw new Fenced(`fence ${rows[0]?.fence} has replaced ${this.fence}`);
      const value = await run();
      await this.client.query("commit");
      return { ok: true, value };
    } catch (error) {
      await this.client.query("rollback").catch(() => {});
      if (error instanceof Fenced) return { ok: false, reason: "Fenced", why: error.message };
      if (isDataError(error)) return { ...answerOf(error), reason: "Refused" };
      return answerOf(error);
    }
  }
}

const driftShape = "entity text, entity_id text, field text, old text, new text, action text, reason text";

function driftJson(event: DriftEvent): object {
  const { entity, entityId, field, old, action, reason } = event;
  return { entity, entity_id: entityId, field, old, new: event.new, action, reason };
}
