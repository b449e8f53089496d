/** Topology: the Topology of a binding, the constraints of PodGroups, and the placement of pods. */
import { describe, expect, test } from "vitest";
import { gangResources } from "../../src/model/gang/keys.ts";
import type {
  CliqueTemplate,
  ClusterTopologyBinding,
  GroupTemplate,
  SetTemplate,
  TopologyConstraint,
} from "../../src/model/gang/types.ts";
import type { Unstored } from "../../src/model/objects/object.ts";
import type { PodGroup } from "../../src/model/scheduling/podGroup.ts";
import type { Topology } from "../../src/model/scheduling/topology.ts";
import { conditionOf, type GangCluster } from "./gangCluster.ts";
import { ownSchedulerCluster } from "./ownScheduler.ts";
import { clique, pcs } from "./setBuilder.ts";

const keys = {
  zone: "kubernetes.io/zone",
  block: "kubernetes.io/block",
  rack: "kubernetes.io/rack",
  host: "kubernetes.io/hostname",
};
const levels = Object.entries(keys).map(([domain, key]) => ({ domain, key }));

/** Racks of seven nodes, blocks of two racks, zones of two blocks: 28 nodes are one zone. */
const nodeLabels = (index: number): Record<string, string> => ({
  [keys.zone]: `z${Math.floor(index / 28)}`,
  [keys.block]: `b${Math.floor(index / 14)}`,
  [keys.rack]: `r${Math.floor(index / 7)}`,
});

const binding = (
  name: string,
  spec: ClusterTopologyBinding["spec"] = { levels },
): Unstored<ClusterTopologyBinding> => ({
  apiVersion: "grove.io/v1alpha1",
  kind: "ClusterTopologyBinding",
  metadata: { name },
  spec,
});

/** Placed by Muster's scheduler; `podsPerNode` fit on a node. */
async function cluster(nodes = 28, podsPerNode = 1): Promise<GangCluster> {
  const made = await ownSchedulerCluster({ nodes, nodeLabels, nodeMemory: `${100 * podsPerNode}Mi` });
  await made.must(made.kube.create(gangResources.ClusterTopologyBinding, binding("grove-topology")));
  await made.settle();
  return made;
}

const pack = (required?: string, preferred?: string): TopologyConstraint => ({
  topologyName: "grove-topology",
  pack: { ...(required && { required }), ...(preferred && { preferred }) },
});
const pod = {
  schedulerName: "kai-scheduler",
  containers: [{ name: "main", image: "registry/app:1", resources: { requests: { memory: "80Mi" } } }],
};
const queue = { labels: { "kai.scheduler/queue": "test" } };
const part = (name: string, replicas: number, constraint?: TopologyConstraint): CliqueTemplate =>
  clique({ name, replicas, pod, more: { ...queue, ...(constraint && { topologyConstraint: constraint }) } });
const groupOf = (fields: Partial<GroupTemplate>): GroupTemplate => ({ name: "g", cliqueNames: [], ...fields });

const set = (
  cliques: CliqueTemplate[],
  wish: { groups?: GroupTemplate[]; template?: Partial<SetTemplate>; replicas?: number } = {},
) => pcs("tas", cliques, wish);

/** A router and two groups of leader and worker, in one block, each replica of a group in a rack. */
function disaggregated({ replicas = 1, router }: { replicas?: number; router?: TopologyConstraint } = {}) {
  const inRack = { replicas: 2, minAvailable: 2, topologyConstraint: pack("rack") };
  return set([part("router", 2, router), part("pl", 1), part("pw", 1), part("dl", 1), part("dw", 1)], {
    replicas,
    template: { topologyConstraint: pack("block") },
    groups: [
      groupOf({ name: "prefill", cliqueNames: ["pl", "pw"], ...inRack }),
      groupOf({ name: "decode", cliqueNames: ["dl", "dw"], ...inRack }),
    ],
  });
}

function domainsOf(world: GangCluster, key: string, cliques: readonly string[]): number {
  const nodes = new Map(world.all("/nodes").map((node) => [node.metadata.name, node.metadata.labels?.[key]]));
  const used = cliques.flatMap((name) => world.pods(name).map(({ spec }) => nodes.get(spec?.nodeName ?? "")));
  return new Set(used).size;
}

