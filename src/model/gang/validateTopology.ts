/** Validation of topology: of a set against its binding, and of a binding itself. */
import { duplicate, fieldNotFound, forbidden, invalid, required } from "../objects/fieldError.ts";
import { Findings } from "./findings.ts";
import { cliqueNamed, groupsOf } from "./setFacts.ts";
import type { GangSettings, SchedulerName } from "./settings.ts";
import type { ClusterTopologyBinding, PodCliqueSet, TopologyConstraint } from "./types.ts";
import { constraintsOf, requiredDomain } from "./validateSetUpdate.ts";

const root = "spec.template";

/** The binding that a set names; all its constraints name the same one or inherit it. */
export function topologyNameOf(set: PodCliqueSet): string | undefined {
  for (const { constraint } of constraintsOf(set)) {
    if (constraint.topologyName !== undefined && constraint.topologyName !== "") return constraint.topologyName;
  }
  return undefined;
}

export function validateSetTopology(
  set: PodCliqueSet,
  { topologyAware }: GangSettings,
  bindingNamed: (name: string) => ClusterTopologyBinding | undefined,
): Findings {
  const found = new Findings();
  const placed = constraintsOf(set);
  if (placed.length === 0) return found;
  if (!topologyAware) {
    for (const { field } of placed) found.add(forbidden(field, "topology-aware scheduling is disabled"));
    return found;
  }
  for (const { field, constraint } of placed) {
    if (resolvedName(set, field, constraint) === undefined) {
      found.add(required(`${field}.topologyName`, "must be set here or at a level above"));
    }
  }
  const names = new Set(placed.flatMap(({ constraint }) => constraint.topologyName ?? []));
  const [name] = names;
  if (names.size > 1) {
    for (const { field, constraint } of placed) {
      if (constraint.topologyName === undefined || constraint.topologyName === name) continue;
      found.add(invalid(`${field}.topologyName`, constraint.topologyName, `the set already names topology ${name}`));
    }
    return found;
  }
  if (name === undefined) return found;
  const binding = bindingNamed(name);
  if (binding === undefined) {
    for (const { field, constraint } of placed) {
      if (constraint.topologyName !== undefined) found.add(fieldNotFound(`${field}.topologyName`, name));
    }
    return found;
  }
  const levels = binding.spec.levels.map(({ domain }) => domain);
  for (const { field, constraint } of placed) checkDomains(found, field, constraint, levels);
  checkHierarchy(set, levels, found);
  return found;
}

/** Its own name, or the one of the nearest level above that is constrained. */
function resolvedName(set: PodCliqueSet, field: string, { topologyName }: TopologyConstraint): string | undefined {
  if (topologyName !== undefined && topologyName !== "") return topologyName;
  const match = /^spec\.template\.cliques\[(\d+)\]/.exec(field);
  const clique = match === null ? undefined : set.spec.template.cliques[Number(match[1])];
  const group = groupsOf(set).find(({ cliqueNames }) => clique !== undefined && cliqueNames.includes(clique.name));
  return group?.topologyConstraint?.topologyName ?? set.spec.template.topologyConstraint?.topologyName;
}

function checkDomains(found: Findings, field: string, constraint: TopologyConstraint, levels: readonly string[]): void {
  const hard = requiredDomain(constraint);
  const preferred = constraint.pack?.preferred;
  const known = `the topology has ${levels.join(", ")}`;
  if (hard !== undefined && !levels.includes(hard)) found.add(invalid(`${field}.pack.required`, hard, known));
  if (preferred !== undefined && !levels.includes(preferred)) {
    found.add(invalid(`${field}.pack.preferred`, preferred, known));
  }
  if (hard !== undefined && preferred !== undefined && levels.indexOf(preferred) < levels.indexOf(hard)) {
    found.warn(`${field}.pack.preferred: ${preferred} is a wider domain than pack.required, ${hard}`);
  }
}

/** The constraint of a set or group must not be narrower than those of its members. */
function checkHierarchy(set: PodCliqueSet, levels: readonly string[], found: Findings): void {
  const check = (
    field: string,
    parent: TopologyConstraint | undefined,
    child: TopologyConstraint | undefined,
    whose: string,
  ): void => {
    if (parent === undefined || child === undefined) return;
    const pairs = [
      ["required", requiredDomain(parent), requiredDomain(child)],
      ["preferred", parent.pack?.preferred, child.pack?.preferred],
    ] as const;
    for (const [name, above, below] of pairs) {
      if (above === undefined || below === undefined) continue;
      if (levels.indexOf(above) <= levels.indexOf(below)) continue;
      found.add(
        invalid(`${field}.topologyConstraint.pack.${name}`, below, `${whose} requires ${above}, which is narrower`),
      );
    }
  };
  const own = set.spec.template.topologyConstraint;
  for (const [at, { topologyConstraint }] of set.spec.template.cliques.entries()) {
    check(`${root}.cliques[${at}]`, own, topologyConstraint, "the set");
  }
  for (const [at, group] of groupsOf(set).entries()) {
    check(`${root}.podCliqueScalingGroups[${at}]`, own, group.topologyConstraint, "the set");
    for (const name of group.cliqueNames) {
      const cliqueAt = set.spec.template.cliques.findIndex((clique) => clique.name === name);
      const clique = cliqueNamed(set, name);
      check(
        `${root}.cliques[${cliqueAt}]`,
        group.topologyConstraint,
        clique?.topologyConstraint,
        `scaling group ${group.name}`,
      );
    }
  }
}

/** Grove's older name of the field, which clients expect. */
const referencesField = "spec.schedulerTopologyReferences";

/** Schedulers that know about topology. */
export const topologyAwareSchedulers: readonly SchedulerName[] = ["kai-scheduler"];

export function validateBinding({ spec }: ClusterTopologyBinding, { profiles }: GangSettings): Findings {
  const found = new Findings();
  const [domains, keys, schedulers] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const [at, { domain, key }] of spec.levels.entries()) {
    if (domains.has(domain)) found.add(duplicate(`spec.levels[${at}].domain`, domain));
    if (keys.has(key)) found.add(duplicate(`spec.levels[${at}].key`, key));
    domains.add(domain);
    keys.add(key);
  }
  for (const [at, { schedulerName }] of (spec.schedulerTopologyBindings ?? []).entries()) {
    const field = `${referencesField}[${at}].schedulerName`;
    if (schedulers.has(schedulerName)) found.add(duplicate(field, schedulerName));
    schedulers.add(schedulerName);
    if (!profiles.includes(schedulerName as SchedulerName)) {
      found.add(invalid(field, schedulerName, "the scheduler is not enabled"));
    } else if (!topologyAwareSchedulers.includes(schedulerName as SchedulerName)) {
      found.add(invalid(field, schedulerName, "the scheduler does not support topology"));
    }
  }
  return found;
}
