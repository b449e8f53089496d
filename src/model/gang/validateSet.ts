/** Validation of a PodCliqueSet, on create and on update. */

import type { Container } from "../kubernetes.generated.ts";
import { duplicate, fieldNotFound, forbidden, invalid, notSupported, required } from "../objects/fieldError.ts";
import { validateLabels } from "../objects/labelSelector.ts";
import { dnsLabelErrors, dnsSubdomainErrors, qualifiedNameErrors, relaxedEnvVarNameErrors } from "../objects/names.ts";
import { durationToMs } from "../values/goDuration.ts";
import { Findings } from "./findings.ts";
import { annotations as annotationKeys } from "./keys.ts";
import { cliqueNamed, cliquesOf, groupOfClique, groupsOf } from "./setFacts.ts";
import type { GangSettings, SchedulerName } from "./settings.ts";
import { startupCycles } from "./startupCycles.ts";
import type { AutoScalingConfig, CliqueTemplate, GroupTemplate, PodCliqueSet, ResourceSharing } from "./types.ts";

/** Names of children have to fit into names of pods and Services. */
const nameBudget = 45;

const startupTypes = ["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"];
const root = "spec.template";

export function validateSet(set: PodCliqueSet, settings: GangSettings, isCreate: boolean): Findings {
  const found = new Findings();
  validateTop(set, found);
  validateTemplates(set, found);
  const cliques = cliquesOf(set) ?? [];
  if (cliques.length === 0) found.add(required(`${root}.cliques`, "at least one clique is needed"));
  for (const [at, clique] of cliques.entries()) {
    validateClique(set, clique, `${root}.cliques[${at}]`, { found, isCreate });
  }
  checkUnique(found, cliques, "name", (at) => `${root}.cliques[${at}].name`);
  checkUnique(
    found,
    cliques.map(({ spec }) => ({ name: spec.roleName })),
    "name",
    (at) => `${root}.cliques[${at}].spec.roleName`,
  );
  validateSchedulers(set, settings, found);
  validateStartup(set, found);
  validateGroups(set, found);
  validateNameLengths(set, found);
  validateMnnvl(found, set.metadata.annotations, "metadata.annotations");
  validateQueue(set, settings, found);
  return found;
}

