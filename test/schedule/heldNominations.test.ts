import { expect, test } from "vitest";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { delegateKube } from "../../src/sim/delegateKube.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
const gpus = (quota: number) => ({
  resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: open, memory: open },
});
const in_ = (queue: string) => ({ "kai.scheduler/queue": queue });

/** Calls that wait until they are let go. */
class Gate {
  private readonly waiting: (() => void)[] = [];
  isShut = true;

  pass(): Promise<void> {
    return this.isShut ? new Promise((resolve) => this.waiting.push(resolve)) : Promise.resolve();
  }

  open(): void {
    this.isShut = false;
    for (const go of this.waiting.splice(0)) go();
  }

  get count(): number {
    return this.waiting.length;
  }
}

test("a nomination that was withdrawn and made again stays, while its victims terminate", async () => {
  const takingBack = new Gate();
  const evicting = new Gate();
  const between = (kube: KubeApi): KubeApi => ({
    ...delegateKube(kube),
    patch: async (...args) => {
      const text = JSON.stringify(args[1]);
      if (args[0].plural === "pods" && text.includes('"nominatedNodeName":null')) await takingBack.pass();
      return kube.patch(...args);
    },
    delete: async (...args) => {
      if (args[0].plural === "pods") await evicting.pass();
      return kube.delete(...args);
    },
  });
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { between });
  await cluster.queue("mine", gpus(0));
  await cluster.queue("theirs", gpus(8));
  for (let at = 0; at < 8; at++) await cluster.pod(`t${at}`, { gpus: 1, labels: in_("theirs") });
  await cluster.run(2);
  await cluster.pod("m", { gpus: 1, labels: in_("mine") });
  await cluster.run(1);
  const m = { ...builtin.Pod, namespace: "default", name: "m" };
  const pod = (): Pod => cluster.pods().find(({ metadata }) => metadata.name === "m") as Pod;
  await cluster.admin.patch(
    { ...m, subresource: "status" },
    { type: "merge", body: { status: { nominatedNodeName: "h100-0" } } },
  );
  await cluster.run(1);
  expect(takingBack.count).toBe(1);
  for (const [name, quota] of [
    ["theirs", 4],
    ["mine", 4],
  ] as const) {
    await cluster.admin.patch(
      { group: "scheduling.run.ai", version: "v2", plural: "queues", namespace: "", name },
      { type: "merge", body: { spec: { resources: { gpu: { quota } } } } },
    );
  }
  await cluster.run(1);
  expect(evicting.count).toBe(1);
  takingBack.open();
  await cluster.run(3);
  expect(pod().status?.nominatedNodeName).toBe("h100-0");
  evicting.open();
  await cluster.run(5);
  expect(pod().status?.phase).toBe("Running");
});
