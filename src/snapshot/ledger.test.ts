import { describe, expect, test } from "vitest";
import type { Basis } from "../model/intent.ts";
import type { KubeObject } from "../model/objects/object.ts";
import { refused, succeeded } from "../model/outcome.ts";
import { type Attempt, type Ended, type IntentState, Ledger } from "./ledger.ts";

const id = "bind /pods/a/p";
const change: Basis = { uid: "u1", resourceVersion: "5" };

function pod(uid: string, resourceVersion: string): KubeObject {
  const metadata = { name: "p", namespace: "a", uid, resourceVersion, creationTimestamp: "2026-01-01T00:00:00Z" };
  return { apiVersion: "v1", kind: "Pod", metadata };
}

/** Each step is one thing that may happen to an intent. */
const steps = {
  send: (ledger: Ledger<string>, sent: Attempt[]) => {
    const attempt = ledger.send(id);
    if (attempt !== undefined) sent.push(attempt);
    return [];
  },
  done: (ledger: Ledger<string>, sent: Attempt[]) => ledger.answer(sent.at(-1)!, succeeded({}), "5"),
  doneAt7: (ledger: Ledger<string>, sent: Attempt[]) => ledger.answer(sent.at(-1)!, succeeded({ revision: "7" }), "5"),
  refused: (ledger: Ledger<string>, sent: Attempt[]) =>
    ledger.answer(sent.at(-1)!, refused("Conflict", "moved on"), "5"),
  timeOut: (ledger: Ledger<string>, sent: Attempt[]) =>
    ledger.answer(sent.at(-1)!, refused("Unknown", "timed out"), "5"),
  readSame: (ledger: Ledger<string>) => ledger.read(id, { object: pod("u1", "5").metadata, revision: "9" }),
  readNewer: (ledger: Ledger<string>) => ledger.read(id, { object: pod("u1", "8").metadata, revision: "9" }),
  readGone: (ledger: Ledger<string>) => ledger.read(id, { object: undefined, revision: "9" }),
  showSame: (ledger: Ledger<string>) => ledger.observe("/pods", { type: "added", key: "a/p", object: pod("u1", "5") }),
  showNewer: (ledger: Ledger<string>) =>
    ledger.observe("/pods", { type: "updated", key: "a/p", before: pod("u1", "5"), object: pod("u1", "7") }),
  showGone: (ledger: Ledger<string>) => {
    const before = pod("u1", "5");
    return ledger.observe("/pods", { type: "deleted", key: "a/p", before, object: before, isFinalStateUnknown: true });
  },
  showNamesake: (ledger: Ledger<string>) =>
    ledger.observe("/pods", { type: "added", key: "a/p", object: pod("u2", "8") }),
  pass6: (ledger: Ledger<string>) => ledger.passed("/pods", "6"),
  pass9: (ledger: Ledger<string>) => ledger.passed("/pods", "9"),
  listWithout: (ledger: Ledger<string>) => ledger.compare("/pods", "9", () => undefined),
  abandon: (ledger: Ledger<string>) => ledger.abandon(id),
};

type Step = keyof typeof steps;

function play(basis: Basis, names: readonly Step[]): { ledger: Ledger<string>; end: IntentState | undefined } {
  const ledger = new Ledger<string>();
  ledger.decide({ id, kind: "/pods", key: "a/p", basis, effects: [{ key: "pod/u1", value: "n1" }] });
  const sent: Attempt[] = [];
  let ended: readonly Ended[] = [];
  for (const name of names) ended = [...ended, ...steps[name](ledger, sent)];
  expect(ended.length).toBeLessThanOrEqual(1);
  const state = ledger.stateOf(id);
  // It counts exactly as long as it has not ended.
  expect(ledger.view().has("pod/u1")).toBe(state !== undefined);
  return { ledger, end: state ?? ended[0]?.end };
}

