/** What the scheduler decided, read from the Events that it recorded. */
import type { CoreEvent } from "../../../model/kubernetes.generated.ts";
import { compareRevisions } from "../../../model/revision.ts";
import { timeToMs } from "../../../model/values/time.ts";

/** One row of `muster log`. */
export interface Decision {
  readonly atMs: number;
  readonly namespace: string;
  /** `pod/train-0`, as kubectl prints it. */
  readonly object: string;
  /** The reason of the Event: Scheduled, Evicted, FailedScheduling. */
  readonly reason: string;
  readonly message: string;
}

const decisionReasons: ReadonlySet<string> = new Set([
  "Scheduled",
  "Pipelined",
  "Evicted",
  "Preempted",
  "TaintManagerEviction",
  "FailedScheduling",
  "Unschedulable",
  "BindingError",
]);
const evictionReasons: ReadonlySet<string> = new Set(["Evicted", "Preempted", "TaintManagerEviction"]);

/** Decisions, oldest first. An eviction counts once, with its pod: the Event of the PodGroup repeats it. */
export function decisionLog(events: readonly CoreEvent[], evictionsOnly = false): Decision[] {
  const shown = evictionsOnly ? evictionReasons : decisionReasons;
  return events
    .filter(({ reason = "" }) => shown.has(reason))
    .sort(inOrder)
    .map((event) => {
      const { kind = "", namespace = "", name = "" } = event.involvedObject;
      return {
        atMs: atMsOf(event),
        namespace,
        object: `${kind.toLowerCase()}/${name}`,
        reason: event.reason ?? "",
        message: event.message ?? "",
      };
    });
}

/** The last eviction from a PodGroup: when, and the scheduler's reason for it. */
export function lastEviction(
  events: readonly CoreEvent[],
  group: { readonly namespace: string; readonly name: string },
): { readonly atMs: number; readonly message: string } | undefined {
  return events
    .filter(({ reason, involvedObject: { kind, namespace, name } }) => {
      return reason === "Evict" && kind === "PodGroup" && namespace === group.namespace && name === group.name;
    })
    .sort(inOrder)
    .map((event) => ({ atMs: atMsOf(event), message: event.message ?? "" }))
    .at(-1);
}

/** Times of Events are whole seconds; within one, the last write decides. */
function inOrder(one: CoreEvent, other: CoreEvent): number {
  const byTime = atMsOf(one) - atMsOf(other);
  return byTime || compareRevisions(one.metadata.resourceVersion, other.metadata.resourceVersion);
}

function atMsOf({ lastTimestamp, series, eventTime, firstTimestamp, metadata }: CoreEvent): number {
  const time = series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? firstTimestamp ?? metadata.creationTimestamp;
  return timeToMs(time) ?? 0;
}
