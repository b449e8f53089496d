/** ResourceClaims that pods share: the desired claims at each level, and those that a pod uses. */
import { components, labels } from "../../../model/gang/keys.ts";
import { groupReplicasInReach, podsInReach, replicasInReach } from "../../../model/gang/reach.ts";
import type {
  ClaimTemplate,
  CliqueTemplate,
  GroupTemplate,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  ResourceSharing,
} from "../../../model/gang/types.ts";
import type { NewObject } from "../../../model/intent.ts";
import type { ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import type { GangDraft } from "../gangDraft.ts";
import { defaultLabels, ownerOf } from "../gangLabels.ts";
import { claimName } from "../names.ts";

/** Finds a template of the cluster by namespace and name. */
export type TemplateNamed = (namespace: string, name: string) => ResourceClaimTemplate | undefined;

export interface ClaimPlace {
  readonly set: PodCliqueSet;
  /** The owner of the claims; the name of each claim begins with its name. */
  readonly owner: KubeObject;
  readonly sharing: readonly ResourceSharing[] | undefined;
  /** The indexes of the existing replicas. */
  readonly replicas: readonly number[];
  /** Labels beside the index of the replica. */
  readonly labels: Readonly<Record<string, string>>;
  readonly indexLabel: string;
}

export const setClaims = (set: PodCliqueSet, replicas = numbersUpTo(replicasInReach(set))): ClaimPlace => ({
  set,
  owner: set,
  sharing: set.spec.template.resourceSharing,
  replicas,
  labels: {},
  indexLabel: labels.setReplica,
});

export const groupClaims = (set: PodCliqueSet, group: PodCliqueScalingGroup, template: GroupTemplate): ClaimPlace => ({
  set,
  owner: group,
  sharing: template.resourceSharing,
  replicas: numbersUpTo(groupReplicasInReach(set, template, group.spec)),
  labels: { [labels.group]: group.metadata.name },
  indexLabel: labels.groupReplica,
});

export const cliqueClaims = (set: PodCliqueSet, clique: PodClique, template: CliqueTemplate): ClaimPlace => ({
  set,
  owner: clique,
  sharing: template.resourceSharing,
  replicas: numbersUpTo(podsInReach(set, clique.spec)),
  labels: { [labels.clique]: clique.metadata.name },
  indexLabel: labels.podIndex,
});

export function numbersUpTo(count: number): number[] {
  return Array.from({ length: Math.max(0, count) }, (_, at) => at);
}

/** Creates missing claims and deletes those of replicas that are gone. A missing template is reported. */
export function syncClaims(
  draft: GangDraft,
  place: ClaimPlace,
  existing: readonly ResourceClaim[],
  templateNamed: TemplateNamed,
): string | undefined {
  const { set, owner, sharing = [], replicas } = place;
  const wanted = new Set<string>();
  const byName = new Map(existing.map((claim) => [claim.metadata.name, claim]));
  let problem: string | undefined;
  for (const entry of sharing) {
    const template = resolveTemplate(set, entry, templateNamed);
    if (template === undefined) {
      const namespace = entry.namespace || set.metadata.namespace;
      problem ??= `ResourceClaimTemplate ${namespace}/${entry.name} does not exist`;
    }
    const indexes: (number | "all")[] = entry.scope === "AllReplicas" ? ["all"] : [...replicas];
    for (const index of indexes) {
      const name = claimName(owner.metadata.name, index, entry.name);
      wanted.add(name);
      const claim = byName.get(name);
      if (claim === undefined && template !== undefined)
        draft.create(claimOf(place, name, index, template), `${entry.name} is shared`);
      if (claim !== undefined) keepClaim(draft, place, claim, index);
    }
  }
  if (sharing.length === 0) return problem;
  for (const claim of existing) {
    const isOurs = claim.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) === true;
    if (isOurs && !wanted.has(claim.metadata.name)) {
      draft.remove(claim, "its replica does not exist any more", {
        stillRight: (fresh) => fresh.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) === true,
      });
    }
  }
  return problem;
}

