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
import { forMapped, kindSource } from "../runtime/sources.ts";
import { addGangReconciler, carryOut, type GangReconcile } from "./carryOut.ts";
import { type GangCaches, replicaKey, setKeyOf, setReplicaKeyOf, splitReplicaKey } from "./gangCaches.ts";
import { readReplica, recordTermination } from "./readReplica.ts";

export function addReplicaReconciler(caches: GangCaches): void {
  const { settings } = caches;
  const ownReplica = forMapped((object) => {
    const key = setReplicaKeyOf(object);
    return key === undefined ? [] : [key];
  });
  const allReplicas = (set: PodCliqueSet): string[] =>
    Array.from({ length: replicasInReach(set) }, (_, index) => replicaKey(keyOfObject(set), index));
  const ofSet = (object: KubeObject): string[] => {
    const set = caches.sets.get(setKeyOf(object) ?? "");
    return set === undefined ? [] : allReplicas(set);
  };
  addGangReconciler(caches, {
    name: "gang-replicas",
    concurrency: settings.concurrency.podCliqueSet,
    sources: [
      kindSource(
        caches.sets,
        forMapped(allReplicas),
        fieldChanged(({ metadata, status }) => [
          metadata.generation,
          metadata.labels,
          metadata.annotations,
          metadata.deletionTimestamp !== undefined,
          (status?.gangTerminations ?? []).map(({ replicaIndex, startedAt }) => `${replicaIndex} ${startedAt}`),
        ]),
      ),
      kindSource(caches.cliques, ownReplica, fieldChanged(whatReplicasReadOfCliques)),
      kindSource(caches.groups, ownReplica, fieldChanged(whatReplicasReadOfCliques)),
      kindSource(
        caches.pods,
        ownReplica,
        fieldChanged(({ metadata, status }) => {
          const hasEnded = status?.phase === "Failed" || status?.phase === "Succeeded";
          return [metadata.deletionTimestamp !== undefined, hasEnded, metadata.labels];
        }),
      ),
      kindSource(caches.podGangs, ownReplica),
      kindSource(caches.services, ownReplica),
      kindSource(
        caches.autoscalers,
        forMapped(ofSet),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
      kindSource(
        caches.claims,
        forMapped(ofSet),
        fieldChanged(() => 0),
      ),
      kindSource(
        caches.bindings,
        forMapped((binding) =>
          [...caches.sets.view().objects].flatMap(([, set]) =>
            topologyNameOf(set) === binding.metadata.name ? allReplicas(set) : [],
          ),
        ),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
    ],
    reconcile: (key, context) => {
      const { setKey, replica } = splitReplicaKey(key);
      const set = caches.sets.get(setKey);
      if (set === undefined) return undefined;
      const { namespace, name, uid } = set.metadata;
      const topology = topologyNameOf(set);
      const { verdict, ...decision } = decideReplica(
        {
          absentAtRevision: caches.absentAtRevision(),
          settings,
          set,
          setReplica: replica,
          cliques: caches.ownCliques(set, caches.cliquesByReplica.get(key)),
          groups: caches.groupsByReplica.get(key).filter((group) => caches.setOf(group)?.metadata.uid === uid),
          podGangs: caches.podGangsByReplica.get(key),
          podGangNamed: (gang) => caches.podGangs.get(keyOf(namespace, gang)),
          pods: caches.podsByReplica.get(key),
          service: caches.services.get(keyOf(namespace, setReplicaName(name, replica))),
          autoscalerNamed: (scaler) => caches.autoscalers.get(keyOf(namespace, scaler)),
          claims: caches.claimsByOwner.get(uid),
          binding: topology === undefined ? undefined : caches.bindings.get(topology),
        },
        caches.nowMs,
      );
      if (verdict.verdict === "end") return endReplica(caches, set, replica, context);
      const about = { of: "replica", object: set, wakeStatus: () => caches.setsAgain.push(setKey) } as const;
      return carryOut(caches, decision, { ...context, about });
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
  caches: GangCaches,
  set: PodCliqueSet,
  setReplica: number,
  context: GangReconcile,
): Promise<ReconcileResult> {
  const fresh = await readReplica(caches, { set, setReplica, cancel: context.cancel });
  if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
  const verdict = recheckSetReplica(fresh.value, caches.settings.fullLossPolicy, caches.nowMs);
  if ("noLongerDue" in verdict) return { again: verdict.noLongerDue };
  return recordTermination(caches, fresh.value.set, verdict, context);
}
