import { describe, expect, test } from "vitest";
import type { AdmissionRequest } from "../admissionHook.ts";
import type { KubeObject } from "../object.ts";
import { schedulingHooks } from "./hooks.ts";

const nothing = { get: () => undefined, list: () => [] };

function review(plural: string, request: Partial<AdmissionRequest>) {
  const hook = schedulingHooks.find(({ resource }) => resource.plural === plural)!;
  return hook.review(
    {
      operation: "CREATE",
      namespace: "",
      name: "x",
      object: undefined,
      oldObject: undefined,
      user: { username: "", groups: [] },
      dryRun: false,
      ...request,
    },
    nothing,
  );
}

const object = (rest: object) => ({ metadata: { name: "x" }, ...rest }) as unknown as KubeObject;
const group = (spec: object, operation: "CREATE" | "UPDATE" = "CREATE") =>
  review("podgroups", { operation, object: object({ spec }) });

describe("a queue", () => {
  test("says what it may hold", () => {
    expect(review("queues", { object: object({ spec: {} }) })).toMatchObject({
      allowed: false,
      message: expect.stringContaining("spec.resources: Required"),
    });
    expect(review("queues", { operation: "UPDATE", object: object({ spec: {} }) }).allowed).toBe(false);
    expect(review("queues", { object: object({ spec: { resources: {} } }) }).allowed).toBe(true);
  });

  test("stays while it has children", () => {
    const parent = object({ spec: {}, status: { childQueues: ["a"] } });
    expect(review("queues", { operation: "DELETE", oldObject: parent })).toMatchObject({
      allowed: false,
      message: expect.stringContaining("child queues a"),
    });
    expect(review("queues", { operation: "DELETE", oldObject: object({ spec: {} }) }).allowed).toBe(true);
  });
});

describe("a group", () => {
  test.each([
    ["counts its pods or its subgroups, not both", { minMember: 1, minSubGroup: 1 }, "spec.minSubGroup"],
    [
      "has subgroups of different names",
      {
        subGroups: [
          { name: "a", minMember: 1 },
          { name: "a", minMember: 1 },
        ],
      },
      "Duplicate",
    ],
    [
      "knows the parents of its subgroups",
      { subGroups: [{ name: "a", parent: "b", minMember: 1 }] },
      "no subgroup has this name",
    ],
    [
      "has no circle of subgroups",
      {
        subGroups: [
          { name: "a", parent: "b" },
          { name: "b", parent: "a" },
        ],
      },
      "circle",
    ],
    [
      "has a minimum for every subgroup of pods",
      { subGroups: [{ name: "a" }] },
      "spec.subGroups[0].minMember: Required",
    ],
    [
      "has no minimum of subgroups where there are none",
      { subGroups: [{ name: "a", minMember: 1, minSubGroup: 1 }] },
      "minSubGroup",
    ],
    [
      "has no pods beside subgroups",
      {
        subGroups: [
          { name: "a", minMember: 1 },
          { name: "b", parent: "a", minMember: 1 },
        ],
      },
      "spec.subGroups[0].minMember: Forbidden",
    ],
  ])("%s", (_, spec, says) => {
    expect(group(spec)).toMatchObject({ allowed: false, message: expect.stringContaining(says) });
  });

  test("that has pods beside subgroups already may still change", () => {
    const spec = {
      subGroups: [
        { name: "a", minMember: 1 },
        { name: "b", parent: "a", minMember: 1 },
      ],
    };
    expect(group(spec, "UPDATE")).toMatchObject({ allowed: true, warnings: [expect.stringContaining("minMember")] });
  });

  test("that waits for more subgroups than it has is warned of", () => {
    expect(group({ minSubGroup: 2, subGroups: [{ name: "a", minMember: 1 }] })).toMatchObject({
      allowed: true,
      warnings: [expect.stringContaining("only 1 exist")],
    });
  });
});

test.each([
  [
    "twice",
    [
      { nodeLabel: "a", alias: "x" },
      { nodeLabel: "b", alias: "x" },
    ],
  ],
  ["for a label of another level", [{ nodeLabel: "a", alias: "b" }, { nodeLabel: "b" }]],
])("an alias of a topology may not stand %s", (_, levels) => {
  expect(review("topologies", { object: object({ spec: { levels } }) }).allowed).toBe(false);
});
