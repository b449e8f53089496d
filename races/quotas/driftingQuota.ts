import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { queueRef } from "../../src/model/scheduling/queue.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, insist, kinds, person } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { gpusOf, nodeOf, placementScene, scheduler } from "../scheduling/schedulerScene.ts";
import {
  type Books,
  bookkeeper,
  hasEnded,
  limitOf,
  makeTeam,
  quotaIsUsed,
  team,
  teamPod,
  withinLimit,
} from "./quotaScene.ts";

/** Races in which a counter of quota drifts away from what is really used. */

type BooksOf = (controllers: Controllers, ports: ActorPorts) => Books;

/** The bug: a failed decision is discarded twice, by the error handler and by the clean-up. */
const discardedTwice: BooksOf = (controllers) => {
  const queues = controllers.cache(queueRef);
  let used = 0;
  return {
    used: () => used,
    limit: () => limitOf(queues.get(team)),
    give: async (found, bind) => {
      const gpus = gpusOf(found);
      const discard = (): void => {
        // The bug: the first discard is not recorded.
        used -= gpus;
      };
      used += gpus;
      const outcome = await bind();
      if (!outcome.ok) discard();
      if (!outcome.ok) discard();
      return outcome;
    },
  };
};

/** The bug: reads the counter, waits, and writes the sum. */
const lostUpdate: BooksOf = (controllers) => {
  const queues = controllers.cache(queueRef);
  let used = 0;
  let given = 0;
  return {
    used: () => used + given,
    limit: () => limitOf(queues.get(team)),
    give: async (found, bind) => {
      const before = used;
      given += gpusOf(found);
      const outcome = await bind();
      given -= gpusOf(found);
      // The bug: other charges since the read are overwritten.
      if (outcome.ok) used = before + gpusOf(found);
      return outcome;
    },
  };
};

/** The usage as the cache shows it, plus binds in flight. */
function seen(controllers: Controllers): Pick<Books, "used" | "give"> {
  const pods = controllers.cache(kinds.pods);
  const onTheWay = new Map<string, number>();
  return {
    used: () => {
      let used = 0;
      for (const [, each] of pods.view().objects) {
        if (nodeOf(each) !== "" && !hasEnded(each)) used += gpusOf(each);
        else used += onTheWay.get(each.metadata.uid) ?? 0;
      }
      return used;
    },
    give: async (found, bind) => {
      onTheWay.set(found.metadata.uid, gpusOf(found));
      const outcome = await bind();
      if (!outcome.ok) onTheWay.delete(found.metadata.uid);
      return outcome;
    },
  };
}

/** The bug: a limit is replaced by a delete and an insert. */
const unlimitedGap: BooksOf = (controllers, ports) => {
  const limits = new Map<string, number>();
  controllers.cache(queueRef).onEvent((event) => {
    if (event.key !== team || event.type === "deleted") return;
    // The bug: in between there is no limit.
    limits.delete(team);
    void ports.sleep(25).then(() => limits.set(team, limitOf(event.object)));
  });
  return { ...seen(controllers), limit: () => limits.get(team) ?? Number.POSITIVE_INFINITY };
};

const completionMs = 150;

/** A completed job is unlinked from its queue after a while; its allocation is released when its pod is deleted. */
const unlinkedTooEarly: BooksOf = (controllers, ports) => {
  const queues = controllers.cache(queueRef);
  const linked = new Map<string, number>();
  let used = 0;
  controllers.cache(kinds.pods).onEvent((event) => {
    const { uid } = event.object.metadata;
    if (event.type === "deleted") {
      // The bug: a job that is not linked to the queue any more releases nothing.
      used -= linked.get(uid) ?? 0;
      linked.delete(uid);
    } else if (hasEnded(event.object)) void ports.sleep(completionMs).then(() => linked.delete(uid));
  });
  return {
    used: () => used,
    limit: () => limitOf(queues.get(team)),
    give: async (found, bind) => {
      const { uid } = found.metadata;
      linked.set(uid, gpusOf(found));
      used += gpusOf(found);
      const outcome = await bind();
      if (outcome.ok || !linked.delete(uid)) return outcome;
      used -= gpusOf(found);
      return outcome;
    },
  };
};