describe("an intent that changes an object", () => {
  test.each<{ name: string; steps: Step[]; is: IntentState }>([
    { name: "counts from the decision on", steps: [], is: "decided" },
    { name: "is dropped when its object moves on before it was sent", steps: ["showNewer"], is: "rejected" },
    { name: "is not moved by the state that it was decided on", steps: ["showSame"], is: "decided" },
    { name: "counts while it is on its way", steps: ["send"], is: "sent" },
    { name: "counts after the API said yes, until the watch shows it", steps: ["send", "done"], is: "acknowledged" },
    { name: "ends when the watch shows it", steps: ["send", "done", "showNewer"], is: "observed" },
    { name: "may be shown before the answer comes", steps: ["send", "showNewer", "done"], is: "observed" },
    { name: "is shown, whatever a late answer says", steps: ["send", "showNewer", "timeOut"], is: "observed" },
    { name: "waits for the revision that it got", steps: ["send", "doneAt7", "pass6"], is: "acknowledged" },
    { name: "ends when the watch has passed that revision", steps: ["send", "doneAt7", "pass9"], is: "observed" },
    { name: "without a known revision waits for its object", steps: ["send", "done", "pass9"], is: "acknowledged" },
    { name: "ends at once when it is refused", steps: ["send", "refused"], is: "rejected" },
    { name: "counts after a time-out", steps: ["send", "timeOut"], is: "unknown" },
    { name: "counts on when a read shows its object unchanged", steps: ["send", "timeOut", "readSame"], is: "unknown" },
    { name: "counts on when only time has passed", steps: ["send", "timeOut", "pass9"], is: "unknown" },
    {
      name: "counts until the watch has what a read has shown",
      steps: ["send", "timeOut", "readNewer", "pass6"],
      is: "movedOn",
    },
    { name: "ends when the watch has it too", steps: ["send", "timeOut", "readNewer", "pass9"], is: "observed" },
    {
      name: "ends when a read and the watch agree that it is gone",
      steps: ["send", "timeOut", "readGone", "pass9"],
      is: "observed",
    },
    { name: "that timed out ends with its object", steps: ["send", "timeOut", "showGone"], is: "observed" },
    {
      name: "that timed out ends when another object has the name",
      steps: ["send", "timeOut", "showNamesake"],
      is: "observed",
    },
    {
      name: "that timed out ends with a list that lacks its object",
      steps: ["send", "timeOut", "listWithout"],
      is: "observed",
    },
    {
      name: "is not over when a second attempt is refused",
      steps: ["send", "timeOut", "send", "refused"],
      is: "unknown",
    },
    {
      name: "is certain when a second attempt succeeds",
      steps: ["send", "timeOut", "send", "done"],
      is: "acknowledged",
    },
    { name: "may be given up by its owner", steps: ["send", "timeOut", "abandon"], is: "abandoned" },
  ])("$name", ({ steps: names, is }) => {
    expect(play(change, names).end).toBe(is);
  });

  test("is not sent twice at once, and not after its end", () => {
    const { ledger } = play(change, ["send"]);
    expect(ledger.send(id)).toBeUndefined();
    expect(play(change, ["send", "done", "showNewer"]).ledger.send(id)).toBeUndefined();
  });

  test("rules out every other that was decided on the same state", () => {
    const { ledger } = play(change, ["send", "timeOut"]);
    const rival = { id: "other", kind: "/pods", key: "a/p", basis: change, effects: [{ key: "pod/u1", value: "n2" }] };
    expect(ledger.decide(rival)).toBe("entered");
    expect(
      ledger
        .view()
        .get("pod/u1")
        ?.map(({ value }) => value),
    ).toEqual(["n1", "n2"]);
    const attempt = ledger.send("other");
    expect(ledger.answer(attempt!, succeeded({ isChange: true }), "5")).toEqual([{ id, end: "rejected" }]);
    expect(ledger.view().get("pod/u1")).toMatchObject([{ value: "n2", isCertain: true }]);
    expect(ledger.decide({ ...rival, id: "third" })).toBe("stale");
  });

  test.each([
    { name: "a write of what is there already", answer: { revision: "5" } },
    { name: "a write of unknown effect", answer: {} },
  ])("is not ruled out by $name, which leaves the state as it was", ({ answer }) => {
    const { ledger } = play(change, ["send"]);
    const idle = { id: "idle", kind: "/pods", key: "a/p", basis: change, effects: [] };
    ledger.decide(idle);
    expect(ledger.answer(ledger.send("idle")!, succeeded(answer), "4")).toEqual([]);
    // It is still on its way, and nothing stops it.
    expect(ledger.view().get("pod/u1")).toMatchObject([{ value: "n1" }]);
    expect(ledger.decide({ ...idle, id: "next" })).toBe("entered");
  });
});

