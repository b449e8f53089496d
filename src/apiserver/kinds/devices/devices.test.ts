import { expect, test } from "vitest";
import { create, type Draft, nowText, update, updateStatus, world } from "../../../../test/fixtures/kindWrites.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { conversions } from "../../conversions.ts";
import { strategyFor } from "../strategies.ts";

// biome-ignore lint/suspicious/noExplicitAny: edits walk into untyped objects.
type Edit = (object: any) => void;
const claims = "resource.k8s.io/resourceclaims";
const slices = "resource.k8s.io/resourceslices";

const claim = (devices: object = {}): Draft => ({
  apiVersion: "resource.k8s.io/v1",
  kind: "ResourceClaim",
  metadata: { name: "c", namespace: "ns" },
  spec: {
    devices: {
      requests: [
        {
          name: "gpu",
          exactly: {
            deviceClassName: "gpu.example.com",
            selectors: [
              {
                cel: {
                  expression: 'device.attributes["gpu.example.com"].memory > 40 && device.driver == "gpu.example.com"',
                },
              },
            ],
            tolerations: [{ key: "a", value: "b" }],
            capacity: { requests: { memory: "10Gi" } },
          },
        },
        {
          name: "nic",
          firstAvailable: [
            { name: "fast", deviceClassName: "nic" },
            { name: "any", deviceClassName: "nic", allocationMode: "All" },
          ],
        },
      ],
      constraints: [{ requests: ["gpu", "nic/fast"], matchAttribute: "example.com/numa" }],
      config: [{ requests: ["gpu"], opaque: { driver: "gpu.example.com", parameters: { mode: "mig" } } }],
      ...devices,
    },
  },
});
const request = (exactly: object, more: object = {}): Draft =>
  claim({
    requests: [{ name: "r", exactly: { deviceClassName: "x", ...exactly }, ...more }],
    constraints: [],
    config: [],
  });

const slice = (spec: object = {}): Draft => ({
  apiVersion: "resource.k8s.io/v1",
  kind: "ResourceSlice",
  metadata: { name: "s" },
  spec: {
    driver: "gpu.example.com",
    nodeName: "n1",
    pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
    devices: [
      {
        name: "gpu-0",
        attributes: {
          model: { string: "H100" },
          "gpu.example.com/index": { int: 0 },
          driverVersion: { version: "1.2.3" },
          mig: { bool: true },
        },
        capacity: {
          memory: {
            value: "80Gi",
            requestPolicy: { default: "1Gi", validRange: { min: "1Gi", step: "1Gi", max: "40Gi" } },
          },
        },
        allowMultipleAllocations: true,
        taints: [{ key: "gpu.example.com/broken", effect: "NoSchedule" }],
        consumesCounters: [{ counterSet: "set", counters: { slots: { value: "1" } } }],
        bindingConditions: ["ready"],
        bindingFailureConditions: ["failed"],
      },
    ],
    ...spec,
  },
});
const device = (more: object): Draft => slice({ devices: [{ name: "d", ...more }] });

test("a claim gets modes, counts and operators", () => {
  const { object, errors } = create(claims, claim());
  expect(errors).toEqual([]);
  const [gpu, nic] = object.spec.devices.requests;
  expect(gpu.exactly).toMatchObject({ allocationMode: "ExactCount", count: 1, tolerations: [{ operator: "Equal" }] });
  expect(nic.firstAvailable[0]).toMatchObject({ allocationMode: "ExactCount", count: 1 });
  expect(nic.firstAvailable[1].count).toBeUndefined();
});

test("a slice is accepted, and its taints are stamped", () => {
  const { object, errors } = create(slices, slice());
  expect(errors).toEqual([]);
  expect(object.spec.devices[0].taints[0].timeAdded).toBe(nowText);
});

