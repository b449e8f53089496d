import type { Controllers } from "../../control/runtime/controllers.ts";
import type { ReconcileResult } from "../../control/runtime/loop.ts";
import { kindSource } from "../../control/runtime/sources.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesNode } from "../../model/objects/nodeMatch.ts";
import { nanoOf } from "../../model/objects/podRequests.ts";
import { isTolerated } from "../../model/objects/taints.ts";
import { builtin } from "../../model/resources.generated.ts";

const pods = builtin.Pod;
const nodes = builtin.Node;
const retryMs = 50;

/**
 * A minimal scheduler for tests of other controllers: each schedulable pod is bound to the matching node with room and
 * the fewest pods. Its binds count until the watch shows the pod bound or deleted.
 */
export function tinyScheduler(controllers: Controllers): void {
  const podCache = controllers.cache(pods);
  const nodeCache = controllers.cache(nodes);
  /** The node of each bind in flight, by UID of the pod. */
  const sent = new Map<string, string>();
  podCache.onEvent(({ type, object }) => {
    if (type === "deleted" || isBound(object)) sent.delete(object.metadata.uid);
  });
  const freeNode = (wanting: Pod): string | undefined => {
    const taken = new Map<string, number>();
    for (const [, object] of podCache.view().objects) {
      const pod = object;
      const node = isBound(pod) && !isOver(pod) ? pod.spec?.nodeName : sent.get(pod.metadata.uid);
      if (node !== undefined) taken.set(node, (taken.get(node) ?? 0) + 1);
    }
    let best: { readonly name: string; readonly count: number } | undefined;
    for (const [name, object] of nodeCache.view().objects) {
      const node = object;
      const count = taken.get(name) ?? 0;
      const hasRoom = nanoOf(String(count + 1)) <= nanoOf(node.status?.allocatable?.["pods"] ?? "0");
      const isChosen = best === undefined || count < best.count;
      if (isOpen(node) && accepts(wanting, node) && hasRoom && isChosen) best = { name, count };
    }
    return best?.name;
  };
  controllers.add({
    name: "tiny-scheduler",
    sources: [kindSource(podCache, () => ["all"]), kindSource(nodeCache, () => ["all"])],
    reconcile: async (_key, { cancel }): Promise<ReconcileResult> => {
      let hasFailed = false;
      for (const [, object] of [...podCache.view().objects]) {
        const { namespace = "", name, uid, resourceVersion } = object.metadata;
        const pod = object;
        if (!isWaiting(pod) || sent.has(uid)) continue;
        const node = freeNode(pod);
        if (node === undefined) continue;
        sent.set(uid, node);
        const bound = await controllers.outside.bind(
          { ...pods, namespace, name },
          { node, uid, resourceVersion },
          { cancel },
        );
        if (bound.ok) continue;
        // If the bind took effect anyway, the next attempt is a conflict: the pod has changed.
        sent.delete(uid);
        hasFailed = true;
      }
      return hasFailed ? { requeueAfterMs: retryMs } : undefined;
    },
  });
}

function isWaiting(pod: Pod): boolean {
  const { metadata, spec } = pod;
  if (isBound(pod) || isOver(pod) || metadata.deletionTimestamp !== undefined) return false;
  return (spec?.schedulingGates ?? []).length === 0;
}

function isBound({ spec }: Pod): boolean {
  return (spec?.nodeName ?? "") !== "";
}

function isOver({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function accepts({ spec }: Pod, node: Node): boolean {
  if (!matchesNode(spec, node)) return false;
  return (node.spec?.taints ?? []).every(
    (taint) => taint.effect === "PreferNoSchedule" || isTolerated(taint, spec?.tolerations),
  );
}

function isOpen({ spec, status }: Node): boolean {
  if (spec?.unschedulable === true) return false;
  return status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}
