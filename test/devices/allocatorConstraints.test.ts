/**
 * Allocation, by the names that Kubernetes' own table gives the cases: constraints, configuration, expressions, limits,
 * alternatives.
 */
import { test } from "vitest";
import {
  type AllocationCase,
  claim,
  classA,
  classB,
  device,
  deviceClass,
  driverA,
  driverB,
  firstOf,
  labelSelector,
  request,
  slice,
} from "../../testing/decide/deviceCluster.ts";
import { checkCase } from "./checkCase.ts";

const shareable = { allowMultipleAllocations: true };
const matches = (name: string, ...requests: string[]) => ({
  ...(requests.length > 0 && { requests }),
  matchAttribute: `driver-a/${name}`,
});
const differs = (name: string, ...requests: string[]) => ({
  ...(requests.length > 0 && { requests }),
  distinctAttribute: `driver-a/${name}`,
});
const many = (n: number, from = 1) => Array.from({ length: n }, (_, i) => `d${String(i + from).padStart(2, "0")}`);
const named = (names: readonly string[], req = "req-0", pool = "pool-1") =>
  names.map((name) => `${req} ${pool}/${name}`);
const notMatching = (kind: string, left: object, right: object): AllocationCase => ({
  name: `with-constraint-not-matching-${kind}-attribute`,
  claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [matches("x")] })],
  slices: [
    slice("slice-1", { devices: [device("d1", { attrs: { x: left } }), device("d2", { attrs: { x: right } })] }),
  ],
  expect: "none",
});
const opaque = (parameters: object) => ({ opaque: { driver: driverA, parameters } });
const ints = (...values: number[]) => values.map((n, i) => device(`d${i + 1}`, { ...shareable, attrs: { n } }));

