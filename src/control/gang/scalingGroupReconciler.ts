/** Reconciles PodCliqueScalingGroups: members, updates, the termination of replicas in breach, status. */
import { decideGroup } from "../../decide/gang/groups/decideGroup.ts";
import { recheckGroupReplica } from "../../decide/gang/termination.ts";
import { groveGroup } from "../../model/gang/keys.ts";
import { setReplicaOf } from "../../model/gang/setFacts.ts";
import type { PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import { keyOf } from "../../model/intent.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { addGangReconciler, carryOut, type GangReconcile } from "./carryOut.ts";
import type { GangCaches } from "./gangCaches.ts";
import { readReplica, recordTermination } from "./readReplica.ts";
import { setSources } from "./setSources.ts";

export function addGroupReconciler(caches: GangCaches): void {
  const { settings } = caches;
  addGangReconciler(caches, {
    name: "gang-groups",
    concurrency: settings.concurrency.podCliqueScalingGroup,
    sources: [
      kindSource(caches.groups, forObject()),
      kindSource(caches.cliques, forOwner({ group: groveGroup, kind: "PodCliqueScalingGroup" })),
      ...setSources(caches, {
        ofSet: (key) => caches.groupsBySet.get(key),
        ofReplica: (key) => caches.groupsByReplica.get(key),
      }),
      kindSource(
        caches.claims,
        forOwner({ group: groveGroup, kind: "PodCliqueScalingGroup" }),
        fieldChanged(() => 0),
      ),
    ],
    reconcile: (key, context) => {
      const group = caches.groups.get(key);
      if (group === undefined) return undefined;
      const { namespace, uid } = group.metadata;
      const set = caches.setOf(group);
      const { ends, ...decision } = decideGroup(
        {
          absentAtRevision: caches.absentAtRevision(),
          settings,
          group,
          set,
          cliques: caches.cliquesByOwner.get(uid),
          replica: () => caches.replicaOf(group, set),
          isTaken: (name) => caches.cliques.get(keyOf(namespace, name)) !== undefined,
          claims: caches.claimsByOwner.get(uid),
          templateNamed: caches.templateNamed,
          failures: caches.failuresOf(uid),
        },
        caches.nowMs,
      );
      const [index] = ends;
      if (index !== undefined && set !== undefined) return endReplica(caches, { set, group, index }, context);
      const about = { of: "group", object: group, wakeStatus: context.author.wake } as const;
      return carryOut(caches, decision, { ...context, about });
    },
  });
}

/** Reads the replica again and records the cliques to delete. The next reconcile acts on the record. */
async function endReplica(
  caches: GangCaches,
  { set, group, index }: { set: PodCliqueSet; group: PodCliqueScalingGroup; index: number },
  context: GangReconcile,
): Promise<ReconcileResult> {
  const fresh = await readReplica(caches, { set, setReplica: setReplicaOf(group) ?? 0, cancel: context.cancel });
  if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
  const verdict = recheckGroupReplica(
    fresh.value,
    { groupName: group.metadata.name, index, policy: caches.settings.fullLossPolicy },
    caches.nowMs,
  );
  // The replica has recovered. When its conditions are written, their event enqueues the group.
  if ("noLongerDue" in verdict) return { again: verdict.noLongerDue };
  const object = fresh.value.groups.find(({ metadata }) => metadata.uid === group.metadata.uid);
  if (object === undefined) return undefined;
  return recordTermination(caches, object, verdict, context);
}
