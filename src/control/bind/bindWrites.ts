/** The parts of a bind that are more than one write: ConfigMaps, claims, volumes, and taking back what was written. */
import {
  claimedFor,
  claimNameOf,
  claimsRef,
  type ExtendedAllocation,
  extendedClaim,
  extendedClaimName,
} from "../../decide/bind/claimStatus.ts";
import { configMapNames, configMapsRef, mergedConfigMap } from "../../decide/bind/sharedGpuConfig.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi, ResourceRef } from "../../ports/kubeApi.ts";
import { asPod } from "./bindWorld.ts";

const done = succeeded(undefined);
const storageClasses = { group: "storage.k8s.io", version: "v1", plural: "storageclasses" } as const;
const volumeClaims = { group: "", version: "v1", plural: "persistentvolumeclaims" } as const;
const selectedNodeAnnotation = "volume.kubernetes.io/selected-node";

export interface BindCall {
  readonly kube: KubeApi;
  readonly cancel: Cancel;
}

/** Creates each, or brings it up to date if it is there. */
export async function writeConfigMaps(
  { kube, cancel }: BindCall,
  maps: readonly NewObject[],
): Promise<Outcome<undefined>> {
  for (const wanted of maps) {
    const created = await kube.create(configMapsRef, wanted as unknown as KubeObject, { cancel });
    if (created.ok) continue;
    if (created.reason !== "AlreadyExists") return created;
    const ref = { ...configMapsRef, namespace: wanted.metadata.namespace ?? "", name: wanted.metadata.name };
    const found = await kube.get(ref, { cancel });
    if (!found.ok) return found;
    const merged = mergedConfigMap(found.value, wanted);
    // The object carries the state that was read: somebody else's write in between is a conflict, and we look again.
    const written = merged === undefined ? found : await kube.update(ref, merged, { cancel });
    if (!written.ok) return written;
  }
  return done;
}

/** Deletes the ConfigMaps of this very pod. What is not there, or is another's, is left alone. */
export async function deleteConfigMaps({ kube, cancel }: BindCall, pod: Pod): Promise<Outcome<undefined>> {
  const names = configMapNames(pod);
  for (const name of names === undefined ? [] : [names.capabilities, names.environment]) {
    const ref = { ...configMapsRef, namespace: pod.metadata.namespace ?? "", name };
    const found = await kube.get(ref, { cancel });
    if (!found.ok) {
      if (found.reason === "NotFound") continue;
      return found;
    }
    if (found.value.metadata.ownerReferences?.some(({ uid }) => uid === pod.metadata.uid) !== true) continue;
    const { uid, resourceVersion } = found.value.metadata;
    const deleted = await kube.delete(ref, { preconditions: { uid, resourceVersion }, cancel });
    if (!deleted.ok && deleted.reason !== "NotFound") return deleted;
  }
  return done;
}

/** Writes the chosen devices into the pod's claims, and the pod among their users. */
export async function writeClaims(call: BindCall, request: BindRequest, pod: Pod): Promise<Outcome<Pod>> {
  for (const { name = "", allocation } of request.spec?.resourceClaimAllocations ?? []) {
    const claim = claimNameOf(pod, name);
    if (claim === undefined)
      return refused("Invalid", `pod ${pod.metadata.name} has no claim for ${JSON.stringify(name)} yet`);
    const outcome = await claimDevices(call, pod, claim, allocation);
    if (!outcome.ok) return outcome;
  }
  const extended = request.spec?.extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  return extended === undefined || extended === null ? succeeded(pod) : writeExtendedClaim(call, pod, extended);
}

async function claimDevices(
  { kube, cancel }: BindCall,
  pod: Pod,
  name: string,
  allocation: unknown,
): Promise<Outcome<undefined>> {
  const ref = { ...claimsRef, namespace: pod.metadata.namespace ?? "", name };
  const found = await kube.get(ref, { cancel });
  if (!found.ok) return found;
  const wanted = claimedFor(found.value as unknown as ResourceClaim, pod, allocation);
  if (typeof wanted === "string") return refused("Invalid", wanted);
  if (wanted === undefined) return done;
  const written = await kube.update({ ...ref, subresource: "status" }, wanted as unknown as KubeObject, { cancel });
  return written.ok ? done : written;
}

