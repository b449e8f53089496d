import type { DomainCounts } from "../cluster/domainCounter.ts";
import type { PodTerms } from "../cluster/podTerms.ts";
import type { Task } from "../cluster/task.ts";
import type { Fit } from "./fit.ts";

export type InterPodRefusal = "affinity" | "anti-affinity" | "spread";

/**
 * Inter-pod affinity, anti-affinity (of the pod and of placed pods) and topology spread for one pod. Created for each
 * decision. Nodes are given by their index.
 */
export interface InterPodRules {
  /** Why the node is refused, or undefined. */
  refuses(at: number): InterPodRefusal | undefined;
  /** Whether any node may be refused at all. */
  readonly mayRefuse: boolean;
  /** Whether inter-pod affinity may add to any node's score. */
  readonly hasScore: boolean;
  /** Writes the score of each node: the higher the better. */
  score(byNode: Float64Array): void;
}

interface AffinityRule extends DomainCounts {
  /** No pod matches anywhere and this one matches itself: it may be the first. */
  readonly mayBeFirst: boolean;
}

interface SpreadRule extends DomainCounts {
  /** The number of pods that a domain may have before this one is placed. */
  readonly most: number;
}

/** Undefined when no inter-pod rule concerns the pod. */
export function interPodRules(task: Task, terms: PodTerms, fit: Fit): InterPodRules | undefined {
  const { shape } = task;
  const matchesOthersAntiAffinity = terms.matchesOthersAntiAffinity(task);
  const hasOwn =
    shape.affinity.length + shape.antiAffinity.length + shape.spread.length > 0 ||
    shape.preferredAffinity.length + shape.preferredAntiAffinity.length > 0;
  if (!hasOwn && !matchesOthersAntiAffinity) return undefined;
  const own = terms.ownOf(task);

  const affinity = own.affinity.map((each): AffinityRule => {
    const { ofNode, counts, isEmpty } = terms.countsOf(each);
    return { ofNode, counts, mayBeFirst: isEmpty && terms.isMatch(each.term, task) };
  });
  const antiAffinity = own.antiAffinity.map((each): DomainCounts => terms.countsOf(each));
  const allAntiAffinity = matchesOthersAntiAffinity
    ? [...antiAffinity, ...terms.antiAffinityDomains(task)]
    : antiAffinity;
  const spread: SpreadRule[] = [];
  const spreadSoftly: DomainCounts[] = [];
  for (const each of own.spread) {
    const { constraint, term } = each;
    const isEverywhere = constraint.nodeAffinityPolicy === "Ignore";
    const counter = terms.countsOf(each, isEverywhere ? undefined : fit.accepting(shape.where));
    const { ofNode, counts } = counter;
    if (constraint.whenUnsatisfiable !== "DoNotSchedule") {
      spreadSoftly.push({ ofNode, counts });
      continue;
    }
    // With fewer domains than asked for, an empty one is assumed: pods wait until there are enough.
    const least = counter.domainCount < (constraint.minDomains ?? 1) ? 0 : counter.least;
    const self = terms.isMatch(term, task) ? 1 : 0;
    spread.push({ ofNode, counts, most: constraint.maxSkew + least - self });
  }
  const preferred = own.preferred.map((each) => {
    const { ofNode, counts } = terms.countsOf(each);
    return { weight: each.weight, ofNode, counts };
  });

  return {
    mayRefuse: affinity.length + allAntiAffinity.length + spread.length > 0,
    hasScore: preferred.length + spreadSoftly.length > 0,
    refuses(at) {
      for (const { ofNode, counts, mayBeFirst } of affinity) {
        const domain = ofNode[at] as number;
        if (domain < 0 || (!mayBeFirst && (counts[domain] as number) === 0)) return "affinity";
      }
      for (const { ofNode, counts } of allAntiAffinity) {
        const domain = ofNode[at] as number;
        if (domain >= 0 && (counts[domain] as number) > 0) return "anti-affinity";
      }
      for (const { ofNode, counts, most } of spread) {
        const domain = ofNode[at] as number;
        if (domain < 0 || (counts[domain] as number) > most) return "spread";
      }
      return undefined;
    },
    score(byNode) {
      byNode.fill(0);
      for (const { weight, ofNode, counts } of preferred) {
        for (let at = 0; at < byNode.length; at++) {
          const domain = ofNode[at] as number;
          if (domain >= 0) byNode[at] = (byNode[at] as number) + weight * (counts[domain] as number);
        }
      }
      for (const { ofNode, counts } of spreadSoftly) {
        for (let at = 0; at < byNode.length; at++) {
          const domain = ofNode[at] as number;
          byNode[at] = (byNode[at] as number) - (domain < 0 ? 100 : (counts[domain] as number));
        }
      }
    },
  };
}
