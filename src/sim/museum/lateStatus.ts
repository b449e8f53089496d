import type { KubeObject } from "../../model/object.ts";
import { setNamed } from "../guineaPig/user.ts";
import { statusKeepsUp } from "../invariants/general.ts";
import { Mirror } from "../mirror.ts";
import { at, type Exhibit, every, kinds, person, process, scene } from "./exhibit.ts";

const play = (variant: string, guarded: boolean) =>
  scene({
    slug: "late-status",
    variant,
    about: "a controller reports what it has seen of a set that keeps changing",
    faults: ["timeout-before", "slow-call", "watch-delay"],
    invariants: [statusKeepsUp],
    setUp: async (kube) => {
      await kube.create(kinds.replicaSets, setNamed("web", 0));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 1; round <= 12; round++) {
          await ports.sleep(250);
          const body = { spec: { replicas: round } };
          await ports.kube.patch(at(kinds.replicaSets, "web"), { type: "merge", body });
        }
      }),
      process("reporter", async (ports) => {
        const mirror = new Mirror(ports, kinds.replicaSets);
        const report = async (): Promise<void> => {
          const set: KubeObject | undefined = mirror.objects.get("default/web");
          const { observedGeneration: told } = (set?.["status"] ?? {}) as { observedGeneration?: number };
          const { generation: observedGeneration = 0, resourceVersion = "" } = set?.metadata ?? {};
          if (set === undefined || told === observedGeneration) return;
          // The mistake: a patch without a version is as good tomorrow as today.
          const precondition = guarded ? { metadata: { resourceVersion } } : {};
          const body = { status: { replicas: 0, observedGeneration }, ...precondition };
          await ports.kube.patch({ ...at(kinds.replicaSets, "web"), subresource: "status" }, { type: "merge", body });
        };
        await Promise.all([mirror.run(), every(ports, 30, report)]);
      }),
    ],
  });

export const lateStatus: Exhibit = {
  number: 56,
  slug: "late-status",
  title: "A status patch that timed out lands later and overwrites a newer truth",
  source: "kubernetes/kubernetes#139602; kubernetes-sigs/kueue#6789",
  invariant: "I22",
  story: `
  reporter                          API
  status: generation 3 ---------\\   (times out)
  sees generation 4              \\
  status: generation 4  --------> \\ 4
                                   -> 3      the status speaks of an older object
  The patch carries the resourceVersion that it was made from.`,
  fixed: { name: "fixed", about: "the patch carries a resourceVersion", scenario: play("fixed", true) },
  buggy: [
    {
      name: "no-version",
      about: "the patch carries none",
      scenario: play("no-version", false),
      firstSeeds: 50,
      schedule: [{ key: "reporter|patch|apps/replicasets/default/web#2|timeout-before", value: 1_000 + 1_500 }],
    },
  ],
};
