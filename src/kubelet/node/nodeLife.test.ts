import { describe, expect, test } from "vitest";
import { startMs, testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
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
    { name: "that is missing is created, and not held yet", lease: undefined, held: false, kinds: ["create"] },
    { name: "of this process is not renewed too early", lease: lease("us", 0), held: true, kinds: [] },
    {
      name: "of this process is renewed after a quarter of its duration",
      lease: lease("us", 11_000),
      held: true,
      kinds: ["update"],
    },
    { name: "of another process that is valid is not touched", lease: lease("them", 39_000), held: false, kinds: [] },
    {
      name: "of another process that has expired is taken",
      lease: lease("them", 40_000),
      held: false,
      kinds: ["update"],
    },
    { name: "without a holder is taken", lease: lease("", 0), held: false, kinds: ["update"] },
    {
      name: "of this process that has expired is not held until it is renewed",
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

  test("the node and the pods of another holder are left alone, and taken over when its lease has expired", () => {
    const testbed = testNode();
    testbed.lease = lease("them", 0);
    testbed.add(testPod());
    testbed.run(30_000);
    expect([testbed.writes, testbed.pod("p").status?.phase]).toEqual([0, "Pending"]);
    testbed.run(20_000);
    expect([holdsLease(testbed.lease, "us", testbed.nowMs), testbed.pod("p").status?.phase]).toEqual([true, "Running"]);
  });
});

describe("a node", () => {
  test("stays Ready for a day, with a lease every ten seconds and a status every five minutes", () => {
    const testbed = testNode();
    testbed.run(24 * 3_600_000);
    expect(ready(testbed.node)?.status).toBe("True");
    expect(testbed.writes).toBeGreaterThan(8000);
    expect(testbed.writes).toBeLessThan(8640 + 300);
    expect(holdsLease(testbed.lease, "us", testbed.nowMs)).toBe(true);
  });

  test("created with only a name and KWOK's annotation is completed", () => {
    const testbed = testNode();
    const { resourceVersion, uid } = testbed.node!.metadata;
    const metadata = {
      name: "pool-0",
      uid,
      resourceVersion,
      creationTimestamp: "",
      annotations: { "kwok.x-k8s.io/node": "fake" },
    };
    testbed.node = partly<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata,
      status: { nodeInfo: { osImage: "mine" } },
    });
    testbed.add(testPod());
    testbed.run(1000);
    expect(testbed.node.status).toMatchObject({
      phase: "Running",
      capacity: { cpu: "192", "nvidia.com/gpu": "8" },
      addresses: [{ type: "InternalIP" }, { type: "Hostname", address: "pool-0" }],
      nodeInfo: { osImage: "mine", operatingSystem: "linux" },
    });
    expect(ready(testbed.node)?.status).toBe("True");
    expect(testbed.pod("p").status?.podIP).toMatch(/^100\./);
  });

  test("that stops its heartbeat writes nothing, and comes back Ready", () => {
    const testbed = testNode({ faults: [fault({ kind: "heartbeat-stop", in: "10s", for: "100s" })] });
    testbed.run(20_000);
    const { writes } = testbed;
    testbed.run(89_000);
    expect([testbed.writes, holdsLease(testbed.lease, "us", testbed.nowMs)]).toEqual([writes, false]);
    const unknown = structuredClone(testbed.node!);
    for (const each of unknown.status?.conditions ?? []) each.status = "Unknown";
    testbed.node = unknown;
    testbed.run(10_000);
    expect([ready(testbed.node)?.status, holdsLease(testbed.lease, "us", testbed.nowMs)]).toEqual(["True", true]);
  });

  test("that is not ready reports why, with a time that changes only with the status", () => {
    const testbed = testNode({ faults: [fault({ kind: "not-ready", in: "10s", for: "20s", reason: "RuntimeDown" })] });
    testbed.run(12_000);
    const during = ready(testbed.node);
    expect(during).toMatchObject({ status: "False", reason: "RuntimeDown" });
    testbed.run(20_000);
    expect(ready(testbed.node)).toMatchObject({ status: "True", reason: "KubeletReady" });
    expect(testbed.events.map(({ reason }) => reason)).toEqual(["NodeNotReady", "NodeReady"]);
  });

  test("that reboots has a new boot id, and the same one for the same seed", () => {
    const boot = () => {
      const testbed = testNode({ faults: [fault({ kind: "node-reboot", in: "10s", down: "30s" })] });
      const before = testbed.node?.status?.nodeInfo?.bootID;
      testbed.run(35_000);
      expect(testbed.node?.status?.nodeInfo?.bootID).toBe(before);
      testbed.run(30_000);
      expect(testbed.node?.status?.nodeInfo?.bootID).not.toBe(before);
      return testbed.node?.status?.nodeInfo?.bootID;
    };
    expect(boot()).toBe(boot());
  });

  test("that is deleted writes nothing, and its pods are left to the cluster", () => {
    const testbed = testNode({ faults: [fault({ kind: "node-delete", in: "10s" })] });
    testbed.add(testPod());
    testbed.run(20_000);
    expect([testbed.node, testbed.pods.size]).toEqual([undefined, 1]);
  });

  test("that is cordoned by a fault is uncordoned when it ends, and a person's cordon stays", () => {
    const testbed = testNode({ faults: [fault({ kind: "cordon", in: "10s", for: "20s" })] });
    testbed.run(15_000);
    expect(testbed.node?.spec?.unschedulable).toBe(true);
    testbed.run(20_000);
    expect(testbed.node?.spec?.unschedulable).toBeUndefined();
    const other = testNode();
    other.node = { ...other.node!, spec: { ...other.node?.spec, unschedulable: true } };
    other.run(60_000);
    expect(other.node?.spec?.unschedulable).toBe(true);
  });

  test("that is drained evicts its pods, except those of DaemonSets", () => {
    const testbed = testNode({ faults: [fault({ kind: "drain", in: "10s" })] });
    testbed.add(testPod({ name: "a" }));
    testbed.add(testPod({ name: "b", owner: "DaemonSet" }));
    testbed.run(60_000);
    expect([...testbed.pods.keys()]).toEqual(["b"]);
  });
});

