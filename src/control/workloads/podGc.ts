import { decidePodGc, podGcDefaults } from "../../decide/workloads/nodes/podGc.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isFinished, isLeaving } from "../../model/objects/podFacts.ts";
import { laterOf } from "../../model/revision.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { Channel, kindSource, timerSource } from "../runtime/sources.ts";
import { nodeKind } from "./kinds.ts";
import { pace, resultOf } from "./ownerReconciler.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const name = "pod-garbage-collector";
const only = "pods";
const everyMs = 20_000;

/**
 * Deletes pods that no other controller deletes: those on deleted nodes, those that finished long ago, and those that
 * were never scheduled.
 */
export function addPodGc(controllers: Controllers, caches: WorkloadCaches, podsByNode: ObjectIndex<Pod>): void {
  const { inFlight, pods, nodes } = caches;
  const { kube, ports } = controllers;
  /** Indexes of candidates; a running pod is in none of them. */
  const suspects = pods.cache.index((pod) => {
    if (isLeaving(pod)) return ["leaving"];
    return isFinished(pod) ? ["ended"] : [];
  });
  const shown = new Channel();
  let missingSinceMs: ReadonlyMap<string, number> = new Map();

  const look = (): readonly Pod[] => {
    const found: Pod[] = [...suspects.get("leaving")];
    const ended = suspects.get("ended");
    if (ended.length > podGcDefaults.endedMax) found.push(...ended);
    const seen = new Set(found);
    for (const node of podsByNode.values()) {
      if (nodes.has(undefined, node)) continue;
      for (const pod of podsByNode.get(node)) if (!seen.has(pod)) found.push(pod);
    }
    return found;
  };

  const reconcile = async (key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> => {
    const author = { name: `${name} ${key}`, wake: () => shown.push(key) };
    const state = await inFlight.resolveWrites(author, { cancel });
    if (state === "waiting") return undefined;
    if (state !== "clear") return reconcileResultOf(state) ?? { again: state.message };
    const nowMs = ports.clock.nowMs();
    const suspected = look();
    const known = [...nodes.cache.view().objects].map(([, node]) => node);
    const decision = decidePodGc({ pods: suspected, nodes: known, missingSinceMs }, nowMs);
    missingSinceMs = new Map(decision.missing.map((node) => [node, missingSinceMs.get(node) ?? nowMs]));
    const nodeOf = new Map(suspected.map(({ metadata, spec }) => [keyOfPod(metadata), spec?.nodeName ?? ""]));
    const atLeast = laterOf(pods.cache.revision, nodes.cache.revision);
    const present = new Set<string>();
    for (const missing of decision.missing) {
      if (!decision.intents.some(({ target }) => nodeOf.get(keyOfPod(target)) === missing)) continue;
      // A node that the cache lacks may still exist.
      const fresh = await lookAgain(kube, { ...nodeKind, namespace: "", name: missing }, { atLeast, cancel });
      if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
      if (fresh.value.object !== undefined) present.add(missing);
    }
    const intents = decision.intents.filter(({ target }) => !present.has(nodeOf.get(keyOfPod(target)) ?? ""));
    const committed = await inFlight.commit(
      intents.map((intent) => ({ intent })),
      { author, pace, cancel },
    );
    return resultOf({ intents, wakeAtMs: decision.wakeAtMs }, committed, ports.clock.nowMs());
  };

  const one = (): string[] => [only];
  controllers.add({
    name,
    sources: [
      timerSource(ports, everyMs, one),
      kindSource(pods.cache, one, isUnplacedAndLeaving),
      kindSource(nodes.cache, one, ({ type }) => type === "deleted"),
      shown,
    ],
    backoff: { baseMs: 100, maxMs: 30_000 },
    reconcile,
  });
}

function keyOfPod({ namespace = "", name: podName }: { namespace?: string; name: string }): string {
  return `${namespace}/${podName}`;
}

function isUnplacedAndLeaving(event: CacheEvent<Pod>): boolean {
  const pod = event.object;
  return event.type !== "deleted" && isLeaving(pod) && (pod.spec?.nodeName ?? "") === "";
}
