/**
 * MIG partitions of a GPU. A GPU has eight memory slices and seven compute slices; a partition takes some of each, and
 * its memory must start at one of a few slices. Names, DRA counters and possible combinations follow from this.
 */
import type { MigSpec } from "./profile.ts";

export interface MigProfile {
  /** `1g.10gb`, `1g.10gb+me`. */
  readonly name: string;
  readonly computeSlices: number;
  readonly memorySlices: number;
  /** The memory slices at which it may start. */
  readonly starts: readonly number[];
  /** The id that fake-gpu-operator and nvidia-smi give it. */
  readonly id: number;
  /** Whether it takes the media engines, which only one partition of this size can have. */
  readonly mediaEngines: boolean;
}

export const memorySlicesPerGpu = 8;
export const computeSlicesPerGpu = 7;

const sizes = [
  { compute: 1, memory: 1, starts: [0, 1, 2, 3, 4, 5, 6], id: 19, suffix: "" },
  { compute: 1, memory: 1, starts: [0, 1, 2, 3, 4, 5, 6], id: 20, suffix: "+me" },
  { compute: 1, memory: 2, starts: [0, 2, 4, 6], id: 15, suffix: "" },
  { compute: 2, memory: 2, starts: [0, 2, 4], id: 14, suffix: "" },
  { compute: 3, memory: 4, starts: [0, 4], id: 9, suffix: "" },
  { compute: 4, memory: 4, starts: [0], id: 5, suffix: "" },
  { compute: 7, memory: 8, starts: [0], id: 0, suffix: "" },
] as const;

/** The MIG profiles of a GPU with this much memory; the names contain gigabytes, rounded as NVIDIA does. */
export function migProfilesOf(memoryMiB: number): MigProfile[] {
  const sliceGb = sliceGbOf(memoryMiB);
  return sizes.map(({ compute, memory, starts, id, suffix }) => ({
    name: `${compute}g.${Math.floor(sliceGb * memory)}gb${suffix}`,
    computeSlices: compute,
    memorySlices: memory,
    starts,
    id,
    mediaEngines: suffix === "+me",
  }));
}

/** Nominal gigabytes of a memory slice: NVIDIA names a GPU by its nominal size, a little above what it reports. */
function sliceGbOf(memoryMiB: number): number {
  const gb = memoryMiB / 1024;
  for (const nominal of [24, 40, 80, 96, 141, 180, 192, 288]) {
    if (gb <= nominal * 1.03 && gb > nominal * 0.93) return nominal / memorySlicesPerGpu;
  }
  return gb / memorySlicesPerGpu;
}

export interface MigPlacement {
  readonly profile: MigProfile;
  /** First memory slice. */
  readonly start: number;
}

/** Places partitions on one GPU, the largest first; undefined if they do not fit. */
export function placePartitions(mig: MigSpec, memoryMiB: number): MigPlacement[] | undefined {
  const wanted: MigProfile[] = [];
  for (const profile of migProfilesOf(memoryMiB)) {
    for (let n = mig.partitions[profile.name] ?? 0; n > 0; n--) wanted.push(profile);
  }
  const compute = wanted.reduce((sum, { computeSlices }) => sum + computeSlices, 0);
  const withEngines = wanted.filter(({ mediaEngines }) => mediaEngines);
  if (compute > computeSlicesPerGpu || withEngines.length > 1) return undefined;
  wanted.sort((a, b) => b.memorySlices - a.memorySlices || b.computeSlices - a.computeSlices || b.id - a.id);
  return placeRest(wanted, new Set());
}

/** Tries the lowest start first and backtracks: 3g, 2g and twice 1g fit only with 3g at the end. */
function placeRest(wanted: readonly MigProfile[], taken: ReadonlySet<number>): MigPlacement[] | undefined {
  const [profile, ...others] = wanted;
  if (profile === undefined) return [];
  for (const start of profile.starts) {
    if (!isFree(taken, start, profile.memorySlices)) continue;
    const slices = Array.from({ length: profile.memorySlices }, (_, i) => start + i);
    const rest = placeRest(others, new Set([...taken, ...slices]));
    if (rest !== undefined) return [{ profile, start }, ...rest];
  }
  return undefined;
}

function isFree(taken: ReadonlySet<number>, start: number, length: number): boolean {
  for (let slice = start; slice < start + length; slice++) if (taken.has(slice)) return false;
  return true;
}

/** Why the partitions are invalid; undefined when they are valid. */
export function migPartitionError(mig: MigSpec, memoryMiB: number): string | undefined {
  if (mig.strategy === "none") return undefined;
  const known = migProfilesOf(memoryMiB).map(({ name }) => name);
  const names = Object.keys(mig.partitions).filter((name) => (mig.partitions[name] ?? 0) > 0);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) return `${unknown} is not a partition of this GPU (known: ${known.join(", ")})`;
  if (names.length === 0) return `strategy ${mig.strategy} needs at least one partition`;
  if (mig.strategy === "single" && names.length > 1) return "strategy single allows partitions of one profile only";
  if (placePartitions(mig, memoryMiB) === undefined) return "the partitions do not fit on one GPU together";
  return undefined;
}

/** `nvidia.com/mig-1g.10gb`; a resource name cannot contain a plus sign. */
export function migResource(profile: string): string {
  return `nvidia.com/mig-${profile.replace("+", ".")}`;
}

/** The partition that a resource stands for, or undefined. */
export function migProfileOf(resource: string): string | undefined {
  const [, name] = /^nvidia\.com\/mig-(.+)$/.exec(resource) ?? [];
  return name?.replace(/\.me$/, "+me");
}
