/** Reconcilers beside the tree: PodGroups for kai-scheduler, topologies, and the start-up order on simulated nodes. */

import { decideStart } from "../../decide/gang/cliques/startStep.ts";
import { decideBinding } from "../../decide/gang/gangs/decideBinding.ts";
import { decidePodGroup } from "../../decide/gang/gangs/podGroupObject.ts";
import { labels, schedulerGroveGroup } from "../../model/gang/keys.ts";
import type { PodCliqueSet } from "../../model/gang/types.ts";
import { keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { fieldChanged } from "../runtime/predicates.ts";
import { Channel, forMapped, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { carryOut } from "./carryOut.ts";
import { type GangCaches, lossOfNode } from "./gangCaches.ts";

export function addPodGroupReconciler(world: GangCaches): void {
  const { podGroups } = world;
  if (podGroups === undefined) return;
  const again = new Channel();
  world.controllers.add({
    name: "gang-podgroups",
    concurrency: world.settings.concurrency.podGang,
    sources: [
      again,
      kindSource(world.podGangs, forObject()),
      kindSource(
        podGroups,
        forOwner({ group: schedulerGroveGroup, kind: "PodGang" }),
        fieldChanged(({ metadata }) => metadata.generation),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const podGang = world.podGangs.get(key);
      if (podGang === undefined) return undefined;
      const set: PodCliqueSet | undefined = world.setOf(podGang);
      const decision = decidePodGroup({ absentAt: world.absentAt(), podGang, set, podGroup: podGroups.get(key) });
      return carryOut(world, decision, { key: `podgroups ${key}`, cancel, wake: () => again.push(key) });
    },
  });
}

export function addBindingReconciler(world: GangCaches): void {
  const { topologies, settings } = world;
  if (topologies === undefined) return;
  const again = new Channel();
  const bindingsOf = ({ metadata }: KubeObject): string[] => {
    const owners = (metadata.ownerReferences ?? []).flatMap(({ kind, name }) =>
      kind === "ClusterTopologyBinding" ? [name] : [],
    );
    const referring = [...world.bindings.view().objects].flatMap(([key, { spec }]) =>
      (spec.schedulerTopologyBindings ?? []).some(({ topologyReference }) => topologyReference === metadata.name)
        ? [key]
        : [],
    );
    return [...owners, ...referring];
  };
  world.controllers.add({
    name: "gang-topologies",
    sources: [again, kindSource(world.bindings, forObject()), kindSource(topologies, forMapped(bindingsOf))],
    reconcile: async (key, { cancel }) => {
      const binding = world.bindings.get(key);
      if (binding === undefined) return undefined;
      const topologyNamed = (name: string) => topologies.get(name);
      const decision = decideBinding({ absentAt: world.absentAt(), binding, topologyNamed, settings }, world.nowMs);
      return carryOut(world, decision, { key: `topologies ${key}`, cancel, wake: () => again.push(key) });
    },
  });
}

/** On simulated nodes the operator ends the wait of a start-up order; elsewhere the init container checks itself. */
export function addStartReconciler(world: GangCaches): void {
  if (world.settings.startOrder.by !== "simulated-node") return;
  const again = new Channel();
  const gangOf = ({ metadata }: KubeObject): string | undefined => {
    const gang = metadata.labels?.[labels.podGang];
    return gang === undefined ? undefined : keyOf(metadata.namespace, gang);
  };
  const isReadyNow = (object: Pod): unknown => object.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  world.controllers.add({
    name: "gang-start-order",
    concurrency: world.settings.concurrency.podGang,
    sources: [
      again,
      kindSource(
        world.pods,
        forMapped((pod) => (gangOf(pod) === undefined ? [] : [gangOf(pod) as string])),
        fieldChanged(isReadyNow),
      ),
      kindSource(
        world.nodes,
        ({ key }) => new Set(world.podsByNode.get(key).flatMap((pod) => gangOf(pod) ?? [])),
        fieldChanged(lossOfNode),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const pods = world.podsByGang.get(key);
      const decision = decideStart({ absentAt: world.absentAt(), pods, nodeOf: world.nodeOf }, world.nowMs);
      return carryOut(world, decision, { key: `start ${key}`, cancel, wake: () => again.push(key) });
    },
  });
}
