import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AutoScalingClient, CreateAutoScalingGroupCommand } from "@aws-sdk/client-auto-scaling";
import {
  AttachVolumeCommand,
  CreateLaunchTemplateCommand,
  CreateSnapshotCommand,
  CreateVolumeCommand,
  DeleteVolumeCommand,
  DescribeImagesCommand,
  DescribeInstancesCommand,
  DetachVolumeCommand,
  EC2Client,
} from "@aws-sdk/client-ec2";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { node, pod } from "../../src/sim/inventory/builders.ts";
import { type ServerForClients, serverForClients } from "../clientNode/serverForClients.ts";
import { PostgresForTests } from "./databases.ts";
import { findMoto, type MotoServer, startMoto } from "./motoServer.ts";

/**
 * The program against moto, whose authors know nothing of it: groups with launch templates, instances, volumes and
 * snapshots are made through AWS's SDK, and the rows are compared with what was made. moto has no pages of volumes and
 * snapshots, completes snapshots at once and compares start times exactly; the stand-in plays those.
 */
const found = findMoto();
const reason = "missing" in found ? ` (skipped: ${found.missing})` : "";
const region = "us-east-2";
const credentials = { accessKeyId: "a", secretAccessKey: "b" };
const folder = mkdtempSync(join(tmpdir(), "muster-moto-"));
const main = join(import.meta.dirname, "../../dist/bundle/program/main.js");
const postgres = new PostgresForTests();

let moto: MotoServer;
let ec2: EC2Client;
let autoScaling: AutoScalingClient;
let cluster: ServerForClients;
let database: Awaited<ReturnType<PostgresForTests["database"]>>;
const ids = new Map<string, string>();

const prefix = "pytorch-gpu-dev-gpu-nodes-";
/** What is made, by hand; what is expected of it is written beside each test. */
const pools = [
  { group: `${prefix}h100`, machine: "p5.48xlarge", count: 3, label: "h100", gpus: 8 },
  { group: `${prefix}h100-cr0`, machine: "p5.48xlarge", count: 2, label: "h100", gpus: 8 },
  { group: `${prefix}t4`, machine: "g4dn.12xlarge", count: 1, label: "t4", gpus: 4 },
  { group: `${prefix}t4-small`, machine: "g4dn.2xlarge", count: 2, label: "t4-small", gpus: 1 },
  { group: "zz-another-team", machine: "t3.micro", count: 1, label: "", gpus: 0 },
];

