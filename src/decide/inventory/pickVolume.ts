/**
 * Which of several volumes of one disk is the disk. The cloud lists them in any order, so "the first" must not depend
 * on it: held before free, marked active before not, newest, then the smallest id.
 */
import type { CloudVolume } from "../../model/inventory/cloud.ts";
import { holdOf } from "./readVolume.ts";

/** The winner, or undefined when two are in use: then both are written to, and a person must choose. */
export function pickVolume(volumes: readonly CloudVolume[]): CloudVolume | undefined {
  if (volumes.filter((volume) => holdOf(volume) === "held").length > 1) return undefined;
  return [...volumes].sort(byClaim)[0];
}

function byClaim(a: CloudVolume, b: CloudVolume): number {
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
