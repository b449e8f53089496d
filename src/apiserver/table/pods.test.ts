import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../model/objects/object.ts";
import { podTable } from "./pods.ts";

const nowMs = Date.UTC(2026, 0, 2);
const ago = (seconds: number): string => new Date(nowMs - seconds * 1000).toISOString().replace(".000Z", "Z");

interface Shape {
  containers?: object[];
  init?: object[];
  statuses?: object[];
  initStatuses?: object[];
  status?: object;
  metadata?: object;
  spec?: object;
}

function pod(shape: Shape): KubeObject {
  const { containers = [{ name: "main" }], init, statuses, initStatuses, status, metadata, spec } = shape;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", uid: "u", resourceVersion: "1", creationTimestamp: ago(90), ...metadata },
    spec: { containers, ...(init ? { initContainers: init } : {}), ...spec },
    status: {
      phase: "Running",
      ...(statuses ? { containerStatuses: statuses } : {}),
      ...(initStatuses ? { initContainerStatuses: initStatuses } : {}),
      ...status,
    },
  };
}

const container = (state: object, more: object = {}) => ({
  name: "main",
  restartCount: 0,
  ready: false,
  state,
  ...more,
});
const running = container({ running: {} }, { ready: true });
const waiting = (reason: string) => container({ waiting: { reason } });
const ended = (terminated: object) => container({ terminated });
const sidecar = { name: "main", restartPolicy: "Always" };
const ready = { conditions: [{ type: "Ready", status: "True" }] };
const initialized = { conditions: [{ type: "Initialized", status: "True" }] };

function line(shape: Shape): Record<string, unknown> {
  const cells = podTable.cells(pod(shape), nowMs);
  expect(cells).toHaveLength(podTable.columns.length);
  return Object.fromEntries(podTable.columns.map(({ name }, index) => [name, cells[index]]));
}

describe("the status of a pod", () => {
  test.each<{ name: string; shape: Shape; status: string }>([
    { name: "is its phase", shape: { status: { phase: "Pending" } }, status: "Pending" },
    {
      name: "is its reason rather than its phase",
      shape: { status: { phase: "Failed", reason: "Evicted" } },
      status: "Evicted",
    },
    {
      name: "says that scheduling is gated",
      shape: {
        status: {
          phase: "Pending",
          conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }],
        },
      },
      status: "SchedulingGated",
    },
    {
      name: "counts init containers that are done",
      shape: { init: [{ name: "a" }, { name: "b" }], initStatuses: [container({ running: {} })] },
      status: "Init:0/2",
    },
    {
      name: "counts past init containers that ended well",
      shape: {
        init: [{ name: "a" }, { name: "b" }],
        initStatuses: [ended({ exitCode: 0 }), waiting("PodInitializing")],
      },
      status: "Init:1/2",
    },
    {
      name: "names why an init container failed",
      shape: { init: [{ name: "a" }], initStatuses: [ended({ exitCode: 1, reason: "Error" })] },
      status: "Init:Error",
    },
    {
      name: "gives the exit code of an init container that failed without a reason",
      shape: { init: [{ name: "a" }], initStatuses: [ended({ exitCode: 1 })] },
      status: "Init:ExitCode:1",
    },
    {
      name: "gives the signal that ended an init container",
      shape: { init: [{ name: "a" }], initStatuses: [ended({ exitCode: 137, signal: 9 })] },
      status: "Init:Signal:9",
    },
    {
      name: "names what an init container waits for",
      shape: { init: [{ name: "a" }], initStatuses: [waiting("CrashLoopBackOff")] },
      status: "Init:CrashLoopBackOff",
    },
    {
      name: "does not wait for a sidecar that has started",
      shape: {
        init: [sidecar],
        initStatuses: [container({ running: {} }, { started: true, ready: true })],
        statuses: [running],
      },
      status: "Running",
    },
    {
      name: "waits for a sidecar that has not started",
      shape: { init: [sidecar], initStatuses: [container({ running: {} }, { started: false })] },
      status: "Init:0/1",
    },
    {
      name: "looks at the containers once the pod is initialized, whatever the init containers say",
      shape: {
        init: [{ name: "a" }],
        initStatuses: [container({ running: {} })],
        statuses: [waiting("ErrImagePull")],
        status: initialized,
      },
      status: "ErrImagePull",
    },
    {
      name: "names what a container waits for",
      shape: { statuses: [waiting("ContainerCreating")], status: { phase: "Pending" } },
      status: "ContainerCreating",
    },
    { name: "names a crash loop", shape: { statuses: [waiting("CrashLoopBackOff")] }, status: "CrashLoopBackOff" },
    {
      name: "names why a container ended",
      shape: { statuses: [ended({ exitCode: 1, reason: "Error" })] },
      status: "Error",
    },
    {
      name: "gives the exit code of a container that ended without a reason",
      shape: { statuses: [ended({ exitCode: 3 })] },
      status: "ExitCode:3",
    },
    {
      name: "gives the signal that ended a container",
      shape: { statuses: [ended({ exitCode: 137, signal: 9 })] },
      status: "Signal:9",
    },
    {
      name: "leaves the last word to the first container",
      shape: { statuses: [waiting("ErrImagePull"), waiting("CrashLoopBackOff")] },
      status: "ErrImagePull",
    },
    {
      name: "stays Running while one container runs, another is completed and the pod is ready",
      shape: { statuses: [ended({ exitCode: 0, reason: "Completed" }), running], status: ready },
      status: "Running",
    },
    {
      name: "is NotReady when a container runs beside a completed one and the pod is not ready",
      shape: { statuses: [ended({ exitCode: 0, reason: "Completed" }), running] },
      status: "NotReady",
    },
    {
      name: "is Completed when nothing runs any more",
      shape: { statuses: [ended({ exitCode: 0, reason: "Completed" })], status: { phase: "Succeeded" } },
      status: "Completed",
    },
    {
      name: "is Terminating once it is being deleted",
      shape: { statuses: [running], metadata: { deletionTimestamp: ago(1) } },
      status: "Terminating",
    },
    {
      name: "is Unknown when it is being deleted from a lost node",
      shape: { status: { reason: "NodeLost" }, metadata: { deletionTimestamp: ago(1) } },
      status: "Unknown",
    },
    {
      name: "stays Completed while a finished pod is being deleted",
      shape: {
        statuses: [ended({ exitCode: 0, reason: "Completed" })],
        status: { phase: "Succeeded" },
        metadata: { deletionTimestamp: ago(1) },
      },
      status: "Completed",
    },
  ])("$name", ({ shape, status }) => {
    expect(line(shape)["Status"]).toBe(status);
  });
});