interface Scene {
  readonly slug: string;
  readonly variant?: string;
  readonly books?: BooksOf;
  readonly about: string;
  readonly faults: readonly string[];
  readonly limit: number;
  readonly invariant: Invariant;
  readonly owner: (ports: ActorPorts) => Promise<void>;
}

function play({ slug, variant = "fixed", books, about, faults, limit, invariant, owner }: Scene): Scenario {
  return placementScene({
    slug,
    variant,
    about,
    faults,
    invariants: [invariant],
    setUp: (kube) => makeTeam(kube, limit),
    actors: () => [
      person("owner", owner),
      controllersProcess("scheduler", (controllers, ports) =>
        books === undefined ? scheduler.add(controllers) : bookkeeper(controllers, ports, books(controllers, ports)),
      ),
    ],
  });
}

const submit = (ports: ActorPorts, name: string): Promise<void> =>
  insist(ports, () => ports.kube.create(kinds.pods, teamPod(name)));

/** Creates more pods than the queue may run. */
async function submitInTurn(ports: ActorPorts): Promise<void> {
  for (const name of ["a", "b", "c", "d"]) {
    await submit(ports, name);
    await ports.sleep(300);
  }
}

const discardScene = (variant?: string, books?: BooksOf): Scenario =>
  play({
    slug: "discarded-twice",
    ...(variant !== undefined && books !== undefined && { variant, books }),
    about: "four pods of a queue that may run two, and binds that fail",
    faults: ["conflict", "busy", "slow-call"],
    limit: 2,
    invariant: withinLimit,
    owner: submitInTurn,
  });

export const discardedTwiceExhibit: Exhibit = {
  number: 27,
  slug: "discarded-twice",
  title: "A decision is discarded twice, and the counter of its queue drifts permanently",
  source: "volcano-sh/volcano#5180",
  invariant: "I10",
  story: `
  scheduler                          queue: 2 GPUs at most
  decide: a on n1                    1 used
  bind a: refused
    on error: discard                0 used
    clean up: discard               -1 used
  a again, b, c                      2 used, and three pods run
  What was taken back is gone from the record; usage is recounted from its holders.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a rejected intent ends once, and then holds nothing",
    scenario: discardScene(),
  },
  buggy: [
    {
      name: "twice",
      about: "the error and the clean-up both discard",
      scenario: discardScene("twice", discardedTwice),
      firstSeeds: 60,
      schedule: [{ key: "scheduler|bind|/pods/default/a#1|conflict", value: 10 }],
    },
  ],
};

const updateScene = (variant?: string, books?: BooksOf): Scenario =>
  play({
    slug: "lost-charge",
    ...(variant !== undefined && books !== undefined && { variant, books }),
    about: "two pods of a queue that may run two are created at once, and a third one later",
    faults: ["slow-call", "watch-delay"],
    limit: 2,
    invariant: withinLimit,
    owner: async (ports) => {
      for (const name of ["a", "b"]) await submit(ports, name);
      await ports.sleep(2_000);
      await submit(ports, "c");
    },
  });

export const lostCharge: Exhibit = {
  number: 31,
  slug: "lost-charge",
  title: "Two charges at once, and one of them is lost",
  source: "kubernetes-sigs/kueue#12697",
  invariant: "I10",
  story: `
  worker 1                 used     worker 2
  a: used is 0             0        b: used is 0
  bind a ...                        bind b ...
  used := 0 + 1            1
                           1        used := 0 + 1
  c: 1 of 2 is used, so c runs too: three pods of a queue that may run two
  Nothing is read, awaited and then written: what is decided counts at once, and is counted again from its holders.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: one decision at a time, from one snapshot",
    scenario: updateScene(),
  },
  buggy: [
    {
      name: "read-then-write",
      about: "a bind happens between the read and the write of the counter",
      scenario: updateScene("read-then-write", lostUpdate),
      firstSeeds: 30,
      schedule: [{ key: "scheduler|bind|/pods/default/a#1|request|slow-call", value: 400_000 }],
    },
  ],
};

