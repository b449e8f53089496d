/** Reconcilers of other kinds: PodGroups for kai-scheduler, topologies, and the start-up order on simulated nodes. */

import { decideStart } from "../../decide/gang/cliques/startStep.ts";
import { decideBinding } from "../../decide/gang/gangs/decideBinding.ts";
import { decidePodGroup } from "../../decide/gang/gangs/podGroupObject.ts";
import { labels, schedulerGroveGroup } from "../../model/gang/keys.ts";
import { marksSimulated } from "../../model/gang/settings.ts";
import type { PodCliqueSet } from "../../model/gang/types.ts";
import { keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { forMapped, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { addGangReconciler, carryOut } from "./carryOut.ts";
import { type GangCaches, lossOfNode } from "./gangCaches.ts";

export function addPodGroupReconciler(caches: GangCaches): void {
  const { podGroups } = caches;
  if (podGroups === undefined) return;
  addGangReconciler(caches, {
    name: "gang-podgroups",
    concurrency: caches.settings.concurrency.podGang,
    sources: [
      kindSource(caches.podGangs, forObject()),
      kindSource(
        podGroups,
        forOwner({ group: schedulerGroveGroup, kind: "PodGang" }),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
    ],
    reconcile: (key, context) => {
      const podGang = caches.podGangs.get(key);
      if (podGang === undefined) return undefined;
      const set: PodCliqueSet | undefined = caches.setOf(podGang);
      const decision = decidePodGroup({
        absentAtRevision: caches.absentAtRevision(),
        podGang,
        set,
        podGroup: podGroups.get(key),
      });
      return carryOut(caches, decision, context);
    },
  });
}

export function addBindingReconciler(caches: GangCaches): void {
  const { topologies, settings } = caches;
  if (topologies === undefined) return;
  const bindingsOf = ({ metadata }: KubeObject): string[] => {
    const owners = (metadata.ownerReferences ?? []).flatMap(({ kind, name }) =>
      kind === "ClusterTopologyBinding" ? [name] : [],
    );
    const referring = [...caches.bindings.view().objects].flatMap(([key, { spec }]) =>
      (spec.schedulerTopologyBindings ?? []).some(({ topologyReference }) => topologyReference === metadata.name)
        ? [key]
        : [],
    );
    return [...owners, ...referring];
  };
  addGangReconciler(caches, {
    name: "gang-topologies",
    sources: [kindSource(caches.bindings, forObject()), kindSource(topologies, forMapped(bindingsOf))],
    reconcile: (key, context) => {
      const binding = caches.bindings.get(key);
      if (binding === undefined) return undefined;
      const topologyNamed = (name: string) => topologies.get(name);
      const decision = decideBinding(
        { absentAtRevision: caches.absentAtRevision(), binding, topologyNamed, settings },
        caches.nowMs,
      );
      return carryOut(caches, decision, context);
    },
  });
}

/**
 * On simulated nodes the operator ends the wait of a start-up order; on real nodes the init container watches the pods
 * itself.
 */
export function addStartReconciler(caches: GangCaches): void {
  if (!marksSimulated(caches.settings)) return;
  const gangOf = ({ metadata }: KubeObject): string | undefined => {
    const gang = metadata.labels?.[labels.podGang];
    return gang === undefined ? undefined : keyOf(metadata.namespace, gang);
  };
  const isReadyNow = (object: Pod): unknown => object.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  addGangReconciler(caches, {
    name: "gang-start-order",
    concurrency: caches.settings.concurrency.podGang,
    sources: [
      kindSource(
        caches.pods,
        forMapped((pod) => (gangOf(pod) === undefined ? [] : [gangOf(pod) as string])),
        fieldChanged(isReadyNow),
      ),
      kindSource(
        caches.nodes,
        ({ key }) => new Set(caches.podsByNode.get(key).flatMap((pod) => gangOf(pod) ?? [])),
        fieldChanged(lossOfNode),
      ),
    ],
    reconcile: (key, context) => {
      const pods = caches.podsByGang.get(key);
      const decision = decideStart(
        { absentAtRevision: caches.absentAtRevision(), pods, nodeOf: caches.nodeOf },
        caches.nowMs,
      );
      return carryOut(caches, decision, context);
    },
  });
}
