import { describe, expect, test } from "vitest";
import {
  type CollectVerdict,
  collectDecision,
  type DependentFacts,
  type OwnerState,
  waitMode,
} from "./collectDecision.ts";

function facts(states: OwnerState[], more: Partial<DependentFacts> = {}): DependentFacts {
  const owners = states.map((state, at) => ({ uid: `u${at}`, state }));
  return { owners, isTerminating: false, finalizers: [], hasDependents: false, isInCycle: false, ...more };
}

const keep: CollectVerdict = { kind: "keep" };
const drop = (...uids: string[]): CollectVerdict => ({ kind: "dropReferences", uids });
const remove = (policy: "Background" | "Foreground" | "Orphan", unblockFirst = false): CollectVerdict => ({
  kind: "delete",
  policy,
  unblockFirst,
});

describe("what becomes of an object whose owners are", () => {
  const cases: [string, DependentFacts, CollectVerdict][] = [
    ["none", facts([]), keep],
    ["solid", facts(["solid"]), keep],
    ["all absent", facts(["absent", "absent"]), remove("Background")],
    ["solid and absent", facts(["solid", "absent"]), drop("u1")],
    ["solid and going in the foreground", facts(["deletingDependents", "solid"]), drop("u0")],
    ["going in the foreground", facts(["deletingDependents"]), remove("Background")],
    [
      "going in the foreground, with dependents",
      facts(["deletingDependents"], { hasDependents: true }),
      remove("Foreground"),
    ],
    [
      "going in the foreground and waiting for it in turn",
      facts(["deletingDependents"], { hasDependents: true, isInCycle: true }),
      remove("Foreground", true),
    ],
    ["absent and going in the foreground", facts(["absent", "deletingDependents"]), remove("Background")],
    ["orphaning", facts(["orphaning"]), drop("u0")],
    ["orphaning and absent", facts(["absent", "orphaning"]), drop("u1")],
    ["orphaning, and it is going itself", facts(["orphaning"], { isTerminating: true }), drop("u0")],
    ["absent, and it is going itself", facts(["absent"], { isTerminating: true }), keep],
    ["absent and of an unknown kind", facts(["absent", "unknown"]), keep],
    ["misplaced", facts(["misplaced"]), keep],
    ["absent, and its dependents are to be orphaned", facts(["absent"], { finalizers: ["orphan"] }), remove("Orphan")],
    [
      "absent, and its dependents are to go first",
      facts(["absent"], { finalizers: ["foregroundDeletion"] }),
      remove("Foreground"),
    ],
  ];
  test.each(cases)("%s", (_, given, verdict) => {
    expect(collectDecision(given)).toEqual(verdict);
  });
});

describe("an owner waits for its dependents", () => {
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  const cases: [string, Parameters<typeof waitMode>[0], ReturnType<typeof waitMode>][] = [
    ["not while it is not deleted", { finalizers: ["orphan"] }, undefined],
    ["not for other finalizers", { deletionTimestamp, finalizers: ["example.com/x"] }, undefined],
    ["to forget it", { deletionTimestamp, finalizers: ["orphan"] }, "orphan"],
    ["to go", { deletionTimestamp, finalizers: ["example.com/x", "foregroundDeletion"] }, "foreground"],
  ];
  test.each(cases)("%s", (_, metadata, mode) => {
    expect(waitMode(metadata)).toBe(mode);
  });
});
