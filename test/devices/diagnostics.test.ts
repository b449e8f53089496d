/** Diagnostics of allocations: debug log lines, a summary of the take-over, metrics. */
import { describe, expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KeptLog } from "../../testing/control/keptLog.ts";
import { DevicesCluster } from "./devicesCluster.ts";

const lines = (log: KeptLog, message: string) => log.lines.filter((line) => line.message === message);
const fieldsOf = (log: KeptLog, message: string) => lines(log, message).map(({ fields }) => fields);

async function podsWithClaims(cluster: DevicesCluster, count: number): Promise<void> {
  await cluster.template("one");
  for (let at = 0; at < count; at++) await cluster.pod(`p-${at}`, { template: "one" });
  await cluster.run(10);
}

describe("log lines", () => {
  test("every allocation has one line at debug that names claim, device, node, revision and source", async () => {
    const cluster = await DevicesCluster.start();
    await podsWithClaims(cluster, 8);
    const allocated = fieldsOf(cluster.log, "device allocated");
    expect(allocated).toHaveLength(8);
    expect(new Set(allocated.map(({ device }) => device)).size).toBe(8);
    for (const claim of cluster.claims()) {
      const [result] = claim.status?.allocation?.devices?.results ?? [];
      const line = allocated.find(({ uid }) => uid === claim.metadata.uid);
      expect(line).toMatchObject({
        claim: `default/${claim.metadata.name}`,
        device: `${result?.driver}/${result?.pool}/${result?.device}`,
        node: "h100-0",
        source: "scheduler",
      });
      expect(line?.["revision"]).toBeGreaterThan(0);
    }
    expect(lines(cluster.log, "device allocated").every(({ level }) => level === "debug")).toBe(true);
  });

  test("a decision is in flight before it is allocated, and is removed from in flight afterwards", async () => {
    const cluster = await DevicesCluster.start();
    await podsWithClaims(cluster, 1);
    const ours = cluster.log.lines.map(({ message }) => message).filter((message) => message.startsWith("device "));
    expect(ours).toEqual(["device in flight", "device allocated", "device removed from in flight"]);
    const revisions = cluster.log.lines
      .filter(({ message }) => message.startsWith("device "))
      .map(({ fields }) => fields["revision"] as number);
    expect(revisions).toEqual([...revisions].sort((a, b) => a - b));
  });

  test("every release has one line, from the component that deallocated the device", async () => {
    const cluster = await DevicesCluster.start();
    await podsWithClaims(cluster, 8);
    for (let at = 0; at < 8; at++) await cluster.api.delete("/pods", `default/p-${at}`);
    await cluster.run(60);
    const released = fieldsOf(cluster.log, "device released");
    expect(released).toHaveLength(8);
    expect(new Set(released.map(({ device }) => device)).size).toBe(8);
    expect(new Set(released.map(({ source }) => source))).toEqual(new Set(["claim-controller"]));
    expect(released[0]).toMatchObject({ node: "h100-0" });
  });

  test("an allocation that another program wrote is observed by the watch", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.claim("theirs");
    await allocateByHand(cluster, "theirs", "gpu-3");
    await cluster.run(1);
    expect(fieldsOf(cluster.log, "device allocated")).toMatchObject([
      { claim: "default/theirs", device: "gpu.nvidia.com/h100-0/gpu-3", source: "watch" },
    ]);
  });

  test("two claims with one device are a warning that names both", async () => {
    const cluster = await DevicesCluster.start();
    for (const name of ["a", "b"]) {
      await cluster.claim(name);
      await allocateByHand(cluster, name, "gpu-3");
    }
    await cluster.run(1);
    const found = lines(cluster.log, "one device is allocated to two claims");
    expect(found).toMatchObject([
      { level: "warn", fields: { claim: "default/b", other: "default/a", device: "gpu.nvidia.com/h100-0/gpu-3" } },
    ]);
  });

  test("a take-over says at info how many claims, allocations and devices it found, before it decides anything", async () => {
    const first = await DevicesCluster.start();
    await podsWithClaims(first, 3);
    await first.stop();
    const second = await DevicesCluster.on(first.api);
    await second.claim("more");
    await second.pod("more", { claim: "more" });
    await second.run(5);
    expect(lines(second.log, "took over devices")).toMatchObject([
      {
        level: "info",
        fields: { component: "scheduler", claims: 3, allocated: 3, inFlight: 0, devices: 3, voided: 0 },
      },
    ]);
    const messages = second.log.lines.map(({ message }) => message);
    expect(messages.indexOf("took over devices")).toBeLessThan(messages.indexOf("device in flight"));
  });
});

