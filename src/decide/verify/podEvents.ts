/**
 * The events of exactly the given pods, matched by UID. Events of other pods and of earlier pods with the same name are
 * left out. All events of a pod are used to classify it; the limits apply to the report only.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { ObjectMeta } from "../../model/objects/object.ts";
import { timeToMs } from "../../model/values/time.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";

export interface PodEvent {
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  /** When the event was last seen; undefined when it has no time. */
  readonly at: string | undefined;
}

export const eventsPerPod = 5;
export const eventsInAll = 50;

interface CoreEvent {
  readonly metadata: ObjectMeta;
  readonly involvedObject?: { readonly kind?: string; readonly uid?: string };
  readonly reason?: string;
  readonly message?: string;
  readonly count?: number;
  readonly firstTimestamp?: string | null;
  readonly lastTimestamp?: string | null;
  readonly eventTime?: string | null;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
}

/** By UID, newest first; pods without events are missing. */
export type EventsOfPods = ReadonlyMap<string, readonly PodEvent[]>;

export function eventsOfPods(snapshot: ClusterSnapshot, pods: readonly Pod[]): EventsOfPods {
  const wanted = new Set(pods.map(({ metadata }) => metadata.uid));
  const found = new Map<string, CoreEvent[]>();
  for (const event of objectsOf<CoreEvent>(snapshot, "events")) {
    const uid = event.involvedObject?.uid ?? "";
    if (event.involvedObject?.kind !== "Pod" || !wanted.has(uid)) continue;
    const there = found.get(uid);
    if (there === undefined) found.set(uid, [event]);
    else there.push(event);
  }
  return new Map([...found].map(([uid, events]) => [uid, events.sort(newestFirst).map(shown)]));
}

/** The newest events of each pod, in the order of the pods, up to the limits of the report. */
export function eventsToPrint(pods: readonly Pod[], events: EventsOfPods): EventsOfPods {
  const kept = new Map<string, readonly PodEvent[]>();
  let room = eventsInAll;
  for (const { metadata } of pods) {
    const newest = (events.get(metadata.uid) ?? []).slice(0, Math.min(eventsPerPod, room));
    room -= newest.length;
    if (newest.length > 0) kept.set(metadata.uid, newest);
  }
  return kept;
}

function shown(event: CoreEvent): PodEvent {
  return {
    reason: event.reason ?? "",
    message: event.message ?? "",
    count: event.series?.count ?? event.count ?? 1,
    at: lastSeen(event),
  };
}

function lastSeen(event: CoreEvent): string | undefined {
  return event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.firstTimestamp || undefined;
}

/** Events without a time come last; equal times are ordered by name, so that the order is deterministic. */
function newestFirst(a: CoreEvent, b: CoreEvent): number {
  const [left, right] = [timeToMs(lastSeen(a)) ?? 0, timeToMs(lastSeen(b)) ?? 0];
  if (left !== right) return right - left;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
