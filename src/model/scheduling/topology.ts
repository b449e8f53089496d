import { duplicate, type FieldError, invalid } from "../objects/fieldError.ts";
import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { kaiGroup } from "./keys.ts";

/** The topology of nodes: node labels from the widest to the narrowest domain. */
export type Topology = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: { levels: TopologyLevel[] };
};

export type TopologyLevel = { nodeLabel: string; alias?: string };

export const topologyRef = resource<Topology>(kaiGroup, "v1alpha1", "topologies");

/** A level may be named by its label or by its alias, so an alias must be unique. */
export function validateTopology(levels: readonly TopologyLevel[]): FieldError[] {
  const errors: FieldError[] = [];
  const labels = new Set(levels.map(({ nodeLabel }) => nodeLabel));
  const aliases = new Set<string>();
  for (const [at, { alias }] of levels.entries()) {
    if (alias === undefined || alias === "") continue;
    const field = `spec.levels[${at}].alias`;
    if (aliases.has(alias)) errors.push(duplicate(field, alias));
    if (labels.has(alias)) errors.push(invalid(field, alias, "must not be the node label of a level"));
    aliases.add(alias);
  }
  return errors;
}

/** The index of a level in a topology, by label or alias; -1 when no level has the name. */
export function levelIndex(levels: readonly TopologyLevel[], name: string): number {
  return levels.findIndex(({ nodeLabel, alias }) => nodeLabel === name || (alias !== undefined && alias === name));
}
