/**
 * Allocation, by the names that Kubernetes' own table gives the cases: partitions with counters, taints, binding
 * conditions.
 */
import { test } from "vitest";
import {
  type AllocationCase,
  claim,
  classA,
  type DeviceSpec,
  device,
  driverB,
  firstOf,
  labelSelector,
  node2,
  request,
  slice,
  taint,
  tolerate,
} from "../../testing/decide/deviceCluster.ts";
import { checkCase } from "./checkCase.ts";

const shareable = { allowMultipleAllocations: true };
/** A partition: what it takes of the counter set is also what it offers. */
const part = (name: string, memory: string, more: DeviceSpec = {}) =>
  device(name, { uses: { gpu: { memory } }, cap: { memory }, ...more });
const counted = (memory: string, more = {}) =>
  slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory } }, ...more });
const components = (devices: readonly ReturnType<typeof device>[], more = {}) =>
  slice("slice-1", { pool: "pool-1/2", devices, ...more });
const want = (count: number, spec = {}) => [claim("claim-0", [request("req-0", { count, ...spec })])];
const each = (n: number) => `device.capacity["driver-a"].memory.compareTo(quantity("${n}Gi")) == 0`;
const lines = (...names: string[]) => [names.map((name) => `req-0 pool-1/${name}`)];
const region = labelSelector("region", "region-1");
const color = (name: string, value: string) => part(name, "1", { attrs: { color: value } });
const sameColor = { constraints: [{ matchAttribute: "driver-a/color" }] };
const binds = { bindingConditions: ["ready"], bindingFailureConditions: ["broken"] };
const bound = "binds(ready) fails(broken)";

