import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gang, node, pod, queue, startMs } from "../../../../testing/decide/scheduleCluster.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { annotationKeys, labelKeys } from "../../../model/scheduling/keys.ts";
import { type KindChange, type KindTable, tableOf } from "../../../snapshot/kindTable.ts";
import { DeviceModel, type DeviceTables } from "../../devices/deviceModel.ts";
import { cycle } from "../cycle.ts";
import { defaultSettings } from "../settings.ts";
import { type ClusterKind, ClusterModel } from "./clusterModel.ts";
import { describeModel, differenceOf } from "./describeCluster.ts";

/** Events one by one give the same cluster as all objects at once, in whatever order the kinds are observed. */

const nowMs = startMs + 60_000;
const settings = { ...defaultSettings, formsPlainGangs: true, allocatesDevices: true };

type DeviceKind = "deviceClaims" | "slices" | "deviceClasses" | "rules";
type Kind = ClusterKind | DeviceKind;

/** An object of each kind in a few states: what events can say of it. */
type States = readonly Loose[];

interface Loose {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [more: string]: unknown };
  readonly [more: string]: unknown;
}

function loose(name: string, more: object = {}, namespace?: string): Loose {
  return { metadata: { name, ...(namespace !== undefined && { namespace }) }, ...more };
}

const inGold = (object: Loose): Loose => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...(object.metadata["labels"] as object), [labelKeys.nodePool]: "gold" } },
});
const asLoose = (object: object): Loose => object as Loose;

const [group] = gang("a", 2).groups.map(asLoose) as [Loose];
const gpus = (count: number) => ({ resources: { gpu: { quota: count, limit: -1, overQuotaWeight: 1 } } });
const claimed = (name: string, claim: string) => ({
  ...pod(name, { scheduler: "default-scheduler" }),
  spec: {
    schedulerName: "default-scheduler",
    containers: [{ name: "c", resources: { claims: [{ name: "gpu" }] } }],
    resourceClaims: [{ name: "gpu", resourceClaimName: claim }],
  },
});
const on = (object: object, nodeName: string, phase = "Running"): Loose =>
  asLoose({ ...object, spec: { ...(asLoose(object)["spec"] as object), nodeName }, status: { phase } });
const results = (device: string) => ({
  devices: { results: [{ request: "r", driver: "gpu.example.com", pool: "n1", device }] },
});
const claim = (name: string, more: object = {}): Loose =>
  loose(
    name,
    { spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu", count: 1 } }] } }, ...more },
    "default",
  );
const slice = (devices: readonly string[]): Loose =>
  loose("s", {
    spec: {
      driver: "gpu.example.com",
      nodeName: "n1",
      pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
      devices: devices.map((name) => ({ name })),
    },
  });
const request = (name: string, more: object, status?: object): Loose => ({
  metadata: {
    name,
    namespace: "default",
    ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid: `pod-default-${name}` }],
  },
  spec: { podName: name, ...more },
  ...(status && { status }),
});
const shareOf = (name: string) => ({ [annotationKeys.gpuFraction]: "0.5", [annotationKeys.podGroup]: name });

const affinityOf = (kind: "podAffinity" | "podAntiAffinity", more: object = {}) => ({
  affinity: {
    [kind]: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { colour: "red" } }, ...more },
      ],
    },
  },
});
const spreadBy = (key: string) => ({
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: "kubernetes.io/hostname",
      whenUnsatisfiable: "DoNotSchedule",
      labelSelector: { matchExpressions: [{ key, operator: "Exists" }] },
    },
  ],
});
const coloured = (name: string, colour: string, more: object = {}) =>
  pod(name, { scheduler: "default-scheduler", labels: { colour }, spec: more as never });

