import { describe, expect, test } from "vitest";
import { startMs, testPod, testWorld } from "../../../testing/kubelet/nodeContext.ts";
import { partly } from "../../../testing/partly.ts";
import type { Lease, Node } from "../../model/kubernetes.generated.ts";
import { formatMicroTime } from "../../model/values/time.ts";
import { annotatedFaults, drawFaults, type FaultKind, faultKinds, readFault } from "./faults.ts";
import { holdsLease, nextForLease } from "./nodeLease.ts";
import { nodeStateAt } from "./nodeState.ts";

const fault = (given: Record<string, string | number | boolean>) =>
  readFault({ node: "pool-0", ...given }, { nowMs: startMs, id: JSON.stringify(given) });
const ready = (node: Node | undefined) => node?.status?.conditions?.find(({ type }) => type === "Ready");
const gpus = (node: Node | undefined) => [
  node?.status?.capacity?.["nvidia.com/gpu"],
  node?.status?.allocatable?.["nvidia.com/gpu"],
];

describe("a lease", () => {
  const options = { holder: "us", leaseSeconds: 40, clusterSeed: "s" };
  const lease = (holder: string, agoMs: number): Lease => ({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "n", namespace: "kube-node-lease", uid: "u", resourceVersion: "1", creationTimestamp: "" },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: 40,
      renewTime: formatMicroTime(startMs - agoMs),
      leaseTransitions: 3,
    },
  });
  test.each([
    { name: "that is missing is made, and not yet held", lease: undefined, held: false, kinds: ["create"] },
    { name: "of ours is left alone while it is young", lease: lease("us", 0), held: true, kinds: [] },
    {
      name: "of ours is renewed after a quarter of its time",
      lease: lease("us", 11_000),
      held: true,
      kinds: ["update"],
    },
    { name: "of another that lives is not touched", lease: lease("them", 39_000), held: false, kinds: [] },
    { name: "of another that ran out is taken", lease: lease("them", 40_000), held: false, kinds: ["update"] },
    { name: "without a holder is taken", lease: lease("", 0), held: false, kinds: ["update"] },
    {
      name: "of ours that ran out is not held until it is renewed",
      lease: lease("us", 41_000),
      held: false,
      kinds: ["update"],
    },
  ])("$name", ({ lease: given, held, kinds }) => {
    const next = nextForLease({ name: "n", uid: "nu" }, given, options, startMs);
    expect([next.held, next.writes.map(({ kind }) => kind)]).toEqual([held, kinds]);
    const [write] = next.writes;
    if (write?.kind === "update") expect((write.object as Lease).spec?.holderIdentity).toBe("us");
  });

  test("a takeover counts as a transition, a renewal does not", () => {
    const transitions = (given: Lease) => {
      const [write] = nextForLease({ name: "n", uid: "nu" }, given, options, startMs).writes;
      return write?.kind === "update" ? (write.object as Lease).spec?.leaseTransitions : undefined;
    };
    expect([transitions(lease("them", 50_000)), transitions(lease("us", 20_000))]).toEqual([4, 3]);
  });

  test("the node and the pods of another holder are left alone, and taken over when the holder is gone", () => {
    const world = testWorld();
    world.lease = lease("them", 0);
    world.add(testPod());
    world.run(30_000);
    expect([world.writes, world.pod("p").status?.phase]).toEqual([0, "Pending"]);
    world.run(20_000);
    expect([holdsLease(world.lease, "us", world.nowMs), world.pod("p").status?.phase]).toEqual([true, "Running"]);
  });
});

