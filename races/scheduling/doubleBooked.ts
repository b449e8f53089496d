import type { Controllers } from "../../src/control/runtime/controllers.ts";
import type { ReconcileResult } from "../../src/control/runtime/loop.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, kinds, person } from "../../src/sim/sceneKit.ts";
import { noGpuTwice } from "../../src/sim/schedule/invariants.ts";
import type { Exhibit } from "../exhibit.ts";
import { capacityOf, gpuPod, makeNode, nodeOf, nothingIsLost, placementScene, scheduler } from "./schedulerScene.ts";

/**
 * Races in which one GPU is allocated to two pods, or to none, depending on when a scheduler counts an allocation.
 */

/** How a scheduler counts an allocation before the watch shows it. */
type Memory =
  /** Not at all: only the cache counts. */
  | "none"
  /** For a time. */
  | "expiring"
  /** By counting up at the decision and down when a pod is deleted. */
  | "counted"
  /** By an annotation that is written before the bind; until it is there, nothing. */
  | "annotation";

const expiryMs = 300;

/** A minimal scheduler with one of the bugs. */
function naiveScheduler(controllers: Controllers, ports: ActorPorts, memory: Memory): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  const given = new Map<string, { node: string; untilMs: number }>();
  const counted = new Map<string, number>();
  pods.onEvent((event) => {
    if (event.type !== "deleted" || memory !== "counted") return;
    const node = nodeOf(event.before);
    // The bug: a pod that is deleted before it was observed on its node is never subtracted.
    if (node !== "") counted.set(node, (counted.get(node) ?? 0) - 1);
  });
  const usedOn = (node: string, uid: string): number => {
    if (memory === "counted") return counted.get(node) ?? 0;
    let used = 0;
    for (const [, each] of pods.view().objects) {
      if (each.metadata.uid === uid) continue;
      const promised = memory === "annotation" ? each.metadata.annotations?.["given"] : undefined;
      if (nodeOf(each) === node || promised === node) used++;
    }
    for (const [other, place] of given) {
      const isSeen = [...pods.view().objects].some(([, each]) => each.metadata.uid === other && nodeOf(each) !== "");
      if (place.node === node && other !== uid && !isSeen && place.untilMs > ports.clock.nowMs()) used++;
    }
    return used;
  };
  const place = async (found: KubeObject): Promise<ReconcileResult> => {
    const { uid, name, resourceVersion } = found.metadata;
    for (const [, node] of nodes.view().objects) {
      const has = capacityOf(node);
      if (usedOn(node.metadata.name, uid) >= has) continue;
      const chosen = node.metadata.name;
      if (memory === "expiring") given.set(uid, { node: chosen, untilMs: ports.clock.nowMs() + expiryMs });
      if (memory === "counted") counted.set(chosen, (counted.get(chosen) ?? 0) + 1);
      if (memory === "annotation") {
        const body = { metadata: { uid, annotations: { given: chosen } } };
        const noted = await ports.kube.patch(at(kinds.pods, name), { type: "merge", body });
        if (!noted.ok) return reconcileResultOf(noted);
        const bound = await ports.kube.bind(at(kinds.pods, name), { node: chosen, uid });
        return bound.ok ? undefined : reconcileResultOf(bound);
      }
      const outcome = await ports.kube.bind(at(kinds.pods, name), { node: chosen, uid, resourceVersion });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    }
    return { requeueAfterMs: 100 };
  };
  controllers.add({
    name: "scheduler",
    concurrency: 4,
    sources: [kindSource(pods, forObject())],
    reconcile: (key) => {
      const found = pods.get(key);
      if (found === undefined || nodeOf(found) !== "" || found.metadata.deletionTimestamp !== undefined)
        return undefined;
      return place(found);
    },
  });
}

async function makeNodes(kube: KubeApi): Promise<void> {
  for (const name of ["n1", "n2"]) await makeNode(kube, name, 1);
}

function play(
  slug: string,
  memory: Memory | undefined,
  options: { faults: readonly string[]; invariant: Invariant; churn?: boolean },
): Scenario {
  const variant = memory ?? "fixed";
  return placementScene({
    slug,
    variant,
    about: "pods that request one GPU each are created at once, and there are two GPUs",
    faults: options.faults,
    invariants: [options.invariant],
    setUp: makeNodes,
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 4; round++) {
          for (const name of ["a", "b"]) await ports.kube.create(kinds.pods, gpuPod(`${name}${round}`));
          await ports.sleep(350);
          if (options.churn !== true) continue;
          for (const name of ["a", "b"])
            await ports.kube.delete(at(kinds.pods, `${name}${round}`), { gracePeriodSeconds: 0 });
          await ports.sleep(150);
        }
        if (options.churn === true) await ports.kube.create(kinds.pods, gpuPod("last"));
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        memory === undefined ? scheduler.add(controllers) : naiveScheduler(controllers, ports, memory),
      ),
    ],
  });
}

