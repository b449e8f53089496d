import { neverGoesBack } from "../invariants/general.ts";
import { at, configMap, type Exhibit, every, kinds, person, process, scene } from "./exhibit.ts";

const play = (variant: string, floor: boolean) =>
  scene({
    slug: "back-in-time",
    variant,
    about: "a client lists again, and each time another replica of the API may answer",
    faults: ["stale-read", "slow-call"],
    invariants: [neverGoesBack],
    setUp: async (kube) => {
      await kube.create(kinds.configMaps, configMap("c"));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 40; round++) {
          await ports.sleep(80);
          await ports.kube.patch(at(kinds.configMaps, "c"), {
            type: "merge",
            body: { data: { round: String(round) } },
          });
        }
      }),
      process("kubelet", async (ports) => {
        let newest = "0";
        const relist = async (): Promise<void> => {
          // The mistake: 0 means "anything will do", also what is older than what this client has seen.
          const options = floor
            ? ({ resourceVersion: newest, resourceVersionMatch: "NotOlderThan" } as const)
            : ({ resourceVersion: "0" } as const);
          const list = await ports.kube.list(kinds.configMaps, options);
          if (!list.ok) return;
          newest = list.value.revision;
          ports.observe("revision", { kind: "configmaps", revision: Number(newest) });
        };
        await every(ports, 200, relist);
      }),
    ],
  });

export const backInTime: Exhibit = {
  number: 50,
  slug: "back-in-time",
  title: "A list from a replica that lags moves a client back in time",
  source: "kubernetes/kubernetes#59848, #67998, #83520",
  invariant: "I8",
  story: `
  kubelet                     replica A (revision 40)      replica B (revision 31)
  list, any revision     -->  40: pod p was deleted
  the connection breaks
  list, any revision     ------------------------------->  31: pod p exists
  runs p again, on this node, while it runs on another
  A client names the newest revision it has seen: older answers wait or are refused.`,
  fixed: { name: "fixed", about: "lists ask for at least what was seen before", scenario: play("fixed", true) },
  buggy: [
    {
      name: "any-revision",
      about: "lists take what they get",
      scenario: play("any-revision", false),
      firstSeeds: 20,
      schedule: [{ key: "kubelet|list|/configmaps#4|stale-read", value: 700 }],
    },
  ],
};
