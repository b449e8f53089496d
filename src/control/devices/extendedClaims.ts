import { claimTarget } from "../../decide/devices/bindClaim.ts";
import { claimNameBase } from "../../decide/devices/claimFromTemplate.ts";
import { claimKind } from "../../decide/devices/claimTracker.ts";
import {
  extendedClaimAnnotation,
  extendedRequests,
  mappedResources,
  type RequestMapping,
  sourceOn,
} from "../../decide/devices/extendedResources.ts";
import type { ClaimNeeds } from "../../decide/devices/placeClaims.ts";
import { deleteProtection, isOwnedBy, type PodClaim } from "../../decide/devices/podClaims.ts";
import { seededUuid } from "../../decide/nodes/seeded.ts";
import { suffixOf } from "../../decide/workloads/derivedName.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { expectedOf, type Intent, keyOf } from "../../model/intent.ts";
import type { JsonObject } from "../../model/json.ts";
import type { DeviceRequest, Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { asKube, type DeviceWorld, deviceKinds } from "./deviceWorld.ts";

/** Which of the pod's extended resources come from claims on a node. */
export interface NodeSplit {
  readonly byClaims: ReadonlySet<string>;
  /** Nodes with the same key need the same claim. */
  readonly key: string;
  readonly requests: readonly DeviceRequest[];
  readonly mappings: readonly RequestMapping[];
}

/** Not a name that a pod could give. */
const entry = "<extended-resources>";
const noSplit: NodeSplit = { byClaims: new Set(), key: "", requests: [], mappings: [] };

/** The claim that a pod gets for its extended resources. It exists in our memory until a node is chosen, because what it asks for depends on the node. */
export class ExtendedClaims {
  private readonly world: DeviceWorld;
  private readonly mappings = new WeakMap<ResourceClaim, readonly RequestMapping[]>();

  constructor(world: DeviceWorld) {
    this.world = world;
  }

  /** What was made for the pod before and not used: it stands in the way of a new one. */
  leftoverOf(pod: Pod): ResourceClaim | undefined {
    const { namespace = "" } = pod.metadata;
    const claim = this.world.tracker.get(namespace, nameFor(pod));
    return claim !== undefined && isOwnedBy(claim, pod) ? claim : undefined;
  }

  on(pod: Pod, node: Node): NodeSplit | string {
    const extended = this.world.extendedResources();
    const classFor = (resource: string) => extended.classFor(resource);
    const resources = mappedResources(pod, classFor);
    if (resources.length === 0) return noSplit;
    const byClaims = resources.filter((resource) => sourceOn(node, resource, classFor) === "claims");
    if (byClaims.length === 0) return noSplit;
    const { requests, mappings } = extendedRequests(pod, byClaims, classFor);
    return { byClaims: new Set(byClaims), key: byClaims.join(","), requests, mappings };
  }

  /** The pod's own claim as it would be on such a node, or as an earlier try made it; undefined where the node needs none. */
  variant(pod: Pod, split: NodeSplit, leftover: ResourceClaim | undefined): PodClaim | undefined {
    if (split.requests.length === 0) return undefined;
    if (leftover !== undefined) {
      this.mappings.set(leftover, split.mappings);
      return { entry, claim: leftover };
    }
    const { namespace = "", uid, name } = pod.metadata;
    const claim: ResourceClaim = {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: {
        name: nameFor(pod),
        namespace,
        uid: seededUuid("extended", uid),
        resourceVersion: "",
        creationTimestamp: "",
        annotations: { [extendedClaimAnnotation]: "true" },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid, controller: true, blockOwnerDeletion: true }],
      },
      spec: { devices: { requests: [...split.requests] } },
    };
    this.mappings.set(claim, split.mappings);
    return { entry, claim };
  }

  isUnborn({ metadata }: ResourceClaim): boolean {
    return metadata.resourceVersion === "";
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

function nameFor({ metadata }: Pod): string {
  return `${claimNameBase(metadata.name, "extended-resources")}${suffixOf(metadata.uid, "extended-resources")}`;
}
