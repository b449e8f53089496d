import type { ActorPorts } from "../../src/sim/actor.ts";
import { oneHolder } from "../../src/sim/inventory/invariants.ts";
import { type Mistake, reconciler } from "../../src/sim/inventory/reconciler.ts";
import { wrapCloud } from "../../src/sim/inventory/scenario.ts";
import { Stage, user } from "../../src/sim/inventory/stage.ts";
import { person } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** A session whose machine is partitioned and still writes to its disk. */
async function cutOff(stage: Stage, ports: ActorPorts, id: string): Promise<void> {
  if (!stage.claim("d", id)) return;
  const row = stage.tables.disk(user, "d");
  if (row === undefined) return;
  const instance = `i-${id}`;
  let volumeId = row.volumeId ?? "";
  if (!stage.cloud.volumes.has(volumeId)) {
    volumeId = stage.nextVolume();
    stage.cloud.createVolume({ id: volumeId, tags: { "gpu-dev-user": user, disk_name: "d" } });
  }
  stage.cloud.attach(volumeId, instance);
  stage.setReservation(id, "active");
  await ports.sleep(900);
  // The cluster receives no heartbeats, and ends the reservation.
  stage.lostInstances.add(instance);
  stage.setReservation(id, "failed");
  await ports.sleep(1_500 + (ports.random.uint32() % 700));
  // Fenced: the machine is off, and the cloud has taken the volume from it.
  stage.cloud.detach(volumeId);
  stage.letGo(row.diskId, id);
  stage.free(row.diskId, id);
}

const play = (variant: string, mistake?: Mistake) =>
  scene({
    slug: "lost-node",
    variant,
    about: "a machine is partitioned while it writes to its disk, and a replacement starts elsewhere",
    faults: ["slow-timer", "restart"],
    invariants: [oneHolder],
    actors: () => {
      const stage = new Stage();
      const options = { everyMs: 300, ...(mistake === undefined ? {} : { mistake }) };
      const sessions = (client: string) =>
        person(`session-${client}`, async (ports) => {
          if (client === "x") stage.addDisk("d");
          for (let round = 1; round <= 3; round++) {
            await cutOff(stage, ports, `r-${client}-${round}`);
            await ports.sleep(150 + (ports.random.uint32() % 200));
          }
        });
      return [stage.host(), reconciler("reconciler", stage, options), sessions("x"), sessions("y")];
    },
  });

/** The bug: a machine that does not answer is treated as having no disks. */
const lostIsGone: Mistake = (ports, stage) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    volumes: (cloud, which, onPage, options) =>
      cloud.volumes(
        which,
        (page) =>
          onPage(
            page.map((volume) =>
              volume.attachments.some(({ instanceId }) => stage.lostInstances.has(instanceId))
                ? { ...volume, state: "available", attachments: [] }
                : volume,
            ),
          ),
        options,
      ),
  }),
});

export const lostNode: Exhibit = {
  number: 49,
  slug: "lost-node",
  title: "A partitioned machine is treated as lost, and two machines write to one volume",
  source: "kubernetes/kubernetes#61832",
  invariant: "I14",
  story: `
  machine a               cluster                 database              machine b
  writes to v             a is not ready
  writes to v             give up its session     d is free
  writes to v                                                           claims d, attaches v, writes
  Silence is not death. A disk is in use until its volume is available: the machine let it go, or it was
  fenced and the cloud took the volume away.`,
  fixed: { name: "fixed", about: "the inventory's reconciler", scenario: play("fixed") },
  buggy: [
    {
      name: "lost-is-gone",
      about: "disks of a lost machine count as free",
      scenario: play("lost-is-gone", lostIsGone),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};
