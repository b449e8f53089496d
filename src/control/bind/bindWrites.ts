/** The parts of a bind that are more than one write: ConfigMaps, claims, volumes, and taking back what was written. */
import { attemptAnnotation, attemptOf } from "../../decide/bind/attemptMark.ts";
import {
  claimNameOf,
  claimsRef,
  type ExtendedAllocation,
  extendedClaim,
  isExtendedClaimOf,
  nextClaimStep,
} from "../../decide/bind/claimStatus.ts";
import { podsRef } from "../../decide/bind/reservation.ts";
import { configMapNames, configMapsRef, mergedConfigMap } from "../../decide/bind/sharedGpuConfig.ts";
import { deallocate } from "../../decide/devices/claims/bindClaim.ts";
import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { AllocationResult, Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import type { Revision } from "../../model/revision.ts";
import { type BindRequest, bindRequestRef, isFinallyFailed } from "../../model/scheduling/bindRequest.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi, ResourceRef } from "../../ports/kubeApi.ts";
import { asPod } from "./binderCaches.ts";

/** Every pod that shares a claim writes to it once or twice. */
const claimTriesMax = 8;
const done = succeeded(undefined);
const storageClasses = { group: "storage.k8s.io", version: "v1", plural: "storageclasses" } as const;
const volumeClaims = { group: "", version: "v1", plural: "persistentvolumeclaims" } as const;
const selectedNodeAnnotation = "volume.kubernetes.io/selected-node";

export interface BindCall {
  readonly kube: KubeApi;
  readonly cancel: Cancel;
}

/**
 * Creates each ConfigMap, or updates it if it exists. It may be of a later attempt: whether this attempt is still
 * current is checked after the ConfigMap was read, and a later attempt that writes in between is a conflict.
 */
export async function writeConfigMaps(
  { kube, cancel }: BindCall,
  maps: readonly NewObject[],
  stillCounts: () => Promise<Outcome<undefined>>,
): Promise<Outcome<undefined>> {
  for (const wanted of maps) {
    const created = await kube.create(configMapsRef, wanted as unknown as KubeObject, { cancel });
    if (created.ok) continue;
    if (created.reason !== "AlreadyExists") return created;
    const ref = { ...configMapsRef, namespace: wanted.metadata.namespace ?? "", name: wanted.metadata.name };
    const found = await kube.get(ref, { cancel });
    if (!found.ok) return found.reason === "NotFound" ? refused("Conflict", `${ref.name} came and went`) : found;
    const merged = mergedConfigMap(found.value, wanted);
    if (merged === undefined) continue;
    const counts = await stillCounts();
    if (!counts.ok) return counts;
    const written = await kube.update(ref, merged, { cancel });
    if (!written.ok) return written.reason === "NotFound" ? refused("Conflict", `${ref.name} is gone`) : written;
  }
  return done;
}

/** The ConfigMaps of this very pod, as the API has them. Those of another owner are not looked at. */
export async function findConfigMaps({ kube, cancel }: BindCall, pod: Pod): Promise<Outcome<readonly KubeObject[]>> {
  const names = configMapNames(pod);
  const maps: KubeObject[] = [];
  for (const name of names === undefined ? [] : [names.capabilities, names.environment]) {
    const found = await kube.get({ ...configMapsRef, namespace: pod.metadata.namespace ?? "", name }, { cancel });
    if (found.ok) {
      if (found.value.metadata.ownerReferences?.some(({ uid }) => uid === pod.metadata.uid)) maps.push(found.value);
    } else if (found.reason !== "NotFound") return found;
  }
  return succeeded(maps);
}

/** Deletes each as it was found. */
export async function deleteConfigMaps(
  { kube, cancel }: BindCall,
  maps: readonly KubeObject[],
): Promise<Outcome<undefined>> {
  let problem: Outcome<undefined> = done;
  for (const { metadata } of maps) {
    const { namespace = "", name, uid, resourceVersion } = metadata;
    const ref = { ...configMapsRef, namespace, name };
    const deleted = await kube.delete(ref, { preconditions: { uid, resourceVersion }, cancel });
    if (!deleted.ok && deleted.reason !== "NotFound") problem = deleted;
  }
  return problem;
}

/** What a bind brings to the claims of its pod. */
export interface ClaimsAbout {
  readonly request: BindRequest;
  readonly pod: Pod;
  readonly node: Node;
  readonly nowMs: number;
}

/** Writes the chosen devices into the pod's claims, and the pod among their users. */
export async function writeClaims(call: BindCall, about: ClaimsAbout): Promise<Outcome<Pod>> {
  const { request, pod } = about;
  for (const { name: entry = "", allocation } of request.spec?.resourceClaimAllocations ?? []) {
    const name = claimNameOf(pod, entry);
    if (name === undefined)
      return refused("Invalid", `pod ${pod.metadata.name} has no claim for ${JSON.stringify(entry)} yet`);
    const found = await call.kube.get(
      { ...claimsRef, namespace: pod.metadata.namespace ?? "", name },
      { cancel: call.cancel },
    );
    if (!found.ok) return found;
    const outcome = await takeClaim(call, about, found.value, allocation as AllocationResult | null | undefined);
    if (!outcome.ok) return outcome;
  }
  const extended = request.spec?.extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  return extended === undefined || extended === null ? succeeded(pod) : takeExtendedClaim(call, about, extended);
}

/**
 * Write after write until the pod has the claim. Others write to a claim that is shared, so a conflict means: look
 * again.
 */
async function takeClaim(
  { kube, cancel }: BindCall,
  { pod, node, nowMs }: ClaimsAbout,
  first: KubeObject,
  allocation: AllocationResult | null | undefined,
): Promise<Outcome<undefined>> {
  let claim = first;
  for (let tries = 0; tries < claimTriesMax; tries++) {
    const step = nextClaimStep({ claim: claim as unknown as ResourceClaim, allocation, pod, node, nowMs });
    if (step.kind === "done") return done;
    if (step.kind === "failed") return refused("Invalid", step.why);
    const written = await applyIntent(kube, step.intent, { cancel });
    if (written.ok && written.value.object !== undefined) {
      claim = written.value.object;
      continue;
    }
    if (!written.ok && written.reason !== "Conflict") return written;
    const fresh = await kube.get(step.intent.target, { cancel });
    if (!fresh.ok) return fresh;
    claim = fresh.value;
  }
  return refused("Conflict", `claim ${first.metadata.name} changes too fast`);
}

async function takeExtendedClaim(
  call: BindCall,
  about: ClaimsAbout,
  extended: ExtendedAllocation,
): Promise<Outcome<Pod>> {
  const { kube, cancel } = call;
  const { pod, request } = about;
  const found = await findExtendedClaim(call, pod);
  if (!found.ok) return found;
  const attempt = attemptOf(request);
  const ours =
    found.value === undefined
      ? await kube.create(claimsRef, extendedClaim(pod, extended, attempt) as unknown as KubeObject, { cancel })
      : await markClaim(call, found.value, attempt);
  if (!ours.ok) return ours;
  // The scheduler gives the devices to others when the request is over and no claim is there. The claim is there now:
  // either the scheduler finds it and changes it, or the request was over before.
  const counts = await stillRequested(call, request, ours.value.metadata.resourceVersion);
  if (!counts.ok) return counts;
  const claimed = await takeClaim(call, about, ours.value, extended.allocation);
  if (!claimed.ok) return claimed;
  const { name } = ours.value.metadata;
  if (pod.status?.extendedResourceClaimStatus?.resourceClaimName === name) return succeeded(pod);
  const status = { resourceClaimName: name, requestMappings: extended.containerMappings ?? [] };
  return writeExtendedStatus(call, pod, status);
}

async function stillRequested(
  { kube, cancel }: BindCall,
  { metadata }: BindRequest,
  atLeast: Revision,
): Promise<Outcome<undefined>> {
  const { namespace = "", name, uid } = metadata;
  const fresh = await lookAgain(kube, { ...bindRequestRef, namespace, name }, { atLeast, cancel });
  if (!fresh.ok) return fresh;
  const request = fresh.value.object as unknown as BindRequest | undefined;
  const isOver = request?.metadata.uid !== uid || request.metadata.deletionTimestamp !== undefined;
  if (isOver || isFinallyFailed(request)) return refused("Conflict", `BindRequest ${name} is over`);
  return done;
}

/** An earlier attempt made it, and may be about to take it back. */
async function markClaim({ kube, cancel }: BindCall, claim: KubeObject, attempt: string): Promise<Outcome<KubeObject>> {
  if (claim.metadata.annotations?.[attemptAnnotation] === attempt) return succeeded(claim);
  const annotations = { ...claim.metadata.annotations, [attemptAnnotation]: attempt };
  const { namespace = "", name } = claim.metadata;
  const ref = { ...claimsRef, namespace, name };
  return kube.update(ref, { ...claim, metadata: { ...claim.metadata, annotations } }, { cancel });
}

async function findExtendedClaim({ kube, cancel }: BindCall, pod: Pod): Promise<Outcome<KubeObject | undefined>> {
  const all = await kube.list(claimsRef, { namespace: pod.metadata.namespace ?? "", cancel });
  if (!all.ok) return all;
  return succeeded(all.value.items.find((each) => isExtendedClaimOf(each as unknown as ResourceClaim, pod)));
}

async function writeExtendedStatus(
  { kube, cancel }: BindCall,
  pod: Pod,
  extendedResourceClaimStatus: JsonObject | null,
): Promise<Outcome<Pod>> {
  const { namespace = "", name, uid, resourceVersion } = pod.metadata;
  const ref = { ...podsRef, namespace, name, subresource: "status" };
  const body = { metadata: { uid, resourceVersion }, status: { extendedResourceClaimStatus } };
  const written = await kube.patch(ref, { type: "merge", body: body as unknown as JsonObject }, { cancel });
  return written.ok ? succeeded(asPod(written.value)) : written;
}

/**
 * Takes back the claim that stands for extended resources of this very pod. First the pod is written to, so that a bind
 * that is still on its way conflicts; then the devices are given back, and only a claim that holds nothing is deleted.
 */
export async function deleteExtendedClaim(call: BindCall, pod: Pod): Promise<Outcome<Pod>> {
  const { kube, cancel } = call;
  const found = await findExtendedClaim(call, pod);
  if (!found.ok) return found;
  const isTold = pod.status?.extendedResourceClaimStatus !== undefined;
  if (found.value === undefined && !isTold) return succeeded(pod);
  const untold = isTold ? await writeExtendedStatus(call, pod, null) : succeeded(pod);
  if (!untold.ok || found.value === undefined) return untold;
  let claim = found.value;
  const ref = { ...claimsRef, namespace: claim.metadata.namespace ?? "", name: claim.metadata.name };
  if ((claim as unknown as ResourceClaim).status?.allocation !== undefined) {
    const why = `the bind of pod ${pod.metadata.name} failed`;
    const freed = await applyIntent(kube, deallocate(claim as unknown as ResourceClaim, why), { cancel });
    if (!freed.ok) return freed;
    claim = freed.value.object ?? claim;
  }
  const { finalizers = [] } = claim.metadata;
  if (finalizers.includes(deleteProtection)) {
    const metadata = { ...claim.metadata, finalizers: finalizers.filter((each) => each !== deleteProtection) };
    const freed = await kube.update(ref, { ...claim, metadata }, { cancel });
    if (!freed.ok) return freed;
    claim = freed.value;
  }
  const { uid, resourceVersion } = claim.metadata;
  const deleted = await kube.delete(ref, { preconditions: { uid, resourceVersion }, cancel });
  return deleted.ok || deleted.reason === "NotFound" ? untold : deleted;
}

/** Whether the pod's volumes are bound; those that wait for a node get the selected-node annotation. */
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
