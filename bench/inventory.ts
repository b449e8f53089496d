/** The inventory on data sets S and L: real PostgreSQL, the real SDK over HTTP, the stand-in in another process. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { awsCloud } from "../src/adapters/aws.ts";
import { openEmbeddedPostgres } from "../src/adapters/disk/embeddedPostgres.ts";
import { loadKubeconfig } from "../src/adapters/kubernetes/kubeconfig.ts";
import { kubeHttp } from "../src/adapters/kubernetes/kubeHttp.ts";
import { openPostgres, type Postgres } from "../src/adapters/postgres.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { inventoryDefaults } from "../src/control/inventory/inventoryDefaults.ts";
import { readCluster } from "../src/control/inventory/readCluster.ts";
import { type RunReport, runInventory } from "../src/control/inventory/runInventory.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { inventorySnapshot } from "../src/decide/inventory/inventorySnapshot.ts";
import type { Log } from "../src/ports/log.ts";
import { childProgram } from "./childProgram.ts";
import type { CloudOrder } from "./cloudProcess.ts";
import type { Figure } from "./figure.ts";
import { clusterOf, rowsOf, type SetSize, setSizes, typeNames } from "./inventorySets.ts";
import { ServerHandle } from "./serverHandle.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export async function* benchInventory(say: (text: string) => void): AsyncGenerator<Figure> {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-inventory-"));
  chmodSync(folder, 0o755);
  const server = await openEmbeddedPostgres(folder);
  try {
    for (const size of setSizes) {
      say(
        `set ${size.name}: ${size.volumes.toLocaleString("en-US")} volumes, ${size.snapshots.toLocaleString("en-US")} snapshots`,
      );
      yield* benchSet(size, await freshDatabase(server.url, size), say);
    }
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function* benchSet(size: SetSize, url: string, say: (text: string) => void): AsyncGenerator<Figure> {
  const { name } = size;
  const cloud = new CloudHandle();
  const database = await openPostgres({ url }, { log: quiet });
  const targets = name === "S" ? { full: 1, incremental: 1, gpu: 1 } : { full: 30, incremental: 5, gpu: 2 };
  const target = (value: number): Pick<Figure, "target"> => ({ target: { at: "most", value } });
  try {
    const endpoint = (await cloud.send({ do: "start", set: name })) as string;
    const disks = (more: string[] = []) => disksRun(url, endpoint, more);
    const floor = await bulkFloor(database, size);
    say(`set ${name}: full run over disks`);
    const full = await disks();
    const { counters } = mustBe(full.report, "ok");
    const beside = { name: "one bulk statement over the same rows", value: floor };
    yield { name: `${name}: disks, full`, value: seconds(full), unit: "s", ...target(targets.full), beside };
    if (full.cpuSeconds > 0) yield { name: `${name}: processor time of it`, value: full.cpuSeconds, unit: "s" };
    yield {
      name: `${name}: AWS calls of it`,
      value: callsOf(full.report),
      unit: "calls",
      ...(name === "L" ? target(260) : {}),
    };
    yield { name: `${name}: rows read`, value: full.report.phases.disks?.rowsRead ?? 0, unit: "rows" };
    yield { name: `${name}: rows written by it`, value: full.report.phases.disks?.rowsWritten ?? 0, unit: "rows" };
    yield { name: `${name}: duplicates it reports`, value: counters["duplicates"] ?? 0, unit: "volumes" };
    if (full.peakMb > 0) yield { name: `${name}: peak memory of it`, value: full.peakMb, unit: "MiB", ...target(512) };
    await disks();
    say(`set ${name}: nothing has changed`);
    const same = await disks(["--full-snapshots"]);
    yield {
      name: `${name}: disks, no change, all snapshots read`,
      value: seconds(same),
      unit: "s",
      ...target(targets.full),
    };
    yield {
      name: `${name}: rows written with no change`,
      value: same.report.phases.disks?.rowsWritten ?? -1,
      unit: "rows",
      ...target(0),
    };
    await cloud.send({ do: "change", count: Math.ceil(size.volumes / 100) });
    say(`set ${name}: one in a hundred has changed`);
    const some = await disks();
    yield { name: `${name}: disks, incremental`, value: seconds(some), unit: "s", ...target(targets.incremental) };
    yield { name: `${name}: AWS calls of it (incremental)`, value: callsOf(some.report), unit: "calls" };
    yield {
      name: `${name}: rows written by it (incremental)`,
      value: some.report.phases.disks?.rowsWritten ?? 0,
      unit: "rows",
    };
    if (name === "L") {
      say("set L: 100 ms latency, bucket of 100 refilled with 20 a second");
      await cloud.send({ do: "faults", faults: { latencyMs: 100, bucket: { size: 100, perSecond: 20 } } });
      const slow = await disks(["--full-snapshots"]);
      yield {
        name: "L: disks, full, 100 ms latency and a 100/20 bucket",
        value: seconds(slow),
        unit: "s",
        ...target(45),
      };
      yield { name: "L: throttled by the bucket", value: slow.report.cloud.throttles, unit: "calls", ...target(0) };
      await cloud.send({ do: "faults", faults: {} });
    }
    say(`set ${name}: availability from a watch cache`);
    const gpu = await gpuRun(database, endpoint, size);
    if (name === "L") {
      say("set L: lists of 5,000 nodes and 50,000 pods over TLS");
      yield { name: "L: cluster, cold lists", value: await coldLists(size), unit: "s", ...target(15) };
    }
    yield {
      name: `${name}: availability, from cache`,
      value: gpu.durationMs / 1000,
      unit: "s",
      ...target(targets.gpu),
    };
  } finally {
    await database.close();
    cloud.stop();
  }
}

interface DisksRun {
  readonly report: RunReport;
  readonly peakMb: number;
  /** What it would take on a machine that does nothing else. */
  readonly cpuSeconds: number;
}