describe("a node", () => {
  test("stays Ready for a day, with a lease every ten seconds and a status every five minutes", () => {
    const world = testWorld();
    world.run(24 * 3_600_000);
    expect(ready(world.node)?.status).toBe("True");
    expect(world.writes).toBeGreaterThan(8000);
    expect(world.writes).toBeLessThan(8640 + 300);
    expect(holdsLease(world.lease, "us", world.nowMs)).toBe(true);
  });

  test("created with only a name and KWOK's annotation is completed", () => {
    const world = testWorld();
    const { resourceVersion, uid } = world.node!.metadata;
    const metadata = {
      name: "pool-0",
      uid,
      resourceVersion,
      creationTimestamp: "",
      annotations: { "kwok.x-k8s.io/node": "fake" },
    };
    world.node = partly<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata,
      status: { nodeInfo: { osImage: "mine" } },
    });
    world.add(testPod());
    world.run(1000);
    expect(world.node.status).toMatchObject({
      phase: "Running",
      capacity: { cpu: "192", "nvidia.com/gpu": "8" },
      addresses: [{ type: "InternalIP" }, { type: "Hostname", address: "pool-0" }],
      nodeInfo: { osImage: "mine", operatingSystem: "linux" },
    });
    expect(ready(world.node)?.status).toBe("True");
    expect(world.pod("p").status?.podIP).toMatch(/^100\./);
  });

  test("that stops its heartbeat writes nothing, and comes back Ready", () => {
    const world = testWorld({ faults: [fault({ kind: "heartbeat-stop", in: "10s", for: "100s" })] });
    world.run(20_000);
    const { writes } = world;
    world.run(89_000);
    expect([world.writes, holdsLease(world.lease, "us", world.nowMs)]).toEqual([writes, false]);
    const unknown = structuredClone(world.node!);
    for (const each of unknown.status?.conditions ?? []) each.status = "Unknown";
    world.node = unknown;
    world.run(10_000);
    expect([ready(world.node)?.status, holdsLease(world.lease, "us", world.nowMs)]).toEqual(["True", true]);
  });

  test("that is not ready says why, with a time that moves only with the status", () => {
    const world = testWorld({ faults: [fault({ kind: "not-ready", in: "10s", for: "20s", reason: "RuntimeDown" })] });
    world.run(12_000);
    const during = ready(world.node);
    expect(during).toMatchObject({ status: "False", reason: "RuntimeDown" });
    world.run(20_000);
    expect(ready(world.node)).toMatchObject({ status: "True", reason: "KubeletReady" });
    expect(world.events.map(({ reason }) => reason)).toEqual(["NodeNotReady", "NodeReady"]);
  });

  test("that reboots has a new boot id, and the same one for the same seed", () => {
    const boot = () => {
      const world = testWorld({ faults: [fault({ kind: "node-reboot", in: "10s", down: "30s" })] });
      const before = world.node?.status?.nodeInfo?.bootID;
      world.run(35_000);
      expect(world.node?.status?.nodeInfo?.bootID).toBe(before);
      world.run(30_000);
      expect(world.node?.status?.nodeInfo?.bootID).not.toBe(before);
      return world.node?.status?.nodeInfo?.bootID;
    };
    expect(boot()).toBe(boot());
  });

  test("that is deleted is gone, and its pods are left to the cluster", () => {
    const world = testWorld({ faults: [fault({ kind: "node-delete", in: "10s" })] });
    world.add(testPod());
    world.run(20_000);
    expect([world.node, world.pods.size]).toEqual([undefined, 1]);
  });

  test("that is cordoned by a fault is uncordoned when it ends, and a person's cordon stays", () => {
    const world = testWorld({ faults: [fault({ kind: "cordon", in: "10s", for: "20s" })] });
    world.run(15_000);
    expect(world.node?.spec?.unschedulable).toBe(true);
    world.run(20_000);
    expect(world.node?.spec?.unschedulable).toBeUndefined();
    const other = testWorld();
    other.node = { ...other.node!, spec: { ...other.node?.spec, unschedulable: true } };
    other.run(60_000);
    expect(other.node?.spec?.unschedulable).toBe(true);
  });

  test("that is drained evicts its pods, but for those of DaemonSets", () => {
    const world = testWorld({ faults: [fault({ kind: "drain", in: "10s" })] });
    world.add(testPod({ name: "a" }));
    world.add(testPod({ name: "b", owner: "DaemonSet" }));
    world.run(60_000);
    expect([...world.pods.keys()]).toEqual(["b"]);
  });
});

