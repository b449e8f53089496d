import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import { partly } from "../../../testing/partly.ts";
import { resourceSliceStrategy } from "../../apiserver/kinds/devices/resourceSlice.ts";
import type { Device, Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Fault } from "../node/faults.ts";
import { readFault } from "../node/faults.ts";
import { nodeStateAt } from "../node/nodeState.ts";
import {
  claimLifeDefaults,
  claimNamesOf,
  claimsPrepared,
  devicesByClaim,
  nextForClaim,
  type PreparedClaim,
  unreleasedDevices,
} from "../pods/claimLife.ts";
import { type DraOptions, draDefaults } from "./draDevices.ts";
import { nextForSlices } from "./draDriver.ts";

const { sim } = testNode();
const node = testNode().node as Node;
const fault = (given: Record<string, string | number | boolean>) =>
  readFault({ node: "pool-0", ...given }, { nowMs: startMs, id: "f" });

/** Publishes until no write is left. */
function publish(
  slices: ResourceSlice[],
  faults: Fault[],
  nowMs: number,
  options: DraOptions = draDefaults,
  unreleased = new Map<string, number>(),
): ResourceSlice[] {
  const next = nextForSlices({ node, sim, state: nodeStateAt(faults, "pool-0", nowMs), slices, unreleased, options });
  let result = slices;
  for (const write of next.writes) {
    if (write.kind === "create") result = [...result, partly<ResourceSlice>(write.object)];
    if (write.kind === "update")
      result = result.map((each) => (each.metadata.name === write.ref.name ? (write.object as ResourceSlice) : each));
    if (write.kind === "delete") result = result.filter((each) => each.metadata.name !== write.ref.name);
  }
  return result;
}

const devicesOf = (slices: ResourceSlice[]): Device[] => slices.flatMap(({ spec }) => spec.devices ?? []);