const gapScene = (variant?: string, books?: BooksOf): Scenario =>
  play({
    slug: "unlimited-gap",
    ...(variant !== undefined && books !== undefined && { variant, books }),
    about: "an administrator changes a queue repeatedly while its pods wait for quota",
    faults: ["watch-delay", "slow-call"],
    limit: 1,
    invariant: withinLimit,
    owner: async (ports) => {
      for (const name of ["a", "b"]) await submit(ports, name);
      await ports.sleep(300);
      for (let round = 0; round < 4; round++) {
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 200)));
        const ref = { ...queueRef, namespace: "", name: team };
        await ports.kube.patch(ref, { type: "merge", body: { spec: { displayName: `team ${round}` } } });
      }
    },
  });

export const unlimitedGapExhibit: Exhibit = {
  number: 33,
  slug: "unlimited-gap",
  title: "A quota is replaced by delete and insert, and in between there is none",
  source: "Project-HAMi/HAMi#2385, #2386",
  invariant: "I10",
  story: `
  informer                     limits            filter
  queue changed: delete        none
                                                 b: no limit is known, so there is none: b runs
  add                          1                 a and b run, and the queue may run one
  What replaces something does so in one step; and what is unknown is never unlimited.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: an event is applied completely before the next decision",
    scenario: gapScene(),
  },
  buggy: [
    {
      name: "delete-then-add",
      about: "25 ms pass between the old limit and the new one",
      scenario: gapScene("delete-then-add", unlimitedGap),
      firstSeeds: 30,
      schedule: [{ key: "owner|pause#1", value: 90 }],
    },
  ],
};

const unlinkScene = (variant?: string, books?: BooksOf): Scenario =>
  play({
    slug: "unlinked-too-early",
    ...(variant !== undefined && books !== undefined && { variant, books }),
    about: "a pod completes, and is deleted some time later",
    faults: ["watch-delay", "slow-call"],
    limit: 1,
    invariant: quotaIsUsed,
    owner: async (ports) => {
      await submit(ports, "a");
      await ports.sleep(800);
      const body = { status: { phase: "Succeeded" } };
      await insist(ports, () =>
        ports.kube.patch({ ...at(kinds.pods, "a"), subresource: "status" }, { type: "merge", body }),
      );
      await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 300)));
      await insist(ports, async () => {
        const gone = await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
        return { ok: gone.ok || gone.reason === "NotFound" };
      });
      await submit(ports, "b");
    },
  });

export const unlinkedTooEarlyExhibit: Exhibit = {
  number: 35,
  slug: "unlinked-too-early",
  title: "A completed job is unlinked before its allocation is released, and its charge stays",
  source: "apache/yunikorn-core#662",
  invariant: "I10",
  story: `
  pods                         scheduler
  a has succeeded              150 ms: a is no job of the queue any more
  a is removed                 whose allocation was it? no pod's
                               queue: 1 of 1 used, by no pod
  b                            waits for ever
  Quota is what live pods hold; that one ends is all that has to be known.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a pod that has ended holds nothing",
    scenario: unlinkScene(),
  },
  buggy: [
    {
      name: "timed",
      about: "the job is unlinked by a timer, its allocation is released by an event",
      scenario: unlinkScene("timed", unlinkedTooEarly),
      firstSeeds: 30,
      schedule: [{ key: "owner|pause#1", value: 290 }],
    },
  ],
};
