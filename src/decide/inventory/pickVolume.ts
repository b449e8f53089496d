/**
 * Chooses one of several volumes of a disk. The cloud lists volumes in any order, so the choice does not depend on it:
 * attached before free, tagged active before not, newest, then the smallest id.
 */
import type { CloudVolume } from "../../model/inventory/cloud.ts";
import { holdOf } from "./readVolume.ts";

/** The chosen volume; undefined when two are attached: both may be written to, so an operator must choose. */
export function pickVolume(volumes: readonly CloudVolume[]): CloudVolume | undefined {
  if (volumes.filter((volume) => holdOf(volume) === "held").length > 1) return undefined;
  return [...volumes].sort(byPreference)[0];
}

function byPreference(a: CloudVolume, b: CloudVolume): number {
  return (
    rank(holdOf(b) === "held", holdOf(a) === "held") ||
    rank(b.tags["ActiveVolume"] === "true", a.tags["ActiveVolume"] === "true") ||
    b.createdMs - a.createdMs ||
    (a.id < b.id ? -1 : 1)
  );
}

function rank(b: boolean, a: boolean): number {
  return Number(b) - Number(a);
}
