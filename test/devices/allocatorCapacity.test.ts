/**
 * Allocation, by the names that Kubernetes' own table gives the cases: devices that are shared, and how much of them is
 * left.
 */
import { test } from "vitest";
import {
  type AllocationCase,
  claim,
  classA,
  classB,
  type DeviceSpec,
  device,
  deviceClass,
  firstOf,
  request,
  shareableClass,
  slice,
} from "../../testing/decide/deviceCluster.ts";
import { checkCase } from "./checkCase.ts";

type Policy = { default?: string; validValues?: string[]; validRange?: { min: string; max?: string; step?: string } };
const range: Policy = { default: "2", validRange: { min: "2", step: "2", max: "4" } };
const fractional: Policy = { default: "0.2", validRange: { min: "0.2", step: "0.1", max: "1" } };

const shared = (name: string, value?: string, policy?: Policy, more: DeviceSpec = {}) =>
  device(name, {
    allowMultipleAllocations: true,
    ...(value !== undefined && { cap: { memory: { value, ...(policy && { requestPolicy: policy }) } } }),
    ...more,
  });
const ask = (name: string, amount?: string, more = {}) =>
  claim(name, [
    request("req-0", { class: "shareable", ...(amount !== undefined && { capacity: { memory: amount } }), ...more }),
  ]);
const twice = (amount?: string, more = {}) => [ask("claim-0", amount, more), ask("claim-1", amount, more)];
const on = (...devices: ReturnType<typeof device>[]) => [slice("slice-1", { devices })];
const got = (name: string, amount?: string) =>
  `req-0 pool-1/${name} share${amount === undefined ? "" : ` memory=${amount}`}`;
const all = (amount?: string) => ({ all: true, ...(amount !== undefined && { capacity: { memory: amount } }) });
const n = (value: number) => ({ attrs: { n: value } });

