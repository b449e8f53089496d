import type { Fit } from "./fit.ts";
import type { NodeState } from "./nodeState.ts";
import type { NodeTable } from "./nodeTable.ts";
import type { DomainCounts, PodTerms } from "./podTerms.ts";
import type { Task } from "./task.ts";

/** What other pods have to say about where a pod may go: affinity, anti-affinity on both sides, and spread. */

export type SocialVerdict = "affinity" | "anti-affinity" | "spread";

/** Answers for one pod and the state of the moment; made anew for each decision. */
export interface SocialRules {
  /** Why the node is refused, or undefined. */
  refuses(node: NodeState): SocialVerdict | undefined;
  /** What others' company is worth there: the higher the better. */
  score(node: NodeState): number;
}

interface AffinityRule {
  readonly topologyKey: string;
  readonly domains: ReadonlyMap<string, number>;
  /** No pod matches anywhere and this one matches itself: it may be the first. */
  readonly mayBeFirst: boolean;
}

interface SpreadRule {
  readonly topologyKey: string;
  readonly counts: ReadonlyMap<string, number>;
  readonly least: number;
  readonly maxSkew: number;
  readonly self: number;
  readonly isHard: boolean;
}

/** Undefined when nobody has anything to say. */
export function socialRules(task: Task, terms: PodTerms, table: NodeTable, fit: Fit): SocialRules | undefined {
  const { shape } = task;
  const isShunned = terms.isShunned(task);
  const hasOwn =
    shape.affinity.length + shape.antiAffinity.length + shape.spread.length > 0 ||
    shape.preferredAffinity.length + shape.preferredAntiAffinity.length > 0;
  if (!hasOwn && !isShunned) return undefined;

  const wanted: AffinityRule[] = shape.affinity.map((each) => {
    const term = terms.ofAffinity(each, task);
    const domains = domainCounts(term.matched, each.topologyKey);
    return { topologyKey: each.topologyKey, domains, mayBeFirst: domains.size === 0 && terms.isMatch(term, task) };
  });
  const unwanted = shape.antiAffinity.map(
    (each): DomainCounts => ({
      topologyKey: each.topologyKey,
      domains: domainCounts(terms.ofAffinity(each, task).matched, each.topologyKey),
    }),
  );
  const keptApart = isShunned ? [...unwanted, ...terms.shunning(task)] : unwanted;
  const spread = shape.spread.map((each): SpreadRule => {
    const term = terms.ofSpread(each, task);
    const honorsAffinity = each.nodeAffinityPolicy !== "Ignore";
    const counts = new Map<string, number>();
    for (const node of table.nodes) {
      const domain = node.labels[each.topologyKey];
      if (domain === undefined || node.node === undefined) continue;
      if (honorsAffinity && !fit.acceptsChoice(shape.where, node.index)) continue;
      counts.set(domain, (counts.get(domain) ?? 0) + (term.matched.get(node) ?? 0));
    }
    let least = counts.size === 0 ? 0 : Number.POSITIVE_INFINITY;
    for (const count of counts.values()) least = Math.min(least, count);
    // With fewer domains than asked for, an empty one is assumed: pods wait until there are enough.
    if (counts.size < (each.minDomains ?? 1)) least = 0;
    return {
      topologyKey: each.topologyKey,
      counts,
      least,
      maxSkew: each.maxSkew,
      self: terms.isMatch(term, task) ? 1 : 0,
      isHard: each.whenUnsatisfiable === "DoNotSchedule",
    };
  });
  const preferred = [
    ...shape.preferredAffinity.map(({ weight, podAffinityTerm }) => ({ weight, term: podAffinityTerm })),
    ...shape.preferredAntiAffinity.map(({ weight, podAffinityTerm }) => ({ weight: -weight, term: podAffinityTerm })),
  ].map(({ weight, term }) => ({
    weight,
    topologyKey: term.topologyKey,
    domains: domainCounts(terms.ofAffinity(term, task).matched, term.topologyKey),
  }));

  return {
    refuses({ labels }) {
      for (const { topologyKey, domains, mayBeFirst } of wanted) {
        const domain = labels[topologyKey];
        if (domain === undefined || (!mayBeFirst && (domains.get(domain) ?? 0) === 0)) return "affinity";
      }
      for (const { topologyKey, domains } of keptApart) {
        const domain = labels[topologyKey];
        if (domain !== undefined && (domains.get(domain) ?? 0) > 0) return "anti-affinity";
      }
      for (const { topologyKey, counts, least, maxSkew, self, isHard } of spread) {
        if (!isHard) continue;
        const domain = labels[topologyKey];
        if (domain === undefined) return "spread";
        if ((counts.get(domain) ?? 0) + self - least > maxSkew) return "spread";
      }
      return undefined;
    },
    score({ labels }) {
      let sum = 0;
      for (const { weight, topologyKey, domains } of preferred) {
        const domain = labels[topologyKey];
        if (domain !== undefined) sum += weight * (domains.get(domain) ?? 0);
      }
      for (const { topologyKey, counts, isHard } of spread) {
        const domain = labels[topologyKey];
        if (!isHard) sum -= domain === undefined ? 100 : (counts.get(domain) ?? 0);
      }
      return sum;
    },
  };
}

function domainCounts(nodes: ReadonlyMap<NodeState, number>, topologyKey: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [node, count] of nodes) {
    const domain = node.labels[topologyKey];
    if (domain !== undefined) counts.set(domain, (counts.get(domain) ?? 0) + count);
  }
  return counts;
}
