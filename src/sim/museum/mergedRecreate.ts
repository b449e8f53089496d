import type { KubeObject } from "../../model/object.ts";
import type { ActorPorts } from "../actor.ts";
import type { Invariant } from "../invariant.ts";
import { Mirror, type MirrorChange } from "../mirror.ts";
import { at, type Exhibit, every, kinds, person, pod, process, scene } from "./exhibit.ts";

/** How many pods a node holds, as the scheduler counts them. */
class NodeCount {
  private readonly uids = new Set<string>();
  private readonly ports: ActorPorts;
  private readonly atomic: boolean;

  constructor(ports: ActorPorts, atomic: boolean) {
    this.ports = ports;
    this.atomic = atomic;
  }

  get held(): number {
    return this.uids.size;
  }

  async changed(change: MirrorChange, objects: ReadonlyMap<string, KubeObject>): Promise<void> {
    if (change.type === "ADDED" || change.type === "MODIFIED") this.uids.add(change.object.metadata.uid);
    if (change.type === "DELETED") this.uids.delete(change.object.metadata.uid);
    if (change.type !== "LIST") return;
    for (const [key, old] of change.before) {
      const now = objects.get(key);
      if (now?.metadata.uid === old.metadata.uid) continue;
      this.uids.delete(old.metadata.uid);
      // The mistake: the lock is given back between taking the old pod out and putting the new one in.
      if (!this.atomic) await this.ports.sleep(2);
    }
    for (const object of objects.values()) this.uids.add(object.metadata.uid);
  }
}

const numbersFromOneRevision: Invariant = {
  id: "I6",
  fact: "all reported numbers come from one revision",
  begin: ({ store }) => {
    // Kept here, because the store may forget its past.
    const counts: { revision: number; there: number }[] = [];
    return {
      commit: ({ event }) => {
        if (event.current.resource === "/pods") {
          counts.push({ revision: event.revision, there: store.collection("/pods").size });
        }
        return undefined;
      },
      observe: (actor, what, value) => {
        if (what !== "picture") return undefined;
        const { revision, held } = value as { revision: number; held: number };
        const there = counts.findLast((count) => count.revision <= revision)?.there ?? 0;
        return held === there
          ? undefined
          : `${actor} counts ${held} pods on the node at revision ${revision}; there were ${there}`;
      },
    };
  },
};

const play = (variant: string, atomic: boolean) =>
  scene({
    slug: "merged-recreate",
    variant,
    about: "a scheduler counts the pods of a node while one of them is deleted and made again",
    faults: ["dropped-event", "compaction-gap", "stream-cut", "watch-delay"],
    invariants: [numbersFromOneRevision],
    setUp: async (kube) => {
      await kube.create(kinds.pods, pod("a", {}, { nodeName: "n1" }));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 10; round++) {
          await ports.sleep(300);
          await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
          await ports.kube.create(kinds.pods, pod("a", {}, { nodeName: "n1" }));
        }
      }),
      process("scheduler", async (ports) => {
        const count = new NodeCount(ports, atomic);
        const mirror: Mirror = new Mirror(ports, kinds.pods, (change) => {
          void count.changed(change, mirror.objects);
        });
        const report = (): void => {
          if (mirror.synced) ports.observe("picture", { revision: mirror.revision, held: count.held });
        };
        await Promise.all([mirror.run(), every(ports, 1, report)]);
      }),
    ],
  });

export const mergedRecreate: Exhibit = {
  number: 14,
  slug: "merged-recreate",
  title: "A pod deleted and made again reaches the cache as one update, applied in two steps",
  source: "kubernetes/kubernetes#106545",
  invariant: "I6",
  story: `
  owner             API                       scheduler
  delete a     -->  a is gone                 (its stream is cut: it sees neither)
  create a     -->  a again, another UID
                                              lists again: a became another a
                                              takes the old a out of the node's count
                    node n1 holds one pod     another thread reads: n1 is empty   <-- never true
                                              puts the new a in
  The picture must change in one piece: out and in without a gap.`,
  fixed: { name: "fixed", about: "old out and new in are one step", scenario: play("fixed", true) },
  buggy: [
    {
      name: "two-steps",
      about: "others may look between out and in",
      scenario: play("two-steps", false),
      firstSeeds: 50,
      schedule: [{ key: "scheduler|watch|/pods#1|DELETED|a#1|dropped-event", value: 200 }],
    },
  ],
};