describe("the counts of a pod", () => {
  const restarted = (restartCount: number, seconds: number) =>
    container(
      { running: {} },
      { ready: true, restartCount, lastState: { terminated: { exitCode: 1, finishedAt: ago(seconds) } } },
    );

  test.each<{ name: string; shape: Shape; ready: string; restarts: string }>([
    {
      name: "a pod without statuses has nothing ready",
      shape: { containers: [{ name: "a" }, { name: "b" }] },
      ready: "0/2",
      restarts: "0",
    },
    {
      name: "running and ready containers count",
      shape: { containers: [{}, {}], statuses: [running, waiting("x")] },
      ready: "1/2",
      restarts: "0",
    },
    {
      name: "sidecars count as containers",
      shape: {
        init: [sidecar],
        initStatuses: [container({ running: {} }, { started: true, ready: true })],
        statuses: [running],
      },
      ready: "2/2",
      restarts: "0",
    },
    {
      name: "restarts add up and tell when the last one was",
      shape: { containers: [{}, {}], statuses: [restarted(2, 3600), restarted(1, 300)] },
      ready: "2/2",
      restarts: "3 (5m ago)",
    },
    {
      name: "restarts without a known end show only the number",
      shape: { statuses: [container({ running: {} }, { ready: true, restartCount: 4 })] },
      ready: "1/1",
      restarts: "4",
    },
    {
      name: "restarts of init containers show while they run",
      shape: { init: [{ name: "main" }], initStatuses: [{ ...restarted(5, 60), ready: false }] },
      ready: "0/1",
      restarts: "5 (60s ago)",
    },
    {
      name: "restarts of init containers are forgotten when they are done",
      shape: {
        init: [{ name: "main" }],
        initStatuses: [{ ...restarted(5, 60), state: { terminated: { exitCode: 0 } } }],
        statuses: [running],
      },
      ready: "1/1",
      restarts: "0",
    },
    {
      name: "restarts of sidecars stay",
      shape: {
        init: [sidecar],
        initStatuses: [{ ...restarted(2, 120), started: true }],
        statuses: [restarted(1, 600)],
      },
      ready: "2/2",
      restarts: "3 (2m ago)",
    },
  ])("$name", ({ shape, ready: isReady, restarts }) => {
    expect(line(shape)).toMatchObject({ Ready: isReady, Restarts: restarts });
  });
});

describe("the rest of a pod's row", () => {
  test("is empty words until the pod has a place", () => {
    expect(line({})).toMatchObject({
      Name: "web",
      Age: "90s",
      IP: "<none>",
      Node: "<none>",
      "Nominated Node": "<none>",
      "Readiness Gates": "<none>",
    });
  });

  test("shows place, address and open gates", () => {
    const shape = {
      spec: { nodeName: "n1", readinessGates: [{ conditionType: "a" }, { conditionType: "b" }] },
      status: {
        podIP: "10.0.0.9",
        podIPs: [{ ip: "10.0.0.9" }],
        nominatedNodeName: "n2",
        conditions: [
          { type: "a", status: "True" },
          { type: "b", status: "False" },
        ],
      },
    };
    expect(line(shape)).toMatchObject({ IP: "10.0.0.9", Node: "n1", "Nominated Node": "n2", "Readiness Gates": "1/2" });
  });

  test.each([
    { phase: "Succeeded", reason: "Succeeded" },
    { phase: "Failed", reason: "Failed" },
  ])("is marked as completed when the pod has $phase", ({ phase, reason }) => {
    expect(podTable.conditions?.(pod({ status: { phase } }))).toMatchObject([
      { type: "Completed", status: "True", reason },
    ]);
  });

  test("is not marked while the pod runs", () => {
    expect(podTable.conditions?.(pod({}))).toBeUndefined();
  });

  test("wide columns are those that kubectl hides", () => {
    const wide = podTable.columns.filter(({ priority }) => priority === 1).map(({ name }) => name);
    expect(wide).toEqual(["IP", "Node", "Nominated Node", "Readiness Gates"]);
  });
});
