import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eksToken, presignedIdentity } from "../../src/adapters/aws/eksToken.ts";
import type { FailKind } from "../../src/standin/faults.ts";
import { allGroups, allSnapshots, allVolumes, CloudForTests } from "./cloudForTests.ts";

const world = new CloudForTests();
const { cloud } = world;
beforeAll(() => world.start());
afterAll(() => world.stop());

const mine = { "gpu-dev-user": "ada", disk_name: "d" };

beforeEach(() => {
  cloud.setFaults({});
  cloud.volumes.clear();
  cloud.snapshots.clear();
  cloud.groups.clear();
  cloud.modifications.clear();
  cloud.calls.clear();
  for (let n = 1; n <= 23; n++) {
    cloud.createVolume({ id: `vol-${n}`, sizeGb: n, tags: mine });
    cloud.putSnapshot({ id: `snap-${n}`, volumeId: `vol-${n}`, tags: mine });
  }
  for (let n = 1; n <= 120; n++) {
    const instances = [{ id: `i-${n}`, type: "p5", lifecycleState: "InService", healthStatus: "Healthy" }];
    cloud.groups.set(`g${n}`, { name: `g${n}`, desiredCapacity: 1, instances, tags: { GpuType: "h100" } });
  }
});

describe("the SDK reads from the stand-in", () => {
  test("a volume with everything that is used of it", async () => {
    cloud.createVolume({
      id: "vol-x",
      sizeGb: 1024,
      createdMs: 1_700_000_000_123,
      snapshotId: "snap-1",
      tags: { ...mine, Name: "a <b> & 'c'", empty: "" },
    });
    cloud.attach("vol-x", "i-9", "attaching");
    const read = await allVolumes(world.aws(), { type: "ids", ids: ["vol-x", "vol-gone"] });
    expect(read).toEqual({
      ok: true,
      value: [
        {
          id: "vol-x",
          sizeGb: 1024,
          state: "in-use",
          createdMs: 1_700_000_000_123,
          snapshotId: "snap-1",
          attachments: [{ instanceId: "i-9", state: "attaching" }],
          tags: { ...mine, Name: "a <b> & 'c'", empty: "" },
        },
      ],
    });
  });

  test("all pages of volumes, snapshots and groups, in any order", async () => {
    cloud.setFaults({ shuffle: true });
    const aws = world.aws({ volumePage: 5, snapshotPage: 10 });
    const volumes = await allVolumes(aws);
    expect(volumes.ok && volumes.value.map(({ sizeGb }) => sizeGb).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 23 }, (_, at) => at + 1),
    );
    const snapshots = await allSnapshots(aws);
    expect(snapshots.ok && snapshots.value.length).toBe(23);
    const groups = await allGroups(aws);
    expect(groups.ok && groups.value.length).toBe(120);
    expect(Object.fromEntries(cloud.calls)).toEqual({
      DescribeVolumes: 5,
      DescribeSnapshots: 3,
      DescribeAutoScalingGroups: 2,
    });
    expect(aws.usage()).toEqual({ calls: Object.fromEntries(cloud.calls), retries: 0, throttles: 0 });
  });

  test("snapshots by the day they were begun, pending ones, and those of volumes or users", async () => {
    cloud.putSnapshot({ id: "snap-new", volumeId: "vol-1", startedMs: Date.parse("2026-11-15T10:00:00Z"), tags: mine });
    cloud.putSnapshot({
      id: "snap-old",
      volumeId: "vol-2",
      startedMs: Date.parse("2026-10-01T10:00:00Z"),
      state: "pending",
      tags: { "gpu-dev-user": "eve" },
    });
    const aws = world.aws();
    const ids = async (which: Parameters<typeof allSnapshots>[1]) => {
      const read = await allSnapshots(aws, which);
      return read.ok ? read.value.map(({ id }) => id).sort() : read.why;
    };
    expect(await ids({ type: "startedOn", prefixes: ["2026-11-15*", "2020-01-01*"] })).toContain("snap-new");
    expect(await ids({ type: "pending" })).toEqual(["snap-old"]);
    expect(await ids({ type: "volumes", ids: ["vol-2"] })).toEqual(["snap-2", "snap-old"]);
    expect(await ids({ type: "users", users: ["eve"] })).toEqual(["snap-old"]);
  });

  test("more ids than a filter takes, in several calls", async () => {
    const ids = Array.from({ length: 450 }, (_, at) => `vol-${at + 1}`);
    const read = await allVolumes(world.aws(), { type: "ids", ids });
    expect(read.ok && read.value.length).toBe(23);
    expect(cloud.calls.get("DescribeVolumes")).toBe(3);
  });

  test("modifications, the caller's identity, and a cluster", async () => {
    cloud.modifications.set("vol-1", { volumeId: "vol-1", state: "optimizing", targetSizeGb: 200 });
    cloud.clusters.set("dev/1", {
      name: "dev/1",
      endpoint: "https://cluster",
      certificateAuthority: Buffer.from("PEM").toString("base64"),
    });
    const aws = world.aws();
    expect(await aws.modifications(["vol-1", "vol-2"])).toEqual({
      ok: true,
      value: [{ volumeId: "vol-1", state: "optimizing", targetSizeGb: 200 }],
    });
    expect(await aws.identity()).toEqual({ ok: true, value: { account: "123456789012", region: "us-east-2" } });
    const connection = await aws.cluster("dev/1");
    expect(connection).toMatchObject({ server: "https://cluster", authority: "PEM" });
    const { authorization = "" } = await connection.credentials({ refused: false });
    const url = Buffer.from(authorization.replace("Bearer k8s-aws-v1.", ""), "base64url").toString();
    const answer = await fetch(url, { headers: { "x-k8s-aws-id": "dev/1" } });
    expect(await answer.text()).toContain("<Account>123456789012</Account>");
    await expect(aws.cluster("nowhere")).rejects.toMatchObject({ code: "cluster-unreachable" });
  });
});

