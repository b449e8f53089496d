import type { NewObject } from "../../model/intent.ts";
import type { CoreEvent, EventSource, ObjectReference } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { formatTime } from "../../model/values/time.ts";
import type { EventNote } from "./eventRecorder.ts";

export interface EventFacts {
  readonly name: string;
  readonly regarding: KubeObject;
  readonly note: EventNote;
  readonly times: { readonly firstMs: number; readonly lastMs: number; readonly count: number };
  readonly source: EventSource;
  readonly reporter: { readonly controller: string; readonly instance: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * An Event of core/v1 with `source`, `count` and both timestamps. Events of events.k8s.io/v1 must not have these, and
 * `kubectl get events --sort-by=.lastTimestamp` finds nothing where no Event has them.
 */
export function coreEvent(facts: EventFacts): NewObject<CoreEvent> {
  const { name, regarding, note, times, source, reporter, annotations } = facts;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: {
      name,
      namespace: regarding.metadata.namespace ?? "default",
      ...(annotations !== undefined && { annotations }),
    },
    type: note.type,
    reason: note.reason,
    action: note.action,
    message: note.note,
    involvedObject: referenceOf(regarding),
    ...(note.related && { related: referenceOf(note.related) }),
    source,
    reportingComponent: reporter.controller,
    reportingInstance: reporter.instance,
    firstTimestamp: formatTime(times.firstMs),
    lastTimestamp: formatTime(times.lastMs),
    count: times.count,
  };
}

function referenceOf({ apiVersion, kind, metadata }: KubeObject): ObjectReference {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { apiVersion, kind, ...(namespace !== undefined && { namespace }), name, uid, resourceVersion };
}
