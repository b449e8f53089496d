/** The inventory of `muster up --demo`: the simulated cloud, the embedded database, and a run every minute. */
import { rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { awsCloud } from "../../adapters/aws.ts";
import { openEmbeddedPostgres } from "../../adapters/disk/embeddedPostgres.ts";
import { makeFolder } from "../../adapters/disk/makeFolder.ts";
import { openPostgres, type Postgres } from "../../adapters/postgres.ts";
import { inventoryDefaults } from "../../control/inventory/inventoryDefaults.ts";
import { readCluster } from "../../control/inventory/readCluster.ts";
import { runInventory } from "../../control/inventory/runInventory.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Random } from "../../ports/random.ts";
import { StandInCloud } from "../../standin/cloud.ts";
import { addDemoGroups, addDemoVolumes, type DemoMachine } from "../../standin/demoCloud.ts";
import { startStandIn } from "../../standin/server.ts";
import { cloudFile, databaseAddress } from "./openInventory.ts";

export interface InventoryDemoOptions {
  readonly dataDir: string;
  /** URL of a PostgreSQL; the embedded one if undefined. */
  readonly databaseUrl?: string;
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly everyMs?: number;
  /** Aborted when the demo stops. */
  readonly signal?: AbortSignal;
}

export interface InventoryDemo {
  readonly databaseUrl: string;
  readonly cloudUrl: string;
  /** For pages that show the inventory. */
  readonly database: Postgres;
  stop(): Promise<void>;
}

const nodes = builtin.Node;

/** Starts the demo inventory and its first run. Other commands find database and cloud through the data folder. */
export async function startInventoryDemo(options: InventoryDemoOptions): Promise<InventoryDemo> {
  const { clock, random, log, metrics, kube } = options;
  const dataDir = resolve(options.dataDir);
  await makeFolder(dataDir);
  const { signal } = options;
  const embedded =
    options.databaseUrl === undefined ? await openEmbeddedPostgres(dataDir, signal && { signal }) : undefined;
  const databaseUrl = options.databaseUrl ?? embedded?.url ?? "";
  const database = await openPostgres({ url: databaseUrl }, { log });
  if (signal?.aborted === true) {
    await database.close();
    await embedded?.stop();
    throw signal.reason;
  }
  await database.migrate();
  const cloud = new StandInCloud({ clock, random });
  addDemoVolumes(cloud);
  const server = await startStandIn(cloud);
  const file = join(dataDir, cloudFile);
  const settings = { url: server.url, region: cloud.region, database: databaseAddress(databaseUrl) };
  await writeFile(file, `${JSON.stringify(settings)}\n`, { mode: 0o600 });
  const credentials = { accessKeyId: "standin", secretAccessKey: "standin" };
  const aws = awsCloud({ region: cloud.region, endpoint: server.url, credentials }, { clock, random, log, metrics });
  await seedDatabase(database);
  let isOver = false;
  let running: Promise<unknown> = Promise.resolve();
  let stopTimer = (): void => {};
  // The demo's cloud drifts on purpose: `muster drift` shows it, and it is nothing to investigate.
  const runLog: Log = {
    debug: (fields, message) => log.debug(fields, message),
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.info(fields, message),
    error: (fields, message) => log.error(fields, message),
  };
  const tick = async (): Promise<void> => {
    addDemoGroups(cloud, await labelNodes(kube, database));
    const ports = { clock, log: runLog, metrics, database, cloud: aws, cluster: () => readCluster(kube) };
    await runInventory(ports, { ...inventoryDefaults, updatedBy: "muster-demo", deadlineMs: 0 });
    if (!isOver) stopTimer = clock.after(options.everyMs ?? 60_000, start);
  };
  const start = (): void => {
    running = tick().catch((error: unknown) => log.warn({ error }, "a run of the demo's inventory failed"));
  };
  start();
  await running;
  return {
    databaseUrl,
    cloudUrl: server.url,
    database,
    stop: async () => {
      isOver = true;
      stopTimer();
      await running;
      aws.close();
      await server.stop();
      await rm(file, { force: true });
      await database.close();
      await embedded?.stop();
    },
  };
}

/** Labels nodes with their instance type, as a kubelet of a cloud does; simulated nodes only know their profile. */
async function labelNodes(kube: KubeApi, database: Postgres): Promise<DemoMachine[]> {
  const { rows } = await database.pool.query<{ gpu_type: string; instance_type: string }>(
    "select gpu_type, instance_type from gpu_types where is_active",
  );
  const byMachine = new Map(rows.map(({ gpu_type, instance_type }) => [instance_type, gpu_type]));
  const listed = await kube.list(nodes);
  if (!listed.ok) return [];
  const machines: DemoMachine[] = [];
  for (const node of listed.value.items) {
    const { name, labels = {} } = node.metadata;
    const gpuType = labels["GpuType"] ?? byMachine.get(labels["node.kubernetes.io/instance-type"] ?? "");
    if (gpuType === undefined) continue;
    if (labels["GpuType"] === undefined) {
      const body = { metadata: { labels: { GpuType: gpuType } } };
      await kube.patch({ ...nodes, namespace: "", name }, { type: "merge", body });
    }
    const { providerID = name } = (node["spec"] ?? {}) as { providerID?: string };
    machines.push({ id: providerID.split("/").at(-1) ?? name, gpuType });
  }
  return machines;
}

/** Inserts rows that differ from the cloud, unless they exist. */
async function seedDatabase({ pool }: Postgres): Promise<void> {
  await pool.query(
    `insert into reservations (reservation_id, user_id, status, gpu_type, gpu_count, expires_at)
     values ('demo-1', 'ada', 'active', 'h100', 8, now() + interval '3 hours'), ('demo-2', 'cyn', 'expired', 'h100', 2, now())
     on conflict do nothing`,
  );
  await pool.query(
    `insert into disks (user_id, disk_name, size_gb, in_use, reservation_id, ebs_volume_id, last_used, last_updated) values
       ('ada', 'data', 512, true, 'demo-1', 'vol-ada-data', now(), now()),
       ('bob', 'default', 1024, false, null, null, now() - interval '2 days', now() - interval '2 days'),
       ('cyn', 'scratch', 1024, true, 'demo-2', 'vol-cyn-scratch', now(), now() - interval '2 hours'),
       ('cyn', 'new-name', 1024, false, null, 'vol-cyn-old', now() - interval '5 days', now() - interval '5 days'),
       ('ada', 'resting', 100, false, null, 'vol-long-gone', now() - interval '9 days', now() - interval '9 days')
     on conflict do nothing`,
  );
}
