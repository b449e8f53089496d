/** JSON Schemas of the API's responses. The API serves them, and a test validates the responses with them. */
type Schema = Readonly<Record<string, unknown>>;

const text: Schema = { type: "string" };
const count: Schema = { type: "integer", minimum: 0 };
const flag: Schema = { type: "boolean" };
const orNull = (schema: Schema): Schema => ({ anyOf: [schema, { type: "null" }] });
const object = (properties: Readonly<Record<string, Schema>>): Schema => ({
  type: "object",
  required: Object.keys(properties),
  properties,
  additionalProperties: false,
});
const listOf = (items: Schema): Schema => ({ type: "array", items });

const typeFields = {
  type: text,
  free: count,
  free_now: count,
  max_reservable: count,
  full_nodes: count,
  total: count,
  in_use: count,
  queued: count,
  max_per_node: count,
  running_instances: count,
  desired_capacity: count,
  schedulable: count,
  unmanaged_nodes: count,
  etas: { type: "object", additionalProperties: text },
  age_seconds: orNull(count),
  stale: flag,
  state: { enum: ["fresh", "stale", "unknown"] },
  source: { enum: ["cloud", "k8s"] },
  error: text,
  parent: orNull(text),
};
const type = object(typeFields);

const disk = object({
  user: text,
  name: text,
  size_gb: orNull(count),
  disk_size: orNull(text),
  state: text,
  in_use: flag,
  reservation_id: orNull(text),
  is_backing_up: flag,
  is_deleted: flag,
  delete_date: orNull(text),
  snapshot_count: count,
  last_snapshot_at: orNull(text),
  created_at: text,
  last_used: orNull(text),
  volume_id: orNull(text),
  volume_state: orNull(text),
  conflicts: listOf(text),
});

const run = object({
  run_id: text,
  kind: text,
  status: text,
  started_at: text,
  finished_at: orNull(text),
  fence: orNull(count),
  account: orNull(text),
  region: orNull(text),
  counters: { type: "object" },
  error: text,
});

const drift = object({
  id: count,
  run_id: text,
  at: text,
  closed_at: orNull(text),
  entity: text,
  entity_id: text,
  field: text,
  old: orNull(text),
  new: orNull(text),
  action: { enum: ["applied", "reported", "refused"] },
  reason: text,
});

const node = object({
  name: text,
  type: text,
  instance: text,
  gpus: count,
  used: count,
  free: count,
  problem: orNull(text),
});

export const schemas: Readonly<Record<string, Schema>> = {
  availability: object({ read_at: text, types: listOf(type) }),
  availabilityOfType: object({ read_at: text, ...typeFields }),
  clusterStatus: object({
    read_at: text,
    total: count,
    free: count,
    in_use: count,
    queued: count,
    stale: flag,
    types: listOf(type),
  }),
  disks: object({ disks: listOf(disk) }),
  disk,
  runs: object({ runs: listOf(run), paused: flag }),
  run,
  drift: object({ drift: listOf(drift) }),
  nodes: object({ revision: text, nodes: listOf(node) }),
  error: object({ error: object({ code: text, message: text }) }),
};
