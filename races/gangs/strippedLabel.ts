import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forMapped, forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { lookAgain } from "../../src/intents/lookAgain.ts";
import { expectedOf, type Intent } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, carryOut, configMap, inFlightOf, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const label = "domain";

const placedDomainsKeepTheirLabel: Invariant = {
  id: "I7",
  fact: "a node of a live domain keeps the domain's label",
  begin: ({ store }) => ({
    commit: ({ event, call }) => {
      if (event.current.resource !== "/nodes" || event.current.object().metadata.labels?.[label] !== undefined) {
        return undefined;
      }
      const domain = store.get("/configmaps", "default", "d");
      if (domain?.object().metadata.annotations?.["placed"] === undefined) return undefined;
      return `${call.actor} removed the label of domain d from node ${event.current.name}, although the domain exists and is placed there`;
    },
  }),
};

/** Labels the node with the UID of the live domain, and cleans up after a deleted one. */
function placeByUid(controllers: Controllers): void {
  const domains = controllers.cache(kinds.configMaps);
  const nodes = controllers.cache(kinds.nodes);
  const inFlight = inFlightOf(controllers, [kinds.configMaps, kinds.nodes]);
  const relabel = (node: KubeObject, mark: string | null, why: string): Intent => ({
    type: "patch",
    target: at(kinds.nodes, "n1"),
    expected: expectedOf(node),
    patch: { metadata: { labels: { [label]: mark } } },
    why,
  });
  controllers.add({
    name: "domains",
    sources: [
      kindSource(domains, forObject()),
      kindSource(
        nodes,
        forMapped(() => ["default/d"]),
      ),
    ],
    reconcile: async (key, turn) => {
      const node = nodes.get("n1");
      const domain = domains.get(key);
      const mark = node?.metadata.labels?.[label];
      if (node === undefined) return undefined;
      const act = (intent: Intent): Promise<ReconcileResult> => carryOut(inFlight, { intent, effects: [] }, turn);
      if (domain === undefined) {
        if (mark === undefined) return undefined;
        // Not cached is not deleted: the domain is read again before the label is removed.
        const fresh = await lookAgain(controllers.outside, at(kinds.configMaps, "d"), { atLeast: domains.revision });
        if (!fresh.ok) return reconcileResultOf(fresh);
        if (fresh.value.object?.metadata.uid === mark) return { requeueAfterMs: 20 };
        return act(relabel(node, null, "its domain is gone"));
      }
      if (domain.metadata.annotations?.["placed"] !== undefined) return undefined;
      if (mark !== domain.metadata.uid) return act(relabel(node, domain.metadata.uid, "a domain is placed here"));
      const object = { ...domain, metadata: { ...domain.metadata, annotations: { placed: "n1" } } };
      const target = at(kinds.configMaps, "d");
      return act({ type: "update", target, expected: expectedOf(domain), object, why: "the node has its label" });
    },
  });
}

/** The bugs: the label has the name of the domain, not its UID, and the removal has no precondition. */
function placeByName(controllers: Controllers, { kube }: ActorPorts): void {
  const domains = controllers.cache(kinds.configMaps);
  const cleanUp = async (dead: KubeObject): Promise<void> => {
    const node = await kube.get(at(kinds.nodes, "n1"));
    if (!node.ok || node.value.metadata.labels?.[label] !== dead.metadata.name) return;
    const body = { metadata: { labels: { [label]: null } } };
    await kube.patch(at(kinds.nodes, "n1"), { type: "merge", body });
  };
  domains.onEvent((event) => {
    if (event.type === "deleted") void cleanUp(event.object);
  });
  controllers.add({
    name: "domains",
    sources: [kindSource(domains, forObject())],
    reconcile: async (key) => {
      const domain = domains.get(key);
      if (domain === undefined || domain.metadata.annotations?.["placed"] !== undefined) return undefined;
      const node = await kube.get(at(kinds.nodes, "n1"));
      if (!node.ok) return reconcileResultOf(node);
      const { labels } = node.value.metadata;
      if (labels?.[label] !== domain.metadata.name) {
        const metadata = { ...node.value.metadata, labels: { ...labels, [label]: domain.metadata.name } };
        const outcome = await kube.update(at(kinds.nodes, "n1"), { ...node.value, metadata });
        if (!outcome.ok) return reconcileResultOf(outcome);
      }
      const metadata = { ...domain.metadata, annotations: { placed: "n1" } };
      const outcome = await kube.update(at(kinds.configMaps, "d"), { ...domain, metadata });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const play = (variant: string, byUid: boolean) =>
  scene({
    slug: "stripped-label",
    variant,
    about: "a domain is deleted and recreated while the clean-up of the first is in flight",
    faults: ["slow-call", "timeout-before", "watch-delay", "watch-reorder"],
    invariants: [placedDomainsKeepTheirLabel],
    setUp: async (kube) => {
      await kube.create(kinds.nodes, plain("v1", "Node", "", "n1"));
      await kube.create(kinds.configMaps, configMap("d"));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 8; round++) {
          await ports.sleep(400);
          await ports.kube.delete(at(kinds.configMaps, "d"));
          await ports.sleep(round * 5);
          await ports.kube.create(kinds.configMaps, configMap("d"));
        }
      }),
      controllersProcess("controller", byUid ? placeByUid : placeByName),
    ],
  });

export const strippedLabel: Exhibit = {
  number: 18,
  slug: "stripped-label",
  title: "The clean-up of a deleted domain removes the label of its successor",
  source: "kubernetes-sigs/dra-driver-nvidia-gpu@a789a863",
  invariant: "I7",
  story: `
  owner          controller                      API
  delete d  -->  d is gone: strip n1 of "d" ---\\
  create d  -->  d is here: n1 has "d" already  \\ d is marked as placed on n1
                                                 -> n1 loses "d"     d is alive, its node is not its own
  The label carries the UID, and the strip names the version that was looked at.`,
  fixed: { name: "fixed", about: "label with UID, removal with a resourceVersion", scenario: play("fixed", true) },
  buggy: [
    {
      name: "by-name",
      about: "label with name, removal without a resourceVersion",
      scenario: play("by-name", false),
      firstSeeds: 50,
      schedule: [{ key: "controller|patch|/nodes//n1#1|request|slow-call", value: 100_000 }],
    },
  ],
};