describe("GPUs of a node", () => {
  test("a broken one leaves allocatable, its pod runs on and shows it, and a pod for all of them is refused", () => {
    const world = testWorld({ faults: [fault({ kind: "gpu-unhealthy", device: 3, in: "10s", for: "60s" })] });
    world.add(testPod({ name: "a", gpus: 4 }));
    world.run(20_000);
    expect(gpus(world.node)).toEqual(["8", "7"]);
    const [main] = world.pod("a").status?.containerStatuses ?? [];
    expect(main?.state?.running).toBeDefined();
    expect(main?.allocatedResourcesStatus?.[0]?.resources?.map(({ health }) => health)).toEqual([
      "Healthy",
      "Healthy",
      "Healthy",
      "Unhealthy",
    ]);
    expect(world.node?.status?.conditions?.find(({ type }) => type === "GpuHealthy")).toMatchObject({
      status: "False",
      reason: "XidError",
    });
    world.add(testPod({ name: "b", gpus: 4 }));
    world.run(60_000);
    expect(gpus(world.node)).toEqual(["8", "8"]);
    expect(world.node?.status?.conditions?.find(({ type }) => type === "GpuHealthy")?.status).toBe("True");
    expect(world.pod("a").status?.containerStatuses?.[0]?.allocatedResourcesStatus?.[0]?.resources?.[3]?.health).toBe(
      "Healthy",
    );
  });

  test("a plugin that restarts has nothing to give for a while", () => {
    const world = testWorld({ faults: [fault({ kind: "plugin-restart", in: "10s", down: "5s" })] });
    world.run(12_000);
    expect(gpus(world.node)).toEqual(["8", "0"]);
    world.run(12_000);
    expect(gpus(world.node)).toEqual(["8", "8"]);
  });

  test("a new driver changes the labels", () => {
    const world = testWorld({ faults: [fault({ kind: "driver-upgrade", in: "10s", driver: "600.1.2", down: "5s" })] });
    world.run(12_000);
    expect([world.node?.metadata.labels?.["nvidia.com/cuda.driver.major"], ...gpus(world.node)]).toEqual([
      "570",
      "8",
      "0",
    ]);
    world.run(12_000);
    expect([world.node?.metadata.labels?.["nvidia.com/cuda.driver.major"], ...gpus(world.node)]).toEqual([
      "600",
      "8",
      "8",
    ]);
  });

  test("an NVLink partition changes the clique, and back", () => {
    const world = testWorld({
      profile: "gb200",
      faults: [fault({ kind: "nvlink-partition", partition: 2, in: "10s", for: "20s" })],
    });
    const clique = () => world.node?.metadata.labels?.["nvidia.com/gpu.clique"];
    const before = clique();
    world.run(15_000);
    expect(clique()).toBe(before?.replace(/0$/, "2"));
    world.run(20_000);
    expect(clique()).toBe(before);
  });

  test("partitions are changed when no pod holds a GPU, and refused until then", () => {
    const world = testWorld({
      faults: [fault({ kind: "mig-reconfigure", in: "10s", down: "20s", strategy: "mixed", partitions: "1g.10gb=7" })],
    });
    world.add(testPod({ gpus: 1 }));
    world.run(60_000);
    expect(gpus(world.node)).toEqual(["8", "8"]);
    const idle = testWorld({ faults: world.faults });
    idle.run(15_000);
    expect([...gpus(idle.node), idle.node?.metadata.labels?.["nvidia.com/mig.config.state"]]).toEqual([
      "8",
      "0",
      "pending",
    ]);
    idle.run(30_000);
    expect(idle.node?.status?.allocatable).toMatchObject({ "nvidia.com/mig-1g.10gb": "56" });
    expect(idle.node?.status?.allocatable).not.toHaveProperty("nvidia.com/gpu");
    expect(idle.node?.metadata.labels).toMatchObject({
      "nvidia.com/mig.config.state": "success",
      "nvidia.com/mig.strategy": "mixed",
    });
    idle.add(
      testPod({
        spec: {
          containers: [
            {
              name: "main",
              resources: { limits: { "nvidia.com/mig-1g.10gb": "1" }, requests: { "nvidia.com/mig-1g.10gb": "1" } },
            },
          ],
        },
      }),
    );
    idle.run(1000);
    expect(idle.pod("p").status?.phase).toBe("Running");
    expect(idle.pod("p").metadata.annotations?.["sim.muster.dev/devices"]).toContain("MIG-");
  });
});

