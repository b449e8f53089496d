import type { CloudVolume } from "../../src/model/inventory/cloud.ts";
import { oneHolder } from "../../src/sim/inventory/invariants.ts";
import { type Mistake, reconciler } from "../../src/sim/inventory/reconciler.ts";
import { wrapCloud } from "../../src/sim/inventory/scenario.ts";
import { Stage, session, usualPace } from "../../src/sim/inventory/stage.ts";
import { person } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const play = (variant: string, mistake?: Mistake) =>
  scene({
    slug: "forced-detach",
    variant,
    about: "a machine keeps writing while its volume is being detached, and another one waits for the disk",
    faults: ["slow-timer", "restart"],
    invariants: [oneHolder],
    actors: () => {
      const stage = new Stage();
      const slow = { ...usualPace, createMs: 100, attachMs: 100, detachMs: 2_500 };
      const sessions = (client: string) =>
        person(`session-${client}`, async (ports) => {
          if (client === "x") stage.addDisk("d");
          for (let round = 1; round <= 2; round++) {
            await session(stage, ports, "d", `r-${client}-${round}`, slow);
            await ports.sleep(200);
          }
        });
      const options = { everyMs: 300, ...(mistake === undefined ? {} : { mistake }) };
      return [stage.host(), reconciler("reconciler", stage, options), sessions("x"), sessions("y")];
    },
  });

/** The bug: a volume that is detaching counts as detached. */
const timeIsUp: Mistake = (ports) => ({
  ...ports,
  cloud: wrapCloud(ports.cloud, {
    volumes: (cloud, which, onPage, options) =>
      cloud.volumes(which, (page) => onPage(page.map(withoutDetaching)), options),
  }),
});

function withoutDetaching(volume: CloudVolume): CloudVolume {
  const isDetaching = volume.attachments.some(({ state }) => state === "detaching");
  return isDetaching ? { ...volume, state: "available", attachments: [] } : volume;
}

export const forcedDetach: Exhibit = {
  number: 48,
  slug: "forced-detach",
  title: "A volume is treated as free after a timeout while its machine still writes",
  source: "kubernetes/kubernetes#120328",
  invariant: "I14",
  story: `
  machine               cloud                     reconciler                next session
  writes                v detaching
  writes                v detaching               long enough: d is free
  writes                                                                    claims d, attaches
  Time may alert; it never frees. A disk is in use until the cloud says that its volume is available and that
  nothing is attached.`,
  fixed: { name: "fixed", about: "the inventory's reconciler", scenario: play("fixed") },
  buggy: [
    {
      name: "time-is-up",
      about: "a detaching volume counts as detached",
      scenario: play("time-is-up", timeIsUp),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};
