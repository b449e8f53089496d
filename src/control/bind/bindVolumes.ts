/** The claims of a pod that is being bound, read from the API: they are written on the versions that were read. */
import { nextGiveBack, nextVolumeBinding, type VolumeBindingStep } from "../../decide/bind/volumeBinding.ts";
import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
} from "../../model/kubernetes.generated.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { type BindRequest, chosenVolumesOf } from "../../model/scheduling/bindRequest.ts";
import { claimsOfPod, classOfClaim, type PodClaim } from "../../model/storage/volumes.ts";
import type { BindCall } from "./bindClaims.ts";

export interface VolumesAbout {
  readonly request: BindRequest;
  readonly pod: Pod;
  readonly node: Node;
}

/** Writes what the pod's claims need on the node. `waiting`: why the pod cannot be bound yet. */
export async function bindVolumes(
  call: BindCall,
  about: VolumesAbout,
): Promise<Outcome<{ readonly waiting: string | undefined }>> {
  let waiting: string | undefined;
  // Each claim is written before any of them is waited for.
  for (const each of claimsOfPod(about.pod)) {
    const step = await bindVolume(call, about, each);
    if (!step.ok) return step;
    switch (step.value.kind) {
      case "ready":
        break;
      case "waiting":
      case "write":
        waiting ??= step.value.why;
        break;
      case "failed":
        return refused("Invalid", step.value.why);
    }
  }
  return succeeded({ waiting });
}

async function bindVolume(
  call: BindCall,
  { request, pod, node }: VolumesAbout,
  { name, template }: PodClaim,
): Promise<Outcome<VolumeBindingStep>> {
  const found = await claimNamed(call, pod, name);
  if (!found.ok) return found;
  const claim = found.value;
  if (claim === undefined) return refused("Invalid", `PersistentVolumeClaim ${name} does not exist`);
  const chosen = chosenVolumesOf(request)?.[name];
  const volume = await volumeNamed(call, claim.spec?.volumeName || chosen);
  if (!volume.ok) return volume;
  const storageClass = await storageClassOf(call, claim);
  if (!storageClass.ok) return storageClass;
  const isEphemeral = template !== undefined;
  const view = { pod, node, claim, isEphemeral, storageClass: storageClass.value, chosen, volume: volume.value };
  const step = nextVolumeBinding(view);
  if (step.kind !== "write") return succeeded(step);
  const written = await call.writer.apply(step.intent, { cancel: call.cancel });
  return written.ok ? succeeded(step) : written;
}

/** Gives back what a failed bind has taken for claims that are not bound, and returns what could not be given back. */
export async function giveBackVolumes(
  call: BindCall,
  about: Omit<VolumesAbout, "node"> & { why: string },
): Promise<string[]> {
  const { request, pod, why } = about;
  const problems: string[] = [];
  for (const { name } of claimsOfPod(pod)) {
    const claim = await claimNamed(call, pod, name);
    if (!claim.ok) problems.push(claim.message);
    if (!claim.ok || claim.value === undefined) continue;
    const chosen = chosenVolumesOf(request)?.[name];
    const volume = await volumeNamed(call, chosen);
    if (!volume.ok) problems.push(volume.message);
    const node = request.spec?.selectedNode ?? "";
    const view = { claim: claim.value, volume: volume.ok ? volume.value : undefined, chosen, node, why };
    for (const intent of nextGiveBack(view)) {
      const written = await call.writer.apply(intent, { cancel: call.cancel });
      // A conflict: a controller has gone on with the binding, or another bind has.
      if (!written.ok && written.reason !== "NotFound" && written.reason !== "Conflict") problems.push(written.message);
    }
  }
  return problems;
}

async function claimNamed(
  { kube, cancel }: BindCall,
  { metadata }: Pod,
  name: string,
): Promise<Outcome<PersistentVolumeClaim | undefined>> {
  const place = { namespace: metadata.namespace ?? "", name };
  return orAbsent(await kube.get({ ...builtin.PersistentVolumeClaim, ...place }, { cancel }));
}

async function volumeNamed(
  { kube, cancel }: BindCall,
  name: string | undefined,
): Promise<Outcome<PersistentVolume | undefined>> {
  if (name === undefined || name === "") return succeeded(undefined);
  return orAbsent(await kube.get({ ...builtin.PersistentVolume, namespace: "", name }, { cancel }));
}

async function storageClassOf(
  { kube, cancel }: BindCall,
  claim: PersistentVolumeClaim,
): Promise<Outcome<StorageClass | undefined>> {
  const name = classOfClaim(claim);
  if (name === "") return succeeded(undefined);
  return orAbsent(await kube.get({ ...builtin.StorageClass, namespace: "", name }, { cancel }));
}

function orAbsent<T>(found: Outcome<T>): Outcome<T | undefined> {
  return !found.ok && found.reason === "NotFound" ? succeeded(undefined) : found;
}
