/**
 * The claim that a pod gets for its extended resources. It is created only when a node is chosen, because its requests
 * depend on the node: a device plugin of the node has precedence.
 */
import type { DeviceClass, DeviceRequest, Node, Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { suffixOf } from "../../../model/objects/derivedName.ts";
import { seededUuid } from "../../../model/values/seeded.ts";
import { claimNameBase } from "./claimFromTemplate.ts";
import {
  extendedClaimAnnotation,
  extendedRequests,
  mappedResources,
  type RequestMapping,
  sourceOn,
} from "./extendedResources.ts";
import { type GetClaim, heldClaimsOf, isOwnedBy, type PodClaim } from "./podClaims.ts";

/** Which of the pod's extended resources come from claims on a node. */
export interface NodeSplit {
  readonly byClaims: ReadonlySet<string>;
  /** Nodes with the same key need the same claim. */
  readonly key: string;
  readonly requests: readonly DeviceRequest[];
  readonly mappings: readonly RequestMapping[];
}

/** The entry of the claim among a pod's claims. It is not a valid name, so no entry of a pod has it. */
export const extendedEntry = "<extended-resources>";
const noSplit: NodeSplit = { byClaims: new Set(), key: "", requests: [], mappings: [] };

export function splitOn(pod: Pod, node: Node, classFor: (resource: string) => DeviceClass | undefined): NodeSplit {
  const resources = mappedResources(pod, classFor);
  if (resources.length === 0) return noSplit;
  const byClaims = resources.filter((resource) => sourceOn(node, resource, classFor) === "claims");
  if (byClaims.length === 0) return noSplit;
  const { requests, mappings } = extendedRequests(pod, byClaims, classFor);
  return { byClaims: new Set(byClaims), key: byClaims.join(","), requests, mappings };
}

/** The name is derived from the pod, so that two attempts create one claim. */
export function extendedClaimName({ metadata }: Pod): string {
  return `${claimNameBase(metadata.name, "extended-resources")}${suffixOf(metadata.uid, "extended-resources")}`;
}

/** The claim to create; it has no resourceVersion. */
export function extendedClaimToCreate(pod: Pod, requests: readonly DeviceRequest[]): ResourceClaim {
  const { namespace = "", uid, name } = pod.metadata;
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      name: extendedClaimName(pod),
      namespace,
      uid: seededUuid("extended", uid),
      resourceVersion: "",
      creationTimestamp: "",
      annotations: { [extendedClaimAnnotation]: "true" },
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: { devices: { requests: [...requests] } },
  };
}

export function isNotCreatedYet({ metadata }: ResourceClaim): boolean {
  return metadata.resourceVersion === "";
}

/** The claim that was created for the pod. A binder may have given it another name, which the pod's status has. */
export function createdExtendedClaim(pod: Pod, get: GetClaim): ResourceClaim | undefined {
  const { namespace = "" } = pod.metadata;
  for (const name of [pod.status?.extendedResourceClaimStatus?.resourceClaimName, extendedClaimName(pod)]) {
    const claim = name === undefined ? undefined : get(namespace, name);
    if (claim !== undefined && isOwnedBy(claim, pod)) return claim;
  }
  return undefined;
}

/** The pod's claim if it exists, else the claim to create for such a node; undefined where the node needs none. */
export function extendedClaimOn(
  pod: Pod,
  { requests }: NodeSplit,
  born: ResourceClaim | undefined,
): PodClaim | undefined {
  if (requests.length === 0) return undefined;
  if (born === undefined) return { entry: extendedEntry, claim: extendedClaimToCreate(pod, requests) };
  return { entry: extendedEntry, claim: born };
}

/** All claims that a pod has or had, including the one for its extended resources. */
export function claimsHeldBy(pod: Pod, get: GetClaim): readonly PodClaim[] {
  const named = heldClaimsOf(pod, get);
  const born = createdExtendedClaim(pod, get);
  return born === undefined ? named : [...named, { entry: extendedEntry, claim: born }];
}
