/** Pods whose containers have commands that are understood: how long they run, how they end, and what probes see. */
import { describe, expect, test } from "vitest";
import { testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Container, Pod, PodSpec } from "../../model/kubernetes.generated.ts";

const sh = (script: string): Partial<Container> => ({ command: ["sh", "-c", script] });
const main = (container: Partial<Container>): Container => ({ name: "main", image: "busybox", ...container });

function runFor(ms: number, spec: Partial<PodSpec>, annotations: Record<string, string> = {}) {
  const testbed = testNode();
  testbed.add(testPod({ spec, annotations }));
  testbed.run(ms);
  return { testbed, pod: testbed.pod("p"), phases: testbed.phases.get("p") };
}

function stateOf(pod: Pod, name = "main"): string {
  const all = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  const status = all.find((each) => each.name === name);
  const { running, waiting, terminated } = status?.state ?? {};
  const what = running ? "running" : (waiting?.reason ?? `${terminated?.reason} ${terminated?.exitCode}`);
  return `${what}#${status?.restartCount ?? 0}`;
}

describe("a pod that never restarts", () => {
  test.each<[string, Partial<Container>, number, string, string]>([
    ["succeeds with true", { command: ["true"] }, 0, "Succeeded", "Completed 0#0"],
    ["fails with false", { command: ["/bin/false"] }, 0, "Failed", "Error 1#0"],
    ["fails with its exit code", sh("exit 7"), 0, "Failed", "Error 7#0"],
    ["runs for as long as it sleeps", { command: ["sleep", "30"] }, 29_000, "Running", "running#0"],
    ["ends after its sleep", { command: ["sleep", "30"] }, 30_000, "Succeeded", "Completed 0#0"],
    ["runs for ever with sleep infinity", { command: ["sleep", "infinity"] }, 3_600_000, "Running", "running#0"],
    ["runs arguments that are a command", { args: ["echo", "hi"] }, 0, "Succeeded", "Completed 0#0"],
    ["runs for ever with an unknown program", { command: ["python", "x.py"] }, 3_600_000, "Running", "running#0"],
  ])("%s", (_, container, ms, phase, state) => {
    const { pod } = runFor(ms, { restartPolicy: "Never", containers: [main(container)] });
    expect([pod.status?.phase, stateOf(pod)]).toEqual([phase, state]);
  });

  test("is shown as Running and ready before it ends", () => {
    const testbed = testNode();
    testbed.add(testPod({ spec: { restartPolicy: "Never", containers: [main({ command: ["true"] })] } }));
    testbed.run(0);
    expect(testbed.phases.get("p")).toEqual(["Pending", "Running", "Succeeded"]);
  });

  test("has its termination log as message, or its output on error", () => {
    const spec = (container: Partial<Container>) => ({ restartPolicy: "Never", containers: [main(container)] });
    const messageOf = (container: Partial<Container>) =>
      runFor(0, spec(container)).pod.status?.containerStatuses?.[0]?.state?.terminated?.message;
    expect(messageOf(sh("echo -n DONE > /dev/termination-log"))).toBe("DONE");
    const terminationMessagePolicy = "FallbackToLogsOnError";
    expect(messageOf({ ...sh("echo why; exit 1"), terminationMessagePolicy })).toBe("why\n");
    expect(messageOf({ ...sh("echo why; exit 0"), terminationMessagePolicy })).toBeUndefined();
  });

  test("annotations override its command", () => {
    const spec = { restartPolicy: "Never", containers: [main({ command: ["false"] })] };
    expect(runFor(60_000, spec, { "sim.muster.dev/run-duration": "1h" }).pod.status?.phase).toBe("Running");
    expect(stateOf(runFor(60_000, spec, { "sim.muster.dev/exit-code": "9" }).pod)).toBe("Error 9#0");
  });
});

describe("restart policies", () => {
  test("OnFailure restarts a failure until it succeeds", () => {
    const once = "if [ -r /data/ran ]; then exit 0; fi; touch /data/ran; exit 1";
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const spec = { restartPolicy: "OnFailure", containers: [main({ ...sh(once), volumeMounts })] };
    const { pod } = runFor(60_000, spec);
    expect([pod.status?.phase, stateOf(pod)]).toEqual(["Succeeded", "Completed 0#1"]);
  });

  test("Always restarts a success with back-off", () => {
    const { pod, phases } = runFor(5_000, { containers: [main({ command: ["true"] })] });
    expect([phases, stateOf(pod)]).toEqual([["Pending", "Running"], "CrashLoopBackOff#1"]);
  });
});

