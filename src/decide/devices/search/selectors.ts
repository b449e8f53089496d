/**
 * Selectors, compiled once and evaluated once per device. Two devices with equal values in everything an expression
 * reads share one result, so a selector over a thousand equal GPUs is evaluated once.
 */
import { type CelProgram, evaluateSlots } from "../../../cel/cel.ts";
import { compileDeviceExpression, type DeviceReads, deviceCostMax, splitName } from "../../../cel/device.ts";
import type { CelValue } from "../../../cel/values.ts";
import type { PoolDevice } from "./poolDevice.ts";

/** True, false, or the error of the evaluation. */
export type Verdict = boolean | string;

const noSuchKeyHint =
  "Consider using the optional chaining operator (`.?`) or checking for the presence of the attribute with `has()`.";

/** One expression. An error in it is reported when it is first evaluated. */
export class DeviceSelector {
  readonly expression: string;
  private readonly program: CelProgram | undefined;
  private readonly reads: DeviceReads | undefined;
  private readonly problem: string | undefined;
  private readonly byDevice = new WeakMap<PoolDevice, Verdict>();
  private readonly byValues = new Map<string, Verdict>();

  constructor(expression: string) {
    this.expression = expression;
    const compiled = compileDeviceExpression(expression);
    if (compiled.ok) {
      this.program = compiled.program;
      this.reads = compiled.reads;
    } else this.problem = compiled.message;
  }

  matches(device: PoolDevice): Verdict {
    let verdict = this.byDevice.get(device);
    if (verdict === undefined) {
      verdict = this.ask(device);
      this.byDevice.set(device, verdict);
    }
    return verdict;
  }

  private ask(device: PoolDevice): Verdict {
    if (this.problem !== undefined) return this.problem;
    const shown = device.celValue;
    // Every attribute is converted before the expression runs: an invalid one makes the device unusable.
    if ("problem" in shown) return shown.problem;
    if (this.reads === undefined) return this.run(shown.value);
    const values = valuesRead(this.reads, device);
    let verdict = this.byValues.get(values);
    if (verdict === undefined) {
      verdict = this.run(shown.value);
      if (this.byValues.size >= byValuesMax) this.byValues.clear();
      this.byValues.set(values, verdict);
    }
    return verdict;
  }

  private run(device: CelValue): Verdict {
    const { program } = this;
    if (program === undefined) return "no program";
    const slots: CelValue[] = new Array(program.slots);
    slots[0] = device;
    const result = evaluateSlots(program, slots, deviceCostMax);
    switch (result.kind) {
      case "value":
        return typeof result.value === "boolean" ? result.value : "the expression did not yield a bool";
      case "costExceeded":
        return "actual cost limit exceeded";
      case "error":
        return result.message.includes("no such key") ? `${result.message}. ${noSuchKeyHint}` : result.message;
    }
  }
}

const byValuesMax = 10_000;

function valuesRead(reads: DeviceReads, device: PoolDevice): string {
  const parts: unknown[] = [];
  if (reads.driver) parts.push(device.driver);
  if (reads.sharing) parts.push(device.isShareable);
  for (const name of reads.attributes) parts.push(read(device.device.attributes, device.driver, name));
  for (const name of reads.capacities) parts.push(read(device.device.capacity, device.driver, name));
  return parts.length === 1 && typeof parts[0] === "string" ? parts[0] : JSON.stringify(parts);
}

/** A bare name has the domain of the driver; where both forms are given, the last one wins. */
function read<T>(values: Readonly<Record<string, T>> | undefined, driver: string, fullName: string): T | null {
  if (values === undefined) return null;
  const [domain, id] = splitName(driver, fullName);
  if (domain !== driver) return values[fullName] ?? null;
  let found: T | null = null;
  if (Object.hasOwn(values, fullName) && Object.hasOwn(values, id)) {
    for (const name in values) if (name === fullName || name === id) found = values[name] ?? null;
    return found;
  }
  return values[fullName] ?? values[id] ?? null;
}

/**
 * Compiled selectors, so that a thousand claims of one template cost one compilation. The oldest entries are dropped
 * first.
 */
export class SelectorCache {
  private readonly known = new Map<string, DeviceSelector>();
  private readonly max: number;

  constructor(max = 4096) {
    this.max = max;
  }

  get(expression: string): DeviceSelector {
    const known = this.known.get(expression);
    if (known !== undefined) return known;
    const selector = new DeviceSelector(expression);
    if (this.known.size >= this.max) {
      for (const oldest of this.known.keys()) {
        this.known.delete(oldest);
        break;
      }
    }
    this.known.set(expression, selector);
    return selector;
  }
}
