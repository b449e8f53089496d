/**
 * Estimates when a number of GPUs will be free, from the ends of the reservations that hold them. A reservation without
 * a known end counts as endless, so its node is never estimated to be free as a whole.
 */

import type { SizeEtas } from "../../model/inventory/rows.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { NodeUse } from "./nodeUse.ts";
import { isWarm } from "./podUse.ts";

const sizes = [1, 2, 4, 8];
const wholeNodesMax = 6;

export interface EtaInput {
  /** GPUs of one node. */
  readonly perNode: number;
  /** Nodes that one reservation may span. */
  readonly multiNodeMax: number;
  readonly nodes: readonly NodeUse[];
  /** When the reservation of a pod ends, in milliseconds; undefined when unknown. */
  readonly endsMs: (pod: Pod) => number | undefined;
  readonly nowMs: number;
}

export function sizeEtas(input: EtaInput): SizeEtas {
  const { perNode, multiNodeMax, nodes, endsMs, nowMs } = input;
  const etas: Record<string, string> = {};
  for (const size of sizes) {
    if (size > perNode) continue;
    etas[String(size)] = formatEta(earliest(nodes.map((node) => freeAtMs(node, size, endsMs, nowMs))), nowMs);
  }
  const whole = nodes
    .filter(({ allocatable }) => allocatable === perNode)
    .map((node) => freeAtMs(node, perNode, endsMs, nowMs))
    .filter((atMs) => atMs !== undefined)
    .sort((a, b) => a - b);
  for (let count = 2; count <= Math.min(wholeNodesMax, multiNodeMax); count++) {
    etas[String(count * perNode)] = formatEta(whole[count - 1], nowMs);
  }
  return etas;
}

/** The first time at which `size` GPUs are free on the node, if reservations end as recorded. */
function freeAtMs(node: NodeUse, size: number, endsMs: EtaInput["endsMs"], nowMs: number): number | undefined {
  if (node.free >= size) return nowMs;
  const ends = node.holders
    .filter(({ pod }) => !isWarm(pod))
    .map(({ pod, units }) => ({ units, atMs: endsMs(pod) }))
    .filter((end): end is { units: number; atMs: number } => end.atMs !== undefined)
    .sort((a, b) => a.atMs - b.atMs);
  let used = node.used;
  for (const { units, atMs } of ends) {
    used -= units;
    if (node.allocatable - used >= size) return Math.max(nowMs, atMs);
  }
  return undefined;
}

function earliest(moments: readonly (number | undefined)[]): number | undefined {
  const known = moments.filter((atMs) => atMs !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

function formatEta(atMs: number | undefined, nowMs: number): string {
  if (atMs === undefined) return "unknown";
  return atMs <= nowMs ? "now" : formatTime(atMs);
}
