/** Facts about a PodCliqueSet from its spec alone. */
import { durationToMs } from "../values/goDuration.ts";
import { labels } from "./keys.ts";
import type { SchedulerName } from "./settings.ts";
import type { CliqueTemplate, GroupTemplate, PodCliqueSet, UpdateStrategyType } from "./types.ts";

export const defaultTerminationDelayMs = 4 * 3_600_000;

export function cliquesOf({ spec }: PodCliqueSet): readonly CliqueTemplate[] {
  return spec.template.cliques;
}

export function groupsOf({ spec }: PodCliqueSet): readonly GroupTemplate[] {
  return spec.template.podCliqueScalingGroups ?? [];
}

export function replicasOf({ spec }: PodCliqueSet): number {
  return spec.replicas ?? 0;
}

/** The group that a clique belongs to, if any. */
export function groupOfClique(set: PodCliqueSet, clique: string): GroupTemplate | undefined {
  return groupsOf(set).find(({ cliqueNames }) => cliqueNames.includes(clique));
}

export function standaloneCliques(set: PodCliqueSet): CliqueTemplate[] {
  return cliquesOf(set).filter(({ name }) => groupOfClique(set, name) === undefined);
}

/** The group's cliques in the order of the group. */
export function membersOf(set: PodCliqueSet, group: GroupTemplate): CliqueTemplate[] {
  return group.cliqueNames.flatMap((name) => cliquesOf(set).find((clique) => clique.name === name) ?? []);
}

export function cliqueNamed(set: PodCliqueSet, name: string): CliqueTemplate | undefined {
  return cliquesOf(set).find((clique) => clique.name === name);
}

export function groupNamed(set: PodCliqueSet, name: string): GroupTemplate | undefined {
  return groupsOf(set).find((group) => group.name === name);
}

export function minAvailableOf({ minAvailable, replicas }: { minAvailable?: number; replicas?: number }): number {
  return minAvailable ?? replicas ?? 1;
}

export function groupMinAvailable({ minAvailable }: { minAvailable?: number }): number {
  return minAvailable ?? 1;
}

export function groupReplicas({ replicas }: { replicas?: number }): number {
  return replicas ?? 1;
}

export function terminationDelayMs({ spec }: PodCliqueSet): number {
  const text = spec.template.terminationDelay;
  return durationToMs(text) ?? defaultTerminationDelayMs;
}

export function strategyOf({ spec }: PodCliqueSet): UpdateStrategyType {
  return spec.updateStrategy?.type ?? "RollingRecreate";
}

/** The scheduler of a set: that of the first clique that names one, else the default profile. */
export function schedulerOf(set: PodCliqueSet, defaultProfile: SchedulerName): SchedulerName {
  for (const { spec } of cliquesOf(set)) {
    const name = spec.podSpec.schedulerName ?? "";
    if (name !== "") return name as SchedulerName;
  }
  return defaultProfile;
}

/** The number in a label of an object; undefined when the label is missing or not a number. */
export function indexLabel(object: { metadata: { labels?: Record<string, string> } }, key: string): number | undefined {
  const text = object.metadata.labels?.[key];
  return text !== undefined && /^(?:0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined;
}

export function setReplicaOf(object: { metadata: { labels?: Record<string, string> } }): number | undefined {
  return indexLabel(object, labels.setReplica);
}

export function groupReplicaOf(object: { metadata: { labels?: Record<string, string> } }): number | undefined {
  return indexLabel(object, labels.groupReplica);
}