async function writeExtendedClaim(call: BindCall, pod: Pod, extended: ExtendedAllocation): Promise<Outcome<Pod>> {
  const { kube, cancel } = call;
  const created = await kube.create(claimsRef, extendedClaim(pod, extended) as unknown as KubeObject, { cancel });
  if (!created.ok && created.reason !== "AlreadyExists") return created;
  const name = extendedClaimName(pod);
  const claimed = await claimDevices(call, pod, name, extended.allocation);
  if (!claimed.ok) return claimed;
  const wanted = { resourceClaimName: name, requestMappings: extended.containerMappings ?? [] };
  if (pod.status?.extendedResourceClaimStatus?.resourceClaimName === name) return succeeded(pod);
  const { namespace = "", uid, resourceVersion } = pod.metadata;
  const ref = { group: "", version: "v1", plural: "pods", namespace, name: pod.metadata.name, subresource: "status" };
  const body = { metadata: { uid, resourceVersion }, status: { extendedResourceClaimStatus: wanted } };
  const written = await kube.patch(ref, { type: "merge", body: body as never }, { cancel });
  return written.ok ? succeeded(asPod(written.value)) : written;
}

/** Deletes the claim that stands for extended resources of this very pod. */
export async function deleteExtendedClaim({ kube, cancel }: BindCall, pod: Pod): Promise<Outcome<undefined>> {
  const ref = { ...claimsRef, namespace: pod.metadata.namespace ?? "", name: extendedClaimName(pod) };
  const found = await kube.get(ref, { cancel });
  if (!found.ok) return found.reason === "NotFound" ? done : found;
  const { uid, resourceVersion } = found.value.metadata;
  const deleted = await kube.delete(ref, { preconditions: { uid, resourceVersion }, cancel });
  return deleted.ok || deleted.reason === "NotFound" ? done : deleted;
}

/** Whether the pod's volumes are there; where they wait for a node they are told which one. */
export async function askForVolumes(
  call: BindCall,
  pod: Pod,
  node: string,
): Promise<Outcome<{ readonly waiting: string | undefined }>> {
  for (const { persistentVolumeClaim } of pod.spec?.volumes ?? []) {
    if (persistentVolumeClaim === undefined) continue;
    const outcome = await askForVolume(
      call,
      { namespace: pod.metadata.namespace ?? "", name: persistentVolumeClaim.claimName },
      node,
    );
    if (!outcome.ok || outcome.value.waiting !== undefined) return outcome;
  }
  return succeeded({ waiting: undefined });
}

async function askForVolume(
  { kube, cancel }: BindCall,
  place: { namespace: string; name: string },
  node: string,
): Promise<Outcome<{ waiting: string | undefined }>> {
  const ref = { ...volumeClaims, ...place };
  const found = await kube.get(ref, { cancel });
  if (!found.ok)
    return found.reason === "NotFound" ? refused("Invalid", `there is no volume claim ${place.name}`) : found;
  const { spec = {}, status } = found.value as unknown as {
    spec?: { storageClassName?: string };
    status?: { phase?: string };
  };
  if (status?.phase === "Bound") return succeeded({ waiting: undefined });
  const waiting = `volume claim ${place.name} is not bound yet`;
  const storageClass = await storageClassOf({ kube, cancel }, spec.storageClassName);
  if (storageClass?.["volumeBindingMode"] !== "WaitForFirstConsumer") return succeeded({ waiting });
  if (found.value.metadata.annotations?.[selectedNodeAnnotation] === node) return succeeded({ waiting });
  const patch = { metadata: { annotations: { [selectedNodeAnnotation]: node } } };
  const why = `its pod belongs on node ${node}`;
  const written = await applyIntent(
    kube,
    { type: "patch", target: ref, expected: expectedOf(found.value), patch, why },
    { cancel },
  );
  return written.ok ? succeeded({ waiting }) : written;
}

async function storageClassOf({ kube, cancel }: BindCall, name: string | undefined): Promise<KubeObject | undefined> {
  if (name === undefined) return undefined;
  const kind: ResourceRef = storageClasses;
  const found = await kube.get({ ...kind, namespace: "", name }, { cancel });
  return found.ok ? found.value : undefined;
}
