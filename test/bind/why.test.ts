/** `muster why` on pods that ask for a share of a GPU and do not start: each cause is produced on a running cluster. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyShare } from "../../src/decide/bind/whyShare.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";
import { podsRef as pods, sharedPod, UpCluster } from "./upCluster.ts";

const nodes = builtin.Node;

describe("muster why, of a pod that requests a GPU share", () => {
  const up = new UpCluster();
  const conditionOf = async (name: string): Promise<string | undefined> =>
    (await up.pod(name))?.status?.conditions?.find(({ type }) => type === "PodScheduled")?.message;
  beforeAll(async () => void (await up.start("--memory", "--pool", "t4=1")));
  afterAll(() => up.stop());

  test("says that a node has not reported the device", async () => {
    const faults = JSON.stringify([{ kind: "reservation-never" }]);
    const patch = (value: string | null) =>
      up.api.patch(
        { ...nodes, namespace: "", name: "t4-0" },
        { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": value } } } },
      );
    await patch(faults);
    await up.share("silent", "0.5");
    const { message, cure, text } = await up.why("default/silent", "DeviceNotReported");
    expect(message).toMatch(
      /^node t4-0 (runs|starts) the reservation gpu-reservation-[0-9a-f]{16} of GPU group \S+, and has not reported/,
    );
    expect(cure).toContain("kai-resource-reservation");
    expect(cure).toContain("run.ai/reserve_for_gpu_index");
    expect(text).toContain("DeviceNotReported: ");
    await patch(null);
    await up.until(async () => (await up.pod("silent"))?.status?.phase === "Running");
    await up.api.delete({ ...pods, namespace: "default", name: "silent" }, { gracePeriodSeconds: 1 });
    await up.until(async () => (await up.pod("silent")) === undefined);
  });

  test("says that no GPU has room, how much the emptiest one has, and which pods would have to be evicted", async () => {
    for (let i = 0; i < 4; i++) await up.share(`big-${i}`, "0.7");
    await up.until(async () =>
      (await Promise.all([0, 1, 2, 3].map((i) => up.pod(`big-${i}`)))).every((pod) => pod?.spec?.nodeName),
    );
    await up.share("late", "0.5");
    const { message, cure } = await up.why("default/late", "NoGpuWithRoom");
    expect(message).toBe(
      "pod default/late requests 0.50 of a GPU, and no GPU has that: t4-0 has 4 GPUs, none of them free, and the most that a shared one has left is 0.30",
    );
    expect(cure).toMatch(/^it would fit with default\/big-\d deleted, or request 0\.30 or less$/);
    await up.until(async () => (await conditionOf("late")) === `${message}. To run: ${cure}`);
    await up.share("small", "0.3");
    await up.until(async () => (await up.pod("small"))?.status?.phase === "Running");
  });

  test("says that a GPU has room and its node lacks another resource, and which", async () => {
    await up.api.delete({ ...pods, namespace: "default", name: "big-0" }, { gracePeriodSeconds: 1 });
    await up.api.delete({ ...pods, namespace: "default", name: "late" }, { gracePeriodSeconds: 0 });
    await up.until(async () => (await up.pod("big-0")) === undefined);
    await up.create(pods, {
      ...sharedPod("busy", "0.1", { cpu: "47" }),
      metadata: { name: "busy", namespace: "default" },
      spec: { containers: [{ name: "main", image: "i", resources: { requests: { cpu: "46" } } }] },
    });
    await up.until(async () => (await up.pod("busy"))?.status?.phase === "Running");
    await up.share("starved", "0.5", { cpu: "4" });
    const { message, cure } = await up.why("default/starved", "NodeFull");
    expect(message).toMatch(
      /^pod default\/starved requests 0\.50 of a GPU, for which one node has room on a GPU, but t4-0 lacks \d(\.\d+)? CPU cores$/,
    );
    expect(cure).toMatch(/^free \d(\.\d+)? CPU cores on t4-0, or add a node$/);
    await up.until(async () => (await conditionOf("starved")) === `${message}. To run: ${cure}`);
  });
});

test("muster why, of a workload whose pods are refused, says that GPU sharing is disabled", async () => {
  const up = new UpCluster();
  try {
    await up.start("--memory", "--pool", "t4=1", "--no-gpu-sharing");
    const refused = await up.api.create(pods, sharedPod("bare", "0.5") as KubeObject);
    expect(refused).toMatchObject({ ok: false });
    expect(refused.ok ? "" : refused.message).toContain("GPU sharing is disabled");
    const { metadata, spec } = sharedPod("x", "0.5") as {
      metadata: { labels: object; annotations: object };
      spec: object;
    };
    await up.create(builtin.Job, {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "train", namespace: "default" },
      spec: {
        template: {
          metadata: { labels: metadata.labels, annotations: metadata.annotations },
          spec: { ...spec, restartPolicy: "Never" },
        },
      },
    });
    const { kind, message, cure } = await up.why("default/train", "SharingOff");
    expect(kind).toBe("Job");
    expect(message).toContain("metadata.annotations[gpu-fraction]");
    expect(cure).toContain("nvidia.com/gpu");
    expect(cure).toContain("--no-gpu-sharing");
  } finally {
    await up.stop();
  }
});

test("a bind that timed out waiting for its node is still the reason afterwards", async () => {
  const cluster = await BindCluster.create();
  const pod = await cluster.pod("f", { "gpu-fraction": "0.5" });
  await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["g"] });
  const never = JSON.stringify([{ kind: "reservation-never" }]);
  await cluster.admin.patch(
    { ...nodes, namespace: "", name: "h100-0" },
    { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": never } } } },
  );
  await cluster.startBinder();
  await cluster.run(45);
  const [failed] = cluster.pods();
  const all = [...cluster.pods(), ...cluster.reservations()];
  const answer = whyShare(failed as Pod, { pods: all, requests: [] });
  expect(answer?.cause).toBe("DeviceNotReported");
  expect(answer?.message).toContain("and did not report within 40 s which device it holds");
});
