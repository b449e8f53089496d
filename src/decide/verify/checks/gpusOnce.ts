/**
 * A physical GPU is with one holder: a pod that got it from the device plugin, a reservation that keeps it for shares,
 * or claims.
 */
import type { DeviceTaintRule, Pod } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { nanoOf, podRequests } from "../../../model/objects/podRequests.ts";
import { type KindTable, tableOf } from "../../../snapshot/kindTable.ts";
import { DeviceModel } from "../../devices/deviceModel.ts";
import { isPluginGpu, NodeGpus, reportedGpus } from "../../devices/physicalGpus.ts";
import { type Check, type Evidence, judged, notApplicable } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { placementOf, podName } from "../placement.ts";
import type { KindName } from "../readKinds.ts";

export const gpusOnce: Check = {
  id: "S16",
  title: "a GPU is given out one way at a time: by the device plugin, by a claim, or in shares",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "resourceclaims", "resourceslices"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "resourceclaims") || !isServed(snapshot, "resourceslices")) {
      return notApplicable("resource.k8s.io is not served");
    }
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
          const problem = `has GPU ${known.idOf(key)} of node ${name} from the device plugin, and claim ${claimed.get(key)} has it as ${key}`;
          evidence.push({ object: podName(pod), problem });
        }
      }
      for (const [resource, units] of known.unitsOf(held)) {
        const has = nanoOf(node?.status?.allocatable?.[resource] ?? "0") / 1_000_000_000n;
        const asked = pods.reduce((sum, pod) => sum + pluginAmount(pod, resource), 0n) / 1_000_000_000n;
        if (asked + BigInt(units) <= has) continue;
        const problem = `${asked} of ${resource} are with pods and ${units} in claims, and there are ${has}`;
        evidence.push({ object: `nodes/${name}`, problem });
      }
    }
    return judged(evidence, `${gpus} GPUs, ${claimed.size} devices in claims`);
  },
};

/** What a pod has from the device plugin; what a claim serves is not the plugin's. */
function pluginAmount(pod: Pod, resource: string): bigint {
  const { requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
  if (!isPluginGpu(resource) || requestMappings.some(({ resourceName }) => resourceName === resource)) return 0n;
  return podRequests(pod).get(resource) ?? 0n;
}

/** The devices as every allocator sees them. */
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