describe("init containers", () => {
  const init = (container: Partial<Container>): Container => ({ name: "init", image: "busybox", ...container });

  test("that succeed are followed by the main container", () => {
    const { pod } = runFor(5_000, { initContainers: [init({ command: ["sleep", "4"] })], containers: [main({})] });
    expect([stateOf(pod, "init"), stateOf(pod)]).toEqual(["Completed 0#0", "running#0"]);
  });

  test("that fail are restarted, and the main container waits", () => {
    const { pod } = runFor(5_000, { initContainers: [init({ command: ["false"] })], containers: [main({})] });
    expect([pod.status?.phase, stateOf(pod, "init"), stateOf(pod)]).toEqual([
      "Pending",
      "CrashLoopBackOff#1",
      "PodInitializing#0",
    ]);
  });

  test("that fail end a pod that never restarts", () => {
    const spec = { restartPolicy: "Never", initContainers: [init({ command: ["false"] })], containers: [main({})] };
    expect(runFor(0, spec).pod.status?.phase).toBe("Failed");
  });
});

describe("probes and hooks", () => {
  const forever = { command: ["sleep", "infinity"] };
  const exec = (...command: string[]) => ({ exec: { command } });
  const readyOf = (pod: Pod) => pod.status?.conditions?.find(({ type }) => type === "Ready")?.status;

  test("a readiness probe that fails keeps a running pod unready", () => {
    const { pod } = runFor(600_000, { containers: [main({ ...forever, readinessProbe: exec("false") })] });
    expect([pod.status?.phase, readyOf(pod), stateOf(pod)]).toEqual(["Running", "False", "running#0"]);
  });

  test("a readiness probe that succeeds later makes the pod ready then", () => {
    const container = main({
      ...sh("sleep 12; touch /tmp/ready; sleep infinity"),
      readinessProbe: { ...exec("cat", "/tmp/ready"), periodSeconds: 5 },
    });
    expect(readyOf(runFor(14_000, { containers: [container] }).pod)).toBe("False");
    expect(readyOf(runFor(15_000, { containers: [container] }).pod)).toBe("True");
  });

  test("a liveness probe that fails restarts the container after its threshold", () => {
    const container = main({
      ...sh("touch /tmp/healthy; sleep 10; rm /tmp/healthy; sleep 600"),
      livenessProbe: { ...exec("cat", "/tmp/healthy"), initialDelaySeconds: 5, periodSeconds: 5, failureThreshold: 1 },
    });
    expect(stateOf(runFor(9_000, { containers: [container] }).pod)).toBe("running#0");
    const { pod, testbed } = runFor(11_000, { containers: [container] });
    expect(stateOf(pod)).toBe("running#1");
    expect(pod.status?.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({ exitCode: 137, reason: "Error" });
    expect(testbed.events.map(({ reason }) => reason)).toEqual(expect.arrayContaining(["Unhealthy", "Killing"]));
  });

  test("a startup probe that never succeeds kills the container", () => {
    const startupProbe = { ...exec("false"), periodSeconds: 1, failureThreshold: 3 };
    expect(stateOf(runFor(1_500, { containers: [main({ ...forever, startupProbe })] }).pod)).toBe("running#0");
    expect(stateOf(runFor(2_500, { containers: [main({ ...forever, startupProbe })] }).pod)).toBe("running#1");
  });

  test("a postStart hook that fails kills the container", () => {
    const lifecycle = { postStart: exec("false") };
    expect(stateOf(runFor(1_000, { containers: [main({ ...forever, lifecycle })] }).pod)).toBe("CrashLoopBackOff#1");
  });

  test("a preStop command delays the end of the container, within its grace", () => {
    const lifecycle = { preStop: exec("sh", "-c", "sleep 10") };
    const { testbed } = runFor(1_000, { containers: [main({ ...forever, lifecycle })] });
    testbed.remove("p", 30);
    testbed.run(9_000);
    expect(stateOf(testbed.pod("p"))).toBe("running#0");
    testbed.run(25_000);
    expect(testbed.pods.has("p")).toBe(false);
  });
});