test("a second change of partitions waits for pods on the first ones", () => {
  const change = (at: string, partitions: string) =>
    fault({ kind: "mig-reconfigure", in: at, down: "10s", strategy: "mixed", partitions });
  const world = testWorld({ faults: [change("10s", "1g.10gb=7"), change("60s", "2g.20gb=3")] });
  world.run(40_000);
  const amounts = { "nvidia.com/mig-1g.10gb": "1" };
  world.add(testPod({ spec: { containers: [{ name: "main", resources: { limits: amounts, requests: amounts } }] } }));
  world.run(60_000);
  expect(world.node?.status?.allocatable).toMatchObject({ "nvidia.com/mig-1g.10gb": "56" });
  world.remove("p", 0);
  world.run(60_000);
  expect(world.node?.status?.allocatable).toMatchObject({ "nvidia.com/mig-2g.20gb": "24" });
  expect(world.node?.status?.allocatable).not.toHaveProperty(["nvidia.com/mig-1g.10gb"]);
});

describe("faults", () => {
  test.each([
    [{ kind: "meteor" }, "fault-unknown", "no fault is named"],
    [{ kind: "cordon" }, "fault-invalid", "node: is required"],
    [{ kind: "gpu-unhealthy", node: "n" }, "fault-invalid", "device: is required"],
    [{ kind: "gpu-unhealthy", node: "n", device: 99 }, "fault-invalid", "device: must be from 0 to 63"],
    [{ kind: "gpu-unhealthy", node: "n", device: 1, cause: "mood" }, "fault-invalid", "cause: must be one of xid, ecc"],
    [{ kind: "cordon", node: "n", for: "soon" }, "fault-invalid", "for: must be a duration"],
    [{ kind: "node-delete", node: "n", for: "5s" }, "fault-invalid", "over in a moment"],
    [{ kind: "cordon", node: "n", device: 1 }, "fault-invalid", "device: is not a parameter"],
    [{ kind: "cordon", node: "n", pod: "a/b" }, "fault-invalid", "is not about pods"],
  ])("%j is refused", (given, code, message) => {
    try {
      readFault(given, { nowMs: 0, id: "x" });
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code, message: expect.stringContaining(message) });
    }
  });

  test("an annotation sets faults of its own node, and an unreadable one is reported", () => {
    const metadata = (text: string) => ({
      name: "n",
      creationTimestamp: "2027-01-15T08:00:00Z",
      annotations: { "sim.muster.dev/faults": text },
    });
    const { faults, problems } = annotatedFaults(metadata('[{"kind":"gpu-unhealthy","device":2},{"kind":"meteor"}]'));
    expect([faults.map(({ node, kind, untilMs }) => [node, kind, untilMs]), problems.length]).toEqual([
      [["n", "gpu-unhealthy", undefined]],
      1,
    ]);
    expect(annotatedFaults(metadata("{")).problems).toHaveLength(1);
    expect(nodeStateAt(faults, "n", startMs).unhealthy).toEqual(new Set([2]));
  });

  test("a drawn list follows from its seed", () => {
    const kinds = Object.keys(faultKinds) as FaultKind[];
    const plan = {
      nodes: [
        { name: "a", gpus: 8 },
        { name: "b", gpus: 0 },
      ],
      kinds,
      fromMs: 0,
      untilMs: 60_000,
      count: 50,
      lastsMsMax: 10_000,
    };
    const first = drawFaults({ ...plan, seed: "1" });
    expect(first).toEqual(drawFaults({ ...plan, seed: "1" }));
    expect(first).not.toEqual(drawFaults({ ...plan, seed: "2" }));
    expect(first.length).toBeGreaterThan(40);
    expect(nodeStateAt(first, "a", 120_000).alive).toBe(true);
  });
});
