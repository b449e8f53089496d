/** Fields of a PodCliqueSet that are immutable. */
import { type FieldError, forbidden, invalid } from "../objects/fieldError.ts";
import { equalJson } from "../objects/json.ts";
import { Findings } from "./findings.ts";
import { annotations as annotationKeys } from "./keys.ts";
import { cliqueNamed, cliquesOf, groupNamed, groupsOf } from "./setFacts.ts";
import type { CliqueTemplate, GroupTemplate, PodCliqueSet, TopologyConstraint } from "./types.ts";

const root = "spec.template";
const immutable = "field is immutable";

export function validateSetUpdate(set: PodCliqueSet, before: PodCliqueSet): Findings {
  const found = new Findings();
  const same = (field: string, now: unknown, then: unknown): void => {
    if (!equalJson(now ?? null, then ?? null)) found.add(invalid(field, now ?? null, immutable));
  };
  const [now, then] = [set.spec.template, before.spec.template];
  same(`${root}.cliqueStartupType`, now.cliqueStartupType, then.cliqueStartupType);
  same(`${root}.resourceClaimTemplates`, now.resourceClaimTemplates, then.resourceClaimTemplates);
  same(`${root}.resourceSharing`, now.resourceSharing, then.resourceSharing);
  validateMembers(set, before, found);
  for (const [at, clique] of cliquesOf(set).entries()) {
    const old = cliqueNamed(before, clique.name);
    if (old === undefined) continue;
    const field = `${root}.cliques[${at}]`;
    same(`${field}.spec.roleName`, clique.spec.roleName, old.spec.roleName);
    same(`${field}.spec.minAvailable`, clique.spec.minAvailable, old.spec.minAvailable);
    same(`${field}.spec.startsAfter`, clique.spec.startsAfter, old.spec.startsAfter);
    same(
      `${field}.spec.podSpec.schedulerName`,
      clique.spec.podSpec.schedulerName ?? "",
      old.spec.podSpec.schedulerName ?? "",
    );
    same(`${field}.resourceSharing`, clique.resourceSharing, old.resourceSharing);
  }
  for (const [at, group] of groupsOf(set).entries()) {
    const old = groupNamed(before, group.name);
    if (old === undefined) continue;
    const field = `${root}.podCliqueScalingGroups[${at}]`;
    same(`${field}.cliqueNames`, group.cliqueNames, old.cliqueNames);
    same(`${field}.minAvailable`, group.minAvailable ?? 1, old.minAvailable ?? 1);
    same(`${field}.resourceSharing`, group.resourceSharing, old.resourceSharing);
  }
  validateTopologyChange(set, before, found);
  validateMnnvlChange(set, before, found);
  return found;
}

/** The cliques and groups of a set are fixed at creation; so is their order where it has a meaning. */
function validateMembers(set: PodCliqueSet, before: PodCliqueSet, found: Findings): void {
  const names = (items: readonly { name: string }[]): string[] => items.map(({ name }) => name);
  const [cliques, oldCliques] = [names(cliquesOf(set)), names(cliquesOf(before))];
  if (!equalJson([...cliques].sort(), [...oldCliques].sort())) {
    found.add(forbidden(`${root}.cliques`, "cliques cannot be added or removed"));
  } else if (set.spec.template.cliqueStartupType !== "CliqueStartupTypeAnyOrder" && !equalJson(cliques, oldCliques)) {
    found.add(invalid(`${root}.cliques`, cliques, "the order of cliques is their start order and is immutable"));
  }
  const [groups, oldGroups] = [names(groupsOf(set)), names(groupsOf(before))];
  if (!equalJson([...groups].sort(), [...oldGroups].sort())) {
    found.add(forbidden(`${root}.podCliqueScalingGroups`, "scaling groups cannot be added or removed"));
  }
}

/** A constraint with its path. */
export interface PlacedConstraint {
  readonly field: string;
  readonly constraint: TopologyConstraint;
}