describe("an intent that makes an object", () => {
  const create: Basis = { absentAtRevision: "6" };

  test.each<{ name: string; steps: Step[]; is: IntentState }>([
    { name: "ends when the object is shown", steps: ["send", "timeOut", "showNamesake"], is: "observed" },
    { name: "is not taken for an earlier object of the name", steps: ["send", "timeOut", "showSame"], is: "unknown" },
    { name: "is not ended by the deletion of an earlier one", steps: ["send", "timeOut", "showGone"], is: "unknown" },
    { name: "is not ended by a list without it", steps: ["send", "timeOut", "listWithout"], is: "unknown" },
    { name: "is not ended by a read without it", steps: ["send", "timeOut", "readGone", "pass9"], is: "unknown" },
    { name: "ends when the watch has passed its revision", steps: ["send", "doneAt7", "pass9"], is: "observed" },
  ])("$name", ({ steps: names, is }) => {
    expect(play(create, names).end).toBe(is);
  });

  test("that is decided again with another effect counts with both", () => {
    const { ledger } = play(create, ["send", "timeOut"]);
    const again = {
      id,
      kind: "/pods",
      key: "a/p",
      basis: { absentAtRevision: "8" },
      effects: [{ key: "pod/u1", value: "n2" }],
    };
    expect(ledger.decide(again)).toBe("counted");
    expect(
      ledger
        .view()
        .get("pod/u1")
        ?.map(({ value }) => value),
    ).toEqual(["n1", "n2"]);
    expect(ledger.send(id)).toBeDefined();
  });
});

describe("a create whose name another object had for a moment", () => {
  const create: Basis = { absentAtRevision: "4" };
  const namesake = { type: "added", key: "a/p", object: pod("u2", "5") } as const;
  const namesakeGone = {
    type: "deleted",
    key: "a/p",
    before: pod("u2", "5"),
    object: pod("u2", "6"),
    isFinalStateUnknown: false,
  } as const;

  function sent(): { ledger: Ledger<string>; attempt: Attempt } {
    const ledger = new Ledger<string>();
    ledger.decide({ id, kind: "/pods", key: "a/p", basis: create, effects: [{ key: "pod/p", value: "n1" }] });
    const attempt = ledger.send(id) as Attempt;
    return { ledger, attempt };
  }

  test("counts again when the response shows that it was created after the object of the same name, until the watch shows it", () => {
    const { ledger, attempt } = sent();
    expect(ledger.observe("/pods", namesake)).toEqual([{ id, end: "observed" }]);
    ledger.observe("/pods", namesakeGone);
    expect(ledger.view().has("pod/p")).toBe(false);
    ledger.answer(attempt, succeeded({ revision: "7" }), "6");
    expect(ledger.stateOf(id)).toBe("acknowledged");
    expect(ledger.view().has("pod/p")).toBe(true);
    expect(ledger.passed("/pods", "7")).toEqual([{ id, end: "observed" }]);
    expect(ledger.view().has("pod/p")).toBe(false);
  });

  test("does not end by the namesake's end when the answer came first", () => {
    const { ledger, attempt } = sent();
    ledger.answer(attempt, succeeded({ revision: "7" }), "4");
    expect(ledger.observe("/pods", namesake)).toEqual([]);
    expect(ledger.observe("/pods", namesakeGone)).toEqual([]);
    expect(ledger.compare("/pods", "6", () => pod("u2", "5"))).toEqual([]);
    expect(ledger.view().has("pod/p")).toBe(true);
    expect(ledger.observe("/pods", { type: "added", key: "a/p", object: pod("u3", "7") })).toEqual([
      { id, end: "observed" },
    ]);
  });

  test("does not count again when the watch has passed what was made", () => {
    const { ledger, attempt } = sent();
    ledger.observe("/pods", { type: "added", key: "a/p", object: pod("u3", "7") });
    ledger.answer(attempt, succeeded({ revision: "7" }), "7");
    expect(ledger.stateOf(id)).toBeUndefined();
  });
});

test("of two writes that both took effect on one object, the later one counts", () => {
  const ledger = new Ledger<string>();
  const intents = [
    { id: "create", basis: { absentAtRevision: "4" }, value: "live" },
    { id: "delete", basis: { uid: "u1", resourceVersion: "5" }, value: "gone" },
  ] as const;
  const values = (): string[] => (ledger.valuesAt("pod/p") ?? []).map(({ value }) => value);
  for (const { id: each, basis, value } of intents) {
    ledger.decide({ id: each, kind: "/pods", key: "a/p", basis, effects: [{ key: "pod/p", value }] });
    const attempt = ledger.send(each) as Attempt;
    if (each === "delete") expect(values()).toEqual(["live", "gone"]);
    ledger.answer(attempt, succeeded(each === "create" ? { revision: "5" } : {}), "4");
  }
  expect(values()).toEqual(["gone"]);
});
