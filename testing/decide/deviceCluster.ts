/** Builders for tests: slices, classes and claims with defaults, and an allocation printed as short lines. */

import { type Allocation, allocate } from "../../src/decide/devices/search/allocate.ts";
import { AllocatedSets } from "../../src/decide/devices/search/allocatedState.ts";
import { planClaims } from "../../src/decide/devices/search/claimPlan.ts";
import { allFeatures, type DeviceFeatures } from "../../src/decide/devices/search/features.ts";
import { SliceIndex } from "../../src/decide/devices/search/pools.ts";
import type { SearchInput } from "../../src/decide/devices/search/search.ts";
import { SelectorCache } from "../../src/decide/devices/search/selectors.ts";
import type {
  AllocationResult,
  Device,
  DeviceAttribute,
  DeviceClass,
  DeviceConstraint,
  DeviceRequest,
  DeviceRequestAllocationResult,
  DeviceSubRequest,
  DeviceTaint,
  DeviceToleration,
  ExactDeviceRequest,
  Node,
  NodeSelector,
  ResourceClaim,
  ResourceSlice,
} from "../../src/model/kubernetes.generated.ts";
import { parseQuantity } from "../../src/model/values/quantity.ts";

export const driverA = "driver-a";
export const driverB = "driver-b";

function metadata(name: string, more: object = {}): ResourceClaim["metadata"] {
  const uid = `uid-${name}`;
  return { name, uid, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z", ...more };
}

export function testNode(name: string, labels: Record<string, string> = {}): Node {
  const meta = metadata(name, { labels: { "kubernetes.io/hostname": name, ...labels } });
  return { apiVersion: "v1", kind: "Node", metadata: meta } as Node;
}

export const node1 = testNode("node-1", { region: "region-1", planet: "earth" });
export const node2 = testNode("node-2", { region: "region-2", planet: "earth" });

export function labelSelector(key: string, ...values: string[]): NodeSelector {
  return { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: "In", values }] }] };
}

export function nameSelector(name: string): NodeSelector {
  return { nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: [name] }] }] };
}

export interface DeviceSpec extends Omit<Device, "name" | "attributes" | "capacity" | "consumesCounters"> {
  readonly attrs?: Record<string, number | boolean | string | DeviceAttribute>;
  readonly cap?: Record<string, string | { value: string; requestPolicy?: object }>;
  /** Counter set to counters. */
  readonly uses?: Record<string, Record<string, string>>;
}

export function device(name: string, { attrs, cap, uses, ...rest }: DeviceSpec = {}): Device {
  const attributes = Object.entries(attrs ?? {}).map(([key, value]) => [key, attribute(value)]);
  const capacity = Object.entries(cap ?? {}).map(([key, value]) => [
    key,
    typeof value === "string" ? { value } : value,
  ]);
  const consumesCounters = Object.entries(uses ?? {}).map(([counterSet, each]) => ({
    counterSet,
    counters: counters(each),
  }));
  return {
    name,
    ...rest,
    ...(attrs !== undefined && { attributes: Object.fromEntries(attributes) }),
    ...(cap !== undefined && { capacity: Object.fromEntries(capacity) }),
    ...(uses !== undefined && { consumesCounters }),
  } as Device;
}

function attribute(value: number | boolean | string | DeviceAttribute): DeviceAttribute {
  switch (typeof value) {
    case "number":
      return { int: value };
    case "boolean":
      return { bool: value };
    case "string":
      return { string: value };
    default:
      return value;
  }
}

function counters(values: Record<string, string>): Record<string, { value: string }> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]));
}

export interface SliceSpec {
  /** `pool-1`, or `pool-1/2` for one of two slices. */
  readonly pool?: string;
  readonly generation?: number;
  readonly driver?: string;
  /** A node's name, "all", "each" (set by each device), or a selector. Default: node-1. */
  readonly at?: string | NodeSelector;
  readonly devices?: readonly (string | Device)[];
  readonly counters?: Record<string, Record<string, string>>;
}

