/**
 * Faults by command: entries of one ConfigMap that every simulator of the cluster reads. Adding and clearing are
 * patches on the version that was read, so concurrent commands lose nothing.
 */

import type { ConfigMap } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { KubeApi, ObjectRef } from "../../ports/kubeApi.ts";
import { type Fault, faultKinds } from "../node/faults.ts";
import { clusterFaults, faultMap } from "./faultRegistry.ts";
import { kinds } from "./kubeletContext.ts";

const mapRef: ObjectRef = { ...kinds.configMaps, ...faultMap };
const triesMax = 8;
/** Ended faults are kept for a while: a node removes a cordon when its fault has ended. */
const keptMs = 3_600_000;

/** Adds faults, and removes those that ended long ago. */
export async function addFaults(kube: KubeApi, faults: readonly Fault[], nowMs: number): Promise<Outcome<undefined>> {
  return change(kube, (known) => {
    const data: Record<string, string | null> = {};
    for (const fault of known) if (isForgotten(fault, nowMs)) data[fault.id] = null;
    for (const fault of faults) data[fault.id] = JSON.stringify(asGiven(fault));
    return data;
  });
}

/**
 * Ends the faults with these ids; all when undefined. Returns the ids that existed. A cordon or drain that has begun is
 * kept with its end, so that its node removes the cordon; other faults are deleted.
 */
export async function clearFaults(
  kube: KubeApi,
  ids: readonly string[] | undefined,
  nowMs: number,
): Promise<Outcome<string[]>> {
  let cleared: string[] = [];
  const outcome = await change(kube, (known, keys) => {
    cleared = keys.filter((key) => ids === undefined || ids.includes(key));
    const undone = new Map(known.filter((fault) => isUndoneByNode(fault, nowMs)).map((fault) => [fault.id, fault]));
    return Object.fromEntries(
      cleared.map((id) => {
        const fault = undone.get(id);
        const untilMs = Math.min(fault?.untilMs ?? nowMs, nowMs);
        return [id, fault === undefined ? null : JSON.stringify(asGiven({ ...fault, untilMs }))];
      }),
    );
  });
  return outcome.ok ? succeeded(cleared) : outcome;
}

export async function listFaults(kube: KubeApi): Promise<Outcome<ReturnType<typeof clusterFaults>>> {
  const found = await kube.get(mapRef);
  if (!found.ok && found.reason !== "NotFound") return found;
  return succeeded(clusterFaults(found.ok ? found.value : undefined));
}

function isUndoneByNode({ kind, fromMs }: Fault, nowMs: number): boolean {
  return (kind === "cordon" || kind === "drain") && fromMs < nowMs;
}

function isForgotten({ kind, untilMs }: Fault, nowMs: number): boolean {
  // An instantaneous fault has a permanent effect: a reboot counts, a driver version stays.
  return faultKinds[kind].lasts === "while" && untilMs !== undefined && untilMs + keptMs < nowMs;
}

/** In the form that `readFault` parses, with absolute times. */
function asGiven({ kind, fromMs, untilMs, node, pod, params }: Fault): JsonObject {
  const given: JsonObject = { kind, fromMs, ...params };
  if (untilMs !== undefined) given["untilMs"] = untilMs;
  if (node !== undefined) given["node"] = node;
  if (pod !== undefined) given["pod"] = JSON.parse(JSON.stringify(pod)) as JsonObject;
  return given;
}

async function change(
  kube: KubeApi,
  decide: (known: readonly Fault[], ids: readonly string[]) => Record<string, string | null>,
): Promise<Outcome<undefined>> {
  for (let tries = 1; ; tries++) {
    const found = await kube.get(mapRef);
    if (!found.ok && found.reason !== "NotFound") return found;
    const map = found.ok ? found.value : undefined;
    const data = decide(clusterFaults(map).faults, Object.keys((map?.["data"] ?? {}) as object).sort());
    if (Object.keys(data).length === 0) return succeeded(undefined);
    const outcome = await write(kube, map, data);
    if (outcome.ok) return succeeded(undefined);
    const isRace = outcome.reason === "Conflict" || outcome.reason === "AlreadyExists" || outcome.reason === "NotFound";
    if (!isRace || tries >= triesMax) return outcome;
  }
}

function write(
  kube: KubeApi,
  map: ConfigMap | undefined,
  data: Record<string, string | null>,
): Promise<Outcome<ConfigMap>> {
  if (map === undefined) {
    const object = {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { ...faultMap },
      data: data as Record<string, string>,
    };
    return kube.create(kinds.configMaps, object);
  }
  const { uid, resourceVersion } = map.metadata;
  return kube.patch(mapRef, { type: "merge", body: { metadata: { uid, resourceVersion }, data } });
}

/** A readable id; two faults of one kind in one millisecond differ by their target. */
export function faultId(kind: string, nowMs: number, about: string): string {
  const place = about.toLowerCase().replace(/[^a-z0-9.-]+/g, "-");
  return `${kind}-${nowMs.toString(36)}${place === "" ? "" : `-${place}`}`.slice(0, 200);
}
