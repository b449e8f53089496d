import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { VictimRules } from "./victimRules.ts";

/**
 * Whether there are victims under rules, by kind: the answer for the first of many pending jobs holds for all of them,
 * until pods are evicted.
 */
export class VictimCandidates {
  private readonly cluster: Cluster;
  private readonly known = new Map<string, boolean>();
  private readonly awaited = new Set<string>();

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  exist(rules: VictimRules): boolean {
    let known = this.known.get(rules.kind);
    if (known === undefined) {
      known = this.some((job) => job.allocatedCount > 0 && rules.isVictim(job));
      this.known.set(rules.kind, known);
    }
    return known;
  }

  /** A pod that is being bound cannot be evicted; when it is bound, the search is tried again. */
  noteArrivals(rules: VictimRules): void {
    const { cluster, awaited } = this;
    if (cluster.awaitsArrivals || awaited.has(rules.kind)) return;
    awaited.add(rules.kind);
    cluster.awaitsArrivals = this.some(
      (job) => job.podSets.some((set) => set.countOf("binding") > 0) && rules.isVictim(job),
    );
  }

  /** Pods were evicted: other jobs may be victims now. */
  clear(): void {
    this.known.clear();
    this.awaited.clear();
  }

  private some(isIt: (job: Job) => boolean): boolean {
    for (const job of this.cluster.jobs.values()) if (isIt(job)) return true;
    return false;
  }
}
