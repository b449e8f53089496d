/**
 * Events are served in two groups and stored in one: core/v1 is the stored form, events.k8s.io/v1 a view of it. Only
 * field names differ, so conversion loses nothing.
 */
import type { KubeObject } from "../../model/objects/object.ts";

/** Fields with different names, core first. All others are the same in both. */
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

/** The stored event as events.k8s.io/v1. Shares the fields that keep their name with its input. */
export function eventsFromCore(event: KubeObject): KubeObject {
  const out = rename(event, toEvents, "events.k8s.io/v1");
  // core/v1 always writes these two fields, events.k8s.io/v1 only when they are set.
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
