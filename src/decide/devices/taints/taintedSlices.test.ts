import { expect, test } from "vitest";
import { device, driverB, slice, taint } from "../../../../testing/decide/deviceCluster.ts";
import { partly } from "../../../../testing/partly.ts";
import type { DeviceTaintRule } from "../../../model/kubernetes.generated.ts";
import { TaintedSlices } from "./taintedSlices.ts";

const rule = (name: string, deviceSelector: object | undefined, value = "r"): DeviceTaintRule =>
  partly<DeviceTaintRule>({
    metadata: { name },
    spec: { ...(deviceSelector && { deviceSelector }), taint: { key: "k", value, effect: "NoSchedule" } },
  });
const a = slice("a", { devices: ["d1", "d2"] });
const b = slice("b", { driver: driverB, pool: "pool-2", devices: [device("d1", { taints: [taint.none] })] });

/** `slice/device: values of its taints`. */
function told(tainted: TaintedSlices): string[] {
  return tainted
    .list()
    .flatMap(({ metadata, spec }) =>
      (spec.devices ?? []).flatMap(({ name, taints = [] }) =>
        taints.length === 0 ? [] : [`${metadata.name}/${name}: ${taints.map(({ value }) => value).join(",")}`],
      ),
    );
}

function cluster(...rules: DeviceTaintRule[]): TaintedSlices {
  const tainted = new TaintedSlices();
  for (const each of rules) tainted.setRule(each.metadata.name, each);
  for (const each of [b, a]) tainted.setSlice(each.metadata.name, each);
  return tainted;
}

test.each([
  { name: "add-slices-no-patches", rules: [], taints: ["b/d1: v3"] },
  { name: "patch-all-slices", rules: [rule("r", {})], taints: ["a/d1: r", "a/d2: r", "b/d1: v3,r"] },
  { name: "a rule without a selector patches nothing", rules: [rule("r", undefined)], taints: ["b/d1: v3"] },
  {
    name: "merge-taints",
    rules: [rule("r", { driver: driverB }), rule("s", {}, "s")],
    taints: ["a/d1: s", "a/d2: s", "b/d1: v3,r,s"],
  },
  {
    name: "add-taint-for-driver",
    rules: [rule("r", { driver: "driver-a" })],
    taints: ["a/d1: r", "a/d2: r", "b/d1: v3"],
  },
  { name: "add-taint-for-pool", rules: [rule("r", { pool: "pool-1" })], taints: ["a/d1: r", "a/d2: r", "b/d1: v3"] },
  { name: "add-taint-for-device", rules: [rule("r", { device: "d2" })], taints: ["a/d2: r", "b/d1: v3"] },
  {
    name: "filter-all-criteria",
    rules: [rule("r", { driver: "driver-a", pool: "pool-1", device: "d1" })],
    taints: ["a/d1: r", "b/d1: v3"],
  },
])("$name", ({ rules, taints }) => {
  expect(told(cluster(...rules))).toEqual(taints);
});

test("a slice that no rule selects stays the same object, so nothing is recomputed", () => {
  const tainted = cluster(rule("r", { driver: driverB }));
  expect(tainted.get("a")).toBe(a);
  const before = tainted.get("b");
  expect(tainted.setSlice("b", b)).toBe(false);
  expect(tainted.get("b")).toBe(before);
});

test("update-patch, update-slices-no-patches, update-patched-slice, remove-patch-known-deleted-rule, delete-slices, remove-patch-unknown-deleted-rule", () => {
  const tainted = cluster(rule("r", { device: "d1" }));
  expect(tainted.setRule("r", rule("r", { device: "d1" }, "r2"))).toBe(true);
  expect(told(tainted)).toEqual(["a/d1: r2", "b/d1: v3,r2"]);
  expect(tainted.setSlice("a", slice("a", { devices: ["d1", "d3"] }))).toBe(true);
  expect(told(tainted)).toEqual(["a/d1: r2", "b/d1: v3,r2"]);
  expect(tainted.setRule("r", undefined)).toBe(true);
  expect(told(tainted)).toEqual(["b/d1: v3"]);
  expect(tainted.setSlice("b", undefined)).toBe(true);
  expect(told(tainted)).toEqual([]);
  expect(tainted.setRule("unknown", undefined)).toBe(false);
});
