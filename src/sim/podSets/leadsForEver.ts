import { Controllers } from "../../control/runtime/controllers.ts";
import { Lease } from "../../control/runtime/lease.ts";
import type { ActorPorts } from "../actor.ts";
import { noMetrics, observeCache, simLeaseTimes } from "../controllersProcess.ts";

/** For the mutant that does not check its leadership again: no fence, and no reaction when the lease is lost. */
export async function leadsForEver(
  ports: ActorPorts,
  add: (controllers: Controllers, ports: ActorPorts) => void,
): Promise<void> {
  const controllers = new Controllers({ ...ports, metrics: noMetrics }, { fieldManager: ports.name, graceMs: 5_000 });
  add(controllers, ports);
  // A stand-by keeps its caches warm.
  for (const cache of controllers.allCaches()) {
    observeCache(ports, cache);
    cache.start();
  }
  const place = { namespace: "default", name: "pod-sets", identity: ports.name };
  const lease = new Lease({ ...ports, metrics: noMetrics, ...place, times: simLeaseTimes });
  let started: Promise<boolean> | undefined;
  lease.start({
    acquired: () => {
      started ??= controllers.start();
    },
    lost: () => {},
  });
  await new Promise<void>((resolve) => {
    ports.cancel.onCancel(resolve);
  });
  await controllers.stop();
  await lease.stop();
  await started;
}