/** A run as an operator starts it: a process of its own, whose memory can be measured. */
function disksRun(url: string, endpoint: string, more: readonly string[]): Promise<DisksRun> {
  return new Promise((done, fail) => {
    const args = [
      process.argv[1] ?? "",
      "inventory",
      "run",
      "--once",
      "--phase",
      "disks",
      "--accept-drop",
      "--log-level",
      "error",
      "-o",
      "json",
      ...more,
    ];
    const env = {
      ...process.env,
      DATABASE_URL: url,
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: "us-east-2",
      AWS_ACCESS_KEY_ID: "bench",
      AWS_SECRET_ACCESS_KEY: "bench",
      NODE_NO_WARNINGS: "1",
    };
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "ignore"] });
    let out = "";
    let peakMb = 0;
    let cpuSeconds = 0;
    const look = setInterval(() => {
      try {
        const kb = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
        peakMb = Math.max(peakMb, Number(kb ?? 0) / 1024);
        // In hundredths of a second, behind the name in brackets: user, then system.
        const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
        cpuSeconds = (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / 100;
      } catch {
        // Not Linux, or already over.
      }
    }, 50);
    child.stdout.on("data", (chunk: Buffer) => {
      out += chunk.toString();
    });
    child.once("close", (code) => {
      clearInterval(look);
      try {
        done({ report: JSON.parse(out) as RunReport, peakMb, cpuSeconds });
      } catch {
        fail(new Error(`the run ended with ${code} and said: ${out.slice(0, 500)}`));
      }
    });
  });
}

async function gpuRun(database: Postgres, endpoint: string, size: SetSize): Promise<RunReport> {
  const { nodes, pods } = clusterOf(size);
  const clock = systemClock();
  const metrics = new MemoryMetrics();
  const credentials = { accessKeyId: "bench", secretAccessKey: "bench" };
  const cloud = awsCloud(
    { region: "us-east-2", endpoint, credentials },
    { clock, random: systemRandom(), log: quiet, metrics },
  );
  const run = () =>
    runInventory(
      {
        clock,
        log: quiet,
        metrics,
        database,
        cloud,
        cluster: async () => ({
          ok: true,
          value: inventorySnapshot({ nodes, pods, claims: [], slices: [], revision: "1" }),
        }),
      },
      { ...inventoryDefaults, kind: "gpu", deadlineMs: 0 },
    );
  // The SDK is loaded by the first.
  await run();
  const report = await run();
  cloud.close();
  return report;
}

