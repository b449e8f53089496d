import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, type TestNodeOptions, testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import { assignmentOf } from "../devices/devices.ts";
import { readFault } from "../node/faults.ts";
import { generalDelays } from "./podPlan.ts";

const fault = (given: Record<string, string | number | boolean>) =>
  readFault(given, { nowMs: startMs, id: JSON.stringify(given) });

function condition(pod: Pod, type: string): string | undefined {
  return pod.status?.conditions?.find((each) => each.type === type)?.status;
}

function states(pod: Pod): string[] {
  return [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])].map(
    ({ name, state, restartCount }) => {
      const what = state?.running ? "running" : (state?.waiting?.reason ?? state?.terminated?.reason ?? "?");
      return `${name}:${what}${restartCount > 0 ? `#${restartCount}` : ""}`;
    },
  );
}

const sidecar = { name: "side", image: "s", restartPolicy: "Always" };
const init = { name: "init", image: "i" };

/** The state of a pod some time after it was bound; one row is one fact. */
const rows: {
  name: string;
  pod: Parameters<typeof testPod>[0];
  testbed?: TestNodeOptions;
  afterMs: number;
  phases: string[];
  states: string[];
  ready?: string;
  reason?: string;
}[] = [
  {
    name: "a pod without delays runs at once",
    pod: {},
    afterMs: 0,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "with delays it is first creating",
    pod: {},
    testbed: { options: { delays: generalDelays } },
    afterMs: 500,
    phases: ["Pending"],
    states: ["main:ContainerCreating"],
    ready: "False",
  },
  {
    name: "and runs a few seconds later",
    pod: {},
    testbed: { options: { delays: generalDelays } },
    afterMs: 10_000,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "a Job's pod completes",
    pod: { owner: "Job" },
    afterMs: 0,
    phases: ["Pending", "Running", "Succeeded"],
    states: ["main:Completed"],
    ready: "False",
  },
  {
    name: "a ReplicaSet's pod stays",
    pod: { owner: "ReplicaSet" },
    afterMs: 3_600_000,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "init containers come first and the others wait",
    pod: { spec: { initContainers: [init] } },
    testbed: { options: { delays: generalDelays } },
    afterMs: 700,
    phases: ["Pending"],
    states: ["init:PodInitializing", "main:PodInitializing"],
    ready: "False",
  },
  {
    name: "after the init container the main one runs",
    pod: { spec: { initContainers: [init] } },
    afterMs: 0,
    phases: ["Pending", "Running"],
    states: ["init:Completed", "main:running"],
    ready: "True",
  },
  {
    name: "a sidecar runs beside the main container",
    pod: { spec: { initContainers: [sidecar] } },
    afterMs: 0,
    phases: ["Pending", "Running"],
    states: ["side:running", "main:running"],
    ready: "True",
  },
  {
    name: "a sidecar is stopped when the Job's container has ended",
    pod: { owner: "Job", spec: { initContainers: [sidecar] } },
    afterMs: 0,
    phases: ["Pending", "Running", "Succeeded"],
    states: ["side:Completed", "main:Completed"],
    ready: "False",
  },
  {
    name: "a failing init container of a pod that never restarts fails the pod",
    pod: {
      spec: { initContainers: [init], restartPolicy: "Never" },
      annotations: { "sim.muster.dev/outcome.init": "Error" },
    },
    afterMs: 5000,
    phases: ["Pending", "Failed"],
    states: ["init:Error", "main:PodInitializing"],
    ready: "False",
  },
  {
    name: "a run duration ends a pod with restartPolicy Never",
    pod: { spec: { restartPolicy: "Never" }, annotations: { "sim.muster.dev/run-duration": "30s" } },
    afterMs: 30_000,
    phases: ["Pending", "Running", "Succeeded"],
    states: ["main:Completed"],
    ready: "False",
  },
  {
    name: "and not before its run duration",
    pod: { spec: { restartPolicy: "Never" }, annotations: { "sim.muster.dev/run-duration": "30s" } },
    afterMs: 29_999,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "an outcome fails it",
    pod: {
      spec: { restartPolicy: "Never" },
      annotations: { "sim.muster.dev/run-duration": "5s", "sim.muster.dev/outcome": "Error" },
    },
    afterMs: 5000,
    phases: ["Pending", "Running", "Failed"],
    states: ["main:Error"],
    ready: "False",
  },
  {
    name: "a container that runs out of memory is OOMKilled",
    pod: { spec: { restartPolicy: "Never" }, annotations: { "sim.muster.dev/outcome": "OOMKilled" } },
    afterMs: 1000,
    phases: ["Pending", "Running", "Failed"],
    states: ["main:OOMKilled"],
    ready: "False",
  },
  {
    name: "the first crash restarts at once",
    pod: { annotations: { "sim.muster.dev/outcome": "Error" } },
    afterMs: 1000,
    phases: ["Pending", "Running"],
    states: ["main:running#1"],
    ready: "True",
  },
  {
    name: "the second one waits",
    pod: { annotations: { "sim.muster.dev/outcome": "Error" } },
    afterMs: 2000,
    phases: ["Pending", "Running"],
    states: ["main:CrashLoopBackOff#1"],
    ready: "False",
  },
  {
    name: "ten seconds",
    pod: { annotations: { "sim.muster.dev/outcome": "Error" } },
    afterMs: 12_000,
    phases: ["Pending", "Running"],
    states: ["main:running#2"],
    ready: "True",
  },
  {
    name: "then twenty",
    pod: { annotations: { "sim.muster.dev/outcome": "Error" } },
    afterMs: 32_999,
    phases: ["Pending", "Running"],
    states: ["main:CrashLoopBackOff#2"],
    ready: "False",
  },
  {
    name: "a container that fails twice succeeds the third time",
    pod: { annotations: { "sim.muster.dev/failures": "2" } },
    afterMs: 60_000,
    phases: ["Pending", "Running"],
    states: ["main:running#2"],
    ready: "True",
  },
  {
    name: "an image that cannot be pulled",
    pod: { annotations: { "sim.muster.dev/outcome": "ImagePullBackOff" } },
    afterMs: 0,
    phases: ["Pending"],
    states: ["main:ErrImagePull"],
    ready: "False",
  },
  {
    name: "is pulled again with back-off",
    pod: { annotations: { "sim.muster.dev/outcome": "ImagePullBackOff" } },
    afterMs: 60_000,
    phases: ["Pending"],
    states: ["main:ImagePullBackOff"],
    ready: "False",
  },
  {
    name: "activeDeadlineSeconds ends a pod",
    pod: { spec: { activeDeadlineSeconds: 60 } },
    afterMs: 60_000,
    phases: ["Pending", "Running", "Failed"],
    states: ["main:Error"],
    reason: "DeadlineExceeded",
  },
  {
    name: "a readiness probe delays Ready, not Running",
    pod: { spec: { containers: [{ name: "main", readinessProbe: { initialDelaySeconds: 20 } }] } },
    afterMs: 19_000,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "False",
  },
  {
    name: "a readiness gate waits for its controller",
    pod: { spec: { readinessGates: [{ conditionType: "example.com/lb" }] } },
    afterMs: 60_000,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "False",
  },
  {
    name: "or is set by the node, as KWOK does",
    pod: { spec: { readinessGates: [{ conditionType: "example.com/lb" }] } },
    testbed: { options: { gates: "satisfy" } },
    afterMs: 0,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "KWOK's delay of completion is used",
    pod: { owner: "Job", annotations: { "pod-complete.stage.kwok.x-k8s.io/delay": "40s" } },
    afterMs: 39_999,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "KWOK's chaos label fails a running pod",
    pod: {
      labels: { "pod-container-running-failed.stage.kwok.x-k8s.io": "true" },
      annotations: {
        "pod-container-running-failed.stage.kwok.x-k8s.io/reason": "Boom",
        "pod-container-running-failed.stage.kwok.x-k8s.io/exit-code": "9",
      },
    },
    afterMs: 1000,
    phases: ["Pending", "Running", "Failed"],
    states: ["main:Boom"],
    reason: "Boom",
  },
  {
    name: "a slow start keeps it creating",
    pod: {},
    testbed: { faults: [fault({ kind: "slow-start", delay: "60s" })] },
    afterMs: 59_000,
    phases: ["Pending"],
    states: ["main:ContainerCreating"],
    ready: "False",
  },
  {
    name: "a crash loop by fault",
    pod: {},
    testbed: { faults: [fault({ kind: "crash-loop" })] },
    afterMs: 5000,
    phases: ["Pending", "Running"],
    states: ["main:CrashLoopBackOff#1"],
    ready: "False",
  },
  {
    name: "after a fault the pod runs",
    pod: {},
    testbed: { faults: [fault({ kind: "crash-loop", for: "5s" })] },
    afterMs: 60_000,
    phases: ["Pending", "Running"],
    states: ["main:running#2"],
    ready: "True",
  },
  {
    name: "after an image error the pod starts",
    pod: {},
    testbed: { faults: [fault({ kind: "image-pull-error", for: "30s" })] },
    afterMs: 31_000,
    phases: ["Pending", "Running"],
    states: ["main:running"],
    ready: "True",
  },
  {
    name: "memory runs out by fault",
    pod: { spec: { restartPolicy: "Never" } },
    testbed: { faults: [fault({ kind: "oom", after: "2s" })] },
    afterMs: 2000,
    phases: ["Pending", "Running", "Failed"],
    states: ["main:OOMKilled"],
    ready: "False",
  },
  {
    name: "a container with restart rules restarts where the pod would not",
    pod: {
      spec: {
        restartPolicy: "Never",
        containers: [
          {
            name: "main",
            restartPolicy: "Never",
            restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "In", values: [42] } }],
          },
        ],
      },
      annotations: { "sim.muster.dev/exit-code": "42" },
    },
    afterMs: 1000,
    phases: ["Pending", "Running"],
    states: ["main:running#1"],
    ready: "True",
  },
];

