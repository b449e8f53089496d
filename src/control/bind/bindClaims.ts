/**
 * The steps of a bind that need more than one write: ConfigMaps, claims, and the clean-up of a failed attempt. Those of
 * volumes are in bindVolumes.ts.
 */
import { attemptAnnotation, attemptOf } from "../../decide/bind/attemptMark.ts";
import {
  claimNameOf,
  claimsRef,
  type ExtendedAllocation,
  extendedClaim,
  groupOfClaim,
  isExtendedClaimOf,
  nextClaimStep,
} from "../../decide/bind/claimStatus.ts";
import { podsRef } from "../../decide/bind/reservation.ts";
import { configMapNames, configMapsRef, mergedConfigMap } from "../../decide/bind/sharedGpuConfig.ts";
import { deallocate, mayDeallocate, unreserve } from "../../decide/devices/claims/bindClaim.ts";
import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import type { GroupName } from "../../decide/devices/claims/podsGroup.ts";
import { type BindingVerdict, bindingOf, defaultBindingTimeoutMs } from "../../decide/devices/placeClaims.ts";
import type { Written } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { assert } from "../../model/assert.ts";
import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { AllocationResult, ConfigMap, Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { firstRevision, type Revision } from "../../model/revision.ts";
import { type BindRequest, bindRequestRef, isFinallyFailed } from "../../model/scheduling/bindRequest.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import type { Writer } from "../runtime/writer.ts";

/** Attempts to write to a claim: every pod that shares it writes once or twice. */
const claimTriesMax = 8;
const done = succeeded(undefined);

export interface BindCall {
  readonly kube: KubeReads;
  readonly writer: Writer;
  readonly cancel: Cancel;
}

/**
 * Creates each ConfigMap, or updates it if it exists. It may be of a later attempt: whether this attempt is still
 * current is checked after the ConfigMap was read, and a later attempt that writes in between is a conflict.
 */
export async function writeConfigMaps(
  { kube, writer, cancel }: BindCall,
  maps: readonly NewObject<ConfigMap>[],
  stillCounts: () => Promise<Outcome<undefined>>,
): Promise<Outcome<undefined>> {
  for (const wanted of maps) {
    const ref = { ...configMapsRef, namespace: wanted.metadata.namespace ?? "", name: wanted.metadata.name };
    const why = "the containers of a GPU share read their device from it";
    const created = await writer.apply(
      { type: "create", target: ref, absentAtRevision: firstRevision, object: wanted, why },
      { cancel },
    );
    if (created.ok) continue;
    if (created.reason !== "AlreadyExists") return created;
    const found = await kube.get(ref, { cancel });
    if (!found.ok)
      return found.reason === "NotFound"
        ? refused("Conflict", `ConfigMap ${ref.name} is created and deleted at the same time`)
        : found;
    const merged = mergedConfigMap(found.value, wanted);
    if (merged === undefined) continue;
    const counts = await stillCounts();
    if (!counts.ok) return counts;
    const expected = expectedOf(found.value);
    const written = await writer.apply({ type: "update", target: ref, expected, object: merged, why }, { cancel });
    if (!written.ok)
      return written.reason === "NotFound" ? refused("Conflict", `ConfigMap ${ref.name} was deleted`) : written;
  }
  return done;
}

/** The ConfigMaps of this pod (by UID), as the API has them. Those of another owner are skipped. */
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

/** Deletes each ConfigMap on the version that was found. */
export async function deleteConfigMaps(
  { writer, cancel }: BindCall,
  maps: readonly KubeObject[],
): Promise<Outcome<undefined>> {
  let problem: Outcome<undefined> = done;
  for (const map of maps) {
    const { namespace = "", name } = map.metadata;
    const target = { ...configMapsRef, namespace, name };
    const why = "its bind failed";
    const deleted = await writer.apply({ type: "delete", target, expected: expectedOf(map), why }, { cancel });
    if (!deleted.ok && deleted.reason !== "NotFound") problem = deleted;
  }
  return problem;
}

/** What a bind writes to the claims of its pod. */
export interface ClaimsAbout {
  /** Called right before devices are written into a claim: whether they are still free. */
  readonly mayAllocate: () => Promise<Outcome<undefined>>;
  readonly request: BindRequest;
  readonly pod: Pod;
  readonly node: Node;
  readonly nowMs: number;
}

/**
 * The pod after the writes, and whether its devices are ready: some have to be attached before a pod may be bound to
 * them.
 */
export interface WrittenClaims {
  readonly pod: Pod;
  /** The claims as the API returned them. */
  readonly claims: readonly ResourceClaim[];
  readonly binding: BindingVerdict;
}

/** Writes the chosen devices into the pod's claims and reserves the claims for the pod. */
export async function writeClaims(call: BindCall, about: ClaimsAbout): Promise<Outcome<WrittenClaims>> {
  const { request, pod } = about;
  let binding: BindingVerdict = { kind: "ready" };
  const claims: ResourceClaim[] = [];
  for (const { name: entry = "", allocation } of request.spec?.resourceClaimAllocations ?? []) {
    const name = claimNameOf(pod, entry);
    if (name === undefined)
      return refused("Invalid", `pod ${pod.metadata.name} has no claim for ${JSON.stringify(entry)} yet`);
    const found = await call.kube.get(
      { ...claimsRef, namespace: pod.metadata.namespace ?? "", name },
      { cancel: call.cancel },
    );
    if (!found.ok) return found;
    const group = groupOfClaim(request, entry);
    const chosen = allocation as AllocationResult | null | undefined;
    const outcome = await takeClaim(call, { ...about, group }, found.value, chosen);
    if (!outcome.ok) return outcome;
    claims.push(outcome.value);
    binding = laterVerdict(binding, bindingOf(outcome.value, about.nowMs, defaultBindingTimeoutMs));
  }
  const extended = request.spec?.extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  if (extended === undefined || extended === null) return succeeded({ pod, claims, binding });
  const taken = await takeExtendedClaim(call, about, extended);
  if (!taken.ok) return taken;
  const own = bindingOf(taken.value.claim, about.nowMs, defaultBindingTimeoutMs);
  claims.push(taken.value.claim);
  return succeeded({ pod: taken.value.pod, claims, binding: laterVerdict(binding, own) });
}

/** The result of all claims: a failure comes before a wait, a wait before readiness. */
function laterVerdict(a: BindingVerdict, b: BindingVerdict): BindingVerdict {
  const rank = { failed: 3, timedOut: 2, waiting: 1, ready: 0 } as const;
  return rank[b.kind] > rank[a.kind] ? b : a;
}

/**
 * Writes until the claim is allocated and reserved for the pod. Other pods write to a shared claim, so after a conflict
 * the claim is read again.
 */
async function takeClaim(
  { kube, writer, cancel }: BindCall,
  { pod, node, group, nowMs, mayAllocate }: ClaimsAbout & { readonly group?: GroupName | undefined },
  first: ResourceClaim,
  allocation: AllocationResult | null | undefined,
): Promise<Outcome<ResourceClaim>> {
  let claim = first;
  for (let tries = 0; tries < claimTriesMax; tries++) {
    const step = nextClaimStep({ claim, allocation, pod, node, group, nowMs });
    if (step.kind === "done") return succeeded(claim);
    if (step.kind === "failed") return refused("Invalid", step.why);
    if (step.intent.type === "status" && claim.status?.allocation === undefined) {
      const allowed = await mayAllocate();
      if (!allowed.ok) return allowed;
    }
    const written = await writer.apply(step.intent, { cancel });
    if (written.ok && written.value.object !== undefined) {
      claim = written.value.object as ResourceClaim;
      continue;
    }
    if (!written.ok && written.reason !== "Conflict") return written;
    const fresh = await kube.get(step.intent.target, { cancel });
    if (!fresh.ok) return fresh;
    claim = fresh.value as ResourceClaim;
  }
  return refused("Conflict", `claim ${first.metadata.name} was changed by other clients in every attempt`);
}

async function takeExtendedClaim(
  call: BindCall,
  about: ClaimsAbout,
  extended: ExtendedAllocation,
): Promise<Outcome<{ readonly pod: Pod; readonly claim: ResourceClaim }>> {
  const { pod, request } = about;
  const found = await findExtendedClaim(call, pod);
  if (!found.ok) return found;
  const attempt = attemptOf(request);
  const ours =
    found.value === undefined
      ? await createClaim(call, extendedClaim(pod, extended, attempt))
      : await markClaim(call, found.value, attempt);
  if (!ours.ok) return ours;
  // The scheduler allocates the devices again when the request has ended and no claim exists. The claim exists now:
  // either the scheduler finds it and changes it, or the request had ended before.
  const counts = await stillRequested(call, request, ours.value.metadata.resourceVersion);
  if (!counts.ok) return counts;
  const claimed = await takeClaim(call, about, ours.value, extended.allocation);
  if (!claimed.ok) return claimed;
  const { name } = ours.value.metadata;
  const claim = claimed.value;
  if (pod.status?.extendedResourceClaimStatus?.resourceClaimName === name) return succeeded({ pod, claim });
  const status = { resourceClaimName: name, requestMappings: extended.containerMappings ?? [] };
  const written = await writeExtendedStatus(call, pod, status);
  return written.ok ? succeeded({ pod: written.value, claim }) : written;
}

async function stillRequested(
  { kube, cancel }: BindCall,
  { metadata }: BindRequest,
  atLeast: Revision,
): Promise<Outcome<undefined>> {
  const { namespace = "", name, uid } = metadata;
  const fresh = await lookAgain(kube, { ...bindRequestRef, namespace, name }, { atLeast, cancel });
  if (!fresh.ok) return fresh;
  const request = fresh.value.object;
  const isOver = request?.metadata.uid !== uid || request.metadata.deletionTimestamp !== undefined;
  if (isOver || isFinallyFailed(request)) return refused("Conflict", `BindRequest ${name} has ended`);
  return done;
}

async function createClaim(
  { writer, cancel }: BindCall,
  object: NewObject<ResourceClaim>,
): Promise<Outcome<ResourceClaim>> {
  const { namespace = "", name } = object.metadata;
  const target = { ...claimsRef, namespace, name };
  const why = "it provides the extended resources of its pod";
  return objectOf(
    await writer.apply({ type: "create", target, absentAtRevision: firstRevision, object, why }, { cancel }),
  );
}

/** The object in the answer to a write; every write but a bind and a delete returns one. */
function objectOf<T extends KubeObject>(outcome: Outcome<Written<T>>): Outcome<T> {
  if (!outcome.ok) return outcome;
  const { object } = outcome.value;
  assert(object !== undefined, () => "the API returned no object for a write");
  return succeeded(object);
}

/** An earlier attempt created it, and may be about to delete it. */
async function markClaim(
  { writer, cancel }: BindCall,
  claim: ResourceClaim,
  attempt: string,
): Promise<Outcome<ResourceClaim>> {
  if (claim.metadata.annotations?.[attemptAnnotation] === attempt) return succeeded(claim);
  const annotations = { ...claim.metadata.annotations, [attemptAnnotation]: attempt };
  const { namespace = "", name } = claim.metadata;
  const target = { ...claimsRef, namespace, name };
  const object = { ...claim, metadata: { ...claim.metadata, annotations } };
  const why = "a later attempt uses it";
  return objectOf(await writer.apply({ type: "update", target, expected: expectedOf(claim), object, why }, { cancel }));
}

async function findExtendedClaim({ kube, cancel }: BindCall, pod: Pod): Promise<Outcome<ResourceClaim | undefined>> {
  const all = await kube.list(claimsRef, { namespace: pod.metadata.namespace ?? "", cancel });
  if (!all.ok) return all;
  return succeeded(all.value.items.find((each) => isExtendedClaimOf(each, pod)));
}

async function writeExtendedStatus(
  { writer, cancel }: BindCall,
  pod: Pod,
  extendedResourceClaimStatus: JsonObject | null,
): Promise<Outcome<Pod>> {
  const { namespace = "", name } = pod.metadata;
  const target = { ...podsRef, namespace, name };
  const patch = { status: { extendedResourceClaimStatus } };
  const why = "its extended resources come from a claim";
  const intent = { type: "patch" as const, target, expected: expectedOf(pod), patch, subresource: "status", why };
  return objectOf(await writer.apply(intent, { cancel }));
}

/**
 * Deletes the claim for the extended resources of this pod (by UID). First the pod is written, so that a bind in flight
 * conflicts; then the devices are released, and only a claim without devices is deleted.
 */
export async function deleteExtendedClaim(call: BindCall, pod: Pod): Promise<Outcome<Pod>> {
  const { writer, cancel } = call;
  const found = await findExtendedClaim(call, pod);
  if (!found.ok) return found;
  const hasStatus = pod.status?.extendedResourceClaimStatus !== undefined;
  if (found.value === undefined && !hasStatus) return succeeded(pod);
  const cleared = hasStatus ? await writeExtendedStatus(call, pod, null) : succeeded(pod);
  if (!cleared.ok || found.value === undefined) return cleared;
  let claim = found.value;
  const target = { ...claimsRef, namespace: claim.metadata.namespace ?? "", name: claim.metadata.name };
  const why = `the bind of pod ${pod.metadata.name} failed`;
  if (claim.status?.allocation !== undefined) {
    const freed = await writer.apply(deallocate(claim, why), { cancel });
    if (!freed.ok) return freed;
    claim = (freed.value.object as ResourceClaim | undefined) ?? claim;
  }
  const { finalizers = [] } = claim.metadata;
  if (finalizers.includes(deleteProtection)) {
    const metadata = { ...claim.metadata, finalizers: finalizers.filter((each) => each !== deleteProtection) };
    const object = { ...claim, metadata };
    const freed = objectOf(
      await writer.apply({ type: "update", target, expected: expectedOf(claim), object, why }, { cancel }),
    );
    if (!freed.ok) return freed;
    claim = freed.value;
  }
  const deleted = await writer.apply({ type: "delete", target, expected: expectedOf(claim), why }, { cancel });
  return deleted.ok || deleted.reason === "NotFound" ? cleared : deleted;
}

/** Deallocates these claims where no other pod uses them, and removes the pod's reservation from the others. */
export async function releaseClaims(
  { writer, cancel }: BindCall,
  pod: Pod,
  { claims, why }: { readonly claims: readonly ResourceClaim[]; readonly why: string },
): Promise<Outcome<undefined>> {
  let problem: Outcome<undefined> = done;
  for (const claim of claims) {
    const intent = mayDeallocate(claim, pod) ? deallocate(claim, why) : unreserve(claim, pod);
    if (intent === undefined) continue;
    const freed = await writer.apply(intent, { cancel });
    if (!freed.ok && freed.reason !== "NotFound") problem = freed;
  }
  return problem;
}
