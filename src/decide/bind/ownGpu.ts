/**
 * Which GPU a reservation pod was given, from inside its container. The device plugin names it in one of several ways,
 * and the driver lists what the container can see:
 *
 *   NVIDIA_VISIBLE_DEVICES           a UUID, an index of the node, `all`, or `void` where CDI injects the device
 *   /var/run/nvidia-container-devices one entry per device, where the plugin passes devices as volume mounts
 *   nvidia-smi -L                    the GPUs that the container can open, and their MIG devices
 *   /proc/driver/nvidia/gpus/*       the same GPUs without MIG devices, with the minor number of /dev/nvidiaN
 *
 * Sources that disagree are an error: with a wrong device, pods of two groups would use the same GPU.
 */

/** What the container sees. A missing source is undefined, or an empty list. */
export interface GpuEvidence {
  /** The value of NVIDIA_VISIBLE_DEVICES. */
  readonly visibleDevices: string | undefined;
  /** Names of the entries of /var/run/nvidia-container-devices. */
  readonly mounted: readonly string[];
  /** What `nvidia-smi -L` printed. */
  readonly listing: string | undefined;
  /** Texts of /proc/driver/nvidia/gpus/<bus address>/information. */
  readonly information: readonly string[];
}

export interface OwnGpu {
  /** UUID of the GPU, or of the MIG device where that is what the device plugin gives out. */
  readonly device: string;
  /** The N of /dev/nvidiaN on the node, where the driver reports it. */
  readonly index: number | undefined;
}

export type GpuAnswer = { readonly gpu: OwnGpu } | { readonly problem: string };

interface ListedGpu {
  readonly uuid: string;
  /** As nvidia-smi counts; inside a container it counts only what the container can see. */
  readonly position: number;
  readonly migDevices: readonly string[];
}

const mountsAreListed = "/var/run/nvidia-container-devices";

export function ownGpu(evidence: GpuEvidence): GpuAnswer {
  const minors = minorsOf(evidence.information);
  const listed = listedGpus(evidence.listing ?? "");
  const names = namesOf(evidence);
  const seen = listed.length > 0 ? candidatesOf(listed) : [...minors.keys()];
  const found = choose(seen, names, listed, minors);
  if (typeof found !== "string") return found;
  const parent = listed.find(({ migDevices }) => migDevices.includes(found))?.uuid ?? found;
  return { gpu: { device: found, index: minors.get(parent) } };
}

function choose(
  seen: readonly string[],
  names: readonly string[],
  listed: readonly ListedGpu[],
  minors: ReadonlyMap<string, number>,
): string | { readonly problem: string } {
  const uuids = names.filter(isUuid);
  if (uuids.length > 1) return { problem: `the device plugin gave ${uuids.length} GPUs (${uuids.join(", ")}), not 1` };
  const [named] = uuids;
  if (named !== undefined) {
    // Without a driver, the UUID of the device plugin is used.
    if (seen.length === 0 || seen.includes(named)) return named;
    return { problem: `the device plugin gave ${named}, and the driver lists ${seen.join(", ")}` };
  }
  const [only] = seen;
  if (only !== undefined && seen.length === 1) return only;
  if (only === undefined) return { problem: "no GPU is visible in this container" };
  const indices = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const [index] = indices;
  if (index !== undefined && indices.length === 1) {
    const hasPosition = listed.find(({ position, migDevices }) => position === index && migDevices.length === 0);
    const byMinor = [...minors].find(([uuid, minor]) => minor === index && seen.includes(uuid))?.[0];
    const byIndex = hasPosition?.uuid ?? byMinor;
    if (byIndex !== undefined) return byIndex;
  }
  return { problem: `${seen.length} GPUs are visible in this container, and none is identified as its reserved GPU` };
}

/** A GPU in MIG mode is allocated only as MIG devices. */
function candidatesOf(listed: readonly ListedGpu[]): string[] {
  return listed.flatMap(({ uuid, migDevices }) => (migDevices.length > 0 ? migDevices : [uuid]));
}

function namesOf({ visibleDevices = "", mounted }: GpuEvidence): string[] {
  const text = visibleDevices.trim();
  if (text === mountsAreListed) return [...mounted];
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function isUuid(name: string): boolean {
  return /^(GPU|MIG)-/.test(name);
}

/** Lines such as `GPU 0: NVIDIA H200 (UUID: GPU-…)`, each followed by those of its MIG devices. */
function listedGpus(text: string): ListedGpu[] {
  const gpus: { uuid: string; position: number; migDevices: string[] }[] = [];
  for (const line of text.split("\n")) {
    const [, position = "", uuid = ""] = /^GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)/.exec(line) ?? [];
    if (uuid !== "") gpus.push({ uuid, position: Number(position), migDevices: [] });
    const [, mig] = /^\s+MIG .*\(UUID: (MIG-[^)]+)\)/.exec(line) ?? [];
    if (mig !== undefined) gpus.at(-1)?.migDevices.push(mig);
  }
  return gpus;
}

/** UUID to minor number. A GPU that the driver excludes cannot be used. */
function minorsOf(information: readonly string[]): Map<string, number> {
  const minors = new Map<string, number>();
  for (const text of information) {
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}:\\s*(\\S.*)$`, "m").exec(text)?.[1]?.trim();
    const uuid = field("GPU UUID");
    const minor = field("Device Minor");
    if (uuid === undefined || !isUuid(uuid) || field("GPU Excluded") === "Yes") continue;
    if (minor !== undefined && /^\d+$/.test(minor)) minors.set(uuid, Number(minor));
  }
  return minors;
}
