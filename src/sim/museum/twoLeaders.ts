import type { ActorPorts } from "../actor.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { at, configMap, type Exhibit, every, kinds, process, scene } from "./exhibit.ts";
import { SimpleLease } from "./simpleLease.ts";

const workers = ["left", "right"];

/** Counts, in an object that only the leader may write. */
async function work(ports: ActorPorts, fenced: boolean): Promise<void> {
  // One begins first, so that a schedule can say whom it means.
  if (ports.name === "right") await ports.sleep(300);
  const lease = new SimpleLease(ports, "counter", () => {});
  const count = async (): Promise<void> => {
    // The mistake: that we led when we last looked does not mean that we lead.
    const mayWrite = (): boolean => (fenced ? lease.isLeading : lease.ledOnce);
    if (!mayWrite()) return;
    const found = await ports.kube.get(at(kinds.configMaps, "count"));
    if (!found.ok || !mayWrite()) return;
    const { metadata, data } = found.value as unknown as { metadata: object; data?: Record<string, string> };
    const next = String(Number(data?.["count"] ?? "0") + 1);
    await ports.kube.update(at(kinds.configMaps, "count"), {
      ...found.value,
      metadata: { ...found.value.metadata, ...metadata },
      data: { count: next, by: ports.name },
    });
  };
  const untilCalm = async (): Promise<void> => {
    for (let round = 0; round < 60 && !ports.cancel.cancelled; round++) {
      await count();
      await ports.sleep(150);
    }
  };
  await Promise.all([lease.run(), untilCalm(), every(ports, 1_000, () => {})]);
}

const play = (variant: string, fenced: boolean) => ({
  ...scene({
    slug: "two-leaders",
    variant,
    about: "two processes share a lease, and one of them stands still for longer than it holds",
    faults: ["two-leaders", "pause", "clock-step", "slow-call", "timeout-before"],
    invariants: [oneEpochWrites((actor) => workers.includes(actor), "counter")],
    setUp: async (kube) => {
      await kube.create(kinds.configMaps, configMap("count"));
    },
    actors: () => workers.map((name) => process(name, (ports) => work(ports, fenced))),
    humming: ["coordination.k8s.io/leases"],
  }),
  shakenMs: 12_000,
  settleMs: 40_000,
});

export const twoLeaders: Exhibit = {
  number: 53,
  slug: "two-leaders",
  title: "A leader stands still, loses its lease, goes on, and does not know",
  source: "kubernetes/kubernetes#23731, #125761",
  invariant: "I12",
  story: `
  left                          API                         right
  leads, stands still           lease of left
  ...                           lease runs out         <--  takes the lease, leads
  goes on, in the middle of
  its work: write          -->  written by both             two leaders
  Before every write the leader asks its own clock whether the lease can still be its own, and every write carries
  the version that it was decided on.`,
  fixed: { name: "fixed", about: "the lease is checked before every write", scenario: play("fixed", true) },
  buggy: [
    {
      name: "no-fence",
      about: "whoever led once writes on until it hears otherwise",
      scenario: play("no-fence", false),
      firstSeeds: 20,
      schedule: [
        { key: "left|1|two-leaders", value: 1_000 },
        { key: "left|1|length|two-leaders", value: 4_000 },
      ],
    },
  ],
};
