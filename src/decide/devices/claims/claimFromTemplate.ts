import type { CreateIntent } from "../../../model/intent.ts";
import type { ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import { suffixOf } from "../../../model/objects/derivedName.ts";
import type { Revision } from "../../../model/revision.ts";
import { claimKind } from "../claimTracker.ts";
import { deleteProtection, podClaimNameAnnotation } from "./podClaims.ts";

export interface ClaimOwner {
  readonly apiVersion: string;
  readonly kind: "Pod" | "PodGroup";
  readonly of: { readonly metadata: { readonly name: string; readonly namespace?: string; readonly uid: string } };
}

export interface FromTemplateInput {
  readonly owner: ClaimOwner;
  readonly entry: string;
  readonly template: ResourceClaimTemplate;
  readonly claimOf: (name: string) => ResourceClaim | undefined;
  readonly absentAtRevision: Revision;
}

/**
 * A claim for an entry of its owner. The name is derived from the owner's UID and the entry: a create that is sent
 * twice creates one claim.
 */
export function claimFromTemplate({
  owner,
  entry,
  template,
  claimOf,
  absentAtRevision,
}: FromTemplateInput): CreateIntent {
  const { apiVersion, kind } = owner;
  const { namespace = "", uid, name: ownerName } = owner.of.metadata;
  const base = claimNameBase(ownerName, entry);
  let slot = 0;
  let name = `${base}${suffixOf(uid, entry, slot)}`;
  // A claim with another owner may have the name by chance.
  for (let taken = claimOf(name); taken !== undefined; taken = claimOf(name))
    name = `${base}${suffixOf(uid, entry, ++slot)}`;
  const { labels, annotations } = template.spec.metadata ?? {};
  return {
    type: "create",
    target: { ...claimKind, namespace, name },
    absentAtRevision,
    object: {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: {
        name,
        namespace,
        ...(labels !== undefined && { labels: { ...labels } }),
        annotations: { ...annotations, [podClaimNameAnnotation]: entry },
        // An allocated claim must have the finalizer: setting it at creation saves a write.
        finalizers: [deleteProtection],
        ownerReferences: [{ apiVersion, kind, name: ownerName, uid, controller: true, blockOwnerDeletion: true }],
      },
      spec: template.spec.spec,
    },
    why: `${kind === "Pod" ? "pod" : "group"} ${ownerName} needs a claim from template ${template.metadata.name}`,
  };
}

const baseLengthMax = 57;

/** Both names, shortened alike until they fit, each followed by a dash. */
export function claimNameBase(owner: string, entry: string): string {
  const room = baseLengthMax - 1;
  const over = owner.length + entry.length - room;
  if (over <= 0) return `${owner}-${entry}-`;
  const ownerCut = Math.ceil((over * owner.length) / (owner.length + entry.length));
  return `${owner.slice(0, owner.length - ownerCut)}-${entry.slice(0, room - (owner.length - ownerCut))}-`;
}
