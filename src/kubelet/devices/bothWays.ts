/**
 * The GPUs of a node that are allocated by claims are not allocated by the device plugin, and the reverse: the node
 * enforces it.
 */
import { NodeGpus, reportedGpus } from "../../decide/devices/physicalGpus.ts";
import { deviceKey } from "../../decide/devices/search/poolDevice.ts";
import type { Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { holdsDevices } from "./devices.ts";

export interface NodeView {
  readonly node: Node;
  readonly slices: readonly ResourceSlice[];
  readonly driver: string;
}

/**
 * Ids of GPUs and partitions that the device plugin must not allocate: a claim has them, in the API or prepared on this
 * node. `prepared` are names of devices.
 */
export function gpusOfClaims(
  { node, slices, driver }: NodeView,
  claims: Iterable<ResourceClaim>,
  prepared: Iterable<string>,
): ReadonlyMap<string, string> {
  const held = new Map<string, string>();
  const gpus = new NodeGpus(node, slices);
  const pool = node.metadata.name;
  for (const { metadata, status } of claims) {
    for (const result of status?.allocation?.devices?.results ?? []) {
      if (result.adminAccess === true || result.pool !== pool) continue;
      const id = gpus.idOf(deviceKey(result));
      if (id !== undefined) held.set(id, metadata.uid);
    }
  }
  for (const device of prepared) {
    const id = gpus.idOf(deviceKey({ driver, pool, device }));
    if (id !== undefined && !held.has(id)) held.set(id, "a deleted claim");
  }
  return held;
}

/** Names of devices that must not be prepared for a claim, and the pod that has the GPU from the device plugin. */
export function devicesOfPlugin({ node, slices, driver }: NodeView, pods: Iterable<Pod>): ReadonlyMap<string, string> {
  const gpus = new NodeGpus(node, slices);
  const held = new Map<string, string>();
  for (const pod of pods) {
    const ids = reportedGpus(pod);
    if (ids.size === 0 || !holdsDevices(pod)) continue;
    for (const { spec } of slices) {
      if (spec.driver !== driver) continue;
      for (const { name } of spec.devices ?? []) {
        const key = deviceKey({ driver, pool: spec.pool.name, device: name });
        if (gpus.isAmong(key, ids)) held.set(name, `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`);
      }
    }
  }
  return held;
}
