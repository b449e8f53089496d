/**
 * Slices with the taints of DeviceTaintRules added to their devices. A slice that no rule selects stays the same
 * object.
 */

import { selectsDevice } from "../../../model/deviceTaints.ts";
import type { DeviceTaint, DeviceTaintRule, ResourceSlice } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";

export class TaintedSlices {
  private readonly slices = new Map<string, ResourceSlice>();
  private readonly rules = new Map<string, DeviceTaintRule>();
  private readonly patched = new Map<string, ResourceSlice>();
  private sorted: readonly ResourceSlice[] | undefined;

  /** Undefined: the object was deleted. Returns whether the slices have changed. */
  setSlice(name: string, slice: ResourceSlice | undefined): boolean {
    if (slice === undefined) {
      this.slices.delete(name);
      const had = this.patched.delete(name);
      if (had) this.sorted = undefined;
      return had;
    }
    this.slices.set(name, slice);
    return this.patch(name, slice);
  }

  setRule(name: string, rule: DeviceTaintRule | undefined): boolean {
    const before = this.rules.get(name);
    if (before === rule) return false;
    if (rule === undefined) this.rules.delete(name);
    else this.rules.set(name, rule);
    if (before !== undefined && rule !== undefined && equalFields(before.spec, rule.spec)) return false;
    let hasChanged = false;
    for (const [each, slice] of this.slices) hasChanged = this.patch(each, slice) || hasChanged;
    return hasChanged;
  }

  /** In order of name. */
  list(): readonly ResourceSlice[] {
    this.sorted ??= [...this.patched].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, slice]) => slice);
    return this.sorted;
  }

  get(name: string): ResourceSlice | undefined {
    return this.patched.get(name);
  }

  /** Rules in order of name. */
  allRules(): readonly DeviceTaintRule[] {
    return [...this.rules].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, rule]) => rule);
  }

  private patch(name: string, slice: ResourceSlice): boolean {
    const next = withRules(slice, this.allRules());
    const before = this.patched.get(name);
    if (before === next || (before !== undefined && next !== slice && equalFields(before, next))) return false;
    this.patched.set(name, next);
    this.sorted = undefined;
    return true;
  }
}

/** Each rule's taint is appended to the devices that it selects. */
export function withRules(slice: ResourceSlice, rules: readonly DeviceTaintRule[]): ResourceSlice {
  const { driver, pool, devices } = slice.spec;
  const about = rules.filter(({ spec }) => selectsPool(spec.deviceSelector, driver, pool.name));
  if (about.length === 0 || devices === undefined) return slice;
  let isChanged = false;
  const next = devices.map((device) => {
    const added: DeviceTaint[] = [];
    for (const { spec } of about) {
      if (selectsDevice(spec.deviceSelector, { driver, pool: pool.name, device: device.name })) added.push(spec.taint);
    }
    if (added.length === 0) return device;
    isChanged = true;
    return { ...device, taints: [...(device.taints ?? []), ...added] };
  });
  return isChanged ? { ...slice, spec: { ...slice.spec, devices: next } } : slice;
}

function selectsPool(selector: DeviceTaintRule["spec"]["deviceSelector"], driver: string, pool: string): boolean {
  if (selector === undefined) return false;
  return (
    (selector.driver === undefined || selector.driver === driver) &&
    (selector.pool === undefined || selector.pool === pool)
  );
}
