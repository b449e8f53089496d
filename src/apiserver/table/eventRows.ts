import type { CoreEvent } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { coreFromEvents } from "../events/convertEvent.ts";
import { type Cell, column, nameColumn, type TableKind, wideColumn } from "./tableKind.ts";

/** Events of both groups, which share their objects. */
export const eventTable: TableKind = {
  columns: [
    column("Last Seen", "Time since the last occurrence."),
    column("Type", "Normal or Warning."),
    column("Reason", "Reason of the event."),
    column("Object", "The object of the event."),
    wideColumn("Subobject", "The field of the object."),
    wideColumn("Source", "The reporting component."),
    column("Message", "Message of the event."),
    wideColumn("First Seen", "Time since the first occurrence."),
    wideColumn("Count", "Number of occurrences.", "integer"),
    { ...nameColumn, priority: 1 },
  ],
  cells: (object, nowMs) => {
    const event = object.apiVersion === "v1" ? object : coreFromEvents(object);
    return eventCells(event as KubeObject & CoreEvent, nowMs);
  },
};

function eventCells(event: CoreEvent, nowMs: number): Cell[] {
  const { involvedObject, series, source } = event;
  const firstSeen = humanAge(event.firstTimestamp ?? event.eventTime, nowMs);
  let lastSeen = event.lastTimestamp ? humanAge(event.lastTimestamp, nowMs) : firstSeen;
  let count = event.count || 1;
  if (series) {
    lastSeen = humanAge(series.lastObservedTime, nowMs);
    count = series.count ?? 0;
  }
  const kind = (involvedObject.kind ?? "").toLowerCase();
  const component = source?.component || event.reportingComponent || "";
  const instance = source?.host || event.reportingInstance || "";
  return [
    lastSeen,
    event.type ?? "",
    event.reason ?? "",
    involvedObject.name ? `${kind}/${involvedObject.name}` : kind,
    involvedObject.fieldPath ?? "",
    instance === "" ? component : `${component}, ${instance}`,
    (event.message ?? "").trim(),
    firstSeen,
    count,
    event.metadata.name,
  ];
}
