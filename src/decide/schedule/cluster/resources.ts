/**
 * Amounts as whole numbers: CPU in thousandths of a core, everything else in its own unit. Whole numbers add up and
 * undo exactly.
 */

/** The first four resources always have these places; others get theirs when they are first named. */
export const cpuAt = 0;
export const memoryAt = 1;
/** GPUs in devices, whatever their maker calls them. */
export const gpuAt = 2;
export const podsAt = 3;

/** Both makers' names feed the one GPU dimension; any other name is an ordinary extended resource. */
export const nvidiaGpu = "nvidia.com/gpu";
export const amdGpu = "amd.com/gpu";

/** Whose GPUs, as bits: one maker's are no use to a pod that asks for another's. None for any other resource. */
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

/** What is asked for is rounded up, so that no rounding overfills a node. */
export function wholeAmount(name: string, nano: bigint): number {
  const unit = name === "cpu" ? nanoPerMilli : nanoPerUnit;
  const whole = nano / unit;
  return Number(nano > 0n && whole * unit !== nano ? whole + 1n : whole);
}

/** What a node has is rounded down, for the same reason. */
export function wholeCapacity(name: string, nano: bigint): number {
  return Number(nano / (name === "cpu" ? nanoPerMilli : nanoPerUnit));
}

/**
 * `1g.5gb` of a MIG profile weighs one, `7g.40gb` seven, as if they were GPUs; names with more parts weigh nothing (as
 * in KAI).
 */
const migShape = /^nvidia\.com\/mig-([0-9]+)g\.[0-9]+gb$/;

export function migWeight(name: string): number {
  const match = migShape.exec(name);
  return match === null ? 0 : Number(match[1]);
}

/** GPU in thousandths of a device, CPU in thousandths of a core, memory in bytes: what queues share out. */
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