/** What a process without a watch cache has to read before it can count. */
async function coldLists(size: SetSize): Promise<number> {
  const server = new ServerHandle();
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-kube-"));
  try {
    const { kubeconfig } = await server.start({ tls: true });
    const file = join(folder, "kubeconfig");
    await writeFile(file, kubeconfig, { mode: 0o600 });
    await server.send({ do: "fillNodes", count: size.nodes });
    await server.send({ do: "fillPods", count: size.pods, perNode: size.pods / size.nodes });
    const api = kubeHttp(
      await loadKubeconfig({ path: file }),
      { clock: systemClock(), log: quiet },
      { fieldManager: "bench" },
    );
    const startedMs = performance.now();
    const read = await readCluster(api);
    const tookMs = performance.now() - startedMs;
    api.close();
    if (!read.ok) throw new Error(read.why);
    return tookMs / 1000;
  } finally {
    server.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The floor: every row of the set, read and written back by one statement each. */
async function bulkFloor({ pool }: Postgres, size: SetSize): Promise<number> {
  const startedMs = performance.now();
  const { rows } = await pool.query("select * from disks");
  await pool.query("begin");
  await pool.query(
    "update disks d set size_gb = x.size_gb from jsonb_to_recordset($1::jsonb) as x(disk_id uuid, size_gb int) where d.disk_id = x.disk_id",
    [JSON.stringify(rows.map(({ disk_id }: { disk_id: string }) => ({ disk_id, size_gb: 1 })))],
  );
  const tookMs = performance.now() - startedMs;
  await pool.query("rollback");
  await pool.query("analyze disks");
  return size.rows === 0 ? 0 : tookMs / 1000;
}

async function freshDatabase(serverUrl: string, size: SetSize): Promise<string> {
  const name = `bench_${size.name.toLowerCase()}`;
  const admin = await openPostgres({ url: serverUrl }, { log: quiet });
  await admin.pool.query(`create database ${name}`);
  await admin.close();
  const url = serverUrl.replace(/\/gpudev$/, `/${name}`);
  const database = await openPostgres({ url }, { log: quiet });
  await database.migrate();
  await database.pool.query("update gpu_types set is_active = false");
  for (const type of typeNames(size)) {
    const gpus = type.startsWith("cpu") ? 0 : 8;
    await database.pool.query(
      "insert into gpu_types (gpu_type, instance_type, max_gpus, cpus, memory_gb, max_per_node, multi_node_max) values ($1, $1, $2, 1, 1, $2, 4)",
      [type, gpus],
    );
  }
  await database.pool.query(
    `insert into disks (user_id, disk_name, ebs_volume_id, is_deleted, in_use, last_updated)
     select user_id, disk_name, ebs_volume_id, is_deleted, in_use, now() - interval '1 day'
     from jsonb_to_recordset($1::jsonb) as x(user_id text, disk_name text, ebs_volume_id text, is_deleted boolean, in_use boolean)`,
    [JSON.stringify(rowsOf(size))],
  );
  await database.close();
  return url;
}

class CloudHandle {
  private readonly child: ChildProcess = fork(childProgram("cloudProcess"), {
    stdio: "inherit",
  });

  send(order: CloudOrder): Promise<unknown> {
    return new Promise((done, fail) => {
      this.child.once("message", (message: { ok: boolean; answer: unknown; error?: string }) => {
        if (message.ok) done(message.answer);
        else fail(new Error(message.error));
      });
      this.child.send(order);
    });
  }

  stop(): void {
    this.child.kill();
  }
}

function mustBe(report: RunReport, status: string) {
  const { disks } = report.phases;
  if (report.status !== status || disks === undefined) throw new Error(`the run is ${report.status}: ${report.error}`);
  return disks;
}

function seconds({ report }: DisksRun): number {
  return report.durationMs / 1000;
}

function callsOf({ cloud }: RunReport): number {
  return Object.values(cloud.calls).reduce((sum, count) => sum + count, 0);
}
