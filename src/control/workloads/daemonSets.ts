import { decideDaemonSet } from "../../decide/workloads/sets/daemonSet.ts";
import type { DaemonSet, Node } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { templateHash } from "../../model/objects/podTemplate.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { controllerRevisionKind, daemonSetKind, podKind } from "./kinds.ts";
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { dependentSource, recordPodEvents } from "./podOwner.ts";
import { revisionsFor } from "./statefulSets.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const owner = { group: "apps", kind: "DaemonSet" };

/** Keeps one pod of each DaemonSet on every node that it selects. */
export function addDaemonSets(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, pods, nodes, daemonSets, revisions } = caches;
  const recorder = caches.recorder("daemonset-controller");

  const decide = (daemonSet: DaemonSet, nowMs: number): ReportedDecision => {
    const hash = templateHash(daemonSet.spec?.template, daemonSet.status?.collisionCount);
    const decision = decideDaemonSet(
      {
        revision: caches.revisionOf([podKind, controllerRevisionKind]),
        daemonSet,
        nodes: [...nodes.cache.view().objects].map(([, node]) => node),
        pods: pods.candidatesOf(daemonSet),
        isTaken: (name) => caches.podNames.has(daemonSet, name),
        revisions: revisionsFor(caches, daemonSet, hash),
      },
      nowMs,
    );
    return { ...decision, onCommitted: (committed) => recordPodEvents(recorder, daemonSet, committed) };
  };

  const everySet = (): string[] => [...daemonSets.cache.view().objects].map(([key]) => key);
  addOwnerController(controllers, inFlight, {
    name: "daemonset-controller",
    kind: daemonSetKind,
    sources: [
      kindSource(daemonSets.cache, forObject()),
      dependentSource(pods, daemonSets.cache, owner),
      kindSource(revisions.cache, forOwner(owner)),
      kindSource(nodes.cache, everySet, isAboutPlacement),
    ],
    decide,
  });
}

/** Heartbeats do not affect the placement of daemon pods. */
function isAboutPlacement(event: CacheEvent<Node>): boolean {
  if (event.type !== "updated") return true;
  const [before, after] = [event.before, event.object];
  return (
    !equalFields(before.metadata.labels ?? {}, after.metadata.labels ?? {}) ||
    !equalFields(before.spec?.taints ?? [], after.spec?.taints ?? [])
  );
}
