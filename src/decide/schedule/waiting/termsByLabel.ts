import type { PodTerm } from "../cluster/podTerms.ts";

/**
 * Terms by a label that a pod must have to match them: thousands of terms about other labels cost a pod nothing. A term
 * that requires no label is a candidate for every pod.
 */
export class TermsByLabel {
  private readonly byLabel = new Map<string, Set<PodTerm>>();
  private readonly others = new Set<PodTerm>();

  add(term: PodTerm): void {
    for (const key of labelsOf(term)) {
      const known = this.byLabel.get(key);
      if (known === undefined) this.byLabel.set(key, new Set([term]));
      else known.add(term);
    }
    if (labelsOf(term).length === 0) this.others.add(term);
  }

  delete(term: PodTerm): void {
    for (const key of labelsOf(term)) {
      const known = this.byLabel.get(key);
      known?.delete(term);
      if (known?.size === 0) this.byLabel.delete(key);
    }
    this.others.delete(term);
  }

  /** Every term that may match a pod with these labels, once. */
  candidates(labels: Readonly<Record<string, string>> = {}): PodTerm[] {
    const found = new Set(this.others);
    for (const [key, value] of Object.entries(labels)) {
      for (const term of this.byLabel.get(key) ?? []) found.add(term);
      for (const term of this.byLabel.get(`${key}=${value}`) ?? []) found.add(term);
    }
    return [...found];
  }
}

/** Labels of which a matching pod has at least one, as `key=value`, or as `key` where the value does not matter. */
function labelsOf({ selector }: PodTerm): readonly string[] {
  for (const { key, operator, values } of selector) {
    const isOneOf = operator === "in" || operator === "=" || operator === "==";
    if (isOneOf && values.length > 0) return values.map((value) => `${key}=${value}`);
    if (operator === "exists") return [key];
  }
  return [];
}
