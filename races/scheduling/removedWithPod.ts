import { applyIntent } from "../../src/intents/applyIntent.ts";
import { destroyAfterLooking, lookAgainAtAll } from "../../src/intents/lookAgain.ts";
import { expectedOf, type IntentTarget } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, kinds, person, plain, pod, repeating } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const removal = "example.com/remove";
const holder = (uid: string): string => `holder.example.com/${uid}`;
const spare = "n2";
const target: IntentTarget = { ...kinds.nodes, namespace: "", name: spare };

const noPodDiesWithItsNode: Invariant = {
  id: "I13",
  fact: "a node with a pod is not removed",
  begin: ({ store }) => ({
    commit: ({ type, event, call }) => {
      if (type !== "DELETED" || event.current.resource !== "/nodes" || call.actor !== "remover") return undefined;
      for (const version of store.collection("/pods").all()) {
        if (nodeOf(version.object()) === event.current.name) {
          return `${call.actor} removed ${event.current.name}, and ${version.name} was on it`;
        }
      }
      return undefined;
    },
  }),
};

function nodeOf(object: KubeObject): string {
  return (object["spec"] as { nodeName?: string } | undefined)?.nodeName ?? "";
}

function isTainted(node: KubeObject): boolean {
  return (node["spec"] as { unschedulable?: boolean } | undefined)?.unschedulable === true;
}

function hasHolders({ metadata }: KubeObject): boolean {
  return Object.keys(metadata.annotations ?? {}).some((key) => key.startsWith("holder.example.com/"));
}

/**
 * Binds pods to the spare node while it exists and is schedulable. With `holds` the pod is recorded on the node before
 * the bind.
 */
const scheduler = (holds: boolean) =>
  repeating("scheduler", 40, [kinds.nodes, kinds.pods], async ({ outside: kube }, [nodes, pods]) => {
    for (const [, each] of pods?.view().objects ?? []) {
      if (nodeOf(each) !== "" || each.metadata.deletionTimestamp !== undefined) continue;
      const node = nodes?.get(spare);
      const isOpen = node !== undefined && !isTainted(node);
      if (isOpen && holds) {
        const patch = { metadata: { annotations: { [holder(each.metadata.uid)]: each.metadata.name } } };
        const intent = { type: "patch", target, expected: expectedOf(node), patch, why: "a pod comes" } as const;
        if (!(await applyIntent(kube, intent)).ok) continue;
      }
      const name = isOpen ? spare : "n1";
      await kube.bind(at(kinds.pods, each.metadata.name), { node: name, uid: each.metadata.uid });
    }
  });

/** The bug: pods are listed before the node is cordoned and removed. */
const removesHastily = repeating("remover", 60, [kinds.nodes, kinds.pods], async ({ outside: kube }, [nodes, pods]) => {
  const node = nodes?.get(spare);
  if (node?.metadata.annotations?.[removal] === undefined) return;
  for (const [, each] of pods?.view().objects ?? []) if (nodeOf(each) === spare) return;
  await kube.patch(at(kinds.nodes, spare), { type: "merge", body: { spec: { unschedulable: true } } });
  await kube.delete(at(kinds.nodes, spare), { preconditions: { uid: node.metadata.uid } });
});

/** Cordons it, reads the node and its pods again, and deletes the very version that was read. */
const removesAfterLooking = repeating("remover", 60, [kinds.nodes], async ({ outside: kube }, [nodes]) => {
  const node = nodes?.get(spare);
  if (node?.metadata.annotations?.[removal] === undefined) return;
  const expected = expectedOf(node);
  if (!isTainted(node)) {
    const patch = { spec: { unschedulable: true } };
    await applyIntent(kube, { type: "patch", target, expected, patch, why: "no pod seems to use it" });
    return;
  }
  const atLeast = node.metadata.resourceVersion;
  const listed = await lookAgainAtAll(kube, kinds.pods, { fieldSelector: `spec.nodeName=${spare}` }, { atLeast });
  if (!listed.ok) return;
  if (listed.value.items.length > 0 || hasHolders(node)) {
    const patch = { metadata: { annotations: { [removal]: null } }, spec: { unschedulable: null } };
    await applyIntent(kube, { type: "patch", target, expected, patch, why: "it is in use" });
    return;
  }
  // The version of the node before pods were listed: a pod that was bound since then is recorded on the node.
  const intent = { type: "delete", target, expected, why: "no pod uses it" } as const;
  await destroyAfterLooking(kube, intent, () => ({ still: intent }), { atLeast });
});

const spareNode = (): KubeObject => plain("v1", "Node", "", spare, { metadata: { annotations: { [removal]: "yes" } } });

const play = (variant: string, careful: boolean) =>
  scene({
    slug: "removed-with-pod",
    variant,
    about: "an idle node is removed while a bind to it is in flight",
    faults: ["watch-delay", "slow-call"],
    invariants: [noPodDiesWithItsNode],
    setUp: async (kube) => {
      await kube.create(kinds.nodes, plain("v1", "Node", "", "n1"));
    },
    actors: () => [
      scheduler(careful),
      careful ? removesAfterLooking : removesHastily,
      person("owner", async (ports) => {
        for (let round = 0; round < 6; round++) {
          await ports.kube.create(kinds.nodes, spareNode());
          await ports.sleep(round % 2 === 0 ? 60 : 100);
          await ports.kube.create(kinds.pods, pod(`p${round}`));
          await ports.sleep(400);
        }
      }),
    ],
  });

export const removedWithPod: Exhibit = {
  number: 40,
  slug: "removed-with-pod",
  title: "An idle node is removed together with a pod that was just bound to it",
  source: "kubernetes/autoscaler#3886",
  invariant: "I13",
  story: `
  remover                        API                       scheduler
  lists the pods of n2: none
                                                    <--    binds p3 to n2, which is open and idle
  closes n2                -->   n2 takes no more pods
  removes n2               -->   n2 is gone, p3 with it

  A bind that relies on a node writes to it first. The remover closes it, lists its pods after that, and removes the very version
  that it closed: a pod that was faster is in the list, and one that was slower has changed the version.`,
  fixed: { name: "fixed", about: "cordon, list pods again, remove that version", scenario: play("fixed", true) },
  buggy: [
    {
      name: "believes-the-list",
      about: "pods are listed before the node is cordoned",
      scenario: play("believes-the-list", false),
      firstSeeds: 40,
      schedule: [
        { key: "scheduler|watch|/nodes#1|MODIFIED|n2#1|watch-delay", value: 637_209 },
        { key: "remover|watch|/pods#1|MODIFIED|p0#1|watch-delay", value: 611_635 },
      ],
    },
  ],
};
