/** The stand-in with a data set in a process of its own, so that serving it is not measured. Controlled by messages. */
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { StandInCloud } from "../src/standin/cloud.ts";
import type { CloudFaults } from "../src/standin/faults.ts";
import { startStandIn } from "../src/standin/server.ts";
import { fillCloud, setSizes } from "./inventorySets.ts";

export type CloudOrder =
  | { readonly do: "start"; readonly set: "S" | "L" }
  | { readonly do: "faults"; readonly faults: CloudFaults }
  | { readonly do: "change"; readonly count: number };

const cloud = new StandInCloud({ clock: systemClock(), random: systemRandom() });

// The program that measures has ended, perhaps by a signal.
process.on("disconnect", () => process.exit());
process.on("message", (order: CloudOrder) => {
  void execute(order).then(
    (answer) => process.send?.({ ok: true, answer }),
    (error: unknown) => process.send?.({ ok: false, error: String(error) }),
  );
});

async function execute(order: CloudOrder): Promise<unknown> {
  if (order.do === "start") {
    const size = setSizes.find(({ name }) => name === order.set);
    if (size === undefined) throw new Error(`no set ${order.set}`);
    fillCloud(cloud, size);
    return (await startStandIn(cloud)).url;
  }
  if (order.do === "faults") {
    cloud.setFaults(order.faults);
    return undefined;
  }
  // A little of what happens in five minutes.
  let left = order.count;
  for (const volume of [...cloud.volumes.values()]) {
    if (left-- <= 0) break;
    cloud.changeVolume(volume.id, { sizeGb: volume.sizeGb + 1 });
    cloud.putSnapshot({ id: `snap-new-${volume.id}`, volumeId: volume.id, tags: volume.tags });
  }
  return undefined;
}
