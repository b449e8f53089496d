/** Reconciles PodCliqueSets: service account, surplus objects, update, status. */
import { decideSet } from "../../decide/gang/sets/decideSet.ts";
import { labels } from "../../model/gang/keys.ts";
import type { PodClique, PodCliqueScalingGroup } from "../../model/gang/types.ts";
import { constraintsOf } from "../../model/gang/validateSetUpdate.ts";
import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { fieldChanged, type Predicate } from "../runtime/predicates.ts";
import { forMapped, forObject, kindSource, type Source } from "../runtime/sources.ts";
import { addGangReconciler, carryOut } from "./carryOut.ts";
import { type GangCaches, setKeyOf } from "./gangCaches.ts";

/** Events of many children at once are reconciled once. */
const gatherMs = 10;

export function addSetReconciler(caches: GangCaches): void {
  const { settings } = caches;
  const ofSet = (object: KubeObject): string[] => {
    const key = setKeyOf(object);
    return key === undefined ? [] : [key];
  };
  const appears = fieldChanged(({ metadata }: KubeObject) => metadata.deletionTimestamp !== undefined);
  addGangReconciler(caches, {
    name: "gang-sets",
    again: caches.setsAgain,
    concurrency: settings.concurrency.podCliqueSet,
    sources: [
      kindSource(caches.sets, forObject()),
      gathered(caches.cliques, ofSet, fieldChanged(whatSetsReadOfCliques)),
      gathered(caches.groups, ofSet, fieldChanged(whatSetsReadOfGroups)),
      gathered(caches.podGangs, ofSet, appears),
      gathered(caches.services, ofSet, appears),
      gathered(caches.autoscalers, ofSet, appears),
      gathered(caches.claims, ofSet, appears),
      ...Object.values(caches.accounts).map((cache) => kindSource(cache, forMapped(ofSet), appears)),
      kindSource(
        caches.bindings,
        forMapped((binding) =>
          [...caches.sets.view().objects].flatMap(([key, set]) =>
            constraintsOf(set).some(({ constraint }) => constraint.topologyName === binding.metadata.name) ? [key] : [],
          ),
        ),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
      { start: () => () => caches.recorder.stop() },
    ],
    reconcile: (key, context) => {
      const set = caches.sets.get(key);
      if (set === undefined) return undefined;
      const { namespace, uid } = set.metadata;
      const decision = decideSet(
        {
          absentAtRevision: caches.absentAtRevision(),
          settings,
          set,
          cliques: caches.ownCliques(set, caches.cliquesBySet.get(key)),
          groups: caches.groupsBySet.get(key).filter((group) => caches.setOf(group)?.metadata.uid === uid),
          podGangs: caches.podGangsBySet.get(key),
          services: caches.servicesBySet.get(key),
          autoscalers: caches.autoscalersBySet.get(key),
          claims: caches.claimsByOwner.get(uid),
          templateNamed: caches.templateNamed,
          accountNamed: (kind, name) => caches.accounts[kind]?.get(keyOf(namespace, name)),
          bindingNamed: (name) => caches.bindings.get(name),
          failures: caches.failuresOf(uid),
        },
        caches.nowMs,
      );
      const about = { of: "set", object: set, wakeStatus: context.author.wake } as const;
      return carryOut(caches, decision, { ...context, about });
    },
  });
}

/** Like kindSource, with a delay: a set with hundreds of replicas would be reconciled for each of their events. */
function gathered<T extends KubeObject>(
  cache: ObjectCache<T>,
  keysOf: (object: T) => string[],
  predicate: Predicate<T>,
): Source {
  return {
    cache,
    start: (queue) =>
      cache.onEvent((event) => {
        if (!predicate(event)) return;
        for (const key of keysOf(event.object)) queue.addAfter(key, gatherMs);
      }),
  };
}

function whatSetsReadOfCliques({ metadata, spec, status }: PodClique): unknown {
  const breach = status?.conditions?.find(({ type }) => type === "MinAvailableBreached");
  return [
    metadata.deletionTimestamp !== undefined,
    metadata.labels?.[labels.templateHash],
    (status?.readyReplicas ?? 0) >= (spec.minAvailable ?? 1),
    (status?.updatedReplicas ?? 0) >= (spec.minAvailable ?? 1),
    status?.scheduledReplicas === 0,
    status?.currentPodTemplateHash,
    status?.currentPodCliqueSetGenerationHash,
    status?.updateProgress?.updateEndedAt,
    breach?.status,
  ];
}

function whatSetsReadOfGroups({ metadata, status }: PodCliqueScalingGroup): unknown {
  const statusOf = (wanted: string) => status?.conditions?.find(({ type }) => type === wanted)?.status;
  return [
    metadata.deletionTimestamp !== undefined,
    status?.availableReplicas,
    status?.currentPodCliqueSetGenerationHash,
    status?.updateProgress?.updateEndedAt,
    statusOf("MinAvailableBreached"),
    statusOf("GangTerminationInProgress"),
  ];
}
