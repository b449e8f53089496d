/**
 * The schema as migrations, each applied once. Every migration also works on a database of an older service, whose
 * tables exist already and may lack columns. Seeds only fill a table that a migration created: a deploy must not reset
 * live capacity or add types to another service's table.
 */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** A query for the rows that block the migration. It is reported and postponed while the query returns rows. */
  readonly blockedBy?: string;
}

/** A unique index over columns (by name, sorted), unless the table has one of another name, such as its key. */
function unique(name: string, table: string, columns: readonly string[]): string {
  return `
do $$
begin
  if not exists (
    select from pg_index i where i.indrelid = '${table}'::regclass and i.indisunique and i.indpred is null
      and (select array_agg(a.attname::text order by a.attname) from pg_attribute a
           where a.attrelid = i.indrelid and a.attnum = any(i.indkey)) = array['${columns.join("', '")}']
  ) then
    create unique index ${name} on ${table} (${columns.join(", ")});
  end if;
end $$;`;
}

const reservationColumns = `
alter table reservations
  add column if not exists gpu_type varchar(50),
  add column if not exists gpu_count integer,
  add column if not exists created_at timestamptz not null default now(),
  add column if not exists launched_at timestamptz,
  add column if not exists expires_at timestamptz,
  add column if not exists updated_at timestamptz not null default now(),
  add column if not exists pod_name varchar(255),
  add column if not exists namespace varchar(100) default 'default',
  add column if not exists node_private_ip varchar(50),
  add column if not exists domain_name varchar(255),
  add column if not exists fqdn varchar(255),
  add column if not exists master_reservation_id varchar(255);`;

const diskColumns = `
alter table disks
  add column if not exists disk_id uuid not null default gen_random_uuid(),
  add column if not exists size_gb integer,
  add column if not exists disk_size text,
  add column if not exists created_at timestamptz default now(),
  add column if not exists last_used timestamptz,
  add column if not exists in_use boolean default false,
  add column if not exists reservation_id varchar(255),
  add column if not exists is_backing_up boolean default false,
  add column if not exists is_deleted boolean default false,
  add column if not exists delete_date date,
  add column if not exists snapshot_count integer default 0,
  add column if not exists pending_snapshot_count integer default 0,
  add column if not exists ebs_volume_id text,
  add column if not exists last_snapshot_at timestamptz,
  add column if not exists operation_id uuid,
  add column if not exists operation_status text,
  add column if not exists operation_error text,
  add column if not exists latest_snapshot_content_s3 text,
  add column if not exists last_updated timestamptz default now();
${unique("disks_one_id", "disks", ["disk_id"])}
${unique("disks_one_name", "disks", ["disk_name", "user_id"])}`;

const gpuTypeColumns = `
alter table gpu_types
  add column if not exists instance_type varchar(100) not null default '',
  add column if not exists max_gpus integer not null default 0,
  add column if not exists total_cluster_gpus integer default 0,
  add column if not exists max_per_node integer,
  add column if not exists is_active boolean default true,
  add column if not exists created_at timestamptz default now(),
  add column if not exists updated_at timestamptz default now(),
  add column if not exists description text;
${unique("gpu_types_one_name", "gpu_types", ["gpu_type"])}`;

