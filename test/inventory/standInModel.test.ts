import { AutoScalingClient, DescribeAutoScalingGroupsCommand } from "@aws-sdk/client-auto-scaling";
import {
  DescribeAvailabilityZonesCommand,
  DescribeInstancesCommand,
  DescribeSnapshotsCommand,
  DescribeVolumesCommand,
  DescribeVolumesModificationsCommand,
  EC2Client,
  type Filter,
} from "@aws-sdk/client-ec2";
import { EKSClient, ListClustersCommand } from "@aws-sdk/client-eks";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CloudForTests } from "./cloudForTests.ts";

/**
 * The stand-in answers filters, owners, ids and limits as AWS's service model says, also where the inventory asks for
 * none.
 */
const world = new CloudForTests();
const { cloud } = world;
let ec2: EC2Client;
let autoScaling: AutoScalingClient;
let eks: EKSClient;

const one = "vol-00000000000000001";
const two = "vol-00000000000000002";
const gone = "vol-0000000000000000f";

beforeAll(async () => {
  await world.start();
  const config = {
    region: "us-east-2",
    endpoint: world.url,
    credentials: { accessKeyId: "a", secretAccessKey: "b" },
    maxAttempts: 1,
  };
  ec2 = new EC2Client(config);
  autoScaling = new AutoScalingClient(config);
  eks = new EKSClient(config);
});
afterAll(async () => {
  for (const client of [ec2, autoScaling, eks]) client.destroy();
  await world.stop();
});

beforeEach(() => {
  for (const held of [cloud.volumes, cloud.snapshots, cloud.groups, cloud.modifications, cloud.clusters]) held.clear();
  cloud.createVolume({ id: one, sizeGb: 10, createdMs: Date.parse("2026-01-02T03:04:05Z"), tags: { team: "a" } });
  cloud.createVolume({ id: two, sizeGb: 20, zone: "us-east-2b", tags: { team: "b" } });
  cloud.attach(one, "i-00000000000000001");
  cloud.putSnapshot({ id: "snap-00000000000000001", volumeId: one });
  cloud.putSnapshot({ id: "snap-00000000000000002", volumeId: two, state: "pending" });
  cloud.modifications.set(one, { volumeId: one, state: "optimizing", targetSizeGb: 10 });
  for (let n = 1; n <= 60; n++) {
    const id = `i-${String(n).padStart(17, "0")}`;
    const type = n % 2 === 0 ? "p5.48xlarge" : "g5.12xlarge";
    const instances = [{ id, type, lifecycleState: "InService", healthStatus: "Healthy" }];
    cloud.groups.set(`g${n}`, { name: `g${n}`, desiredCapacity: 1, instances, tags: { GpuType: `t${n % 3}` } });
  }
});

const volumes = async (filters: Filter[], more: object = {}): Promise<(string | undefined)[]> =>
  ((await ec2.send(new DescribeVolumesCommand({ Filters: filters, ...more }))).Volumes ?? []).map(
    ({ VolumeId }) => VolumeId,
  );
const snapshots = async (filters: Filter[], more: object = {}): Promise<number> =>
  (await ec2.send(new DescribeSnapshotsCommand({ Filters: filters, ...more }))).Snapshots?.length ?? 0;
const f = (Name: string, ...Values: string[]): Filter => ({ Name, Values });

describe("DescribeVolumes", () => {
  test("applies filters to the volumes that are asked for by id", async () => {
    expect(await volumes([f("tag:team", "b")], { VolumeIds: [one, two] })).toEqual([two]);
    expect(await volumes([f("tag:team", "b")], { VolumeIds: [one] })).toEqual([]);
  });

  test.each([
    { filter: f("attachment.device", "/dev/sdf"), found: [one] },
    { filter: f("attachment.attach-time", "2026-01-02T*"), found: [one] },
    { filter: f("attachment.delete-on-termination", "false"), found: [one] },
    { filter: f("attachment.delete-on-termination", "true"), found: [] },
    { filter: f("encrypted", "true"), found: [one, two] },
    { filter: f("encrypted", "false"), found: [] },
    { filter: f("volume-type", "gp3"), found: [one, two] },
    { filter: f("volume-type", "io2", "st1"), found: [] },
    { filter: f("multi-attach-enabled", "false"), found: [one, two] },
    { filter: f("fast-restored", "true"), found: [] },
    { filter: f("availability-zone-id", "use2-az2"), found: [two] },
    { filter: f("operator.managed", "false"), found: [one, two] },
    { filter: f("operator.principal", "x"), found: [] },
  ])("knows the filter $filter.Name = $filter.Values", async ({ filter, found }) => {
    expect((await volumes([filter])).sort()).toEqual(found);
  });

  test.each([
    { fact: "an unknown filter", input: { Filters: [f("colour", "red")] }, code: "InvalidParameterValue" },
    { fact: "an id that does not exist", input: { VolumeIds: [one, gone] }, code: "InvalidVolume.NotFound" },
    { fact: "an id that is none", input: { VolumeIds: ["disk-7"] }, code: "InvalidVolumeID.Malformed" },
    { fact: "a page that is too small", input: { MaxResults: 4 }, code: "InvalidParameterValue" },
    {
      fact: "ids with a page size",
      input: { VolumeIds: [one], MaxResults: 5 },
      code: "InvalidParameterCombination",
    },
    { fact: "a dry run", input: { DryRun: true }, code: "DryRunOperation" },
  ])("refuses $fact: $code", async ({ input, code }) => {
    await expect(ec2.send(new DescribeVolumesCommand(input))).rejects.toMatchObject({ name: code });
  });

  test("answers a page that is too large with the largest", async () => {
    for (let n = 0; n < 1200; n++) cloud.createVolume({ id: `vol-${n.toString(16).padStart(8, "0")}` });
    const page = await ec2.send(new DescribeVolumesCommand({ MaxResults: 5000 }));
    expect(page.Volumes?.length).toBe(1000);
    expect(page.NextToken).toBeDefined();
  });
});

