import { shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { gpuAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import type { Session } from "../session.ts";
import { numberText, placeText } from "./amountWords.ts";

interface Largest {
  readonly factsStamp: string;
  /** By resource. */
  readonly ofAll: Map<number, number>;
  readonly ofHealthy: Map<number, number>;
}

const known = new WeakMap<Cluster, Largest>();

/** The largest capacity of a resource on one node, computed again once facts of nodes have changed. */
export function mostOnOneNode({ cluster }: Session, place: number, { isHealthy }: { isHealthy: boolean }): number {
  const { factsStamp } = cluster.fit;
  let largest = known.get(cluster);
  if (largest?.factsStamp !== factsStamp) {
    largest = { factsStamp, ofAll: new Map(), ofHealthy: new Map() };
    known.set(cluster, largest);
  }
  const byPlace = isHealthy ? largest.ofHealthy : largest.ofAll;
  let most = byPlace.get(place);
  if (most !== undefined) return most;
  most = 0;
  for (const node of cluster.table.nodes) {
    if (!isHealthy || node.isHealthy) most = Math.max(most, node.capacity[place] ?? 0);
  }
  byPlace.set(place, most);
  return most;
}

/** Whether a pod requests more than the capacity of any node; the text is the predicate of a sentence about the pod. */
export function largerThanAnyNode(session: Session, { shape }: Task): { text: string; cure: string } | undefined {
  const { cluster } = session;
  for (const [k, place] of shape.places.entries()) {
    const wants = shape.amounts[k] ?? 0;
    const most = mostOnOneNode(session, place, { isHealthy: false });
    if (wants <= most) continue;
    const what = placeText(cluster.names.names[place] ?? "", place);
    return {
      text: `requests ${numberText(wants, place)} ${what}, and ${most === 0 ? "no node has any" : `the largest node has ${numberText(most, place)}`}`,
      cure:
        most === 0
          ? `add a node with ${numberText(wants, place)} ${what}`
          : `request at most ${numberText(most, place)} ${what}, or add a node with ${numberText(wants, place)}`,
    };
  }
  const { gpu } = shape;
  if (gpu.type !== "memory" && gpu.type !== "fraction") return undefined;
  const devices = mostOnOneNode(session, gpuAt, { isHealthy: false });
  if (gpu.devices > devices) {
    return {
      text: `requests shares of ${gpu.devices} GPUs of one node, and ${devices === 0 ? "no node has any" : `the largest node has ${devices}`}`,
      cure:
        devices === 0
          ? "add a node with GPUs"
          : `request shares of at most ${devices} GPUs, or add a node with ${gpu.devices}`,
    };
  }
  if (gpu.type === "fraction") return undefined;
  const { mostMiB } = cluster.gpuMemoryRange();
  if (shareMemoryMiB(gpu, mostMiB) <= mostMiB) return undefined;
  return {
    text: `requests ${gpu.memoryMiB} MiB of GPU memory, and the largest GPU has ${mostMiB}`,
    cure: `request at most ${mostMiB} MiB`,
  };
}
