import { deviceValue, splitName } from "../../../cel/device.ts";
import type { JsonMap } from "../../../cel/values.ts";
import type { Device, DeviceAttribute, ResourceSlice } from "../../../model/kubernetes.generated.ts";
import { parseQuantity, type Quantity } from "../../../model/values/quantity.ts";

/** One device of a slice, with values that are computed from it once: slices are never changed, only replaced. */
export class PoolDevice {
  readonly key: string;
  readonly slice: ResourceSlice;
  readonly device: Device;
  readonly isShareable: boolean;
  private shown: { value: JsonMap } | { problem: string } | undefined;
  private amounts: ReadonlyMap<string, Quantity> | undefined;

  constructor(slice: ResourceSlice, device: Device) {
    this.key = deviceKey({ driver: slice.spec.driver, pool: slice.spec.pool.name, device: device.name });
    this.slice = slice;
    this.device = device;
    this.isShareable = device.allowMultipleAllocations === true;
  }

  get driver(): string {
    return this.slice.spec.driver;
  }

  get pool(): string {
    return this.slice.spec.pool.name;
  }

  /** The device as CEL selectors see it. */
  get celValue(): { value: JsonMap } | { problem: string } {
    this.shown ??= deviceValue(this.driver, this.device);
    return this.shown;
  }

  get capacities(): ReadonlyMap<string, Quantity> {
    this.amounts ??= new Map(
      Object.entries(this.device.capacity ?? {})
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, { value }]) => [name, parseQuantity(value)]),
    );
    return this.amounts;
  }

  /** An attribute by its qualified name, or by its bare name where the domain is the driver's. */
  attribute(fullName: string): DeviceAttribute | undefined {
    const { attributes } = this.device;
    if (attributes === undefined) return undefined;
    if (Object.hasOwn(attributes, fullName)) return attributes[fullName];
    const [domain, id] = splitName(this.driver, fullName);
    return domain === this.driver && Object.hasOwn(attributes, id) ? attributes[id] : undefined;
  }
}

/** Driver and device contain no slash, so the key is unambiguous. */
export function deviceKey({ driver, pool, device }: { driver: string; pool: string; device: string }): string {
  return `${driver}/${pool}/${device}`;
}

export function devicesOf(slice: ResourceSlice): readonly PoolDevice[] {
  let devices = known.get(slice);
  if (devices === undefined) {
    devices = (slice.spec.devices ?? []).map((device) => new PoolDevice(slice, device));
    known.set(slice, devices);
  }
  return devices;
}

const known = new WeakMap<ResourceSlice, readonly PoolDevice[]>();
