/**
 * Derives the profile of a node that was created by other tools, or from a profile that this process does not know,
 * from its labels and status, so that the node is not changed.
 */
import type { Node } from "../kubernetes.generated.ts";
import { migPartitionError, migProfileOf } from "./mig.ts";
import type { GpuSpec, MigSpec, Profile } from "./profile.ts";

type Texts = Readonly<Record<string, string>>;

const gpuResource = "nvidia.com/gpu";
const migMark = "-MIG-";
const sharedMark = "-SHARED";

export function profileOfObject({ metadata, status }: Node): Profile {
  const { labels = {} } = metadata;
  const capacity = status?.capacity ?? {};
  const gpu = gpuOf(capacity, labels);
  return {
    name: "",
    arch: labels["kubernetes.io/arch"] === "arm64" ? "arm64" : "amd64",
    osImage: status?.nodeInfo?.osImage ?? "",
    cpu: capacity["cpu"] ?? "0",
    memory: capacity["memory"] ?? "0",
    storage: capacity["ephemeral-storage"] ?? "0",
    maxPods: Number(capacity["pods"] ?? 110),
    ...(gpu && { gpu }),
  };
}

function gpuOf(capacity: Texts, labels: Texts): GpuSpec | undefined {
  const offered = whole(capacity[gpuResource]);
  const counted = whole(labels["nvidia.com/gpu.count"]);
  const product = labels["nvidia.com/gpu.product"] ?? "NVIDIA-GPU";
  const driver = [
    labels["nvidia.com/cuda.driver.major"] ?? "570",
    labels["nvidia.com/cuda.driver.minor"] ?? "86",
    labels["nvidia.com/cuda.driver.rev"] ?? "16",
  ].join(".");
  const rest = {
    product,
    memoryMiB: whole(labels["nvidia.com/gpu.memory"]) || 81_920,
    driver,
    clique: "nvidia.com/gpu.clique" in labels,
  };
  const mig = migOf({ offered, counted, product, memoryMiB: rest.memoryMiB }, capacity, labels);
  if (mig !== undefined) {
    const [name = product] = product.split(migMark);
    return { ...rest, product: name, count: counted, migCapable: true, mig };
  }
  if (offered <= 0) return undefined;
  const replicas = whole(labels["nvidia.com/gpu.replicas"]);
  if (replicas > 1 && offered === counted * replicas) {
    const name = product.endsWith(sharedMark) ? product.slice(0, -sharedMark.length) : product;
    return { ...rest, product: name, count: counted, replicas };
  }
  return { ...rest, count: offered };
}

/** The MIG partitions of its GPUs, if all GPUs have the same; other amounts are treated as plain extended resources. */
function migOf(
  { offered, counted, product, memoryMiB }: { offered: number; counted: number; product: string; memoryMiB: number },
  capacity: Texts,
  labels: Texts,
): MigSpec | undefined {
  if (counted <= 0) return undefined;
  const strategy = labels["nvidia.com/mig.strategy"];
  const [, single] = product.split(migMark);
  const totals = Object.entries(capacity).flatMap(([name, text]): [string, number][] => {
    const partition = migProfileOf(name);
    return partition === undefined ? [] : [[partition, whole(text)]];
  });
  if (strategy === "single" && single !== undefined) totals.push([single, offered]);
  else if (strategy !== "mixed") return undefined;
  const isEven = totals.length > 0 && totals.every(([, total]) => total > 0 && total % counted === 0);
  if (!isEven) return undefined;
  const partitions = Object.fromEntries(totals.map(([name, total]) => [name, total / counted]));
  const mig: MigSpec = { strategy, partitions };
  return migPartitionError(mig, memoryMiB) === undefined ? mig : undefined;
}

function whole(text: string | undefined): number {
  return text !== undefined && /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
}
