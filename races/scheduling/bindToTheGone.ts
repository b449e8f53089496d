import { refused } from "../../src/model/outcome.ts";
import { annotationKeys } from "../../src/model/scheduling/keys.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { runControllers } from "../../src/sim/controllersProcess.ts";
import { delegateKube } from "../../src/sim/delegateKube.ts";
import { at, insist, kinds, person } from "../../src/sim/sceneKit.ts";
import { bindsToKnownNodes } from "../../src/sim/schedule/invariants.ts";
import type { Exhibit } from "../exhibit.ts";
import { gpuPod, makeNode, nodeOf, placementScene, reaper, scheduler } from "./schedulerScene.ts";

const rounds = 4;

/** The write that makes an earlier bind conflict never reaches the pod: the bind is sent again. */
function withoutFence(kube: KubeApi): KubeApi["patch"] {
  return (ref, patch, options) => {
    const text = JSON.stringify(patch.body);
    if (!text.includes(annotationKeys.withdrawn)) return kube.patch(ref, patch, options);
    return Promise.resolve(refused("Conflict", "left out"));
  };
}

const play = (variant: string, isBuggy: boolean) =>
  placementScene({
    slug: "bind-to-the-gone",
    variant,
    about: "a bind gets no answer, and its node is deleted before the scheduler asks what became of it",
    faults: ["timeout-before"],
    invariants: [bindsToKnownNodes((actor) => actor === "scheduler")],
    setUp: (kube) => makeNode(kube, "n0", 1),
    actors: () => [
      reaper(),
      person("admin", async (ports) => {
        for (let round = 1; round <= rounds; round++) {
          await insist(ports, () => ports.kube.create(kinds.pods, gpuPod(`p${round}`)));
          await ports.sleep(ports.choose("delete", (dice) => dice.between(20, 900)));
          const found = await ports.kube.get(at(kinds.pods, `p${round}`));
          const isBound = found.ok && nodeOf(found.value) !== "";
          // A node without pods is scaled in, and another one is added.
          if (!isBound)
            await insist(ports, () => ports.kube.delete({ ...kinds.nodes, namespace: "", name: `n${round - 1}` }));
          await makeNode(ports.kube, `n${round}`, 1);
          await ports.sleep(1_500);
        }
      }),
      {
        name: "scheduler",
        run: (ports) => {
          const kube = isBuggy ? { ...delegateKube(ports.kube), patch: withoutFence(ports.kube) } : ports.kube;
          return runControllers({ ...ports, kube }, (controllers) => scheduler.add(controllers));
        },
      },
    ],
  });

export const bindToTheGone: Exhibit = {
  number: 59,
  slug: "bind-to-the-gone",
  title: "A bind without an answer is sent again after its node was deleted",
  source: "seen on Kubernetes 1.36 when the API server was away for five seconds in a burst of 200 pods",
  invariant: "I5",
  story: `
  scheduler                    API                       admin
  bind p to n  ----x           goes away: no answer
                                                         delete node n
                               is back
  watches are open: no n
  p: no node, so the bind
     may be under way yet
  bind p to n  -------------->  p is on n                a pod that nothing runs and nothing ends
  A write to the pod makes the first bind conflict, whenever it arrives; then the pod is decided again.`,
  fixed: { name: "fixed", about: "the product's scheduler", scenario: play("fixed", false) },
  buggy: [
    {
      name: "sent-again",
      about: "the bind is sent again, whatever became of its node",
      scenario: play("sent-again", true),
      firstSeeds: 60,
      schedule: [
        { key: "scheduler|bind|/pods/default/p1#1|timeout-before", value: 20 },
        { key: "admin|delete#1", value: 200 },
      ],
    },
  ],
};
