import type { ObjectCache } from "../control/cache/objectCache.ts";
import { assumeCacheOf } from "../control/runtime/assumeCacheOf.ts";
import type { Controllers } from "../control/runtime/controllers.ts";
import { type Decision, InFlightWrites } from "../control/runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../control/runtime/loop.ts";
import { timerSource } from "../control/runtime/sources.ts";
import type { KubeObject, ObjectMeta } from "../model/objects/object.ts";
import type { Resource } from "../model/objects/resource.ts";
import type { ObjectRef } from "../ports/kubeApi.ts";
import type { AssumeCacheOptions } from "../snapshot/assumeCache.ts";
import type { Effect } from "../snapshot/ledger.ts";
import type { ActorPorts, ActorSpec } from "./actor.ts";
import { controllersProcess } from "./controllersProcess.ts";

export const kinds = {
  namespaces: { group: "", version: "v1", plural: "namespaces" },
  pods: { group: "", version: "v1", plural: "pods" },
  nodes: { group: "", version: "v1", plural: "nodes" },
  configMaps: { group: "", version: "v1", plural: "configmaps" },
  replicaSets: { group: "apps", version: "v1", plural: "replicasets" },
} as const satisfies Record<string, Resource>;

export function at(kind: Resource, name: string): ObjectRef {
  return { ...kind, namespace: kind.plural === "nodes" ? "" : "default", name };
}

/** An object as a client writes it: the server adds what is missing. */
export function plain<F extends { metadata?: object; [field: string]: unknown }>(
  apiVersion: string,
  kind: string,
  namespace: string,
  name: string,
  fields?: F,
): KubeObject & Omit<F, "metadata"> {
  const { metadata, ...rest } = fields ?? ({} as F);
  const where = namespace === "" ? {} : { namespace };
  const whole = { name, ...where, ...metadata } as ObjectMeta;
  return { apiVersion, kind, metadata: whole, ...rest };
}

export function configMap(name: string, metadata: object = {}, data: Record<string, string> = {}): KubeObject {
  return plain("v1", "ConfigMap", "default", name, { metadata, data });
}

export function pod(name: string, metadata: object = {}, spec: object = {}): KubeObject {
  const containers = [{ name: "main", image: "registry/app:1" }];
  return plain("v1", "Pod", "default", name, { metadata, spec: { containers, ...spec } });
}

/** An actor without faults that ends by itself: a simulated user, or fixed infrastructure. */
export function person(name: string, run: (ports: ActorPorts) => Promise<void>): ActorSpec {
  return { name, run, finite: true, isExemptFromFaults: true };
}

/** Retries until the call succeeds: a step that is left out would change the scenario. */
export async function insist(ports: ActorPorts, call: () => Promise<{ ok: boolean; reason?: string }>): Promise<void> {
  for (let tries = 0; tries < 40; tries++) {
    const outcome = await call();
    if (outcome.ok || outcome.reason === "AlreadyExists") return;
    await ports.sleep(100);
  }
}

/** The in-flight writes of some kinds. The effects of objects are given by resource key. */
export function inFlightOf<V = never>(
  controllers: Controllers,
  kindRefs: readonly Resource[],
  effects: Readonly<Record<string, (object: KubeObject) => readonly Effect<V>[]>> = {},
  options: AssumeCacheOptions<V> = {},
): InFlightWrites<V> {
  const caches = kindRefs.map((kind) => controllers.cache(kind));
  return new InFlightWrites(controllers, assumeCacheOf(caches, effects, options));
}

/**
 * Carries out one decision as the product does: an unknown outcome is looked up first, and the write is sent again if
 * the outcome stays unknown.
 */
export async function carryOut<V>(
  inFlight: InFlightWrites<V>,
  decision: Decision<V>,
  { cancel }: ReconcileContext,
): Promise<ReconcileResult> {
  if (inFlight.assumeCache.stateOf(decision.intent) === "unknown") {
    const resolved = await inFlight.resolve(decision.intent, { cancel });
    if (!resolved.ok) return reconcileResultOf(resolved);
    if (resolved.value) return { requeueAfterMs: 20 };
  }
  const outcome = await inFlight.commitOne(decision, { cancel });
  return outcome.ok ? undefined : reconcileResultOf(outcome);
}

/** A process on the controller runtime that repeats one reconcile from its caches. */
export function repeating(
  name: string,
  everyMs: number,
  kindRefs: readonly Resource[],
  run: (controllers: Controllers, caches: readonly ObjectCache[]) => Promise<void>,
): ActorSpec {
  return controllersProcess(name, (controllers) => {
    const caches = kindRefs.map((kind) => controllers.cache(kind));
    controllers.add({
      name,
      sources: [timerSource(controllers.ports, everyMs, () => ["all"])],
      reconcile: async () => {
        await run(controllers, caches);
        return undefined;
      },
    });
  });
}

/** A process that runs until it is stopped. */
export function process(name: string, run: (ports: ActorPorts) => Promise<void>): ActorSpec {
  return { name, run };
}

/** Repeats a step until the process is stopped. */
export async function every(ports: ActorPorts, ms: number, run: () => void | Promise<void>): Promise<void> {
  while (!ports.cancel.cancelled) {
    await run();
    await ports.sleep(ms);
  }
}
