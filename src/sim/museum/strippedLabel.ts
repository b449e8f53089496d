import type { KubeObject } from "../../model/object.ts";
import type { ActorPorts } from "../actor.ts";
import type { Invariant } from "../invariant.ts";
import { Mirror } from "../mirror.ts";
import { at, configMap, type Exhibit, every, kinds, person, plain, process, scene } from "./exhibit.ts";

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
      return `${call.actor} stripped node ${event.current.name} of the label of domain d, which is alive and placed there`;
    },
  }),
};

/** Labels the node for a live domain, and cleans up after a dead one. */
class DomainController {
  private readonly ports: ActorPorts;
  private readonly byUid: boolean;

  constructor(ports: ActorPorts, byUid: boolean) {
    this.ports = ports;
    this.byUid = byUid;
  }

  private mark(domain: KubeObject): string {
    return this.byUid ? domain.metadata.uid : domain.metadata.name;
  }

  async ensure(domain: KubeObject): Promise<void> {
    const { kube } = this.ports;
    if (domain.metadata.annotations?.["placed"] !== undefined) return;
    const node = await kube.get(at(kinds.nodes, "n1"));
    if (!node.ok) return;
    const { labels } = node.value.metadata;
    if (labels?.[label] !== this.mark(domain)) {
      const metadata = { ...node.value.metadata, labels: { ...labels, [label]: this.mark(domain) } };
      const outcome = await kube.update(at(kinds.nodes, "n1"), { ...node.value, metadata });
      if (!outcome.ok) return;
    }
    const metadata = { ...domain.metadata, annotations: { placed: "n1" } };
    await kube.update(at(kinds.configMaps, "d"), { ...domain, metadata });
  }

  async cleanUp(dead: KubeObject): Promise<void> {
    const { kube } = this.ports;
    const node = await kube.get(at(kinds.nodes, "n1"));
    if (!node.ok || node.value.metadata.labels?.[label] !== this.mark(dead)) return;
    const { resourceVersion } = node.value.metadata;
    // The mistake: the label says which name, not which domain, and the strip asks for no version.
    const precondition = this.byUid ? { resourceVersion } : {};
    const body = { metadata: { labels: { [label]: null }, ...precondition } };
    await kube.patch(at(kinds.nodes, "n1"), { type: "merge", body });
  }
}

const play = (variant: string, byUid: boolean) =>
  scene({
    slug: "stripped-label",
    variant,
    about: "a domain is deleted and made again while the clean-up of the first is on its way",
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
      process("controller", async (ports) => {
        const controller = new DomainController(ports, byUid);
        const mirror = new Mirror(ports, kinds.configMaps, (change) => {
          if (change.type === "DELETED") void controller.cleanUp(change.object);
        });
        const ensureAll = async (): Promise<void> => {
          for (const domain of mirror.objects.values()) await controller.ensure(domain);
        };
        await Promise.all([mirror.run(), every(ports, 10, ensureAll)]);
      }),
    ],
  });

export const strippedLabel: Exhibit = {
  number: 18,
  slug: "stripped-label",
  title: "The clean-up of a dead domain strips the node of its successor",
  source: "kubernetes-sigs/dra-driver-nvidia-gpu@a789a863",
  invariant: "I7",
  story: `
  owner          controller                      API
  delete d  -->  d is gone: strip n1 of "d" ---\\
  create d  -->  d is here: n1 has "d" already  \\ d is marked as placed on n1
                                                 -> n1 loses "d"     d is alive, its node is not its own
  The label carries the UID, and the strip names the version that was looked at.`,
  fixed: { name: "fixed", about: "label by UID, strip with a version", scenario: play("fixed", true) },
  buggy: [
    {
      name: "by-name",
      about: "label by name, strip without a version",
      scenario: play("by-name", false),
      firstSeeds: 50,
      schedule: [{ key: "controller|patch|/nodes//n1#1|request|slow-call", value: 100_000 }],
    },
  ],
};
