import { expect, test } from "vitest";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { labels } from "../../model/gang/keys.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { awaitCliques, type WaitEnd } from "./awaitCliques.ts";

async function gang(waits = [{ clique: "s-0-first", minimum: 2 }]) {
  const api = await TestApi.start();
  const user = { username: "agent", groups: ["system:masters"] };
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "agent" }));
  let stop = (_: true): void => {};
  const stopped = new Promise<true>((resolve) => {
    stop = resolve;
  });
  let end: WaitEnd | undefined;
  const settle = () => api.clock.advance(0);
  return {
    api,
    kube,
    end: () => end,
    stop: () => {
      stop(true);
      return settle();
    },
    start: async () => {
      const options = { namespace: "default", gang: "s-0", waits };
      void awaitCliques({ kube, clock: api.clock, log: new KeptLog(), stopped }, options).then((outcome) => {
        end = outcome;
      });
      await settle();
    },
    /** A pod of a clique, ready or not. */
    pod: async (name: string, clique: string, ready: boolean, ofGang = "s-0") => {
      const ref = { ...builtin.Pod, namespace: "default", name };
      const marks = { [labels.podGang]: ofGang, [labels.clique]: clique };
      const found = await kube.get(ref);
      if (!found.ok) {
        const metadata = { name, namespace: "default", labels: marks };
        await api.create("/pods", {
          ...{ apiVersion: "v1", kind: "Pod", metadata },
          spec: { containers: [{ name: "c", image: "i" }] },
        });
      }
      const conditions = [{ type: "Ready", status: ready ? "True" : "False" }];
      const patched = await kube.patch(
        { ...ref, subresource: "status" },
        { type: "merge", body: { status: { conditions } } },
      );
      expect(patched.ok).toBe(true);
      await settle();
    },
    remove: async (name: string) => {
      await kube.delete({ ...builtin.Pod, namespace: "default", name }, { gracePeriodSeconds: 0 });
      await settle();
    },
  };
}

test("the wait is over when enough pods of the preceding clique are ready", async () => {
  const waiting = await gang();
  await waiting.start();
  await waiting.pod("a", "s-0-first", true);
  expect(waiting.end()).toBeUndefined();
  await waiting.pod("b", "s-0-first", false);
  expect(waiting.end()).toBeUndefined();
  await waiting.pod("b", "s-0-first", true);
  expect(waiting.end()).toEqual({ type: "done" });
  expect(waiting.kube.openWatches).toBe(0);
});

test("pods that are ready already need no watch", async () => {
  const waiting = await gang();
  await waiting.pod("a", "s-0-first", true);
  await waiting.pod("b", "s-0-first", true);
  await waiting.start();
  expect(waiting.end()).toEqual({ type: "done" });
});

test("all cliques are ready at the same moment: one that was ready before does not count", async () => {
  const waiting = await gang([
    { clique: "s-0-first", minimum: 1 },
    { clique: "s-0-second", minimum: 1 },
  ]);
  await waiting.start();
  await waiting.pod("a", "s-0-first", true);
  await waiting.pod("a", "s-0-first", false);
  await waiting.pod("b", "s-0-second", true);
  expect(waiting.end()).toBeUndefined();
  await waiting.pod("a", "s-0-first", true);
  expect(waiting.end()).toEqual({ type: "done" });
});

test("pods that were deleted, of another gang, or of a clique whose name only begins alike do not count", async () => {
  const waiting = await gang([{ clique: "s-0-first", minimum: 1 }]);
  await waiting.pod("gone", "s-0-first", false);
  await waiting.start();
  await waiting.remove("gone");
  await waiting.pod("other", "s-0-first", true, "s-1");
  await waiting.pod("alike", "s-0-first-more", true);
  expect(waiting.end()).toBeUndefined();
});

test("a watch that breaks, runs out or is refused is opened again, and nothing that happened meanwhile is missed", async () => {
  for (const why of [undefined, refused("Expired", "too old"), refused("Unknown", "connection reset")]) {
    const waiting = await gang([{ clique: "s-0-first", minimum: 1 }]);
    await waiting.start();
    waiting.kube.faults.before = (verb) => (verb === "list" ? refused("Forbidden", "no Role yet") : undefined);
    waiting.kube.cut(why);
    await waiting.api.clock.advance(5_000);
    await waiting.pod("a", "s-0-first", true);
    expect(waiting.end()).toBeUndefined();
    waiting.kube.faults = {};
    await waiting.api.clock.advance(10_000);
    expect(waiting.end()).toEqual({ type: "done" });
  }
});

test("a signal ends the wait", async () => {
  const waiting = await gang();
  await waiting.start();
  await waiting.stop();
  expect(waiting.end()).toEqual({ type: "stopped" });
  expect(waiting.kube.openWatches).toBe(0);
});
