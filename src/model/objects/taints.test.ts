import { expect, test } from "vitest";
import { tolerates } from "./taints.ts";

test.each([
  [{ key: "a", operator: "Equal", value: "1" }, { key: "a", value: "1", effect: "NoExecute" }, true],
  [{ key: "a", value: "2" }, { key: "a", value: "1", effect: "NoExecute" }, false],
  [{ key: "a", operator: "Exists", effect: "NoSchedule" }, { key: "a", effect: "NoExecute" }, false],
  [{ operator: "Exists" }, { key: "b", effect: "NoExecute" }, true],
  [{}, { key: "b", effect: "NoExecute" }, false],
])("%j tolerates %j: %s", (toleration, taint, expected) => {
  expect(tolerates(toleration, taint)).toBe(expected);
});