const states: Readonly<Record<Kind, readonly States[]>> = {
  nodes: [
    [node("n1"), node("n1", { gpus: 4 }), node("n1", { isReady: false }), node("n1", { labels: { zone: "x" } })].map(
      asLoose,
    ),
    [asLoose(node("n2", { gpus: 0 })), inGold(asLoose(node("n2")))],
  ],
  queues: [
    [
      asLoose(queue("q")),
      asLoose(queue("q", gpus(2))),
      asLoose(queue("q", { priority: 7, resources: { gpu: { quota: 2, limit: -1, overQuotaWeight: 3 } } })),
      inGold(asLoose(queue("q"))),
    ],
  ],
  groups: [
    [group, { ...group, spec: { queue: "q", minMember: 1, priorityClassName: "high" } }, inGold(group)],
    [asLoose(gang("b", 1).groups[0] as object)],
  ],
  pods: [
    ...gang("a", 2, { gpus: 2 }).pods.map(
      (each): States => [
        asLoose(each),
        on(each, "n1"),
        on(each, "n1", "Succeeded"),
        { ...asLoose(each), status: { phase: "Pending", nominatedNodeName: "n1" } },
        { ...asLoose(each), metadata: { ...asLoose(each).metadata, annotations: { [annotationKeys.podGroup]: "b" } } },
        { ...on(each, "n1"), metadata: { ...asLoose(each).metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } },
      ],
    ),
    [
      asLoose(pod("half", { annotations: shareOf("b") })),
      on(pod("half", { annotations: shareOf("b"), groups: ["g1"] }), "n1"),
    ],
    [asLoose(claimed("c1", "shared")), on(claimed("c1", "shared"), "n1")],
    [asLoose(claimed("c2", "shared"))],
    [asLoose(pod("plain", { scheduler: "default-scheduler", gpus: 1, labels: { colour: "red" } }))],
    [
      asLoose(coloured("near", "red", affinityOf("podAffinity"))),
      on(coloured("near", "red", affinityOf("podAffinity")), "n1"),
      on(coloured("near", "blue", affinityOf("podAffinity")), "n1"),
    ],
    [
      asLoose(coloured("apart", "red", affinityOf("podAntiAffinity"))),
      on(coloured("apart", "red", affinityOf("podAntiAffinity")), "n1"),
      on(
        coloured("apart", "red", affinityOf("podAntiAffinity", { namespaceSelector: { matchLabels: { team: "x" } } })),
        "n2",
      ),
    ],
    [asLoose(coloured("spread", "red", spreadBy("colour"))), on(coloured("spread", "red", spreadBy("colour")), "n1")],
    [
      asLoose(
        pod("mapped", {
          scheduler: "default-scheduler",
          spec: { containers: [{ name: "c", envFrom: [{ configMapRef: { name: "settings" } }] }] } as never,
        }),
      ),
    ],
  ],
  requests: [
    [
      request("half", {
        selectedNode: "n1",
        selectedGPUGroups: ["g1"],
        receivedResourceType: "Fraction",
      }),
      request("half", { selectedNode: "n2", selectedGPUGroups: ["g2"], receivedResourceType: "Fraction" }),
    ],
    [
      request("c1", { selectedNode: "n1", resourceClaimAllocations: [{ name: "gpu", allocation: results("d1") }] }),
      request("c1", { selectedNode: "n1" }, { phase: "Failed", failedAttempts: 99 }),
    ],
  ],
  plainGroups: [
    [loose("pg", { spec: { schedulingPolicy: { gang: { minCount: 2 } } } }, "default")],
    [loose("pg2", { spec: { schedulingPolicy: { basic: {} }, priority: 7 } }, "default")],
  ],
  priorityClasses: [[loose("high", { value: 200 }), loose("high", { value: 10, preemptionPolicy: "Never" })]],
  topologies: [[loose("t", { spec: { levels: [{ nodeLabel: "zone" }] } })]],
  namespaces: [[loose("default"), loose("default", { metadata: { name: "default", labels: { team: "x" } } })]],
  configMaps: [[loose("settings", {}, "default")], [loose("other", {}, "default")]],
  volumeClaims: [
    [loose("data", { spec: { volumeName: "v" } }, "default"), loose("data", { status: { phase: "Bound" } }, "default")],
  ],
  volumes: [[loose("v")]],
  classes: [[loose("fast"), loose("fast", { volumeBindingMode: "WaitForFirstConsumer" })]],
  csiNodes: [[loose("n1")]],
  budgets: [[loose("guard", {}, "default")]],
  deviceClaims: [
    [
      claim("shared"),
      claim("shared", {
        status: {
          allocation: results("d1"),
          reservedFor: [{ resource: "pods", name: "c1", uid: "pod-default-c1" }],
        },
      }),
    ],
    [
      claim("other", {
        status: { allocation: results("d2"), reservedFor: [{ resource: "pods", name: "x", uid: "x" }] },
      }),
    ],
  ],
  slices: [[slice(["d1", "d2"]), slice(["d1"])]],
  deviceClasses: [[loose("gpu", { spec: {} }), loose("gpu", { spec: { extendedResourceName: "example.com/gpu" } })]],
  rules: [
    [
      loose("broken", {
        spec: {
          deviceSelector: { driver: "gpu.example.com", device: "d1" },
          taint: { key: "broken", effect: "NoSchedule" },
        },
      }),
    ],
  ],
};