test.each<[string, Draft, string]>([
  [
    "a request that asks for nothing",
    claim({ requests: [{ name: "r" }] }),
    "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
  ],
  [
    "a request that asks both ways",
    request({}, { firstAvailable: [{ name: "a", deviceClassName: "x" }] }),
    'spec.devices.requests[0]: Invalid value: "null": exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set',
  ],
  [
    "a request of no class",
    request({ deviceClassName: "" }),
    "spec.devices.requests[0].exactly.deviceClassName: Required value",
  ],
  [
    "All and a count",
    request({ allocationMode: "All", count: 2 }),
    "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
  ],
  [
    "fewer than no devices",
    request({ count: -1 }),
    "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
  ],
  [
    "an unknown mode",
    request({ allocationMode: "Some" }),
    'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"',
  ],
  [
    "a selector that does not parse",
    request({ selectors: [{ cel: { expression: "device." } }] }),
    'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.": compilation failed',
  ],
  [
    "a selector about something else",
    request({ selectors: [{ cel: { expression: "node.ready" } }] }),
    'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "node.ready": compilation failed',
  ],
  [
    "a selector that is no question",
    request({ selectors: [{ cel: { expression: "device.driver" } }] }),
    'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": compilation failed: must evaluate to bool',
  ],
  [
    "a selector of 11 KiB",
    request({ selectors: [{ cel: { expression: `"${"x".repeat(11 * 1024)}" == ""` } }] }),
    "spec.devices.requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
  ],
  [
    "33 requests",
    claim({
      requests: Array.from({ length: 33 }, (_, i) => ({ name: `r${i}`, exactly: { deviceClassName: "x" } })),
      constraints: [],
      config: [],
    }),
    "spec.devices.requests: Too many: 33: must have at most 32 items",
  ],
  [
    "9 alternatives",
    claim({
      requests: [
        { name: "r", firstAvailable: Array.from({ length: 9 }, (_, i) => ({ name: `a${i}`, deviceClassName: "x" })) },
      ],
      constraints: [],
      config: [],
    }),
    "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items",
  ],
  [
    "a constraint on an unknown request",
    claim({ constraints: [{ requests: ["x"], matchAttribute: "a.com/b" }] }),
    "spec.devices.constraints[0].requests[0]: Invalid value: \"x\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
  ],
  [
    "a constraint without a domain",
    claim({ constraints: [{ matchAttribute: "numa" }] }),
    'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": a fully qualified name must be a domain and a name separated by a slash',
  ],
  [
    "configuration that is no object",
    claim({ config: [{ opaque: { driver: "d", parameters: "x" } }] }),
    'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
  ],
  [
    "more tolerations than a request may have",
    request({ tolerations: Array.from({ length: 17 }, () => ({ operator: "Exists" })) }),
    "spec.devices.requests[0].exactly.tolerations: Too many: 17: must have at most 16 items",
  ],
  [
    "a toleration with a value for Exists",
    request({ tolerations: [{ key: "a", operator: "Exists", value: "b" }] }),
    'spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "b": must be empty for operator `Exists`',
  ],
  [
    "admin access where it is not permitted",
    request({ adminAccess: true }),
    "spec.devices.requests[0].exactly.adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
  ],
])("a claim is invalid: %s", (_name, draft, error) => {
  expect(create(claims, draft).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test("admin access is for namespaces that carry the label", () => {
  const context = world({
    "/namespaces": [{ metadata: { name: "ns", labels: { "resource.kubernetes.io/admin-access": "true" } } }],
  });
  expect(create(claims, request({ adminAccess: true }), context).errors).toEqual([]);
});

test.each<[string, Draft, string]>([
  ["no driver", slice({ driver: "" }), "spec.driver: Required value"],
  ["no pool", slice({ pool: { name: "", generation: 0, resourceSliceCount: 1 } }), "spec.pool.name: Required value"],
  [
    "a pool of no slices",
    slice({ pool: { name: "n1", generation: 0, resourceSliceCount: 0 } }),
    "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
  ],
  [
    "no place",
    slice({ nodeName: undefined }),
    "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
  ],
  ["two places", slice({ allNodes: true }), 'spec: Invalid value: "{`nodeName`, `allNodes`}"'],
  [
    "129 devices",
    slice({ devices: Array.from({ length: 129 }, (_, i) => ({ name: `d${i}` })) }),
    "spec.devices: Too many: 129: must have at most 128 items",
  ],
  [
    "65 devices with taints",
    slice({
      devices: Array.from({ length: 65 }, (_, i) => ({ name: `d${i}`, taints: [{ key: "a", effect: "NoSchedule" }] })),
    }),
    "spec.devices: Too many: 65: must have at most 64 items",
  ],
  [
    "two devices of one name",
    slice({ devices: [{ name: "a" }, { name: "a" }] }),
    'spec.devices[1].name: Duplicate value: "a"',
  ],
  [
    "devices and counters",
    slice({ sharedCounters: [{ name: "a", counters: { b: { value: "1" } } }] }),
    'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
  ],
  [
    "an attribute of two types",
    device({ attributes: { a: { int: 1, string: "x" } } }),
    "spec.devices[0].attributes[a]: Invalid value",
  ],
  [
    "an attribute of no type",
    device({ attributes: { a: {} } }),
    'spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified',
  ],
  [
    "a version that is none",
    device({ attributes: { a: { version: "v1" } } }),
    'spec.devices[0].attributes[a].version: Invalid value: "v1": must be a string compatible with semver.org spec 2.0.0',
  ],
  [
    "a text of 65 bytes",
    device({ attributes: { a: { string: "x".repeat(65) } } }),
    "spec.devices[0].attributes[a].string: Too long: may not be more than 64 bytes",
  ],
  [
    "an attribute name with a dash",
    device({ attributes: { "a-b": { int: 1 } } }),
    'spec.devices[0].attributes[a-b]: Invalid value: "a-b"',
  ],
  [
    "33 attributes",
    device({ attributes: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`a${i}`, { int: i }])) }),
    "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
  ],
  [
    "a policy on a device that is not shared",
    device({ capacity: { m: { value: "1", requestPolicy: { default: "1" } } } }),
    "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
  ],
  [
    "a default outside its range",
    device({
      allowMultipleAllocations: true,
      capacity: { m: { value: "10", requestPolicy: { default: "9", validRange: { min: "1", max: "5" } } } },
    }),
    'spec.devices[0].capacity[m].requestPolicy.validRange.default: Invalid value: "9": default is more than max: 5',
  ],
  [
    "a maximum between two steps",
    device({
      allowMultipleAllocations: true,
      capacity: { m: { value: "10", requestPolicy: { default: "1", validRange: { min: "1", max: "6", step: "2" } } } },
    }),
    'spec.devices[0].capacity[m].requestPolicy.validRange.max: Invalid value: "6": value is not a multiple of a given step (2) from (1)',
  ],
  [
    "a default that is no valid value",
    device({
      allowMultipleAllocations: true,
      capacity: { m: { value: "10", requestPolicy: { default: "3", validValues: ["1", "2"] } } },
    }),
    'spec.devices[0].capacity[m].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
  ],
  [
    "a node of its own without leave",
    device({ nodeName: "n2" }),
    'spec.devices[0]: Invalid value: "null": `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true',
  ],
  [
    "conditions without failures",
    device({ bindingConditions: ["a"] }),
    "spec.devices[0].bindingFailureConditions: Invalid value: []: bindingFailureConditions are required to use bindingConditions",
  ],
  [
    "three counter sets",
    device({
      consumesCounters: ["a", "b", "c"].map((counterSet) => ({ counterSet, counters: { x: { value: "1" } } })),
    }),
    "spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items",
  ],
  [
    "an unknown effect",
    device({ taints: [{ key: "a", effect: "Sometimes" }] }),
    'spec.devices[0].taints[0].effect: Unsupported value: "Sometimes": supported values: "NoExecute", "NoSchedule", "None"',
  ],
])("a slice is invalid: %s", (_name, draft, error) => {
  expect(create(slices, draft).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test.each<[string, string, Draft, Edit, string]>([
  ["a claim's spec", claims, claim(), (c) => delete c.spec.devices.config, "spec: Invalid value"],
  [
    "a slice's driver",
    slices,
    slice(),
    (s) => (s.spec.driver = "other"),
    'spec.driver: Invalid value: "other": field is immutable',
  ],
  [
    "a slice's pool",
    slices,
    slice(),
    (s) => (s.spec.pool.name = "other"),
    'spec.pool.name: Invalid value: "other": field is immutable',
  ],
  [
    "a slice's node",
    slices,
    slice(),
    (s) => (s.spec.nodeName = "other"),
    'spec.nodeName: Invalid value: "other": field is immutable',
  ],
])("%s cannot change", (_name, key, draft, edit, error) => {
  expect(update(key, create(key, draft).object, edit).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

const result = { request: "gpu", driver: "gpu.example.com", pool: "n1", device: "gpu-0" };
const consumer = { resource: "pods", name: "p", uid: "u1" };
const allocated = () => {
  const object = create(claims, claim()).object;
  object.status = {
    allocation: { devices: { results: [result] } },
    reservedFor: [consumer],
    devices: [{ driver: "gpu.example.com", pool: "n1", device: "gpu-0" }],
  };
  return object;
};

test("an allocation, its consumers and its devices are accepted", () => {
  const object = create(claims, claim()).object;
  expect(updateStatus(claims, object, (c) => (c.status = allocated().status)).errors).toEqual([]);
});

test.each<[string, () => object, Edit, string]>([
  [
    "another allocation in place of the first",
    allocated,
    (c) => (c.status.allocation.devices.results[0].device = "gpu-1"),
    "status.allocation: Invalid value",
  ],
  [
    "consumers without an allocation",
    () => create(claims, claim()).object,
    (c) => (c.status = { reservedFor: [consumer] }),
    "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
  ],
  [
    "a consumer twice",
    allocated,
    (c) => c.status.reservedFor.push(consumer),
    'status.reservedFor[1].uid: Duplicate value: "u1"',
  ],
  [
    "257 consumers",
    allocated,
    (c) => (c.status.reservedFor = Array.from({ length: 257 }, (_, i) => ({ ...consumer, uid: `u${i}` }))),
    "status.reservedFor: Too many: 257: must have at most 256 items",
  ],
  [
    "a device that it does not have",
    allocated,
    (c) => (c.status.devices = [{ driver: "gpu.example.com", pool: "n1", device: "gpu-9" }]),
    'status.devices[0]: Invalid value: "gpu.example.com/n1/gpu-9": must be an allocated device in the claim',
  ],
  [
    "results for a request it did not make",
    () => create(claims, claim()).object,
    (c) => (c.status = { allocation: { devices: { results: [{ ...result, request: "x" }] } } }),
    'status.allocation.devices.results[0].request: Invalid value: "x"',
  ],
])("a claim's status may not bring %s", (_name, stored, edit, error) => {
  expect(updateStatus(claims, stored(), edit).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test("a terminating claim accepts no new consumers and may release old ones", () => {
  const object = allocated();
  object.metadata.deletionTimestamp = nowText;
  expect(updateStatus(claims, object, (c) => c.status.reservedFor.push({ ...consumer, uid: "u2" })).errors).toEqual([
    "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
  ]);
  expect(updateStatus(claims, object, (c) => delete c.status.reservedFor).errors).toEqual([]);
});

test("the driver's device status is dropped with the allocation", () => {
  const written = updateStatus(claims, allocated(), (c) => {
    delete c.status.allocation;
    delete c.status.reservedFor;
  });
  expect([written.errors, written.object.status.devices]).toEqual([[], undefined]);
});

test("a template may carry labels and annotations, and nothing else", () => {
  const template = (metadata: object): Draft => ({
    metadata: { name: "t", namespace: "ns" },
    spec: { metadata, spec: claim()["spec"] },
  });
  const key = "resource.k8s.io/resourceclaimtemplates";
  expect(create(key, template({ labels: { a: "b" } })).errors).toEqual([]);
  expect(create(key, template({ name: "x" })).errors).toEqual(["spec.metadata.name: Forbidden: cannot be set"]);
});

test("a class keeps selectors that would not be accepted today", () => {
  const key = "resource.k8s.io/deviceclasses";
  const stored = create(key, {
    metadata: { name: "x" },
    spec: { selectors: [{ cel: { expression: "old syntax (" } }] },
  });
  expect(stored.errors).toHaveLength(1);
  expect(update(key, stored.object, (c) => (c.spec.config = [])).errors).toEqual([]);
});

test("a taint rule that changes its effect restarts its toleration time", () => {
  const key = "resource.k8s.io/devicetaintrules";
  const stored = create(key, {
    metadata: { name: "x" },
    spec: {
      deviceSelector: { driver: "d" },
      taint: { key: "a", effect: "NoSchedule", timeAdded: "2025-01-01T00:00:00Z" },
    },
  });
  expect(stored.errors).toEqual([]);
  expect(update(key, stored.object, (r) => (r.spec.taint.effect = "NoExecute")).object.spec.taint.timeAdded).toBe(
    nowText,
  );
  expect(update(key, stored.object, (r) => (r.spec.taint.value = "b")).object.spec.taint.timeAdded).toBe(
    "2025-01-01T00:00:00Z",
  );
});

test.each([
  ["resourceclaims", claim()],
  ["resourceslices", slice()],
])("%s go to v1beta1 and back unharmed", (plural, draft) => {
  const conversion = conversions[`resource.k8s.io/v1beta1/${plural}`];
  const stored = create(`resource.k8s.io/${plural}`, draft).object as KubeObject;
  const seen = conversion?.fromStorage(stored) as KubeObject;
  expect(seen.apiVersion).toBe("resource.k8s.io/v1beta1");
  expect(JSON.stringify(seen)).not.toContain('"exactly"');
  expect(conversion?.toStorage(seen)).toEqual(stored);
});

test("a v1beta1 claim is defaulted and judged in its own shape", () => {
  const draft: Draft = {
    apiVersion: "resource.k8s.io/v1beta1",
    kind: "ResourceClaim",
    metadata: { name: "c", namespace: "ns" },
    spec: { devices: { requests: [{ name: "r", deviceClassName: "x" }] } },
  };
  const { object, errors } = create(claims, draft);
  expect(errors).toEqual([]);
  expect(object.spec.devices.requests).toEqual([
    { name: "r", deviceClassName: "x", allocationMode: "ExactCount", count: 1 },
  ]);
  expect(object.apiVersion).toBe("resource.k8s.io/v1beta1");
});

test("slices are found by node, driver and pool", () => {
  expect(strategyFor(slices).selectFields?.(create(slices, slice()).object)).toEqual(["n1", "gpu.example.com", "n1"]);
});
