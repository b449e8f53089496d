import { lookAgainAtAll } from "../../intents/lookAgain.ts";
import { gangResources, labels, managedByValue } from "../../model/gang/keys.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { firstRevision, isLater, laterOf, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { OncePerEpoch } from "../runtime/oncePerEpoch.ts";
import type { GangCaches } from "./gangCaches.ts";

/** How long a cache may take to reach the revision at which the lease was acquired. */
const showMs = 10_000;

/**
 * Before a process decides anything in a new epoch, its caches contain the writes of earlier leaders. The watches of
 * two kinds are independent, so a status may be newer than the objects that it was computed from:
 *
 *   old leader                        API        new leader
 *   clique a: scheduled          -->             the watch of cliques is late
 *   group: 1 replica scheduled   -->        -->  cache: the group has 1 replica, clique a was never scheduled
 *                                                decide: no replica, and none was lost: no Event
 */
export function gangTakeOver(caches: GangCaches): OncePerEpoch {
  const ours = `${labels.managedBy}=${managedByValue}`;
  const show = async <T extends KubeObject>(
    cache: ObjectCache<T>,
    place: Resource<T>,
    { since, cancel }: { readonly since: Revision; readonly cancel: Cancel },
  ): Promise<Outcome<unknown>> => {
    const { kube } = caches.controllers;
    const listed = await lookAgainAtAll(kube, place, { labelSelector: ours }, { atLeast: since, cancel });
    if (!listed.ok) return listed;
    const { items, revision } = listed.value;
    const newest = items.reduce((last, { metadata }) => laterOf(last, metadata.resourceVersion), firstRevision);
    const existing = new Set(items.map(({ metadata }) => metadata.uid));
    const hasDeleted = (): boolean =>
      [...cache.view().objects.values()].some(
        ({ metadata }) =>
          metadata.labels?.[labels.managedBy] === managedByValue &&
          !existing.has(metadata.uid) &&
          !isLater(metadata.resourceVersion, revision),
      );
    const isShown = await cache.waitForRevision(newest, { cancel, timeoutMs: showMs });
    if (isShown && !hasDeleted()) return succeeded(undefined);
    return refused("Unavailable", `the cache of ${place.plural} is older than the lease`);
  };
  return new OncePerEpoch(caches.controllers, async (since, cancel) => {
    const options = { since, cancel };
    for (const next of [
      () => show(caches.groups, gangResources.PodCliqueScalingGroup, options),
      () => show(caches.cliques, gangResources.PodClique, options),
      () => show(caches.pods, gangResources.Pod, options),
    ]) {
      const outcome = await next();
      if (!outcome.ok) return outcome;
    }
    return succeeded(undefined);
  });
}
