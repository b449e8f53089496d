import type { Node } from "../../../model/kubernetes.generated.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Evidence } from "../../verify/check.ts";
import { gpuCountsDiffer } from "../../verify/checks/inventoryAgrees.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";
import { isGpuResource, unitsOf } from "../gpus.ts";

export const nodeChecks: readonly AuditCheck[] = [
  {
    name: "node-gpus-disagree",
    meaning: "the labels, the allocatable GPUs and the ResourceSlices of a node describe different numbers of GPUs",
    cause: "the device plugin, GPU feature discovery or the DRA driver was not restarted after the GPUs changed",
    cure: "restart the device plugin, GPU feature discovery and the DRA driver on the node",
    settleMs: settle.agent,
    needs: ["nodes", "resourceslices"],
    find: (snapshot) => {
      const divided = new Set(
        objectsOf<Node>(snapshot, "nodes").flatMap((node) => (isDivided(node) ? [`nodes/${node.metadata.name}`] : [])),
      );
      return gpuCountsDiffer(snapshot).filter(({ object }) => !divided.has(object));
    },
  },
  {
    name: "node-gpus-fell",
    meaning: "a node has fewer GPUs than it had: some are unhealthy, or it has fewer than its instance type",
    cause: "a GPU fell off the bus or reported errors (Xid), or the device plugin does not run",
    cure: "drain the node, read the log of the driver and of the device plugin, then restart or replace the node",
    settleMs: settle.agent,
    needs: ["nodes"],
    find: (snapshot) => {
      const most = mostOfType(snapshot);
      return objectsOf<Node>(snapshot, "nodes").flatMap((node) => fallen(node, most, snapshot.takenAtMs));
    },
  },
];

function fallen(node: Node, most: ReadonlyMap<string, number>, nowMs: number): Evidence[] {
  // A node that is not Ready, or that has just joined, reports old amounts or none.
  if (!isReady(node) || nowMs - (timeToMs(node.metadata.creationTimestamp) ?? nowMs) < stuck.unscheduledMs) return [];
  const object = `nodes/${node.metadata.name}`;
  const evidence: Evidence[] = [];
  for (const resource of Object.keys(node.status?.capacity ?? {}).filter(isGpuResource)) {
    const [has, offers] = [unitsOf(node, "capacity", resource), unitsOf(node, "allocatable", resource)];
    if (offers < has) evidence.push({ object, problem: `${offers} of its ${has} ${resource} are allocatable` });
  }
  const type = fixedType(node);
  const expected = type === undefined ? undefined : most.get(type);
  if (type !== undefined && expected !== undefined) {
    const has = unitsOf(node, "capacity", "nvidia.com/gpu");
    if (has < expected) {
      const name = node.metadata.labels?.[typeLabel];
      evidence.push({
        object,
        problem: `it has ${has} nvidia.com/gpu, and other nodes of type ${name} have ${expected}`,
      });
    }
  }
  return evidence;
}

function isReady({ metadata, status }: Node): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return status?.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True") === true;
}

function mostOfType(snapshot: ClusterSnapshot): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  for (const node of objectsOf<Node>(snapshot, "nodes")) {
    const type = fixedType(node);
    if (type === undefined) continue;
    most.set(type, Math.max(most.get(type) ?? 0, unitsOf(node, "capacity", "nvidia.com/gpu")));
  }
  return most;
}

const typeLabel = "node.kubernetes.io/instance-type";

/**
 * The instance type of a node whose number of GPUs is fixed by it. Machines of one's own may share a type (k3s has one
 * for all), GPUs can be attached to some types, and partitions and replicas are counted otherwise.
 */
function fixedType(node: Node): string | undefined {
  const { metadata, spec, status } = node;
  const labels = metadata.labels ?? {};
  const type = labels[typeLabel] ?? "";
  const cloud = spec?.providerID?.split(":")[0] ?? "";
  const isFixed = ["aws", "azure", "oci"].includes(cloud) || (cloud === "gce" && /^(?:a\d|g\d)-/.test(type));
  if (type === "" || !isFixed || status?.capacity?.["nvidia.com/gpu"] === undefined) return undefined;
  // Without the labels of GPU feature discovery it is not known whether the device plugin counts replicas.
  if (labels["nvidia.com/gpu.count"] === undefined || labels["nvidia.com/gpu.workload.config"] !== undefined)
    return undefined;
  if (isPartitioned(node) || isDivided(node)) return undefined;
  return `${cloud}/${type}`;
}

/** MIG: the label of the strategy is on nodes without partitions too. */
function isPartitioned({ metadata, status }: Node): boolean {
  if (/-MIG-/.test(metadata.labels?.["nvidia.com/gpu.product"] ?? "")) return true;
  if ((metadata.labels?.["nvidia.com/mig.config"] ?? "all-disabled") !== "all-disabled") return true;
  return Object.entries(status?.capacity ?? {}).some(([name, text]) => /^nvidia\.com\/mig-/.test(name) && text !== "0");
}

/** The node's `nvidia.com/gpu` are replicas: time slices, MPS clients, or parts that HAMi or GKE make. */
function isDivided({ metadata }: Node): boolean {
  const labels = metadata.labels ?? {};
  const strategy = labels["nvidia.com/gpu.sharing-strategy"] ?? "none";
  if (strategy !== "none" || Number(labels["nvidia.com/gpu.replicas"] ?? "1") > 1) return true;
  if (labels["cloud.google.com/gke-gpu-sharing-strategy"] !== undefined) return true;
  if (labels["cloud.google.com/gke-gpu-partition-size"] !== undefined) return true;
  return Object.keys(metadata.annotations ?? {}).some((key) => key.startsWith("hami.io/"));
}