const kinds = Object.keys(states) as Kind[];
const deviceKinds: Readonly<Record<DeviceKind, Exclude<keyof DeviceTables, "pods">>> = {
  deviceClaims: "claims",
  slices: "slices",
  deviceClasses: "classes",
  rules: "rules",
};

/** A model whose objects come and go. */
class Live {
  revision = 1;
  readonly tables = Object.fromEntries(kinds.map((kind) => [kind, tableOf<KubeObject>([], "1")])) as Record<
    Kind,
    KindTable
  >;
  readonly devices: DeviceModel;
  readonly model: ClusterModel;

  constructor() {
    this.devices = new DeviceModel({
      pods: this.tables.pods,
      claims: this.tables.deviceClaims,
      slices: this.tables.slices,
      classes: this.tables.deviceClasses,
      rules: this.tables.rules,
    } as DeviceTables);
    this.model = new ClusterModel(this.tables as never, settings, { devices: this.devices });
  }

  put(kind: Kind, given: Loose): void {
    this.apply(kind, { type: "put", object: this.stored(given) });
  }

  remove(kind: Kind, given: Loose): void {
    this.apply(kind, { type: "removed", object: this.stored(given) });
  }

  private stored(given: Loose): KubeObject {
    const { name, namespace = "" } = given.metadata;
    const uid = `${given["kind"] === "Pod" ? "pod-" : ""}${namespace === "" ? "" : `${namespace}-`}${name}`;
    const metadata = { creationTimestamp: "2026-01-01T00:00:00Z", uid, ...given.metadata };
    const stored = { ...metadata, resourceVersion: String(++this.revision) };
    return { apiVersion: "v1", kind: "", ...given, metadata: stored };
  }

  private apply(kind: Kind, event: { type: "put" | "removed"; object: KubeObject }): void {
    const changes = this.tables[kind].apply(event).changes as readonly KindChange<never>[];
    if (kind === "pods") this.devices.observed("pods", changes, false);
    const device = deviceKinds[kind as DeviceKind];
    if (device === undefined) {
      this.model.observed(kind as ClusterKind, changes, false);
      return;
    }
    this.devices.observed(device, changes, false);
    this.model.observedDevices(device, changes);
  }
}

const step = fc.record({
  kind: fc.constantFrom(...kinds, "pods" as const, "pods" as const, "requests" as const),
  object: fc.nat(11),
  state: fc.nat(7),
  isRemoved: fc.boolean(),
  /** Whether a cycle decides after it. */
  decides: fc.boolean(),
});

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function play(live: Live, { kind, object, state, isRemoved }: Step): void {
  const objects = states[kind];
  const all = objects[object % objects.length] as States;
  const chosen = all[state % all.length] as Loose;
  if (isRemoved && state % 2 === 0) live.remove(kind, chosen);
  else live.put(kind, chosen);
}

function planText(model: ClusterModel): string {
  const { jobs, evictions } = cycle(model.cluster, nowMs);
  const binds = jobs.flatMap((each) =>
    [...each.binds, ...each.pipelined].map(({ task, node }) => `${task.key} ${node}`),
  );
  return JSON.stringify([binds, evictions.map(({ task }) => task.key)]);
}

test("an object that cannot be folded keeps no other one out", () => {
  const live = new Live();
  const { pods } = live.tables;
  const changes = ["broken", "whole"].flatMap((name) => {
    const object = asLoose(pod(name, { gpus: 1, on: "n1", scheduler: "default-scheduler" }));
    const metadata = { ...object.metadata, resourceVersion: String(++live.revision) };
    const bad = { ...object, spec: { schedulerName: "default-scheduler", containers: 7 } };
    return pods.apply({ type: "put", object: { ...(name === "broken" ? bad : object), metadata } as never }).changes;
  });
  expect(() => live.model.observed("pods", changes as never, false)).toThrow("1 of pods cannot be folded");
  live.model.applyAssumed();
  expect(live.model.cluster.tasks.get("pod-default-whole")?.status).toBe("running");
});

