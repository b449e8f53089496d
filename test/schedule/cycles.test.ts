/** What a decision waits for, and what it does not. */
import { expect, test } from "vitest";
import { holdCalls, ScheduleCluster } from "./scheduleCluster.ts";

test("status writes of pending pods delay no decision", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const { held, open } = holdCalls(cluster, (call) => /^patch (pods huge|podgroups pg-huge.*)\/status$/.test(call));
  await cluster.pod("huge", { gpus: 9 });
  await cluster.run(2);
  expect(held).not.toEqual([]);
  await cluster.pod("small", { gpus: 1 });
  await cluster.run(2);
  expect(cluster.pod1("small").status?.phase).toBe("Running");
  expect(cluster.pod1("huge").status?.conditions ?? []).toEqual([]);
  open();
  await cluster.run(2);
  expect(cluster.pod1("huge").status?.conditions).toMatchObject([{ type: "PodScheduled", reason: "Unschedulable" }]);
});

test("no more than four status writes of pending pods are in flight", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const { held, open } = holdCalls(cluster, (call) => /^patch pods huge-.*\/status$/.test(call));
  for (let at = 0; at < 40; at++) await cluster.pod(`huge-${at}`, { gpus: 9 });
  await cluster.run(2);
  expect(held).toHaveLength(4);
  open();
  await cluster.run(8);
  const told = cluster.pods().filter(({ status }) => status?.conditions?.some(({ type }) => type === "PodScheduled"));
  expect(told).toHaveLength(40);
});

test("the next decision waits until every eviction of the last one was answered", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  for (const name of ["a", "b"]) await cluster.pod(name, { gpus: 4 });
  await cluster.run(2);
  const { held, open } = holdCalls(cluster, (call) => /^delete pods [ab]$/.test(call));
  await cluster.pod("vip", { gpus: 8, spec: { priorityClassName: "build-preemptible" } });
  await cluster.run(2);
  expect(held.toSorted()).toEqual(["delete pods a", "delete pods b"]);
  // It needs nothing that other pods want, and is decided on all the same when the evictions are over.
  await cluster.pod("late", {});
  await cluster.run(2);
  expect(cluster.pod1("late").spec?.nodeName).toBeUndefined();
  open();
  await cluster.run(5);
  expect(cluster.pods().map(({ metadata, status }) => [metadata.name, status?.phase])).toEqual([
    ["late", "Running"],
    ["vip", "Running"],
  ]);
});
