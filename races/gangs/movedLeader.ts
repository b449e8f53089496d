import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { destroyAfterLooking, lookAgain } from "../../src/intents/lookAgain.ts";
import { expectedOf, type Intent } from "../../src/model/intent.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, carryOut, inFlightOf, kinds, person, plain, pod } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const holderPrefix = "holder.example.com/";
const leaderName = "leader";

const nodeOf = (object: KubeObject | undefined): string => (object as unknown as Pod | undefined)?.spec?.nodeName ?? "";

const followersAreBesideTheirLeader: Invariant = {
  id: "I4",
  fact: "a follower is bound to the node of its leader",
  begin: ({ store }) => ({
    commit: ({ type, event }) => {
      if (type !== "MODIFIED" || event.current.resource !== "/pods" || event.current.name === leaderName)
        return undefined;
      const node = nodeOf(event.current.object());
      if (node === "" || nodeOf(event.previous?.object()) !== "") return undefined;
      const leader = nodeOf(store.get("/pods", "default", leaderName)?.object());
      return leader === node
        ? undefined
        : `${event.current.name} is bound to ${node}, its leader is on ${leader === "" ? "no node" : leader}`;
    },
  }),
};

/** Followers are bound to the node that the cache shows their leader on. */
function followByCache(controllers: Controllers): void {
  const pods = controllers.cache(kinds.pods);
  controllers.add({
    name: "followers",
    backoff: { baseMs: 20, maxMs: 500 },
    sources: [kindSource(pods, forObject()), kindSource(pods, () => [...pods.view().objects].map(([key]) => key))],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const follower = pods.get(key);
      const node = nodeOf(pods.get(`default/${leaderName}`));
      if (follower === undefined || follower.metadata.name === leaderName || nodeOf(follower) !== "" || node === "")
        return undefined;
      const { name, uid, resourceVersion } = follower.metadata;
      const outcome = await controllers.outside.bind(at(kinds.pods, name), { node, uid, resourceVersion }, { cancel });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

/** The follower is first recorded on the version of the leader that was read; only then is it bound. */
function followByTouch(controllers: Controllers): void {
  const pods = controllers.cache(kinds.pods);
  const inFlight = inFlightOf(controllers, [kinds.pods]);
  controllers.add({
    name: "followers",
    backoff: { baseMs: 20, maxMs: 500 },
    sources: [kindSource(pods, forObject()), kindSource(pods, () => [...pods.view().objects].map(([key]) => key))],
    reconcile: async (key, turn): Promise<ReconcileResult> => {
      const follower = pods.get(key);
      const leader = pods.get(`default/${leaderName}`);
      if (follower === undefined || follower.metadata.name === leaderName || nodeOf(follower) !== "") return undefined;
      if (leader === undefined || nodeOf(leader) === "") return undefined;
      const { name, uid } = follower.metadata;
      const mark = `${holderPrefix}${name}`;
      if (leader.metadata.annotations?.[mark] !== uid) {
        const patch = { metadata: { annotations: { [mark]: uid } } };
        const why = `${name} relies on where its leader is`;
        const touch: Intent = {
          type: "patch",
          target: at(kinds.pods, leaderName),
          expected: expectedOf(leader),
          patch,
          why,
        };
        return carryOut(inFlight, { intent: touch, effects: [] }, turn);
      }
      const bind: Intent = {
        type: "bind",
        target: at(kinds.pods, name),
        expected: expectedOf(follower),
        node: nodeOf(leader),
        why: "beside its leader",
      };
      return carryOut(inFlight, { intent: bind, effects: [] }, turn);
    },
  });
}

/** Moves the leader to the other node at times, unless a follower is recorded on it. */
async function move(ports: ActorPorts): Promise<void> {
  for (let round = 0; round < 12; round++) {
    await ports.sleep(200);
    const fresh = await lookAgain(ports.kube, at(kinds.pods, leaderName), { atLeast: "0" });
    const leader = fresh.ok ? fresh.value.object : undefined;
    if (leader === undefined) {
      await placeLeader(ports, `n${round % 2}`);
      continue;
    }
    const intent = {
      type: "delete",
      target: at(kinds.pods, leaderName),
      expected: expectedOf(leader),
      gracePeriodSeconds: 0,
      why: "it moves",
    } as const;
    const isHeld = (object: KubeObject): boolean =>
      Object.keys(object.metadata.annotations ?? {}).some((key) => key.startsWith(holderPrefix));
    await destroyAfterLooking(
      ports.kube,
      intent,
      ({ object }) =>
        object === undefined || isHeld(object)
          ? { noLongerDue: "a pod relies on it" }
          : { still: { ...intent, expected: expectedOf(object) } },
      { atLeast: "0" },
    );
  }
  for (;;) {
    const there = await lookAgain(ports.kube, at(kinds.pods, leaderName), { atLeast: "0" });
    if (there.ok && nodeOf(there.value.object) !== "") return;
    await placeLeader(ports, "n0");
    await ports.sleep(100);
  }
}

async function placeLeader({ kube }: ActorPorts, node: string): Promise<void> {
  const made = await kube.create(kinds.pods, pod(leaderName));
  const found = made.ok ? made : await kube.get(at(kinds.pods, leaderName));
  if (!found.ok || nodeOf(found.value) !== "") return;
  const { uid, resourceVersion } = found.value.metadata;
  await kube.bind(at(kinds.pods, leaderName), { node, uid, resourceVersion });
}

const play = (variant: string, follow: (controllers: Controllers) => void) =>
  scene({
    slug: "moved-leader",
    variant,
    about: "a leader moves while its followers are bound beside it",
    faults: ["watch-delay", "watch-reorder", "slow-call", "timeout-before", "timeout-after"],
    invariants: [followersAreBesideTheirLeader],
    setUp: async (kube) => {
      for (const name of ["n0", "n1"]) await kube.create(kinds.nodes, plain("v1", "Node", "", name));
    },
    actors: () => [
      controllersProcess("follower", follow),
      person("mover", move),
      person("owner", async (ports) => {
        for (let index = 0; index < 4; index++) {
          await ports.sleep(450);
          await ports.kube.create(kinds.pods, pod(`f${index}`));
        }
      }),
    ],
    ignoredForQuiescence: ["/events"],
  });

export const movedLeader: Exhibit = {
  number: 25,
  slug: "moved-leader",
  title: "A leader moves, and its followers are bound to its former node",
  source: "kubernetes-sigs/jobset#342",
  invariant: "I4",
  story: `
  mover                       API                      follower
                              leader on n0             its cache: leader on n0
  take the leader away  -->   leader on n1             (late)
                              f0 on n0            <--  bind f0 beside the leader
  The gang is on two nodes.

  Who relies on the leader writes its UID on it first, as it was read: if the leader has moved, that write fails. And who would
  move it finds the holder, or fails against the write.`,
  fixed: {
    name: "fixed",
    about: "the follower is recorded on its leader before it is bound",
    scenario: play("fixed", followByTouch),
  },
  buggy: [
    {
      name: "by-cache",
      about: "the follower is bound to the node that the cache shows for its leader",
      scenario: play("by-cache", followByCache),
      firstSeeds: 50,
      schedule: [{ key: "follower|watch|/pods#1|ADDED|leader#5|watch-delay", value: 390_441 }],
    },
  ],
};