export const migrations: readonly Migration[] = [
  {
    name: "001_users_and_keys",
    sql: `
create table if not exists api_users (
  user_id serial primary key,
  username varchar(255) not null unique,
  email varchar(255),
  created_at timestamp default now(),
  is_active boolean default true
);
create table if not exists api_keys (
  key_id serial primary key,
  user_id integer not null references api_users (user_id) on delete cascade,
  key_hash varchar(128) not null unique,
  key_prefix varchar(16) not null,
  created_at timestamp default now(),
  expires_at timestamp,
  last_used_at timestamp,
  is_active boolean default true,
  description text
);
create index if not exists idx_api_keys_hash on api_keys (key_hash) where is_active;
create index if not exists idx_api_keys_user on api_keys (user_id);
create index if not exists idx_api_keys_expires on api_keys (expires_at) where is_active;
create index if not exists idx_api_users_username on api_users (username);`,
  },
  {
    name: "002_reservations",
    sql: `
create table if not exists reservations (
  reservation_id varchar(255) primary key,
  user_id varchar(255) not null,
  status varchar(50) not null,
  gpu_type varchar(50),
  gpu_count integer,
  instance_type varchar(100),
  duration_hours double precision,
  created_at timestamptz not null default now(),
  launched_at timestamptz,
  expires_at timestamptz,
  updated_at timestamptz not null default now(),
  name text,
  pod_name varchar(255),
  namespace varchar(100) default 'default',
  node_ip varchar(50),
  node_private_ip varchar(50),
  node_port integer,
  domain_name varchar(255),
  fqdn varchar(255),
  jupyter_enabled boolean default false,
  ebs_volume_id varchar(255),
  disk_name varchar(255),
  ebs_availability_zone varchar(50),
  is_multinode boolean default false,
  master_reservation_id varchar(255),
  node_index integer,
  total_nodes integer,
  status_history jsonb default '[]',
  current_detailed_status text,
  failure_reason text
);
${reservationColumns}
create index if not exists idx_reservations_user on reservations (user_id);
create index if not exists idx_reservations_user_status on reservations (user_id, status);
create index if not exists idx_reservations_status on reservations (status);
create index if not exists idx_reservations_gpu_type_status on reservations (gpu_type, status);
create index if not exists idx_reservations_created_at on reservations (created_at desc);
create index if not exists idx_reservations_expires_at on reservations (expires_at);
create index if not exists idx_reservations_master on reservations (master_reservation_id) where master_reservation_id is not null;
create index if not exists idx_reservations_domain on reservations (domain_name) where domain_name is not null;
create index if not exists idx_reservations_fqdn on reservations (fqdn) where fqdn is not null;
create index if not exists idx_reservations_node_private_ip on reservations (node_private_ip) where node_private_ip is not null;
create or replace function muster_touch_updated_at() returns trigger language plpgsql as $$
begin
  new.updated_at = now();
  return new;
end $$;
drop trigger if exists trigger_reservations_updated_at on reservations;
create trigger trigger_reservations_updated_at before update on reservations
  for each row execute function muster_touch_updated_at();`,
  },
  {
    name: "003_disks",
    sql: `
create table if not exists disks (
  disk_id uuid primary key default gen_random_uuid(),
  disk_name text not null,
  user_id text not null,
  size_gb integer,
  disk_size text,
  created_at timestamptz default now(),
  last_used timestamptz,
  in_use boolean default false,
  reservation_id varchar(255) references reservations (reservation_id) on delete set null,
  is_backing_up boolean default false,
  is_deleted boolean default false,
  delete_date date,
  snapshot_count integer default 0,
  pending_snapshot_count integer default 0,
  ebs_volume_id text,
  last_snapshot_at timestamptz,
  operation_id uuid,
  operation_status text,
  operation_error text,
  latest_snapshot_content_s3 text,
  last_updated timestamptz default now(),
  unique (user_id, disk_name)
);
${diskColumns}
create index if not exists idx_disks_user_id on disks (user_id);
create index if not exists idx_disks_in_use on disks (in_use) where in_use;
create index if not exists idx_disks_is_deleted on disks (is_deleted) where is_deleted;
create index if not exists idx_disks_operation_id on disks (operation_id) where operation_id is not null;
create index if not exists idx_disks_reservation_id on disks (reservation_id) where reservation_id is not null;
create index if not exists idx_disks_delete_date on disks (delete_date) where delete_date is not null;
create or replace function muster_touch_last_updated() returns trigger language plpgsql as $$
begin
  new.last_updated = now();
  return new;
end $$;
drop trigger if exists update_disks_last_updated on disks;
create trigger update_disks_last_updated before update on disks
  for each row execute function muster_touch_last_updated();`,
  },
  {
    name: "004_gpu_types",
    sql: `
create table if not exists gpu_types (
  gpu_type varchar(50) primary key,
  instance_type varchar(100) not null,
  max_gpus integer not null,
  cpus integer not null,
  memory_gb integer not null,
  total_cluster_gpus integer default 0,
  max_per_node integer,
  is_active boolean default true,
  created_at timestamptz default now(),
  updated_at timestamptz default now(),
  description text
);
${gpuTypeColumns}
create index if not exists idx_gpu_types_active on gpu_types (is_active) where is_active;
drop trigger if exists update_gpu_types_updated_at on gpu_types;
create trigger update_gpu_types_updated_at before update on gpu_types
  for each row execute function muster_touch_updated_at();`,
  },
  {
    name: "005_domain_mappings",
    sql: `
create table if not exists domain_mappings (
  domain_name varchar(255) primary key,
  node_ip varchar(50) not null,
  node_port integer not null,
  reservation_id varchar(255) references reservations (reservation_id) on delete cascade,
  created_at timestamptz default now(),
  expires_at timestamptz
);`,
  },
  {
    name: "006_alb_target_groups",
    sql: `
create table if not exists alb_target_groups (
  reservation_id varchar(255) primary key references reservations (reservation_id) on delete cascade,
  domain_name varchar(255),
  target_group_arn text not null,
  rule_arn text,
  instance_id varchar(50),
  created_at timestamptz default now()
);`,
  },
  {
    name: "007_pgmq_queues",
    sql: `
do $$
begin
  if exists (select from pg_extension where extname = 'pgmq') then
    if not exists (select from pgmq.list_queues() where queue_name = 'gpu_reservations') then
      perform pgmq.create('gpu_reservations');
    end if;
    if not exists (select from pgmq.list_queues() where queue_name = 'disk_operations') then
      perform pgmq.create('disk_operations');
    end if;
  end if;
end $$;`,
  },
  {
    name: "008_add_expiry_tracking",
    sql: `
alter table reservations
  add column if not exists failed_at timestamptz,
  add column if not exists cancelled_at timestamptz,
  add column if not exists reservation_ended timestamptz,
  add column if not exists oom_count integer default 0,
  add column if not exists last_oom_at timestamptz,
  add column if not exists oom_container varchar(255),
  add column if not exists warnings_sent jsonb default '{}',
  add column if not exists last_warning_time timestamptz;
alter table disks add column if not exists marked_deleted_at timestamptz;
create index if not exists idx_reservations_failed_at on reservations (failed_at) where failed_at is not null;
create index if not exists idx_reservations_cancelled_at on reservations (cancelled_at) where cancelled_at is not null;
create index if not exists idx_reservations_ended on reservations (reservation_ended) where reservation_ended is not null;
create index if not exists idx_reservations_oom on reservations (oom_count) where oom_count > 0;
create or replace function muster_mark_deleted() returns trigger language plpgsql as $$
begin
  if new.is_deleted and not coalesce(old.is_deleted, false) then
    new.marked_deleted_at = now();
  elsif not coalesce(new.is_deleted, false) and coalesce(old.is_deleted, false) then
    new.marked_deleted_at = null;
  end if;
  return new;
end $$;
drop trigger if exists trigger_disk_marked_deleted on disks;
create trigger trigger_disk_marked_deleted before update on disks
  for each row execute function muster_mark_deleted();`,
  },
  {
    name: "009_add_availability_to_gpu_types",
    sql: `
alter table gpu_types
  add column if not exists available_gpus integer default 0,
  add column if not exists max_reservable integer default 0,
  add column if not exists full_nodes_available integer default 0,
  add column if not exists running_instances integer default 0,
  add column if not exists desired_capacity integer default 0,
  add column if not exists last_availability_update timestamptz,
  add column if not exists last_availability_updated_by varchar(100);
create index if not exists idx_gpu_types_available_gpus on gpu_types (available_gpus) where is_active and available_gpus > 0;
create index if not exists idx_gpu_types_availability_update on gpu_types (last_availability_update desc) where is_active;`,
  },
  {
    name: "010_cloud_agnostic_disks",
    sql: `
alter table disks
  add column if not exists pvc_name text,
  add column if not exists volume_snapshot_name text;`,
  },
  {
    name: "011_muster_runs_and_drift",
    sql: `
create table reconcile_runs (
  run_id uuid primary key,
  kind text not null,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  fence bigint,
  status text not null default 'running'
    check (status in ('running', 'ok', 'partial', 'failed', 'skipped', 'refused', 'deadline')),
  aws_read_at timestamptz,
  aws_account text,
  aws_region text,
  k8s_rv text,
  updated_by varchar(100),
  counters jsonb not null default '{}',
  error text not null default ''
);
create index idx_reconcile_runs_started on reconcile_runs (started_at desc);
create table reconcile_control (
  id integer primary key default 1 check (id = 1),
  fence bigint not null default 0,
  paused boolean not null default false,
  paused_by text not null default '',
  paused_reason text not null default '',
  paused_at timestamptz,
  snapshots_full_at timestamptz,
  snapshots_base_before timestamptz
);
insert into reconcile_control (id) values (1);
create table drift_events (
  id bigint generated always as identity primary key,
  run_id uuid not null,
  at timestamptz not null default now(),
  phase text not null,
  entity text not null,
  entity_id text not null,
  field text not null,
  old text,
  new text,
  action text not null check (action in ('applied', 'reported', 'refused')),
  reason text not null,
  closed_at timestamptz
);
create index idx_drift_events_at on drift_events (at desc);
create index idx_drift_events_entity on drift_events (entity, entity_id, at desc);
create unique index idx_drift_events_open on drift_events (phase, entity, entity_id, field, md5(reason))
  where action = 'reported' and closed_at is null;
create table snapshot_bases (
  disk_id uuid primary key references disks (disk_id) on delete cascade,
  completed integer not null check (completed >= 0),
  last_completed_at timestamptz
);`,
  },
  {
    name: "012_muster_availability",
    sql: `
${gpuTypeColumns}
update gpu_types set is_active = true where is_active is null;
update gpu_types set total_cluster_gpus = coalesce(total_cluster_gpus, 0), available_gpus = coalesce(available_gpus, 0),
  max_reservable = coalesce(max_reservable, 0), full_nodes_available = coalesce(full_nodes_available, 0),
  running_instances = coalesce(running_instances, 0), desired_capacity = coalesce(desired_capacity, 0);
-- Another service may insert without them: what must not be null has a default.
alter table gpu_types
  alter column is_active set default true,
  alter column total_cluster_gpus set default 0,
  alter column available_gpus set default 0,
  alter column max_reservable set default 0,
  alter column full_nodes_available set default 0,
  alter column running_instances set default 0,
  alter column desired_capacity set default 0;
alter table gpu_types
  alter column is_active set not null,
  alter column total_cluster_gpus set not null,
  alter column available_gpus set not null,
  alter column max_reservable set not null,
  alter column full_nodes_available set not null,
  alter column running_instances set not null,
  alter column desired_capacity set not null,
  add column available_now integer not null default 0,
  add column k8s_allocatable_gpus integer not null default 0,
  add column schedulable_gpus integer not null default 0,
  add column unmanaged_nodes integer not null default 0,
  add column availability_state text not null default 'unknown',
  add column availability_source text not null default 'cloud',
  add column availability_error text not null default '',
  add column size_etas jsonb not null default '{}',
  add column resource_name text not null default 'nvidia.com/gpu',
  add column node_label_value text,
  add column multi_node_max integer not null default 1,
  add column slots_per_node integer not null default 3;
update gpu_types set multi_node_max = 4 where gpu_type in ('h100', 'h200', 'b200', 'a100');
alter table gpu_types
  add constraint gpu_types_counts check (total_cluster_gpus >= 0 and available_gpus >= 0 and available_now >= 0
    and max_reservable >= 0 and full_nodes_available >= 0 and running_instances >= 0 and desired_capacity >= 0
    and k8s_allocatable_gpus >= 0 and schedulable_gpus >= 0 and unmanaged_nodes >= 0) not valid,
  add constraint gpu_types_state check (availability_state in ('fresh', 'stale', 'unknown')),
  add constraint gpu_types_source check (availability_source in ('cloud', 'k8s')),
  -- Numbers of two moments may disagree while one source cannot be read; the row says so itself.
  add constraint gpu_types_sum check (availability_state <> 'fresh' or available_gpus <= total_cluster_gpus);`,
  },
  {
    name: "013_muster_disks",
    sql: `
${diskColumns}
update disks set last_updated = now() where last_updated is null;
update disks set in_use = coalesce(in_use, false), is_backing_up = coalesce(is_backing_up, false),
  is_deleted = coalesce(is_deleted, false), snapshot_count = greatest(coalesce(snapshot_count, 0), 0),
  pending_snapshot_count = greatest(coalesce(pending_snapshot_count, 0), 0)
  where in_use is null or is_backing_up is null or is_deleted is null or snapshot_count is null or snapshot_count < 0
    or pending_snapshot_count is null or pending_snapshot_count < 0;
alter table disks
  alter column in_use set default false,
  alter column is_backing_up set default false,
  alter column is_deleted set default false,
  alter column snapshot_count set default 0,
  alter column pending_snapshot_count set default 0,
  alter column last_updated set default now();
alter table disks
  alter column in_use set not null,
  alter column is_backing_up set not null,
  alter column is_deleted set not null,
  alter column snapshot_count set not null,
  alter column pending_snapshot_count set not null,
  alter column last_updated set not null,
  add column row_version bigint not null default 1,
  add column claim_expires_at timestamptz,
  add column volume_state text,
  add column observed_at timestamptz,
  add column missing_since timestamptz,
  add constraint disks_counts check (snapshot_count >= 0 and pending_snapshot_count >= 0 and (size_gb is null or size_gb >= 0));
create function muster_disk_version() returns trigger language plpgsql as $$
begin
  -- What the application owns, or shares with the reconciler. Counts and observations are the reconciler's alone.
  if (new.disk_name, new.user_id, new.in_use, new.reservation_id, new.is_backing_up, new.is_deleted, new.delete_date,
      new.ebs_volume_id, new.operation_id, new.operation_status, new.claim_expires_at, new.last_used)
     is distinct from
     (old.disk_name, old.user_id, old.in_use, old.reservation_id, old.is_backing_up, old.is_deleted, old.delete_date,
      old.ebs_volume_id, old.operation_id, old.operation_status, old.claim_expires_at, old.last_used) then
    new.row_version = old.row_version + 1;
  else
    new.row_version = old.row_version;
  end if;
  return new;
end $$;
create trigger muster_disk_version before update on disks for each row execute function muster_disk_version();`,
  },
  {
    name: "014_muster_one_row_per_volume",
    blockedBy: `select ebs_volume_id from disks where ebs_volume_id is not null and not is_deleted
      group by ebs_volume_id having count(*) > 1 limit 20`,
    sql: `create unique index disks_one_row_per_volume on disks (ebs_volume_id)
      where ebs_volume_id is not null and not is_deleted;`,
  },
];

