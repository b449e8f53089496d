import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addPod, clusterWith, group, node, pod, startMs } from "../../../../testing/decide/scheduleCluster.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { cycle } from "../cycle.ts";
import { Session } from "../session.ts";
import { nextSteps } from "./gangSteps.ts";
import { findSpot } from "./placeTask.ts";

/** What may happen to a cluster between two cycles. */
type Step =
  | {
      readonly type: "node";
      readonly at: number;
      readonly cpu: number;
      readonly zone: string;
      readonly isOpen: boolean;
    }
  | { readonly type: "lost"; readonly at: number }
  | {
      readonly type: "pod";
      readonly at: number;
      readonly colour: string;
      readonly says: readonly Say[];
      readonly isInZoneA: boolean;
    }
  | { readonly type: "relabelled"; readonly at: number; readonly colour: string }
  | { readonly type: "ended"; readonly at: number };

const sayings = [
  "near",
  "apart",
  "nearIfPossible",
  "apartIfPossible",
  "spread",
  "spreadEverywhere",
  "spreadSoftly",
  "spreadByNode",
] as const;
type Say = (typeof sayings)[number];

const host = "kubernetes.io/hostname";
const colour = fc.constantFrom("red", "blue");
const zone = fc.constantFrom("a", "a", "b", "b", "");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("node" as const),
      at: fc.nat(3),
      cpu: fc.integer({ min: 2, max: 5 }),
      zone,
      isOpen: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("lost" as const), at: fc.nat(3) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant("pod" as const),
      at: fc.nat(9),
      colour,
      says: fc.uniqueArray(fc.constantFrom(...sayings), { maxLength: 2 }),
      isInZoneA: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("relabelled" as const), at: fc.nat(9), colour }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("ended" as const), at: fc.nat(9) }) },
);

function specOf({ says, isInZoneA, at }: Step & { type: "pod" }): Partial<Pod["spec"]> {
  const term = (topologyKey: string) => ({
    labelSelector: { matchLabels: { colour: at % 3 > 0 ? "red" : "blue" } },
    topologyKey,
  });
  const softly = (topologyKey: string) => [{ weight: 1 + (at % 3), podAffinityTerm: term(topologyKey) }];
  const has = (say: Say): boolean => says.includes(say);
  const spread = (topologyKey: string, whenUnsatisfiable: string, more: object = {}) => ({
    ...term(topologyKey),
    maxSkew: 1,
    whenUnsatisfiable,
    ...more,
  });
  return {
    ...(isInZoneA && { nodeSelector: { zone: "a" } }),
    affinity: {
      podAffinity: {
        ...(has("near") && { requiredDuringSchedulingIgnoredDuringExecution: [term("zone")] }),
        ...(has("nearIfPossible") && { preferredDuringSchedulingIgnoredDuringExecution: softly("zone") }),
      },
      podAntiAffinity: {
        ...(has("apart") && { requiredDuringSchedulingIgnoredDuringExecution: [term(host)] }),
        ...(has("apartIfPossible") && { preferredDuringSchedulingIgnoredDuringExecution: softly(host) }),
      },
    },
    topologySpreadConstraints: [
      ...(has("spread") ? [spread("zone", "DoNotSchedule")] : []),
      ...(has("spreadEverywhere") ? [spread("zone", "DoNotSchedule", { nodeAffinityPolicy: "Ignore" })] : []),
      ...(has("spreadSoftly") ? [spread("zone", "ScheduleAnyway")] : []),
      ...(has("spreadByNode") ? [spread(host, "DoNotSchedule", { minDomains: 2 })] : []),
    ],
  };
}

describe("what is counted for inter-pod affinity", () => {
  test.each(["default-scheduler", "kai-scheduler"])(
    "a cluster that has changed step by step places pods of %s as one that was just read, and by lists as without",
    (scheduler) => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 30, size: "+1" }), (steps) => {
          const isGrouped = scheduler === "kai-scheduler";
          const groups = isGrouped ? Array.from({ length: 10 }, (_, at) => group(`p${at}`)) : [];
          const lasting = clusterWith({ nodes: [], groups });
          const nodes = new Map<string, Node>();
          const pods = new Map<string, Pod>();
          const put = (name: string, object: Pod): void => {
            pods.set(name, object);
            addPod(lasting, object);
          };
          for (const each of steps) {
            const name = `${each.type === "node" || each.type === "lost" ? "n" : "p"}${each.at}`;
            const known = pods.get(name);
            switch (each.type) {
              case "node": {
                const labels: Record<string, string> = each.zone === "" ? {} : { zone: each.zone };
                const spec = each.isOpen ? {} : { unschedulable: true };
                nodes.set(name, node(name, { gpus: 0, cpu: String(each.cpu), labels, spec }));
                lasting.putNode(nodes.get(name) as Node);
                break;
              }
              case "lost":
                nodes.delete(name);
                lasting.removeNode(name);
                break;
              case "pod": {
                if (known !== undefined) break;
                const words = { labels: { colour: each.colour }, scheduler, spec: specOf(each) };
                put(name, pod(name, { ...words, ...(isGrouped && { group: name }) }));
                break;
              }
              case "relabelled": {
                if (known === undefined) break;
                put(name, { ...known, metadata: { ...known.metadata, labels: { colour: each.colour } } });
                break;
              }
              case "ended":
                if (!pods.delete(name)) break;
                lasting.removePod(`pod-default-${name}`);
            }
            expect(spotsIn(lasting, true)).toEqual(spotsIn(lasting, false));
            const fresh = clusterWith({ nodes: [...nodes.values()], pods: [...pods.values()], groups });
            const plan = placesIn(lasting);
            expect(plan).toEqual(placesIn(fresh));
            for (const [key, nodeName] of plan) {
              const bound = pods.get(key) as Pod;
              put(key, { ...bound, spec: { ...bound.spec, nodeName }, status: { phase: "Running" } } as Pod);
            }
          }
        }),
        { numRuns: 150 },
      );
    },
  );
});

type World = ReturnType<typeof clusterWith>;

function placesIn(cluster: World): [string, string][] {
  const binds = cycle(cluster, startMs).jobs.flatMap((job) => job.binds);
  return binds.map(({ task, node: nodeName }): [string, string] => [task.name, nodeName]).sort();
}

/** Where each pod that waits would go, each alone; with a list of all nodes the long way is taken. */
function spotsIn(cluster: World, isByList: boolean): [string, string | undefined][] {
  const { table } = new Session(cluster, startMs).cluster;
  const nodes = isByList ? table.nodes.map(({ index }) => index) : undefined;
  const tasks = [...cluster.waiting].flatMap((job) => nextSteps(job).flatMap((each) => each.tasks));
  return tasks.map((task) => [task.name, findSpot(cluster, task, { nodes })?.node.name]);
}