describe("a cloud that misbehaves", () => {
  test.each<{ fact: string; how: FailKind; reason: string }>([
    { fact: "throttles for good", how: "throttle", reason: "Throttled" },
    { fact: "fails inside for good", how: "internal", reason: "Unavailable" },
    { fact: "is unavailable", how: "unavailable", reason: "Unavailable" },
    { fact: "refuses us", how: "denied", reason: "Denied" },
    { fact: "finds our credentials expired", how: "expiredCredentials", reason: "Expired" },
    { fact: "answers half a page", how: "truncated", reason: "Malformed" },
    { fact: "answers something else altogether", how: "unrelated", reason: "Malformed" },
    { fact: "hangs up", how: "hangUp", reason: "Unavailable" },
  ])("$fact: the read fails, and says so", async ({ how, reason }) => {
    cloud.setFaults({ fail: [{ how }] });
    const aws = world.aws();
    for (const read of [await allVolumes(aws), await allSnapshots(aws), await allGroups(aws), await aws.identity()]) {
      expect(read).toMatchObject({ ok: false, reason });
    }
  });

  test("fails on the third page: the list has failed, it is not shorter", async () => {
    cloud.setFaults({ fail: [{ operation: "DescribeVolumes", call: 3, how: "denied" }] });
    expect(await allVolumes(world.aws({ volumePage: 5 }))).toMatchObject({ ok: false, reason: "Denied" });
  });

  test("forgets a token on the way: the list has failed", async () => {
    cloud.setFaults({ fail: [{ operation: "DescribeVolumes", call: 2, how: "expiredToken" }] });
    expect(await allVolumes(world.aws({ volumePage: 5 }))).toMatchObject({ ok: false, reason: "Expired" });
  });

  test.each<FailKind>(["throttle", "internal", "unavailable", "truncated", "unrelated", "hangUp"])(
    "recovers after two answers of %s: the same page is asked for again, and every retry is seen",
    async (how) => {
      cloud.setFaults({ fail: [{ operation: "DescribeVolumes", call: 2, times: 2, how }] });
      const aws = world.aws({ volumePage: 10 });
      const read = await allVolumes(aws);
      expect(read.ok && new Set(read.value.map(({ id }) => id)).size).toBe(23);
      expect(aws.usage()).toMatchObject({ retries: 2, throttles: how === "throttle" ? 2 : 0 });
    },
  );

  test("sends empty pages with a token, and repeats items: nothing is missing", async () => {
    cloud.setFaults({ emptyPageEvery: 2, repeatItems: true });
    const read = await allVolumes(world.aws({ volumePage: 5 }));
    expect(read.ok && new Set(read.value.map(({ id }) => id)).size).toBe(23);
  });

  test("is asked no faster than its bucket allows", async () => {
    cloud.setFaults({ bucket: { size: 100, perSecond: 20 } });
    for (let n = 0; n < 1500; n++) cloud.createVolume({ id: `more-${n}`, tags: mine });
    const aws = world.aws({ volumePage: 5 });
    const read = await allVolumes(aws);
    expect(read.ok && read.value.length).toBe(1523);
    expect(aws.usage().throttles).toBe(0);
  });

  test("shows deleted volumes for a while, and new ones late", async () => {
    cloud.setFaults({ staleMs: 5_000 });
    world.clock.pass(10_000);
    cloud.deleteVolume("vol-1");
    cloud.createVolume({ id: "vol-new", tags: mine });
    const ids = async () => {
      const read = await allVolumes(world.aws());
      return read.ok ? read.value.map(({ id }) => id) : [];
    };
    expect(await ids()).toContain("vol-1");
    expect(await ids()).not.toContain("vol-new");
    world.clock.pass(6_000);
    expect(await ids()).not.toContain("vol-1");
    expect(await ids()).toContain("vol-new");
  });
});

test("none of the calls made could have changed the cloud", () => {
  expect(cloud.mutations).toEqual([]);
});

test("a token for a cluster is a signed question that names it, and lasts a minute", () => {
  const input = {
    cluster: "dev",
    region: "us-east-2",
    credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" },
    nowMs: Date.parse("2026-11-15T12:00:00Z"),
  };
  const url = new URL(presignedIdentity(input));
  expect(url.host).toBe("sts.us-east-2.amazonaws.com");
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    Action: "GetCallerIdentity",
    "X-Amz-Date": "20261115T120000Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
  });
  expect(url.searchParams.get("X-Amz-Signature")).toMatch(/^[0-9a-f]{64}$/);
  expect(eksToken(input)).toMatch(/^k8s-aws-v1\.[A-Za-z0-9_-]+$/);
});

test("the token is signed as AWS's own signer signs it", () => {
  const credentials = {
    accessKeyId: "AKIDEXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    sessionToken: "tok/en+==",
  };
  const nowMs = Date.parse("2026-11-15T12:00:00Z");
  const url = new URL(presignedIdentity({ cluster: "dev", region: "us-east-2", credentials, nowMs }));
  const signature = "b4d1c2b3d25d9bfc5ed948d2bd281a1df128211579fc53420a1b9e4e8fdc3501";
  expect(url.searchParams.get("X-Amz-Signature")).toBe(signature);
});
