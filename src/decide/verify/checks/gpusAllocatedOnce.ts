/** A physical GPU is allocated in one way: by the device plugin to a pod, by a reservation to shares, or by claims. */
import type { DeviceTaintRule, Pod } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { nanoOf, podRequests } from "../../../model/objects/podRequests.ts";
import { type KindTable, tableOf } from "../../../snapshot/kindTable.ts";
import { DeviceModel } from "../../devices/deviceModel.ts";
import { isPluginGpu, NodeGpus, reportedGpus } from "../../devices/physicalGpus.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { placementOf, podName } from "../placement.ts";
import type { KindName } from "../readKinds.ts";

export const gpusAllocatedOnce: Check = {
  id: "S16",
  title: "a GPU is allocated in one way at a time: by the device plugin, by a claim, or in shares",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "resourceclaims", "resourceslices"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "resourceclaims") || !isServed(snapshot, "resourceslices")) {
      return notApplicable("resource.k8s.io is not served");
    }
    const { evidence, gpus, claimed } = gpusAllocatedTwoWays(snapshot);
    return passOrFail(evidence, `${gpus} GPUs, ${claimed} devices in claims`);
  },
};

/** GPUs that the device plugin and a claim have allocated, by UUID and by count. */
export function gpusAllocatedTwoWays(snapshot: ClusterSnapshot): {
  readonly evidence: readonly Evidence[];
  readonly gpus: number;
  readonly claimed: number;
} {
  const evidence: Evidence[] = [];
  const devices = devicesOf(snapshot);
  const claimed = devices.claimedDevices();
  let gpus = 0;
  for (const name of devices.nodes()) {
    const node = placementOf(snapshot).nodes.get(name);
    const known = new NodeGpus(node, devices.slicesOn(name));
    const held = [...known.keys()].filter((key) => claimed.has(key));
    const pods = placementOf(snapshot).liveByNode.get(name) ?? [];
    gpus += new Set([...known.keys()].map((key) => known.gpuOf(key))).size;
    for (const key of held) {
      for (const pod of pods) {
        if (!known.isAmong(key, reportedGpus(pod))) continue;
        const problem = `has GPU ${known.idOf(key)} of node ${name} from the device plugin, and claim ${claimed.get(key)} has the same GPU as ${key}`;
        evidence.push({ object: podName(pod), problem });
      }
    }
    for (const [resource, units] of known.unitsOf(held)) {
      const has = nanoOf(node?.status?.allocatable?.[resource] ?? "0") / 1_000_000_000n;
      const requested = pods.reduce((sum, pod) => sum + pluginAmount(pod, resource), 0n) / 1_000_000_000n;
      if (requested + BigInt(units) <= has) continue;
      const problem = `${requested} ${resource} are allocated to pods and ${units} to claims, but only ${has} are allocatable`;
      evidence.push({ object: `nodes/${name}`, problem });
    }
  }
  return { evidence, gpus, claimed: claimed.size };
}

/** What a pod has from the device plugin; an extended resource that a claim provides does not count. */
function pluginAmount(pod: Pod, resource: string): bigint {
  const { requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
  if (!isPluginGpu(resource) || requestMappings.some(({ resourceName }) => resourceName === resource)) return 0n;
  return podRequests(pod).get(resource) ?? 0n;
}

/** The device model of the snapshot. */
function devicesOf(snapshot: ClusterSnapshot): DeviceModel {
  const table = <T extends KubeObject>(kind: KindName): KindTable<T> =>
    tableOf(objectsOf<T>(snapshot, kind), snapshot.revision);
  return new DeviceModel({
    pods: table("pods"),
    claims: table("resourceclaims"),
    slices: table("resourceslices"),
    classes: table("deviceclasses"),
    rules: tableOf<DeviceTaintRule>([], snapshot.revision),
  });
}
