/**
 * Whether anything keeps a pod within its share. Containers that see the same GPU take turns on it, and each can take
 * all of its memory. Where a node runs NVIDIA's Multi-Process Service, two variables bound what a client gets: its
 * memory on each device, and its part of the multiprocessors. A node says so by a label; without it nothing bounds a
 * share.
 */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { isShared, portionText, readGpuRequest, shareMemoryMiB } from "../../model/scheduling/gpuRequest.ts";
import { labelKeys } from "../../model/scheduling/keys.ts";

/** On a node: containers on it reach the control daemon of MPS. */
export const mpsLabel = "muster.dev/mps";
/** On a node: where the daemon's pipes are inside containers, where that is not the driver's default. */
export const mpsPipesAnnotation = "muster.dev/mps-pipe-directory";
/** On a pod with a share: what keeps it within it. */
export const enforcedAnnotation = "muster.dev/share-enforced-by";

export const mpsVariables = {
  memory: "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
  threads: "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
  pipes: "CUDA_MPS_PIPE_DIRECTORY",
} as const;

/** The variables of a container with a share of devices of this node; undefined where nothing enforces it. */
export function mpsLimits(pod: Pod, node: Node, deviceCount: number): Readonly<Record<string, string>> | undefined {
  const { labels = {}, annotations = {} } = node.metadata;
  if (labels[mpsLabel] !== "true") return undefined;
  const nodeMemory = labels[labelKeys.gpuMemory] ?? "";
  const deviceMiB = /^\d+$/.test(nodeMemory) ? Number(nodeMemory) : 0;
  const read = readGpuRequest(pod, 0);
  if (!("gpu" in read) || !isShared(read.gpu)) return undefined;
  const { gpu } = read;
  const memoryMiB = shareMemoryMiB(gpu, deviceMiB);
  const portion = Number(portionText(gpu, deviceMiB));
  const limits: Record<string, string> = {
    [mpsVariables.threads]: String(Math.max(1, Math.min(100, Math.round(portion * 100)))),
  };
  // A node that does not say how much memory its GPUs have bounds the multiprocessors alone. Devices are counted as the
  // container sees them.
  if (memoryMiB > 0) {
    limits[mpsVariables.memory] = Array.from({ length: deviceCount }, (_, at) => `${at}=${memoryMiB}M`).join(",");
  }
  const pipes = annotations[mpsPipesAnnotation];
  if (pipes !== undefined) limits[mpsVariables.pipes] = pipes;
  return limits;
}

/** What a person reads about the share of a pod that has its node. */
export function enforcedText({ metadata }: Pod): string {
  return metadata.annotations?.[enforcedAnnotation] === "mps"
    ? "its share is enforced by MPS"
    : "its share is not enforced: nothing but its own care keeps it from using the whole GPU";
}
