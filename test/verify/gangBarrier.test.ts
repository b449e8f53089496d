/** The proof itself is tried on faulty schedulers: a proof that passes all of them proves nothing. */
import { expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import type { CheckFinding } from "../../src/decide/verify/check.ts";
import { gangSize } from "../../src/kubelet/barrier/barrierObjects.ts";
import { proveGangBarrier } from "../../src/kubelet/barrier/gangBarrier.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { schedulingDefinitions } from "../../src/model/scheduling/definitions.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";

const pods = builtin.Pod;
const nodes = builtin.Node;

type Scheduler = (kube: KubeApi) => Promise<void>;

/** Every pod that fits is bound, up to a number of pods that `enough` decides. */
const scheduler =
  (enough: (waiting: number, room: number) => number): Scheduler =>
  async (kube) => {
    const podList = await kube.list(pods);
    const nodeList = await kube.list(nodes);
    if (!podList.ok || !nodeList.ok) return;
    const all = podList.value.items as unknown as Pod[];
    const room = (nodeList.value.items as unknown as Node[]).flatMap(({ metadata, status }) => {
      const used = all.filter(({ spec }) => spec?.nodeName === metadata.name).length;
      return Array.from({ length: Number(status?.allocatable?.["nvidia.com/gpu"] ?? 0) - used }, () => metadata.name);
    });
    const waiting = all.filter(({ spec }) => (spec?.nodeName ?? "") === "");
    for (const { metadata } of waiting.slice(0, enough(waiting.length, room.length))) {
      const ref = { ...pods, namespace: metadata.namespace ?? "", name: metadata.name };
      await kube.bind(ref, { node: room.pop() ?? "", uid: metadata.uid });
    }
  };

async function prove(run: Scheduler, withGroups = true): Promise<{ finding: CheckFinding; left: number }> {
  const test = await TestApi.start();
  const kube = inProcessKube(test.core, { user: { username: "t", groups: ["system:masters"] }, fieldManager: "t" });
  if (withGroups) {
    for (const each of schedulingDefinitions) await test.create("apiextensions.k8s.io/customresourcedefinitions", each);
    await test.settle();
  }
  let finding: CheckFinding | undefined;
  const proof = proveGangBarrier({ kube, clock: test.clock }, { id: "x1" }).then((found) => {
    finding = found;
  });
  for (let step = 0; finding === undefined && step < 1_000; step++) {
    await run(kube);
    await test.clock.advance(100);
  }
  await proof;
  const [podsLeft, nodesLeft] = [await kube.list(pods), await kube.list(nodes)];
  if (finding === undefined || !podsLeft.ok || !nodesLeft.ok) throw new Error("there is no finding");
  return { finding, left: podsLeft.value.items.length + nodesLeft.value.items.length };
}

test.each([
  {
    name: "a scheduler that places all or none",
    run: scheduler((waiting, room) => (waiting >= gangSize && room >= waiting ? waiting : 0)),
    status: "passed",
    says: "none of 4 members was bound while one GPU was short; all were bound when it was added",
  },
  {
    name: "a scheduler that binds every pod that fits",
    run: scheduler((waiting, room) => Math.min(waiting, room)),
    status: "failed",
    says: "with 3 GPUs for 4 members",
  },
  {
    name: "a scheduler that binds one member as a taste",
    run: scheduler((waiting, room) => (room >= waiting ? waiting : Math.min(1, room))),
    status: "failed",
    says: "were bound",
  },
  { name: "no scheduler at all", run: scheduler(() => 0), status: "failed", says: "all 4 members fit and 0 are bound" },
])("$name: $status", async ({ run, status, says }) => {
  const { finding, left } = await prove(run);
  expect(finding.message).toContain(says);
  expect(finding.status).toBe(status);
  expect(left, "what the proof made is gone").toBe(0);
});

test("a cluster without PodGroups has nothing to prove", async () => {
  const { finding } = await prove(
    scheduler(() => 0),
    false,
  );
  expect(finding).toMatchObject({ status: "skipped", message: "not applicable: PodGroups are not served" });
});