const constraints: AllocationCase[] = [
  {
    name: "with-constraint",
    claims: [
      claim("claim-0", [request("req-0", { count: 2 })], {
        constraints: [matches("numa"), matches("version"), matches("model"), matches("ecc")],
      }),
    ],
    slices: [
      slice("slice-1", {
        devices: ["d1", "d2"].map((name) =>
          device(name, { attrs: { numa: 1, version: { version: "1.0.0" }, model: "h100", ecc: true } }),
        ),
      }),
    ],
    expect: [["req-0 pool-1/d1", "req-0 pool-1/d2"]],
  },
  {
    name: "with-constraint-non-existent-attribute",
    claims: [claim("claim-0", [request("req-0")], { constraints: [matches("missing")] })],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: "none",
  },
  notMatching("int", { int: 1 }, { int: 2 }),
  {
    ...notMatching("int", { int: 1 }, { int: 2 }),
    name: "with-constraint-not-matching-int-attribute-all-devices",
    claims: [claim("claim-0", [request("req-0", { all: true })], { constraints: [matches("x")] })],
    expect: { error: "a claim constraint would not be satisfied" },
  },
  notMatching("string", { string: "a" }, { string: "b" }),
  notMatching("bool", { bool: true }, { bool: false }),
  notMatching("version", { version: "1.0.0" }, { version: "2.0.0" }),
  {
    name: "with-constraint-for-request",
    claims: [claim("claim-0", [request("req-0"), request("req-1")], { constraints: [matches("n", "req-0")] })],
    slices: [slice("slice-1", { devices: [device("d1", { attrs: { n: 1 } }), device("d2", { attrs: { n: 2 } })] })],
    expect: [["req-0 pool-1/d1", "req-1 pool-1/d2"]],
  },
  {
    name: "with-constraint-for-request-retry",
    claims: [
      claim("claim-0", [request("req-0"), request("req-1")], {
        constraints: [matches("n"), matches("s", "req-0", "req-1")],
      }),
    ],
    slices: [
      slice("slice-1", {
        devices: [
          device("d1", { attrs: { n: 1, s: "a" } }),
          device("d2", { attrs: { n: 1, s: "b" } }),
          device("d3", { attrs: { n: 1, s: "b" } }),
        ],
      }),
    ],
    expect: [["req-0 pool-1/d2", "req-1 pool-1/d3"]],
  },
  {
    name: "with-class-device-config",
    classes: [deviceClass("class-a", 'device.driver == "driver-a"', [{ mode: "a" }])],
    claims: [claim("claim-0", [request("req-0")])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"]],
    configs: [[{ source: "FromClass", ...opaque({ mode: "a" }) }]],
  },
  {
    name: "with-class-device-config-with-multiple-request-and-configs",
    classes: [
      deviceClass("class-a", 'device.driver == "driver-a"', [{ mode: "a" }]),
      deviceClass("class-b", 'device.driver == "driver-b"', [{ mode: "b" }]),
    ],
    claims: [claim("claim-0", [request("req-0"), request("req-1"), request("req-2", { class: "class-b" })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] }), slice("slice-2", { driver: driverB, devices: ["d1"] })],
    expect: [["req-0 pool-1/d1", "req-1 pool-1/d2", "req-2 driver-b/pool-1/d1"]],
    configs: [
      [
        { source: "FromClass", requests: ["req-0", "req-1"], ...opaque({ mode: "a" }) },
        { source: "FromClass", requests: ["req-2"], ...opaque({ mode: "b" }) },
      ],
    ],
  },
  {
    name: "with-claim-config-for-two-requests",
    claims: [
      claim("claim-0", [request("req-0"), request("req-1"), request("req-2")], {
        config: [{ requests: ["req-0", "req-2"], parameters: { a: 1 } }],
      }),
    ],
    slices: [slice("slice-1", { devices: ["d1", "d2", "d3"] })],
    expect: [["req-0 pool-1/d1", "req-1 pool-1/d2", "req-2 pool-1/d3"]],
    configs: [[{ source: "FromClaim", requests: ["req-0", "req-2"], ...opaque({ a: 1 }) }]],
  },
  {
    name: "claim-with-device-config",
    claims: [claim("claim-0", [request("req-0")], { config: [{ requests: ["req-0"], parameters: { a: 1 } }] })],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0 pool-1/d1"]],
    configs: [[{ source: "FromClaim", ...opaque({ a: 1 }) }]],
  },
  {
    name: "unknown-selector",
    claims: [claim("claim-0", [{ name: "req-0", exactly: { deviceClassName: "class-a", count: 1, selectors: [{}] } }])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "CEL expression empty (unsupported selector type?)" },
  },
  {
    name: "unknown-allocation-mode",
    claims: [claim("claim-0", [{ name: "req-0", exactly: { deviceClassName: "class-a", allocationMode: "Future" } }])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "unsupported count mode Future" },
  },
  {
    name: "unknown-constraint",
    claims: [claim("claim-0", [request("req-0")], { constraints: [{}] })],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "empty constraint (unsupported constraint type?)" },
  },
  {
    name: "invalid-CEL-one-device",
    claims: [claim("claim-0", [request("req-0", { where: "noSuchVar" })])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "undeclared reference" },
  },
  {
    name: "invalid-CEL-one-device-class",
    classes: [deviceClass("class-a", "noSuchVar")],
    claims: [claim("claim-0", [request("req-0")])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "undeclared reference" },
  },
  {
    name: "too-many-devices-single-request",
    claims: [claim("claim-0", [request("req-0", { count: 500 })])],
    slices: [slice("slice-1", { devices: many(20) })],
    expect: { error: "exceeds the claim limit", isNodeLocal: true },
  },
  {
    name: "many-devices-okay",
    claims: [claim("claim-0", [request("req-0", { count: 32 })])],
    expect: "none",
  },
  {
    name: "too-many-devices-total",
    claims: [claim("claim-0", [request("req-0", { count: 32 }), request("req-1")])],
    expect: { error: "exceeds the claim limit", isNodeLocal: true },
  },
  {
    name: "all-devices-invalid-CEL",
    claims: [claim("claim-0", [request("req-0", { count: 500, where: "noSuchVar" })])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: { error: "exceeds the claim limit", isNodeLocal: true },
  },
  {
    name: "max-number-devices",
    claims: [claim("claim-0", [request("req-0", { count: 32 })])],
    slices: [slice("slice-1", { devices: many(32) })],
    expect: [named(many(32))],
  },
  {
    name: "with-distinct-constraints",
    claims: [
      claim(
        "claim-0",
        [0, 1, 2, 3].map((i) => request(`req-${i}`, { class: "shareable" })),
        {
          constraints: [differs("n"), differs("s"), differs("v")],
        },
      ),
    ],
    slices: [
      slice("slice-1", {
        devices: [1, 2, 3, 4].map((n) =>
          device(`d${n}`, { ...shareable, attrs: { n, s: `s${n}`, v: { version: `${n}.0.0` } } }),
        ),
      }),
    ],
    expect: [[0, 1, 2, 3].map((i) => `req-${i} pool-1/d${i + 1} share`)],
  },
  {
    name: "distinct-constraint-single-request-count-3-not-distinct",
    claims: [claim("claim-0", [request("req-0", { count: 3 })], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: ints(1, 2, 1) })],
    expect: "none",
  },
  {
    name: "distinct-constraint-single-request-count-3-all-distinct",
    claims: [claim("claim-0", [request("req-0", { count: 3 })], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: ints(1, 2, 3) })],
    expect: [["req-0 pool-1/d1 share", "req-0 pool-1/d2 share", "req-0 pool-1/d3 share"]],
  },
  {
    name: "distinct-constraint-two-requests-with-count-not-distinct",
    claims: [claim("claim-0", [request("req-0", { count: 2 }), request("req-1")], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: ints(1, 2, 1) })],
    expect: "none",
  },
  {
    name: "with-distinct-constraints-attribute-not-set",
    claims: [claim("claim-0", [request("req-0"), request("req-1")], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: [device("d1", shareable), device("d2", shareable)] })],
    expect: "none",
  },
  {
    name: "with-distinct-constraints-unknown-type-attribute",
    claims: [claim("claim-0", [request("req-0"), request("req-1")], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: [device("d1", { ...shareable, attrs: { n: {} } })] })],
    expect: { error: "unsupported attribute value" },
  },
  {
    name: "with-distinct-constraints-with-subrequests",
    claims: [
      claim(
        "claim-0",
        [
          firstOf("req-0", { class: "shareable" }),
          firstOf("req-1", { class: "class-b" }, { class: "shareable" }),
          firstOf("req-2", { class: "shareable" }),
        ],
        { constraints: [differs("n", "req-0", "req-1")] },
      ),
    ],
    slices: [slice("slice-1", { devices: ints(1, 2) })],
    expect: [["req-0/sub-0 pool-1/d1 share", "req-1/sub-1 pool-1/d2 share", "req-2/sub-0 pool-1/d1 share"]],
  },
  {
    name: "distinct-constraint-single-request-multiple-devices-attribute-not-set",
    claims: [claim("claim-0", [request("req-0", { count: 3 })], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: ["d1", "d2", "d3"] })],
    expect: "none",
  },
  {
    name: "distinct-constraint-single-request-not-enough-distinct-values",
    claims: [claim("claim-0", [request("req-0", { count: 3 })], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: [1, 2, 1, 2].map((n, i) => device(`d${i + 1}`, { attrs: { n } })) })],
    expect: "none",
  },
  {
    name: "distinct-constraint-single-request-multiple-devices-attribute-set",
    claims: [claim("claim-0", [request("req-0", { count: 3 })], { constraints: [differs("n")] })],
    slices: [slice("slice-1", { devices: [1, 2, 1, 3].map((n, i) => device(`d${i + 1}`, { attrs: { n } })) })],
    expect: [["req-0 pool-1/d1", "req-0 pool-1/d2", "req-0 pool-1/d4"]],
  },
  {
    name: "distinct-constraint-one-multi-allocatable-device-with-distinct-constraint",
    claims: [
      claim(
        "claim-0",
        [0, 1].map((i) => request(`req-${i}`, { class: "shareable", capacity: { memory: "2" } })),
        {
          constraints: [differs("n")],
        },
      ),
    ],
    slices: [slice("slice-1", { devices: [device("d1", { ...shareable, attrs: { n: 1 }, cap: { memory: "4" } })] })],
    expect: "none",
  },
  {
    name: "distinct-constraint-two-multi-allocatable-devices-with-distinct-constraint",
    claims: [
      claim(
        "claim-0",
        [0, 1].map((i) => request(`req-${i}`, { class: "shareable", capacity: { memory: "2" } })),
        {
          constraints: [differs("n")],
        },
      ),
    ],
    slices: [
      slice("slice-1", {
        devices: [1, 2].map((n) => device(`d${n}`, { ...shareable, attrs: { n }, cap: { memory: "4" } })),
      }),
    ],
    expect: [["req-0 pool-1/d1 share memory=2", "req-1 pool-1/d2 share memory=2"]],
  },
  {
    name: "list-attributes-disabled-match-constraint-with-lists",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [matches("n")] })],
    slices: [
      slice("slice-1", { devices: ["d1", "d2"].map((name) => device(name, { attrs: { n: { ints: [1, 2] } } })) }),
    ],
    expect: "none",
  },
  {
    name: "list-attributes-disabled-distinct-constraint-with-lists",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [differs("n")] })],
    slices: [
      slice("slice-1", {
        devices: [1, 2].map((n) => device(`d${n}`, { attrs: { n: { ints: [n] } } })),
      }),
    ],
    expect: "none",
  },
  {
    name: "list-attributes-match-constaint-scalar-string-values",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [matches("s")] })],
    slices: [slice("slice-1", { devices: ["d1", "d2"].map((name) => device(name, { attrs: { s: "a" } })) })],
    expect: [["req-0 pool-1/d1", "req-0 pool-1/d2"]],
  },
  {
    name: "list-attributes-match-constaint-with-empty-or-unknown-type",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [matches("s")] })],
    slices: [slice("slice-1", { devices: ["d1", "d2"].map((name) => device(name, { attrs: { s: {} } })) })],
    expect: { error: "unsupported attribute value" },
  },
  {
    name: "list-attributes-distinct-constaint-with-empty-or-unknown-type",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [differs("s")] })],
    slices: [slice("slice-1", { devices: ["d1", "d2"].map((name) => device(name, { attrs: { s: {} } })) })],
    expect: { error: "unsupported attribute value" },
  },
  {
    name: "list-attributes-distinct-constraint-scalar-string-values-all-distinct",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [differs("s")] })],
    slices: [slice("slice-1", { devices: ["a", "a", "b"].map((s, i) => device(`d${i + 1}`, { attrs: { s } })) })],
    expect: [["req-0 pool-1/d1", "req-0 pool-1/d3"]],
  },
  {
    name: "list-attributes-distinct-constraint-scalar-string-values-not-distinct",
    claims: [claim("claim-0", [request("req-0", { count: 2 })], { constraints: [differs("s")] })],
    slices: [slice("slice-1", { devices: ["a", "a"].map((s, i) => device(`d${i + 1}`, { attrs: { s } })) })],
    expect: "none",
  },
];