export function constraintsOf(set: PodCliqueSet): PlacedConstraint[] {
  const placed = (field: string, { topologyConstraint }: { topologyConstraint?: TopologyConstraint }) =>
    topologyConstraint === undefined ? [] : [{ field: `${field}.topologyConstraint`, constraint: topologyConstraint }];
  return [
    ...placed(root, set.spec.template),
    ...cliquesOf(set).flatMap((clique, at) => placed(`${root}.cliques[${at}]`, clique)),
    ...groupsOf(set).flatMap((group, at) => placed(`${root}.podCliqueScalingGroups[${at}]`, group)),
  ];
}

export function requiredDomain({ pack, packDomain }: TopologyConstraint): string | undefined {
  return pack?.required ?? packDomain;
}

/** Immutable, but for the move from the old field to the new one and for naming the topology of an old object. */
function validateTopologyChange(set: PodCliqueSet, before: PodCliqueSet, found: Findings): void {
  const compare = (
    field: string,
    now: { topologyConstraint?: TopologyConstraint },
    then: { topologyConstraint?: TopologyConstraint } | undefined,
  ): void => {
    const [a, b] = [now.topologyConstraint, then?.topologyConstraint];
    if (equalJson(a ?? null, b ?? null) || (a !== undefined && b !== undefined && isAllowedChange(a, b))) return;
    found.add(invalid(`${field}.topologyConstraint`, a ?? null, immutable));
  };
  compare(root, set.spec.template, before.spec.template);
  for (const [at, clique] of cliquesOf(set).entries()) {
    compare(`${root}.cliques[${at}]`, clique, cliqueNamed(before, clique.name));
  }
  for (const [at, group] of groupsOf(set).entries()) {
    compare(`${root}.podCliqueScalingGroups[${at}]`, group, groupNamed(before, group.name));
  }
  for (const { field, constraint } of constraintsOf(set)) {
    if (constraint.packDomain !== undefined) found.warn(`${field}.packDomain: use pack.required instead`);
  }
}

function isAllowedChange(now: TopologyConstraint, then: TopologyConstraint): boolean {
  const sameDomains = requiredDomain(now) === requiredDomain(then) && now.pack?.preferred === then.pack?.preferred;
  if (!sameDomains || then.packDomain === undefined) return false;
  return now.topologyName === then.topologyName || then.topologyName === undefined;
}

/** Whether an old object was given the name of its topology, after which it is validated as if it were new. */
export function isTopologyRepair(set: PodCliqueSet, before: PodCliqueSet): boolean {
  const hadNone = constraintsOf(before).every(({ constraint }) => constraint.topologyName === undefined);
  const isOld = constraintsOf(before).some(({ constraint }) => constraint.packDomain !== undefined);
  return isOld && hadNone && constraintsOf(set).some(({ constraint }) => constraint.topologyName !== undefined);
}

/** The MNNVL annotation is immutable. */
function validateMnnvlChange(set: PodCliqueSet, before: PodCliqueSet, found: Findings): void {
  const compare = (
    field: string,
    now: { annotations?: Record<string, string> } | undefined,
    then: { annotations?: Record<string, string> } | undefined,
  ): FieldError | undefined => {
    const value = now?.annotations?.[annotationKeys.mnnvlGroup];
    if (value === then?.annotations?.[annotationKeys.mnnvlGroup]) return undefined;
    return invalid(`${field}.annotations[${annotationKeys.mnnvlGroup}]`, value ?? "", immutable);
  };
  const errors = [
    compare("metadata", set.metadata, before.metadata),
    ...cliquesOf(set).map((clique: CliqueTemplate, at) =>
      compare(`${root}.cliques[${at}]`, clique, cliqueNamed(before, clique.name)),
    ),
    ...groupsOf(set).map((group: GroupTemplate, at) =>
      compare(`${root}.podCliqueScalingGroups[${at}]`, group, groupNamed(before, group.name)),
    ),
  ];
  for (const error of errors) if (error !== undefined) found.add(error);
}