const podGroup = (world: GangCluster, name: string): PodGroup =>
  world.api.get("scheduling.run.ai/podgroups", `default/${name}`) as unknown as PodGroup;

test("a binding becomes a Topology with the same keys in the same order, owned by it", async () => {
  const world = await cluster(1);
  const [topology] = world.all<Topology>("kai.scheduler/topologies");
  expect(topology?.spec?.levels.map(({ nodeLabel }) => nodeLabel)).toEqual(Object.values(keys));
  expect(topology?.metadata.ownerReferences?.[0]).toMatchObject({
    kind: "ClusterTopologyBinding",
    name: "grove-topology",
  });
  const [stored] = world.all<ClusterTopologyBinding>("grove.io/clustertopologybindings");
  expect(stored?.status?.conditions?.[0]).toMatchObject({ status: "False", reason: "InSync" });
});

describe("the placement of pods", () => {
  test.each<{
    fact: string;
    of: () => ReturnType<typeof set>;
    pods: number;
    together: [keyof typeof keys, string[]][];
    perNode?: number;
  }>([
    {
      fact: "two cliques, each packed by itself",
      of: () => set([part("a", 3, pack("rack")), part("b", 4, pack("block"))]),
      pods: 7,
      together: [
        ["rack", ["tas-0-a"]],
        ["block", ["tas-0-b"]],
      ],
    },
    {
      fact: "the whole set in a rack",
      of: () => set([part("a", 2), part("b", 2)], { template: { topologyConstraint: pack("rack") } }),
      pods: 4,
      together: [["rack", ["tas-0-a", "tas-0-b"]]],
    },
    {
      fact: "each replica of a group in a rack, the router anywhere",
      of: () =>
        set([part("router", 1), part("w", 2)], {
          groups: [groupOf({ cliqueNames: ["w"], replicas: 2, minAvailable: 2, topologyConstraint: pack("rack") })],
        }),
      pods: 5,
      together: [
        ["rack", ["tas-0-g-0-w"]],
        ["rack", ["tas-0-g-1-w"]],
      ],
    },
    {
      fact: "two pods on one host",
      of: () => set([part("a", 2, pack("host"))]),
      pods: 2,
      together: [["host", ["tas-0-a"]]],
      perNode: 2,
    },
    {
      fact: "a zone for the set",
      of: () => set([part("a", 4)], { template: { topologyConstraint: pack("zone") } }),
      pods: 4,
      together: [["zone", ["tas-0-a"]]],
    },
    { fact: "no constraint", of: () => set([part("a", 4)]), pods: 4, together: [] },
    {
      fact: "block, rack and host at three levels",
      of: () =>
        set([part("p", 2, pack("host")), part("q", 2, pack("host"))], {
          template: { topologyConstraint: pack("block") },
          groups: [
            groupOf({ cliqueNames: ["p", "q"], replicas: 2, minAvailable: 2, topologyConstraint: pack("rack") }),
          ],
        }),
      pods: 8,
      together: [
        ["block", ["tas-0-g-0-p", "tas-0-g-0-q", "tas-0-g-1-p", "tas-0-g-1-q"]],
        ["rack", ["tas-0-g-0-p", "tas-0-g-0-q"]],
        ["rack", ["tas-0-g-1-p", "tas-0-g-1-q"]],
        ["host", ["tas-0-g-0-p"]],
      ],
      perNode: 2,
    },
    {
      fact: "a block for the set, a host for the clique",
      of: () => set([part("a", 2, pack("host"))], { template: { topologyConstraint: pack("block") } }),
      pods: 2,
      together: [["host", ["tas-0-a"]]],
      perNode: 2,
    },
    {
      fact: "a rack for the group, a host for its clique",
      of: () =>
        set([part("w", 2, pack("host"))], {
          groups: [groupOf({ cliqueNames: ["w"], replicas: 2, topologyConstraint: pack("rack") })],
        }),
      pods: 4,
      together: [
        ["host", ["tas-0-g-0-w"]],
        ["host", ["tas-0-g-1-w"]],
      ],
      perNode: 2,
    },
    {
      fact: "two replicas of the set, each in a rack",
      of: () => set([part("a", 4)], { replicas: 2, template: { topologyConstraint: pack("rack") } }),
      pods: 8,
      together: [
        ["rack", ["tas-0-a"]],
        ["rack", ["tas-1-a"]],
      ],
    },
    {
      fact: "two groups and a router in one block, each group replica in a rack",
      of: () => disaggregated(),
      pods: 10,
      together: [
        ["block", ["tas-0-router", "tas-0-prefill-0-pl", "tas-0-decode-1-dw"]],
        ["rack", ["tas-0-prefill-1-pl", "tas-0-prefill-1-pw"]],
      ],
    },
    {
      fact: "two such sets, twenty pods: each in a block, its group replicas in racks, its routers on a host",
      of: () => disaggregated({ replicas: 2, router: pack("host") }),
      pods: 20,
      together: [0, 1].flatMap((replica): [keyof typeof keys, string[]][] => {
        const of = (...names: string[]): string[] => names.map((name) => `tas-${replica}-${name}`);
        return [
          ["block", of("router", "prefill-0-pl", "prefill-1-pw", "decode-0-dl", "decode-1-dw")],
          ["rack", of("prefill-0-pl", "prefill-0-pw")],
          ["rack", of("prefill-1-pl", "prefill-1-pw")],
          ["rack", of("decode-0-dl", "decode-0-dw")],
          ["rack", of("decode-1-dl", "decode-1-dw")],
          ["host", of("router")],
        ];
      }),
      perNode: 2,
    },
  ])("$fact", async ({ of, pods, together, perNode = 1 }) => {
    const world = await cluster(28, perNode);
    await world.apply(of());
    expect(world.readyPods()).toBe(pods);
    for (const [domain, cliques] of together)
      expect(domainsOf(world, keys[domain], cliques), `${domain} of ${cliques}`).toBe(1);
  });
});

