/** Reconciles PodCliques: pods, gates, updates, status. */
import { decideClique } from "../../decide/gang/cliques/decideClique.ts";
import { tokenSecretName } from "../../decide/gang/names.ts";
import { groveGroup, labels } from "../../model/gang/keys.ts";
import type { PodGang } from "../../model/gang/types.ts";
import { keyOf, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { reconcileResultOf } from "../runtime/loop.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { forMapped, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { addGangReconciler, carryOut } from "./carryOut.ts";
import { controllerRef, type GangCaches, lossOfNode, presenceKey, setKeyOf } from "./gangCaches.ts";
import { setSources } from "./setSources.ts";

export function addCliqueReconciler(caches: GangCaches): void {
  const { assumeCache, settings } = caches;
  const cliquesOfGang = (gang: PodGang): string[] =>
    gang.spec.podgroups.map(({ name }) => keyOf(gang.metadata.namespace, name));
  /** Gangs beyond the minimum wait for the base gang to be scheduled. */
  const waitingForBase = (clique: KubeObject): string[] => {
    const gang = clique.metadata.labels?.[labels.podGang];
    if (gang === undefined || clique.metadata.labels?.[labels.basePodGang] !== undefined) return [];
    return caches.cliquesByBase.get(keyOf(clique.metadata.namespace, gang)).map(keyOfObject);
  };
  const cliquesOnNode = (node: string): Set<string> =>
    new Set(
      caches.podsByNode.get(node).flatMap((pod) => {
        const owner = controllerRef(pod);
        return owner?.kind === "PodClique" ? [keyOf(pod.metadata.namespace, owner.name)] : [];
      }),
    );
  addGangReconciler(caches, {
    name: "gang-cliques",
    concurrency: settings.concurrency.podClique,
    sources: [
      kindSource(caches.cliques, forObject()),
      kindSource(caches.pods, forOwner({ group: groveGroup, kind: "PodClique" })),
      kindSource(caches.nodes, ({ key }) => cliquesOnNode(key), fieldChanged(lossOfNode)),
      kindSource(
        caches.podGangs,
        forMapped(cliquesOfGang),
        fieldChanged((gang) => [
          gang.spec,
          gang.status?.conditions?.find(({ type }) => type === "Initialized")?.status,
        ]),
      ),
      kindSource(
        caches.cliques,
        forMapped(waitingForBase),
        fieldChanged((clique) => clique.status?.scheduledReplicas),
      ),
      ...setSources(caches, {
        ofSet: (key) => caches.cliquesBySet.get(key),
        ofReplica: (key) => caches.cliquesByReplica.get(key),
      }),
      kindSource(
        caches.claims,
        forOwner({ group: groveGroup, kind: "PodClique" }),
        fieldChanged(() => 0),
      ),
      kindSource(
        caches.accounts["Secret"] as never,
        forMapped((secret: KubeObject) => {
          const setKey = setKeyOf(secret);
          return setKey === undefined ? [] : caches.cliquesBySet.get(setKey).map(keyOfObject);
        }),
        fieldChanged((secret) => (secret["data"] as { token?: string } | undefined)?.token !== undefined),
      ),
    ],
    reconcile: async (key, context) => {
      const ownerUid = caches.cliques.get(key)?.metadata.uid;
      if (ownerUid === undefined) return undefined;
      const found = await caches.findNodes(ownerUid, context.cancel);
      if (!found.ok) return reconcileResultOf(found) ?? { again: found.message };
      // The caches are read only now: events that arrived during the reads of nodes are part of the decision.
      //
      //   reconcile                          caches
      //   list the pods: a, b
      //   read node n2 (await)               a is deleted, its name is free
      //   decide: delete a, create a         two writes of one name; or a third pod beside one that has arrived
      const clique = caches.cliques.get(key);
      if (clique === undefined || clique.metadata.uid !== ownerUid) return undefined;
      const { namespace, uid } = clique.metadata;
      const set = caches.setOf(clique);
      const pods = caches.podsByOwner.get(uid);
      const valuesOf = (pod: string) => assumeCache.values(presenceKey(uid, pod));
      const decision = decideClique(
        {
          absentAtRevision: caches.absentAtRevision(),
          settings,
          clique,
          set,
          pods,
          nodeOf: caches.nodeOf,
          replica: () => caches.replicaOf(clique, set),
          isComing: (pod) => valuesOf(pod).includes("live") && caches.pods.get(keyOf(namespace, pod)) === undefined,
          isGone: (pod) => valuesOf(pod).length > 0 && !valuesOf(pod).includes("live"),
          isTaken: (pod) => caches.pods.get(keyOf(namespace, pod)) !== undefined,
          podGangNamed: (name) => caches.podGangs.get(keyOf(namespace, name)),
          cliqueNamed: (name) => caches.cliques.get(keyOf(namespace, name)),
          claims: caches.claimsByOwner.get(uid),
          templateNamed: caches.templateNamed,
          failures: caches.failuresOf(uid),
          tokenSecret: set === undefined ? undefined : caches.tokenOf(set, tokenSecretName(set.metadata.name)),
        },
        caches.nowMs,
      );
      const about = { of: "clique", object: clique, wakeStatus: context.author.wake } as const;
      return carryOut(caches, decision, { ...context, about });
    },
  });
}
