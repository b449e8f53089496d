import { describe, expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { podNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { EventRecorder } from "./eventRecorder.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";
import { Writer } from "./writer.ts";

const failed = { type: "Warning", reason: "FailedScheduling", action: "Scheduling", note: "no node fits" } as const;

async function started() {
  const api = await TestApi.start({ controllers: "none" });
  const user = { username: "tester", groups: ["system:masters"] };
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "test" }));
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const names = { controller: "muster.dev/scheduler", instance: "scheduler-0" };
  const recorder = new EventRecorder({ writer: new Writer(kube), clock: api.clock, log, metrics, ...names });
  const pod = await api.create("/pods", podNamed("default/p"));
  const events = (): KubeObject[] => [...api.core.store.collection("/events").all()].map((version) => version.object());
  return { api, kube, log, metrics, recorder, pod, events, clock: api.clock };
}

describe("events", () => {
  test("are written as core/v1 objects, with source, count and both timestamps", async () => {
    const { recorder, pod, events, log, api } = await started();
    recorder.record(pod, failed);
    await settle();
    expect(events()).toHaveLength(1);
    const { uid } = pod.metadata;
    const kube = inProcessKube(api.core, { user: { username: "t", groups: ["system:masters"] }, fieldManager: "t" });
    const listed = await kube.list(builtin.CoreEvent);
    expect(listed.ok && listed.value.items[0]).toMatchObject({
      type: "Warning",
      reason: "FailedScheduling",
      action: "Scheduling",
      message: "no node fits",
      source: { component: "muster.dev/scheduler" },
      reportingComponent: "muster.dev/scheduler",
      reportingInstance: "scheduler-0",
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:00:00Z",
      count: 1,
      involvedObject: { kind: "Pod", namespace: "default", name: "p", uid },
    });
    expect(log.lines).toEqual([]);
  });

  test("a repeated event becomes a series with a count, written at once and later at intervals", async () => {
    const { recorder, pod, events, clock, kube } = await started();
    for (let n = 0; n < 50; n++) {
      recorder.record(pod, failed);
      await settle(2);
      await clock.advance(2000);
    }
    expect(events()).toHaveLength(1);
    expect(kube.calls.length).toBeLessThan(6);
    await clock.advance(6 * 60_000);
    expect(events()[0]).toMatchObject({
      count: 50,
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:01:38Z",
    });
    recorder.record(pod, failed);
    await settle();
    expect(events()).toHaveLength(2);
  });

  test("an object with too many events gets no more until its rate limit allows it", async () => {
    const { recorder, pod, events, clock, metrics } = await started();
    for (let n = 0; n < 40; n++) recorder.record(pod, { ...failed, note: `no node fits ${n}` });
    await settle(60);
    expect(events()).toHaveLength(25);
    expect(metrics.value("muster_events_dropped_total", { reason: "FailedScheduling" })).toBe(15);
    await clock.advance(300_000);
    recorder.record(pod, { ...failed, note: "now" });
    await settle();
    expect(events()).toHaveLength(26);
  });

  test("an object beyond its rate limit gets no events, however many other objects do", async () => {
    const { recorder, pod, kube, metrics } = await started();
    kube.faults = { before: () => ({ ok: false, reason: "Forbidden", message: "no" }) };
    const others = (from: number, to: number): void => {
      for (let n = from; n < to; n++) {
        recorder.record({ ...pod, metadata: { ...pod.metadata, uid: `other-${n}` } }, failed);
      }
    };
    const dropped = (): number | undefined =>
      metrics.value("muster_events_dropped_total", { reason: "FailedScheduling" });
    for (let n = 0; n < 26; n++) recorder.record(pod, { ...failed, note: `no node fits ${n}` });
    expect(dropped()).toBe(1);
    others(0, 4_000);
    await settle(2_000);
    recorder.record(pod, { ...failed, note: "once more" });
    expect(dropped()).toBe(2);
    others(4_000, 4_300);
    await settle(2_000);
    recorder.record(pod, { ...failed, note: "and again" });
    expect(dropped()).toBe(3);
    recorder.stop();
  });

  test("are written sixteen at a time; when too many wait, the oldest are dropped", async () => {
    const { recorder, pod, kube, events, metrics } = await started();
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    kube.faults = { hold: () => gate };
    const say = (n: number): void =>
      recorder.record({ ...pod, metadata: { ...pod.metadata, name: `p${n}`, uid: `other-${n}` } }, failed);
    for (let n = 0; n < 16 + 4096 + 3; n++) say(n);
    // Recorded again while it is queued: one Event with a count of two.
    say(100);
    await settle();
    expect(kube.calls).toHaveLength(16);
    expect(metrics.value("muster_events_dropped_total", { reason: "FailedScheduling" })).toBe(3);
    kube.faults = {};
    release();
    await settle(5_000);
    const heard = new Set(events().map(({ metadata }) => metadata.name.split(".")[0]));
    expect(heard.size).toBe(16 + 4096);
    expect(["p15", "p16", "p17", "p18", "p19", "p4114"].filter((name) => heard.has(name))).toEqual([
      "p15",
      "p19",
      "p4114",
    ]);
    expect(events().find(({ metadata }) => metadata.name.startsWith("p100."))).toMatchObject({ count: 2 });
  });

  test("an Event that was deleted is created again by the next one of its series", async () => {
    const { recorder, pod, events, api, clock } = await started();
    recorder.record(pod, failed);
    await settle();
    const [first] = events();
    await api.delete("/events", `default/${first?.metadata.name}`);
    await clock.advance(1000);
    recorder.record(pod, failed);
    await settle();
    expect(events()[0]).toMatchObject({ count: 2 });
  });

  test("a note that is too long is cut between two characters", async () => {
    const { recorder, pod, events, log } = await started();
    recorder.record(pod, { ...failed, note: "é".repeat(2000) });
    await settle();
    expect(log.lines).toEqual([]);
    expect(events()[0]?.["message"] ?? events()[0]?.["note"]).toBe("é".repeat(512));
  });

  test("a refused Event is dropped, and nothing is written after a stop", async () => {
    const { recorder, pod, events, kube, log, clock } = await started();
    kube.faults = { before: () => ({ ok: false, reason: "Forbidden", message: "no" }) };
    recorder.record(pod, failed);
    await settle();
    kube.faults = {};
    recorder.stop();
    recorder.record(pod, { ...failed, note: "later" });
    await clock.advance(3_600_000);
    expect(events()).toEqual([]);
    expect(log.errors).toEqual([]);
  });
});
