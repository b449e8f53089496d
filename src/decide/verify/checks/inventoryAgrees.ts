import type { Node } from "../../../model/kubernetes.generated.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { newestDevices } from "./claimsAllocated.ts";

const gpu = "nvidia.com/gpu";
/** The resource of time slices when the device plugin is configured with `renameByDefault`. */
const sharedGpu = "nvidia.com/gpu.shared";
const gpuDriver = "gpu.nvidia.com";

export const inventoryAgrees: Check = {
  id: "S10",
  title: "a node's labels, its allocatable GPUs and its resource slices describe the same GPUs",
  byDefault: true,
  settles: true,
  needs: ["nodes", "resourceslices"],
  run: ({ snapshot }) => {
    const nodes = gpuNodes(snapshot);
    if (nodes.length === 0) return notApplicable("no node has GPUs");
    return passOrFail(gpuCountsDiffer(snapshot), `${nodes.length} nodes with GPUs`);
  },
};

function gpuNodes(snapshot: ClusterSnapshot): readonly Node[] {
  return objectsOf<Node>(snapshot, "nodes").filter(
    ({ metadata, status }) =>
      metadata.labels?.["nvidia.com/gpu.count"] !== undefined || status?.capacity?.[gpu] !== undefined,
  );
}

/** Nodes whose labels, allocatable GPUs and resource slices describe different GPUs. */
export function gpuCountsDiffer(snapshot: ClusterSnapshot): Evidence[] {
  const published = publishedByNode(snapshot);
  return gpuNodes(snapshot).flatMap((node) =>
    problemsOf(node, published.get(node.metadata.name)).map((problem) => ({
      object: `nodes/${node.metadata.name}`,
      problem,
    })),
  );
}

/** The number of GPUs that the driver publishes for each node; partitions do not count. */
function publishedByNode(snapshot: ClusterSnapshot): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  if (!isServed(snapshot, "resourceslices")) return counts;
  for (const { device, slice } of newestDevices(snapshot).values()) {
    const node = device.nodeName ?? slice.spec.nodeName ?? "";
    if (slice.spec.driver !== gpuDriver || node === "") continue;
    const type = device.attributes?.["type"]?.string ?? device.attributes?.[`${gpuDriver}/type`]?.string ?? "gpu";
    if (type === "gpu") counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  return counts;
}

function problemsOf({ metadata, status }: Node, published: number | undefined): string[] {
  const labels = metadata.labels ?? {};
  const problems: string[] = [];
  const labelled = labels["nvidia.com/gpu.count"];
  const count = labelled !== undefined && /^[0-9]+$/.test(labelled) ? Number(labelled) : undefined;
  if (labelled !== undefined && count === undefined)
    problems.push(`its label nvidia.com/gpu.count is ${labelled}, which is not a number`);
  const capacity = unitsOf(status?.capacity);
  const allocatable = unitsOf(status?.allocatable);
  const isPartitioned = (labels["nvidia.com/mig.strategy"] ?? "none") !== "none";
  const replicas = Number(labels["nvidia.com/gpu.replicas"] ?? "1");
  if (allocatable !== undefined && capacity !== undefined && allocatable > capacity) {
    problems.push(`${allocatable} GPUs are allocatable, but its capacity is ${capacity}`);
  }
  // A node with MIG partitions lists those instead, and a node whose GPUs are only allocated by claims lists none.
  if (!isPartitioned && count !== undefined && allocatable !== undefined) {
    const expected = count * (Number.isInteger(replicas) && replicas > 0 ? replicas : 1);
    const isClaimedOnly = allocatable === 0 && published === count;
    if (allocatable !== expected && !isClaimedOnly)
      problems.push(`${allocatable} GPUs are allocatable, but its labels declare ${expected}`);
  }
  if (!isPartitioned && count !== undefined && published !== undefined && published !== count) {
    problems.push(`${published} GPUs are in its resource slices, but its labels declare ${count}`);
  }
  if (count === undefined && capacity !== undefined && published !== undefined && published !== capacity) {
    problems.push(`${published} GPUs are in its resource slices, but its capacity is ${capacity}`);
  }
  return problems;
}

/** GPUs and, where the device plugin renames the resource, their time slices; undefined where there is neither. */
function unitsOf(amounts: Readonly<Record<string, string>> | undefined): number | undefined {
  const texts = [amounts?.[gpu], amounts?.[sharedGpu]].filter((text) => text !== undefined);
  if (texts.length === 0) return undefined;
  return texts.reduce((sum, text) => sum + Number(nanoOf(text) / 1_000_000_000n), 0);
}
