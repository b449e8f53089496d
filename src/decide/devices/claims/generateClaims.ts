/**
 * Claims that a pod gets from templates: which exist already, which have to be created, and how the pod's status
 * records them.
 */

import { type CreateIntent, expectedOf, type Intent } from "../../../model/intent.ts";
import type {
  Pod,
  PodResourceClaimStatus,
  ResourceClaim,
  ResourceClaimTemplate,
} from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { Revision } from "../../../model/revision.ts";
import { claimKind } from "../claimTracker.ts";
import { podReference } from "./bindClaim.ts";
import { claimFromTemplate } from "./claimFromTemplate.ts";
import { claimForEntry, isFinished, isOwnedBy, isReservedFor, type PodClaim } from "./podClaims.ts";
import { groupClaimName, groupOfEntry, groupReference, type PodsGroup } from "./podsGroup.ts";

export interface GenerateInput {
  readonly pod: Pod;
  readonly templateOf: (name: string) => ResourceClaimTemplate | undefined;
  readonly claimOf: (name: string) => ResourceClaim | undefined;
  /** Claims that have the pod as their owner, by UID. */
  readonly owned: readonly ResourceClaim[];
  /** The revision of the claims: a missing name was free at it. */
  readonly absentAtRevision: Revision;
  /** The pod's group, where groups have claims. */
  readonly group?: PodsGroup;
}

export interface Generated {
  /** Claims to create; when all exist, the pod's status; then reservations. Each reconcile sends what it can. */
  readonly creates: readonly CreateIntent[];
  readonly status: Intent | undefined;
  readonly reserves: readonly Intent[];
  /** Templates that do not exist; their creation enqueues the pod. */
  readonly missing: readonly string[];
}

const nothing: Generated = { creates: [], status: undefined, reserves: [], missing: [] };

export function generateClaims(input: GenerateInput): Generated {
  const { pod, claimOf, group: podsGroup = "none" } = input;
  if (pod.metadata.deletionTimestamp !== undefined || isFinished(pod)) return nothing;
  // The entries of the group are unknown until the group is observed.
  if (podsGroup === "missing") return nothing;
  const owner = { apiVersion: "v1", kind: "Pod", of: pod } as const;
  const creates: CreateIntent[] = [];
  const missing: string[] = [];
  const statuses = new Map<string, PodResourceClaimStatus>();
  for (const each of pod.status?.resourceClaimStatuses ?? []) statuses.set(each.name, each);
  const used: PodClaim[] = [];
  for (const each of pod.spec?.resourceClaims ?? []) {
    const { name: entry, resourceClaimName, resourceClaimTemplateName } = each;
    if (resourceClaimName !== undefined) {
      const claim = claimOf(resourceClaimName);
      const group = groupOfEntry(podsGroup, each);
      if (claim !== undefined) used.push({ entry, claim, ...(group !== undefined && { group }) });
      continue;
    }
    if (resourceClaimTemplateName === undefined) continue;
    const group = groupOfEntry(podsGroup, each);
    if (group !== undefined) {
      // The claim of the group is created for the group; until then the pod has none.
      const name = groupClaimName(group, entry);
      const claim = name === undefined ? undefined : claimOf(name);
      if (claim === undefined || !isOwnedBy(claim, group)) continue;
      statuses.set(entry, { name: entry, resourceClaimName: claim.metadata.name });
      used.push({ entry, claim, group });
      continue;
    }
    const recorded = statuses.get(entry)?.resourceClaimName;
    const known = recorded === undefined ? undefined : claimOf(recorded);
    const claim = known !== undefined && isOwnedBy(known, pod) ? known : claimForEntry(input.owned, entry);
    if (claim !== undefined) {
      statuses.set(entry, { name: entry, resourceClaimName: claim.metadata.name });
      used.push({ entry, claim });
      continue;
    }
    const template = input.templateOf(resourceClaimTemplateName);
    if (template === undefined) missing.push(resourceClaimTemplateName);
    else creates.push(claimFromTemplate({ owner, entry, template, claimOf, absentAtRevision: input.absentAtRevision }));
  }
  const status = creates.length > 0 || missing.length > 0 ? undefined : statusOf(pod, statuses);
  return { creates, status, reserves: status === undefined ? reservesOf(pod, used) : [], missing };
}

/** Sorted by name and merged with the existing ones, so that two writers do not alternate. */
function statusOf(pod: Pod, statuses: ReadonlyMap<string, PodResourceClaimStatus>): Intent | undefined {
  const wanted = [...statuses.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const before = [...(pod.status?.resourceClaimStatuses ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
  if (equalFields(wanted, before)) return undefined;
  const fields = { apiVersion: "v1", kind: "Pod", status: { resourceClaimStatuses: wanted } };
  const { namespace = "", name } = pod.metadata;
  return {
    type: "apply",
    target: { group: "", version: "v1", plural: "pods", namespace, name },
    expected: expectedOf(pod),
    fields,
    force: true,
    subresource: "status",
    why: "the pod's claims exist",
  };
}

/** A pod whose nodeName was set by a user is added to claims that are allocated already. */
function reservesOf(pod: Pod, claims: readonly PodClaim[]): Intent[] {
  if (!pod.spec?.nodeName) return [];
  const intents: Intent[] = [];
  for (const { claim, group } of claims) {
    const { allocation, reservedFor = [] } = claim.status ?? {};
    const user = group === undefined ? podReference(pod) : groupReference(group);
    if (allocation === undefined || isReservedFor(claim, user.uid)) continue;
    if (claim.metadata.deletionTimestamp !== undefined) continue;
    const object = { ...claim, status: { ...claim.status, reservedFor: [...reservedFor, user] } };
    const { namespace = "", name } = claim.metadata;
    intents.push({
      type: "status",
      target: { ...claimKind, namespace, name },
      expected: expectedOf(claim),
      object: object,
      why: `pod ${pod.metadata.name} uses it on node ${pod.spec.nodeName}`,
    });
  }
  return intents;
}
