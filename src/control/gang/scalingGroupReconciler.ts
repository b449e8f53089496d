/** Reconciles PodCliqueScalingGroups: members, updates, the termination of replicas in breach, status. */
import { decideGroup } from "../../decide/gang/groups/decideGroup.ts";
import { recheckGroupReplica } from "../../decide/gang/termination.ts";
import { groveGroup } from "../../model/gang/keys.ts";
import { setReplicaOf } from "../../model/gang/setFacts.ts";
import type { PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import { keyOf } from "../../model/intent.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { Channel, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { carryOut, type GangReconcile, settleDoubts } from "./carryOut.ts";
import type { GangCaches } from "./gangCaches.ts";
import { readReplica, recordTermination } from "./readReplica.ts";
import { setSources } from "./setSources.ts";

export function addGroupReconciler(world: GangCaches): void {
  const { settings } = world;
  const again = new Channel();
  world.controllers.add({
    name: "gang-groups",
    concurrency: settings.concurrency.podCliqueScalingGroup,
    sources: [
      again,
      kindSource(world.groups, forObject()),
      kindSource(world.cliques, forOwner({ group: groveGroup, kind: "PodCliqueScalingGroup" })),
      ...setSources(world, {
        ofSet: (key) => world.groupsBySet.get(key),
        ofReplica: (key) => world.groupsByReplica.get(key),
      }),
      kindSource(
        world.claims,
        forOwner({ group: groveGroup, kind: "PodCliqueScalingGroup" }),
        fieldChanged(() => 0),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const wake = (): void => again.push(key);
      const turn = { key: `groups ${key}`, cancel, wake };
      if (!(await settleDoubts(world, turn))) return { again: "what was sent before is in doubt" };
      const group = world.groups.get(key);
      if (group === undefined) return undefined;
      const { namespace, uid } = group.metadata;
      const set = world.setOf(group);
      const { ends, ...decision } = decideGroup(
        {
          absentAt: world.absentAt(),
          settings,
          group,
          set,
          cliques: world.cliquesByOwner.get(uid),
          replica: () => world.replicaOf(group, set),
          isTaken: (name) => world.cliques.get(keyOf(namespace, name)) !== undefined,
          claims: world.claimsByOwner.get(uid),
          templateNamed: world.templateNamed,
          failures: world.failuresOf(uid),
        },
        world.nowMs,
      );
      const [index] = ends;
      if (index !== undefined && set !== undefined) return endReplica(world, { set, group, index }, turn);
      return carryOut(world, decision, { ...turn, about: { of: "group", object: group, wakeStatus: wake } });
    },
  });
}

/** Reads everything again, and records what has to be deleted. The next reconcile acts on the record. */
async function endReplica(
  world: GangCaches,
  { set, group, index }: { set: PodCliqueSet; group: PodCliqueScalingGroup; index: number },
  turn: GangReconcile,
): Promise<ReconcileResult> {
  const fresh = await readReplica(world, { set, setReplica: setReplicaOf(group) ?? 0, cancel: turn.cancel });
  if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
  const verdict = recheckGroupReplica(
    fresh.value,
    { groupName: group.metadata.name, index, policy: world.settings.fullLossPolicy },
    world.nowMs,
  );
  // It has recovered, and its conditions will show it: their event enqueues the group.
  if ("notAnyMore" in verdict) return { again: verdict.notAnyMore };
  const object = fresh.value.groups.find(({ metadata }) => metadata.uid === group.metadata.uid);
  if (object === undefined) return undefined;
  return recordTermination(world, object, verdict, turn);
}
