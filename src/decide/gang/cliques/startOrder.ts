/**
 * The start order of cliques. It applies within one gang: a pod of a scaled gang does not wait for another gang,
 * because a gang that never fits would block it for ever.
 */
import { labels, startOrderProgram, variables } from "../../../model/gang/keys.ts";
import { gangCliquesMax } from "../../../model/gang/reach.ts";
import {
  cliqueNamed,
  cliquesOf,
  groupMinAvailable,
  groupOfClique,
  groupsOf,
  membersOf,
  minAvailableOf,
  standaloneCliques,
} from "../../../model/gang/setFacts.ts";
import type { PodCliqueSet } from "../../../model/gang/types.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { isReady } from "../../../model/objects/podFacts.ts";
import { cliqueName, groupName, memberName } from "../names.ts";

/** Names of the cliques that a clique waits for, by the set's `cliqueStartupType`. */
export function parentsOf(set: PodCliqueSet, clique: string): readonly string[] {
  switch (set.spec.template.cliqueStartupType) {
    case "CliqueStartupTypeInOrder": {
      const at = cliquesOf(set).findIndex(({ name }) => name === clique);
      const before = at > 0 ? cliquesOf(set)[at - 1] : undefined;
      return before === undefined ? [] : [before.name];
    }
    case "CliqueStartupTypeExplicit":
      return cliqueNamed(set, clique)?.spec.startsAfter ?? [];
    default:
      return [];
  }
}

/** The same as names of PodCliques. `groupReplica` is that of the clique which waits, if it is in a group. */
export function startsAfter(
  set: PodCliqueSet,
  at: { readonly setReplica: number; readonly clique: string; readonly groupReplica?: number },
): string[] {
  const { name } = set.metadata;
  const own = groupOfClique(set, at.clique);
  const isScaled = own !== undefined && (at.groupReplica ?? 0) >= groupMinAvailable(own);
  return parentsOf(set, at.clique).flatMap((parent) => {
    const group = groupOfClique(set, parent);
    if (isScaled) {
      if (group === undefined || group.name !== own.name) return [];
      return [memberName(groupName(name, at.setReplica, group.name), at.groupReplica ?? 0, parent)];
    }
    if (group === undefined) return [cliqueName(name, at.setReplica, parent)];
    const whole = groupName(name, at.setReplica, group.name);
    return Array.from({ length: Math.min(groupMinAvailable(group), gangCliquesMax) }, (_, replica) =>
      memberName(whole, replica, parent),
    );
  });
}

/** `--podcliques=<name>:<minimum>` for each clique that is waited for. Minimums are looked up by complete names. */
export function waitArguments(set: PodCliqueSet, setReplica: number, waitsFor: readonly string[]): string[] {
  const { name } = set.metadata;
  const minimums = new Map<string, number>();
  for (const clique of standaloneCliques(set)) {
    minimums.set(cliqueName(name, setReplica, clique.name), minAvailableOf(clique.spec));
  }
  const groups = groupsOf(set).map((group) => ({
    prefix: groupName(name, setReplica, group.name),
    members: membersOf(set, group),
  }));
  const minimumOf = (parent: string): number => {
    const known = minimums.get(parent);
    if (known !== undefined) return known;
    for (const { prefix, members } of groups) {
      for (const member of members) {
        if (!parent.startsWith(`${prefix}-`) || !parent.endsWith(`-${member.name}`)) continue;
        const middle = parent.slice(prefix.length + 1, parent.length - member.name.length - 1);
        if (/^\d+$/.test(middle)) return minAvailableOf(member.spec);
      }
    }
    return 1;
  };
  return waitsFor.map((parent) => `--podcliques=${parent}:${minimumOf(parent)}`);
}

export interface Waited {
  readonly clique: string;
  readonly minimum: number;
}

/** Parses the arguments; an invalid one is reported. */
export function readWaitArguments(
  args: readonly string[],
): { readonly waits: readonly Waited[] } | { readonly error: string } {
  const waits: Waited[] = [];
  for (const arg of args) {
    if (arg === startOrderProgram) continue;
    const text = arg.replace(/^--podcliques=/, "");
    for (const pair of text.split(",")) {
      const parts = pair.split(":");
      const [clique = "", count = ""] = parts;
      if (parts.length !== 2 || clique === "" || !/^\d+$/.test(count) || Number(count) <= 0) {
        return { error: `ERR_INVALID_INPUT: ${JSON.stringify(pair)} is not <clique>:<number above 0>` };
      }
      waits.push({ clique, minimum: Number(count) });
    }
  }
  return { waits };
}

/** Whether every clique that is waited for has enough ready pods now, among the pods of the gang. */
export function mayStart(waits: readonly Waited[], gangPods: readonly Pod[]): boolean {
  return waits.every(({ clique, minimum }) => {
    const ready = gangPods.filter((pod) => pod.metadata.labels?.[labels.clique] === clique && isReady(pod));
    return ready.length >= minimum;
  });
}

export const reservedVariables: ReadonlySet<string> = new Set(Object.values(variables));
