import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { equalJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { coreFromEvents, eventsFromCore } from "./convertEvent.ts";

const metadata = {
  name: "web.17",
  namespace: "default",
  uid: "u1",
  resourceVersion: "7",
  creationTimestamp: "2026-01-01T00:00:00Z",
};

const core: KubeObject = {
  kind: "Event",
  apiVersion: "v1",
  metadata,
  involvedObject: { kind: "Pod", name: "web", namespace: "default" },
  reason: "Scheduled",
  message: "placed on n1",
  source: { component: "scheduler", host: "h1" },
  firstTimestamp: "2026-01-01T00:00:00Z",
  lastTimestamp: "2026-01-01T00:00:01Z",
  count: 2,
  type: "Normal",
  eventTime: null,
  reportingComponent: "scheduler",
  reportingInstance: "scheduler-0",
};

const events: KubeObject = {
  kind: "Event",
  apiVersion: "events.k8s.io/v1",
  metadata,
  regarding: { kind: "Pod", name: "web", namespace: "default" },
  reason: "Scheduled",
  note: "placed on n1",
  deprecatedSource: { component: "scheduler", host: "h1" },
  deprecatedFirstTimestamp: "2026-01-01T00:00:00Z",
  deprecatedLastTimestamp: "2026-01-01T00:00:01Z",
  deprecatedCount: 2,
  type: "Normal",
  eventTime: null,
  reportingController: "scheduler",
  reportingInstance: "scheduler-0",
};

describe("an event", () => {
  test("stored as core/v1 shows its fields under the names of events.k8s.io", () => {
    expect(eventsFromCore(core)).toEqual(events);
  });

  test("sent as events.k8s.io is stored as core/v1", () => {
    expect(coreFromEvents(events)).toEqual(core);
  });

  test("without a reporter shows none in events.k8s.io and empty texts in core", () => {
    const silent = { ...core, reportingComponent: "", reportingInstance: "" };
    const shown = eventsFromCore(silent);
    expect(shown).not.toHaveProperty("reportingController");
    expect(shown).not.toHaveProperty("reportingInstance");
    expect(coreFromEvents(shown)).toEqual(silent);
  });

  test("is not changed by looking at it", () => {
    const before = JSON.stringify(core);
    eventsFromCore(core);
    expect(JSON.stringify(core)).toBe(before);
  });

  const text = fc.string({ maxLength: 8 });
  const time = fc.constantFrom(null, "2026-01-01T00:00:00Z", "2026-02-03T04:05:06Z");
  const reference = fc.record({ kind: text, name: text, fieldPath: text }, { requiredKeys: [] });
  const anyCore = fc.record(
    {
      kind: fc.constant("Event"),
      apiVersion: fc.constant("v1"),
      metadata: fc.constant(metadata),
      involvedObject: reference,
      related: reference,
      reason: text,
      action: text,
      message: text,
      source: fc.record({ component: text, host: text }, { requiredKeys: [] }),
      firstTimestamp: time,
      lastTimestamp: time,
      eventTime: fc.constantFrom(null, "2026-01-01T00:00:00.123456Z"),
      count: fc.nat(),
      series: fc.record({ count: fc.nat(), lastObservedTime: fc.constant("2026-01-01T00:00:00.000000Z") }),
      type: text,
      reportingComponent: text,
      reportingInstance: text,
    },
    { requiredKeys: ["kind", "apiVersion", "metadata", "involvedObject", "reportingComponent", "reportingInstance"] },
  );

  test("survives the way to the other group and back", () => {
    fc.assert(fc.property(anyCore, (event) => equalJson(coreFromEvents(eventsFromCore(event)), event)));
  });

  test("of the other group survives the way to the store and back", () => {
    fc.assert(
      fc.property(anyCore.map(eventsFromCore), (event) => equalJson(eventsFromCore(coreFromEvents(event)), event)),
    );
  });
});