describe("GPUs of a node", () => {
  test("an unhealthy one is not allocatable, its pod runs on and reports it, and a pod for all of them is refused", () => {
    const testbed = testNode({ faults: [fault({ kind: "gpu-unhealthy", device: 3, in: "10s", for: "60s" })] });
    testbed.add(testPod({ name: "a", gpus: 4 }));
    testbed.run(20_000);
    expect(gpus(testbed.node)).toEqual(["8", "7"]);
    const [main] = testbed.pod("a").status?.containerStatuses ?? [];
    expect(main?.state?.running).toBeDefined();
    expect(main?.allocatedResourcesStatus?.[0]?.resources?.map(({ health }) => health)).toEqual([
      "Healthy",
      "Healthy",
      "Healthy",
      "Unhealthy",
    ]);
    expect(testbed.node?.status?.conditions?.find(({ type }) => type === "GpuHealthy")).toMatchObject({
      status: "False",
      reason: "XidError",
    });
    testbed.add(testPod({ name: "b", gpus: 4 }));
    testbed.run(60_000);
    expect(gpus(testbed.node)).toEqual(["8", "8"]);
    expect(testbed.node?.status?.conditions?.find(({ type }) => type === "GpuHealthy")?.status).toBe("True");
    expect(testbed.pod("a").status?.containerStatuses?.[0]?.allocatedResourcesStatus?.[0]?.resources?.[3]?.health).toBe(
      "Healthy",
    );
  });

  test("a plugin that restarts can allocate nothing for a while", () => {
    const testbed = testNode({ faults: [fault({ kind: "plugin-restart", in: "10s", down: "5s" })] });
    testbed.run(12_000);
    expect(gpus(testbed.node)).toEqual(["8", "0"]);
    testbed.run(12_000);
    expect(gpus(testbed.node)).toEqual(["8", "8"]);
  });

  test("a new driver changes the labels", () => {
    const testbed = testNode({ faults: [fault({ kind: "driver-upgrade", in: "10s", driver: "600.1.2", down: "5s" })] });
    testbed.run(12_000);
    expect([testbed.node?.metadata.labels?.["nvidia.com/cuda.driver.major"], ...gpus(testbed.node)]).toEqual([
      "570",
      "8",
      "0",
    ]);
    testbed.run(12_000);
    expect([testbed.node?.metadata.labels?.["nvidia.com/cuda.driver.major"], ...gpus(testbed.node)]).toEqual([
      "600",
      "8",
      "8",
    ]);
  });

  test("an NVLink partition changes the clique, and back", () => {
    const testbed = testNode({
      profile: "gb200",
      faults: [fault({ kind: "nvlink-partition", partition: 2, in: "10s", for: "20s" })],
    });
    const clique = () => testbed.node?.metadata.labels?.["nvidia.com/gpu.clique"];
    const before = clique();
    testbed.run(15_000);
    expect(clique()).toBe(before?.replace(/0$/, "2"));
    testbed.run(20_000);
    expect(clique()).toBe(before);
  });

  test("partitions are changed when no pod holds a GPU, and refused until then", () => {
    const testbed = testNode({
      faults: [fault({ kind: "mig-reconfigure", in: "10s", down: "20s", strategy: "mixed", partitions: "1g.10gb=7" })],
    });
    testbed.add(testPod({ gpus: 1 }));
    testbed.run(60_000);
    expect(gpus(testbed.node)).toEqual(["8", "8"]);
    const idle = testNode({ faults: testbed.faults });
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
  const testbed = testNode({ faults: [change("10s", "1g.10gb=7"), change("60s", "2g.20gb=3")] });
  testbed.run(40_000);
  const amounts = { "nvidia.com/mig-1g.10gb": "1" };
  testbed.add(testPod({ spec: { containers: [{ name: "main", resources: { limits: amounts, requests: amounts } }] } }));
  testbed.run(60_000);
  expect(testbed.node?.status?.allocatable).toMatchObject({ "nvidia.com/mig-1g.10gb": "56" });
  testbed.remove("p", 0);
  testbed.run(60_000);
  expect(testbed.node?.status?.allocatable).toMatchObject({ "nvidia.com/mig-2g.20gb": "24" });
  expect(testbed.node?.status?.allocatable).not.toHaveProperty(["nvidia.com/mig-1g.10gb"]);
});

describe("faults", () => {
  test.each([
    [{ kind: "meteor" }, "fault-unknown", "unknown fault"],
    [{ kind: "cordon" }, "fault-invalid", "node: is required"],
    [{ kind: "gpu-unhealthy", node: "n" }, "fault-invalid", "device: is required"],
    [{ kind: "gpu-unhealthy", node: "n", device: 99 }, "fault-invalid", "device: must be from 0 to 63"],
    [{ kind: "gpu-unhealthy", node: "n", device: 1, cause: "mood" }, "fault-invalid", "cause: must be one of xid, ecc"],
    [{ kind: "cordon", node: "n", for: "soon" }, "fault-invalid", "for: must be a duration"],
    [{ kind: "node-delete", node: "n", for: "5s" }, "fault-invalid", "is instantaneous"],
    [{ kind: "cordon", node: "n", device: 1 }, "fault-invalid", "device: is not a parameter"],
    [{ kind: "cordon", node: "n", pod: "a/b" }, "fault-invalid", "does not affect pods"],
  ])("%j is refused", (given, code, message) => {
    try {
      readFault(given, { nowMs: 0, id: "x" });
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code, message: expect.stringContaining(message) });
    }
  });

  test("an annotation sets faults of its own node, and an invalid one is reported", () => {
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