describe("constraints of the PodGroup", () => {
  test("a constraint of the set is on the PodGroup, and there are no parents", async () => {
    const world = await cluster(28);
    await world.apply(set([part("a", 4)], { template: { topologyConstraint: pack("zone") } }));
    const { spec } = podGroup(world, "tas-0");
    expect(spec).toMatchObject({
      minMember: 4,
      queue: "test",
      topologyConstraint: { topology: "grove-topology", requiredTopologyLevel: keys.zone },
      subGroups: [{ name: "tas-0-a", minMember: 4 }],
    });
    expect(spec?.subGroups?.[0]?.topologyConstraint).toBeUndefined();
  });

  test("without a constraint on the set there is none on the PodGroup", async () => {
    const world = await cluster(28);
    await world.apply(set([part("a", 2)]));
    expect(podGroup(world, "tas-0").spec?.topologyConstraint).toBeUndefined();
    expect(world.gang("tas-0").metadata.annotations?.["grove.io/topology-name"]).toBeUndefined();
  });

  test("beyond the minimum each replica is a gang with the group's own constraint", async () => {
    const world = await cluster(28);
    const group = groupOf({ cliqueNames: ["w"], replicas: 5, minAvailable: 2, topologyConstraint: pack("host") });
    await world.apply(set([part("w", 1)], { groups: [group], template: { topologyConstraint: pack("block") } }));
    expect(world.names("scheduling.run.ai/podgroups").sort()).toEqual(["tas-0", "tas-0-g-0", "tas-0-g-1", "tas-0-g-2"]);
    expect(podGroup(world, "tas-0").spec).toMatchObject({
      topologyConstraint: { requiredTopologyLevel: keys.block },
      subGroups: [
        { name: "tas-0-g-0", minSubGroup: 1, topologyConstraint: { requiredTopologyLevel: keys.host } },
        { name: "tas-0-g-1", minSubGroup: 1, topologyConstraint: { requiredTopologyLevel: keys.host } },
        { name: "tas-0-g-0-w", parent: "tas-0-g-0", minMember: 1 },
        { name: "tas-0-g-1-w", parent: "tas-0-g-1", minMember: 1 },
      ],
    });
    expect(podGroup(world, "tas-0-g-0").spec?.topologyConstraint).toMatchObject({ requiredTopologyLevel: keys.host });
    expect(world.readyPods()).toBe(5);
  });

  test("a preferred constraint is preferred on the PodGroup", async () => {
    const world = await cluster(28);
    await world.apply(set([part("a", 2, pack(undefined, "rack"))]));
    expect(podGroup(world, "tas-0").spec?.subGroups?.[0]?.topologyConstraint).toEqual({
      topology: "grove-topology",
      preferredTopologyLevel: keys.rack,
    });
  });
});

