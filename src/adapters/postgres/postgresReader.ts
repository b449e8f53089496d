/** Reads of the inventory for the API and the command line. */
import type { Pool } from "pg";
import type {
  Answer,
  AvailabilityView,
  DiskView,
  DriftFilter,
  DriftView,
  InventoryReader,
  RunView,
} from "../../ports/database.ts";
import { answering } from "./answer.ts";
import {
  diskColumns,
  diskRow,
  driftView,
  msOf,
  numbersOf,
  type Row,
  runView,
  text,
  textOrNull,
  typeColumns,
} from "./rows.ts";

const runColumns =
  "run_id::text, kind, started_at, finished_at, fence, status, aws_account, aws_region, counters, error";

export class PostgresReader implements InventoryReader {
  private readonly pool: Pool;

  constructor(pool: Pool) {
    this.pool = pool;
  }

  availability(): Promise<Answer<AvailabilityView>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>(
        `select ${typeColumns}, now() as read_at,
           coalesce(r.queued, 0) as queued, coalesce(r.in_use, 0) as reserved
         from gpu_types
         left join (
           -- A reservation over several nodes has a row for each node and one for all: the rows of the nodes are counted.
           select lower(gpu_type) as type,
             sum(gpu_count) filter (where status in ('pending', 'queued')) as queued,
             sum(gpu_count) filter (where status in ('preparing', 'creating_server', 'active')) as in_use
           from reservations where not (coalesce(is_multinode, false) and master_reservation_id is null)
           group by lower(gpu_type)
         ) r on r.type = gpu_type
         where is_active order by gpu_type`,
      );
      return {
        readMs: msOf(rows[0]?.["read_at"]) ?? 0,
        types: rows.map((row) => ({
          gpuType: text(row["gpu_type"]),
          instanceType: text(row["instance_type"]),
          maxPerNode: Number(row["max_per_node"] ?? row["max_gpus"]),
          parent: textOrNull(row["node_label_value"]),
          description: textOrNull(row["description"]) ?? "",
          numbers: numbersOf(row),
          lastUpdateMs: msOf(row["last_availability_update"]),
          updatedBy: textOrNull(row["last_availability_updated_by"]),
          queued: Number(row["queued"]),
          inUse: Number(row["reserved"]),
        })),
      };
    });
  }

  disks(filter: { user?: string; deleted?: boolean }): Promise<Answer<readonly DiskView[]>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>(
        `select ${diskColumns}, created_at, last_used, disk_size, delete_date::text,
           array(select e.reason from drift_events e where e.action = 'reported' and e.closed_at is null
             and ((e.entity = 'disk' and e.entity_id = d.user_id || '/' || d.disk_name)
               or (e.entity = 'volume' and e.entity_id = d.ebs_volume_id)) order by e.reason) as conflicts
         from disks d where ($1::text is null or user_id = $1) and (not is_deleted or $2)
         order by user_id, disk_name`,
        [filter.user ?? null, filter.deleted === true],
      );
      return rows.map((row) => ({
        ...diskRow(row),
        createdMs: msOf(row["created_at"]) ?? 0,
        lastUsedMs: msOf(row["last_used"]),
        diskSize: textOrNull(row["disk_size"]),
        deleteDate: textOrNull(row["delete_date"]),
        conflicts: row["conflicts"] as string[],
      }));
    });
  }

  runs(limit: number): Promise<Answer<readonly RunView[]>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>(
        `select ${runColumns} from reconcile_runs order by started_at desc limit $1`,
        [limit],
      );
      return rows.map(runView);
    });
  }

  run(runId: string): Promise<Answer<RunView | undefined>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>(`select ${runColumns} from reconcile_runs where run_id::text = $1`, [
        runId,
      ]);
      return rows[0] === undefined ? undefined : runView(rows[0]);
    });
  }

  drift({ entity, entityId, runId, open, limit }: DriftFilter): Promise<Answer<readonly DriftView[]>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>(
        `select id, run_id::text, at, closed_at, entity, entity_id, field, old, new, action, reason from drift_events
         where ($1::text is null or entity = $1) and ($2::text is null or entity_id = $2)
           and ($3::text is null or run_id::text = $3) and (not $4 or (action = 'reported' and closed_at is null))
         order by at desc, id desc limit $5`,
        [entity ?? null, entityId ?? null, runId ?? null, open === true, limit],
      );
      return rows.map(driftView);
    });
  }

  pause(by: string, reason: string): Promise<Answer<undefined>> {
    return this.setPaused(true, by, reason);
  }

  resume(by: string): Promise<Answer<undefined>> {
    return this.setPaused(false, by, "");
  }

  private setPaused(paused: boolean, by: string, reason: string): Promise<Answer<undefined>> {
    return answering(async () => {
      await this.pool.query(
        `update reconcile_control set paused = $1, paused_by = $2, paused_reason = $3, paused_at = now()
         where id = 1 and (not paused or not $1)`,
        [paused, by, reason],
      );
      return undefined;
    });
  }

  paused(): Promise<Answer<{ by: string; reason: string; sinceMs: number } | undefined>> {
    return answering(async () => {
      const { rows } = await this.pool.query<Row>("select * from reconcile_control where id = 1");
      const row = rows[0];
      if (row === undefined || row["paused"] !== true) return undefined;
      return { by: text(row["paused_by"]), reason: text(row["paused_reason"]), sinceMs: msOf(row["paused_at"]) ?? 0 };
    });
  }
}
