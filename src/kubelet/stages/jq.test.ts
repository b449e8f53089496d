import { expect, test } from "vitest";
import type { Json } from "../../model/objects/json.ts";
import { compileJq, JqError } from "./jq.ts";

const pod: Json = {
  metadata: { name: "p", annotations: { "a.b/c": "5s" }, ownerReferences: [{ kind: "Job" }, { kind: "X" }] },
  status: {
    phase: "Running",
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Init", status: "False" },
    ],
    count: 3,
  },
};

test.each<[string, Json[]]>([
  [".", [pod]],
  [".status.phase", ["Running"]],
  [".status.nothing", [null]],
  [".spec.nothing.at.all", [null]],
  [".spec.list.[]", []],
  [".spec.list[].x", []],
  ['.metadata.annotations["a.b/c"]', ["5s"]],
  ['.metadata.annotations."a.b/c"', ["5s"]],
  [".metadata.ownerReferences.[].kind", ["Job", "X"]],
  [".metadata.ownerReferences[1].kind", ["X"]],
  [".metadata.ownerReferences[-1].kind", ["X"]],
  ['.status.conditions.[] | select( .type == "Ready" ) | .status', ["True"]],
  ['.status.conditions[] | select(.type == "Nope") | .status', []],
  ['.metadata.annotations["none"] // .metadata.name', ["p"]],
  ["[.status.conditions[].type]", [["Ready", "Init"]]],
  [".status.conditions | length", [2]],
  ['.status.conditions | map(.status) | any(. == "True")', [true]],
  ['.status.conditions | all(.type != "x")', [true]],
  [".status.count + 1 * 2", [5]],
  ['.status.count > 2 and .status.phase == "Running"', [true]],
  [".status.count > 5 or false", [false]],
  ["(.status.count, .status.phase)", [3, "Running"]],
  ['if .status.count > 2 then "many" else "few" end', ["many"]],
  ['.metadata | has("name")', [true]],
  ["[.status.missing | not]", [[true]]],
  ['.metadata.name | startswith("p")', [true]],
  ['"3" | tonumber', [3]],
  [".status.phase | tostring | ascii_downcase", ["running"]],
  [".metadata.name | tonumber? // 7", [7]],
  ["empty", []],
])("%s", (text, expected) => {
  expect(compileJq(text).run(pod)).toEqual(expected);
});

test.each(["", ".a |", ".a[", "select(", "nosuch", ".a == ", '"open', "@base64", ".a .b)", "if . then 1"])(
  "%j is not an expression",
  (text) => {
    expect(() => compileJq(text)).toThrow(JqError);
  },
);

test.each([".metadata.name.x", ".status.count[]", ".metadata.name - 1", ".metadata.name | tonumber"])(
  "%s fails on this object",
  (text) => {
    expect(() => compileJq(text).run(pod)).toThrow(JqError);
  },
);