const capacity: AllocationCase[] = [
  {
    name: "consumable-capacity-disabled-feature",
    claims: [ask("claim-0", "1")],
    slices: on(shared("d1", "2")),
    off: ["consumableCapacity"],
    expect: { error: "has capacity requests, but the DRAConsumableCapacity feature is disabled" },
  },
  {
    name: "consumable-capacity-disabled-feature-with-prioritized-list",
    claims: [claim("claim-0", [firstOf("req-0", { capacity: { memory: "1" } })])],
    slices: on(shared("d1", "2")),
    off: ["consumableCapacity"],
    expect: { error: "has capacity requests, but the DRAConsumableCapacity feature is disabled" },
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-missing-capacity-request",
    claims: [claim("claim-0", [request("req-0", { capacity: { other: "1" } })])],
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-with-missing-capacity-request",
    claims: [claim("claim-0", [request("req-0", { all: true, capacity: { other: "1" } })])],
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-without-capacity-without-capacity-request",
    claims: twice(),
    slices: on(shared("d1")),
    expect: [[got("d1")], [got("d1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-without-policy-without-capacity-request",
    claims: twice(),
    slices: on(shared("d1", "1"), shared("d2", "1")),
    expect: [[got("d1", "1")], [got("d2", "1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-without-policy-without-capacity-request-block",
    claims: twice(),
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-without-policy-with-capacity-request",
    claims: twice("1"),
    slices: on(shared("d1", "2")),
    expect: [[got("d1", "1")], [got("d1", "1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-policy-without-capacity-request",
    claims: twice(),
    slices: on(shared("d1", "4", range)),
    expect: [[got("d1", "2")], [got("d1", "2")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-zero-request-policy",
    claims: twice(),
    slices: on(shared("d1", "0", { default: "0", validValues: ["0"] })),
    expect: [[got("d1", "0")], [got("d1", "0")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-violates-zero-request-policy",
    claims: [ask("claim-0", "1")],
    slices: on(shared("d1", "4", { default: "0", validValues: ["0"] })),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-range-policy-with-capacity-request",
    claims: twice("1"),
    slices: on(shared("d1", "4", range)),
    expect: [[got("d1", "2")], [got("d1", "2")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-range-policy-step",
    claims: [ask("claim-0", "3")],
    slices: on(shared("d1", "4", range)),
    expect: [[got("d1", "4")]],
  },
  {
    name: "consumable-capacity-range-policy-request-above-int64-rejected",
    claims: [ask("claim-0", "9223372036854775808")],
    slices: on(shared("d1", "4", range)),
    expect: { error: "cannot be represented" },
  },
  {
    name: "consumable-capacity-range-policy-rounded-value-overflow-rejected",
    claims: [ask("claim-0", "9223372036854775807")],
    slices: on(shared("d1", "9223372036854775807", { default: "2", validRange: { min: "2", step: "1000" } })),
    expect: { error: "cannot be represented" },
  },
  {
    name: "consumable-capacity-range-policy-overflow-aborts-not-skip",
    claims: [ask("claim-0", "9223372036854775808")],
    slices: on(shared("d1", "4", range), shared("d2", "99223372036854775808")),
    expect: { error: "cannot be represented" },
  },
  {
    name: "consumable-capacity-range-policy-allocation-mode-all-overflow-aborts",
    claims: [ask("claim-0", "9223372036854775808", { all: true })],
    slices: on(shared("d1", "4", range)),
    expect: { error: "cannot be represented" },
  },
  {
    name: "consumable-capacity-negative-request-aborts",
    claims: [ask("claim-0", "-1")],
    slices: on(shared("d1", "4")),
    expect: { error: "negative" },
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-valid-values-policy",
    claims: [ask("claim-0", "2")],
    slices: on(shared("d1", "4", { default: "1", validValues: ["1", "2"] })),
    expect: [[got("d1", "2")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-valid-values-policy-round-up",
    claims: [ask("claim-0", "2")],
    slices: on(shared("d1", "4", { default: "1", validValues: ["1", "3"] })),
    expect: [[got("d1", "3")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-exceeded-consumable-capacity-request",
    claims: twice("2"),
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-request-over-max-sharing-policy",
    claims: [ask("claim-0", "6")],
    slices: on(shared("d1", "8", range)),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-allocated-capacity-use-remaining",
    claims: [ask("claim-0", "2")],
    slices: on(shared("d1", "4"), shared("d2", "4")),
    consumed: { "pool-1/d1": { memory: "2" } },
    expect: [[got("d1", "2")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-allocated-capacity-next-device",
    claims: [ask("claim-0", "2")],
    slices: on(shared("d1", "2"), shared("d2", "4")),
    consumed: { "pool-1/d1": { memory: "2" } },
    expect: [[got("d2", "2")]],
  },
  {
    name: "consumable-capacity-with-multi-allocatable-device-backtrack",
    claims: [
      claim(
        "claim-0",
        [0, 1].map((i) => request(`req-${i}`, { class: "shareable", capacity: { memory: "1" } })),
        { constraints: [{ matchAttribute: "driver-a/n" }] },
      ),
      claim("claim-1", [request("req-0", { class: "shareable", capacity: { memory: "2" } })]),
    ],
    slices: on(shared("d1", "2", undefined, n(1)), shared("d2", "2", undefined, n(2))),
    expect: [["req-0 pool-1/d1 share memory=1", "req-1 pool-1/d1 share memory=1"], ["req-0 pool-1/d2 share memory=2"]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-subrequest",
    claims: [
      claim("claim-0", [
        firstOf(
          "req-0",
          { class: "shareable", capacity: { memory: "4" } },
          { class: "shareable", capacity: { memory: "2" } },
        ),
      ]),
    ],
    slices: on(shared("d1", "2")),
    expect: [["req-0/sub-1 pool-1/d1 share memory=2"]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-with-no-available-consumable-capacity",
    claims: [ask("claim-0", "1")],
    slices: on(shared("d1", "2")),
    consumed: { "pool-1/d1": { memory: "2" } },
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-filter-out-no-capacity",
    claims: [ask("claim-0", undefined, all("1"))],
    slices: on(shared("d1", "2"), shared("d2")),
    expect: [[got("d1", "1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-filter-out-insufficient-capacity",
    claims: [ask("claim-0", undefined, all("2"))],
    slices: on(shared("d1", "2"), shared("d2", "1")),
    expect: [[got("d1", "2")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-allocating-sufficient",
    claims: [ask("claim-0", "1"), ask("claim-1", undefined, all("1"))],
    slices: on(shared("d1", "2"), shared("d2", "2")),
    expect: [[got("d1", "1")], [got("d1", "1"), got("d2", "1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-sufficient",
    claims: [ask("claim-0", undefined, all("1"))],
    slices: on(shared("d1", "2"), shared("d2", "2")),
    consumed: { "pool-1/d1": { memory: "1" } },
    expect: [[got("d1", "1"), got("d2", "1")]],
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-allocating-insufficient",
    claims: [ask("claim-0", "2"), ask("claim-1", undefined, all("1"))],
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-insufficient",
    claims: [ask("claim-0", undefined, all("1"))],
    slices: on(shared("d1", "2"), shared("d2", "2")),
    consumed: { "pool-1/d1": { memory: "2" } },
    expect: "none",
  },
  {
    name: "consumable-capacity-dedicated-device-with-consumable-capacity-request",
    claims: [claim("claim-0", [request("req-0", { capacity: { memory: "1" } })])],
    slices: on(device("d1", { cap: { memory: "2" } })),
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "consumable-capacity-dedicated-device-with-multiple-consumable-capacity-request",
    claims: ["claim-0", "claim-1"].map((name) => claim(name, [request("req-0", { capacity: { memory: "1" } })])),
    slices: on(device("d1", { cap: { memory: "2" } })),
    expect: "none",
  },
  {
    name: "consumable-capacity-requests-are-not-modified",
    claims: [ask("claim-0", "1000000000000000000000"), ask("claim-1", "1000000000000000000001")],
    slices: on(shared("d1", "3000000000000000000000")),
    consumed: { "pool-1/d1": { memory: "5" } },
    expect: [[got("d1", "1000E")], [got("d1", "1000000000000000000001")]],
  },
  {
    name: "allow-multiple-allocations-exclude-multi-allocatable-device-by-class-selector",
    classes: [deviceClass("dedicated", 'device.driver == "driver-a" && device.allowMultipleAllocations == false')],
    claims: [claim("claim-0", [request("req-0", { class: "dedicated" })])],
    slices: on(shared("d1", "2")),
    expect: "none",
  },
  {
    name: "allow-multiple-allocations-not-allocate-multi-allocatable-device-which-already-dedicated",
    claims: [ask("claim-0", "1")],
    slices: on(shared("d1", "2")),
    taken: ["pool-1/d1"],
    expect: "none",
  },
  {
    name: "allow-multiple-allocations-not-allocate-dedicated-device-which-change-from-multi-allocatable",
    claims: [claim("claim-0", [request("req-0")])],
    slices: on(device("d1", { cap: { memory: "2" } })),
    consumed: { "pool-1/d1": { memory: "1" } },
    shared: ["pool-1/d1"],
    expect: "none",
  },
  {
    name: "allow-multiple-allocations-with-partitionable-device",
    claims: [
      claim("claim-0", [
        request("req-0", {
          class: "shareable",
          where: 'device.capacity["driver-a"].memory.compareTo(quantity("4Gi")) == 0',
        }),
        firstOf(
          "req-1",
          { class: "shareable", where: 'device.capacity["driver-a"].memory.compareTo(quantity("6Gi")) == 0' },
          { class: "shareable", where: 'device.capacity["driver-a"].memory.compareTo(quantity("3Gi")) == 0' },
        ),
      ]),
    ],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", {
        pool: "pool-1/2",
        devices: [
          shared("d1", "4Gi", undefined, { uses: { gpu: { memory: "4Gi" } } }),
          shared("d2", "6Gi", undefined, { uses: { gpu: { memory: "6Gi" } } }),
          shared("d3", "3Gi", undefined, { uses: { gpu: { memory: "3Gi" } } }),
        ],
      }),
    ],
    expect: [["req-0 pool-1/d1 share memory=4Gi", "req-1/sub-1 pool-1/d3 share memory=3Gi"]],
  },
  {
    name: "allow-multiple-allocations-with-shared-device-counter-cross-cycle",
    claims: [claim("claim-0", [request("req-0")])],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", {
        pool: "pool-1/2",
        devices: [
          shared("d1", "8Gi", undefined, { uses: { gpu: { memory: "8Gi" } } }),
          device("d2", { uses: { gpu: { memory: "4Gi" } } }),
        ],
      }),
    ],
    shared: ["pool-1/d1"],
    consumed: { "pool-1/d1": { memory: "8Gi" } },
    expect: "none",
  },
  {
    name: "partitionable-consumable-capacity-shared-device-counter-not-recharged",
    claims: [ask("claim-0")],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "1" } } }),
      slice("slice-1", {
        pool: "pool-1/2",
        devices: [shared("d1", undefined, undefined, { uses: { gpu: { memory: "1" } } })],
      }),
    ],
    shared: ["pool-1/d1"],
    expect: [[got("d1")]],
  },
  {
    name: "consumable-capacity-with-partitionable-device-multiple-capacity-pools",
    claims: [
      claim("claim-0", [request("req-0", { class: "shareable", capacity: { memory: "1", cores: "2" } })]),
      claim("claim-1", [request("req-0", { class: "shareable", capacity: { memory: "2", cores: "2" } })]),
      claim("claim-2", [
        firstOf(
          "req-0",
          { class: "shareable", capacity: { memory: "8", cores: "2" } },
          { class: "shareable", capacity: { memory: "1", cores: "2" } },
        ),
      ]),
    ],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "4" }, cpu: { cores: "8" } } }),
      slice("slice-1", {
        pool: "pool-1/2",
        devices: [
          device("d1", {
            allowMultipleAllocations: true,
            cap: { memory: "2", cores: "4" },
            uses: { gpu: { memory: "2" }, cpu: { cores: "4" } },
          }),
          device("d2", {
            allowMultipleAllocations: true,
            cap: { memory: "3", cores: "4" },
            uses: { gpu: { memory: "3" }, cpu: { cores: "4" } },
          }),
          device("d3", {
            allowMultipleAllocations: true,
            cap: { memory: "2", cores: "4" },
            uses: { gpu: { memory: "2" }, cpu: { cores: "4" } },
          }),
        ],
      }),
    ],
    expect: [
      ["req-0 pool-1/d1 share cores=2 memory=1"],
      ["req-0 pool-1/d3 share cores=2 memory=2"],
      ["req-0/sub-1 pool-1/d1 share cores=2 memory=1"],
    ],
  },
  {
    name: "consumable-capacity-fractional-range-gate-disabled",
    claims: [ask("claim-0", "0.2")],
    slices: on(shared("d1", "1", { default: "1", validRange: { min: "0.2", step: "0.1", max: "1" } })),
    off: ["fractionalCapacityRange"],
    expect: [[got("d1", "1")]],
  },
  {
    name: "consumable-capacity-fractional-range-gate-enabled-round-up",
    claims: [ask("claim-0", "0.25")],
    slices: on(shared("d1", "1", fractional)),
    expect: [[got("d1", "300m")]],
  },
];

test.each(capacity)("$name", (each) => checkCase({ classes: [classA, classB, shareableClass], ...each }));
