import { describe, expect, test } from "vitest";
import type { Device } from "../model/kubernetes.generated.ts";
import { evaluate } from "./cel.ts";
import { compileDeviceExpression, deviceValue } from "./device.ts";
import type { CelValue } from "./values.ts";

const gpu: Device = {
  name: "gpu-0",
  allowMultipleAllocations: true,
  attributes: {
    model: { string: "h100" },
    index: { int: 3 },
    ecc: { bool: true },
    driverVersion: { version: "560.35.3" },
    "other.example.com/rack": { string: "r7" },
    lists: { strings: ["a", "b"] },
  },
  capacity: { memory: { value: "80Gi" } },
};

function ask(expression: string, device = gpu): unknown {
  const compiled = compileDeviceExpression(expression);
  if (!compiled.ok) return compiled.message;
  const shown = deviceValue("gpu.example.com", device);
  if ("problem" in shown) return shown.problem;
  const result = evaluate(compiled.program, { device: shown.value as CelValue }, { costLimit: 1_000_000 });
  return result.kind === "value" ? result.value : result.kind === "error" ? result.message : result.kind;
}

describe("what a selector sees of a device", () => {
  test.each([
    ['device.driver == "gpu.example.com"', true],
    ["device.allowMultipleAllocations", true],
    // A bare name is filed under the driver.
    ['device.attributes["gpu.example.com"].model == "h100"', true],
    ['device.attributes["other.example.com"].rack == "r7"', true],
    ['device.attributes["gpu.example.com"].index > 2', true],
    ['device.attributes["gpu.example.com"].ecc', true],
    ['device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("560.0.0"))', true],
    ['device.attributes["gpu.example.com"].driverVersion.major() == 560', true],
    ['device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0', true],
    ['device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))', false],
    ['device.attributes["gpu.example.com"].lists.includes("b")', true],
    ['device.attributes["gpu.example.com"].model.includes("h100")', true],
    ['cel.bind(a, device.attributes["gpu.example.com"], a.ecc && a.index == 3)', true],
    // A domain that is missing reads as empty, and `in` still tells the truth.
    ['"nobody.example.com" in device.attributes', false],
    ['"gpu.example.com" in device.attributes', true],
    ['has(device.attributes["nobody.example.com"].x)', false],
    ['device.attributes["gpu.example.com"].?missing.orValue("none") == "none"', true],
    ['"model" in device.attributes["gpu.example.com"]', true],
  ])("%s is %s", (expression, answer) => {
    expect(ask(expression)).toBe(answer);
  });

  test.each([
    ['device.attributes["gpu.example.com"].missing == 1', "no such key: missing"],
    ['device.attributes["nobody.example.com"].x == 1', "no such key: x"],
    ["noSuchVariable", "undeclared reference"],
    ["device.driver", "must evaluate to bool"],
    ["device.nothing", "undefined field"],
  ])("%s is an error", (expression, message) => {
    expect(ask(expression)).toContain(message);
  });

  test("an attribute without a readable value fails the device, whatever the selector reads", () => {
    expect(ask("true", { name: "x", attributes: { odd: {} } })).toContain("unsupported attribute value");
  });

  test("what costs too much is stopped", () => {
    const nested = 'device.attributes["gpu.example.com"].lists.all(a, ["x"].all(b, a != b))';
    const compiled = compileDeviceExpression(nested);
    const shown = deviceValue("gpu.example.com", gpu);
    if (!compiled.ok || "problem" in shown) throw new Error("cannot be asked");
    expect(evaluate(compiled.program, { device: shown.value as CelValue }, { costLimit: 5 }).kind).toBe("costExceeded");
  });
});

describe("what an expression may cost", () => {
  test.each([
    ['device.driver == "gpu.example.com"', 4],
    ['device.attributes["d"].flag', 4],
    ['device.attributes["d"].number > 0', 5],
    ['device.attributes["d"].text == "fish"', 5],
    ['device.attributes["d"].version.isGreaterThan(semver("0.0.1"))', 6],
    ['device.capacity["d"].memory.isGreaterThan(quantity("1Mi"))', 6],
    ['"d" in device.attributes', 3],
    ['device.attributes["d"].a && device.attributes["d"].b && device.attributes["d"].c', 12],
    ['device.attributes["d"].name.matches("[0-9]+")', 18],
    ['device.attributes["d"].exists_one(x, x == "a")', 133],
    ['device.attributes["d"].list.includes("a")', 68],
  ])("%s: %d", (expression, cost) => {
    const compiled = compileDeviceExpression(expression);
    expect(compiled.ok && compiled.program.costMax).toBe(cost);
  });
});

describe("what an expression reads", () => {
  test.each([
    ['device.driver == "a"', { driver: true, attributes: [], capacities: [] }],
    [
      'device.attributes["d"].model == "x" && device.capacity["d"].memory.sign() > 0',
      { attributes: ["d/model"], capacities: ["d/memory"] },
    ],
    ['has(device.attributes["d"].x) || device.attributes["d"]["y"] == 1', { attributes: ["d/x", "d/y"] }],
  ])("%s", (expression, reads) => {
    const compiled = compileDeviceExpression(expression);
    expect(compiled.ok && compiled.reads).toMatchObject(reads);
  });

  test.each([
    ['"x" in device.attributes["d"]'],
    ['device.attributes.exists(d, d == "x")'],
    ["cel.bind(a, device.attributes, true)"],
  ])("%s cannot be told as a list", (expression) => {
    const compiled = compileDeviceExpression(expression);
    expect(compiled.ok && compiled.reads).toBeUndefined();
  });
});
