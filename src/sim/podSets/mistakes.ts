import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { controllerOf } from "./podSetObjects.ts";

/** Classic bugs. Each mutant of the sample controller has one of them, and seeds must find it. */
export const mistakes = [
  "acts-on-cache-absence",
  "deletes-by-name",
  "no-precondition",
  "counts-up-and-down",
  "forgets-own-writes",
  "keeps-leading",
  "time-out-means-no",
  "writes-what-is-there",
] as const;
export type Mistake = (typeof mistakes)[number];

/** For the mutant that counts events: up for an added pod, down for a deleted one. An event is not a pod. */
export class EventCounter {
  private readonly counts = new Map<string, number>();
  private readonly counted = new Set<string>();

  observed(type: "added" | "updated" | "deleted", pod: KubeObject): void {
    const { uid } = pod.metadata;
    const owner = controllerOf(pod)?.uid ?? "";
    if (type === "added" && !this.counted.has(uid)) {
      this.counted.add(uid);
      this.counts.set(owner, this.of(owner) + 1);
    } else if (type === "deleted" && this.counted.delete(uid)) this.counts.set(owner, this.of(owner) - 1);
  }

  of(setUid: string): number {
    return this.counts.get(setUid) ?? 0;
  }
}

/** For the mutant that treats a missing response as a rejection. */
export function treatsNoAnswerAsRefusal(kube: KubeApi): KubeApi {
  const observed = <T>(outcome: Outcome<T>): Outcome<T> =>
    !outcome.ok && outcome.reason === "Unknown" ? refused("Unavailable", outcome.message) : outcome;
  return {
    get: (...args) => kube.get(...args),
    list: (...args) => kube.list(...args),
    watch: (...args) => kube.watch(...args),
    create: async (...args) => observed(await kube.create(...args)),
    update: async (...args) => observed(await kube.update(...args)),
    patch: async (...args) => observed(await kube.patch(...args)),
    delete: async (...args) => observed(await kube.delete(...args)),
    bind: async (...args) => observed(await kube.bind(...args)),
    evict: async (...args) => observed(await kube.evict(...args)),
  };
}