describe("metrics", () => {
  test("gauges show claims in flight, assumed and allocated; counters allocations and releases", async () => {
    const cluster = await DevicesCluster.start();
    const gauges = () =>
      ["in_flight", "assumed", "allocated"].map((state) => cluster.metrics.value(`muster_devices_claims_${state}`));
    expect(cluster.metrics.render()).toContain("muster_devices_claims_in_flight 0");
    await podsWithClaims(cluster, 5);
    expect(gauges()).toEqual([0, 0, 5]);
    expect(cluster.metrics.value("muster_devices_allocations_total", { source: "scheduler" })).toBe(5);
    for (let at = 0; at < 5; at++) await cluster.api.delete("/pods", `default/p-${at}`);
    await cluster.run(60);
    expect(gauges()).toEqual([0, 0, 0]);
    expect(cluster.metrics.value("muster_devices_releases_total", { source: "claim-controller" })).toBe(5);
  });

  test("claims_assumed falls to 0 when the watch delivers each write before its answer", async () => {
    const cluster = await DevicesCluster.start();
    cluster.kube.faults.late = (_, what) =>
      what.startsWith("resourceclaims ")
        ? new Promise((resolve) => cluster.api.clock.after(500, () => resolve()))
        : undefined;
    await cluster.template("no-class", {
      devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "no" } }] },
    });
    for (let at = 0; at < 4; at++) await cluster.pod(`waits-${at}`, { template: "no-class" });
    await podsWithClaims(cluster, 4);
    const gauge = (state: string) => cluster.metrics.value(`muster_devices_claims_${state}`);
    expect(cluster.claims()).toHaveLength(8);
    expect({ allocated: gauge("allocated"), assumed: gauge("assumed") }).toEqual({ allocated: 4, assumed: 0 });
  });

  test("a search is timed, and one without a result is a refusal with its reason", async () => {
    const cluster = await DevicesCluster.start();
    await podsWithClaims(cluster, 9);
    const text = cluster.metrics.render();
    expect(text).toContain('muster_devices_search_seconds_count{scheduler="default-scheduler"}');
    expect(
      cluster.metrics.value("muster_devices_refusals_total", { scheduler: "default-scheduler", reason: "NoDevices" }),
    ).toBeGreaterThan(0);
  });

  test("pods that wait for the same reason count once each, however often they are tried", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.template("no-class", {
      devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "no" } }] },
    });
    for (let at = 0; at < 8; at++) await cluster.pod(`waits-${at}`, { template: "no-class" });
    const refusals = (reason: string) =>
      cluster.metrics.value("muster_devices_refusals_total", { scheduler: "default-scheduler", reason }) ?? 0;
    await cluster.run(20);
    expect(refusals("BadRequest")).toBe(8);
    // Each of these is a reason to try all of them again.
    for (let at = 0; at < 10; at++) {
      await cluster.claim(`other-${at}`);
      await cluster.pod(`other-${at}`, { claim: `other-${at}` });
      await cluster.run(5);
    }
    expect(cluster.metrics.value("muster_devices_claims_allocated")).toBe(8);
    expect({ badRequest: refusals("BadRequest"), noDevices: refusals("NoDevices") }).toEqual({
      badRequest: 8,
      noDevices: 2,
    });
  });

  test("a node without devices is no refusal where the pod gets them on another", async () => {
    const cluster = await DevicesCluster.start({ pools: ["h100=2"] });
    await podsWithClaims(cluster, 16);
    expect(cluster.metrics.value("muster_devices_claims_allocated")).toBe(16);
    expect(cluster.metrics.render()).not.toMatch(/muster_devices_refusals_total\{.*reason="NoDevices"/);
  });

  test("a claim that is missing is a refusal of its own", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.pod("p", { claim: "none" });
    await cluster.run(20);
    expect(
      cluster.metrics.value("muster_devices_refusals_total", { scheduler: "default-scheduler", reason: "NotReady" }),
    ).toBeGreaterThan(0);
  });
});

async function allocateByHand(cluster: DevicesCluster, name: string, device: string): Promise<void> {
  const key = { ...builtin.ResourceClaim, namespace: "default", name };
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: "h100-0", device }];
  const written = await cluster.kube.patch(
    { ...key, subresource: "status" },
    { type: "merge", body: { status: { allocation: { devices: { results } } } } },
  );
  if (!written.ok) throw new Error(written.message);
}