/** The GPU types of a new installation. Existing rows are not changed. */
export const seedSql = `
insert into gpu_types
  (gpu_type, instance_type, max_gpus, cpus, memory_gb, total_cluster_gpus, max_per_node, multi_node_max, description)
values
  ('t4', 'g4dn.12xlarge', 4, 48, 192, 8, 4, 1, 'NVIDIA T4'),
  ('t4-small', 'g4dn.2xlarge', 1, 8, 32, 1, 1, 1, 'NVIDIA T4, one to a machine'),
  ('l4', 'g6.12xlarge', 4, 48, 192, 4, 4, 1, 'NVIDIA L4'),
  ('a10g', 'g5.12xlarge', 4, 48, 192, 4, 4, 1, 'NVIDIA A10G'),
  ('a100', 'p4d.24xlarge', 8, 96, 1152, 16, 8, 4, 'NVIDIA A100'),
  ('h100', 'p5.48xlarge', 8, 192, 2048, 16, 8, 4, 'NVIDIA H100'),
  ('h200', 'p5e.48xlarge', 8, 192, 2048, 16, 8, 4, 'NVIDIA H200'),
  ('b200', 'p6-b200.48xlarge', 8, 192, 2048, 16, 8, 4, 'NVIDIA B200'),
  ('cpu-x86', 'c7i.8xlarge', 0, 32, 64, 0, 0, 1, 'x86 without GPUs'),
  ('cpu-arm', 'c7g.8xlarge', 0, 32, 64, 0, 0, 1, 'ARM without GPUs')
on conflict (gpu_type) do nothing`;

/** The minimal grants of the reconciler: it changes its own columns, adds disks, and deletes only old history. */
export function grantsFor(role: string): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  return `
grant select on gpu_types, disks, reservations, api_users, reconcile_runs, reconcile_control, drift_events,
  snapshot_bases, muster_migrations to ${name};
grant update (total_cluster_gpus, available_gpus, available_now, max_reservable, full_nodes_available, running_instances,
  desired_capacity, k8s_allocatable_gpus, schedulable_gpus, unmanaged_nodes, availability_state, availability_source,
  availability_error, size_etas, last_availability_update, last_availability_updated_by) on gpu_types to ${name};
grant insert (disk_name, user_id, size_gb, created_at, in_use, reservation_id, is_backing_up, snapshot_count,
  ebs_volume_id, last_snapshot_at, volume_state, observed_at) on disks to ${name};
grant update (size_gb, in_use, reservation_id, is_backing_up, snapshot_count, ebs_volume_id, last_snapshot_at, volume_state,
  observed_at, missing_since) on disks to ${name};
grant insert, update on reconcile_runs, snapshot_bases to ${name};
grant update on reconcile_control to ${name};
grant insert, update (closed_at) on drift_events to ${name};
grant delete on reconcile_runs, drift_events to ${name};`;
}