describe("a pod on a simulated node", () => {
  test.each(rows)("$name", ({ pod, testbed: wish, afterMs, phases, states: wanted, ready, reason }) => {
    const testbed = testNode(wish);
    testbed.add(testPod(pod));
    testbed.run(afterMs);
    const now = testbed.pod("p");
    expect({ phases: testbed.phases.get("p"), states: states(now) }).toEqual({ phases, states: wanted });
    if (ready !== undefined) expect(condition(now, "Ready")).toBe(ready);
    if (reason !== undefined) expect(now.status?.reason).toBe(reason);
  });

  test("a sidecar waits for the init container before it", () => {
    const testbed = testNode({ options: { delays: generalDelays } });
    testbed.add(testPod({ spec: { initContainers: [init, sidecar] } }));
    const seen = new Set<string>();
    for (let i = 0; i < 300; i++) {
      testbed.run(100);
      seen.add(states(testbed.pod("p")).join(" "));
    }
    expect([...seen]).toEqual([
      "init:PodInitializing side:PodInitializing main:PodInitializing",
      "init:running side:PodInitializing main:PodInitializing",
      "init:Completed side:PodInitializing main:PodInitializing",
      "init:Completed side:running main:PodInitializing",
      "init:Completed side:running main:running",
    ]);
  });

  test("a sidecar that crashes is restarted, and does not block the others", () => {
    const testbed = testNode();
    const annotations = { "sim.muster.dev/outcome.side": "Error", "sim.muster.dev/run-duration.main": "30s" };
    testbed.add(testPod({ spec: { initContainers: [sidecar], restartPolicy: "Never" }, annotations }));
    testbed.run(5000);
    expect(states(testbed.pod("p"))).toEqual(["side:CrashLoopBackOff#1", "main:running"]);
    expect([condition(testbed.pod("p"), "Initialized"), condition(testbed.pod("p"), "Ready")]).toEqual([
      "True",
      "False",
    ]);
    testbed.run(25_000);
    expect(testbed.phases.get("p")).toEqual(["Pending", "Running", "Succeeded"]);
  });

  test("an ephemeral container starts at once", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { ephemeralContainers: [{ name: "debug", image: "d" }] } }));
    testbed.run(1000);
    expect(testbed.pod("p").status?.ephemeralContainerStatuses?.[0]?.state?.running).toBeDefined();
  });

  test("Pending to Running costs one write when nothing is delayed", () => {
    const testbed = testNode();
    testbed.run(0);
    const before = testbed.writes;
    testbed.add(testPod());
    testbed.run(0);
    expect(testbed.writes - before).toBe(1);
  });

  test("the status has the observed generation and the allocated resources of each container", () => {
    const testbed = testNode();
    const requests = { cpu: "1" };
    const pod = testPod({
      spec: { containers: [{ name: "main", image: "i", resources: { requests, limits: requests } }] },
    });
    pod.metadata.generation = 3;
    testbed.add(pod);
    testbed.run(1000);
    const { status } = testbed.pod("p");
    expect(status?.observedGeneration).toBe(3);
    expect(status?.conditions?.map(({ observedGeneration }) => observedGeneration)).toEqual([3, 3, 3, 3, 3]);
    expect(status?.containerStatuses).toMatchObject([
      { resources: { requests, limits: requests }, allocatedResources: requests },
    ]);
  });

  test("conditions and addresses are those of a kubelet", () => {
    const testbed = testNode();
    testbed.add(testPod());
    testbed.run(1000);
    const { status } = testbed.pod("p");
    const types = status?.conditions?.map(({ type, status: value }) => `${type}=${value}`).sort();
    expect(types).toEqual([
      "ContainersReady=True",
      "Initialized=True",
      "PodReadyToStartContainers=True",
      "PodScheduled=True",
      "Ready=True",
    ]);
    expect(status).toMatchObject({
      podIP: "10.0.0.1",
      hostIP: "172.16.0.1",
      qosClass: "BestEffort",
      startTime: formatTime(startMs),
    });
  });

  test("two pods get two addresses, and a pod without a free address fails", () => {
    const testbed = testNode();
    testbed.node = { ...testbed.node!, spec: { podCIDRs: ["10.9.0.0/30"] } };
    for (const name of ["a", "b", "c"]) testbed.add(testPod({ name }));
    testbed.run(0);
    expect([testbed.pod("a").status?.podIP, testbed.pod("b").status?.podIP]).toEqual(["10.9.0.1", "10.9.0.2"]);
    expect(testbed.pod("c").status).toMatchObject({ phase: "Failed", reason: "OutOfPodIPs" });
  });

  test("the address of a finished pod is reused, even if its object exists", () => {
    const testbed = testNode();
    testbed.add(testPod({ name: "a", annotations: { "sim.muster.dev/run-duration": "1s" }, owner: "Job" }));
    testbed.run(5000);
    testbed.add(testPod({ name: "b" }));
    testbed.run(5000);
    const [ended, next] = [testbed.pod("a").status, testbed.pod("b").status];
    expect([ended?.phase, next?.phase, next?.podIP]).toEqual(["Succeeded", "Running", ended?.podIP]);
  });

  test("a pod on the host's network has the host's address", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { hostNetwork: true } }));
    testbed.run(0);
    expect(testbed.pod("p").status?.podIPs).toEqual([{ ip: "172.16.0.1" }]);
  });

  test("the restart back-off is reset after ten minutes", () => {
    const testbed = testNode();
    testbed.add(testPod({ annotations: { "sim.muster.dev/run-duration": "11m", "sim.muster.dev/outcome": "Error" } }));
    testbed.run(11 * 60_000 * 4 + 1000);
    expect(states(testbed.pod("p"))).toEqual(["main:running#4"]);
  });

  test("a preStop sleep delays the end of the container, within its grace", () => {
    const testbed = testNode();
    const lifecycle = { preStop: { sleep: { seconds: 10 } } };
    testbed.add(testPod({ spec: { containers: [{ name: "main", image: "i", lifecycle }] } }));
    testbed.run(1000);
    testbed.remove("p", 30);
    testbed.run(9_000);
    expect(states(testbed.pod("p"))).toEqual(["main:running"]);
    testbed.run(25_000);
    expect(() => testbed.pod("p")).toThrow();
  });

  test("the restart back-off is five minutes at most", () => {
    const testbed = testNode();
    testbed.add(testPod({ annotations: { "sim.muster.dev/outcome": "Error" } }));
    testbed.run(10 + 20 + 40 + 80 + 160 + 300);
    testbed.run(3_600_000 * 5);
    const restarts = testbed.pod("p").status?.containerStatuses?.[0]?.restartCount ?? 0;
    testbed.run(3_010_000);
    expect((testbed.pod("p").status?.containerStatuses?.[0]?.restartCount ?? 0) - restarts).toBe(10);
  });
});

