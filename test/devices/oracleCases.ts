import type {
  DeviceConstraint,
  DeviceRequest,
  ResourceClaim,
  ResourceSlice,
} from "../../src/model/kubernetes.generated.ts";
import { parseQuantity } from "../../src/model/values/quantity.ts";
import { seededBelow } from "../../src/model/values/seeded.ts";
import {
  type AllocationCase,
  claim,
  type DeviceSpec,
  device,
  deviceClass,
  firstOf,
  type RequestSpec,
  request,
  slice,
} from "../../testing/decide/deviceCluster.ts";
import type { OracleInput } from "./oracle.ts";

/** A small cluster and a few claims, derived from a seed; every case is small enough to enumerate all assignments. */
export function oracleCase(seed: number): { forAllocator: AllocationCase; forOracle: OracleInput } {
  let calls = 0;
  const below = (bound: number): number => seededBelow(bound, "oracle", seed, calls++);
  const chance = (percent: number): boolean => below(100) < percent;
  const withCounters = chance(40);
  const withCapacity = chance(40);
  const withAdmin = chance(15);
  const pools = 1 + below(2);
  const slices: ResourceSlice[] = [];
  const keys: string[] = [];
  for (let p = 0; p < pools; p++) {
    const count = 1 + below(pools === 1 ? 5 : 3);
    const devices = Array.from({ length: count }, (_, i) => {
      const name = `d${p}${i}`;
      keys.push(`driver-a/pool-${p}/${name}`);
      return device(name, deviceSpec(below, chance, { withCounters, withCapacity }));
    });
    const pool = withCounters ? `pool-${p}/2` : `pool-${p}`;
    if (withCounters) {
      slices.push(slice(`s${p}0`, { pool, counters: { set: { c: String(1 + below(5)), e: String(1 + below(3)) } } }));
    }
    slices.push(slice(`s${p}1`, { pool, devices }));
  }
  const claims: ResourceClaim[] = [];
  const requestCount = 1 + below(3);
  const claimCount = requestCount > 1 && chance(40) ? 2 : 1;
  for (let c = 0; c < claimCount; c++) {
    const names = Array.from(
      { length: claimCount === 2 ? (c === 0 ? 1 : requestCount - 1) : requestCount },
      (_, i) => `r${i}`,
    );
    const constraints = chance(40) ? [constraint(below, chance, names)] : [];
    // Mode All beside a constraint may fail with an error, which the oracle does not cover.
    const mayAll = constraints.length === 0;
    const requests = names.map((name) => requestOf(name, below, chance, { mayAll, withCapacity, withAdmin }));
    claims.push(claim(`claim-${c}`, requests, constraints.length > 0 ? { constraints } : {}));
  }
  const taken = new Set(keys.filter(() => chance(15)));
  const isShared = (key: string) =>
    slices.some(({ spec }) =>
      spec.devices?.some((each) => each.allowMultipleAllocations && key.endsWith(`/${each.name}`)),
    );
  const shared = new Set(keys.filter((key) => isShared(key) && !taken.has(key) && chance(30)));
  const consumed = new Map<string, Map<string, bigint>>();
  for (const key of shared)
    if (withCapacity && chance(70)) consumed.set(key, new Map([["m", parseQuantity("1").nano]]));
  const forAllocator: AllocationCase = {
    name: `seed ${seed}`,
    claims,
    slices,
    classes: [deviceClass("class-a")],
    taken: [...taken],
    shared: [...shared],
    consumed: Object.fromEntries([...consumed.keys()].map((key) => [key, { m: "1" }])),
    expect: "none",
  };
  return { forAllocator, forOracle: { claims, slices, taken, shared, consumed, selects } };
}

/** The one kind of selector in these cases: `device.attributes["driver-a"].kind == 1`. */
function selects(expression: string, each: { attributes?: Record<string, { int?: number }> }): boolean {
  return each.attributes?.["kind"]?.int === Number(expression.split("== ")[1]);
}

type Below = (bound: number) => number;
type Chance = (percent: number) => boolean;

function deviceSpec(below: Below, chance: Chance, more: { withCounters: boolean; withCapacity: boolean }): DeviceSpec {
  const attrs = { kind: below(2), ...(chance(85) && { a: below(2) }), ...(chance(85) && { b: below(3) }) };
  const uses =
    more.withCounters && chance(80) ? { set: { c: String(below(4)), ...(chance(40) && { e: "1" }) } } : undefined;
  const value = String(1 + below(3));
  const policy = chance(30) ? { default: "1", validValues: ["1", value].slice(0, value === "1" ? 1 : 2) } : undefined;
  const isShareable = more.withCapacity && chance(60);
  const cap =
    more.withCapacity && chance(80)
      ? { m: isShareable && policy ? { value, requestPolicy: policy } : value }
      : undefined;
  return {
    attrs,
    ...(uses !== undefined && { uses }),
    ...(cap !== undefined && { cap }),
    ...(isShareable && { allowMultipleAllocations: true }),
    ...(chance(10) && { taints: [{ key: "k", value: "v", effect: chance(80) ? "NoSchedule" : "None" }] }),
  };
}

function requestOf(
  name: string,
  below: Below,
  chance: Chance,
  more: { mayAll: boolean; withCapacity: boolean; withAdmin: boolean },
): DeviceRequest {
  const spec = (): RequestSpec => ({
    ...(more.mayAll && chance(15) ? { all: true } : { count: 1 + below(3) }),
    ...(chance(40) && { where: `device.attributes["driver-a"].kind == ${below(2)}` }),
    ...(chance(20) && { tolerations: [{ operator: "Exists" }] }),
    ...(more.withCapacity && chance(50) && { capacity: { m: String(1 + below(2)) } }),
  });
  if (chance(30)) return firstOf(name, ...Array.from({ length: 1 + below(3) }, spec));
  return request(name, { ...spec(), ...(more.withAdmin && chance(50) && { admin: true }) });
}

function constraint(below: Below, chance: Chance, names: readonly string[]): DeviceConstraint {
  const attribute = `driver-a/${chance(50) ? "a" : "b"}`;
  const requests = chance(60) ? [] : names.slice(0, 1 + below(names.length));
  return {
    ...(requests.length > 0 && { requests }),
    ...(chance(60) ? { matchAttribute: attribute } : { distinctAttribute: attribute }),
  };
}
