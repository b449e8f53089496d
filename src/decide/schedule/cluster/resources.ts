/**
 * Amounts as whole numbers: CPU in thousandths of a core, everything else in its own unit. Sums of whole numbers are
 * exact, so that a rollback restores them exactly.
 */

/** The first four resources always have these places; others get a place when they are first named. */
export const cpuAt = 0;
export const memoryAt = 1;
/** Whole GPUs of all vendors. */
export const gpuAt = 2;
export const podsAt = 3;

/** The resources of both vendors count as GPUs; any other name is an ordinary extended resource. */
export const nvidiaGpu = "nvidia.com/gpu";
export const amdGpu = "amd.com/gpu";

/** The vendor of a GPU resource as a bit, 0 for any other resource: a pod needs GPUs of the vendor that it requests. */
export function gpuMaker(name: string): number {
  if (name === nvidiaGpu) return 1;
  return name === amdGpu ? 2 : 0;
}

const nanoPerMilli = 1_000_000n;
const nanoPerUnit = 1_000_000_000n;

/** Names of resources and the places that they have in packed arrays. */
export class ResourceNames {
  readonly names: string[] = ["cpu", "memory", "gpu", "pods"];
  private readonly places = new Map<string, number>([
    ["cpu", cpuAt],
    ["memory", memoryAt],
    [nvidiaGpu, gpuAt],
    [amdGpu, gpuAt],
    ["pods", podsAt],
  ]);

  placeOf(name: string): number {
    let place = this.places.get(name);
    if (place === undefined) {
      place = this.names.length;
      this.names.push(name);
      this.places.set(name, place);
    }
    return place;
  }
}

/** Requests are rounded up, so that rounding never overcommits a node. */
export function wholeAmount(name: string, nano: bigint): number {
  const unit = name === "cpu" ? nanoPerMilli : nanoPerUnit;
  const whole = nano / unit;
  return Number(nano > 0n && whole * unit !== nano ? whole + 1n : whole);
}

/** Capacities are rounded down, for the same reason. */
export function wholeCapacity(name: string, nano: bigint): number {
  return Number(nano / (name === "cpu" ? nanoPerMilli : nanoPerUnit));
}

/**
 * The MIG profile `1g.5gb` counts as one GPU in queues, `7g.40gb` as seven; names with more components count as none
 * (as in KAI).
 */
const migShape = /^nvidia\.com\/mig-([0-9]+)g\.[0-9]+gb$/;

export function migWeight(name: string): number {
  const match = migShape.exec(name);
  return match === null ? 0 : Number(match[1]);
}

/** The resources of queues: GPU in thousandths of a device, CPU in thousandths of a core, memory in bytes. */
export type Vector = [gpuMilli: number, cpuMilli: number, memoryBytes: number];

export const queueResources = ["gpu", "cpu", "memory"] as const;

export function zeroVector(): Vector {
  return [0, 0, 0];
}

export function addTo(target: Vector, by: Readonly<Vector>, times = 1): void {
  target[0] += by[0] * times;
  target[1] += by[1] * times;
  target[2] += by[2] * times;
}

export function sum(a: Readonly<Vector>, b: Readonly<Vector>): Vector {
  return [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
}
