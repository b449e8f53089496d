import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { oneReservationPerGroup, reservationsOutliveTheirUsers } from "../../src/sim/bind/invariants.ts";
import { kubelets, makeNamespaces, removePod, submit } from "../../src/sim/bind/scenario.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { person } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { addRacingBinder } from "./racingBinder.ts";

const binder = binderComponent();
const nodes = kubelets(["h100=1"]);

/** Two pods alternate on one GPU: one is created while the other is deleted. */
const play = (
  slug: string,
  variant: string,
  invariant: Invariant,
  add: (controllers: Controllers) => void,
): Scenario => ({
  name: `race/${slug}/${variant}`,
  about: "two pods share a GPU, and one is bound while the other one is deleted",
  components: [binder, nodes],
  serverLoops: true,
  faults: ["watch-delay", "watch-reorder", "stream-cut", "slow-call", "timeout-after", "timeout-before"],
  invariants: [invariant],
  setUp: makeNamespaces,
  actors: () => [
    controllersProcess("binder", add),
    { ...controllersProcess("kubelets", (controllers) => nodes.add(controllers)), isExemptFromFaults: true },
    person("user", async (ports) => {
      for (let round = 0; round < 8; round++) {
        await submit(ports, round % 2);
        await ports.sleep(500);
        if (round > 0) await removePod(ports, `p${(round + 1) % 2}`);
        await ports.sleep(100);
      }
      for (const name of ["p0", "p1"]) await removePod(ports, name);
    }),
  ],
  faultPhaseMs: 8_000,
  settleMs: 60_000,
  quietMs: 8_500,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
});

const playLost = (variant: string, add: (controllers: Controllers) => void): Scenario =>
  play(
    "lost-reservation",
    variant,
    reservationsOutliveTheirUsers(() => true),
    add,
  );

export const lostReservation: Exhibit = {
  number: 8,
  slug: "lost-reservation",
  title: "A reservation is deleted while a pod is being bound to it",
  source: "kai-scheduler/KAI-Scheduler#1103, #1104",
  invariant: "I2",
  story: `
  binder, for p1                 API                        binder, for p0, which is gone
  reservation R is there
                                                            in its cache no pod uses R
  label p1 with R's group  -->   p1 uses R
                                                  <--       delete R
  bind p1                  -->   p1 runs without R: its GPU can be given out again

  A bind that relies on R writes its pod's UID on R first. Then every delete that was decided before conflicts, however late.`,
  fixed: {
    name: "fixed",
    about: "holders are written on the reservation, and a fresh read and its version precede the delete",
    scenario: playLost("fixed", (controllers) => binder.add(controllers)),
  },
  buggy: [
    {
      name: "original",
      about: "no pod in the cache uses it: delete it",
      scenario: playLost("original", (controllers) => addRacingBinder(controllers, "nothing")),
      firstSeeds: 20,
      schedule: [{ key: "binder|watch|/pods#1|ADDED|gpu-reservation-7924fb9745c79b21#1|watch-delay", value: 873_867 }],
    },
    {
      name: "upstream",
      about: "unless the cache shows an active BindRequest",
      scenario: playLost("upstream", (controllers) => addRacingBinder(controllers, "cached-requests")),
      firstSeeds: 20,
      // Both watches lag: the success of the bind is observed before the label that it wrote.
      schedule: [
        { key: "binder|watch|/pods#1|MODIFIED|p0#1|late|watch-reorder", value: 1_795_033 },
        { key: "binder|watch|scheduling.run.ai/bindrequests#1|MODIFIED|p0#1|late|watch-reorder", value: 500_000 },
      ],
    },
    {
      name: "no-touch",
      about: "a fresh read and the version as precondition, but pods that rely on it do not write to it",
      scenario: playLost("no-touch", (controllers) => addRacingBinder(controllers, "fresh-read")),
      firstSeeds: 200,
      // The delete was decided on a fresh read, timed out, and takes effect a second later.
      schedule: [
        { key: "kubelets|watch|/pods#1|ADDED|p1#2|watch-delay", value: 721_489 },
        {
          key: "binder|delete|/pods/kai-resource-reservation/gpu-reservation-7924fb9745c79b21#1|timeout-before",
          value: 2_000,
        },
      ],
    },
  ],
};

const playTwo = (variant: string, add: (controllers: Controllers) => void): Scenario =>
  play("two-reservations", variant, oneReservationPerGroup, add);

export const twoReservations: Exhibit = {
  number: 9,
  slug: "two-reservations",
  title: "Two binds of one group create two reservations, on two GPUs",
  source: "kai-scheduler/KAI-Scheduler#1673, #1693",
  invariant: "I3",
  story: `
  binder, for p0                    API                    binder, for p1 or once more for p0
  group g0 has no reservation
  create gpu-reservation-x1    -->  holds GPU 0
                                                           in its cache g0 has no reservation
                                    holds GPU 1      <--   create gpu-reservation-q4

  The name is worked out from node and group, so the second create meets the first one.`,
  fixed: {
    name: "fixed",
    about: "the name of the reservation is derived from the group",
    scenario: playTwo("fixed", (controllers) => binder.add(controllers)),
  },
  buggy: [
    {
      name: "drawn-name",
      about: "the name of the reservation is random",
      scenario: playTwo("drawn-name", (controllers) => addRacingBinder(controllers, "cached-requests", "drawn")),
      firstSeeds: 20,
      schedule: [{ key: "binder|watch|/pods#1|ADDED|p0#1|late|watch-reorder", value: 2_798_591 }],
    },
  ],
};
