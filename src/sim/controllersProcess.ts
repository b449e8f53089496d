import type { ObjectCache } from "../control/cache/objectCache.ts";
import { Controllers, type ControllersOptions } from "../control/runtime/controllers.ts";
import type { LeaseOptions, LeaseTimes } from "../control/runtime/lease.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { ActorPorts, ActorSpec } from "./actor.ts";

/** Runs last seconds of simulated time, so leases are shorter than in production. */
export const simLeaseTimes: LeaseTimes = { durationMs: 3_000, renewDeadlineMs: 2_200, retryMs: 700 };

/** How a simulated process runs its controllers. Defaults are those of a real process, with shorter times. */
export interface ControllersProcessOptions extends Omit<Partial<ControllersOptions>, "lease"> {
  /** The lease that elects a leader; the identity is the name of the process. */
  readonly lease?: Pick<LeaseOptions, "namespace" | "name">;
}

/** A process of a scenario that runs controllers on the controller runtime, as `muster run` does. */
export function controllersProcess(
  name: string,
  add: (controllers: Controllers, ports: ActorPorts) => void,
  options: ControllersProcessOptions = {},
): ActorSpec {
  return { name, run: (ports) => runControllers(ports, add, options) };
}

/** Runs controllers until the process is stopped, and reports their caches to the invariants. */
export async function runControllers(
  ports: ActorPorts,
  add: (controllers: Controllers, ports: ActorPorts) => void,
  options: ControllersProcessOptions = {},
): Promise<void> {
  const { lease, ...rest } = options;
  const led = lease === undefined ? {} : { lease: { ...lease, identity: ports.name, times: simLeaseTimes } };
  const controllers = new Controllers(
    { ...ports, metrics: noMetrics },
    { fieldManager: ports.name, graceMs: 5_000, ...rest, ...led },
  );
  add(controllers, ports);
  for (const cache of controllers.allCaches()) observeCache(ports, cache);
  const stopped = new Promise<void>((resolve) => {
    ports.cancel.onCancel(resolve);
  }).then(() => controllers.stop());
  await Promise.all([controllers.start(), stopped]);
}

/**
 * Reports a cache to the invariants: its contents (I9) and its revision (I8). The contents of a cache with a selector
 * are not comparable, so only its revision is reported.
 */
export function observeCache(ports: ActorPorts, cache: ObjectCache): void {
  if (cache.isOfWholeKind) ports.observe("mirror", { kind: cache.kind, objects: () => cache.view().objects });
  const key = cache.isOfWholeKind ? cache.kind : `${cache.kind} ${JSON.stringify(cache.selection)}`;
  cache.onChanges(() => ports.observe("revision", { kind: key, revision: Number(cache.revision) }));
}

export const noMetrics: Metrics = { count: () => {}, gauge: () => {}, observe: () => {} };
