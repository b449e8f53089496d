import { describe, expect, test } from "vitest";
import { findAll, findFirst, getField, parseJsonPath, parseSimplePath, setField } from "./jsonPath.ts";

const object = {
  metadata: { name: "a", labels: { "app.kubernetes.io/name": "web" } },
  spec: {
    replicas: 3,
    containers: [
      { name: "x", image: "i1" },
      { name: "y", image: "i2" },
    ],
    none: null,
  },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Idle", status: "False", count: 2 },
    ],
  },
};

describe("a path finds", () => {
  test.each([
    [".spec.replicas", [3]],
    ["{.spec.replicas}", [3]],
    ["$.spec.replicas", [3]],
    [".spec.containers[0].image", ["i1"]],
    [".spec.containers[-1].name", ["y"]],
    [".spec.containers[*].name", ["x", "y"]],
    [".spec.containers[0:1].name", ["x"]],
    [".spec.containers[1,0].name", ["y", "x"]],
    ['.status.conditions[?(@.type=="Ready")].status', ["True"]],
    [".status.conditions[?(@.type == 'Idle')].count", [2]],
    [".status.conditions[?(@.count>1)].type", ["Idle"]],
    [".status.conditions[?(@.count)].type", ["Idle"]],
    [".metadata.labels['app.kubernetes.io/name']", ["web"]],
    [".metadata.labels.app\\.kubernetes\\.io/name", ["web"]],
    ["..image", ["i1", "i2"]],
    [".spec.none", [null]],
    [".spec.missing.deeper", []],
    [".spec.containers[7].name", []],
    [".spec.__proto__", []],
  ])("%s", (text, expected) => {
    const path = parseJsonPath(text);
    if (typeof path === "string") throw new Error(path);
    expect(findAll(path, object)).toEqual(expected);
    expect(findFirst(path, object)).toEqual(expected[0]);
  });
});

test.each([".spec[", ".spec[a]", ".spec..", "spec", ".a[?(@.x==)]", ".a[::0]", ".spec.{x}"])(
  "%s is not a path",
  (text) => {
    expect(typeof parseJsonPath(text)).toBe("string");
  },
);

test("a simple path names fields only", () => {
  expect(parseSimplePath(".spec.replicas")).toEqual(["spec", "replicas"]);
  expect(parseSimplePath(".spec['a-b'].c")).toEqual(["spec", "a-b", "c"]);
  expect(typeof parseSimplePath(".spec.list[0]")).toBe("string");
  expect(typeof parseSimplePath("")).toBe("string");
});

test("setting a field makes the objects on the way and refuses to go through anything else", () => {
  const target = { spec: { word: "x" } };
  expect(setField(["spec", "scale", "replicas"], target, 5)).toBe(true);
  expect(getField(["spec", "scale", "replicas"], target)).toBe(5);
  expect(setField(["spec", "word", "replicas"], target, 5)).toBe(false);
  expect(setField(["__proto__", "polluted"], target, true)).toBe(true);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});
