/** KAI's quick start: whole GPUs, jobs, gangs and priorities, in real containers. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Job, Pod } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { gpusOfNode, type RealCluster } from "../kit/cluster.ts";
import { isRunning, jobObject, podObject, waits } from "../kit/objects.ts";
import { until } from "../kit/processes.ts";

const total = 2 * gpusOfNode;

export function quickStartSuite(cluster: RealCluster): void {
  describe("quick start", () => {
    const namespace = "quick-start";
    const named = async (prefix: string): Promise<Pod[]> =>
      (await cluster.pods(namespace)).filter(({ metadata }) => metadata.name.startsWith(prefix));
    const runningOf = async (prefix: string): Promise<Pod[]> => (await named(prefix)).filter(isRunning);
    beforeAll(() => cluster.namespace(namespace));
    beforeEach(async () => {
      await cluster.kubectl("-n", namespace, "delete", "jobs,pods", "--all", "--wait=false");
      await until(async () => (await cluster.pods(namespace)).length === 0);
    });
    afterAll(() => cluster.clean(namespace));

    test("a Job of three pods with two GPUs each completes, and no container sees a GPU of another", async () => {
      await cluster.apply(namespace, jobObject("smi", 3, { gpus: 2, script: "nvidia-smi -L; sleep 3" }));
      await until(async () => {
        const [job] = await cluster.list<Job>(builtin.Job, { namespace });
        return job?.status?.succeeded === 3;
      });
      const seen: string[] = [];
      for (const { metadata, spec } of await named("smi")) {
        const listing = await cluster.logs(namespace, metadata.name);
        const uuids = [...listing.matchAll(/UUID: (\S+)\)/g)].map(([, uuid]) => `${spec?.nodeName} ${uuid}`);
        expect(uuids).toHaveLength(2);
        seen.push(...uuids);
      }
      expect(new Set(seen).size).toBe(6);
    });

    test("a group that waits for a fourth pod starts none; `why` says so; with it all start", async () => {
      const group = {
        ...{ apiVersion: "scheduling.run.ai/v2alpha2", kind: "PodGroup", metadata: { name: "four" } },
        spec: { minMember: 4, queue: "default-queue" },
      };
      const member = (at: number): object =>
        podObject(`four-${at}`, { gpus: 1, annotations: { "pod-group-name": "four" } });
      await cluster.apply(namespace, group, member(0), member(1), member(2));
      await until(async () => {
        const { out } = await cluster.muster("why", `${namespace}/four-0`);
        return /4 pods, 3 exist/.test(out);
      });
      expect(await runningOf("four")).toEqual([]);
      await cluster.apply(namespace, member(3));
      await until(async () => (await runningOf("four")).length === 4);
    });

    test("a higher priority takes the GPUs of a lower one, and the kubelet refuses no pod", async () => {
      const low = { gpus: 1, spec: { priorityClassName: "train" } };
      await cluster.apply(namespace, ...Array.from({ length: total }, (_, at) => podObject(`low-${at}`, low)));
      await until(async () => (await runningOf("low")).length === total);
      const high = { gpus: 2, spec: { priorityClassName: "build-preemptible" } };
      await cluster.apply(namespace, podObject("high", high));
      await until(async () => (await runningOf("high")).length === 1);
      expect((await runningOf("low")).length).toBe(total - 2);
      const failed = (await cluster.pods(namespace)).filter(({ status }) => status?.phase === "Failed");
      expect(failed.map(({ metadata, status }) => `${metadata.name} ${status?.reason}`)).toEqual([]);
    });

    test("A4: deleting a gang that waits evicts nothing that runs", async () => {
      const low = { gpus: 1, spec: { priorityClassName: "train" } };
      await cluster.apply(namespace, ...Array.from({ length: total }, (_, at) => podObject(`low-${at}`, low)));
      await until(async () => (await runningOf("low")).length === total);
      const before = (await runningOf("low")).map(({ metadata }) => metadata.uid).sort();
      const gang = { gpus: gpusOfNode, script: waits, spec: { priorityClassName: "build-preemptible" } };
      const wanted = { ...gang, annotations: { "kai.scheduler/batch-min-member": "60" } };
      await cluster.apply(namespace, jobObject("too-big", 60, wanted));
      await until(async () => (await named("too-big")).length === 60);
      await cluster.kubectl("-n", namespace, "delete", "job", "too-big", "--wait=false");
      await until(async () => (await named("too-big")).length === 0);
      expect((await runningOf("low")).map(({ metadata }) => metadata.uid).sort()).toEqual(before);
    });
  });
}