/** A claim that does not exist yet. The reconcile of the set creates it. */
export function missingClaim(
  { owner, sharing = [], replicas }: ClaimPlace,
  existing: readonly ResourceClaim[],
): string | undefined {
  if (sharing.length === 0) return undefined;
  const names = new Set(existing.map(({ metadata }) => metadata.name));
  for (const entry of sharing) {
    for (const index of entry.scope === "AllReplicas" ? (["all"] as const) : replicas) {
      const name = claimName(owner.metadata.name, index, entry.name);
      if (!names.has(name)) return `claim ${name} does not exist yet`;
    }
  }
  return undefined;
}

function keepClaim(draft: GangDraft, place: ClaimPlace, claim: ResourceClaim, index: number | "all"): void {
  const wanted = labelsOf(place, index);
  const isSame = Object.entries(wanted).every(([key, value]) => claim.metadata.labels?.[key] === value);
  if (isSame || draft.has(claim)) return;
  draft.patch(claim, { metadata: { labels: wanted } }, "its labels name its owner");
}

function labelsOf({ set, labels: more, indexLabel }: ClaimPlace, index: number | "all"): Record<string, string> {
  return {
    ...defaultLabels(set.metadata.name),
    [labels.component]: components.claim,
    ...more,
    ...(index !== "all" && { [indexLabel]: String(index) }),
  };
}

function claimOf(
  place: ClaimPlace,
  name: string,
  index: number | "all",
  { templateSpec }: Pick<ClaimTemplate, "templateSpec">,
): NewObject {
  const { metadata, spec } = templateSpec;
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      name,
      namespace: place.set.metadata.namespace ?? "default",
      labels: { ...metadata?.labels, ...labelsOf(place, index) },
      ...(metadata?.annotations && { annotations: metadata.annotations }),
      ownerReferences: [ownerOf(place.owner)],
    },
    spec,
  };
}

function resolveTemplate(
  set: PodCliqueSet,
  { name, namespace = "" }: ResourceSharing,
  templateNamed: TemplateNamed,
): Pick<ClaimTemplate, "templateSpec"> | undefined {
  if (namespace === "") {
    const own = set.spec.template.resourceClaimTemplates?.find((template) => template.name === name);
    if (own !== undefined) return own;
  }
  const found = templateNamed(namespace === "" ? (set.metadata.namespace ?? "default") : namespace, name);
  return found === undefined ? undefined : { templateSpec: found.spec };
}

export interface PodPlace {
  readonly set: PodCliqueSet;
  readonly setReplica: number;
  readonly clique: CliqueTemplate;
  readonly cliqueName: string;
  readonly podIndex: number;
  readonly group?: { readonly template: GroupTemplate; readonly name: string; readonly replica: number };
}

/** The claims that a pod uses, from the set down to the clique. */
export function claimsOfPod({ set, setReplica, clique, cliqueName, podIndex, group }: PodPlace): string[] {
  const names: string[] = [];
  const add = (owner: string, index: number, sharing: readonly ResourceSharing[] | undefined, isFor: IsFor): void => {
    for (const scope of ["AllReplicas", "PerReplica"] as const) {
      for (const entry of sharing ?? []) {
        if (entry.scope === scope && isFor(entry)) {
          names.push(claimName(owner, scope === "AllReplicas" ? "all" : index, entry.name));
        }
      }
    }
  };
  add(set.metadata.name, setReplica, set.spec.template.resourceSharing, ({ filter }) => {
    if (filter === undefined) return true;
    const isNamed = filter.childCliqueNames?.includes(clique.name) === true;
    return isNamed || (group !== undefined && filter.childScalingGroupNames?.includes(group.template.name) === true);
  });
  if (group !== undefined) {
    add(group.name, group.replica, group.template.resourceSharing, ({ filter }) => {
      return filter === undefined || filter.childCliqueNames?.includes(clique.name) === true;
    });
  }
  add(cliqueName, podIndex, clique.resourceSharing, () => true);
  return names;
}

type IsFor = (entry: ResourceSharing) => boolean;