test.each(constraints)("$name", checkCase);

const gi = (n: number) => ({ memory: `${n}Gi` });
const exactly = (n: number) => `device.capacity["driver-a"].memory.compareTo(quantity("${n}Gi")) == 0`;
const atLeast = (n: number) => `device.capacity["driver-a"].memory.compareTo(quantity("${n}Gi")) >= 0`;
const typed = 'device.attributes["driver-a"].type == "special"';
const special = device("d1", { attrs: { type: "special" } });
const plain = (name: string) => device(name, { attrs: { type: "plain" } });
const fewTo = (n: number): AllocationCase["claims"] => [claim("claim-0", [request("req-0", { count: n })])];
const bound = { bindingConditions: ["ready"], bindingFailureConditions: ["broken"] };
const sharedAttribute = (names: readonly [string, number][]) =>
  names.map(([name, n]) => device(name, { attrs: { n } }));

const alternatives: AllocationCase[] = [
  {
    name: "prioritized-list-first-unavailable",
    claims: [claim("claim-0", [firstOf("req-0", { class: "class-b" }, {})])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-non-available",
    claims: [claim("claim-0", [firstOf("req-0", { class: "class-b" }, {})])],
    slices: [slice("slice-1", { at: "node-2", devices: ["d1"] })],
    expect: "none",
  },
  {
    name: "prioritized-list-device-config",
    claims: [
      claim("claim-0", [firstOf("req-0", { class: "class-b" }, {})], {
        config: [
          { requests: ["req-0/sub-0"], parameters: { for: "sub-0" } },
          { requests: ["req-0/sub-1"], parameters: { for: "sub-1" } },
        ],
      }),
    ],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0/sub-1 pool-1/d1"]],
    configs: [[{ source: "FromClaim", ...opaque({ for: "sub-1" }) }]],
  },
  {
    name: "prioritized-list-class-config",
    classes: [
      deviceClass("class-a", 'device.driver == "driver-a"', [{ mode: "a" }]),
      deviceClass("class-b", 'device.driver == "driver-b"', [{ mode: "b" }]),
    ],
    claims: [claim("claim-0", [firstOf("req-0", { class: "class-b" }, {})])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0/sub-1 pool-1/d1"]],
    configs: [[{ source: "FromClass", ...opaque({ mode: "a" }) }]],
  },
  {
    name: "claim-config-scoped-to-subrequests-of-one-request",
    claims: [
      claim("claim-0", [firstOf("req-0", {}, { class: "class-b" }), request("req-1")], {
        config: [{ requests: ["req-0/sub-0", "req-0/sub-1"], parameters: { a: 1 } }],
      }),
    ],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    expect: [["req-0/sub-0 pool-1/d1", "req-1 pool-1/d2"]],
    configs: [[{ source: "FromClaim", requests: ["req-0/sub-0", "req-0/sub-1"], ...opaque({ a: 1 }) }]],
  },
  {
    name: "claim-config-covering-all-requests-is-cleared",
    claims: [
      claim("claim-0", [firstOf("req-0", {}, { class: "class-b" }), request("req-1")], {
        config: [{ requests: ["req-0/sub-0", "req-1"], parameters: { a: 1 } }],
      }),
    ],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    expect: [["req-0/sub-0 pool-1/d1", "req-1 pool-1/d2"]],
    configs: [[{ source: "FromClaim", ...opaque({ a: 1 }) }]],
  },
  {
    name: "prioritized-list-subrequests-with-expressions",
    claims: [
      claim("claim-0", [
        request("req-0", { where: atLeast(1) }),
        firstOf("req-1", { where: atLeast(4) }, { count: 2, where: atLeast(2) }),
      ]),
    ],
    slices: [
      slice("slice-1", {
        devices: [device("d3", { cap: gi(1) }), device("d1", { cap: gi(2) }), device("d2", { cap: gi(2) })],
      }),
    ],
    expect: [["req-0 pool-1/d3", "req-1/sub-1 pool-1/d1", "req-1/sub-1 pool-1/d2"]],
  },
  {
    name: "prioritized-list-subrequests-with-constraints-ref-parent-request",
    claims: [
      claim(
        "claim-0",
        [request("req-0", { where: exactly(8) }), firstOf("req-1", { where: exactly(2) }, { where: exactly(4) })],
        { constraints: [matches("n", "req-0", "req-1")] },
      ),
    ],
    slices: [
      slice("slice-1", {
        devices: [
          device("d1", { attrs: { n: 1 }, cap: gi(8) }),
          device("d2", { attrs: { n: 2 }, cap: gi(2) }),
          device("d3", { attrs: { n: 1 }, cap: gi(4) }),
        ],
      }),
    ],
    expect: [["req-0 pool-1/d1", "req-1/sub-1 pool-1/d3"]],
  },
  {
    name: "prioritized-list-subrequests-with-constraints-ref-sub-request",
    claims: [
      claim(
        "claim-0",
        [request("req-0", { where: exactly(8) }), firstOf("req-1", { where: exactly(2) }, { where: exactly(2) })],
        { constraints: [matches("n", "req-0", "req-1/sub-0")] },
      ),
    ],
    slices: [
      slice("slice-1", {
        devices: [device("d1", { attrs: { n: 1 }, cap: gi(8) }), device("d2", { attrs: { n: 2 }, cap: gi(2) })],
      }),
    ],
    expect: [["req-0 pool-1/d1", "req-1/sub-1 pool-1/d2"]],
  },
  {
    name: "prioritized-list-subrequests-with-allocation-mode-all",
    claims: [claim("claim-0", [firstOf("req-0", { all: true }, { count: 1 })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    taken: ["pool-1/d1"],
    expect: [["req-0/sub-1 pool-1/d2"]],
  },
  {
    name: "prioritized-list-allocation-mode-all-multiple-requests",
    claims: [claim("claim-0", [request("req-0"), firstOf("req-1", { all: true }, { count: 1 })])],
    slices: [slice("slice-1", { devices: ["d1", "d2"] })],
    expect: [["req-0 pool-1/d1", "req-1/sub-1 pool-1/d2"]],
  },
  {
    name: "prioritized-list-disabled",
    claims: [claim("claim-0", [firstOf("req-0", {})])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    off: ["prioritizedList"],
    expect: { error: "has subrequests, but the DRAPrioritizedList feature is disabled" },
  },
  {
    name: "prioritized-list-multi-request",
    claims: [
      claim("claim-0", [
        request("req-1", { where: exactly(8) }),
        firstOf("req-0", { where: exactly(8) }, { where: exactly(4) }),
      ]),
    ],
    slices: [slice("slice-1", { devices: [device("d1", { cap: gi(8) }), device("d2", { cap: gi(4) })] })],
    expect: [["req-0/sub-1 pool-1/d2", "req-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-with-backtracking",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { where: exactly(8) }, { where: exactly(4) }),
        request("req-1", { where: exactly(8) }),
      ]),
    ],
    slices: [slice("slice-1", { devices: [device("d1", { cap: gi(8) }), device("d2", { cap: gi(4) })] })],
    expect: [["req-0/sub-1 pool-1/d2", "req-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-too-many-in-first-subrequest",
    claims: [claim("claim-0", [firstOf("req-0", { count: 500 }, { count: 1 })])],
    slices: [slice("slice-1", { devices: ["d1"] })],
    expect: [["req-0/sub-1 pool-1/d1"]],
  },
  {
    name: "prioritized-list-max-allocation-limit-request",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { count: 32 }, { count: 16 }),
        firstOf("req-1", { count: 32 }, { count: 16 }),
      ]),
    ],
    slices: [slice("slice-1", { devices: many(64) })],
    expect: [[...named(many(16), "req-0/sub-1"), ...named(many(16, 17), "req-1/sub-1")]],
    visitsMax: 75,
  },
  {
    name: "prioritized-list-max-allocation-allocation-mode-all",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { all: true }, { count: 2 }),
        request("req-1", { class: "class-b", count: 2 }),
      ]),
    ],
    slices: [slice("slice-1", { devices: many(31) }), slice("slice-2", { driver: driverB, devices: many(2) })],
    expect: [[...named(many(2), "req-0/sub-1"), ...named(many(2), "req-1", "driver-b/pool-1")]],
    visitsMax: 42,
  },
  {
    name: "check-combinations-within-single-request-single-pool-single-slice",
    claims: fewTo(5) ?? [],
    slices: [slice("slice-1", { devices: many(4) })],
    expect: "none",
    visitsMax: 16,
  },
  {
    name: "check-combinations-within-single-request-single-pool-multiple-slices",
    claims: fewTo(5) ?? [],
    slices: [1, 2].map((n) => slice(`slice-${n}`, { pool: "pool-1/2", devices: many(2, n * 2) })),
    expect: "none",
    visitsMax: 16,
  },
  {
    name: "check-combinations-within-single-request-multiple-pools-multiple-slices",
    claims: fewTo(5) ?? [],
    slices: [1, 2].flatMap((pool) =>
      [1, 2].map((n) => slice(`slice-${pool}${n}`, { pool: `pool-${pool}/2`, devices: [`d${n}`] })),
    ),
    expect: "none",
    visitsMax: 16,
  },
  {
    name: "check-combinations-within-single-request-many-pools",
    claims: fewTo(5) ?? [],
    slices: [1, 2, 3, 4].map((n) => slice(`slice-${n}`, { pool: `pool-${n}`, devices: ["d1"] })),
    expect: "none",
    visitsMax: 16,
  },
  {
    name: "check-combinations-with-backtracking",
    claims: [claim("claim-0", [request("req-0", { count: 2 }), request("req-1", { where: typed })])],
    slices: [slice("slice-1", { devices: [special, plain("d2"), plain("d3")] })],
    expect: [["req-0 pool-1/d2", "req-0 pool-1/d3", "req-1 pool-1/d1"]],
    visitsMax: 12,
  },
  {
    name: "check-combinations-with-backtracking-across-slices-and-pools",
    claims: [claim("claim-0", [request("req-0", { count: 2 }), request("req-1", { where: typed })])],
    slices: [
      slice("slice-1", { devices: [special] }),
      slice("slice-2", { pool: "pool-2", devices: [plain("d2")] }),
      slice("slice-3", { pool: "pool-3", devices: [device("d3", { attrs: { type: "plain" }, ...bound })] }),
    ],
    expect: [["req-0 pool-2/d2", "req-0 pool-3/d3 binds(ready) fails(broken)", "req-1 pool-1/d1"]],
    visitsMax: 12,
  },
  {
    name: "check-combinations-with-prioritized-list",
    claims: [
      claim("claim-0", [
        firstOf("req-0", { count: 3, where: 'device.attributes["driver-a"].type == "plain"' }, { count: 2 }),
        firstOf("req-1", { count: 2 }, { where: typed }),
      ]),
    ],
    slices: [slice("slice-1", { devices: [special, plain("d2"), plain("d3")] })],
    expect: [["req-0/sub-1 pool-1/d2", "req-0/sub-1 pool-1/d3", "req-1/sub-1 pool-1/d1"]],
    visitsMax: 26,
  },
];

test.each(alternatives)("$name", checkCase);

test("a claim of two requests on one value skips groups that are too small", () => {
  checkCase({
    name: "",
    claims: [claim("claim-0", [request("req-0", { count: 2 }), request("req-1")], { constraints: [matches("n")] })],
    slices: [
      slice("slice-1", {
        at: labelSelector("planet", "earth"),
        devices: sharedAttribute([
          ["d1", 1],
          ["d2", 1],
          ["d3", 2],
          ["d4", 2],
          ["d5", 2],
        ]),
      }),
    ],
    classes: [classA, classB],
    expect: [["req-0 pool-1/d3", "req-0 pool-1/d4", "req-1 pool-1/d5"]],
    selectors: [labelSelector("planet", "earth")],
  });
});