export function slice(name: string, spec: SliceSpec = {}): ResourceSlice {
  const { pool = "pool-1", generation = 1, driver = driverA, at = "node-1" } = spec;
  const [poolName = pool, count = "1"] = pool.split("/");
  const place =
    typeof at !== "string"
      ? { nodeSelector: at }
      : at === "all"
        ? { allNodes: true }
        : at === "each"
          ? { perDeviceNodeSelection: true }
          : { nodeName: at };
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: metadata(name),
    spec: {
      driver,
      pool: { name: poolName, generation, resourceSliceCount: Number(count) },
      ...place,
      ...(spec.devices !== undefined && {
        devices: spec.devices.map((each) => (typeof each === "string" ? device(each) : each)),
      }),
      ...(spec.counters !== undefined && {
        sharedCounters: Object.entries(spec.counters).map(([set, each]) => ({ name: set, counters: counters(each) })),
      }),
    },
  };
}

export function deviceClass(name: string, expression?: string, config: object[] = []): DeviceClass {
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: metadata(name),
    spec: {
      ...(expression !== undefined && { selectors: [{ cel: { expression } }] }),
      ...(config.length > 0 && { config: config.map((parameters) => ({ opaque: { driver: driverA, parameters } })) }),
    },
  };
}

export const classA = deviceClass("class-a", `device.driver == "${driverA}"`);
export const classB = deviceClass("class-b", `device.driver == "${driverB}"`);
export const shareableClass = deviceClass(
  "shareable",
  `device.driver == "${driverA}" && device.allowMultipleAllocations == true`,
);

export interface RequestSpec {
  readonly class?: string;
  readonly count?: number;
  readonly all?: boolean;
  readonly admin?: boolean;
  readonly where?: string | readonly string[];
  readonly tolerations?: DeviceToleration[];
  readonly capacity?: Record<string, string>;
}

function details(spec: RequestSpec): ExactDeviceRequest {
  const expressions = spec.where === undefined ? [] : typeof spec.where === "string" ? [spec.where] : spec.where;
  return {
    deviceClassName: spec.class ?? "class-a",
    allocationMode: spec.all === true ? "All" : "ExactCount",
    ...(spec.all !== true && { count: spec.count ?? 1 }),
    ...(spec.admin !== undefined && { adminAccess: spec.admin }),
    ...(expressions.length > 0 && { selectors: expressions.map((expression) => ({ cel: { expression } })) }),
    ...(spec.tolerations !== undefined && { tolerations: spec.tolerations }),
    ...(spec.capacity !== undefined && { capacity: { requests: spec.capacity } }),
  };
}

export function request(name: string, spec: RequestSpec = {}): DeviceRequest {
  return { name, exactly: details(spec) };
}

/** Alternatives in order; they are called sub-0, sub-1, ... */
export function firstOf(name: string, ...options: RequestSpec[]): DeviceRequest {
  const firstAvailable = options.map(
    (each, i) => ({ name: `sub-${i}`, ...details(each) }) as unknown as DeviceSubRequest,
  );
  return { name, firstAvailable };
}

export function claim(
  name: string,
  requests: DeviceRequest[],
  more: { constraints?: DeviceConstraint[]; config?: { requests?: string[]; parameters: object }[] } = {},
): ResourceClaim {
  const config = more.config?.map(({ requests: names, parameters }) => ({
    ...(names !== undefined && { requests: names }),
    opaque: { driver: driverA, parameters },
  }));
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: metadata(name, { namespace: "default" }),
    spec: {
      devices: {
        requests,
        ...(more.constraints !== undefined && { constraints: more.constraints }),
        ...(config !== undefined && { config }),
      },
    },
  };
}

export const taint = {
  noSchedule: { key: "k", value: "v1", effect: "NoSchedule" } as DeviceTaint,
  noExecute: { key: "k", value: "v2", effect: "NoExecute" } as DeviceTaint,
  none: { key: "k", value: "v3", effect: "None" } as DeviceTaint,
};

