/**
 * Claims that a PodGroup gets from templates, one for all of its pods; created like those of a pod, with the group as
 * their owner.
 */
import { type CreateIntent, expectedOf, type Intent } from "../../../model/intent.ts";
import type { PodGroup, ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { Revision } from "../../../model/revision.ts";
import { claimFromTemplate } from "./claimFromTemplate.ts";
import { claimForEntry, isOwnedBy } from "./podClaims.ts";
import { podGroupKind } from "./podsGroup.ts";

export interface GenerateForGroupInput {
  readonly group: PodGroup;
  readonly templateOf: (name: string) => ResourceClaimTemplate | undefined;
  readonly claimOf: (name: string) => ResourceClaim | undefined;
  /** Claims that have the group as their owner, by UID. */
  readonly owned: readonly ResourceClaim[];
  readonly absentAtRevision: Revision;
}

export interface GeneratedForGroup {
  readonly creates: readonly CreateIntent[];
  readonly status: Intent | undefined;
  readonly missing: readonly string[];
}

/** Claims to create for the group; when all exist, its status. */
export function generateForGroup(input: GenerateForGroupInput): GeneratedForGroup {
  const { group, claimOf, owned } = input;
  if (group.metadata.deletionTimestamp !== undefined) return { creates: [], status: undefined, missing: [] };
  const creates: CreateIntent[] = [];
  const missing: string[] = [];
  const statuses = new Map((group.status?.resourceClaimStatuses ?? []).map((each) => [each.name, each]));
  const owner = { apiVersion: `${podGroupKind.group}/${podGroupKind.version}`, kind: "PodGroup", of: group } as const;
  for (const { name: entry, resourceClaimTemplateName } of group.spec.resourceClaims ?? []) {
    if (resourceClaimTemplateName === undefined) continue;
    const recorded = statuses.get(entry)?.resourceClaimName;
    const known = recorded === undefined ? undefined : claimOf(recorded);
    const claim = known !== undefined && isOwnedBy(known, group) ? known : claimForEntry(owned, entry);
    if (claim !== undefined) {
      statuses.set(entry, { name: entry, resourceClaimName: claim.metadata.name });
      continue;
    }
    const template = input.templateOf(resourceClaimTemplateName);
    if (template === undefined) missing.push(resourceClaimTemplateName);
    else creates.push(claimFromTemplate({ owner, entry, template, claimOf, absentAtRevision: input.absentAtRevision }));
  }
  const isWhole = creates.length === 0 && missing.length === 0;
  return { creates, status: isWhole ? statusOf(group, [...statuses.values()]) : undefined, missing };
}

function statusOf(group: PodGroup, statuses: { name: string; resourceClaimName?: string }[]): Intent | undefined {
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  const wanted = [...statuses].sort(byName);
  const before = [...(group.status?.resourceClaimStatuses ?? [])].sort(byName);
  if (equalFields(wanted, before)) return undefined;
  const { namespace = "", name } = group.metadata;
  const fields = {
    apiVersion: `${podGroupKind.group}/${podGroupKind.version}`,
    kind: "PodGroup",
    status: { resourceClaimStatuses: wanted },
  };
  return {
    type: "apply",
    target: { ...podGroupKind, namespace, name },
    expected: expectedOf(group),
    fields,
    force: true,
    subresource: "status",
    why: "the group's claims exist",
  };
}
