/** Claims that a pod gets from templates: which exist already, which are to be made, and what the pod's status says of them. */

import { type CreateIntent, expectedOf, type Intent } from "../../model/intent.ts";
import { equalJson, type JsonObject } from "../../model/json.ts";
import type {
  Pod,
  PodResourceClaimStatus,
  ResourceClaim,
  ResourceClaimTemplate,
} from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import type { Revision } from "../../model/revision.ts";
import { suffixOf } from "../workloads/derivedName.ts";
import { podReference } from "./bindClaim.ts";
import { claimKind } from "./claimTracker.ts";
import { deleteProtection, isFinished, isOwnedBy, isReservedFor, podClaimNameAnnotation } from "./podClaims.ts";

export interface GenerateInput {
  readonly pod: Pod;
  readonly templateOf: (name: string) => ResourceClaimTemplate | undefined;
  readonly claimOf: (name: string) => ResourceClaim | undefined;
  /** Claims that have the pod as their owner, by UID. */
  readonly owned: readonly ResourceClaim[];
  /** Up to which the claims are known: a name that is missing was free then. */
  readonly absentAt: Revision;
}

export interface Generated {
  /** Claims to make, then, when all exist, the pod's status, then reservations. Each turn sends what it can. */
  readonly creates: readonly CreateIntent[];
  readonly status: Intent | undefined;
  readonly reserves: readonly Intent[];
  /** Templates that do not exist; they will wake the pod when they do. */
  readonly missing: readonly string[];
}

const nothing: Generated = { creates: [], status: undefined, reserves: [], missing: [] };

export function generateClaims(input: GenerateInput): Generated {
  const { pod, claimOf } = input;
  if (pod.metadata.deletionTimestamp !== undefined || isFinished(pod)) return nothing;
  const creates: CreateIntent[] = [];
  const missing: string[] = [];
  const statuses = new Map<string, PodResourceClaimStatus>();
  for (const each of pod.status?.resourceClaimStatuses ?? []) statuses.set(each.name, each);
  const used: ResourceClaim[] = [];
  for (const { name: entry, resourceClaimName, resourceClaimTemplateName } of pod.spec?.resourceClaims ?? []) {
    if (resourceClaimName !== undefined) {
      const claim = claimOf(resourceClaimName);
      if (claim !== undefined) used.push(claim);
      continue;
    }
    if (resourceClaimTemplateName === undefined) continue;
    const recorded = statuses.get(entry)?.resourceClaimName;
    const known = recorded === undefined ? undefined : claimOf(recorded);
    const claim =
      known !== undefined && isOwnedBy(known, pod)
        ? known
        : input.owned.find(({ metadata }) => metadata.annotations?.[podClaimNameAnnotation] === entry);
    if (claim !== undefined) {
      statuses.set(entry, { name: entry, resourceClaimName: claim.metadata.name });
      used.push(claim);
      continue;
    }
    const template = input.templateOf(resourceClaimTemplateName);
    if (template === undefined) missing.push(resourceClaimTemplateName);
    else creates.push(newClaim(input, entry, template));
  }
  const status = creates.length > 0 || missing.length > 0 ? undefined : statusOf(pod, statuses);
  return { creates, status, reserves: status === undefined ? reservesOf(pod, used) : [], missing };
}

/** The name follows from the pod's UID and the entry: a create that is sent twice makes one claim. */
function newClaim(
  { pod, claimOf, absentAt }: GenerateInput,
  entry: string,
  template: ResourceClaimTemplate,
): CreateIntent {
  const { namespace = "", uid } = pod.metadata;
  const base = claimNameBase(pod.metadata.name, entry);
  let slot = 0;
  let name = `${base}${suffixOf(uid, entry, slot)}`;
  // Somebody else's claim may have the name by chance.
  for (let taken = claimOf(name); taken !== undefined; taken = claimOf(name))
    name = `${base}${suffixOf(uid, entry, ++slot)}`;
  const { labels, annotations } = template.spec.metadata ?? {};
  return {
    type: "create",
    target: { ...claimKind, namespace, name },
    absentAt,
    object: {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: {
        name,
        namespace,
        ...(labels !== undefined && { labels: { ...labels } }),
        annotations: { ...annotations, [podClaimNameAnnotation]: entry },
        // It will be allocated soon, and then it must have it: born with it, a write is spared.
        finalizers: [deleteProtection],
        ownerReferences: [
          { apiVersion: "v1", kind: "Pod", name: pod.metadata.name, uid, controller: true, blockOwnerDeletion: true },
        ],
      },
      spec: template.spec.spec,
    },
    why: `pod ${pod.metadata.name} wants a claim from template ${template.metadata.name}`,
  };
}

const baseLengthMax = 57;

/** Both names, shortened alike until they fit, each followed by a dash. */
export function claimNameBase(pod: string, entry: string): string {
  const room = baseLengthMax - 1;
  const over = pod.length + entry.length - room;
  if (over <= 0) return `${pod}-${entry}-`;
  const podCut = Math.ceil((over * pod.length) / (pod.length + entry.length));
  return `${pod.slice(0, pod.length - podCut)}-${entry.slice(0, room - (pod.length - podCut))}-`;
}

/** Sorted by name and merged with what is there, so that two writers do not take turns. */
function statusOf(pod: Pod, statuses: ReadonlyMap<string, PodResourceClaimStatus>): Intent | undefined {
  const wanted = [...statuses.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const before = [...(pod.status?.resourceClaimStatuses ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
  if (equalJson(wanted, before)) return undefined;
  const fields = { apiVersion: "v1", kind: "Pod", status: { resourceClaimStatuses: wanted } } as unknown as JsonObject;
  const { namespace = "", name } = pod.metadata;
  return {
    type: "apply",
    target: { group: "", version: "v1", plural: "pods", namespace, name },
    expected: expectedOf(pod as unknown as KubeObject),
    fields,
    force: true,
    subresource: "status",
    why: "the pod's claims exist",
  };
}

/** A pod that was given its node by hand is added to the claims that are allocated already. */
function reservesOf(pod: Pod, claims: readonly ResourceClaim[]): Intent[] {
  if (!pod.spec?.nodeName) return [];
  const intents: Intent[] = [];
  for (const claim of claims) {
    const { allocation, reservedFor = [] } = claim.status ?? {};
    if (allocation === undefined || isReservedFor(claim, pod.metadata.uid)) continue;
    if (claim.metadata.deletionTimestamp !== undefined) continue;
    const object = { ...claim, status: { ...claim.status, reservedFor: [...reservedFor, podReference(pod)] } };
    const { namespace = "", name } = claim.metadata;
    intents.push({
      type: "status",
      target: { ...claimKind, namespace, name },
      expected: expectedOf(claim as unknown as KubeObject),
      object: object as unknown as KubeObject,
      why: `pod ${pod.metadata.name} uses it on node ${pod.spec.nodeName}`,
    });
  }
  return intents;
}
