import type { KubeObject } from "../../model/objects/object.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Core, Written } from "../verbs/core.ts";
import { createHere } from "./controller.ts";

export interface EventFacts {
  readonly about: KubeObject;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /** The reporting component. */
  readonly component: string;
}

/** Records an Event about one object. */
export function recordEvent(core: Core, facts: EventFacts): Promise<Written> {
  const { about, type, reason, message, component } = facts;
  const { name, namespace, uid, resourceVersion } = about.metadata;
  const time = formatTime(core.clock.nowMs());
  const suffix = core.random.uint32().toString(16).padStart(8, "0");
  const event = {
    kind: "Event",
    apiVersion: "v1",
    metadata: { name: `${name}.${suffix}`, namespace: namespace ?? "default" },
    involvedObject: {
      kind: about.kind,
      apiVersion: about.apiVersion,
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
    },
    reason,
    message,
    type,
    source: { component },
    reportingComponent: component,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
  return createHere(core, "/events", event, component);
}
