import { describe, expect, test } from "vitest";
import type { CoreEvent } from "../../../model/kubernetes.generated.ts";
import { decisionLog, lastEviction } from "./decisionLog.ts";

function event(kind: string, name: string, reason: string, second: number, message = ""): CoreEvent {
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: `${name}.${second}`, namespace: "default", uid: "", resourceVersion: "", creationTimestamp: "" },
    involvedObject: { kind, namespace: "default", name },
    reason,
    message,
    eventTime: `2026-01-01T00:00:${String(second).padStart(2, "0")}.000000Z`,
  };
}

const events = [
  event("PodGroup", "pg-v3", "Evict", 9, "pod default/v3-a: reclaimed by default/pg-big"),
  event("Pod", "v3-a", "Evicted", 9, "reclaimed by default/pg-big"),
  event("Pod", "v3-a", "Scheduled", 1, "bound to h100-0"),
  event("Pod", "v3-a", "Started", 2),
  event("PodGroup", "pg-v3", "Evict", 4, "pod default/v3-0: an earlier one"),
];

describe("the log of decisions", () => {
  test("has placements and evictions, oldest first, each eviction once", () => {
    expect(decisionLog(events).map(({ object, reason }) => [object, reason])).toEqual([
      ["pod/v3-a", "Scheduled"],
      ["pod/v3-a", "Evicted"],
    ]);
  });

  test("of evictions only has no placements", () => {
    expect(decisionLog(events, true).map(({ message }) => message)).toEqual(["reclaimed by default/pg-big"]);
  });
});

describe("the last eviction of a group", () => {
  test("is the newest of its own", () => {
    expect(lastEviction(events, { namespace: "default", name: "pg-v3" })?.message).toContain("reclaimed by");
  });

  test("is unknown for another group of that name", () => {
    expect(lastEviction(events, { namespace: "other", name: "pg-v3" })).toBeUndefined();
  });
});
