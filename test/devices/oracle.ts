/**
 * A brute-force allocator: it enumerates every assignment in the order of the search and checks each complete one,
 * without backtracking state, budget or pruning.
 */
import type { Device, ResourceClaim, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { parseQuantity } from "../../src/model/values/quantity.ts";

export interface OracleInput {
  readonly claims: readonly ResourceClaim[];
  /** Node-local, complete, in the order in which pools and slices are tried. */
  readonly slices: readonly ResourceSlice[];
  readonly taken: ReadonlySet<string>;
  readonly shared: ReadonlySet<string>;
  readonly consumed: ReadonlyMap<string, ReadonlyMap<string, bigint>>;
  readonly selects: (expression: string, device: Device) => boolean;
}

interface Choice {
  readonly claim: number;
  readonly request: string;
  readonly label: string;
  readonly isAdmin: boolean;
  readonly tolerates: boolean;
  readonly capacity: Readonly<Record<string, string>>;
  readonly at: number;
}

interface Spot {
  readonly key: string;
  readonly pool: string;
  readonly device: Device;
}

interface Option {
  readonly request: string;
  readonly label: string;
  readonly count: number;
  readonly isAll: boolean;
  readonly isAdmin: boolean;
  readonly expressions: readonly string[];
  readonly tolerates: boolean;
  readonly capacity: Readonly<Record<string, string>>;
}

/** Lines `claim request key` of the first assignment, or undefined. */
export function oracle(input: OracleInput): string[] | undefined {
  const spots: Spot[] = input.slices.flatMap(({ spec }) =>
    (spec.devices ?? []).map((device) => ({
      key: `${spec.driver}/${spec.pool.name}/${device.name}`,
      pool: `${spec.driver}/${spec.pool.name}`,
      device,
    })),
  );
  const slots = input.claims.flatMap((claim, index) =>
    (claim.spec.devices?.requests ?? []).map((request) => ({ index, options: optionsOf(request) })),
  );
  for (const choices of assignments(slots, spots, input)) {
    if (!isValid(choices, spots, input)) continue;
    return choices.map(({ claim, label, at }) => `${claim} ${label} ${spots[at]?.key}`);
  }
  return undefined;
}

type Request = NonNullable<NonNullable<ResourceClaim["spec"]["devices"]>["requests"]>[number];

function optionsOf(request: Request): Option[] {
  const read = (spec: NonNullable<Request["exactly"]>, label: string): Option => ({
    request: request.name,
    label,
    count: spec.count ?? 1,
    isAll: spec.allocationMode === "All",
    isAdmin: spec.adminAccess === true,
    expressions: (spec.selectors ?? []).map(({ cel }) => cel?.expression ?? ""),
    tolerates: (spec.tolerations ?? []).length > 0,
    capacity: spec.capacity?.requests ?? {},
  });
  if (request.exactly !== undefined) return [read(request.exactly, request.name)];
  return (request.firstAvailable ?? []).map((each) => read(each, `${request.name}/${each.name}`));
}

function* assignments(
  slots: readonly { index: number; options: Option[] }[],
  spots: readonly Spot[],
  input: OracleInput,
): Iterable<Choice[]> {
  const [slot, ...rest] = slots;
  if (slot === undefined) {
    yield [];
    return;
  }
  for (const option of slot.options) {
    const fitting = spots.flatMap((spot, at) => (serves(option, spot, input) ? [at] : []));
    const sets = option.isAll ? (fitting.length === 0 ? [] : [fitting]) : subsets(fitting, option.count);
    for (const set of sets) {
      const own = set.map((at): Choice => ({ claim: slot.index, at, ...option }));
      for (const more of assignments(rest, spots, input)) yield [...own, ...more];
    }
  }
}

function* subsets(items: readonly number[], count: number): Iterable<number[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (let i = 0; i < items.length; i++) {
    for (const more of subsets(items.slice(i + 1), count - 1)) yield [items[i] as number, ...more];
  }
}

/** The properties of a device, independent of other claims. */
function serves(option: Option, { device }: Spot, input: OracleInput): boolean {
  return (
    option.expressions.every((expression) => input.selects(expression, device)) &&
    Object.keys(option.capacity).every((name) => device.capacity?.[name] !== undefined) &&
    [...amounts(option, device)].every(([name, amount]) => amount <= nano(device.capacity?.[name]?.value))
  );
}

function amounts({ capacity }: Pick<Option, "capacity">, device: Device): Map<string, bigint> {
  return new Map(
    Object.entries(device.capacity ?? {}).map(([name, { value, requestPolicy }]) => {
      const asked = capacity[name];
      if (asked === undefined) return [name, nano(requestPolicy?.default ?? value)];
      const allowed = requestPolicy?.validValues?.map(nano).find((each) => each >= nano(asked));
      return [name, allowed ?? nano(asked)];
    }),
  );
}

function nano(text: string | undefined): bigint {
  return parseQuantity(text ?? "0").nano;
}

function isValid(choices: readonly Choice[], spots: readonly Spot[], input: OracleInput): boolean {
  const counters = new Map<string, bigint>();
  const charged = new Set<string>();
  const shares = new Map<number, Map<string, bigint>>();
  for (const [i, choice] of choices.entries()) {
    const { key, pool, device } = spots[choice.at] as Spot;
    const isShareable = device.allowMultipleAllocations === true;
    const repels = device.taints?.some(({ effect }) => effect !== "None") === true;
    if (repels && !choice.tolerates) return false;
    if (!choice.isAdmin && (input.taken.has(key) || (!isShareable && input.shared.has(key)))) return false;
    const before = choices.slice(0, i).filter(({ at }) => at === choice.at);
    if (!isShareable && before.some(({ claim }) => !choice.isAdmin || claim === choice.claim)) return false;
    const wasShared = input.shared.has(key) || input.consumed.has(key) || before.length > 0;
    if (device.consumesCounters !== undefined && !(isShareable && wasShared)) {
      charged.add(pool);
      for (const { counterSet, counters: own } of device.consumesCounters) {
        for (const [name, { value }] of Object.entries(own)) {
          const id = `${pool}|${counterSet}|${name}`;
          counters.set(id, (counters.get(id) ?? 0n) + nano(value));
        }
      }
    }
    const sums = shares.get(choice.at) ?? new Map<string, bigint>();
    shares.set(choice.at, sums);
    for (const [name, amount] of amounts(choice, device)) {
      const total = (sums.get(name) ?? 0n) + (input.consumed.get(key)?.get(name) ?? 0n) + amount;
      if (total > nano(device.capacity?.[name]?.value)) return false;
      if (isShareable) sums.set(name, (sums.get(name) ?? 0n) + amount);
    }
  }
  return countersHold(counters, charged, spots, input) && constraintsHold(choices, spots, input);
}

function countersHold(
  used: ReadonlyMap<string, bigint>,
  charged: ReadonlySet<string>,
  spots: readonly Spot[],
  input: OracleInput,
): boolean {
  const left = new Map<string, bigint>();
  for (const { spec } of input.slices) {
    for (const { name, counters } of spec.sharedCounters ?? []) {
      for (const [counter, { value }] of Object.entries(counters)) {
        left.set(`${spec.driver}/${spec.pool.name}|${name}|${counter}`, nano(value));
      }
    }
  }
  for (const { key, pool, device } of spots) {
    if (!input.taken.has(key) && !input.shared.has(key) && !input.consumed.has(key)) continue;
    for (const { counterSet, counters } of device.consumesCounters ?? []) {
      for (const [name, { value }] of Object.entries(counters)) {
        const id = `${pool}|${counterSet}|${name}`;
        left.set(id, (left.get(id) ?? 0n) - nano(value));
      }
    }
  }
  for (const [id, amount] of left) {
    if (charged.has(id.split("|")[0] ?? "") && amount < (used.get(id) ?? 0n)) return false;
  }
  return true;
}

function constraintsHold(choices: readonly Choice[], spots: readonly Spot[], { claims }: OracleInput): boolean {
  for (const [index, claim] of claims.entries()) {
    for (const { requests = [], matchAttribute, distinctAttribute } of claim.spec.devices?.constraints ?? []) {
      const values = choices
        .filter((each) => each.claim === index)
        .filter(({ request, label }) => requests.length === 0 || requests.includes(request) || requests.includes(label))
        .map(({ at }) => {
          const name = (matchAttribute ?? distinctAttribute ?? "").split("/")[1] ?? "";
          const value = spots[at]?.device.attributes?.[name];
          return value === undefined ? undefined : JSON.stringify(value);
        });
      if (values.includes(undefined)) return false;
      const different = new Set(values).size;
      if (matchAttribute !== undefined ? different > 1 : different !== values.length) return false;
    }
  }
  return true;
}
