/**
 * The release of a claim whose pods are gone: reservations are removed, the devices deallocated, the claim deleted.
 *
 * A device is free only when its node has reported that. Kubernetes clears the allocation as soon as the pod object is
 * deleted; then
 *
 *   API                                 node
 *   t0  pod deleted by force            its program still runs on gpu-0
 *   t1  claim deallocated               gpu-0 is prepared for the old claim
 *   t2  another claim gets gpu-0        two programs share it, or the second cannot start
 *
 * So the last reservation stays as long as the claim's status shows that a node has the devices prepared, unless that
 * node is fenced: its object is deleted, or it has the out-of-service taint.
 */
import { type DeleteIntent, expectedOf, type Intent, type IntentTarget } from "../../../model/intent.ts";
import type {
  Node,
  Pod,
  PodGroup,
  ResourceClaim,
  ResourceClaimConsumerReference,
} from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { nodeOfAllocation } from "../search/deviceUse.ts";
import { claimTarget, deallocate } from "./bindClaim.ts";
import { deleteProtection, isFinished } from "./podClaims.ts";
import { isGroupReference } from "./podsGroup.ts";

/**
 * What is known of a consumer: it exists, a consistent read did not find it, or it is not in the cache, which proves
 * nothing.
 */
export type Known<T> = { readonly object: T } | "gone" | "unseen";

export interface ReleaseInput {
  readonly claim: ResourceClaim;
  readonly podOf: (name: string) => Known<Pod>;
  readonly nodeOf: (name: string) => Known<Node>;
  /** Left out where groups have no claims; then another controller removes their reservations. */
  readonly groupOf?: (name: string) => Known<PodGroup>;
}

export type Release =
  | { readonly kind: "none" }
  /** Has to be read from the API before anything is decided. */
  | {
      readonly kind: "look";
      readonly pods: readonly string[];
      readonly nodes: readonly string[];
      readonly groups: readonly string[];
    }
  | { readonly kind: "write"; readonly intent: Intent }
  /** Has to be confirmed by a second read before it is sent. */
  | { readonly kind: "delete"; readonly intent: DeleteIntent }
  | { readonly kind: "wait"; readonly why: string };

export function releaseClaim(input: ReleaseInput): Release {
  const { claim } = input;
  const { reservedFor = [], allocation } = claim.status ?? {};
  const unseen: ResourceClaimConsumerReference[] = [];
  const kept: ResourceClaimConsumerReference[] = [];
  const left: ResourceClaimConsumerReference[] = [];
  for (const consumer of reservedFor) {
    const verdict = consumerOf(consumer, input);
    if (verdict === "unseen") unseen.push(consumer);
    (verdict === "left" ? left : kept).push(consumer);
  }
  if (unseen.length > 0) {
    const named = (isGroup: boolean) =>
      unseen.filter((each) => isGroupReference(each) === isGroup).map(({ name }) => name);
    return { kind: "look", pods: named(false), nodes: [], groups: named(true) };
  }
  const isProtected = claim.metadata.finalizers?.includes(deleteProtection) === true;
  if (left.length > 0) {
    if (kept.length > 0) return { kind: "write", intent: withReservations(claim, kept) };
    const held = heldBy(input);
    if (held !== undefined) return held;
    if (isProtected) return { kind: "write", intent: deallocate(claim, "no pod uses it any more") };
    return { kind: "write", intent: withReservations(claim, []) };
  }
  if (reservedFor.length > 0) return { kind: "none" };
  if (claim.metadata.deletionTimestamp !== undefined) {
    if (!isProtected) return { kind: "none" };
    if (allocation === undefined) return { kind: "write", intent: withoutProtection(claim) };
    return heldBy(input) ?? { kind: "write", intent: deallocate(claim, "it is being deleted and no pod uses it") };
  }
  return ownersVerdict(input);
}

function consumerOf(
  consumer: ResourceClaimConsumerReference,
  { podOf, groupOf }: ReleaseInput,
): "kept" | "left" | "unseen" {
  if (groupOf !== undefined && isGroupReference(consumer)) {
    const known = groupOf(consumer.name);
    if (known === "unseen") return "unseen";
    return known === "gone" || known.object.metadata.uid !== consumer.uid ? "left" : "kept";
  }
  // Other kinds of consumers are removed by the controllers that added them.
  if (consumer.resource !== "pods" || consumer.apiGroup) return "kept";
  const known = podOf(consumer.name);
  if (known === "unseen") return "unseen";
  if (known === "gone" || known.object.metadata.uid !== consumer.uid) return "left";
  return isFinished(known.object) ? "left" : "kept";
}

/** Undefined: every node has released the devices. */
function heldBy({ claim, nodeOf }: ReleaseInput): Release | undefined {
  if (!isPrepared(claim)) return undefined;
  const node = nodeOfAllocation(claim);
  if (node !== undefined) {
    const known = nodeOf(node);
    if (known === "unseen") return { kind: "look", pods: [], nodes: [node], groups: [] };
    if (known === "gone" || isFenced(known.object)) return undefined;
  }
  return { kind: "wait", why: `node ${node ?? "(any)"} still has the devices prepared` };
}

/** A node reports the state of each device; while one is prepared, a container may be using it. */
export function isPrepared(claim: ResourceClaim): boolean {
  return (claim.status?.devices ?? []).some(({ conditions }) =>
    conditions?.some(({ type, reason }) => type === "Ready" && (reason === "Prepared" || reason === "Unhealthy")),
  );
}

/** The out-of-service taint asserts that nothing runs on the node any more. */
export function isFenced(node: Node): boolean {
  return node.spec?.taints?.some(({ key }) => key === "node.kubernetes.io/out-of-service") === true;
}

/** A claim that was created for a pod is deleted with it, without waiting for the garbage collector. */
function ownersVerdict({ claim, podOf }: ReleaseInput): Release {
  const owner = claim.metadata.ownerReferences?.find(({ controller, kind }) => controller === true && kind === "Pod");
  if (owner === undefined) return { kind: "none" };
  const known = podOf(owner.name);
  // A claim of an unknown pod is left to the garbage collector, which reads the owner itself.
  if (known === "unseen" || known === "gone") return { kind: "none" };
  const isOver = known.object.metadata.uid !== owner.uid || isFinished(known.object);
  if (!isOver) return { kind: "none" };
  const why = `its pod ${owner.name} has finished or is deleted`;
  return { kind: "delete", intent: { type: "delete", ...about(claim), why } };
}

function withReservations(claim: ResourceClaim, reservedFor: ResourceClaimConsumerReference[]): Intent {
  const { reservedFor: _before, ...rest } = claim.status ?? {};
  const status = reservedFor.length > 0 ? { ...rest, reservedFor } : rest;
  const why = "a pod that used it has finished or is deleted";
  return { type: "status", ...about(claim), object: asObject({ ...claim, status }), why };
}

export function withoutProtection(claim: ResourceClaim): Intent {
  const finalizers = (claim.metadata.finalizers ?? []).filter((each) => each !== deleteProtection);
  const { finalizers: _before, ...metadata } = claim.metadata;
  const object = { ...claim, metadata: finalizers.length > 0 ? { ...metadata, finalizers } : metadata };
  const why = "it has no devices to protect";
  return { type: "update", ...about(claim), object: asObject(object), why };
}

function about(claim: ResourceClaim): { target: IntentTarget; expected: ReturnType<typeof expectedOf> } {
  return { target: claimTarget(claim), expected: expectedOf(asObject(claim)) };
}

function asObject(claim: ResourceClaim): KubeObject {
  return claim;
}
