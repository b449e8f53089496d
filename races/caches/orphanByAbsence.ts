import type { ActorSpec } from "../../src/sim/actor.ts";
import { absenceIsNoProof } from "../../src/sim/inventory/invariants.ts";
import { reconciler } from "../../src/sim/inventory/reconciler.ts";
import { SimCloud } from "../../src/sim/inventory/simCloud.ts";
import { Stage, session, usualPace } from "../../src/sim/inventory/stage.ts";
import { every, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const play = (variant: string, clean: (stage: Stage) => ActorSpec) =>
  scene({
    slug: "orphan-by-absence",
    variant,
    about: "a cleaner looks for disks without a volume while sessions start and the cloud throttles",
    faults: ["slow-timer"],
    invariants: [absenceIsNoProof],
    actors: () => {
      const stage = new Stage();
      return [
        stage.host(),
        clean(stage),
        person("session", async (ports) => {
          stage.addDisk("d");
          for (let round = 1; round <= 2; round++) {
            await session(stage, ports, "d", `r${round}`, { ...usualPace, createMs: 700 });
            await ports.sleep(300);
          }
        }),
      ];
    },
  });

/** A disk whose volume is not in the list is treated as orphaned, even if the list is empty. */
const orphanCleaner = (stage: Stage): ActorSpec =>
  process("cleaner", async (ports) => {
    const cloud = new SimCloud(stage.cloud, ports);
    await every(ports, 250, async () => {
      const there = new Set<string>();
      await cloud.volumes({ type: "tagged" }, (page) => {
        for (const { id } of page) there.add(id);
      });
      for (const row of [...stage.tables.disks.values()]) {
        if (!row.inUse || (row.volumeId !== null && there.has(row.volumeId))) continue;
        stage.tables.updateDisk(row.diskId, { inUse: false, reservationId: null }, "reconciler");
      }
    });
  });

export const orphanByAbsence: Exhibit = {
  number: 42,
  slug: "orphan-by-absence",
  title: "An object that is not found is treated as orphaned",
  source: "aws/karpenter-provider-aws#3951",
  invariant: "I21",
  story: `
  session                    cloud                     cleaner
  claim disk d
                                                       d is in use; its volume is not in the list
                                                       (or the list failed): an orphan. Free d
  make volume        -->     v exists
  attach v, work                                       d is free: the next session takes it
  Not found is unknown. A claim with a good lease is kept, absence is asked for twice and remembered from an
  earlier run, and the write carries the row's version.`,
  fixed: {
    name: "fixed",
    about: "the inventory's reconciler",
    scenario: play("fixed", (stage) => reconciler("cleaner", stage, { everyMs: 250 })),
  },
  buggy: [
    {
      name: "not-found-is-orphan",
      about: "disks whose volume is not listed are released",
      scenario: play("not-found-is-orphan", orphanCleaner),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};
