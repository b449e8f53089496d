/** The effects of pods and of the BindRequests that will bind them. */
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { type BindRequest, chosenVolumesOf, isFinallyFailed, podUidOf } from "../../../model/scheduling/bindRequest.ts";
import { annotationKeys, gpuGroupsOfLabels, kaiSchedulerName, nodeHeldBy } from "../../../model/scheduling/keys.ts";
import type { Effect } from "../../../snapshot/ledger.ts";
import type { ExtendedAllocation } from "../../bind/claimStatus.ts";
import { extendedEntry } from "../../devices/claims/extendedClaim.ts";
import type { Place } from "../cluster/task.ts";
import type { ChosenDevices } from "./pendingClaims.ts";

/** The node, GPU groups and devices of a pod, or that its eviction is in flight. */
export type PodEffect = (Place & { readonly claims?: readonly ChosenDevices[] }) | { readonly isEvicted: true };

/** The key of an eviction, apart from the key of the node of the same pod. */
export function evictionKey(uid: string): string {
  return `${uid}!`;
}

/** The UID of the pod that a key of this file belongs to. */
export function uidOfKey(key: string): string {
  return key.endsWith("!") ? key.slice(0, -1) : key;
}

/** A pod that has a node and has not ended holds it, with the GPUs that its labels name. */
export function podEffects({ metadata, spec, status }: Pod): readonly Effect<PodEffect>[] {
  const node = nodeHeldBy({ metadata, ...(spec && { spec }) });
  if (node === undefined || status?.phase === "Succeeded" || status?.phase === "Failed") return [];
  return [{ key: metadata.uid, value: { node, groups: gpuGroupsOfLabels(metadata.labels) } }];
}

/** A BindRequest holds its node for its pod until it has failed for good. */
export function requestEffects(request: BindRequest): readonly Effect<PodEffect>[] {
  const uid = podUidOf(request);
  if (uid === undefined || isFinallyFailed(request)) return [];
  const { selectedNode, selectedGPUGroups, resourceClaimAllocations, extendedResourceClaimAllocation } =
    request.spec ?? {};
  if (selectedNode === undefined || selectedNode === "") return [];
  const claims = (resourceClaimAllocations ?? []).map(({ name = "", allocation }) => ({ name, allocation }));
  const extended = extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  if (extended?.allocation !== undefined) claims.push({ name: extendedEntry, allocation: extended.allocation });
  const groups = [...(selectedGPUGroups ?? [])].sort();
  const volumes = chosenVolumesOf(request);
  const chosen = { ...(claims.length > 0 && { claims }), ...(volumes && { volumes }) };
  return [{ key: uid, value: { node: selectedNode, groups, ...chosen } }];
}

/** A deleted pod, as far as the BindRequest for its GPU share describes it. */
export function deletedPodOf({ metadata, spec }: BindRequest, uid: string): Pod {
  const { namespace = "", creationTimestamp } = metadata;
  const name = spec?.podName ?? metadata.name;
  const { count = 1, portion = "" } = spec?.receivedGPU ?? {};
  const annotations = {
    [annotationKeys.gpuFraction]: portion,
    [annotationKeys.gpuFractionDevices]: String(count),
  };
  const gone = { deletionTimestamp: metadata.deletionTimestamp ?? creationTimestamp };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...gone, namespace, name, uid, creationTimestamp, annotations, resourceVersion: "0" },
    spec: { schedulerName: kaiSchedulerName, containers: [] },
  };
}