test("a pod that holds a node counts there when the node comes, also after a request named another one", () => {
  const live = new Live();
  live.put("pods", on(pod("half", { annotations: shareOf("b"), groups: ["g1"] }), "n1"));
  live.model.applyAssumed();
  live.put("requests", request("half", { selectedNode: "n2", selectedGPUGroups: ["g2"] }));
  live.model.applyAssumed();
  live.put("nodes", asLoose(node("n1")));
  live.model.applyAssumed();
  const state = live.model.cluster.table.getOrCreate("n1");
  expect([...state.holdings].map(({ holder }) => holder.uid)).toEqual(["pod-default-half"]);
});

test("devices of another request for the same pod count beside those of the one before", () => {
  const live = new Live();
  live.put("slices", slice(["d1", "d2"]));
  live.put("deviceClaims", claim("shared"));
  live.put("pods", asLoose(claimed("c1", "shared")));
  const chosen = (device: string) =>
    request("c1", {
      selectedNode: "n1",
      resourceClaimAllocations: [{ name: "gpu", allocation: results(device) }],
    });
  live.put("requests", chosen("d1"));
  live.put("requests", chosen("d2"));
  expect(live.devices.tracker.listAllAllocatedDevices()).toContain("gpu.example.com/n1/d2");
});

describe("the GPU share of a request that ended without success", () => {
  const share = (name: string, selectedNode: string, group: string) =>
    request(name, { selectedNode, selectedGPUGroups: [group], receivedResourceType: "Fraction" });
  const groupsOn = (live: Live, name: string): string[] => {
    live.model.applyAssumed();
    return [...live.model.cluster.table.getOrCreate(name).holdings].flatMap(({ groups }) => [...groups]);
  };
  const ended = (...requests: readonly Loose[]): Live => {
    const live = new Live();
    for (const name of ["n1", "n2"]) live.put("nodes", asLoose(node(name)));
    live.put("pods", asLoose(pod("half", { annotations: shareOf("b") })));
    for (const each of requests) {
      live.put("requests", each);
      live.remove("requests", each);
    }
    return live;
  };

  test("counts until it is confirmed", () => {
    const live = ended(share("half", "n1", "g1"));
    expect(groupsOn(live, "n1")).toEqual(["g1"]);
    live.model.confirmShares("pod-default-half", live.model.unconfirmedShares("pod-default-half"));
    expect(groupsOn(live, "n1")).toEqual([]);
  });

  test("counts beside that of a later request for the same pod that ended as well", () => {
    const live = ended(share("half", "n1", "g1"), share("half", "n2", "g2"), share("half", "n2", "g3"));
    expect(groupsOn(live, "n1")).toEqual(["g1"]);
    expect(groupsOn(live, "n2")).toEqual(["g2", "g3"]);
  });

  test("counts beside the node that the pod has now", () => {
    const live = ended(share("half", "n1", "g1"), share("half", "n2", "g2"));
    live.put("pods", on(pod("half", { annotations: shareOf("b"), groups: ["g3"] }), "n2"));
    expect(groupsOn(live, "n1")).toEqual(["g1"]);
    expect(groupsOn(live, "n2")).toEqual(["g2", "g3"]);
  });

  test("is confirmed without those that ended after the read", () => {
    const live = ended(share("half", "n1", "g1"));
    const read = live.model.unconfirmedShares("pod-default-half");
    live.put("requests", share("half", "n1", "g2"));
    live.remove("requests", share("half", "n1", "g2"));
    live.model.confirmShares("pod-default-half", read);
    expect(groupsOn(live, "n1")).toEqual(["g2"]);
  });
});