function validateTop(set: PodCliqueSet, found: Findings): void {
  const { name } = set.metadata;
  if (name !== undefined && name !== "") {
    for (const error of dnsSubdomainErrors(name)) found.add(invalid("metadata.name", name, error));
  }
  const { replicas = 0, template } = set.spec;
  if (replicas < 0) found.add(invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
  const startup = template.cliqueStartupType;
  if (startup === undefined || (startup as string) === "") {
    found.add(required(`${root}.cliqueStartupType`));
  } else if (!startupTypes.includes(startup)) {
    found.add(invalid(`${root}.cliqueStartupType`, startup, `must be one of ${startupTypes.join(", ")}`));
  }
  const delay = template.terminationDelay;
  const delayMs = durationToMs(delay);
  if (delay === undefined) found.add(required(`${root}.terminationDelay`));
  else if (delayMs === undefined)
    found.add(invalid(`${root}.terminationDelay`, delay, "must be a duration, such as 4h or 90s"));
  else if (delayMs <= 0) found.add(invalid(`${root}.terminationDelay`, delay, "must be greater than 0"));
}

/** Claim templates, and the cliques that share them. */
function validateTemplates(set: PodCliqueSet, found: Findings): void {
  const templates = set.spec.template.resourceClaimTemplates ?? [];
  for (const [at, { name, templateSpec }] of templates.entries()) {
    const field = `${root}.resourceClaimTemplates[${at}]`;
    if (name === "") found.add(required(`${field}.name`));
    if ((templateSpec.spec?.devices?.requests ?? []).length === 0) {
      found.add(required(`${field}.templateSpec.spec.devices.requests`, "at least one device request is needed"));
    }
  }
  checkUnique(found, templates, "name", (at) => `${root}.resourceClaimTemplates[${at}].name`);
  validateSharing(set, set.spec.template.resourceSharing, `${root}.resourceSharing`, found);
  const cliqueNames = cliquesOf(set).map(({ name }) => name);
  const groupNames = groupsOf(set).map(({ name }) => name);
  for (const [at, { filter }] of (set.spec.template.resourceSharing ?? []).entries()) {
    if (filter === undefined) continue;
    const field = `${root}.resourceSharing[${at}].filter`;
    const { childCliqueNames = [], childScalingGroupNames = [] } = filter;
    if (childCliqueNames.length + childScalingGroupNames.length === 0) {
      found.add(required(field, "must name at least one clique or scaling group"));
    }
    checkKnown(found, childCliqueNames, cliqueNames, `${field}.childCliqueNames`);
    checkKnown(found, childScalingGroupNames, groupNames, `${field}.childScalingGroupNames`);
  }
}

function validateSharing(
  set: PodCliqueSet,
  sharing: readonly ResourceSharing[] | undefined,
  field: string,
  found: Findings,
): void {
  for (const [at, { name, namespace = "", scope }] of (sharing ?? []).entries()) {
    const here = `${field}[${at}]`;
    if (name === "") found.add(required(`${here}.name`));
    if (scope !== "AllReplicas" && scope !== "PerReplica") {
      found.add(notSupported(`${here}.scope`, scope, ["AllReplicas", "PerReplica"]));
    }
    const isInternal = (set.spec.template.resourceClaimTemplates ?? []).some((template) => template.name === name);
    if (isInternal && namespace !== "") {
      found.add(invalid(`${here}.namespace`, namespace, "must be empty for a claim template of this set"));
    }
  }
  checkUnique(found, sharing ?? [], "name", (at) => `${field}[${at}].name`);
}

interface CliqueContext {
  readonly found: Findings;
  readonly isCreate: boolean;
}

function validateClique(
  set: PodCliqueSet,
  clique: CliqueTemplate,
  field: string,
  { found, isCreate }: CliqueContext,
): void {
  const { name, spec } = clique;
  if (name === "") found.add(required(`${field}.name`));
  else for (const error of dnsSubdomainErrors(name)) found.add(invalid(`${field}.name`, name, error));
  found.add(...validateLabels(clique.labels, `${field}.labels`));
  for (const key of Object.keys(clique.annotations ?? {})) {
    for (const error of qualifiedNameErrors(key.toLowerCase())) found.add(invalid(`${field}.annotations`, key, error));
  }
  validateMnnvl(found, clique.annotations, `${field}.annotations`);
  validateSharing(set, clique.resourceSharing, `${field}.resourceSharing`, found);
  const { replicas, minAvailable } = spec;
  if (replicas <= 0) found.add(invalid(`${field}.spec.replicas`, replicas, "must be greater than 0"));
  if (minAvailable === undefined) found.add(required(`${field}.spec.minAvailable`));
  else if (minAvailable <= 0) found.add(invalid(`${field}.spec.minAvailable`, minAvailable, "must be greater than 0"));
  else if (minAvailable > replicas) {
    found.add(invalid(`${field}.spec.minAvailable`, minAvailable, "must not be greater than replicas"));
  }
  const { autoScalingConfig } = spec;
  if (autoScalingConfig !== undefined) {
    if (groupOfClique(set, name) !== undefined) {
      found.add(forbidden(`${field}.spec.autoScalingConfig`, "a clique of a scaling group is scaled with its group"));
    }
    validateScaling(
      found,
      autoScalingConfig,
      { minAvailable: minAvailable ?? 1, replicas },
      `${field}.spec.autoScalingConfig`,
    );
  }
  validatePodSpec(clique, `${field}.spec.podSpec`, found, isCreate);
}

function validateScaling(
  found: Findings,
  { minReplicas, maxReplicas }: AutoScalingConfig,
  { minAvailable, replicas }: { minAvailable: number; replicas: number },
  field: string,
): void {
  const least = minReplicas ?? replicas;
  if (least < minAvailable) {
    found.add(invalid(`${field}.minReplicas`, least, "must be greater than or equal to minAvailable"));
  }
  if (maxReplicas < least) {
    found.add(invalid(`${field}.maxReplicas`, maxReplicas, "must be greater than or equal to minReplicas"));
  }
  if (maxReplicas < replicas) {
    found.add(invalid(`${field}.maxReplicas`, maxReplicas, "must be greater than or equal to replicas"));
  }
}

function validatePodSpec({ spec }: CliqueTemplate, field: string, found: Findings, isCreate: boolean): void {
  const { podSpec } = spec;
  // The warning is only for cliques, whose pods are recreated.
  if (podSpec.restartPolicy !== undefined && podSpec.restartPolicy !== "Always") {
    found.warn(`${field}.restartPolicy: ${podSpec.restartPolicy} is unusual: the clique recreates a pod that ends`);
  }
  if (isCreate) {
    if ((podSpec.topologySpreadConstraints ?? []).length > 0) {
      found.add(forbidden(`${field}.topologySpreadConstraints`, "use topologyConstraint for the topology of a gang"));
    }
    if ((podSpec.nodeName ?? "") !== "") found.add(forbidden(`${field}.nodeName`, "the scheduler chooses the node"));
  }
  for (const list of ["containers", "initContainers"] as const) {
    for (const [at, container] of (podSpec[list] ?? []).entries())
      validateEnv(container, `${field}.${list}[${at}].env`, found);
  }
}

function validateEnv({ env = [] }: Container, field: string, found: Findings): void {
  const seen = new Set<string>();
  for (const [at, { name }] of env.entries()) {
    if (name === "") found.add(required(`${field}[${at}].name`));
    else for (const error of relaxedEnvVarNameErrors(name)) found.add(invalid(`${field}[${at}].name`, name, error));
    if (seen.has(name)) found.add(duplicate(`${field}[${at}].name`, name));
    seen.add(name);
  }
}

/** One scheduler for the whole set, and one that is enabled. */
function validateSchedulers(set: PodCliqueSet, { profiles, defaultProfile }: GangSettings, found: Findings): void {
  const nameOf = ({ spec }: CliqueTemplate): string => spec.podSpec?.schedulerName || defaultProfile;
  const names = new Set(cliquesOf(set).map(nameOf));
  if (names.size > 1) {
    const text = [...names].sort().join(", ");
    found.add(
      invalid(`${root}.cliques[0].spec.podSpec.schedulerName`, text, "all cliques must have the same schedulerName"),
    );
  }
  for (const [at, clique] of cliquesOf(set).entries()) {
    const name = nameOf(clique);
    if (profiles.includes(name as SchedulerName)) continue;
    found.add(
      invalid(`${root}.cliques[${at}].spec.podSpec.schedulerName`, name, `must be one of ${profiles.join(", ")}`),
    );
  }
}

/** The start order, where it is explicit. */
function validateStartup(set: PodCliqueSet, found: Findings): void {
  if (set.spec.template.cliqueStartupType !== "CliqueStartupTypeExplicit") return;
  for (const [at, { name, spec }] of cliquesOf(set).entries()) {
    const field = `${root}.cliques[${at}].spec.startsAfter`;
    const seen = new Set<string>();
    for (const [position, parent] of (spec.startsAfter ?? []).entries()) {
      const here = `${field}[${position}]`;
      if (parent === "") found.add(required(here, "must be the name of a clique"));
      else if (parent === name) found.add(invalid(here, parent, "a clique cannot start after itself"));
      else if (cliqueNamed(set, parent) === undefined) found.add(fieldNotFound(here, parent));
      if (seen.has(parent)) found.add(duplicate(here, parent));
      seen.add(parent);
    }
  }
  for (const cycle of startupCycles(cliquesOf(set))) {
    found.add(invalid(`${root}.cliques`, cycle, "these cliques wait for each other in a cycle"));
  }
}

function validateGroups(set: PodCliqueSet, found: Findings): void {
  const groups = groupsOf(set);
  const cliqueNames = cliquesOf(set).map(({ name }) => name);
  const owner = new Map<string, string>();
  for (const [at, group] of groups.entries()) {
    const field = `${root}.podCliqueScalingGroups[${at}]`;
    if (group.name === "") found.add(required(`${field}.name`));
    else for (const error of dnsSubdomainErrors(group.name)) found.add(invalid(`${field}.name`, group.name, error));
    validateMnnvl(found, group.annotations, `${field}.annotations`);
    checkKnown(found, group.cliqueNames, cliqueNames, `${field}.cliqueNames`);
    for (const [position, clique] of group.cliqueNames.entries()) {
      if (owner.has(clique)) {
        found.add(duplicate(`${field}.cliqueNames[${position}]`, clique));
      }
      owner.set(clique, group.name);
    }
    validateGroupNumbers(group, field, found);
    validateSharing(set, group.resourceSharing, `${field}.resourceSharing`, found);
    for (const [position, { filter }] of (group.resourceSharing ?? []).entries()) {
      if (filter === undefined) continue;
      const here = `${field}.resourceSharing[${position}].filter.childCliqueNames`;
      if ((filter.childCliqueNames ?? []).length === 0) found.add(required(here, "must name at least one clique"));
      checkKnown(found, filter.childCliqueNames ?? [], group.cliqueNames, here);
    }
  }
  checkUnique(found, groups, "name", (at) => `${root}.podCliqueScalingGroups[${at}].name`);
}

function validateGroupNumbers(group: GroupTemplate, field: string, found: Findings): void {
  const { replicas = 1, minAvailable = 1, scaleConfig } = group;
  if (replicas <= 0) found.add(invalid(`${field}.replicas`, replicas, "must be greater than 0"));
  if (minAvailable <= 0) found.add(invalid(`${field}.minAvailable`, minAvailable, "must be greater than 0"));
  else if (minAvailable > replicas) {
    found.add(invalid(`${field}.minAvailable`, minAvailable, "must not be greater than replicas"));
  }
  if (scaleConfig === undefined) return;
  const least = scaleConfig.minReplicas ?? replicas;
  if (least < minAvailable) {
    found.add(invalid(`${field}.scaleConfig.minReplicas`, least, "must be greater than or equal to minAvailable"));
  }
  // Grove does not check the maximum of a group; a manifest that Grove accepts is accepted here too.
  if (scaleConfig.maxReplicas < least || scaleConfig.maxReplicas < replicas) {
    found.warn(`${field}.scaleConfig.maxReplicas: ${scaleConfig.maxReplicas} is less than minReplicas or replicas`);
  }
}

/** The lengths of derived names, reported on every field that is part of them. */
function validateNameLengths(set: PodCliqueSet, found: Findings): void {
  const setName = set.metadata.name ?? "";
  for (const [at, { name }] of cliquesOf(set).entries()) {
    const group = groupOfClique(set, name);
    const length = setName.length + name.length + (group?.name.length ?? 0);
    if (length <= nameBudget) continue;
    const detail = `the names of the set${group === undefined ? "" : ", its group"} and its clique have ${length} characters together, at most ${nameBudget} are allowed`;
    found.add(invalid("metadata.name", setName, detail));
    found.add(invalid(`${root}.cliques[${at}].name`, name, detail));
    if (group === undefined) continue;
    const groupAt = groupsOf(set).indexOf(group);
    found.add(invalid(`${root}.podCliqueScalingGroups[${groupAt}].name`, group.name, detail));
  }
}

function validateMnnvl(found: Findings, annotations: Record<string, string> | undefined, field: string): void {
  const value = annotations?.[annotationKeys.mnnvlGroup];
  if (value === undefined || value === "none") return;
  const here = `${field}[${annotationKeys.mnnvlGroup}]`;
  for (const error of dnsLabelErrors(value)) found.add(invalid(here, value, error));
  found.add(invalid(here, value, "automatic MNNVL is not supported"));
}

/** kai-scheduler needs the name of a queue. */
function validateQueue(set: PodCliqueSet, { defaultProfile }: GangSettings, found: Findings): void {
  if (!cliquesOf(set).some(({ spec }) => (spec.podSpec?.schedulerName || defaultProfile) === "kai-scheduler")) return;
  const result = queueOf(set);
  if ("problem" in result) found.add(invalid("spec", set.metadata.name ?? "", result.problem));
}

export function queueOf(set: PodCliqueSet): { readonly queue: string } | { readonly problem: string } {
  const named = (object: { labels?: Record<string, string>; annotations?: Record<string, string> }) =>
    object.labels?.[annotationKeys.queue] ?? object.annotations?.[annotationKeys.queue];
  const own = named(set.metadata);
  const ofCliques = new Set(cliquesOf(set).flatMap((clique) => named(clique) ?? []));
  if (own !== undefined) {
    const other = [...ofCliques].find((queue) => queue !== own);
    return other === undefined ? { queue: own } : { problem: `the set names queue ${own} and a clique names ${other}` };
  }
  const [queue] = ofCliques;
  if (queue === undefined) return { problem: `kai-scheduler needs the label ${annotationKeys.queue}` };
  return ofCliques.size === 1
    ? { queue }
    : { problem: `the cliques name different queues: ${[...ofCliques].sort().join(", ")}` };
}

function checkUnique<K extends string>(
  found: Findings,
  items: readonly { readonly [key in K]: string }[],
  key: K,
  field: (at: number) => string,
): void {
  const seen = new Set<string>();
  for (const [at, item] of items.entries()) {
    const value = item[key];
    if (seen.has(value)) found.add(duplicate(field(at), value));
    seen.add(value);
  }
}

function checkKnown(found: Findings, names: readonly string[], known: readonly string[], field: string): void {
  for (const [at, name] of names.entries())
    if (!known.includes(name)) found.add(fieldNotFound(`${field}[${at}]`, name));
}