describe("DescribeSnapshots", () => {
  test.each([
    { owners: [], count: 2 },
    { owners: ["self"], count: 2 },
    { owners: ["self", "amazon"], count: 2 },
    { owners: ["amazon", "123456789012"], count: 2 },
    { owners: ["amazon"], count: 0 },
    { owners: ["210987654321"], count: 0 },
  ])("of the owners $owners: $count", async ({ owners, count }) => {
    expect(await snapshots([], { OwnerIds: owners })).toBe(count);
  });

  test.each([
    { filter: f("progress", "100%"), count: 1 },
    { filter: f("encrypted", "true"), count: 2 },
    { filter: f("storage-tier", "standard"), count: 2 },
    { filter: f("storage-tier", "archive"), count: 0 },
    { filter: f("owner-alias", "amazon"), count: 0 },
    { filter: f("transfer-type", "time-based"), count: 0 },
    { filter: f("owner-id", "123456789012"), count: 2 },
  ])("knows the filter $filter.Name = $filter.Values", async ({ filter, count }) => {
    expect(await snapshots([filter])).toBe(count);
  });

  test("says whether each is encrypted", async () => {
    const { Snapshots = [] } = await ec2.send(new DescribeSnapshotsCommand({}));
    expect(Snapshots.map(({ Encrypted }) => Encrypted)).toEqual([true, true]);
  });

  test.each([
    { ids: ["snap-0000000000000000f"], code: "InvalidSnapshot.NotFound" },
    { ids: ["snapshot"], code: "InvalidSnapshotID.Malformed" },
  ])("refuses $ids: $code", async ({ ids, code }) => {
    const asked = ec2.send(new DescribeSnapshotsCommand({ SnapshotIds: ids }));
    await expect(asked).rejects.toMatchObject({ name: code });
  });
});

describe("DescribeVolumesModifications", () => {
  test("by the size that is wanted", async () => {
    const of = async (size: string) =>
      (await ec2.send(new DescribeVolumesModificationsCommand({ Filters: [f("target-size", size)] })))
        .VolumesModifications?.length;
    expect([await of("10"), await of("11")]).toEqual([1, 0]);
  });

  // moto answers with an empty list here. AWS refuses; the filter `volume-id`, which the inventory uses, does not.
  test("refuses a volume that was never modified by its id, and finds nothing for it by filter", async () => {
    await expect(ec2.send(new DescribeVolumesModificationsCommand({ VolumeIds: [two] }))).rejects.toMatchObject({
      name: "InvalidVolumeModification.NotFound",
    });
    await expect(ec2.send(new DescribeVolumesModificationsCommand({ VolumeIds: [gone] }))).rejects.toMatchObject({
      name: "InvalidVolume.NotFound",
    });
    const byFilter = await ec2.send(new DescribeVolumesModificationsCommand({ Filters: [f("volume-id", two)] }));
    expect(byFilter.VolumesModifications).toEqual([]);
  });
});

