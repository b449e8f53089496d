/** What `why`, `q`, `queues` and `nodes` read of a cluster that refuses some of it. */
import { expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { schedulingObjects } from "../../src/cli/cluster/schedulingObjects.ts";
import { refused } from "../../src/model/outcome.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";

async function readWith(refusedKinds: readonly string[]) {
  const api = await TestApi.start();
  const user = { username: "viewer", groups: ["system:masters"] };
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "test" }));
  kube.faults.before = (verb, what) =>
    verb === "list" && refusedKinds.some((kind) => what.startsWith(kind))
      ? refused("Forbidden", `may not list ${what}`)
      : undefined;
  const read = await schedulingObjects(kube, () => api.clock.nowMs());
  if ("ok" in read) throw new Error(read.refusal.message);
  return read;
}

test("a kind that may not be listed is named as unknown, and is not taken for empty", async () => {
  const { unknown } = await readWith(["storageclasses", "persistentvolumes"]);
  expect(unknown.map(({ resource }) => resource)).toEqual(["persistentvolumes", "storageclasses.storage.k8s.io"]);
  expect(unknown[0]?.why).toContain("may not list persistentvolumes");
});

test("a kind that the cluster does not serve is empty, not unknown", async () => {
  expect((await readWith([])).unknown).toEqual([]);
});
