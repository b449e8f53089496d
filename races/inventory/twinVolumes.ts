import type { DiskRow } from "../../src/model/inventory/rows.ts";
import type { ActorSpec } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { reconciler } from "../../src/sim/inventory/reconciler.ts";
import { SimCloud } from "../../src/sim/inventory/simCloud.ts";
import { reports, Stage, user } from "../../src/sim/inventory/stage.ts";
import { every, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const tags = { "gpu-dev-user": user, disk_name: "d" };

const oneVolume: Invariant = {
  id: "I14",
  fact: "a disk keeps its volume",
  begin: () => {
    let stage: Stage | undefined;
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what !== reports.writesDisk) return undefined;
        const { before, after } = value as { before: DiskRow | undefined; after: DiskRow };
        if (before?.volumeId == null || before.volumeId === after.volumeId) return undefined;
        const isThere = stage?.cloud.volumes.has(before.volumeId) === true;
        return isThere
          ? `${after.diskName} was ${before.volumeId}, which is there, and is now ${after.volumeId}`
          : undefined;
      },
    };
  },
};

const play = (variant: string, look: (stage: Stage) => ActorSpec) =>
  scene({
    slug: "twin-volumes",
    variant,
    about: "a throttled create takes effect and is sent again: two volumes of one disk",
    faults: ["slow-timer"],
    invariants: [oneVolume],
    actors: () => {
      const stage = new Stage();
      return [
        stage.host(),
        look(stage),
        person("processor", async (ports) => {
          stage.addDisk("d");
          stage.cloud.setFaults({ shuffle: true });
          const [first, second] = [stage.nextVolume(), stage.nextVolume()];
          stage.cloud.createVolume({ id: first, tags });
          await ports.sleep(40 + (ports.random.uint32() % 300));
          stage.cloud.createVolume({ id: second, tags });
          for (let round = 0; round < 4; round++) {
            await ports.sleep(500);
            // The volume in the row is used; before the row has one, the first that the processor created.
            const used = stage.tables.disk(user, "d")?.volumeId ?? first;
            stage.cloud.attach(used, "i-1");
            await ports.sleep(300);
            stage.cloud.detach(used);
          }
        }),
      ];
    },
  });

/** The bug: the first volume in the list is the disk. */
const firstFound = (stage: Stage): ActorSpec =>
  process("linker", async (ports) => {
    const cloud = new SimCloud(stage.cloud, ports);
    await every(ports, 250, async () => {
      const found: string[] = [];
      const read = await cloud.volumes({ type: "tagged" }, (page) => found.push(...page.map(({ id }) => id)));
      const row = stage.tables.disk(user, "d");
      const [first] = found;
      if (!read.ok || first === undefined || row === undefined || row.volumeId === first) return;
      stage.tables.updateDisk(row.diskId, { volumeId: first }, "reconciler");
    });
  });

export const twinVolumes: Exhibit = {
  number: 47,
  slug: "twin-volumes",
  title: "Two volumes of one disk, and the first in the list is the empty one",
  source: "wdvr/osdc@8e4eb5d",
  invariant: "I14",
  story: `
  processor                    cloud                     linker
  create        -->            v1 exists                 list: v1          d is v1
  (throttled: create again) -> v2 exists, empty
  attach v1, write
                                                         list: v2, v1      d is v2: the data is gone
  The order of a list means nothing. A row keeps the volume that it has while that exists; of several new ones
  the attached is the disk, then the one marked active, then the newest; the others are reports to a person.`,
  fixed: {
    name: "fixed",
    about: "the inventory's reconciler",
    scenario: play("fixed", (stage) => reconciler("linker", stage, { everyMs: 250 })),
  },
  buggy: [
    {
      name: "first-found",
      about: "the first volume in the list is the disk",
      scenario: play("first-found", firstFound),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};
