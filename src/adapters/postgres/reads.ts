/**
 * The reads that decisions are made from. Rows and their versions are read in one statement, with the database's clock.
 */
import { liveReservationStatuses } from "../../model/inventory/rows.ts";
import type { DisksRead, SnapshotMemory, TypesRead } from "../../ports/database.ts";
import { diskColumns, diskRow, msOf, type Row, reservationRow, text, typeColumns, typeRow } from "./rows.ts";
import type { Queries } from "./timedClient.ts";

export async function readTypes(client: Queries): Promise<TypesRead> {
  const { rows } = await client.query<Row>(`select ${typeColumns}, now() as read_at from gpu_types order by gpu_type`);
  return { types: rows.map(typeRow), reservations: await liveReservations(client), nowMs: await clock(client) };
}

export async function readDisks(client: Queries): Promise<DisksRead> {
  // The clock is read first, so that no row is older than it.
  const nowMs = await clock(client);
  const { rows } = await client.query<Row>(`select ${diskColumns} from disks`);
  const reservations = await liveReservations(client);
  const users = await client.query<{ username: string }>("select username from api_users");
  const known = new Set(users.rows.map(({ username }) => username));
  const disks = rows.map(diskRow);
  if (known.size > 0) for (const { userId } of disks) known.add(userId);
  const last = await client.query<Row>(
    `select aws_account, aws_region, coalesce(counters ->> 'volumes_read', counters #>> '{disks,aws_volumes}') as volumes
     from reconcile_runs
     where kind in ('all', 'disks') and aws_account is not null
       and (counters ? 'volumes_read' or counters #>> '{disks,status}' = 'ok')
     order by started_at desc limit 1`,
  );
  const reading = last.rows[0];
  return {
    rows: disks,
    reservations,
    knownUsers: known.size === 0 ? undefined : [...known],
    lastReading:
      reading === undefined
        ? undefined
        : {
            volumes: Number(reading["volumes"]),
            identity: { account: text(reading["aws_account"]), region: text(reading["aws_region"]) },
          },
    snapshotPass: await snapshotMemory(client),
    nowMs,
  };
}

async function snapshotMemory(client: Queries): Promise<SnapshotMemory | undefined> {
  const { rows } = await client.query<Row>(
    "select snapshots_full_at, snapshots_base_before from reconcile_control where id = 1",
  );
  const fullAtMs = msOf(rows[0]?.["snapshots_full_at"]);
  const baseBeforeMs = msOf(rows[0]?.["snapshots_base_before"]);
  if (fullAtMs === null || baseBeforeMs === null) return undefined;
  const bases = await client.query<Row>("select disk_id::text, completed, last_completed_at from snapshot_bases");
  return {
    fullAtMs,
    baseBeforeMs,
    bases: new Map(
      bases.rows.map((row) => [
        text(row["disk_id"]),
        { completed: Number(row["completed"]), lastCompletedMs: msOf(row["last_completed_at"]) },
      ]),
    ),
  };
}

async function liveReservations(client: Queries) {
  const { rows } = await client.query<Row>(
    `select reservation_id, user_id, status, gpu_type, gpu_count, pod_name, namespace, expires_at from reservations
     where status = any($1)`,
    [liveReservationStatuses],
  );
  return rows.map(reservationRow);
}

async function clock(client: Queries): Promise<number> {
  const { rows } = await client.query<{ at: Date }>("select clock_timestamp() as at");
  return rows[0]?.at.getTime() ?? 0;
}