test("a ConfigMap starts a cycle only if a pod names it", () => {
  const live = new Live();
  const notes = (run: () => void): boolean => {
    const { count } = live.model.cluster.changes;
    run();
    return live.model.cluster.changes.count !== count;
  };
  const settingsMap = loose("settings", {}, "default");
  const mapped = pod("mapped", {
    spec: { containers: [{ name: "c", envFrom: [{ configMapRef: { name: "settings" } }] }] } as never,
  });
  live.put("pods", asLoose(mapped));
  expect(notes(() => live.put("configMaps", loose("other", {}, "default")))).toBe(false);
  expect(notes(() => live.put("configMaps", settingsMap))).toBe(true);
  expect(notes(() => live.put("configMaps", settingsMap))).toBe(false);
  expect(notes(() => live.remove("configMaps", settingsMap))).toBe(true);
  live.remove("pods", asLoose(mapped));
  expect(notes(() => live.put("configMaps", settingsMap))).toBe(false);
});

test("terms of affinity are dropped with the last pod that has them, and count again with the next", () => {
  const live = new Live();
  const { cluster } = live.model;
  live.put("nodes", asLoose(node("n1")));
  live.put("pods", on(coloured("plain", "red"), "n1"));
  const apart = coloured("apart", "red", affinityOf("podAntiAffinity"));
  const pendingOnly = coloured("spread", "red", spreadBy("colour"));
  for (let round = 0; round < 3; round++) {
    live.put("pods", on(apart, "n1"));
    live.put("pods", asLoose(pendingOnly));
    live.model.applyAssumed();
    cycle(cluster, nowMs);
    const terms = Object.fromEntries(cluster.terms.describe());
    expect(Object.values(terms)).toMatchObject([{ matched: { n1: 2 } }, { matched: { n1: 2 } }]);
    live.remove("pods", asLoose(apart));
    live.remove("pods", asLoose(pendingOnly));
    live.model.applyAssumed();
    expect(cluster.terms.isEmpty).toBe(true);
  }
});

test("a description shows the weights of queues, the terms of pods and back-offs", () => {
  const live = new Live();
  live.put("queues", asLoose(queue("q")));
  live.put("pods", on(coloured("apart", "red", affinityOf("podAntiAffinity")), "n1"));
  const described = (): string => {
    live.model.applyAssumed();
    live.model.cluster.refresh(nowMs);
    return JSON.stringify(describeModel(live.model));
  };
  const changes: readonly (() => void)[] = [
    () => live.put("queues", asLoose(queue("q", { resources: { gpu: { quota: 0, limit: -1, overQuotaWeight: 9 } } }))),
    () => live.model.cluster.backOffs.set("pod-default-apart", { untilMs: nowMs, why: "refused", times: 1 }),
    () => live.put("pods", on(coloured("plain", "red"), "n1")),
  ];
  described();
  expect(Object.values(describeModel(live.model)["terms"] as object)).toMatchObject([{ matched: { n1: 1 } }]);
  for (const change of changes) {
    const before = described();
    change();
    expect(described()).not.toBe(before);
  }
});

describe("a model that events were folded into", () => {
  test("is what a fold of all objects at once gives, after each event and each cycle", () => {
    const seen = new Set<Kind>();
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
        const live = new Live();
        for (const each of steps) {
          play(live, each);
          seen.add(each.kind);
          live.model.applyAssumed();
          if (each.decides) cycle(live.model.cluster, nowMs);
          live.model.cluster.refresh(nowMs);
          live.model.cluster.beginDevices(nowMs);
          const fresh = live.model.refolded();
          fresh.cluster.refresh(nowMs);
          fresh.cluster.beginDevices(nowMs);
          expect(differenceOf(describeModel(live.model), describeModel(fresh))).toBeUndefined();
          live.model.cluster.assertCounts();
        }
      }),
      { numRuns: 40 },
    );
    expect([...seen].sort()).toEqual([...kinds].sort());
  });

  test("has noted a change whenever another plan follows from an event", () => {
    let changed = 0;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps) => {
        const live = new Live();
        for (const each of steps) {
          live.model.applyAssumed();
          const before = planText(live.model);
          const { count } = live.model.cluster.changes;
          play(live, each);
          live.model.applyAssumed();
          if (live.model.cluster.changes.count !== count) continue;
          changed++;
          expect(planText(live.model)).toBe(before);
        }
      }),
      { numRuns: 40 },
    );
    expect(changed).toBeGreaterThan(100);
  });
});
