import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { allGroups, allSnapshots, allVolumes, CloudForTests } from "./cloudForTests.ts";

const world = new CloudForTests();
const { cloud } = world;
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => {
  cloud.volumes.clear();
  cloud.createVolume({ id: "vol-1", tags: { "gpu-dev-user": "ada", disk_name: "d" } });
  cloud.clusters.set("dev", { name: "dev", endpoint: "https://cluster", certificateAuthority: "" });
});
afterEach(() => cloud.setFaults({}));

describe.each([
  { fact: "behind the cloud's", clockSkewMs: 20 * 60_000 },
  { fact: "ahead of the cloud's", clockSkewMs: -20 * 60_000 },
])("a clock that is $fact", ({ clockSkewMs }) => {
  test("is corrected from the first refusal, for every service, and each retry is counted", async () => {
    cloud.setFaults({ clockSkewMs });
    const aws = world.aws();
    expect(await aws.identity()).toMatchObject({ ok: true });
    expect(await allVolumes(aws)).toMatchObject({ ok: true, value: [{ id: "vol-1" }] });
    expect(await allSnapshots(aws)).toMatchObject({ ok: true });
    expect(await allGroups(aws)).toMatchObject({ ok: true });
    const { credentials } = await aws.cluster("dev");
    // One for each client: STS, EC2, Auto Scaling, EKS.
    expect(aws.usage().retries).toBe(4);
    const { authorization = "" } = await credentials({ refused: false });
    const url = Buffer.from(authorization.replace("Bearer k8s-aws-v1.", ""), "base64url").toString();
    const answer = await fetch(url, { headers: { "x-k8s-aws-id": "dev" } });
    expect(answer.status).toBe(200);
  });
});

test("a refusal that correcting the clock does not cure is reported once, with the clock difference", async () => {
  cloud.setFaults({ clockSkewMs: 20 * 60_000, fail: [{ how: "notSigned" }] });
  const read = await allVolumes(world.aws());
  expect(read).toMatchObject({ ok: false, reason: "Denied" });
  expect(read).toMatchObject({ why: expect.stringContaining("this machine's clock is 20 minutes behind the cloud's") });
  expect(read).toMatchObject({ why: expect.stringContaining("(attempt 2)") });
});

test("a refusal with the right time is not asked again, and does not mention clocks", async () => {
  cloud.setFaults({ fail: [{ how: "notSigned" }] });
  const read = await allVolumes(world.aws());
  expect(read).toMatchObject({ ok: false, reason: "Denied", why: expect.not.stringContaining("clock") });
  expect(read).toMatchObject({ why: expect.stringContaining("(attempt 1)") });
});
