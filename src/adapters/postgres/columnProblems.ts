/**
 * Checks the columns of tables that another service created: existing columns must have a type that the inventory can
 * read and write.
 */
import type { Queries } from "./timedClient.ts";

const texts = ["text", "character varying", "character"];
const whole = ["integer", "bigint", "smallint"];
const flag = ["boolean"];
const moment = ["timestamp with time zone"];

const expected: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  gpu_types: {
    gpu_type: texts,
    instance_type: texts,
    max_gpus: whole,
    max_per_node: whole,
    is_active: flag,
    total_cluster_gpus: whole,
    available_gpus: whole,
    max_reservable: whole,
    full_nodes_available: whole,
    running_instances: whole,
    desired_capacity: whole,
    last_availability_update: moment,
    last_availability_updated_by: texts,
    updated_at: moment,
  },
  disks: {
    disk_id: ["uuid"],
    disk_name: texts,
    user_id: texts,
    ebs_volume_id: texts,
    size_gb: whole,
    in_use: flag,
    is_deleted: flag,
    is_backing_up: flag,
    reservation_id: texts,
    snapshot_count: whole,
    pending_snapshot_count: whole,
    last_snapshot_at: moment,
    created_at: moment,
    last_used: moment,
    last_updated: moment,
    operation_status: texts,
  },
  reservations: { reservation_id: texts, user_id: texts, status: texts, gpu_type: texts, expires_at: moment },
  api_users: { username: texts },
};

/** Columns that each table must have. */
const keys: Readonly<Record<string, readonly string[]>> = {
  gpu_types: ["gpu_type"],
  disks: ["disk_name", "user_id"],
  reservations: ["reservation_id", "user_id", "status"],
  api_users: ["username"],
};

/** The mismatches, one sentence each; tables that do not exist are skipped. */
export async function columnProblems(client: Queries): Promise<string[]> {
  const { rows } = await client.query<{ table: string; column: string; type: string }>(
    `select table_name as table, column_name as column, data_type as type from information_schema.columns
     where table_schema = current_schema() and table_name = any($1)`,
    [Object.keys(expected)],
  );
  const problems: string[] = [];
  for (const [table, columns] of Object.entries(expected)) {
    const found = new Map(rows.filter((row) => row.table === table).map(({ column, type }) => [column, type]));
    if (found.size === 0) continue;
    const lacks = (keys[table] ?? []).filter((column) => !found.has(column));
    if (lacks.length > 0) problems.push(`table ${table} has no column ${lacks.join(", ")}`);
    for (const [column, types] of Object.entries(columns)) {
      const type = found.get(column);
      if (type === undefined || types.includes(type)) continue;
      problems.push(`column ${table}.${column} is ${type}, and must be ${types[0]}`);
    }
  }
  return problems;
}
