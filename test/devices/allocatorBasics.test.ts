/**
 * Allocation, by the names that Kubernetes' own table gives the cases: basics, pools, node selection, mode All, admin
 * access.
 */
import { expect, test } from "vitest";
import {
  type AllocationCase,
  claim,
  classA,
  classB,
  device,
  deviceClass,
  driverB,
  firstOf,
  labelSelector,
  nameSelector,
  node2,
  request,
  runCase,
  slice,
} from "../../testing/decide/deviceCluster.ts";
import { checkCase } from "./checkCase.ts";

const one = claim("claim-0", [request("req-0")]);
const two = (spec = {}) => claim("claim-0", [request("req-0", { count: 2, ...spec })]);
const large = 'device.capacity["driver-a"].memory.compareTo(quantity("2Gi")) >= 0';
const small = 'device.capacity["driver-a"].memory.compareTo(quantity("1Gi")) >= 0';
const d1 = device("d1", { cap: { memory: "1Gi" } });
const d2 = device("d2", { cap: { memory: "2Gi" } });
const region = labelSelector("region", "region-1");
const planet = labelSelector("planet", "earth");
const bindable = { bindingConditions: ["ready"], bindingFailureConditions: ["broken"] };

const basics: AllocationCase[] = [
  { name: "empty", expect: [] },
  {
    name: "simple",
    claims: [one],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "other-node",
    claims: [one],
    slices: [
      slice("slice-1", { driver: driverB, devices: ["d1"] }),
      slice("slice-2", { pool: "pool-2", at: "node-2", devices: ["d2"] }),
    ],
    node: node2,
    expect: [["req-0 pool-2/d2"]],
  },
  {
    name: "small-and-large",
    claims: [claim("claim-0", [request("req-0", { where: small }), request("req-1", { where: large })])],
    slices: [slice("slice-1", { devices: [d1, d2] })],
    expect: [["req-0 pool-1/d1", "req-1 pool-1/d2"]],
  },
  {
    name: "small-and-large-backtrack-requests",
    claims: [claim("claim-0", [request("req-0", { where: small }), request("req-1", { where: large })])],
    slices: [slice("slice-1", { devices: [d2, d1] })],
    expect: [["req-0 pool-1/d1", "req-1 pool-1/d2"]],
  },
  {
    name: "small-and-large-backtrack-claims",
    claims: [
      claim("claim-0", [request("req-0", { where: small })]),
      claim("claim-1", [request("req-1", { where: large })]),
    ],
    slices: [slice("slice-1", { devices: [d2, d1] })],
    expect: [["req-0 pool-1/d1"], ["req-1 pool-1/d2"]],
  },
  {
    name: "devices-split-across-different-slices",
    claims: [two()],
    slices: [slice("slice-1", { devices: ["d1"] }), slice("slice-2", { pool: "pool-2", devices: ["d2"] })],
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2"]],
  },
  {
    name: "obsolete-slice",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 2, devices: ["d2"] }),
    ],
    expect: "none",
  },
  {
    name: "duplicate-slice",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", devices: ["d1"] }),
    ],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  { name: "no-slices", claims: [one], expect: "none" },
  {
    name: "not-enough-suitable-devices",
    claims: [one, claim("claim-1", [request("req-0")])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: "none",
  },
  {
    name: "no-classes",
    claims: [one],
    classes: [],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "could not retrieve device class class-a" },
  },
  {
    name: "unknown-class",
    claims: [claim("claim-0", [request("req-0", { class: "unknown" })])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "could not retrieve device class unknown" },
  },
  {
    name: "empty-class",
    claims: [claim("claim-0", [request("req-0", { class: "" })])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "missing device class name" },
  },
  { name: "no-claims-to-allocate", slices: [slice("slice-1", { devices: ["d1"] })], expect: [] },
  {
    name: "several-different-drivers",
    claims: [one, claim("claim-1", [request("req-0", { class: "class-b" })])],
    slices: [slice("slice-1", { devices: ["d1"] }), slice("slice-2", { driver: driverB, devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"], ["req-0 driver-b/pool-1/d1"]],
  },
  {
    name: "already-allocated-devices",
    claims: [one],
    slices: [slice("slice-1", { devices: ["d1"] })],
    taken: ["pool-1/d1"],
    expect: "none",
  },
  {
    name: "network-attached-device",
    claims: [one],
    slices: [slice("slice-1", { at: region, devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"]],
    selectors: [region],
  },
  {
    name: "unsuccessful-allocation-network-attached-device",
    claims: [one],
    slices: [slice("slice-1", { at: region, devices: ["d1"] })],
    node: node2,
    expect: "none",
  },
  {
    name: "many-network-attached-devices",
    claims: [claim("claim-0", [request("req-0", { count: 4 })])],
    slices: [
      slice("slice-1", { pool: "pool-1", at: region, devices: ["d1"] }),
      slice("slice-2", { pool: "pool-2", at: "all", devices: ["d2"] }),
      slice("slice-3", { pool: "pool-3", at: planet, devices: ["d3"] }),
      slice("slice-4", { pool: "pool-4", at: nameSelector("node-1"), devices: ["d4"] }),
    ],
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2", "req-0 pool-3/d3", "req-0 pool-4/d4"]],
    selectors: [
      {
        nodeSelectorTerms: [
          {
            matchExpressions: [
              { key: "region", operator: "In", values: ["region-1"] },
              { key: "planet", operator: "In", values: ["earth"] },
            ],
            matchFields: [{ key: "metadata.name", operator: "In", values: ["node-1"] }],
          },
        ],
      },
    ],
  },
  {
    name: "local-and-network-attached-devices",
    claims: [two()],
    slices: [slice("slice-1", { at: region, devices: ["d1"] }), slice("slice-2", { pool: "pool-2", devices: ["d2"] })],
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2"]],
  },
  {
    name: "different-resourceslices-in-pool-can-target-different-nodes",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", at: "node-1", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", at: "node-2", devices: ["d2"] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "multi-host-resource-pool-with-stale-slice-for-current-node",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 2, at: "node-2", devices: ["d2"] }),
    ],
    expect: "none",
  },
  {
    name: "multi-host-resource-pool-complete-update-from-node-1-to-node-2",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d2"] }),
      slice("slice-3", { pool: "pool-1/2", generation: 2, at: "node-2", devices: ["d1"] }),
      slice("slice-4", { pool: "pool-1/2", generation: 2, at: "node-2", devices: ["d2"] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "multi-host-resource-pool-complete-update-from-node-2-to-node-1",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, at: "node-2", devices: ["d3"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 1, at: "node-2", devices: ["d4"] }),
      slice("slice-3", { pool: "pool-1/2", generation: 2, at: "node-1", devices: ["d1"] }),
      slice("slice-4", { pool: "pool-1/2", generation: 2, at: "node-1", devices: ["d2"] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "multi-host-resource-pool-incomplete-update-from-node-1-to-node-2",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 1, at: "node-1", devices: ["d2"] }),
      slice("slice-3", { pool: "pool-1/2", generation: 2, at: "node-2", devices: ["d1"] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "multi-host-resource-pool-incomplete-update-from-node-2-to-node-1",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", generation: 1, at: "node-2", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", generation: 1, at: "node-2", devices: ["d2"] }),
      slice("slice-3", { pool: "pool-1/2", generation: 2, at: "node-1", devices: ["d1"] }),
    ],
    expect: "none",
  },
  {
    name: "invalid-pool-is-ok-if-devices-can-be-allocated-from-other",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", devices: ["d1"] }),
      slice("slice-3", { pool: "pool-2", devices: ["d2"] }),
    ],
    expect: [["req-0 pool-2/d2"]],
  },
  {
    name: "invalid-pool-is-error-if-no-other-device-can-be-allocated",
    claims: [one],
    slices: [
      slice("slice-1", { pool: "pool-1/2", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", devices: ["d1"] }),
      slice("slice-3", { pool: "pool-2", devices: ["d2"] }),
    ],
    taken: ["pool-2/d2"],
    expect: { error: "invalid resource pools", isNodeLocal: true },
  },
  {
    name: "no-allocation-from-incomplete-pools",
    claims: [one],
    slices: [slice("slice-1", { pool: "pool-1/2", devices: ["d1"] })],
    expect: "none",
  },
  {
    name: "lexicographical-sorting-pools",
    claims: [two()],
    slices: ["3", "2", "1"].map((n) => slice(`slice-${n}`, { pool: `pool-${n}`, devices: [`d${n}`] })),
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2"]],
  },
  {
    name: "lexicographical-sorting-pools-with-binding-conditions",
    claims: [two()],
    slices: [
      slice("slice-3", { pool: "pool-3", devices: ["d3"] }),
      slice("slice-2", { pool: "pool-2", devices: ["d2"] }),
      slice("slice-1", { pool: "pool-1", devices: [device("d1", bindable)] }),
    ],
    expect: [["req-0 pool-2/d2", "req-0 pool-3/d3"]],
  },
  {
    name: "lexicographical-sorting-slices",
    claims: [two()],
    slices: ["3", "2", "1"].map((n) => slice(`slice-${n}`, { pool: "pool-1/3", devices: [`d${n}`] })),
    expect: [["req-0 pool-1/d1", "req-0 pool-1/d2"]],
  },
  {
    name: "lexicographical-sorting-slices-with-binding-conditions",
    claims: [two()],
    slices: [
      slice("slice-3", { pool: "pool-1/3", devices: ["d3"] }),
      slice("slice-2", { pool: "pool-1/3", devices: ["d2"] }),
      slice("slice-1", { pool: "pool-1/3", devices: [device("d1", bindable)] }),
    ],
    expect: [["req-0 pool-1/d1 binds(ready) fails(broken)", "req-0 pool-1/d2"]],
  },
];

test.each(basics)("$name", checkCase);

const all = (name = "claim-0", spec = {}) => claim(name, [request("req-0", { all: true, ...spec })]);
const ofB = (name: string) => claim(name, [request("req-0", { class: "class-b" })]);
const version = (n: string) => `device.attributes["driver-a"].driverVersion.isGreaterThan(semver("${n}"))`;
const versioned = (name: string, v: string, more = {}) =>
  device(name, { attrs: { driverVersion: { version: v }, ...more } });
const bothDrivers = [slice("slice-1", { devices: ["d1"] }), slice("slice-2", { driver: driverB, devices: ["d1"] })];
const twoPoolsAndB = [
  slice("slice-1", { pool: "pool-1", devices: ["d1"] }),
  slice("slice-2", { pool: "pool-2", devices: ["d2"] }),
  slice("slice-3", { driver: driverB, devices: ["d1"] }),
];

const modeAll: AllocationCase[] = [
  {
    name: "all-devices-single",
    claims: [all()],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "all-devices-with-consumed-counters",
    claims: [all()],
    slices: [
      slice("slice-0", { pool: "pool-1/2", counters: { gpu: { memory: "8Gi" } } }),
      slice("slice-1", { pool: "pool-1/2", devices: [device("d1", { uses: { gpu: { memory: "4Gi" } } })] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "all-devices-many",
    claims: [all()],
    slices: twoPoolsAndB,
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2"]],
  },
  {
    name: "all-devices-of-the-incomplete-pool",
    claims: [all()],
    slices: [slice("slice-1", { pool: "pool-1/2", devices: ["d1"] })],
    expect: { error: "is currently being updated", isNodeLocal: true },
  },
  {
    name: "all-devices-plus-another",
    claims: [all(), ofB("claim-1")],
    slices: bothDrivers,
    expect: [["req-0 pool-1/d1"], ["req-0 driver-b/pool-1/d1"]],
  },
  {
    name: "all-devices-plus-another-reversed",
    claims: [ofB("claim-1"), all()],
    slices: bothDrivers,
    expect: [["req-0 driver-b/pool-1/d1"], ["req-0 pool-1/d1"]],
  },
  {
    name: "all-devices-many-plus-another",
    claims: [all(), ofB("claim-1")],
    slices: twoPoolsAndB,
    expect: [["req-0 pool-1/d1", "req-0 pool-2/d2"], ["req-0 driver-b/pool-1/d1"]],
  },
  {
    name: "all-devices-many-plus-another-reversed",
    claims: [ofB("claim-1"), all()],
    slices: twoPoolsAndB,
    expect: [["req-0 driver-b/pool-1/d1"], ["req-0 pool-1/d1", "req-0 pool-2/d2"]],
  },
  {
    name: "all-devices-no-solution",
    claims: [all(), claim("claim-1", [request("req-0")])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: "none",
  },
  {
    name: "all-devices-no-solution-reversed",
    claims: [claim("claim-1", [request("req-0")]), all()],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: "none",
  },
  { name: "all-devices-slice-without-devices", claims: [all()], slices: [slice("slice-1")], expect: "none" },
  { name: "all-devices-no-slices", claims: [all()], expect: "none" },
  {
    name: "all-devices-some-allocated",
    claims: [all()],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    taken: ["pool-1/d1"],
    expect: "none",
  },
  {
    name: "all-devices-some-allocated-admin-access",
    claims: [all("claim-0", { admin: true })],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    taken: ["pool-1/d1"],
    expect: [["req-0 pool-1/d1 admin", "req-0 pool-1/d2 admin"]],
  },
  {
    name: "all-devices-some-allocating-admin-access",
    claims: [claim("claim-0", [request("req-0", { admin: true }), request("req-1", { admin: true, all: true })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    expect: "none",
  },
  {
    name: "all-devices-slice-without-devices-prioritized-list",
    claims: [claim("claim-0", [firstOf("req-0", { all: true }, { class: "class-b" })])],
    slices: [slice("slice-1"), slice("slice-2", { driver: driverB, devices: ["d1"] })],
    expect: [["req-0/sub-1 driver-b/pool-1/d1"]],
  },
  {
    name: "all-devices-no-slices-prioritized-list",
    claims: [claim("claim-0", [firstOf("req-0", { all: true }, { class: "class-b" })])],
    slices: [slice("slice-2", { driver: driverB, devices: ["d1"] })],
    expect: [["req-0/sub-1 driver-b/pool-1/d1"]],
  },
  {
    name: "all-devices-some-allocated-prioritized-list",
    claims: [claim("claim-0", [firstOf("req-0", { all: true }, { class: "class-b" })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] }), slice("slice-2", { driver: driverB, devices: ["d1"] })],
    taken: ["pool-1/d1"],
    expect: [["req-0/sub-1 driver-b/pool-1/d1"]],
  },
  {
    name: "prioritized-list-allocation-mode-all",
    claims: [claim("claim-0", [firstOf("req-0", { all: true }, { count: 1 })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    taken: ["pool-1/d2"],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-allocation-mode-all-with-selectors",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { all: true, where: version("6.0.0") }, { all: true, where: version("5.0.0") }),
      ]),
    ],
    slices: [slice("slice-1", { devices: [versioned("d1", "5.1.0"), versioned("d2", "4.0.0")] })],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-allocation-mode-all-with-selectors-multiple-pools",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { all: true, where: version("6.0.0") }, { all: true, where: version("5.0.0") }),
      ]),
    ],
    slices: [
      slice("slice-1", { devices: [versioned("d1", "5.1.0")] }),
      slice("slice-2", { pool: "pool-2", devices: [versioned("d2", "5.2.0")] }),
    ],
    expect: [["req-0/sub-1 pool-1/d1", "req-0/sub-1 pool-2/d2"]],
  },
  {
    name: "prioritized-list-allocation-mode-all-with-selectors-multiple-pools-across-nodes",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { all: true, where: version("6.0.0") }, { all: true, where: version("5.0.0") }),
      ]),
    ],
    slices: [
      slice("slice-1", { devices: [versioned("d1", "5.1.0")] }),
      slice("slice-2", { pool: "pool-2", at: "node-2", devices: [versioned("d2", "6.2.0")] }),
    ],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-allocation-mode-all-with-selectors-deviceclass-subset",
    classes: [
      deviceClass("class-a", 'device.driver == "driver-a" && device.attributes["driver-a"].selected == true'),
      classB,
    ],
    claims: [claim("claim-0", [firstOf("req-0", { all: true, where: version("5.0.0") }, { all: true })])],
    slices: [
      slice("slice-1", {
        devices: [
          versioned("d1", "5.1.0", { selected: false }),
          versioned("d2", "4.1.0", { selected: false }),
          versioned("d3", "5.2.0", { selected: true }),
        ],
      }),
    ],
    expect: [["req-0/sub-0 pool-1/d3"]],
  },
  {
    name: "allocation-mode-all-with-multi-host-resource-pool",
    claims: [all()],
    slices: [
      slice("slice-1", { pool: "pool-1/2", at: "node-1", devices: ["d1"] }),
      slice("slice-2", { pool: "pool-1/2", at: "node-2", devices: ["d2"] }),
    ],
    expect: [["req-0 pool-1/d1"]],
  },
  {
    name: "invalid-CEL-all-devices",
    claims: [all("claim-0", { where: "noSuchVar" })],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "undeclared reference" },
  },
];

test.each(modeAll)("$name", checkCase);

const admin = (name: string, spec = {}) => claim(name, [request("req-0", { admin: true, ...spec })]);

const adminAccess: AllocationCase[] = [
  {
    name: "admin-access-disabled",
    claims: [admin("claim-0")],
    slices: [slice("slice-1", { devices: ["d1"] })],
    off: ["adminAccess"],
    expect: { error: "admin access is requested, but the feature is disabled" },
  },
  {
    name: "admin-access-enabled",
    claims: [admin("claim-0")],
    slices: [slice("slice-1", { devices: ["d1"] })],
    taken: ["pool-1/d1"],
    expect: [["req-0 pool-1/d1 admin"]],
  },
  {
    name: "count-devices-some-allocated-admin-access",
    claims: [admin("claim-0", { count: 2 })],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    taken: ["pool-1/d1"],
    expect: [["req-0 pool-1/d1 admin", "req-0 pool-1/d2 admin"]],
  },
  {
    name: "separate-claims-share-device-admin-access",
    claims: [admin("claim-0"), admin("claim-1")],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1 admin"], ["req-0 pool-1/d1 admin"]],
  },
  {
    name: "admin-access-claims-device-allocating-for-non-admin-access",
    claims: [one, admin("claim-1")],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"], ["req-0 pool-1/d1 admin"]],
  },
];

test.each(adminAccess)("$name", checkCase);

test.each([
  { name: "without a stop it just does not fit", stop: () => undefined, kind: "doesNotFit" },
  { name: "a deadline stops it", stop: () => "deadline exceeded", kind: "stopped" },
  { name: "a caller stops it", stop: () => "canceled", kind: "stopped" },
])("six of five devices: $name", ({ stop, kind }) => {
  const claims = [claim("claim-0", [request("req-0", { count: 6 })])];
  const slices = [slice("slice-1", { devices: ["d1", "d2", "d3", "d4", "d5"] })];
  expect(runCase({ name: "", claims, slices, classes: [classA], expect: "none", stop }).kind).toBe(kind);
});

test("a slice whose selector cannot be parsed ends the attempt", () => {
  const at = { nodeSelectorTerms: [{ matchExpressions: [{ key: "a", operator: "Near", values: ["b"] }] }] };
  checkCase({
    name: "",
    claims: [one],
    slices: [slice("slice-1", { at, devices: ["d1"] })],
    expect: { error: "Near is not a valid node selector operator" },
  });
});

test("a device that became dedicated is not allocated while it has shares", () => {
  checkCase({
    name: "",
    claims: [one],
    slices: [slice("slice-1", { devices: ["d1"] })],
    shared: ["pool-1/d1"],
    expect: "none",
  });
});
