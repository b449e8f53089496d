import { describe, expect, test } from "vitest";
import { startMs, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { findProfile, profilesWith } from "../../model/profiles/profiles.ts";
import { nodeObject, simNode } from "../node/simNode.ts";
import { type LogSelection, logLines, logRunOf, logText, nextLogMs } from "./cannedLog.ts";
import { containerUsage, gpuUtilisation, nodeUsage } from "./cannedUsage.ts";

const sim = simNode({ clusterSeed: "seed", pool: "pool", profile: findProfile(profilesWith(), "h100"), index: 0 });
const [first = "", second = ""] = sim.devices.map(({ uuid }) => uuid);
const startedAt = new Date(startMs).toISOString();

function running(annotations: Record<string, string> = {}, more: Partial<Pod["status"]> = {}): Pod {
  const devices = JSON.stringify({ main: { "nvidia.com/gpu": [first, second] } });
  const pod = testPod({ gpus: 2, annotations: { "sim.muster.dev/devices": devices, ...annotations } });
  const status = {
    name: "main",
    image: "i",
    imageID: "",
    ready: true,
    restartCount: 0,
    state: { running: { startedAt } },
  };
  return { ...pod, status: { ...pod.status, phase: "Running", containerStatuses: [status], ...more } };
}

const all: LogSelection = { timestamps: false, sinceMs: undefined, tailLines: undefined, limitBytes: undefined };

function textAt(pod: Pod, ms: number, wish: Partial<LogSelection> = {}): string {
  const answer = logRunOf(pod, "main", false);
  return "refused" in answer ? answer.refused : logText(logLines(pod, answer.run, startMs + ms), { ...all, ...wish });
}

describe("a log", () => {
  test("is the same whenever it is read, and grows with time", () => {
    const early = textAt(running(), 25_000);
    expect(early).toBe(textAt(running(), 25_000));
    expect(early.split("\n")).toHaveLength(5);
    expect(textAt(running(), 45_000).startsWith(early)).toBe(true);
  });

  test.each([
    ["from the end", { tailLines: 1 }, "world\n"],
    ["to no lines", { tailLines: 0 }, ""],
    ["by bytes", { limitBytes: 7 }, "hello\nw"],
  ])("is cut %s", (_, wish, text) => {
    expect(textAt(running({ "sim.muster.dev/log": "hello\nworld" }), 0, wish)).toBe(text);
  });

  test("of a container that waits is refused with its reason", () => {
    const waiting = {
      name: "main",
      image: "i",
      imageID: "",
      ready: false,
      restartCount: 0,
      state: { waiting: { reason: "ErrImagePull" } },
    };
    expect(textAt(running({}, { containerStatuses: [waiting] }), 0)).toBe(
      'container "main" in pod "p" is waiting to start: ErrImagePull',
    );
  });

  test("ends with the exit code of the container, and no line follows", () => {
    const finishedAt = new Date(startMs + 15_000).toISOString();
    const state = { terminated: { startedAt, finishedAt, exitCode: 3, reason: "Error" } };
    const ended = { name: "main", image: "i", imageID: "", ready: false, restartCount: 0, state };
    const pod = running({}, { containerStatuses: [ended] });
    expect(textAt(pod, 60_000)).toMatch(/fatal: exit code 3\n$/);
    const answer = logRunOf(pod, "main", false);
    expect("run" in answer && nextLogMs(pod, answer.run, startMs + 15_000)).toBeUndefined();
  });
});

describe("usage", () => {
  const [container] = testPod().spec?.containers ?? [];
  const asking = { name: "main", resources: { requests: { cpu: "2", memory: "1Gi" } } };

  test("is that of KWOK's annotations, else a fraction of the request, else a small amount", () => {
    const own = running({ "kwok.x-k8s.io/usage-cpu": "250m", "kwok.x-k8s.io/usage-memory": "64Mi" });
    expect(containerUsage(own, asking, startMs)).toEqual({ cpuNano: 250_000_000, memoryBytes: 64 << 20 });
    const share = containerUsage(running(), asking, startMs);
    expect(share.cpuNano).toBeGreaterThan(0);
    expect(share.cpuNano).toBeLessThan(2_000_000_000);
    expect(container && containerUsage(running(), container, startMs)).toEqual({
      cpuNano: 1_000_000,
      memoryBytes: 1 << 20,
    });
    expect(containerUsage(running({ "kwok.x-k8s.io/usage-cpu": "nonsense" }), asking, startMs).cpuNano).toBeGreaterThan(
      0,
    );
  });

  test("of a node is that of its pods and a small amount of its own", () => {
    const node = nodeObject(sim, { ordinal: 0, nowMs: startMs }) as never;
    expect(nodeUsage(node, [running()], startMs).cpuNano).toBeGreaterThan(nodeUsage(node, [], startMs).cpuNano);
  });

  test("of a GPU stays in the range of the annotation", () => {
    const busy = [...gpuUtilisation(running({ "sim.muster.dev/gpu-utilization": "40-50" }), startMs).values()];
    expect(busy).toHaveLength(2);
    for (const each of busy) expect([each >= 40, each <= 50]).toEqual([true, true]);
  });
});
