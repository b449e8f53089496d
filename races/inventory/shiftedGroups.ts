import { assignGroups } from "../../src/decide/inventory/assignGroups.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { gpuType } from "../../src/sim/inventory/builders.ts";
import { at, configMap, every, kinds, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const types = ["a100", "h100", "h200", "t4"];
const nameOf = (type: string): string => `pytorch-gpu-dev-gpu-nodes-${type}`;

const configuredAsItself: Invariant = {
  id: "I7",
  fact: "a group gets its own configuration",
  begin: () => ({
    commit: ({ event }) => {
      if (event.current.resource !== "/configmaps" || event.current.deleted) return undefined;
      const { metadata, data } = event.current.object() as KubeObject & { data?: Record<string, string> };
      const applied = data?.["applied"];
      if (applied === undefined || nameOf(applied) === metadata.name) return undefined;
      return `${metadata.name} was configured as ${applied}: its machines are replaced while users work on them`;
    },
  }),
};

type Pair = (wanted: readonly string[], groups: readonly string[]) => readonly [group: string, type: string][];

const play = (variant: string, pair: Pair) =>
  scene({
    slug: "shifted-groups",
    variant,
    about: "an operator removes one pool from the list while its group still exists",
    faults: ["slow-call", "busy", "timeout-before"],
    invariants: [configuredAsItself],
    setUp: async (kube) => {
      for (const type of types) await kube.create(kinds.configMaps, configMap(nameOf(type)));
    },
    actors: () => {
      let wanted: readonly string[] = types;
      return [
        person("operator", async (ports) => {
          await ports.sleep(600);
          wanted = types.filter((type) => type !== "h100");
          await ports.sleep(1_000);
          await ports.kube.delete(at(kinds.configMaps, nameOf("h100")));
        }),
        process("configurator", async (ports: ActorPorts) => {
          await every(ports, 200, async () => {
            const listed = await ports.kube.list(kinds.configMaps, { namespace: "default" });
            if (!listed.ok) return;
            const groups = listed.value.items.map(({ metadata }) => metadata.name).sort();
            for (const [group, type] of pair(wanted, groups)) {
              const object = listed.value.items.find(({ metadata }) => metadata.name === group) as KubeObject & {
                data?: Record<string, string>;
              };
              if (object.data?.["applied"] === type) continue;
              const body = { metadata: { resourceVersion: object.metadata.resourceVersion }, data: { applied: type } };
              await ports.kube.patch(at(kinds.configMaps, group), { type: "merge", body });
            }
          });
        }),
      ];
    },
  });

/** The product's mapping: by tag and name, independent of the order of the list. */
const byKey: Pair = (wanted, groups) => {
  const found = groups.map((name) => ({ name, desiredCapacity: 0, instances: [], tags: {} }));
  const rows = types.map((type) => gpuType(type, 8));
  const { byType } = assignGroups(found, rows, { prefix: "pytorch-gpu-dev", aliases: {} });
  return wanted.flatMap((type) => (byType.get(type) ?? []).map(({ name }): [string, string] => [name, type]));
};

export const shiftedGroups: Exhibit = {
  number: 20,
  slug: "shifted-groups",
  title: "Groups are identified by their index in a list: one is removed, and the others get wrong configurations",
  source: "wdvr/osdc@b1e52b9",
  invariant: "I7",
  story: `
  list of pools            groups in the cloud
  0 a100                   0 a100
  1 h100   <- taken out    1 h100        still there, with users on it
  2 h200                   2 h200
  3 t4                     3 t4
  The second entry is now h200: group h100 is configured as h200, h200 as t4, and eight hours of work are lost.
  A group is what its name and its tag say.`,
  fixed: { name: "fixed", about: "groups are mapped by tag and name", scenario: play("fixed", byKey) },
  buggy: [
    {
      name: "by-index",
      about: "the n-th entry of the list is the n-th group",
      scenario: play("by-index", (wanted, groups) =>
        wanted.flatMap((type, index) =>
          groups[index] === undefined ? [] : [[groups[index], type] as [string, string]],
        ),
      ),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};