describe("deletion", () => {
  const rows: {
    name: string;
    annotations: Record<string, string>;
    grace: number;
    afterMs: number;
    exists: boolean;
    exit?: number;
  }[] = [
    {
      name: "a pod that stops in time is deleted then",
      annotations: { "sim.muster.dev/stop-delay": "5s" },
      grace: 30,
      afterMs: 5000,
      exists: false,
    },
    {
      name: "and not before",
      annotations: { "sim.muster.dev/stop-delay": "5s" },
      grace: 30,
      afterMs: 4999,
      exists: true,
    },
    {
      name: "one that ignores the signal is killed when the grace is over",
      annotations: { "sim.muster.dev/stop-delay": "1h" },
      grace: 30,
      afterMs: 30_000,
      exists: false,
    },
    {
      name: "and runs until then",
      annotations: { "sim.muster.dev/stop-delay": "1h" },
      grace: 30,
      afterMs: 29_999,
      exists: true,
    },
  ];
  test.each(rows)("$name", ({ annotations, grace, afterMs, exists }) => {
    const testbed = testNode();
    testbed.add(testPod({ annotations }));
    testbed.run(10_000);
    testbed.remove("p", grace);
    testbed.run(afterMs);
    expect(testbed.pods.has("p")).toBe(exists);
  });

  test.each([
    { stops: "in time", delay: "5s", exitCode: 143 },
    { stops: "when its grace is over at the latest", delay: "6s", exitCode: 143 },
    { stops: "not before it is killed", delay: "7s", exitCode: 137 },
  ])("a container that stops $stops ends with $exitCode", ({ delay, exitCode }) => {
    const testbed = testNode();
    const pod = testPod({ annotations: { "sim.muster.dev/stop-delay": delay } });
    pod.metadata.finalizers = ["example.com/hold"];
    testbed.add(pod);
    testbed.run(1000);
    testbed.remove("p", 6);
    testbed.run(10_000);
    expect(testbed.pod("p").status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({
      exitCode,
      reason: "Error",
    });
  });

  test("a finalizer keeps the object, with its containers ended", () => {
    const testbed = testNode();
    const pod = testPod();
    pod.metadata.finalizers = ["example.com/hold"];
    testbed.add(pod);
    testbed.run(1000);
    testbed.remove("p", 30);
    testbed.run(60_000);
    const now = testbed.pod("p");
    expect(now.status).toMatchObject({ phase: "Failed" });
    expect(now.status?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(143);
    const { resourceVersion } = now.metadata;
    testbed.run(60_000);
    expect(testbed.pod("p").metadata.resourceVersion).toBe(resourceVersion);
  });

  test("devices of a forced delete stay in use until the containers have stopped", () => {
    const testbed = testNode({ faults: [fault({ kind: "slow-release", delay: "5s" })] });
    testbed.add(testPod({ name: "a", gpus: 8 }));
    testbed.run(1000);
    testbed.remove("a", 0);
    testbed.add(testPod({ name: "b", gpus: 1 }));
    testbed.run(0);
    expect(testbed.pod("b").status?.reason).toBe("UnexpectedAdmissionError");
    testbed.run(5000);
    testbed.add(testPod({ name: "c", gpus: 8 }));
    testbed.run(0);
    expect(testbed.pod("c").status?.phase).toBe("Running");
  });
});

describe("nodes that fall silent and return", () => {
  test("a pod whose Ready became False while the node was silent is Ready again", () => {
    const testbed = testNode({ faults: [fault({ kind: "heartbeat-stop", node: "pool-0", in: "10s", for: "60s" })] });
    testbed.add(testPod());
    testbed.run(20_000);
    const pod = structuredClone(testbed.pod("p"));
    for (const each of pod.status?.conditions ?? []) if (each.type === "Ready") each.status = "False";
    testbed.pods.set("p", pod);
    testbed.run(30_000);
    expect(condition(testbed.pod("p"), "Ready")).toBe("False");
    testbed.run(30_000);
    expect(condition(testbed.pod("p"), "Ready")).toBe("True");
    expect(testbed.phases.get("p")).toEqual(["Pending", "Running"]);
  });

  test("a reboot restarts containers once, and ends pods that never restart", () => {
    const testbed = testNode({ faults: [fault({ kind: "node-reboot", node: "pool-0", in: "10s", down: "30s" })] });
    testbed.add(testPod({ name: "a" }));
    testbed.add(testPod({ name: "b", spec: { restartPolicy: "Never" } }));
    testbed.run(120_000);
    expect(states(testbed.pod("a"))).toEqual(["main:running#1"]);
    expect(testbed.pod("b").status).toMatchObject({ phase: "Failed" });
  });

  test("an unhealthy GPU may end its container, and no others", () => {
    const testbed = testNode({
      faults: [fault({ kind: "gpu-unhealthy", node: "pool-0", device: 0, in: "10s", kill: true })],
    });
    testbed.add(testPod({ name: "a", gpus: 1 }));
    testbed.add(testPod({ name: "b", gpus: 1 }));
    testbed.run(20_000);
    expect([...states(testbed.pod("a")), ...states(testbed.pod("b"))]).toEqual(["main:running#1", "main:running"]);
  });
});

describe("properties", () => {
  const order = ["Pending", "Running", "Succeeded", "Failed"];
  const wishes = fc.record({
    gpus: fc.integer({ min: 0, max: 8 }),
    job: fc.boolean(),
    runSeconds: fc.integer({ min: 0, max: 30 }),
    outcome: fc.constantFrom("Completed", "Error", "OOMKilled", "ImagePullBackOff"),
    policy: fc.constantFrom("Always", "OnFailure", "Never"),
    init: fc.boolean(),
    side: fc.boolean(),
    deleteAfterMs: fc.option(fc.integer({ min: 0, max: 60_000 }), { nil: undefined }),
  });

  test("phases never go back, no device has two running holders, and every deleted pod ends", () => {
    fc.assert(
      fc.property(fc.array(wishes, { minLength: 1, maxLength: 8 }), (list) => {
        const testbed = testNode({ options: { delays: generalDelays } });
        for (const [i, wish] of list.entries()) {
          const initContainers = [...(wish.init ? [init] : []), ...(wish.side ? [sidecar] : [])];
          testbed.add(
            testPod({
              name: `p${i}`,
              gpus: wish.gpus,
              ...(wish.job ? { owner: "Job" } : {}),
              spec: { restartPolicy: wish.policy, initContainers },
              annotations: {
                "sim.muster.dev/run-duration": `${wish.runSeconds}s`,
                "sim.muster.dev/outcome": wish.outcome,
              },
            }),
          );
        }
        for (let second = 0; second < 70; second++) {
          testbed.run(1000);
          for (const [i, wish] of list.entries()) {
            const isDue = wish.deleteAfterMs !== undefined && wish.deleteAfterMs <= second * 1000;
            const pod = testbed.pods.get(`p${i}`);
            if (isDue && pod !== undefined && pod.metadata.deletionTimestamp === undefined) testbed.remove(`p${i}`, 5);
          }
          const holders = new Map<string, string>();
          for (const pod of testbed.pods.values()) {
            if (pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") continue;
            for (const ids of Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each))) {
              for (const id of ids) {
                expect(holders.get(id) ?? pod.metadata.uid).toBe(pod.metadata.uid);
                holders.set(id, pod.metadata.uid);
              }
            }
          }
        }
        for (const phases of testbed.phases.values()) {
          const ranks = phases.map((phase) => Math.min(order.indexOf(phase), 2));
          expect(ranks).toEqual([...ranks].sort((a, b) => a - b));
          expect(new Set(phases).size).toBe(phases.length);
        }
        testbed.run(20_000);
        for (const [i, wish] of list.entries())
          if (wish.deleteAfterMs !== undefined) expect(testbed.pods.has(`p${i}`)).toBe(false);
      }),
      { numRuns: 40 },
    );
  });

  test("a node that was restarted continues from the object alone", () => {
    const testbed = testNode({ options: { delays: generalDelays }, forgetful: true });
    testbed.add(testPod({ owner: "Job", spec: { initContainers: [init, sidecar] } }));
    testbed.add(testPod({ name: "q", annotations: { "sim.muster.dev/outcome": "Error" } }));
    testbed.run(100_000);
    expect(testbed.phases.get("p")).toEqual(["Pending", "Running", "Succeeded"]);
    expect(testbed.pod("q").status?.containerStatuses?.[0]?.restartCount).toBe(4);
  });
});

describe("a pod with very many containers", () => {
  const named = (count: number, start = "c") =>
    Array.from({ length: count }, (_, at) => ({ name: `${start}${at}`, image: "i" }));

  /** How often the names of containers are read until the pod runs. */
  function looks(count: number): number {
    const testbed = testNode();
    testbed.add(testPod({ spec: { containers: named(count) } }));
    let reads = 0;
    const { spec } = testbed.pod("p");
    for (const container of spec?.containers ?? []) {
      const { name } = container;
      Object.defineProperty(container, "name", {
        enumerable: true,
        get: () => {
          reads++;
          return name;
        },
      });
    }
    testbed.run(0);
    expect(testbed.phases.get("p")).toContain("Running");
    return reads;
  }

  test("costs work in proportion to them", () => {
    // Twice the containers: twice the work, not four times.
    expect(looks(1000) / looks(500)).toBeLessThan(2.5);
  });

  test("starts all of them in one write, with a few Events", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { containers: named(5000) } }));
    const before = testbed.writes;
    testbed.run(0);
    const running = testbed.pod("p").status?.containerStatuses?.filter(({ state, ready }) => state?.running && ready);
    expect(running).toHaveLength(5000);
    // One for the node's lease, one for its status, one for the pod.
    expect(testbed.writes - before).toBeLessThanOrEqual(4);
    expect(testbed.events.length).toBeLessThan(100);
  });

  test("all of them end with it when it is deleted", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { containers: named(5000) } }));
    testbed.run(0);
    testbed.remove("p", 30);
    testbed.run(60_000);
    expect(testbed.pods.has("p")).toBe(false);
  });

  test("runs more init containers than one reconcile handles, in several reconciles", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { initContainers: named(1500, "i"), containers: named(1) } }));
    testbed.run(0);
    expect(testbed.pod("p").status?.phase).toBe("Running");
    expect(testbed.pod("p").status?.initContainerStatuses?.every(({ ready }) => ready)).toBe(true);
  });
});

test("a pod whose conditions have null for times that were never set is not written again", () => {
  const testbed = testNode();
  testbed.add(testPod({}));
  testbed.run(0);
  expect(testbed.pod("p").status?.conditions?.every((each) => each.lastProbeTime === null)).toBe(true);
  const written = testbed.writes;
  testbed.faults = [];
  for (let look = 0; look < 10; look++) testbed.run(0);
  expect(testbed.writes).toBe(written);
});
