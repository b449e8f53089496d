import { expect, test } from "vitest";
import { livelyDelays } from "../../src/kubelet/pods/podPlan.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

/**
 * Victims with a grace of zero are gone from the API at once, while their containers still have to be killed. A kubelet
 * frees their devices with the API's deletion, and the preemptor that is bound a moment later is admitted.
 */

const schedulers = ["kai-scheduler", "default-scheduler"] as const;
const words = (scheduler: string, priorityClassName: string, graceSeconds: number, gpus = 4) => ({
  gpus,
  scheduler,
  labels: { priorityClassName },
  spec: { terminationGracePeriodSeconds: graceSeconds, priorityClassName },
});
const create = (nodes = 2) => ScheduleCluster.create([`h100=${nodes}`], {}, { nodes: { delays: livelyDelays } });

// Four nodes, 25 times, with both schedulers.
test.each(schedulers)(
  "a preemptor of victims with a grace of zero is admitted, 100 of 100 times (%s)",
  async (scheduler) => {
    const nodes = [0, 1, 2, 3];
    const cluster = await create(nodes.length);
    let admitted = 0;
    for (let round = 0; round < 25; round++) {
      for (const at of nodes) {
        for (const half of ["a", "b"]) await cluster.pod(`low-${round}-${at}${half}`, words(scheduler, "train", 0));
      }
      await cluster.run(1.2);
      for (const at of nodes) await cluster.pod(`high-${round}-${at}`, words(scheduler, "build-preemptible", 0, 8));
      // `run` fails when a node has refused a pod.
      await cluster.run(1.4);
      admitted += nodes.filter((at) => cluster.pod1(`high-${round}-${at}`).status?.phase === "Running").length;
      for (const { metadata } of cluster.pods()) {
        await cluster.api.delete("/pods", `default/${metadata.name}`, { gracePeriodSeconds: 0 });
      }
      await cluster.run(0.1);
    }
    expect(admitted).toBe(100);
  },
);

test.each(schedulers)("an eviction leaves a pod the grace that it asks for (%s)", async (scheduler) => {
  const cluster = await create();
  for (const at of [0, 1]) await cluster.pod(`low-${at}`, words(scheduler, "train", 7, 8));
  await cluster.run(1.2);
  await cluster.pod("high", words(scheduler, "build-preemptible", 0, 8));
  await cluster.run(0.1);
  const leaving = cluster.pods().filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  expect(leaving.map(({ metadata }) => metadata.deletionGracePeriodSeconds)).toEqual([7]);
  expect(cluster.pod1("high").spec?.nodeName).toBeUndefined();
});

test("a pod that a node refused for want of devices is tried again by its owner, and one without an owner is not", async () => {
  const cluster = await create();
  for (const node of ["h100-0", "h100-1"]) {
    await cluster.api.edit("/nodes", node, ({ metadata }) => {
      const faults = JSON.stringify([{ kind: "slow-release", delay: "3s" }]);
      metadata.annotations = { ...metadata.annotations, "sim.muster.dev/faults": faults };
    });
  }
  for (const at of [0, 1]) await cluster.pod(`low-${at}`, words("kai-scheduler", "train", 0, 8));
  await cluster.run(1.2);
  const { labels, spec } = words("kai-scheduler", "build-preemptible", 0);
  const resources = { limits: { "nvidia.com/gpu": "8" } };
  await cluster.create("batch/jobs", {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "high", namespace: "default", labels },
    spec: {
      template: {
        metadata: { labels, annotations: { "sim.muster.dev/run-duration": "1h" } },
        spec: {
          ...spec,
          schedulerName: "kai-scheduler",
          restartPolicy: "Never",
          containers: [{ name: "main", image: "i", resources }],
        },
      },
    },
  });
  await cluster.pod("alone", words("kai-scheduler", "build-preemptible", 0, 8));
  await cluster.run(30, { refuses: true });
  const ofJob = cluster.pods().filter(({ metadata }) => metadata.ownerReferences?.[0]?.kind === "Job");
  const shown = ({ status }: Pod) => status?.reason ?? status?.phase;
  expect(ofJob.map(shown).sort()).toEqual(["Running", "UnexpectedAdmissionError"]);
  expect(shown(cluster.pod1("alone"))).toBe("UnexpectedAdmissionError");
});