describe("DescribeInstances", () => {
  const first = "i-00000000000000001";
  const found = async (input: object): Promise<string[]> => {
    const { Reservations = [] } = await ec2.send(new DescribeInstancesCommand(input));
    return Reservations.flatMap(({ Instances = [] }) => Instances.map(({ InstanceId = "" }) => InstanceId));
  };

  test("by filters, by ids, and by both", async () => {
    expect((await found({ Filters: [f("instance-type", "p5*")] })).length).toBe(30);
    expect((await found({ Filters: [f("tag:GpuType", "t1")] })).length).toBe(20);
    expect(await found({ Filters: [f("instance-state-name", "stopped")] })).toEqual([]);
    expect(await found({ InstanceIds: [first] })).toEqual([first]);
    expect(await found({ InstanceIds: [first], Filters: [f("instance-type", "p5*")] })).toEqual([]);
  });

  test("in pages", async () => {
    const page = await ec2.send(new DescribeInstancesCommand({ MaxResults: 25 }));
    expect(page.Reservations?.length).toBe(25);
    expect(page.NextToken).toBeDefined();
  });

  test.each([
    { input: { InstanceIds: ["i-0000000000000000f"] }, code: "InvalidInstanceID.NotFound" },
    { input: { InstanceIds: ["machine"] }, code: "InvalidInstanceID.Malformed" },
    { input: { InstanceIds: [first], MaxResults: 5 }, code: "InvalidParameterCombination" },
    { input: { Filters: [f("colour", "red")] }, code: "InvalidParameterValue" },
  ])("refuses $input: $code", async ({ input, code }) => {
    await expect(found(input)).rejects.toMatchObject({ name: code });
  });
});

describe("DescribeAvailabilityZones", () => {
  test("all, by name, by id and by filter, each with its id", async () => {
    const of = async (input: object) =>
      (await ec2.send(new DescribeAvailabilityZonesCommand(input))).AvailabilityZones?.map(({ ZoneId }) => ZoneId);
    expect(await of({})).toEqual(["use2-az1", "use2-az2", "use2-az3"]);
    expect(await of({ ZoneNames: ["us-east-2b"] })).toEqual(["use2-az2"]);
    expect(await of({ ZoneIds: ["use2-az3"] })).toEqual(["use2-az3"]);
    expect(await of({ Filters: [f("zone-name", "*a")] })).toEqual(["use2-az1"]);
    await expect(of({ ZoneNames: ["mars-1a"] })).rejects.toMatchObject({ name: "InvalidParameterValue" });
  });
});

describe("DescribeAutoScalingGroups", () => {
  const found = async (input: object) =>
    (await autoScaling.send(new DescribeAutoScalingGroupsCommand(input))).AutoScalingGroups ?? [];
  const names = (count: number): string[] => Array.from({ length: count }, (_, at) => `g${at + 1}`);

  test("without instances where they are not wanted", async () => {
    const [with1] = await found({ AutoScalingGroupNames: ["g1"] });
    const [without] = await found({ AutoScalingGroupNames: ["g1"], IncludeInstances: false });
    expect([with1?.Instances?.length, without?.Instances?.length]).toEqual([1, 0]);
    expect(without?.DesiredCapacity).toBe(1);
  });

  test("by more than fifty names where the page is larger, and not where it is not", async () => {
    expect((await found({ AutoScalingGroupNames: names(60), MaxRecords: 100 })).length).toBe(60);
    await expect(found({ AutoScalingGroupNames: names(60) })).rejects.toMatchObject({ name: "ValidationError" });
    await expect(found({ AutoScalingGroupNames: names(101), MaxRecords: 100 })).rejects.toMatchObject({
      name: "ValidationError",
    });
  });

  test("answers a page that is too large with the largest, and refuses one of nothing", async () => {
    for (let n = 61; n <= 130; n++) {
      cloud.groups.set(`g${n}`, { name: `g${n}`, desiredCapacity: 0, instances: [], tags: {} });
    }
    expect((await found({ MaxRecords: 500 })).length).toBe(100);
    await expect(found({ MaxRecords: 0 })).rejects.toMatchObject({ name: "ValidationError" });
  });

  test("refuses an unknown filter in its own words", async () => {
    await expect(found({ Filters: [f("colour", "red")] })).rejects.toMatchObject({ name: "ValidationError" });
  });
});

test("EKS lists its clusters, in pages", async () => {
  for (const name of ["b", "a", "c"])
    cloud.clusters.set(name, { name, endpoint: "https://x", certificateAuthority: "" });
  const first = await eks.send(new ListClustersCommand({ maxResults: 2 }));
  expect(first.clusters).toEqual(["a", "b"]);
  const second = await eks.send(new ListClustersCommand({ maxResults: 2, nextToken: first.nextToken }));
  expect(second).toMatchObject({ clusters: ["c"] });
  expect(second.nextToken).toBeUndefined();
  await expect(eks.send(new ListClustersCommand({ maxResults: 0 }))).rejects.toMatchObject({
    name: "InvalidParameterException",
  });
});