test("ten pods in a rack of seven all wait", async () => {
  const world = await cluster(28);
  await world.apply(set([part("a", 10)], { template: { topologyConstraint: pack("rack") } }));
  expect({ pods: world.pods().length, scheduled: world.scheduledPods() }).toEqual({ pods: 10, scheduled: 0 });
  expect(podGroup(world, "tas-0").spec?.minMember).toBe(10);
});

test("two bindings give one domain name two meanings, for two workloads", async () => {
  const world = await cluster(28);
  const other = [{ domain: "block", key: keys.rack }];
  await world.must(world.kube.create(gangResources.ClusterTopologyBinding, binding("other", { levels: other })));
  await world.settle();
  const narrow = { topologyName: "other", pack: { required: "block" } };
  await world.apply(pcs("one", [part("a", 3)], { template: { topologyConstraint: pack("block") } }));
  await world.apply(pcs("two", [part("a", 3)], { template: { topologyConstraint: narrow } }));
  expect(podGroup(world, "one-0").spec?.topologyConstraint).toMatchObject({
    topology: "grove-topology",
    requiredTopologyLevel: keys.block,
  });
  expect(podGroup(world, "two-0").spec?.topologyConstraint).toMatchObject({
    topology: "other",
    requiredTopologyLevel: keys.rack,
  });
  expect(domainsOf(world, keys.rack, ["two-0-a"])).toBe(1);
});

test("a reference to a missing topology is drift; changed levels create the topology again", async () => {
  const world = await cluster(1);
  const references = [{ schedulerName: "kai-scheduler", topologyReference: "missing" }];
  await world.must(
    world.kube.create(
      gangResources.ClusterTopologyBinding,
      binding("refers", { levels, schedulerTopologyBindings: references }),
    ),
  );
  await world.settle();
  const refers = world.api.get("grove.io/clustertopologybindings", "refers") as unknown as ClusterTopologyBinding;
  expect(conditionOf(refers as never, "SchedulerTopologyDrift")).toMatchObject({ status: "True", reason: "Drift" });
  expect(refers.status?.schedulerTopologyStatuses?.[0]?.inSync).toBe(false);
  expect(world.events("TopologyDriftDetected")).toHaveLength(1);
  const before = world.all<Topology>("kai.scheduler/topologies")[0]?.metadata.uid;
  const ref = { ...gangResources.ClusterTopologyBinding, namespace: "", name: "grove-topology" };
  await world.must(world.kube.patch(ref, { type: "merge", body: { spec: { levels: levels.slice(1) } } }));
  await world.settle();
  const [topology] = world.all<Topology>("kai.scheduler/topologies");
  expect(topology?.metadata.uid).not.toBe(before);
  expect(topology?.spec?.levels.map(({ nodeLabel }) => nodeLabel)).toEqual(Object.values(keys).slice(1));
});

test("a binding deleted under a live set is reported, the set continues without it, and the binding comes back", async () => {
  const world = await cluster(28);
  await world.apply(set([part("a", 2)], { template: { topologyConstraint: pack("rack") } }));
  const condition = () => conditionOf(world.set("tas") as never, "TopologyLevelsUnavailable");
  expect(condition()).toMatchObject({
    status: "False",
    reason: "AllClusterTopologyLevelsAvailable",
    observedGeneration: 1,
  });
  await world.must(
    world.kube.delete({ ...gangResources.ClusterTopologyBinding, namespace: "", name: "grove-topology" }),
  );
  await world.settle();
  expect(condition()).toMatchObject({ status: "Unknown", reason: "ClusterTopologyNotFound" });
  await world.scale("PodCliqueSet", "tas", 2);
  expect(world.readyPods()).toBe(4);
  expect(world.gang("tas-1").spec.topologyConstraint).toBeUndefined();
  await world.must(
    world.kube.create(gangResources.ClusterTopologyBinding, binding("grove-topology", { levels: levels.slice(0, 2) })),
  );
  await world.settle();
  expect(condition()).toMatchObject({ status: "True", reason: "ClusterTopologyLevelsUnavailable" });
});