describe("slices", () => {
  test("a node publishes one pool of its own name, and then writes nothing", () => {
    const slices = publish([], [], startMs);
    expect(slices.map(({ metadata, spec }) => [metadata.name, spec.nodeName, spec.pool])).toEqual([
      ["pool-0-gpu.nvidia.com-0", "pool-0", { name: "pool-0", generation: 1, resourceSliceCount: 1 }],
    ]);
    expect(publish(slices, [], startMs)).toBe(slices);
  });

  test("a device publishes its identity, with and without prefix", () => {
    const [device] = devicesOf(publish([], [], startMs));
    const { uuid } = sim.devices[0]!;
    expect(device).toMatchObject({
      name: "gpu-0",
      attributes: {
        type: { string: "gpu" },
        uuid: { string: uuid },
        "gpu.nvidia.com/uuid": { string: uuid },
        "gpu.nvidia.com/type": { string: "gpu" },
        productName: { string: "NVIDIA-H100-80GB-HBM3" },
        driverVersion: { version: "570.86.16" },
      },
      capacity: { memory: { value: "81559Mi" } },
    });
    const [byUuid] = devicesOf(publish([], [], startMs, { ...draDefaults, names: "uuid" }));
    expect(byUuid?.name).toBe(uuid.toLowerCase());
  });

  test.each([
    { name: "a taint is written in place", dra: "NoSchedule", generation: 1, count: 8, taints: ["NoSchedule"] },
    { name: "also one that evicts", dra: "NoExecute", generation: 1, count: 8, taints: ["NoExecute"] },
    { name: "a removed device makes a new generation", dra: "remove", generation: 2, count: 7, taints: [] },
  ])("$name", ({ dra, generation, count, taints }) => {
    const faults = [fault({ kind: "gpu-unhealthy", device: 3, dra, in: "10s", for: "10s" })];
    const before = publish([], faults, startMs);
    const during = publish(before, faults, startMs + 10_000);
    expect(during[0]?.spec.pool.generation).toBe(generation);
    expect(devicesOf(during)).toHaveLength(count);
    expect(devicesOf(during).flatMap((device) => (device.taints ?? []).map(({ effect }) => effect))).toEqual(taints);
    const after = publish(during, faults, startMs + 20_000);
    expect(devicesOf(after)).toEqual(devicesOf(before));
    expect(after[0]?.spec.pool.generation).toBe(dra === "remove" ? 3 : 1);
  });

  test("a driver that is upgraded withdraws its slices and publishes them with its new version", () => {
    const faults = [fault({ kind: "driver-upgrade", driver: "600.1.0", in: "10s", down: "30s" })];
    const during = publish(publish([], faults, startMs), faults, startMs + 10_000);
    expect(during).toEqual([]);
    const [device] = devicesOf(publish(during, faults, startMs + 40_000));
    expect(device?.attributes?.["driverVersion"]).toEqual({ version: "600.1.0" });
  });

  test("a silent node leaves its slices as they are", () => {
    const faults = [
      fault({ kind: "heartbeat-stop", in: "0s" }),
      fault({ kind: "gpu-unhealthy", device: 0, dra: "remove" }),
    ];
    const slices = publish([], [], startMs);
    expect(publish(slices, faults, startMs + 1000)).toBe(slices);
  });

  test("partitions share the counters of their GPU, in slices of their own", () => {
    const slices = publish([], [], startMs, { ...draDefaults, partitionable: true });
    const counters = slices.filter(({ spec }) => spec.sharedCounters !== undefined);
    expect(counters.map(({ spec }) => spec.sharedCounters?.length)).toEqual([8]);
    expect(new Set(slices.map(({ spec }) => spec.pool.resourceSliceCount))).toEqual(new Set([slices.length]));
    const devices = devicesOf(slices);
    expect(devices).toHaveLength(8 * 26);
    expect(new Set(devices.map(({ name }) => name)).size).toBe(devices.length);
    for (const device of devices) {
      const [used] = device.consumesCounters ?? [];
      const set = counters
        .flatMap(({ spec }) => spec.sharedCounters ?? [])
        .find(({ name }) => name === used?.counterSet);
      for (const counter of Object.keys(used?.counters ?? {})) expect(set?.counters).toHaveProperty([counter]);
    }
    const [whole] = devices;
    expect(Object.keys(whole?.consumesCounters?.[0]?.counters ?? {})).toHaveLength(9);
  });

  test.each([
    ["whole", draDefaults],
    ["by uuid", { ...draDefaults, names: "uuid" }],
    ["partitionable", { ...draDefaults, partitionable: true }],
  ] as const)("the API accepts them: %s", (_name, options) => {
    const faults = [fault({ kind: "gpu-unhealthy", device: 0 })];
    for (const slice of publish([], faults, startMs, options, new Map([["gpu-1", startMs]]))) {
      const context = { nowMs: startMs, warn: () => undefined };
      const errors = resourceSliceStrategy.validate?.(slice as never, context as never) ?? [];
      expect(errors).toEqual([]);
    }
  });

  test("a device that its last consumer has not released has a taint", () => {
    const slices = publish([], [], startMs, draDefaults, new Map([["gpu-2", startMs]]));
    expect(devicesOf(slices)[2]?.taints).toEqual([
      { key: "sim.muster.dev/held", effect: "NoSchedule", timeAdded: formatTime(startMs) },
    ]);
  });
});

function claimFor(pods: Pod[], device = "gpu-0", name = "c"): ResourceClaim {
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name, namespace: "default", uid: `uid-${name}`, resourceVersion: "1", creationTimestamp: "" },
    spec: {},
    status: {
      allocation: { devices: { results: [{ request: "r", driver: "gpu.nvidia.com", pool: "pool-0", device }] } },
      reservedFor: pods.map(({ metadata }) => ({ resource: "pods", name: metadata.name, uid: metadata.uid })),
    },
  };
}

