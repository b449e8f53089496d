/**
 * Events are served in two groups and stored in one: core/v1 is the stored shape, events.k8s.io/v1 the other view of
 * the same record. Only names differ, so nothing is lost either way.
 */
import type { KubeObject } from "../../model/objects/object.ts";

/** Fields that go by another name, core first. All others are the same in both. */
const renamed: readonly (readonly [core: string, events: string])[] = [
  ["involvedObject", "regarding"],
  ["message", "note"],
  ["source", "deprecatedSource"],
  ["firstTimestamp", "deprecatedFirstTimestamp"],
  ["lastTimestamp", "deprecatedLastTimestamp"],
  ["count", "deprecatedCount"],
  ["reportingComponent", "reportingController"],
];
const toEvents = new Map(renamed);
const toCore = new Map(renamed.map(([core, events]) => [events, core]));

/** The stored event as events.k8s.io/v1 shows it. Shares what it does not rename with its input. */
export function eventsFromCore(event: KubeObject): KubeObject {
  const out = rename(event, toEvents, "events.k8s.io/v1");
  // Core always writes these two, this group only when they say something.
  if (out["reportingController"] === "") delete out["reportingController"];
  if (out["reportingInstance"] === "") delete out["reportingInstance"];
  return out;
}

/** The inverse of eventsFromCore. */
export function coreFromEvents(event: KubeObject): KubeObject {
  const out = rename(event, toCore, "v1");
  out["reportingComponent"] ??= "";
  out["reportingInstance"] ??= "";
  return out;
}

function rename(event: KubeObject, names: ReadonlyMap<string, string>, apiVersion: string): KubeObject {
  const out: KubeObject = { kind: event.kind, apiVersion, metadata: event.metadata };
  for (const field of Object.keys(event)) {
    if (field === "kind" || field === "apiVersion" || field === "metadata") continue;
    out[names.get(field) ?? field] = event[field];
  }
  return out;
}
