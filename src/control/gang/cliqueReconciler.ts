/** Reconciles PodCliques: pods, gates, updates, status. */
import { decideClique } from "../../decide/gang/cliques/decideClique.ts";
import { tokenSecretName } from "../../decide/gang/names.ts";
import { groveGroup, labels } from "../../model/gang/keys.ts";
import type { PodGang } from "../../model/gang/types.ts";
import { keyOf, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { reconcileResultOf } from "../runtime/loop.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { Channel, forMapped, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { carryOut, settleDoubts } from "./carryOut.ts";
import { controllerRef, type GangCaches, lossOfNode, presenceKey, setKeyOf } from "./gangCaches.ts";
import { setSources } from "./setSources.ts";

export function addCliqueReconciler(world: GangCaches): void {
  const { picture, settings } = world;
  const again = new Channel();
  const cliquesOfGang = (gang: PodGang): string[] =>
    gang.spec.podgroups.map(({ name }) => keyOf(gang.metadata.namespace, name));
  /** Gangs beyond the minimum wait for the base gang to be scheduled. */
  const waitingForBase = (clique: KubeObject): string[] => {
    const gang = clique.metadata.labels?.[labels.podGang];
    if (gang === undefined || clique.metadata.labels?.[labels.basePodGang] !== undefined) return [];
    return world.cliquesByBase.get(keyOf(clique.metadata.namespace, gang)).map(keyOfObject);
  };
  const cliquesOnNode = (node: string): Set<string> =>
    new Set(
      world.podsByNode.get(node).flatMap((pod) => {
        const owner = controllerRef(pod);
        return owner?.kind === "PodClique" ? [keyOf(pod.metadata.namespace, owner.name)] : [];
      }),
    );
  world.controllers.add({
    name: "gang-cliques",
    concurrency: settings.concurrency.podClique,
    sources: [
      again,
      kindSource(world.cliques, forObject()),
      kindSource(world.pods, forOwner({ group: groveGroup, kind: "PodClique" })),
      kindSource(world.nodes, ({ key }) => cliquesOnNode(key), fieldChanged(lossOfNode)),
      kindSource(
        world.podGangs,
        forMapped(cliquesOfGang),
        fieldChanged((gang) => [
          gang.spec,
          gang.status?.conditions?.find(({ type }) => type === "Initialized")?.status,
        ]),
      ),
      kindSource(
        world.cliques,
        forMapped(waitingForBase),
        fieldChanged((clique) => clique.status?.scheduledReplicas),
      ),
      ...setSources(world, {
        ofSet: (key) => world.cliquesBySet.get(key),
        ofReplica: (key) => world.cliquesByReplica.get(key),
      }),
      kindSource(
        world.claims,
        forOwner({ group: groveGroup, kind: "PodClique" }),
        fieldChanged(() => 0),
      ),
      kindSource(
        world.accounts["Secret"] as never,
        forMapped((secret: KubeObject) => {
          const setKey = setKeyOf(secret);
          return setKey === undefined ? [] : world.cliquesBySet.get(setKey).map(keyOfObject);
        }),
        fieldChanged((secret) => (secret["data"] as { token?: string } | undefined)?.token !== undefined),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const wake = (): void => again.push(key);
      const turn = { key: `cliques ${key}`, cancel, wake };
      if (!(await settleDoubts(world, turn))) return { again: "what was sent before is in doubt" };
      const clique = world.cliques.get(key);
      if (clique === undefined) return undefined;
      const { namespace, uid } = clique.metadata;
      const set = world.setOf(clique);
      const pods = world.podsByOwner.get(uid);
      const found = await world.findNodes(pods, cancel);
      if (!found.ok) return reconcileResultOf(found) ?? { again: found.message };
      const valuesOf = (pod: string) => picture.values(presenceKey(uid, pod));
      const decision = decideClique(
        {
          absentAt: world.absentAt(),
          settings,
          clique,
          set,
          pods,
          nodeOf: world.nodeOf,
          replica: () => world.replicaOf(clique, set),
          isComing: (pod) => valuesOf(pod).includes("live") && world.pods.get(keyOf(namespace, pod)) === undefined,
          isGone: (pod) => valuesOf(pod).length > 0 && !valuesOf(pod).includes("live"),
          isTaken: (pod) => world.pods.get(keyOf(namespace, pod)) !== undefined,
          podGangNamed: (name) => world.podGangs.get(keyOf(namespace, name)),
          cliqueNamed: (name) => world.cliques.get(keyOf(namespace, name)),
          claims: world.claimsByOwner.get(uid),
          templateNamed: world.templateNamed,
          failures: world.failuresOf(uid),
          tokenSecret: set === undefined ? undefined : world.tokenOf(set, tokenSecretName(set.metadata.name)),
        },
        world.nowMs,
      );
      return carryOut(world, decision, { ...turn, about: { of: "clique", object: clique, wakeStatus: wake } });
    },
  });
}