/** A node that prepares claims, without other controllers. */
function claimNode(faults: Fault[] = []) {
  const testbed = {
    nowMs: startMs,
    prepared: new Map<string, PreparedClaim>(),
    step(
      claim: ResourceClaim | undefined,
      users: Pod[],
      uid = claim?.metadata.uid ?? "uid-c",
    ): ResourceClaim | undefined {
      const others = [...testbed.prepared.values()].filter(({ claimUid }) => claimUid !== uid);
      const prepared = testbed.prepared.get(uid);
      const state = nodeStateAt(faults, "pool-0", testbed.nowMs);
      const next = nextForClaim({
        claim,
        prepared,
        others,
        users,
        sim,
        state,
        faults,
        options: claimLifeDefaults,
        nowMs: testbed.nowMs,
      });
      if (next.prepared === undefined) testbed.prepared.delete(uid);
      else testbed.prepared.set(uid, next.prepared);
      const write = next.writes.find(({ kind }) => kind === "update");
      return write?.kind === "update" ? (write.object as ResourceClaim) : claim;
    },
    after(ms: number) {
      testbed.nowMs += ms;
      return testbed;
    },
    /** Runs until nothing is written any more, and returns the writes. */
    settle(claim: ResourceClaim | undefined, users: Pod[]): ResourceClaim | undefined {
      let now = claim;
      for (let i = 0; i < 5; i++) now = testbed.step(now, users);
      return now;
    },
  };
  return testbed;
}

const readyOf = (claim: ResourceClaim | undefined) =>
  claim?.status?.devices?.map(({ conditions }) => `${conditions?.[0]?.status} ${conditions?.[0]?.reason}`);

