/** The pods of each node, computed once for each snapshot: several checks use it. */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";

export interface Placement {
  readonly nodes: ReadonlyMap<string, Node>;
  /** Pods that hold resources on a node: bound and not finished. */
  readonly live: readonly Pod[];
  readonly liveByNode: ReadonlyMap<string, readonly Pod[]>;
  readonly podsByKey: ReadonlyMap<string, Pod>;
}

const cache = new WeakMap<ClusterSnapshot, Placement>();

export function placementOf(snapshot: ClusterSnapshot): Placement {
  const cached = cache.get(snapshot);
  if (cached !== undefined) return cached;
  const live: Pod[] = [];
  const liveByNode = new Map<string, Pod[]>();
  const podsByKey = new Map<string, Pod>();
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    podsByKey.set(podKey(pod), pod);
    const node = pod.spec?.nodeName ?? "";
    if (node === "" || isFinished(pod)) continue;
    live.push(pod);
    const others = liveByNode.get(node);
    if (others === undefined) liveByNode.set(node, [pod]);
    else others.push(pod);
  }
  const nodes = new Map(objectsOf<Node>(snapshot, "nodes").map((node) => [node.metadata.name, node]));
  const placement = { nodes, live, liveByNode, podsByKey };
  cache.set(snapshot, placement);
  return placement;
}

export function isFinished({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

export function isBound({ spec }: Pod): boolean {
  return (spec?.nodeName ?? "") !== "";
}

export function podKey({ metadata }: Pod): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

/** How evidence names a pod. */
export function podName(pod: Pod): string {
  return `pods/${podKey(pod)}`;
}

export function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
