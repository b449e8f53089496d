import { claimTarget } from "../../decide/devices/claims/bindClaim.ts";
import { bornClaimOf, extendedClaimOn, type NodeSplit, splitOn } from "../../decide/devices/claims/extendedClaim.ts";
import type { RequestMapping } from "../../decide/devices/claims/extendedResources.ts";
import { deleteProtection, type PodClaim } from "../../decide/devices/claims/podClaims.ts";
import { claimKind } from "../../decide/devices/claimTracker.ts";
import type { ClaimNeeds } from "../../decide/devices/placeClaims.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { expectedOf, type Intent, keyOf } from "../../model/intent.ts";
import type { Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { asKube, type DeviceCaches, deviceKinds } from "./deviceCaches.ts";

/** The claim that a pod gets for its extended resources. It exists in our memory until a node is chosen, because what it asks for depends on the node. */
export class ExtendedClaims {
  private readonly world: DeviceCaches;
  private readonly mappings = new WeakMap<ResourceClaim, readonly RequestMapping[]>();

  constructor(world: DeviceCaches) {
    this.world = world;
  }

  /** What was made for the pod before and not used: it stands in the way of a new one. */
  leftoverOf(pod: Pod): ResourceClaim | undefined {
    return bornClaimOf(pod, (namespace, name) => this.world.tracker.get(namespace, name));
  }

  on(pod: Pod, node: Node): NodeSplit {
    const extended = this.world.extendedResources();
    return splitOn(pod, node, (resource) => extended.classFor(resource));
  }

  /** The pod's own claim as it would be on such a node, or as an earlier try made it; undefined where the node needs none. */
  variant(pod: Pod, split: NodeSplit, leftover: ResourceClaim | undefined): PodClaim | undefined {
    const special = extendedClaimOn(pod, split, leftover);
    if (special !== undefined) this.mappings.set(special.claim, split.mappings);
    return special;
  }

  async create(claim: ResourceClaim, cancel: Cancel): Promise<Outcome<ResourceClaim>> {
    const { namespace = "", name, annotations = {}, ownerReferences = [] } = claim.metadata;
    const intent: Intent = {
      type: "create",
      target: { ...claimKind, namespace, name },
      absentAt: this.world.claims.revision,
      object: {
        apiVersion: claim.apiVersion,
        kind: claim.kind,
        metadata: { name, namespace, annotations, finalizers: [deleteProtection], ownerReferences },
        spec: claim.spec,
      },
      why: "the pod asks for extended resources that a device class stands for",
    };
    const outcome = await applyIntent(this.world.controllers.kube, intent, { cancel });
    return outcome.ok ? succeeded(outcome.value.object as unknown as ResourceClaim) : outcome;
  }

  /** Writes into the pod which container uses which request; the answer is the pod as it is then. */
  async recordOn(pod: Pod, { claims }: ClaimNeeds, cancel: Cancel): Promise<Outcome<Pod | undefined>> {
    const special = claims.map(({ claim }) => claim).find((claim) => this.mappings.has(claim));
    if (special === undefined) return succeeded(undefined);
    // An earlier try may have come this far.
    if (pod.status?.extendedResourceClaimStatus?.resourceClaimName === special.metadata.name)
      return succeeded(undefined);
    const { namespace = "", name } = pod.metadata;
    const status = {
      extendedResourceClaimStatus: {
        resourceClaimName: special.metadata.name,
        requestMappings: [...(this.mappings.get(special) ?? [])],
      },
    };
    const intent: Intent = {
      type: "patch",
      target: { ...deviceKinds.pods, namespace, name },
      expected: expectedOf(asKube(pod)),
      patch: { status } as unknown as JsonObject,
      subresource: "status",
      why: "its extended resources come from a claim",
    };
    const outcome = await applyIntent(this.world.controllers.kube, intent, { cancel });
    return outcome.ok ? succeeded(outcome.value.object as unknown as Pod) : outcome;
  }

  /** Takes a leftover away: its protection first, then itself. */
  deletionOf(claim: ResourceClaim): Intent {
    return {
      type: "delete",
      target: claimTarget(claim),
      expected: expectedOf(asKube(claim)),
      why: `${keyOf(claim.metadata.namespace, claim.metadata.name)} was made for an earlier try`,
    };
  }
}