export const tolerate = {
  noSchedule: { key: "k", operator: "Equal", value: "v1", effect: "NoSchedule" } as DeviceToleration,
  noExecute: { key: "k", operator: "Equal", value: "v2", effect: "NoExecute" } as DeviceToleration,
};

export interface AllocationCase {
  readonly name: string;
  readonly claims?: readonly ResourceClaim[];
  readonly slices?: readonly ResourceSlice[];
  readonly classes?: readonly DeviceClass[];
  readonly node?: Node;
  readonly off?: readonly (keyof DeviceFeatures)[];
  /** `pool-1/d1`, of driver A unless it has three parts. */
  readonly taken?: readonly string[];
  readonly shared?: readonly string[];
  readonly consumed?: Readonly<Record<string, Record<string, string>>>;
  /** Lines of `linesOf`, one list for each claim in any order; "none": does not fit; otherwise part of the error. */
  readonly expect: readonly (readonly string[])[] | "none" | { readonly error: string; readonly isNodeLocal?: boolean };
  /** By default all claims are bound to the node. */
  readonly selectors?: readonly (NodeSelector | undefined)[];
  readonly configs?: readonly (readonly object[])[];
  readonly visitsMax?: number;
  readonly stop?: () => string | undefined;
}

export function fullKey(short: string): string {
  return short.split("/").length === 2 ? `${driverA}/${short}` : short;
}

export function runCase(each: AllocationCase, aids?: SearchInput["aids"]): Allocation {
  const { claims = [], slices = [], classes = [classA, classB, shareableClass] } = each;
  const features = { ...allFeatures, ...Object.fromEntries((each.off ?? []).map((name) => [name, false])) };
  const state = new AllocatedSets();
  for (const key of each.taken ?? []) state.devices.add(fullKey(key));
  for (const key of each.shared ?? [])
    state.shares.set(fullKey(key), new Set(["00000000-0000-4000-8000-000000000000"]));
  for (const [key, amounts] of Object.entries(each.consumed ?? {})) {
    const sums = Object.entries(amounts).map(([name, value]) => [name, parseQuantity(value).nano] as const);
    state.capacity.set(fullKey(key), new Map(sums));
  }
  const planned = planClaims({
    claims,
    classOf: (name) => classes.find(({ metadata: { name: other } }) => other === name),
    selectors: new SelectorCache(),
    features,
  });
  if (!planned.ok) return { kind: "failed", message: planned.message, isNodeLocal: false, visited: 0 };
  return allocate({
    plan: planned.plan,
    sliceIndex: new SliceIndex(slices, features),
    node: each.node ?? node1,
    state,
    features,
    ...(each.stop !== undefined && { stop: each.stop }),
    ...(aids !== undefined && { aids }),
  });
}

/** `req-0 pool-1/d1`, and further properties: `admin`, `share`, amounts, `binds`, `tolerates`. */
export function linesOf({ devices }: AllocationResult): string[] {
  return (devices?.results ?? []).map(lineOf).sort();
}

function lineOf(result: DeviceRequestAllocationResult): string {
  const where = `${result.pool}/${result.device}`;
  const parts = [result.request, result.driver === driverA ? where : `${result.driver}/${where}`];
  if (result.adminAccess === true) parts.push("admin");
  if (result.shareID !== undefined) parts.push("share");
  for (const [name, amount] of Object.entries(result.consumedCapacity ?? {}).sort()) parts.push(`${name}=${amount}`);
  if (result.bindingConditions !== undefined) parts.push(`binds(${result.bindingConditions.join(",")})`);
  if (result.bindingFailureConditions !== undefined) parts.push(`fails(${result.bindingFailureConditions.join(",")})`);
  for (const each of result.tolerations ?? []) parts.push(`tolerates(${each.value ?? ""})`);
  return parts.join(" ");
}
