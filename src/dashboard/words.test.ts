import { expect, test } from "vitest";
import { bareName, gpus, name, shortSpan, shortType, span, unknown } from "./words.ts";

test("a name cannot hide characters that turn or break text, and is cut at 253", () => {
  expect(name("a\u202egnp.exe")).toBe("a\\u202egnp.exe");
  expect(name("a\u0000b\u200bc\nd")).toBe("a\\u0000b\\u200bc\\u000ad");
  expect(name("x".repeat(300))).toHaveLength(254);
  expect(name("chat-model-764f56bfdc-5jckr")).toBe("chat-model-764f56bfdc-5jckr");
});

test("an amount that is not known is a dash, and never a zero", () => {
  expect(gpus(undefined)).toBe(unknown);
  expect([gpus(0), gpus(500), gpus(176_500), gpus(1_234_000)]).toEqual(["0", "0.5", "176.5", "1,234"]);
});

test("spans are as long as they need to be", () => {
  expect([span(41_000), span(846_000), span(7_500_000)]).toEqual(["41 s", "14 m 06 s", "2 h 05 m"]);
  expect([shortSpan(59_999), shortSpan(846_000), shortSpan(5 * 86_400_000)]).toEqual(["59 s", "14 m", "5 d"]);
});

test("a group that the pod grouper made is called by its workload", () => {
  expect(bareName("default/pg-too-big-59d637dd-9c36-421b-9f28-2ff90e0d1c99")).toBe("too-big");
  expect(bareName("default/pg-mine")).toBe("pg-mine");
});

test.each([
  ["NVIDIA-H100-80GB-HBM3", "H100"],
  ["NVIDIA-A100-SXM4-80GB", "A100"],
  ["NVIDIA-L40S", "L40S"],
  ["Tesla-T4", "T4"],
  ["GPU", "GPU"],
])("%s is %s for short", (type, short) => {
  expect(shortType(type)).toBe(short);
});
