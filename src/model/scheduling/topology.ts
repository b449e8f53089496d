import { duplicate, type FieldError, invalid } from "../objects/fieldError.ts";
import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { kaiGroup } from "./keys.ts";

/** How nodes lie in a data centre: labels from the widest to the narrowest domain. */
export type Topology = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: { levels: TopologyLevel[] };
};

export type TopologyLevel = { nodeLabel: string; alias?: string };

export const topologyRef = resource<Topology>(kaiGroup, "v1alpha1", "topologies");

/** A level may be named by its label or by its alias, so no alias may mean two of them. */
export function validateTopology(levels: readonly TopologyLevel[]): FieldError[] {
  const errors: FieldError[] = [];
  const labels = new Set(levels.map(({ nodeLabel }) => nodeLabel));
  const aliases = new Set<string>();
  for (const [at, { alias }] of levels.entries()) {
    if (alias === undefined || alias === "") continue;
    const field = `spec.levels[${at}].alias`;
    if (aliases.has(alias)) errors.push(duplicate(field, alias));
    if (labels.has(alias)) errors.push(invalid(field, alias, "a level has this as its node label"));
    aliases.add(alias);
  }
  return errors;
}

/** Where a level stands in a topology, by label or alias; -1 when nothing has the name. */
export function levelIndex(levels: readonly TopologyLevel[], name: string): number {
  return levels.findIndex(({ nodeLabel, alias }) => nodeLabel === name || (alias !== undefined && alias === name));
}
