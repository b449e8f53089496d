import { expect, test } from "vitest";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { GpuAnswer } from "../../decide/bind/ownGpu.ts";
import { newReservation, reservationDefaults } from "../../decide/bind/reservation.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { annotationKeys, reservationNamespace } from "../../model/scheduling/keys.ts";
import { type AgentEnd, reportGpu } from "./reportGpu.ts";

const gpu = { gpu: { device: "GPU-1", index: 3 } };
const none = { problem: "no GPU is visible in this container" };

async function reservationPod(annotations: Record<string, string> = {}) {
  const api = await TestApi.start();
  await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: reservationNamespace } });
  const account = { name: reservationDefaults.serviceAccountName, namespace: reservationNamespace };
  await api.create("/serviceaccounts", { apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  const object = newReservation({ node: "n1", group: "g", users: [], options: reservationDefaults });
  const { name } = object.metadata;
  const metadata = {
    ...object.metadata,
    annotations: { ...(object.metadata["annotations"] as object), ...annotations },
  };
  await api.create("/pods", { ...object, metadata });
  const kube = new FaultyKube(
    inProcessKube(api.core, { user: { username: "agent", groups: ["system:masters"] }, fieldManager: "agent" }),
  );
  const log = new KeptLog();
  let shows: GpuAnswer = gpu;
  let stop = (_: true): void => {};
  const stopped = new Promise<true>((resolve) => {
    stop = resolve;
  });
  let end: AgentEnd | undefined;
  const options = { pod: { namespace: reservationNamespace, name }, findMs: 30_000, checkMs: 60_000 };
  return {
    api,
    kube,
    log,
    show: (answer: GpuAnswer) => {
      shows = answer;
    },
    start: async () => {
      const ports = { kube, clock: api.clock, log, look: () => Promise.resolve(shows), stopped };
      void reportGpu(ports, options).then((outcome) => {
        end = outcome;
      });
      await api.clock.advance(0);
    },
    stop: () => stop(true),
    end: () => end,
    annotations: async () => {
      const read = await kube.get({ ...reservationRef, namespace: reservationNamespace, name });
      return read.ok ? (read.value.metadata.annotations ?? {}) : {};
    },
    name,
  };
}

const reservationRef = builtin.Pod;

test("the GPU of the container is written on the pod, with its index on the node", async () => {
  const pod = await reservationPod();
  await pod.start();
  expect(await pod.annotations()).toMatchObject({
    [annotationKeys.reservedGpu]: "GPU-1",
    [annotationKeys.gpuIndex]: "3",
  });
  expect(pod.end()).toBeUndefined();
});

test("a signal ends the program while it holds the GPU, while it looks for the GPU and while the API is unavailable", async () => {
  for (const prepare of [
    () => undefined,
    (pod: Awaited<ReturnType<typeof reservationPod>>) => pod.show(none),
    (pod: Awaited<ReturnType<typeof reservationPod>>) => {
      pod.kube.faults.before = () => refused("Unavailable", "connection refused");
    },
  ]) {
    const pod = await reservationPod();
    prepare(pod);
    await pod.start();
    pod.stop();
    await pod.api.clock.advance(0);
    expect(pod.end()).toEqual({ type: "stopped" });
  }
});

test("a GPU that appears late is waited for, and one that never appears is a failure with its cure", async () => {
  const late = await reservationPod();
  late.show(none);
  await late.start();
  await late.api.clock.advance(10_000);
  late.show(gpu);
  await late.api.clock.advance(1_000);
  expect(await late.annotations()).toMatchObject({ [annotationKeys.reservedGpu]: "GPU-1" });

  const never = await reservationPod();
  never.show(none);
  await never.start();
  await never.api.clock.advance(31_000);
  expect(never.end()).toMatchObject({
    type: "failed",
    problem: none.problem,
    cure: expect.stringContaining("device plugin"),
  });
  expect(await never.annotations()).not.toHaveProperty([annotationKeys.reservedGpu]);
});

test("holders that the binder writes meanwhile stay: the device is written on the pod as it is then", async () => {
  const pod = await reservationPod();
  let conflicts = 2;
  pod.kube.faults.before = (verb) =>
    verb === "patch" && conflicts-- > 0 ? refused("Conflict", "the object has been modified") : undefined;
  await pod.start();
  await pod.api.clock.advance(100);
  expect(await pod.annotations()).toMatchObject({
    [annotationKeys.reservedGpu]: "GPU-1",
    "muster.dev/holders": "{}",
  });
});

test("a write that an unavailable or busy API server refuses is retried until it succeeds", async () => {
  const pod = await reservationPod();
  const answers = [
    refused("Unavailable", "connection refused"),
    refused("TooManyRequests", "busy", { retryAfterMs: 2_000 }),
    refused("Forbidden", 'pods is forbidden: User "agent" cannot patch'),
    refused("Unknown", "connection reset"),
  ];
  pod.kube.faults.before = (verb) => (verb === "patch" ? answers.shift() : undefined);
  await pod.start();
  await pod.api.clock.advance(60_000);
  expect(await pod.annotations()).toMatchObject({ [annotationKeys.reservedGpu]: "GPU-1" });
  expect(pod.log.lines.filter(({ level }) => level === "warn")).toHaveLength(4);
});

test("a write whose answer was lost is not repeated", async () => {
  const pod = await reservationPod();
  let lost = 1;
  pod.kube.faults.after = (verb) =>
    verb === "patch" && lost-- > 0 ? refused("Unknown", "connection reset") : undefined;
  await pod.start();
  await pod.api.clock.advance(5_000);
  expect(await pod.annotations()).toMatchObject({ [annotationKeys.reservedGpu]: "GPU-1" });
  expect(pod.kube.calls.filter((call) => call.startsWith("patch"))).toHaveLength(1);
  expect(pod.end()).toBeUndefined();
});

test("a container that starts again keeps the device that its pod reports, and fails when it has another one", async () => {
  const same = await reservationPod({ [annotationKeys.reservedGpu]: "GPU-1" });
  await same.start();
  expect(same.kube.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  expect(same.end()).toBeUndefined();

  const other = await reservationPod({ [annotationKeys.reservedGpu]: "GPU-7" });
  await other.start();
  expect(other.end()).toMatchObject({
    type: "failed",
    problem: "this pod reports device GPU-7, and its container has GPU-1",
  });
  expect(await other.annotations()).toMatchObject({ [annotationKeys.reservedGpu]: "GPU-7" });
});

test("a GPU that is missing in three checks is a failure; one failed check is not", async () => {
  const pod = await reservationPod();
  await pod.start();
  pod.show(none);
  await pod.api.clock.advance(60_000);
  pod.show(gpu);
  await pod.api.clock.advance(60_000);
  expect(pod.end()).toBeUndefined();
  pod.show(none);
  await pod.api.clock.advance(180_000);
  expect(pod.end()).toMatchObject({ type: "failed", problem: `GPU GPU-1 is no longer visible: ${none.problem}` });
});

test("a pod that does not exist is a failure", async () => {
  const pod = await reservationPod();
  pod.kube.faults.before = (verb) => (verb === "get" ? refused("NotFound", "not found") : undefined);
  await pod.start();
  expect(pod.end()).toMatchObject({ type: "failed", problem: expect.stringContaining("does not exist") });
});
