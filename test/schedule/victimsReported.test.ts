import { expect, test } from "vitest";
import { livelyDelays } from "../../src/kubelet/pods/podPlan.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

/** What users see of groups that wait for pods, and of pods that are evicted. */

interface Seen {
  readonly type?: string;
  readonly reason?: string;
  readonly note?: string;
  readonly message?: string;
  readonly regarding?: { readonly kind?: string; readonly name?: string };
  readonly involvedObject?: { readonly kind?: string; readonly name?: string };
}

const eventsOn = (cluster: ScheduleCluster, name: string) =>
  cluster
    .all<Seen>("/events")
    .filter((each) => (each.regarding ?? each.involvedObject)?.name === name)
    .map(({ type, reason, note, message }) => `${type} ${reason}: ${note ?? message}`);

test("a group that waits for pods has an event that says how many there are", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.group("g", { minMember: 3 });
  await cluster.pod("one", { gpus: 1, annotations: { "pod-group-name": "g" } });
  await cluster.run(2);
  expect(eventsOn(cluster, "g")).toEqual([
    "Normal NotReady: group g waits for 3 pods, 1 exist. To run: it starts when the missing pods exist and are not gated",
  ]);
});

test.each(["kai-scheduler", "default-scheduler"])(
  "a victim has a condition and an event with the reason (%s)",
  async (scheduler) => {
    const cluster = await ScheduleCluster.create(["h100=1"], {}, { nodes: { delays: livelyDelays } });
    const words = (priorityClassName: string) => ({
      gpus: 8,
      scheduler,
      labels: { priorityClassName },
      spec: { priorityClassName, terminationGracePeriodSeconds: 30 },
    });
    await cluster.pod("low", words("train"));
    await cluster.run(2);
    let victim: Pod | undefined;
    await cluster.pod("high", words("build-preemptible"));
    for (let at = 0; at < 40 && victim?.metadata.deletionTimestamp === undefined; at++) {
      await cluster.run(0.05);
      victim = cluster.pod1("low");
    }
    expect(victim?.metadata.deletionTimestamp).toBeDefined();
    const condition = victim?.status?.conditions?.find(({ type }) => type === "DisruptionTarget");
    expect(condition).toMatchObject({ status: "True", reason: "PreemptionByScheduler" });
    expect(condition?.message).toContain("high");
    await cluster.run(2);
    const evicted = eventsOn(cluster, "low").filter((each) => each.startsWith("Warning Evicted: "));
    expect(evicted).toHaveLength(1);
    expect(evicted[0]).toContain(condition?.message);
  },
);