const partitions: AllocationCase[] = [
  {
    name: "partitionable-devices-single-device",
    claims: want(1),
    slices: [counted("8Gi"), components([part("d1", "4Gi")])],
    expect: lines("d1"),
  },
  {
    name: "partitionable-devices-counter-quantities-are-not-modified",
    claims: want(1),
    slices: [
      counted("10000000000000000000"),
      components([part("d1", "9000000000000000000"), part("d2", "1000000000000000000")]),
    ],
    taken: ["pool-1/d1"],
    expect: lines("d2"),
  },
  {
    name: "partitionable-devices-counter-cache-scoped-by-pool-ID",
    claims: [
      claim("claim-0", [request("req-0")]),
      claim("claim-1", [request("req-0", { class: "class-b", count: 2 })]),
    ],
    slices: [
      counted("1"),
      components([part("d1", "1")]),
      slice("slice-2", { pool: "pool-1/2", driver: driverB, counters: { gpu: { memory: "2" } } }),
      slice("slice-3", { pool: "pool-1/2", driver: driverB, devices: [part("d1", "1"), part("d2", "1")] }),
    ],
    expect: [["req-0 pool-1/d1"], ["req-0 driver-b/pool-1/d1", "req-0 driver-b/pool-1/d2"]],
  },
  {
    name: "partitionable-devices-counter-cache-not-crossed-between-driver-schemas",
    claims: [claim("claim-0", [request("req-0")]), claim("claim-1", [request("req-0", { class: "class-b" })])],
    slices: [
      counted("8"),
      components([part("d1", "1")]),
      slice("slice-2", { pool: "pool-1/2", driver: driverB, counters: { other: { compute: "1" } } }),
      slice("slice-3", {
        pool: "pool-1/2",
        driver: driverB,
        devices: [device("d1", { uses: { other: { compute: "2" } } })],
      }),
    ],
    expect: "none",
  },
  {
    name: "partitionable-devices-taint-releases-counter",
    claims: want(1),
    slices: [counted("1"), components([part("d1", "1", { taints: [taint.noSchedule] }), part("d2", "1")])],
    expect: lines("d2"),
  },
  {
    name: "partitionable-devices-constraint-releases-counter",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], sameColor)],
    slices: [counted("2"), components([color("d1", "red"), color("d2", "blue"), color("d3", "blue")])],
    expect: lines("d2", "d3"),
  },
  {
    name: "partitionable-all-mode-constraint-must-error-with-reserved-counter",
    claims: [claim("claim-0", [request("req-0", { all: true })], sameColor)],
    slices: [counted("2"), components([color("d1", "red"), color("d2", "blue")])],
    expect: { error: "a claim constraint would not be satisfied" },
  },
  {
    name: "partitionable-consumable-capacity-backtrack-releases-counter",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], sameColor)],
    slices: [
      counted("2"),
      components([
        device("d1", { ...shareable, uses: { gpu: { memory: "1" } }, attrs: { color: "red" } }),
        color("d2", "blue"),
        color("d3", "blue"),
      ]),
    ],
    expect: lines("d2", "d3"),
  },
  {
    name: "consumable-capacity-rejection-rolls-back-constraints",
    claims: [
      claim(
        "claim-0",
        [
          firstOf(
            "req-0",
            { all: true, where: 'device.attributes["driver-a"].color == "red"' },
            { count: 1, where: 'device.attributes["driver-a"].color == "blue"' },
          ),
        ],
        sameColor,
      ),
    ],
    slices: [
      slice("slice-1", {
        devices: [
          device("d1", { ...shareable, attrs: { color: "red" }, cap: { memory: "2" } }),
          device("d2", { attrs: { color: "blue" } }),
        ],
      }),
    ],
    consumed: { "pool-1/d1": { memory: "1" } },
    expect: [["req-0/sub-1 pool-1/d2"]],
  },
  {
    name: "partitionable-empty-capacity-multiple-share-backtrack-keeps-counter-ownership",
    claims: [
      claim("claim-0", [request("req-0", { where: 'device.attributes["driver-a"].color == "red"' })]),
      claim("claim-1", [request("req-0", { count: 3 })], { constraints: [{ distinctAttribute: "driver-a/n" }] }),
    ],
    slices: [
      counted("3"),
      components([
        device("d1", { ...shareable, uses: { gpu: { memory: "1" } }, attrs: { color: "red", n: 1 } }),
        device("d2", { uses: { gpu: { memory: "1" } }, attrs: { color: "blue", n: 2 } }),
        device("d3", { uses: { gpu: { memory: "1" } }, attrs: { color: "blue", n: 3 } }),
      ]),
    ],
    expect: [["req-0 pool-1/d1 share"], ["req-0 pool-1/d1 share", "req-0 pool-1/d2", "req-0 pool-1/d3"]],
  },
  {
    name: "partitionable-devices-prioritized-list",
    claims: [
      claim("claim-0", [
        request("req-0", { where: each(4) }),
        firstOf("req-1", { where: each(6) }, { where: each(4) }),
      ]),
    ],
    slices: [counted("8Gi"), components([part("d1", "4Gi"), part("d2", "6Gi"), part("d3", "4Gi")])],
    expect: [["req-0 pool-1/d1", "req-1/sub-1 pool-1/d3"]],
  },
  {
    name: "partitionable-devices-multiple-devices",
    claims: want(2),
    slices: [counted("8Gi"), components([part("d1", "4Gi"), part("d2", "6Gi"), part("d3", "4Gi")])],
    expect: lines("d1", "d3"),
  },
  {
    name: "partitionable-devices-multiple-capacity-pools",
    claims: [
      claim("claim-0", [
        request("req-0", { where: each(4) }),
        firstOf("req-1", { where: each(6) }, { where: each(4) }),
      ]),
    ],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "18Gi" }, cpu: { cores: "8" } } }),
      components(
        [4, 6, 4].map((n, i) =>
          device(`d${i + 1}`, {
            cap: { memory: `${n}Gi` },
            uses: { gpu: { memory: `${n}Gi` }, cpu: { cores: n === 6 ? "6" : "4" } },
          }),
        ),
      ),
    ],
    expect: [["req-0 pool-1/d1", "req-1/sub-1 pool-1/d3"]],
  },
  {
    name: "partitionable-devices-multiple-counters",
    claims: want(2),
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "8", cores: "8" } } }),
      components([
        device("d1", { uses: { gpu: { memory: "2", cores: "6" } } }),
        device("d2", { uses: { gpu: { memory: "2", cores: "4" } } }),
        device("d3", { uses: { gpu: { memory: "6", cores: "4" } } }),
      ]),
    ],
    expect: lines("d2", "d3"),
  },
  {
    name: "partitionable-devices-multiple-pools",
    claims: want(2),
    slices: [
      counted("8Gi"),
      components([part("d1", "4Gi"), part("d2", "4Gi"), part("d3", "4Gi")]),
      slice("slice-2", { pool: "pool-2/2", counters: { gpu: { memory: "12Gi" } } }),
      slice("slice-3", { pool: "pool-2/2", devices: [part("d1", "4Gi"), part("d2", "4Gi"), part("d3", "4Gi")] }),
    ],
    taken: ["pool-1/d1", "pool-1/d2", "pool-2/d1"],
    expect: [["req-0 pool-2/d2", "req-0 pool-2/d3"]],
  },
  {
    name: "partitionable-devices-unused-counters-in-counter-set",
    claims: want(2),
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "8Gi", unused: "4" } } }),
      components([part("d1", "5Gi"), part("d2", "4Gi"), part("d3", "4Gi")]),
    ],
    expect: lines("d2", "d3"),
  },
  {
    name: "partitionable-devices-no-capacity-available",
    claims: want(1),
    slices: [counted("8Gi"), components([part("d1", "4Gi"), part("d2", "6Gi"), part("d3", "2Gi")])],
    taken: ["pool-1/d2", "pool-1/d3"],
    expect: "none",
  },
  {
    name: "partitionable-devices-overallocated-capacity-pool",
    claims: want(1),
    slices: [counted("8Gi"), components([part("d1", "4Gi"), part("d2", "6Gi"), part("d3", "6Gi")])],
    taken: ["pool-1/d2", "pool-1/d3"],
    expect: "none",
  },
  {
    name: "partitionable-devices-disabled-device-consumes-counters",
    claims: want(1),
    slices: [slice("slice-1", { devices: [part("d1", "4Gi")] })],
    off: ["partitionableDevices"],
    expect: "none",
  },
  {
    name: "partitionable-devices-disabled-other-device-do-not-consume-counters",
    claims: want(1),
    slices: [slice("slice-1", { devices: [part("d1", "4Gi"), device("d2")] })],
    off: ["partitionableDevices"],
    expect: lines("d2"),
  },
  {
    name: "partitionable-devices-disabled-per-device-node-selection",
    claims: want(1),
    slices: [slice("slice-1", { at: "each", devices: [device("d1", { nodeName: "node-1" })] })],
    off: ["partitionableDevices"],
    expect: "none",
  },
  {
    name: "partitionable-devices-per-device-node-selection-nodename",
    claims: [claim("claim-0", [firstOf("req-0", { where: each(6) }, { where: each(4) })])],
    slices: [
      counted("18Gi", { at: "all" }),
      components([part("d1", "4Gi", { nodeName: "node-1" }), part("d2", "6Gi", { nodeName: "node-2" })], {
        at: "each",
      }),
    ],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "partitionable-devices-per-device-node-selection-node-selector",
    claims: want(1),
    slices: [slice("slice-1", { at: "each", devices: [device("d1", { nodeSelector: region })] })],
    expect: lines("d1"),
    selectors: [region],
  },
  {
    name: "partitionable-devices-per-device-node-selection-node-selector-multiple-devices",
    claims: want(6),
    slices: [
      slice("slice-1", {
        pool: "pool-1/2",
        at: "each",
        devices: [
          device("d1", { nodeSelector: region }),
          device("d2", { nodeName: "node-1" }),
          device("d3", { allNodes: true }),
        ],
      }),
      slice("slice-2", {
        pool: "pool-1/2",
        at: "each",
        devices: [
          device("d4", { nodeSelector: labelSelector("planet", "earth") }),
          device("d5", { allNodes: true }),
          device("d6", { nodeName: "node-1" }),
          device("d7", { nodeName: "node-2" }),
        ],
      }),
    ],
    expect: lines("d1", "d2", "d3", "d4", "d5", "d6"),
  },
  {
    name: "partitionable-devices-with-attribute-selector",
    claims: [
      claim("claim-0", [
        request("req-0", { count: 2 }),
        request("req-1", { where: 'device.attributes["driver-a"].special == true' }),
      ]),
    ],
    slices: [
      counted("12Gi"),
      components([
        part("d1", "4Gi", { attrs: { special: true } }),
        part("d2", "4Gi", { attrs: { special: false } }),
        part("d3", "4Gi", { attrs: { special: false } }),
      ]),
    ],
    expect: [["req-0 pool-1/d2", "req-0 pool-1/d3", "req-1 pool-1/d1"]],
  },
  {
    name: "partitionable-devices-same-counter-set-name-in-different-resource-slices",
    claims: want(1),
    slices: [
      slice("slice-0", { pool: "pool-1/3", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1/3", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-2", { pool: "pool-1/3", devices: [part("d1", "4Gi")] }),
    ],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "partitionable-devices-device-counter-consumption-references-unknown-counter-set",
    claims: want(1),
    slices: [counted("8Gi"), components([device("d1", { uses: { unknown: { memory: "4Gi" } } })])],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "partitionable-devices-device-counter-consumption-references-unknown-counter-in-counter-set",
    claims: want(1),
    slices: [counted("8Gi"), components([device("d1", { uses: { gpu: { unknown: "4Gi" } } })])],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "partitionable-devices-device-counter-consumption-references-counter-set-in-other-pool",
    claims: want(1),
    slices: [
      slice("slice-0", { pool: "pool-2", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1", devices: [part("d1", "4Gi")] }),
    ],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "partitionable-devices-devices-on-different-nodes-consume-same-counter-set",
    claims: [claim("claim-0", [firstOf("req-0", { where: each(4) }, { where: each(2) })])],
    slices: [
      slice("slice-0", { pool: "pool-1/3", at: "all", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1/3", at: "node-1", devices: [part("d1", "4Gi"), part("d2", "2Gi")] }),
      slice("slice-2", { pool: "pool-1/3", at: "node-2", devices: [part("d3", "6Gi")] }),
    ],
    taken: ["pool-1/d3"],
    expect: [["req-0/sub-1 pool-1/d2"]],
  },
  {
    name: "partitionable-devices-devices-consume-counter-set-in-different-nodes",
    claims: want(1),
    slices: [
      slice("slice-0", { pool: "pool-1/3", at: "node-1", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1/3", at: "node-1", devices: [part("d1", "4Gi"), part("d2", "4Gi")] }),
      slice("slice-2", { pool: "pool-1/3", at: "node-2", devices: [part("d3", "4Gi")] }),
    ],
    node: node2,
    taken: ["pool-1/d1"],
    expect: lines("d3"),
  },
  {
    name: "partitionable-devices-validation-error-on-non-targeting-slice",
    claims: want(1),
    slices: [
      slice("slice-0", { pool: "pool-1/3", at: "all", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1/3", at: "node-1", devices: [part("d1", "4Gi")] }),
      slice("slice-2", { pool: "pool-1/3", at: "node-2", devices: [device("d2", { uses: { no: { memory: "1" } } })] }),
    ],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "partitionable-devices-with-binding-conditions",
    claims: want(1),
    slices: [counted("8Gi"), components([part("d1", "4Gi", binds)])],
    expect: [[`req-0 pool-1/d1 ${bound}`]],
  },
  {
    name: "partitionable-devices-with-binding-conditions-multiple",
    claims: want(2),
    slices: [
      counted("8Gi"),
      components([
        part("d1", "4Gi", binds),
        part("d2", "4Gi", { bindingConditions: ["ready-2"], bindingFailureConditions: ["broken-2"] }),
      ]),
    ],
    expect: [[`req-0 pool-1/d1 ${bound}`, "req-0 pool-1/d2 binds(ready-2) fails(broken-2)"]],
  },
  {
    name: "partitionable-devices-with-binding-conditions-some-devices-no-conditions",
    claims: want(3),
    slices: [counted("8Gi"), components([part("d1", "2Gi", binds), part("d2", "2Gi"), part("d3", "4Gi", binds)])],
    expect: [[`req-0 pool-1/d1 ${bound}`, "req-0 pool-1/d2", `req-0 pool-1/d3 ${bound}`]],
  },
  {
    name: "partitionable-devices-with-binding-conditions-multi-slices",
    claims: [claim("claim-0", [request("req-0"), request("req-1")])],
    slices: [
      slice("slice-4", { pool: "pool-1/4", devices: [part("d1", "4Gi", binds)] }),
      slice("slice-3", { pool: "pool-1/4", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-2", { pool: "pool-1/4", devices: [device("d2", { uses: { gpu2: { memory: "4Gi" } } })] }),
      slice("slice-1", { pool: "pool-1/4", counters: { gpu2: { memory: "8Gi" } } }),
    ],
    expect: [["req-0 pool-1/d2", `req-1 pool-1/d1 ${bound}`]],
  },
  {
    name: "partitionable-devices-with-binding-conditions-and-taints",
    claims: want(2),
    slices: [
      counted("8Gi"),
      components([part("d1", "4Gi", { ...binds, taints: [taint.noSchedule] }), part("d2", "4Gi")]),
    ],
    expect: "none",
  },
  {
    name: "partitionable-devices-with-binding-conditions-and-taints-tolerated",
    claims: want(2, { tolerations: [tolerate.noSchedule] }),
    slices: [
      counted("8Gi"),
      components([part("d1", "4Gi", { ...binds, taints: [taint.noSchedule] }), part("d2", "4Gi")]),
    ],
    expect: [[`req-0 pool-1/d1 ${bound} tolerates(v1)`, "req-0 pool-1/d2 tolerates(v1)"]],
  },
];

test.each(partitions)("$name", checkCase);

const tainted = (name: string, ...taints: (keyof typeof taint)[]) =>
  device(name, { taints: taints.map((key) => taint[key]) });
const twoTainted = [slice("slice-1", { devices: [tainted("d1", "noSchedule"), tainted("d2", "noExecute")] })];
const oneTainted = [slice("slice-1", { devices: [tainted("d1", "noSchedule", "noExecute")] })];

const taints: AllocationCase[] = [
  { name: "tainted-two-devices", claims: want(1), slices: twoTainted, expect: "none" },
  { name: "tainted-one-device-two-taints", claims: want(1), slices: oneTainted, expect: "none" },
  {
    name: "tainted-two-devices-tolerated",
    claims: want(1, { tolerations: [tolerate.noExecute] }),
    slices: twoTainted,
    expect: [["req-0 pool-1/d2 tolerates(v2)"]],
  },
  {
    name: "tainted-two-devices-prioritized-list-tolerated",
    claims: [claim("claim-0", [firstOf("req-0", {}, { tolerations: [tolerate.noExecute] })])],
    slices: twoTainted,
    expect: [["req-0/sub-1 pool-1/d2 tolerates(v2)"]],
  },
  {
    name: "tainted-no-effect",
    claims: want(1),
    slices: [slice("slice-1", { devices: [tainted("d1", "none")] })],
    expect: lines("d1"),
  },
  {
    name: "tainted-one-device-two-taints-both-tolerated",
    claims: want(1, { tolerations: [tolerate.noSchedule, tolerate.noExecute] }),
    slices: oneTainted,
    expect: [["req-0 pool-1/d1 tolerates(v1) tolerates(v2)"]],
  },
  { name: "tainted-disabled", claims: want(1), slices: oneTainted, off: ["deviceTaints"], expect: lines("d1") },
  {
    name: "tainted-prioritized-list",
    claims: [claim("claim-0", [firstOf("req-0", {}, {})])],
    slices: oneTainted,
    expect: "none",
  },
  {
    name: "tainted-prioritized-list-disabled",
    claims: [claim("claim-0", [firstOf("req-0", {}, {})])],
    slices: oneTainted,
    off: ["deviceTaints"],
    expect: [["req-0/sub-0 pool-1/d1"]],
  },
  { name: "tainted-admin-access", claims: want(1, { admin: true }), slices: oneTainted, expect: "none" },
  {
    name: "tainted-admin-access-disabled",
    claims: want(1, { admin: true }),
    slices: oneTainted,
    off: ["deviceTaints"],
    expect: [["req-0 pool-1/d1 admin"]],
  },
  { name: "tainted-all-devices-single", claims: want(1, { all: true }), slices: oneTainted, expect: "none" },
  {
    name: "tainted-all-devices-single-disabled",
    claims: want(1, { all: true }),
    slices: oneTainted,
    off: ["deviceTaints"],
    expect: lines("d1"),
  },
];

test.each(taints)("$name", checkCase);

const binding: AllocationCase[] = [
  {
    name: "device-binding-conditions",
    claims: want(1),
    slices: [slice("slice-1", { devices: [device("d1", binds)] })],
    expect: [[`req-0 pool-1/d1 ${bound}`]],
  },
  {
    name: "binding-conditions-multiple-devices",
    claims: want(2),
    slices: [slice("slice-1", { devices: [device("d1", binds), device("d2", binds)] })],
    expect: [[`req-0 pool-1/d1 ${bound}`, `req-0 pool-1/d2 ${bound}`]],
  },
  {
    name: "binding-conditions-with-and-without",
    claims: want(2),
    slices: [slice("slice-1", { devices: [device("d1", binds), device("d2")] })],
    expect: [[`req-0 pool-1/d1 ${bound}`, "req-0 pool-1/d2"]],
  },
  {
    name: "binding-conditions-without-feature-gate",
    claims: want(1),
    slices: [slice("slice-1", { devices: [device("d1", binds)] })],
    off: ["bindingConditions"],
    expect: "none",
  },
  {
    name: "node-restriction",
    claims: want(1),
    slices: [
      slice("slice-1", {
        at: labelSelector("planet", "earth"),
        devices: [device("d1", { bindsToNode: true, ...binds })],
      }),
    ],
    classes: [classA],
    expect: [[`req-0 pool-1/d1 ${bound}`]],
  },
];

test.each(binding)("$name", checkCase);
