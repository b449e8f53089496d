/**
 * Reconciles the replicas of PodCliqueSets: Service, cliques, groups, gangs, and the termination of a replica in
 * breach.
 */

import { setReplicaName } from "../../decide/gang/names.ts";
import { decideReplica } from "../../decide/gang/sets/decideReplica.ts";
import { recheckSetReplica } from "../../decide/gang/termination.ts";
import { replicasInReach } from "../../model/gang/reach.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import { topologyNameOf } from "../../model/gang/validateTopology.ts";
import { keyOf, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { Channel, forMapped, kindSource } from "../runtime/sources.ts";
import { carryOut, type GangReconcile, settleDoubts } from "./carryOut.ts";
import { type GangCaches, replicaKey, setKeyOf, setReplicaKeyOf, splitReplicaKey } from "./gangCaches.ts";
import { readReplica, recordTermination } from "./readReplica.ts";

export function addReplicaReconciler(world: GangCaches): void {
  const { settings } = world;
  const again = new Channel();
  const ownReplica = forMapped((object) => {
    const key = setReplicaKeyOf(object);
    return key === undefined ? [] : [key];
  });
  const allReplicas = (set: PodCliqueSet): string[] =>
    Array.from({ length: replicasInReach(set) }, (_, index) => replicaKey(keyOfObject(set), index));
  const ofSet = (object: KubeObject): string[] => {
    const set = world.sets.get(setKeyOf(object) ?? "");
    return set === undefined ? [] : allReplicas(set);
  };
  world.controllers.add({
    name: "gang-replicas",
    concurrency: settings.concurrency.podCliqueSet,
    sources: [
      again,
      kindSource(
        world.sets,
        forMapped(allReplicas),
        fieldChanged(({ metadata, status }) => [
          metadata.generation,
          metadata.labels,
          metadata.annotations,
          metadata.deletionTimestamp !== undefined,
          (status?.gangTerminations ?? []).map(({ replicaIndex, startedAt }) => `${replicaIndex} ${startedAt}`),
        ]),
      ),
      kindSource(world.cliques, ownReplica, fieldChanged(whatReplicasReadOfCliques)),
      kindSource(world.groups, ownReplica, fieldChanged(whatReplicasReadOfCliques)),
      kindSource(
        world.pods,
        ownReplica,
        fieldChanged(({ metadata, status }) => {
          const hasEnded = status?.phase === "Failed" || status?.phase === "Succeeded";
          return [metadata.deletionTimestamp !== undefined, hasEnded, metadata.labels];
        }),
      ),
      kindSource(world.podGangs, ownReplica),
      kindSource(world.services, ownReplica),
      kindSource(
        world.autoscalers,
        forMapped(ofSet),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
      kindSource(
        world.claims,
        forMapped(ofSet),
        fieldChanged(() => 0),
      ),
      kindSource(
        world.bindings,
        forMapped((binding) =>
          [...world.sets.view().objects].flatMap(([, set]) =>
            topologyNameOf(set) === binding.metadata.name ? allReplicas(set) : [],
          ),
        ),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const turn = { key: `replicas ${key}`, cancel, wake: () => again.push(key) };
      if (!(await settleDoubts(world, turn))) return { again: "what was sent before is in doubt" };
      const { setKey, replica } = splitReplicaKey(key);
      const set = world.sets.get(setKey);
      if (set === undefined) return undefined;
      const { namespace, name, uid } = set.metadata;
      const topology = topologyNameOf(set);
      const { verdict, ...decision } = decideReplica(
        {
          absentAt: world.absentAt(),
          settings,
          set,
          setReplica: replica,
          cliques: world.ownCliques(set, world.cliquesByReplica.get(key)),
          groups: world.groupsByReplica.get(key).filter((group) => world.setOf(group)?.metadata.uid === uid),
          podGangs: world.podGangsByReplica.get(key),
          podGangNamed: (gang) => world.podGangs.get(keyOf(namespace, gang)),
          pods: world.podsByReplica.get(key),
          service: world.services.get(keyOf(namespace, setReplicaName(name, replica))),
          autoscalerNamed: (scaler) => world.autoscalers.get(keyOf(namespace, scaler)),
          claims: world.claimsByOwner.get(uid),
          binding: topology === undefined ? undefined : world.bindings.get(topology),
        },
        world.nowMs,
      );
      if (verdict.verdict === "end") return endReplica(world, set, replica, turn);
      const about = { of: "replica", object: set, wakeStatus: () => world.setsAgain.push(setKey) } as const;
      return carryOut(world, decision, { ...turn, about });
    },
  });
}

function whatReplicasReadOfCliques({ metadata, spec, status }: PodClique | PodCliqueScalingGroup): unknown {
  const breach = status?.conditions?.find(({ type }) => type === "MinAvailableBreached");
  return [
    metadata.generation,
    metadata.labels,
    metadata.deletionTimestamp !== undefined,
    spec.replicas,
    breach?.status,
    breach?.lastTransitionTime,
    status?.conditions?.find(({ type }) => type === "GangTerminationInProgress")?.status,
  ];
}

async function endReplica(
  world: GangCaches,
  set: PodCliqueSet,
  setReplica: number,
  turn: GangReconcile,
): Promise<ReconcileResult> {
  const fresh = await readReplica(world, { set, setReplica, cancel: turn.cancel });
  if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
  const verdict = recheckSetReplica(fresh.value, world.settings.fullLossPolicy, world.nowMs);
  if ("notAnyMore" in verdict) return { again: verdict.notAnyMore };
  return recordTermination(world, fresh.value.set, verdict, turn);
}
