import { type Aws, type AwsOptions, awsCloud } from "../../src/adapters/aws.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import type { CloudSnapshot, CloudVolume, ScalingGroup } from "../../src/model/inventory/cloud.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Cloud, CloudRead, SnapshotFilter, VolumeFilter } from "../../src/ports/cloud.ts";
import { Dice } from "../../src/sim/chance.ts";
import { StandInCloud } from "../../src/standin/cloud.ts";
import { type StandInServer, startStandIn } from "../../src/standin/server.ts";
import { silentLog } from "./databases.ts";

/** A clock on which every wait is over at once, and counts. */
export class HurriedClock implements Clock {
  private atMs: number;

  constructor(atMs = Date.now()) {
    this.atMs = atMs;
  }

  nowMs(): number {
    return this.atMs;
  }

  monotonicMs(): number {
    return this.atMs;
  }

  pass(ms: number): void {
    this.atMs += ms;
  }

  after(delayMs: number, run: () => void): () => void {
    let stopped = false;
    setImmediate(() => {
      if (stopped) return;
      this.atMs += delayMs;
      run();
    });
    return () => {
      stopped = true;
    };
  }
}

/** The real SDK against the stand-in over HTTP. */
export class CloudForTests {
  readonly clock = new HurriedClock();
  readonly cloud = new StandInCloud({ clock: this.clock, random: new Dice(1) });
  readonly metrics = new MemoryMetrics();
  private server: StandInServer | undefined;
  private readonly open: Aws[] = [];

  async start(): Promise<void> {
    this.server = await startStandIn(this.cloud);
  }

  get url(): string {
    if (this.server === undefined) throw new Error("not started");
    return this.server.url;
  }

  aws(options: Partial<AwsOptions> = {}): Aws {
    const credentials = { accessKeyId: "AKIATEST", secretAccessKey: "secret" };
    const ports = { clock: this.clock, random: new Dice(7), log: silentLog, metrics: this.metrics };
    const aws = awsCloud({ region: this.cloud.region, endpoint: this.url, credentials, ...options }, ports);
    this.open.push(aws);
    return aws;
  }

  async stop(): Promise<void> {
    for (const aws of this.open) aws.close();
    await this.server?.stop();
  }
}

export async function allVolumes(
  cloud: Cloud,
  which: VolumeFilter = { type: "tagged" },
): Promise<CloudRead<CloudVolume[]>> {
  const found: CloudVolume[] = [];
  const read = await cloud.volumes(which, (page) => found.push(...page));
  return read.ok ? { ok: true, value: found } : read;
}

export async function allSnapshots(
  cloud: Cloud,
  which: SnapshotFilter = { type: "all" },
): Promise<CloudRead<CloudSnapshot[]>> {
  const found: CloudSnapshot[] = [];
  const read = await cloud.snapshots(which, (page) => found.push(...page));
  return read.ok ? { ok: true, value: found } : read;
}

export async function allGroups(cloud: Cloud): Promise<CloudRead<ScalingGroup[]>> {
  const found: ScalingGroup[] = [];
  const read = await cloud.scalingGroups((page) => found.push(...page));
  return read.ok ? { ok: true, value: found } : read;
}
