import { describe, expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

interface Event {
  readonly involvedObject: { readonly kind: string; readonly name: string };
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

async function strike(cluster: ScheduleCluster, faults: readonly object[]): Promise<void> {
  const target = { ...builtin.Node, namespace: "", name: "h100-0" };
  const body = { metadata: { annotations: { "sim.muster.dev/faults": JSON.stringify(faults) } } };
  const outcome = await cluster.admin.patch(target, { type: "merge", body });
  if (!outcome.ok) throw new Error(outcome.message);
}

function reportedOn(cluster: ScheduleCluster): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const { involvedObject, type, reason, message } of cluster.all<Event>("/events")) {
    if (reason !== "DeviceUnhealthy") continue;
    found[`${involvedObject.kind} ${involvedObject.name}`] ??= [];
    found[`${involvedObject.kind} ${involvedObject.name}`]?.push(`${type} ${message}`);
  }
  return found;
}

const device = (at: number): object => ({ kind: "gpu-unhealthy", device: at });

describe("a GPU that fails under running pods", () => {
  test("is reported once on the pod that has it, and on no other", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("struck", { gpus: 4 });
    await cluster.run(5);
    await cluster.pod("spared", { gpus: 4 });
    await cluster.run(5);
    await strike(cluster, [device(0)]);
    await cluster.run(10);
    expect(reportedOn(cluster)).toEqual({});
    await cluster.run(60);
    const message = expect.stringMatching(
      /^Warning nvidia\.com\/gpu GPU-\S+ \(GPU 0 reported XID 79\) is unhealthy on h100-0; delete the pod/,
    );
    expect(reportedOn(cluster)).toEqual({ "Pod struck": [message] });
    expect(cluster.pod1("struck").status?.phase).toBe("Running");
  });

  test("and a second one is reported with the first", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("struck", { gpus: 8 });
    await cluster.run(5);
    await strike(cluster, [device(0)]);
    await cluster.run(30);
    await strike(cluster, [device(0), { ...device(5), cause: "ecc" }]);
    await cluster.run(30);
    expect(reportedOn(cluster)["Pod struck"]?.at(-1)).toMatch(/XID 79\), .*memory error\) are unhealthy on h100-0/);
  });

  test("is reported on the pods that share it", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    for (const name of ["half-0", "half-1"]) await cluster.pod(name, { annotations: { "gpu-fraction": "0.5" } });
    await cluster.run(20);
    await strike(cluster, [device(0)]);
    await cluster.run(30);
    expect(Object.keys(reportedOn(cluster)).sort()).toEqual(["Pod half-0", "Pod half-1"]);
  });

  test("is not reported when it is healthy again within seconds", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("quiet", { gpus: 8 });
    await cluster.run(5);
    await strike(cluster, [device(0)]);
    await cluster.run(10);
    const [main] = cluster.pod1("quiet").status?.containerStatuses ?? [];
    expect(main?.allocatedResourcesStatus?.[0]?.resources?.map(({ health }) => health)).toContain("Unhealthy");
    await strike(cluster, []);
    await cluster.run(60);
    expect(reportedOn(cluster)).toEqual({});
  });
});