describe("claims", () => {
  const pod = { ...testPod(), spec: { ...testPod().spec!, resourceClaims: [{ name: "gpu", resourceClaimName: "c" }] } };

  test("are prepared, reported, kept while a pod uses them, and unprepared after the last one", () => {
    const testbed = claimNode();
    let claim = testbed.step(claimFor([pod]), [pod]);
    expect([testbed.prepared.get("uid-c")?.state, readyOf(claim)]).toEqual(["preparing", undefined]);
    claim = testbed.after(50).step(claim, [pod]);
    expect([testbed.prepared.get("uid-c")?.state, readyOf(claim)]).toEqual(["preparing", ["True Prepared"]]);
    claim = testbed.step(claim, [pod]);
    expect([testbed.prepared.get("uid-c")?.state, readyOf(claim)]).toEqual(["prepared", ["True Prepared"]]);
    claim = testbed.after(5000).step(claim, [pod]);
    expect(readyOf(claim)).toEqual(["True Prepared"]);
    claim = testbed.step(claim, []);
    expect([testbed.prepared.get("uid-c")?.state, readyOf(claim)]).toEqual(["unpreparing", ["True Prepared"]]);
    claim = testbed.after(50).step(claim, []);
    expect([testbed.prepared.size, readyOf(claim)]).toEqual([0, undefined]);
  });

  type State = PreparedClaim["state"] | "nothing";
  const unallocated = (): ResourceClaim => ({ ...claimFor([pod]), status: { reservedFor: [] } });
  const successor = (): ResourceClaim => {
    const claim = claimFor([pod]);
    return { ...claim, metadata: { ...claim.metadata, uid: "uid-next" } };
  };
  /**
   * The state of the API, whether the pod's containers may run here, how long the state lasts, and the state after it.
   */
  const moves: [State, string, () => ResourceClaim | undefined, boolean, number, State][] = [
    ["nothing", "no claim", () => undefined, true, 0, "nothing"],
    ["nothing", "a claim without devices", unallocated, true, 0, "nothing"],
    ["nothing", "a claim without reservations", () => claimFor([]), true, 0, "nothing"],
    ["nothing", "a reserved claim, its pod is not here", () => claimFor([pod]), false, 0, "nothing"],
    ["nothing", "a reserved claim, its pod is here", () => claimFor([pod]), true, 0, "preparing"],
    ["preparing", "the claim, too early", () => claimFor([pod]), true, 49, "preparing"],
    ["preparing", "the claim, in time", () => claimFor([pod]), true, 50, "prepared"],
    ["preparing", "no claim any more", () => undefined, true, 10, "unpreparing"],
    ["preparing", "the claim without devices", unallocated, true, 10, "unpreparing"],
    ["preparing", "the claim without its reservation", () => claimFor([]), true, 10, "unpreparing"],
    ["preparing", "the claim, its pod deleted", () => claimFor([pod]), false, 10, "unpreparing"],
    ["preparing", "another claim of the same name", successor, true, 10, "unpreparing"],
    ["prepared", "the claim", () => claimFor([pod]), true, 9_000, "prepared"],
    ["prepared", "the claim without its reservation, its pod runs", () => claimFor([]), true, 9_000, "prepared"],
    ["prepared", "no claim any more, its pod runs", () => undefined, true, 9_000, "prepared"],
    ["prepared", "another claim of the same name, its pod runs", successor, true, 9_000, "prepared"],
    ["prepared", "the claim, its pod deleted", () => claimFor([pod]), false, 9_000, "unpreparing"],
    ["prepared", "no claim any more, its pod deleted", () => undefined, false, 9_000, "unpreparing"],
    ["unpreparing", "no claim, too early", () => undefined, false, 49, "unpreparing"],
    ["unpreparing", "no claim, in time", () => undefined, false, 50, "nothing"],
    ["unpreparing", "the claim is wanted again, too early", () => claimFor([pod]), true, 49, "unpreparing"],
    ["unpreparing", "the claim is wanted again, in time", () => claimFor([pod]), true, 50, "nothing"],
    ["unpreparing", "another claim of the same name, in time", successor, true, 50, "nothing"],
  ];
  test.each(moves)("a claim that is %s here, and the API has %s", (state, _, claim, isHere, ms, after) => {
    const testbed = claimNode();
    if (state !== "nothing") {
      const held = {
        claimUid: "uid-c",
        namespace: "default",
        name: "c",
        devices: ["gpu-0"],
        users: [pod.metadata.uid],
      };
      testbed.prepared.set("uid-c", { ...held, state, sinceMs: testbed.nowMs });
    }
    testbed.after(ms);
    let known = claim();
    // Two steps: the node writes to the claim first and relies on it afterwards.
    for (let turn = 0; turn < (after === "prepared" ? 2 : 1); turn++) {
      known = testbed.step(known, isHere ? [pod] : [], "uid-c");
    }
    expect(testbed.prepared.get("uid-c")?.state ?? "nothing").toBe(after);
  });

  test("a container has the devices of the claims that it names itself, once they are prepared", () => {
    const spec = {
      resourceClaims: [
        { name: "mine", resourceClaimName: "c" },
        { name: "made", resourceClaimTemplateName: "t" },
      ],
      containers: [
        { name: "main", image: "i", resources: { claims: [{ name: "mine" }] } },
        { name: "other", image: "i", resources: { claims: [{ name: "made" }] } },
        { name: "none", image: "i" },
      ],
    };
    const asking = testPod({ spec });
    const status = { ...asking.status, resourceClaimStatuses: [{ name: "made", resourceClaimName: "p-made" }] };
    const has = (name: string, device: string, state: PreparedClaim["state"] = "prepared", namespace = "default") => {
      return { claimUid: `uid-${name}`, namespace, name, state, sinceMs: 0, devices: [device], users: [] };
    };
    const all = [has("c", "gpu-0"), has("p-made", "gpu-1"), has("c", "gpu-2", "prepared", "elsewhere")];
    const ask = (container: string, prepared = all) => devicesByClaim({ ...asking, status }, container, prepared);
    expect([ask("main"), ask("other"), ask("none")]).toEqual([["gpu-0"], ["gpu-1"], []]);
    expect(ask("main", [has("c", "gpu-0", "preparing")])).toEqual([]);
  });

  test("the pod waits until its claim is prepared here and reserved for it", () => {
    const claim = claimFor([pod]);
    const at = { name: "pool-0", driver: "gpu.nvidia.com" };
    const prepared = (state: PreparedClaim["state"]) =>
      new Map([
        [
          "uid-c",
          { claimUid: "uid-c", namespace: "default", name: "c", state, sinceMs: 0, devices: ["gpu-0"], users: ["u-p"] },
        ],
      ]);
    const ask = (given: ResourceClaim | undefined, map: Map<string, PreparedClaim>) =>
      claimsPrepared(pod, () => given, map, at);
    expect([
      ask(undefined, new Map()),
      ask(claim, new Map()),
      ask(claim, prepared("preparing")),
      ask(claim, prepared("prepared")),
      ask(claimFor([]), prepared("prepared")),
    ]).toEqual([false, false, false, true, false]);
    const testbed = testNode();
    expect(
      claimNamesOf({ ...pod, spec: { ...pod.spec, resourceClaims: [{ name: "x", resourceClaimTemplateName: "t" }] } }),
    ).toBeUndefined();
    testbed.add(pod);
    testbed.run(0);
    expect(testbed.pod("p").status?.phase).toBe("Running");
  });

  test("a failing driver keeps the claim unready and reports it once", () => {
    const testbed = claimNode([fault({ kind: "prepare-failure", for: "10s" })]);
    let claim = testbed.step(claimFor([pod]), [pod]);
    claim = testbed.after(50).step(claim, [pod]);
    expect(readyOf(claim)).toEqual(["False PrepareFailed"]);
    for (let i = 0; i < 30; i++) claim = testbed.after(500).step(claim, [pod]);
    expect(readyOf(claim)).toEqual(["True Prepared"]);
  });

  test("a forced delete does not free the device: the next claim waits for the node", () => {
    const testbed = claimNode([fault({ kind: "slow-release", delay: "2s" })]);
    testbed.step(claimFor([pod]), [pod]);
    testbed.after(50).settle(claimFor([pod]), [pod]);
    testbed.step(undefined, [], "uid-c");
    const at = { name: "pool-0", driver: "gpu.nvidia.com" };
    expect([...unreleasedDevices(testbed.prepared.values(), () => undefined, at).keys()]).toEqual(["gpu-0"]);
    const other = testPod({ name: "q" });
    let second = testbed.after(420).step(claimFor([other], "gpu-0", "d"), [other]);
    expect(readyOf(second)).toEqual(["False DeviceInUse"]);
    testbed.after(2000).step(undefined, [], "uid-c");
    expect(unreleasedDevices(testbed.prepared.values(), () => undefined, at).size).toBe(0);
    second = testbed.step(second, [other]);
    second = testbed.after(50).step(second, [other]);
    expect(readyOf(second)).toEqual(["True Prepared"]);
  });

  test("an unhealthy GPU is reported in the claim that has it", () => {
    const testbed = claimNode([fault({ kind: "gpu-unhealthy", device: 0, in: "10s" })]);
    let claim = testbed.step(claimFor([pod]), [pod]);
    claim = testbed.after(50).settle(claim, [pod]);
    claim = testbed.after(10_000).step(claim, [pod]);
    expect(readyOf(claim)).toEqual(["False Unhealthy"]);
    expect(testbed.prepared.get("uid-c")?.state).toBe("prepared");
  });

  test("a claim that is deallocated before the node has written to it is never used", () => {
    const testbed = claimNode();
    testbed.step(claimFor([pod]), [pod]);
    testbed.after(50).step(claimFor([pod]), [pod]);
    expect(testbed.prepared.get("uid-c")?.state).toBe("preparing");
    const { allocation: _taken, ...rest } = claimFor([pod]).status ?? {};
    testbed.step({ ...claimFor([pod]), status: rest }, [pod]);
    expect(testbed.prepared.get("uid-c")?.state).toBe("unpreparing");
  });

  test("the end of one pod does not unprepare a shared claim", () => {
    const [a, b] = [testPod({ name: "a" }), testPod({ name: "b" })];
    const testbed = claimNode();
    testbed.step(claimFor([a, b]), [a, b]);
    testbed.after(50).settle(claimFor([a, b]), [a, b]);
    testbed.step(claimFor([b]), [b]);
    expect(testbed.prepared.get("uid-c")?.state).toBe("prepared");
  });

  test("no device is prepared for two claims, whatever is created and deleted", () => {
    const steps = fc.array(
      fc.record({
        claim: fc.integer({ min: 0, max: 2 }),
        used: fc.boolean(),
        gone: fc.boolean(),
        ms: fc.integer({ min: 0, max: 120 }),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(steps, (list) => {
        const testbed = claimNode();
        for (const { claim, used, gone, ms } of list) {
          const user = testPod({ name: `p${claim}` });
          const given = gone ? undefined : claimFor(used ? [user] : [], "gpu-0", `c${claim}`);
          testbed.after(ms).step(given, used && !gone ? [user] : [], `uid-c${claim}`);
          expect(
            [...testbed.prepared.values()].filter(({ devices }) => devices.includes("gpu-0")).length,
          ).toBeLessThanOrEqual(1);
        }
      }),
    );
  });
});
