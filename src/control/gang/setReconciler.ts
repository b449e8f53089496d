/** Reconciles PodCliqueSets as a whole: account, excess, update, status. */
import { decideSet } from "../../decide/gang/sets/decideSet.ts";
import { labels } from "../../model/gang/keys.ts";
import type { PodClique, PodCliqueScalingGroup } from "../../model/gang/types.ts";
import { constraintsOf } from "../../model/gang/validateSetUpdate.ts";
import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { fieldChanged, type Predicate } from "../runtime/predicates.ts";
import { forMapped, forObject, kindSource, type Source } from "../runtime/sources.ts";
import { carryOut, settleDoubts } from "./carryOut.ts";
import { type GangCaches, setKeyOf } from "./gangCaches.ts";

/** Events of many children at once are reconciled once. */
const gatherMs = 10;

export function addSetReconciler(world: GangCaches): void {
  const { settings, setsAgain: again } = world;
  const ofSet = (object: KubeObject): string[] => {
    const key = setKeyOf(object);
    return key === undefined ? [] : [key];
  };
  const appears = fieldChanged(({ metadata }: KubeObject) => metadata.deletionTimestamp !== undefined);
  world.controllers.add({
    name: "gang-sets",
    concurrency: settings.concurrency.podCliqueSet,
    sources: [
      again,
      kindSource(world.sets, forObject()),
      gathered(world.cliques, ofSet, fieldChanged(whatSetsReadOfCliques)),
      gathered(world.groups, ofSet, fieldChanged(whatSetsReadOfGroups)),
      gathered(world.podGangs, ofSet, appears),
      gathered(world.services, ofSet, appears),
      gathered(world.autoscalers, ofSet, appears),
      gathered(world.claims, ofSet, appears),
      ...Object.values(world.accounts).map((cache) => kindSource(cache, forMapped(ofSet), appears)),
      kindSource(
        world.bindings,
        forMapped((binding) =>
          [...world.sets.view().objects].flatMap(([key, set]) =>
            constraintsOf(set).some(({ constraint }) => constraint.topologyName === binding.metadata.name) ? [key] : [],
          ),
        ),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
      { start: () => () => world.recorder.stop() },
    ],
    reconcile: async (key, { cancel }) => {
      const wake = (): void => again.push(key);
      const turn = { key: `sets ${key}`, cancel, wake };
      if (!(await settleDoubts(world, turn))) return { again: "what was sent before is in doubt" };
      const set = world.sets.get(key);
      if (set === undefined) return undefined;
      const { namespace, uid } = set.metadata;
      const decision = decideSet(
        {
          absentAt: world.absentAt(),
          settings,
          set,
          cliques: world.ownCliques(set, world.cliquesBySet.get(key)),
          groups: world.groupsBySet.get(key).filter((group) => world.setOf(group)?.metadata.uid === uid),
          podGangs: world.podGangsBySet.get(key),
          services: world.servicesBySet.get(key),
          autoscalers: world.autoscalersBySet.get(key),
          claims: world.claimsByOwner.get(uid),
          templateNamed: world.templateNamed,
          accountNamed: (kind, name) => world.accounts[kind]?.get(keyOf(namespace, name)),
          bindingNamed: (name) => world.bindings.get(name),
          failures: world.failuresOf(uid),
        },
        world.nowMs,
      );
      return carryOut(world, decision, { ...turn, about: { of: "set", object: set, wakeStatus: wake } });
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
  const said = (wanted: string) => status?.conditions?.find(({ type }) => type === wanted)?.status;
  return [
    metadata.deletionTimestamp !== undefined,
    status?.availableReplicas,
    status?.currentPodCliqueSetGenerationHash,
    status?.updateProgress?.updateEndedAt,
    said("MinAvailableBreached"),
    said("GangTerminationInProgress"),
  ];
}
