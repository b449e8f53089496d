/**
 * Enforcement of GPU shares. Containers on the same GPU time-slice it, and each can use all of its memory. Where a node
 * runs NVIDIA's Multi-Process Service, two variables limit a client: its memory on each device, and its percentage of
 * the multiprocessors. Such a node has a label; without it shares are not enforced.
 */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { isShared, portionText, readGpuRequest, shareMemoryMiB } from "../../model/scheduling/gpuRequest.ts";
import { labelKeys } from "../../model/scheduling/keys.ts";

/** On a node: containers on it reach the control daemon of MPS. */
export const mpsLabel = "muster.dev/mps";
/** On a node: where the daemon's pipes are inside containers, where that is not the driver's default. */
export const mpsPipesAnnotation = "muster.dev/mps-pipe-directory";
/** On a pod with a GPU share: what enforces it. */
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
  // Where the memory of a node's GPUs is unknown, only the multiprocessors are limited. Device indexes are those of the
  // container.
  if (memoryMiB > 0) {
    limits[mpsVariables.memory] = Array.from({ length: deviceCount }, (_, at) => `${at}=${memoryMiB}M`).join(",");
  }
  const pipes = annotations[mpsPipesAnnotation];
  if (pipes !== undefined) limits[mpsVariables.pipes] = pipes;
  return limits;
}

/** The enforcement of the share of a bound pod, for people. */
export function enforcedText({ metadata }: Pod): string {
  return metadata.annotations?.[enforcedAnnotation] === "mps"
    ? "its share is enforced by MPS"
    : "its share is not enforced: it can use the whole GPU";
}
