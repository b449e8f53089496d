import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { GpuEvidence } from "../../decide/bind/ownGpu.ts";

/** The paths that evidence is read from; tests use other ones. */
export interface GpuPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly driver: string;
  readonly mounts: string;
  /** Paths of nvidia-smi, tried in order: container runtimes put it on the PATH, some drivers in their own folder. */
  readonly listers: readonly string[];
}

export const usualPlaces: GpuPlaces = {
  env: process.env,
  driver: "/proc/driver/nvidia/gpus",
  mounts: "/var/run/nvidia-container-devices",
  listers: ["nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"],
};

/** Library folders of drivers that are installed beside their programs. */
const driverLibraries = "/usr/local/nvidia/lib64:/usr/local/nvidia/lib";
/** A driver that hangs must not block the agent. */
const listMs = 20_000;

export async function readGpuEvidence(places: GpuPlaces = usualPlaces): Promise<GpuEvidence> {
  const [mounted, listing, information] = await Promise.all([
    namesIn(places.mounts),
    listingOf(places),
    informationOf(places.driver),
  ]);
  return { visibleDevices: places.env["NVIDIA_VISIBLE_DEVICES"], mounted, listing, information };
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).sort();
}

async function informationOf(folder: string): Promise<string[]> {
  const buses = await namesIn(folder);
  const texts = await Promise.all(
    buses.map((bus) => readFile(join(folder, bus, "information"), "utf8").catch(() => "")),
  );
  return texts.filter((text) => text !== "");
}

async function listingOf({ listers, env }: GpuPlaces): Promise<string | undefined> {
  for (const lister of listers) {
    const listing = await listed(lister, env);
    if (listing !== undefined) return listing;
  }
  return undefined;
}

function listed(lister: string, env: GpuPlaces["env"]): Promise<string | undefined> {
  const libraries = [env["LD_LIBRARY_PATH"], driverLibraries]
    .filter((path) => path !== undefined && path !== "")
    .join(":");
  const options = { timeout: listMs, env: { ...env, LD_LIBRARY_PATH: libraries } };
  return new Promise((resolve) => {
    execFile(lister, ["-L"], options, (error, stdout) => resolve(error === null ? stdout : undefined));
  });
}