const slowFaults = ["slow-call", "watch-delay"];
const boundTwice = (slug: string, memory?: Memory): Scenario =>
  play(slug, memory, { faults: slowFaults, invariant: noGpuTwice() });
const leaked = (slug: string, memory?: Memory): Scenario =>
  play(slug, memory, { faults: ["slow-call", "conflict"], invariant: nothingIsLost("I10"), churn: true });

export const twoFilters: Exhibit = {
  number: 11,
  slug: "two-filters",
  title: "Two filter calls read one free card before either allocation is stored",
  source: "Project-HAMi/HAMi#2232, #2470",
  invariant: "I1",
  story: `
  filter of a                 API                      filter of b
  n1 has a card free
                                                       n1 has a card free
  note on a: n1        -->    a: n1
                              b: n1               <--  note on b: n1
  bind a to n1, bind b to n1: one card, two pods
  What is decided counts before anything is written, and nothing happens between looking and counting.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a decision counts at once",
    scenario: boundTwice("two-filters"),
  },
  buggy: [
    {
      name: "annotation",
      about: "a card counts as allocated when the watch has delivered its annotation",
      scenario: boundTwice("two-filters", "annotation"),
      firstSeeds: 30,
      schedule: [{ key: "scheduler|patch|/pods/default/a0#1|request|slow-call", value: 400_000 }],
    },
  ],
};

export const uncountedBind: Exhibit = {
  number: 12,
  slug: "uncounted-bind",
  title: "A slow bind is not in the snapshot of the next session",
  source: "volcano-sh/volcano#1383",
  invariant: "I1",
  story: `
  scheduler                    API                     the next session
  bind a to n1 ----\\
                    \\                                  n1 looks free: a is in no cache
                     \\  b on n1                   <--  bind b to n1
                      -> a on n1                       one GPU, two pods
  An intent counts from the moment it is decided until the watch has passed it.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: the ledger counts binds in flight",
    scenario: boundTwice("uncounted-bind"),
  },
  buggy: [
    {
      name: "none",
      about: "only cached pods count",
      scenario: boundTwice("uncounted-bind", "none"),
      firstSeeds: 30,
      schedule: [{ key: "scheduler|bind|/pods/default/a0#1|request|slow-call", value: 400_000 }],
    },
  ],
};

export const expiredAssumption: Exhibit = {
  number: 13,
  slug: "expired-assumption",
  title: "An assumed pod expires, and then its bind takes effect",
  source: "kubernetes/kubernetes#106361, #106412",
  invariant: "I1",
  story: `
  scheduler                    API
  assume a on n1 (300 ms)
  bind a to n1 ------\\
  ... 300 ms: forget a
  n1 looks free       \\
  bind b to n1         \\ -->  b on n1
                        -->    a on n1: one GPU, two pods
  Time alone ends nothing: an intent counts until its pod has moved on.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: nothing expires",
    scenario: boundTwice("expired-assumption"),
  },
  buggy: [
    {
      name: "expiring",
      about: "a decision counts for 300 ms",
      scenario: boundTwice("expired-assumption", "expiring"),
      firstSeeds: 60,
      schedule: [{ key: "scheduler|bind|/pods/default/a0#1|request|slow-call", value: 700_000 }],
    },
  ],
};

export const leakedCharge: Exhibit = {
  number: 34,
  slug: "leaked-charge",
  title: "A pod that is deleted between decision and bind leaks its GPU",
  source: "Project-HAMi/HAMi#1927, #1905",
  invariant: "I10",
  story: `
  scheduler                    API                     owner
  n1: 1 of 1 given (to a)
  bind a to n1 ------\\
                      \\  a is gone                <--  delete a
                       -> refused: not found
  n1: 1 of 1 given, to no pod                          last waits for ever
  Usage is recounted from its holders, never counted up and down.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a rejected intent holds nothing",
    scenario: leaked("leaked-charge"),
  },
  buggy: [
    {
      name: "counted",
      about: "counted up at the decision, down when a bound pod is deleted",
      scenario: leaked("leaked-charge", "counted"),
      firstSeeds: 30,
      schedule: [
        { key: "scheduler|bind|/pods/default/a0#1|request|slow-call", value: 600_000 },
        { key: "scheduler|bind|/pods/default/b0#1|request|slow-call", value: 600_000 },
      ],
    },
  ],
};
