/**
 * How much capacity of a shared device one request consumes, and whether that much is left. A request policy may define
 * valid amounts: a list, or a range with steps; a request is rounded up to the next valid amount.
 */
import type { CapacityRequestPolicyRange, DeviceCapacity } from "../../../model/kubernetes.generated.ts";
import { parseQuantity, type Quantity } from "../../../model/values/quantity.ts";
import type { PoolDevice } from "./poolDevice.ts";

const nanoPerUnit = 1_000_000_000n;
const nanoPerMilli = 1_000_000n;
const int64Max = 2n ** 63n - 1n;

export type Consumption =
  | { readonly ok: true; readonly amounts: ReadonlyMap<string, Quantity> }
  /** The device does not serve the request. */
  | { readonly ok: false; readonly isFatal: false }
  /** The request cannot be interpreted. */
  | { readonly ok: false; readonly isFatal: true; readonly message: string };

const unfit: Consumption = { ok: false, isFatal: false };

/** The consumption of the request on a device without other claims. */
export function consumptionOf(
  device: PoolDevice,
  requests: ReadonlyMap<string, Quantity> | undefined,
  fractional: boolean,
): Consumption {
  const amounts = new Map<string, Quantity>();
  for (const [name, value] of device.capacities) {
    const capacity = device.device.capacity?.[name] as DeviceCapacity;
    const amount = amountOf(capacity, value, requests?.get(name), fractional);
    if (typeof amount === "string") return { ok: false, isFatal: true, message: `capacity ${name}: ${amount}` };
    if (amount.nano < 0n) {
      return { ok: false, isFatal: true, message: `capacity ${name}: the consumption is negative` };
    }
    amounts.set(name, amount);
  }
  for (const name of requests?.keys() ?? []) if (!amounts.has(name)) return unfit;
  for (const [name, amount] of amounts) {
    const capacity = device.device.capacity?.[name] as DeviceCapacity;
    if (violatesPolicy(capacity, amount, fractional)) return unfit;
    if (amount.nano > (device.capacities.get(name) as Quantity).nano) return unfit;
  }
  return { ok: true, amounts };
}

/** Whether this much is left besides the consumption of others. */
export function fitsBeside(
  device: PoolDevice,
  amounts: ReadonlyMap<string, Quantity>,
  ...taken: readonly (ReadonlyMap<string, bigint> | undefined)[]
): boolean {
  for (const [name, { nano }] of amounts) {
    let sum = nano;
    for (const each of taken) sum += each?.get(name) ?? 0n;
    if (sum > (device.capacities.get(name) as Quantity).nano) return false;
  }
  return true;
}

/** The amount, or an error. */
export function amountOf(
  { requestPolicy }: DeviceCapacity,
  value: Quantity,
  requested: Quantity | undefined,
  fractional: boolean,
): Quantity | string {
  if (requested === undefined) {
    return requestPolicy?.default === undefined ? value : parseQuantity(requestPolicy.default);
  }
  if (requestPolicy?.validRange !== undefined) return roundedToRange(requestPolicy.validRange, requested, fractional);
  if (requestPolicy?.validValues !== undefined) {
    for (const each of requestPolicy.validValues) {
      const option = parseQuantity(each);
      if (option.nano >= requested.nano) return option;
    }
  }
  return requested;
}

function roundedToRange(
  range: CapacityRequestPolicyRange,
  requested: Quantity,
  fractional: boolean,
): Quantity | string {
  const min = parseQuantity(range.min);
  if (requested.nano < min.nano) return min;
  if (range.step === undefined) return requested;
  const step = parseQuantity(range.step);
  const milli = usesMilli(range, fractional);
  const unit = milli ? nanoPerMilli : nanoPerUnit;
  if (milli && requested.nano % nanoPerMilli !== 0n) return "the request cannot be represented in thousandths";
  const wanted = roundUp(requested.nano, unit);
  if (wanted > int64Max) return "the request cannot be represented";
  const from = roundUp(min.nano, unit);
  const by = roundUp(step.nano, unit);
  const steps = wanted <= from ? 0n : (wanted - from + by - 1n) / by;
  const amount = from + steps * by;
  if (amount > int64Max) return "the rounded request cannot be represented";
  return { nano: amount * unit, format: step.format };
}

/** Amounts are computed in thousandths if all bounds can be represented in them, even if none is fractional. */
export function usesMilli({ min, max, step }: CapacityRequestPolicyRange, fractional: boolean): boolean {
  if (!fractional) return false;
  for (const text of [min, max, step]) {
    if (text !== undefined && !isMilliSafe(parseQuantity(text))) return false;
  }
  return step === undefined || parseQuantity(step).nano >= nanoPerMilli;
}

export function isMilliSafe({ nano }: Quantity): boolean {
  return nano % nanoPerMilli === 0n && nano / nanoPerMilli <= int64Max;
}

/** The default is always valid. */
export function violatesPolicy({ requestPolicy }: DeviceCapacity, amount: Quantity, fractional: boolean): boolean {
  if (requestPolicy === undefined) return false;
  const { validRange, validValues } = requestPolicy;
  if (requestPolicy.default !== undefined && parseQuantity(requestPolicy.default).nano === amount.nano) return false;
  if (validRange !== undefined) {
    if (validRange.max !== undefined && amount.nano > parseQuantity(validRange.max).nano) return true;
    if (validRange.step === undefined) return false;
    const unit = usesMilli(validRange, fractional) ? nanoPerMilli : nanoPerUnit;
    const by = roundUp(parseQuantity(validRange.step).nano, unit);
    const beyond = roundUp(amount.nano, unit) - roundUp(parseQuantity(validRange.min).nano, unit);
    return by > 0n && beyond % by !== 0n;
  }
  return validValues !== undefined && !validValues.some((each) => parseQuantity(each).nano === amount.nano);
}

function roundUp(nano: bigint, unit: bigint): bigint {
  const quotient = nano / unit;
  return nano > 0n && quotient * unit !== nano ? quotient + 1n : quotient;
}