describe.skipIf("missing" in found)(`moto as the cloud${reason}`, () => {
  beforeAll(async () => {
    process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] = "true";
    moto = await startMoto("program" in found ? found.program : "");
    const config = { region, endpoint: moto.url, credentials };
    ec2 = new EC2Client(config);
    autoScaling = new AutoScalingClient(config);
    await postgres.start();
    database = await postgres.database();
    cluster = await serverForClients();
    writeFileSync(join(folder, "kubeconfig"), cluster.server.kubeconfig);
    await makeMachines();
    await makeDisks();
  });
  afterAll(async () => {
    ec2?.destroy();
    autoScaling?.destroy();
    await cluster?.server.stop();
    await postgres.stop();
    await moto?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("a first run counts the machines and imports the disks", async () => {
    expect(await muster("--full-snapshots")).toMatchObject({ code: 0, report: { status: "ok" } });
    const types = await rows(
      `select gpu_type, running_instances, desired_capacity, total_cluster_gpus, available_gpus, max_reservable,
         full_nodes_available, availability_state from gpu_types where gpu_type in ('h100', 't4', 't4-small', 'a100')
       order by gpu_type`,
    );
    expect(types).toEqual([
      typeRow("a100", { running: 0, total: 0, available: 0, most: 0, whole: 0 }),
      // Five machines; one node has 3 of 8 in use, one is cordoned: 5 + 8 + 8 + 8, and three whole nodes.
      typeRow("h100", { running: 5, total: 40, available: 29, most: 24, whole: 3 }),
      typeRow("t4", { running: 1, total: 4, available: 4, most: 4, whole: 1 }),
      typeRow("t4-small", { running: 2, total: 2, available: 2, most: 1, whole: 2 }),
    ]);
    expect(await disks()).toEqual([
      { user: "ada", name: "data", volume: ids.get("ada-data"), size: 100, used: true, snapshots: 2 },
      { user: "ada", name: "spelled", volume: ids.get("spelled"), size: 5, used: false, snapshots: 0 },
      { user: "bob", name: "default", volume: ids.get("bob-default"), size: 20, used: false, snapshots: 1 },
    ]);
  });

  test("a second run on the same cloud writes no row", async () => {
    const before = await versions();
    expect(await muster("--full-snapshots")).toMatchObject({ code: 0, report: { status: "ok" } });
    expect(await versions()).toEqual(before);
  });

  test("runs that read only new snapshots keep the counts, though moto ignores their filter", async () => {
    const before = await disks();
    expect(await muster()).toMatchObject({ code: 0, report: { status: "ok" } });
    expect(await muster()).toMatchObject({ code: 0, report: { status: "ok" } });
    expect(await disks()).toEqual(before);
  });

  test("volumes that are attached, detached, made and deleted meanwhile are followed", async () => {
    await ec2.send(
      new DetachVolumeCommand({ VolumeId: volume("ada-data"), InstanceId: machine("t4"), Device: "/dev/sdf" }),
    );
    await ec2.send(
      new AttachVolumeCommand({ VolumeId: volume("bob-default"), InstanceId: machine("t4"), Device: "/dev/sdg" }),
    );
    await ec2.send(new DeleteVolumeCommand({ VolumeId: volume("spelled") }));
    await makeVolume("new", 7, { "gpu-dev-user": "eve", disk_name: "fresh" });
    expect((await muster("--full-snapshots")).code).toBe(0);
    expect((await muster("--full-snapshots")).code).toBe(0);
    expect(await disks()).toEqual([
      { user: "ada", name: "data", volume: ids.get("ada-data"), size: 100, used: false, snapshots: 2 },
      { user: "ada", name: "spelled", volume: ids.get("spelled"), size: 5, used: false, snapshots: 0 },
      { user: "bob", name: "default", volume: ids.get("bob-default"), size: 20, used: true, snapshots: 1 },
      { user: "eve", name: "fresh", volume: ids.get("new"), size: 7, used: false, snapshots: 0 },
    ]);
  });
});

// --- what is made

async function makeMachines(): Promise<void> {
  const { Images = [] } = await ec2.send(new DescribeImagesCommand({ Owners: ["amazon"] }));
  const image = Images.find(({ ImageId }) => ImageId !== undefined)?.ImageId;
  for (const { group, machine: type, count } of pools) {
    const LaunchTemplateName = `lt-${group}`;
    const LaunchTemplateData = { ImageId: image, InstanceType: type as "t3.micro" };
    await ec2.send(new CreateLaunchTemplateCommand({ LaunchTemplateName, LaunchTemplateData }));
    await makeGroup(group, count, { LaunchTemplateName, Version: "$Latest" });
  }
  // More than a page of other teams' groups, which come first.
  const [{ group: any = "" } = {}] = pools;
  for (let n = 0; n < 105; n++) {
    const LaunchTemplateName = `lt-${any}`;
    await makeGroup(`aa-other-${String(n).padStart(3, "0")}`, 0, { LaunchTemplateName, Version: "$Latest" });
  }
  const { Reservations = [] } = await ec2.send(new DescribeInstancesCommand({}));
  const machines = Reservations.flatMap(({ Instances = [] }) => Instances).map(({ InstanceId = "", Tags = [] }) => ({
    id: InstanceId,
    group: Tags.find(({ Key }) => Key === "aws:autoscaling:groupName")?.Value ?? "",
  }));
  const kube = inProcessKube(cluster.server.core, {
    user: { username: "test", groups: ["system:masters"] },
    fieldManager: "test",
  });
  let cordoned = false;
  let used = false;
  for (const { label, gpus, group } of pools) {
    if (label === "") continue;
    for (const { id } of machines.filter((each) => each.group === group)) {
      if (label === "t4") ids.set("t4", id);
      const name = `node-${id}`;
      const unschedulable: boolean = label === "h100" && !cordoned;
      cordoned ||= unschedulable;
      const options = { gpus, instance: id, heartbeat: new Date().toISOString() };
      const made = node(name, label, unschedulable ? { ...options, unschedulable } : options);
      await create(kube, "nodes", made);
      if (label === "h100" && !unschedulable && !used) {
        used = true;
        const amounts = { "nvidia.com/gpu": "3" };
        const resources = { requests: amounts, limits: amounts };
        const containers = [{ name: "main", image: "x", resources }];
        await create(kube, "pods", pod("p1", name, 3, { spec: { containers } }));
      }
    }
  }
}

async function makeGroup(
  AutoScalingGroupName: string,
  count: number,
  LaunchTemplate: { LaunchTemplateName: string; Version: string },
): Promise<void> {
  await autoScaling.send(
    new CreateAutoScalingGroupCommand({
      AutoScalingGroupName,
      LaunchTemplate,
      MinSize: 0,
      MaxSize: 10,
      DesiredCapacity: count,
      AvailabilityZones: [`${region}a`],
    }),
  );
}

async function create(kube: ReturnType<typeof inProcessKube>, plural: string, object: object): Promise<void> {
  const { metadata, ...rest } = object as KubeObject;
  const { uid: _, resourceVersion: __, creationTimestamp: ___, ...kept } = metadata;
  const body = { ...rest, metadata: kept } as unknown as KubeObject & { status?: unknown };
  if (plural === "pods") delete body.status;
  const made = await kube.create({ group: "", version: "v1", plural }, body);
  if (!made.ok) throw new Error(made.message);
}

async function makeDisks(): Promise<void> {
  await makeVolume("ada-data", 100, { "gpu-dev-user": "ada", disk_name: "data", Name: "gpu-dev-disk-ada-data" });
  await ec2.send(
    new AttachVolumeCommand({ VolumeId: volume("ada-data"), InstanceId: machine("t4"), Device: "/dev/sdf" }),
  );
  await makeVolume("bob-default", 20, { "gpu-dev-user": "bob", disk_name: "default" });
  await makeVolume("spelled", 5, { "gpu-dev-user": "ada", "disk-name": "spelled" });
  // Not ours, or not said whose: none of these becomes a row.
  await makeVolume("nameless", 1, { "gpu-dev-user": "ada" });
  await makeVolume("named-only", 1, { "gpu-dev-user": "ada", Name: "x" });
  await makeVolume("foreign", 1, { team: "other" });
  await makeSnapshot("ada-data", { "gpu-dev-user": "ada", disk_name: "data" });
  await makeSnapshot("ada-data", { "gpu-dev-user": "ada", disk_name: "data" });
  await makeSnapshot("bob-default", { "gpu-dev-user": "bob", disk_name: "default" });
  await makeSnapshot("bob-default", { "gpu-dev-user": "bob", disk_name: "default", "delete-date": "2026-12-01" });
  await makeSnapshot("foreign", { team: "other" });
}

async function makeVolume(name: string, Size: number, tags: Record<string, string>): Promise<void> {
  const TagSpecifications = [{ ResourceType: "volume" as const, Tags: tagsOf(tags) }];
  const AvailabilityZone = `${region}a`;
  const { VolumeId = "" } = await ec2.send(new CreateVolumeCommand({ Size, AvailabilityZone, TagSpecifications }));
  ids.set(name, VolumeId);
}

async function makeSnapshot(of: string, tags: Record<string, string>): Promise<void> {
  const TagSpecifications = [{ ResourceType: "snapshot" as const, Tags: tagsOf(tags) }];
  await ec2.send(new CreateSnapshotCommand({ VolumeId: volume(of), TagSpecifications }));
}

function tagsOf(tags: Record<string, string>): { Key: string; Value: string }[] {
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
}

function volume(name: string): string {
  return ids.get(name) ?? "";
}

const machine = volume;

// --- what is seen

async function muster(...args: string[]): Promise<{ code: number | null; report: object; log: string }> {
  const child = spawn(process.execPath, [main, "inventory", "run", "--once", "-o", "json", ...args], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      DATABASE_URL: database.url,
      AWS_ENDPOINT_URL: moto.url,
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      KUBECONFIG: join(folder, "kubeconfig"),
    },
  });
  let stdout = "";
  let log = "";
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    log += chunk;
  });
  const code = await new Promise<number | null>((done) => {
    child.once("close", done);
  });
  return { code, report: stdout === "" ? {} : (JSON.parse(stdout) as object), log };
}

async function rows(sql: string): Promise<object[]> {
  return (await database.pool.query(sql)).rows as object[];
}

function disks(): Promise<object[]> {
  return rows(
    `select user_id as user, disk_name as name, ebs_volume_id as volume, size_gb as size, in_use as used,
       snapshot_count as snapshots from disks order by user_id, disk_name`,
  );
}

/** Changes with every write of a row, whatever it writes. */
function versions(): Promise<object[]> {
  return rows("select disk_name, xmin::text from disks order by disk_name");
}

function typeRow(
  gpuType: string,
  { running, total, available, most, whole }: Record<"running" | "total" | "available" | "most" | "whole", number>,
): object {
  return {
    gpu_type: gpuType,
    running_instances: running,
    desired_capacity: running,
    total_cluster_gpus: total,
    available_gpus: available,
    max_reservable: most,
    full_nodes_available: whole,
    availability_state: "fresh",
  };
}
