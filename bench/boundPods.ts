import type { KubeObject } from "../src/model/objects/object.ts";
import type { BenchCluster } from "./benchCluster.ts";

/** Counts pods that have got a node, or another state, by the first word of their names, as they are committed. */
export class BoundPods {
  private readonly bound = new Map<string, Set<string>>();

  constructor(store: BenchCluster["store"], isCounted: (pod: KubeObject) => boolean = hasNode) {
    store.onEvent(({ current }) => {
      if (current.resource !== "/pods") return;
      const { name } = current;
      const word = name.slice(0, name.indexOf("-"));
      if (current.deleted) {
        this.bound.get(word)?.delete(name);
        return;
      }
      if (this.bound.get(word)?.has(name) === true || !isCounted(current.object())) return;
      const names = this.bound.get(word) ?? new Set();
      names.add(name);
      this.bound.set(word, names);
    });
  }

  of(word: string): number {
    return this.bound.get(word)?.size ?? 0;
  }
}

function hasNode(pod: KubeObject): boolean {
  return (pod["spec"] as { nodeName?: string } | undefined)?.nodeName !== undefined;
}
