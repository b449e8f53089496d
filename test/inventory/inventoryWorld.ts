import type { Postgres } from "../../src/adapters/postgres.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import type { DiskPhaseRules } from "../../src/control/inventory/diskPhase.ts";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { type InventoryOptions, type RunReport, runInventory } from "../../src/control/inventory/runInventory.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { brokenSums, type DiskCounters } from "../../src/decide/inventory/diskCounters.ts";
import { type InventorySnapshot, inventorySnapshot } from "../../src/decide/inventory/inventorySnapshot.ts";
import type { Read } from "../../src/decide/inventory/planAvailability.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import type { Cloud } from "../../src/ports/cloud.ts";
import type { InventoryDatabase } from "../../src/ports/database.ts";
import { node } from "../../src/sim/inventory/builders.ts";
import { CloudForTests } from "./cloudForTests.ts";
import { PostgresForTests, silentLog } from "./databases.ts";

/** A whole installation: real PostgreSQL, the real SDK over the wire, and a cluster that is said. */
export class InventoryWorld {
  readonly server = new PostgresForTests();
  readonly aws = new CloudForTests();
  readonly metrics = new MemoryMetrics();
  nodes: Node[] = [];
  pods: Pod[] = [];
  /** Why the cluster cannot be read. */
  clusterDown = "";
  /** The cloud compares times as they are written, and knows no wildcard in them. */
  literalTimes = false;
  database!: Postgres & { url: string };

  async start(): Promise<void> {
    await this.server.start();
    await this.aws.start();
  }

  /** A new database and an empty cloud for each test. */
  async fresh(): Promise<void> {
    await this.database?.close().catch(() => {});
    this.database = await this.server.database();
    const { cloud } = this.aws;
    cloud.setFaults({});
    for (const held of [cloud.groups, cloud.volumes, cloud.snapshots, cloud.modifications, cloud.calls]) held.clear();
    cloud.account = "123456789012";
    cloud.mutations.length = 0;
    this.nodes = [];
    this.pods = [];
    this.clusterDown = "";
    this.literalTimes = false;
  }

  get cloud() {
    return this.aws.cloud;
  }

  async stop(): Promise<void> {
    await this.aws.stop();
    await this.server.stop();
  }

  /** A group of machines in service, with a node on each. */
  pool(type: string, count: number, gpus = 8): void {
    const name = `pytorch-gpu-dev-gpu-nodes-${type}`;
    const ids = Array.from({ length: count }, (_, at) => `i-${type}-${at + 1}`);
    const instances = ids.map((id) => ({ id, type: "", lifecycleState: "InService", healthStatus: "Healthy" }));
    this.cloud.groups.set(name, { name, desiredCapacity: count, instances, tags: {} });
    for (const [at, id] of ids.entries()) this.nodes.push(node(`${type}-${at + 1}`, type, { gpus, instance: id }));
  }

  readCluster = async (): Promise<Read<InventorySnapshot>> => {
    if (this.clusterDown !== "") return { ok: false, why: this.clusterDown };
    const lists = { nodes: this.nodes, pods: this.pods, claims: [], slices: [], revision: "7" };
    return { ok: true, value: inventorySnapshot(lists) };
  };

  private ownCloud(): Cloud {
    const aws = this.aws.aws({ attemptsMax: 3 });
    if (!this.literalTimes) return aws;
    const snapshots: Cloud["snapshots"] = (which, onPage, options) =>
      which.type === "startedOn"
        ? Promise.resolve({ ok: true, value: undefined })
        : aws.snapshots(which, onPage, options);
    return new Proxy<Cloud>(aws, {
      get: (cloud, name) => {
        if (name === "snapshots") return snapshots;
        const value: unknown = Reflect.get(cloud, name, cloud);
        return typeof value === "function" ? value.bind(cloud) : value;
      },
    });
  }

  /** The same database, with a clock that differs. */
  skewed(skewMs: number): InventoryDatabase {
    const { database } = this;
    return {
      look: () => database.look(),
      begin: async (start) => {
        const answer = await database.begin(start);
        if (!answer.ok || answer.value.status !== "begun") return answer;
        const { run } = answer.value;
        const [types, disks] = [run.types.bind(run), run.disks.bind(run)];
        run.disks = async () => {
          const read = await disks();
          return read.ok ? { ok: true, value: { ...read.value, nowMs: read.value.nowMs + skewMs } } : read;
        };
        run.types = async () => {
          const read = await types();
          return read.ok ? { ok: true, value: { ...read.value, nowMs: read.value.nowMs + skewMs } } : read;
        };
        return answer;
      },
    };
  }

  async run(options: Partial<InventoryOptions> = {}, disks: Partial<DiskPhaseRules> = {}): Promise<RunReport> {
    const report = await runInventory(
      {
        clock: systemClock(),
        log: silentLog,
        metrics: this.metrics,
        database: this.database,
        cloud: this.ownCloud(),
        cluster: this.readCluster,
      },
      { ...inventoryDefaults, deadlineMs: 0, ...options, disks: { ...inventoryDefaults.disks, ...disks } },
    );
    const counters = report.phases.disks?.counters;
    // Done when the sums close: in every test, except where the run stopped half way.
    if (report.status !== "deadline" && counters !== undefined && "aws_volumes" in counters) {
      const broken = brokenSums(counters as unknown as DiskCounters);
      if (broken.length > 0) throw new Error(broken.join("; "));
    }
    return report;
  }

  async sql<Row extends object = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.database.pool.query(text, values)).rows as Row[];
  }

  async addDisk(name: string, columns: Record<string, unknown> = {}): Promise<void> {
    const all = {
      user_id: "ada",
      disk_name: name,
      size_gb: 100,
      last_updated: new Date(Date.now() - 3_600_000),
      ...columns,
    };
    const names = Object.keys(all);
    const marks = names.map((_, at) => `$${at + 1}`);
    await this.sql(`insert into disks (${names.join(", ")}) values (${marks.join(", ")})`, Object.values(all));
  }

  async addReservation(id: string, status: string, columns: Record<string, unknown> = {}): Promise<void> {
    const all = { reservation_id: id, user_id: "ada", status, ...columns };
    const names = Object.keys(all);
    const marks = names.map((_, at) => `$${at + 1}`);
    await this.sql(`insert into reservations (${names.join(", ")}) values (${marks.join(", ")})`, Object.values(all));
  }

  async disk(name: string): Promise<Record<string, unknown>> {
    const [row] = await this.sql("select * from disks where disk_name = $1", [name]);
    if (row === undefined) throw new Error(`no disk ${name}`);
    return row;
  }

  async type(name: string): Promise<Record<string, unknown>> {
    const [row] = await this.sql("select * from gpu_types where gpu_type = $1", [name]);
    if (row === undefined) throw new Error(`no type ${name}`);
    return row;
  }

  /** Everything that the inventory keeps about disks and types, without the times of looking. */
  async state(): Promise<unknown> {
    const disks = await this.sql("select * from disks order by user_id, disk_name");
    const types = await this.sql(
      "select to_jsonb(g) - 'last_availability_update' - 'updated_at' - 'last_availability_updated_by' as row from gpu_types g order by gpu_type",
    );
    return { disks, types };
  }
}
