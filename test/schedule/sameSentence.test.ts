/** Why something waits is one sentence: in the pod's condition, in its event, in `muster why` and in `muster q`. */
import { expect, test } from "vitest";
import { schedulingObjects } from "../../src/cli/cluster/schedulingObjects.ts";
import { answerWhy, jobRows } from "../../src/decide/schedule/explain/report.ts";
import { poolClusters } from "../../src/decide/schedule/poolClusters.ts";
import type { PodGroup } from "../../src/model/scheduling/podGroup.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

/** What `muster why` and `muster q` say, from the objects as they are. */
async function asked(cluster: ScheduleCluster, name: string) {
  const nowMs = cluster.api.clock.nowMs();
  const read = await schedulingObjects(cluster.admin, () => nowMs);
  if ("ok" in read) throw new Error(read.refusal.message);
  const pools = poolClusters(read.objects, read.shards);
  const answers = pools.flatMap((each) => answerWhy(each, name, nowMs));
  return { answers, rows: pools.flatMap((each) => jobRows(each, nowMs)) };
}

/** The one sentence about a pod; fails when two places differ. */
async function sentenceOf(cluster: ScheduleCluster, pod: string): Promise<string> {
  const { answers, rows } = await asked(cluster, `default/${pod}`);
  expect(answers.map(({ next }) => next)).toEqual([""]);
  const [answer] = answers;
  const sentence = `${answer?.message}. To run: ${answer?.cure}`;
  expect(rows.map(({ message }) => message)).toContain(sentence);
  const condition = cluster.pod1(pod).status?.conditions?.find(({ type }) => type === "PodScheduled");
  expect(condition?.message).toBe(sentence);
  const notes = cluster
    .all<{ involvedObject?: { name?: string }; message?: string; note?: string }>("/events")
    .filter(({ involvedObject }) => involvedObject?.name === pod)
    .map(({ message, note }) => message ?? note);
  expect(notes).toContain(sentence);
  return sentence;
}

const conditionsOf = (cluster: ScheduleCluster, group: string) =>
  (cluster.api.get("scheduling.run.ai/podgroups", `default/${group}`) as unknown as PodGroup).status
    ?.schedulingConditions;

const grouped = (name: string) => ({ "pod-group-name": name });

test("of a node pool without a scheduler, until one serves it", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  await cluster.create("scheduling.run.ai/podgroups", {
    apiVersion: "scheduling.run.ai/v2alpha2",
    kind: "PodGroup",
    metadata: { name: "g", namespace: "default", labels: { "kai.scheduler/node-pool": "gold" } },
    spec: { queue: "default-queue", minMember: 1 },
  });
  await cluster.pod("p", { gpus: 1, annotations: grouped("g") });
  await cluster.run(3);
  const says =
    "no scheduler serves node pool gold: no SchedulingShard has it as its partitionLabelValue. To run: create a SchedulingShard with partitionLabelValue gold, or remove the label kai.scheduler/node-pool from PodGroup default/g";
  expect(await sentenceOf(cluster, "p")).toBe(says);
  expect(conditionsOf(cluster, "g")).toMatchObject([{ nodePool: "gold", reason: "NoScheduler", message: says }]);
  await cluster.create("kai.scheduler/schedulingshards", {
    apiVersion: "kai.scheduler/v1",
    kind: "SchedulingShard",
    metadata: { name: "gold" },
    spec: { partitionLabelValue: "gold" },
  });
  await cluster.run(20);
  expect(await sentenceOf(cluster, "p")).toContain("queue default-queue");
  expect(conditionsOf(cluster, "g")).toMatchObject([{ nodePool: "gold", reason: "QueueTakesNoPods" }]);
  const ref = {
    group: "scheduling.run.ai",
    version: "v2alpha2",
    plural: "podgroups",
    namespace: "default",
    name: "g",
  };
  await cluster.admin.patch(ref, {
    type: "merge",
    body: { metadata: { labels: { "kai.scheduler/node-pool": null } } },
  });
  await cluster.run(3);
  expect(cluster.pod1("p").spec?.nodeName).toBeDefined();
});

test("of a group that does not exist", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("p", { gpus: 1, annotations: grouped("nope") });
  await cluster.run(3);
  expect(await sentenceOf(cluster, "p")).toBe(
    "PodGroup default/nope does not exist, and the pod's annotation pod-group-name names it. To run: create PodGroup default/nope, or remove the annotation",
  );
  const { answers } = await asked(cluster, "nope");
  expect(answers).toMatchObject([{ kind: "PodGroup", state: "does not exist, 1 pods wait for it" }]);
});

test("of a ConfigMap that does not exist", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const envFrom = [{ configMapRef: { name: "settings" } }];
  await cluster.pod("p", { spec: { containers: [{ name: "c", image: "i", envFrom }] } });
  await cluster.run(3);
  expect(await sentenceOf(cluster, "p")).toBe(
    "pod default/p: ConfigMap default/settings does not exist. To run: create ConfigMap default/settings",
  );
});

test("of a gang of Kubernetes' own that does not fit", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"], { formsPlainGangs: true });
  await cluster.create("scheduling.k8s.io/podgroups", {
    apiVersion: "scheduling.k8s.io/v1alpha2",
    kind: "PodGroup",
    metadata: { name: "kg", namespace: "default" },
    spec: { schedulingPolicy: { gang: { minCount: 3 } } },
  });
  const spec = { schedulingGroup: { podGroupName: "kg" } };
  for (const at of [0, 1, 2]) await cluster.pod(`k${at}`, { gpus: 8, scheduler: "default-scheduler", spec });
  await cluster.run(3);
  const says = await sentenceOf(cluster, "k0");
  expect(says).toContain("group kg needs places for 3 pods at once and 2 were found");
  const { answers, rows } = await asked(cluster, "kg");
  expect(answers.map(({ kind, message, cure }) => [kind, `${message}. To run: ${cure}`])).toEqual([["PodGroup", says]]);
  expect(rows.map(({ id, reason }) => [id, reason])).toEqual([["default/kg", "PodSchedulingErrors"]]);
});
