import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import {
  all,
  annotationsChanged,
  any,
  conditionChanged,
  fieldChanged,
  generationChanged,
  labelsChanged,
  not,
  type Predicate,
  revisionChanged,
} from "./predicates.ts";
import { Channel, forMapped, forObject, forOwner, timerSource } from "./sources.ts";

function object(metadata: object = {}, more: object = {}): KubeObject {
  const base = { name: "p", namespace: "a", uid: "u", resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" };
  return { apiVersion: "v1", kind: "Pod", metadata: { ...base, ...metadata }, ...more };
}

function update(before: KubeObject, after: KubeObject): CacheEvent {
  return { type: "updated", key: "a/p", before, object: after, isOld: false };
}

function ready(status: string, reason = "Because", message = ""): KubeObject {
  return object({}, { status: { conditions: [{ type: "Ready", status, reason, message }] } });
}

const ownerOf = (name: string, more: object = {}) =>
  object({ ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name, uid: "r", ...more }] });

describe("an event is worth a reconcile", () => {
  const same = update(object(), object());
  const news: { name: string; is: Predicate; yes: CacheEvent; no: CacheEvent }[] = [
    {
      name: "a change of generation",
      is: generationChanged,
      yes: update(object({ generation: 1 }), object({ generation: 2 })),
      no: update(object({ generation: 1 }), object({ generation: 1, labels: { a: "b" } })),
    },
    {
      name: "the beginning of a deletion, which has no generation of its own on some kinds",
      is: generationChanged,
      yes: update(object(), object({ deletionTimestamp: "2026-01-01T00:00:00Z" })),
      no: same,
    },
    {
      name: "a change of revision",
      is: revisionChanged,
      yes: update(object(), object({ resourceVersion: "2" })),
      no: same,
    },
    {
      name: "a change of labels",
      is: labelsChanged,
      yes: update(object(), object({ labels: { a: "b" } })),
      no: update(object({ labels: { a: "b", c: "d" } }), object({ labels: { c: "d", a: "b" } })),
    },
    {
      name: "a change of annotations",
      is: annotationsChanged,
      yes: update(object({ annotations: { a: "b" } }), object()),
      no: same,
    },
    {
      name: "a condition whose status changes, and not one of which only the message changes",
      is: conditionChanged("Ready"),
      yes: update(ready("False"), ready("True")),
      no: update(ready("True", "Because", "one"), ready("True", "Because", "two")),
    },
    {
      name: "a condition that appears",
      is: conditionChanged("Ready"),
      yes: update(object(), ready("True")),
      no: same,
    },
    {
      name: "a field that changes",
      is: fieldChanged(({ spec }) => spec),
      yes: update(object({}, { spec: { a: 1 } }), object({}, { spec: { a: 2 } })),
      no: update(object({}, { spec: { a: 1 } }), object({}, { spec: { a: 1 } })),
    },
    {
      name: "both of two",
      is: all(labelsChanged, annotationsChanged),
      yes: update(object(), object({ labels: { a: "b" }, annotations: { a: "b" } })),
      no: update(object(), object({ labels: { a: "b" } })),
    },
    {
      name: "one of two",
      is: any(labelsChanged, annotationsChanged),
      yes: update(object(), object({ labels: { a: "b" } })),
      no: same,
    },
    {
      name: "the opposite",
      is: not(labelsChanged),
      yes: same,
      no: update(object(), object({ labels: { a: "b" } })),
    },
  ];

  test.each(news)("$name", ({ is, yes, no }) => {
    expect([is(yes), is(no)]).toEqual([true, false]);
  });

  test("additions and deletions always are", () => {
    const added: CacheEvent = { type: "added", key: "a/p", object: object(), isOld: false };
    const base = { key: "a/p", before: object(), object: object(), isOld: false, isFinalStateUnknown: false };
    const deleted: CacheEvent = { type: "deleted", ...base };
    for (const is of [generationChanged, revisionChanged, labelsChanged, conditionChanged("Ready")]) {
      expect([is(added), is(deleted)]).toEqual([true, true]);
    }
  });
});

describe("the keys of an event", () => {
  const replicaSet = { group: "apps", kind: "ReplicaSet" };

  test("the object's own", () => {
    expect([...forObject()(update(object(), object()))]).toEqual(["a/p"]);
  });

  test("the controlling owner's, and the former one's when it changed", () => {
    const before = ownerOf("old", { controller: true });
    const after = ownerOf("new", { controller: true });
    expect([...forOwner(replicaSet)(update(before, after))]).toEqual(["a/old", "a/new"]);
  });

  test("not that of an owner that is not the controller, unless any owner is accepted", () => {
    const event: CacheEvent = { type: "added", key: "a/p", object: ownerOf("r"), isOld: false };
    expect([...forOwner(replicaSet)(event)]).toEqual([]);
    expect([...forOwner(replicaSet, { isAnyOwner: true })(event)]).toEqual(["a/r"]);
    expect([...forOwner({ group: "batch", kind: "Job" }, { isAnyOwner: true })(event)]).toEqual([]);
  });

  test("that of whatever it is mapped to, before and after", () => {
    const onNode = (node: string) => object({}, { spec: { nodeName: node } });
    const nodeOf = forMapped((pod: KubeObject) => [(pod["spec"] as { nodeName: string }).nodeName]);
    expect([...nodeOf(update(onNode("n1"), onNode("n2")))]).toEqual(["n1", "n2"]);
  });

  test("of pushed keys, also of those pushed before the start", () => {
    const channel = new Channel();
    channel.push("b");
    channel.push("a");
    const keys: string[] = [];
    const stop = channel.start({ add: (key) => keys.push(key) });
    channel.push("c");
    stop();
    expect(keys).toEqual(["a", "b", "c"]);
  });

  test("of the timer's keys, at each interval", async () => {
    const clock = new ManualClock();
    const keys: string[] = [];
    const source = timerSource({ clock, random: seededRandom(1) }, 1000, () => ["x"]);
    const stop = source.start({ add: (key) => keys.push(key), addAfter: () => {} });
    await clock.advance(3400);
    expect(keys).toEqual(["x", "x", "x"]);
    stop();
    expect(clock.pending).toBe(0);
  });
});
