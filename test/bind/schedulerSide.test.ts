/** The scheduler's side of the binder's races, with the real scheduler and the real binder. */
import { describe, expect, test } from "vitest";
import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { AccountReconciler } from "../../src/control/schedule/accountReconciler.ts";
import { PendingReasons } from "../../src/control/schedule/pendingReasons.ts";
import type { SchedulerCaches } from "../../src/control/schedule/schedulerCaches.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { refused } from "../../src/model/outcome.ts";
import { findProfile, profilesWith } from "../../src/model/profiles/profiles.ts";
import { BindCluster } from "./bindCluster.ts";
import { type Call, InterceptedApi } from "./interceptedApi.ts";

const half = { "gpu-fraction": "0.5" };
const queued = { labels: { "kai.scheduler/queue": "default-queue" } };
const requests = "scheduling.run.ai/bindrequests";
const whole = (gpus: number) => ({
  resources: { requests: { "nvidia.com/gpu": String(gpus) }, limits: { "nvidia.com/gpu": String(gpus) } },
});

async function both(pools?: readonly string[]) {
  const cluster = await BindCluster.create(pools);
  const way = new InterceptedApi();
  await cluster.startBinder();
  await cluster.startScheduler((kube) => way.of(kube));
  return { cluster, way };
}

function submit(
  cluster: BindCluster,
  name: string,
  annotations: Record<string, string> = half,
  spec = {},
): Promise<Pod> {
  return cluster.pod(name, annotations, spec, queued);
}

function named(cluster: BindCluster, name: string): Pod | undefined {
  return cluster.pods().find(({ metadata }) => metadata.name === name);
}

function scheduled(pod: Pod | undefined): string | undefined {
  return pod?.status?.conditions?.find(({ type }) => type === "PodScheduled")?.status;
}

function groupOf(pod: Pod): string | undefined {
  return pod.metadata.labels?.["runai-gpu-group"];
}

describe("the scheduler", () => {
  test("counts a pod whose BindRequest it has not observed yet as placed", async () => {
    const { cluster, way } = await both(["t4=1"]);
    way.isLate = (plural) => plural === "bindrequests";
    const created: Call[] = [];
    way.before = (call) => {
      if (call.verb === "create" && call.plural === "bindrequests") created.push(call);
      return undefined;
    };
    for (let i = 0; i < 8; i++) await submit(cluster, `f${i}`);
    await cluster.run(4);
    expect(created.map(({ name }) => name).sort()).toEqual(Array.from({ length: 8 }, (_, i) => `f${i}`));
    const users = new Map<string, number>();
    for (const pod of cluster.pods()) users.set(groupOf(pod) ?? "", (users.get(groupOf(pod) ?? "") ?? 0) + 1);
    expect([...users.values()]).toEqual([2, 2, 2, 2]);
  });

  test("leaves no unschedulable condition on a bound pod, however late the status write was sent", async () => {
    const { cluster, way } = await both(["t4=1"]);
    for (let i = 0; i < 4; i++) await submit(cluster, `full${i}`, { "gpu-fraction": "0.9" });
    await cluster.run(3);
    const held: (() => void)[] = [];
    way.before = ({ verb, plural, name, subresource }) =>
      verb === "patch" && plural === "pods" && name === "late" && subresource === "status"
        ? new Promise<void>((resolve) => held.push(resolve))
        : undefined;
    await submit(cluster, "late");
    await cluster.run(3);
    expect(held.length).toBeGreaterThan(0);
    way.before = () => undefined;
    await cluster.api.delete("/pods", "default/full0");
    await cluster.run(40);
    expect(named(cluster, "late")?.status?.phase).toBe("Running");
    for (const go of held) go();
    await cluster.run(5);
    expect(scheduled(named(cluster, "late"))).toBe("True");
  });

  test("drops status writes of a deleted pod and group, and does not retry them", async () => {
    const { cluster, way } = await both(["t4=1"]);
    for (let i = 0; i < 4; i++) await submit(cluster, `full${i}`, { "gpu-fraction": "0.9" });
    await cluster.run(3);
    let patches = 0;
    let isGone = false;
    way.before = ({ verb, plural, subresource }) => {
      if (verb !== "patch" || subresource !== "status" || (plural !== "pods" && plural !== "podgroups"))
        return undefined;
      patches++;
      if (isGone) return undefined;
      isGone = true;
      return (async () => {
        await cluster.api.delete("/pods", "default/f");
        for (const key of cluster.api.names("scheduling.run.ai/podgroups"))
          if (key.includes("-f-")) await cluster.api.delete("scheduling.run.ai/podgroups", key);
      })();
    };
    await submit(cluster, "f");
    await cluster.run(60);
    expect(isGone).toBe(true);
    expect(patches).toBeLessThan(8);
    expect(cluster.log.errors).toEqual([]);
  });

  test("withdraws a group's unschedulable condition only when its pod is bound", async () => {
    const { cluster } = await both(["t4=1"]);
    for (let i = 0; i < 4; i++) await submit(cluster, `full${i}`, { "gpu-fraction": "0.9" });
    await cluster.run(3);
    await submit(cluster, "f");
    await cluster.run(3);
    const isTold = () => cluster.podGroups().some(({ status }) => (status?.schedulingConditions ?? []).length > 0);
    expect(isTold()).toBe(true);
    let unbound = 0;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "bind" && what === "pods f" && !isTold()) unbound++;
        return undefined;
      },
    };
    await cluster.api.delete("/pods", "default/full0");
    await cluster.run(40);
    expect(named(cluster, "f")?.status?.phase).toBe("Running");
    expect([unbound, isTold()]).toEqual([0, false]);
  });

  test("places no share on a node with one pod slot when it needs a new group, and does when it can join one", async () => {
    const t4 = findProfile(profilesWith(), "t4");
    const cluster = await BindCluster.create(["tiny=1"], {}, [{ ...t4, name: "tiny", maxPods: 3 }]);
    await cluster.startBinder();
    await cluster.startScheduler();
    await submit(cluster, "a");
    await cluster.run(3);
    await submit(cluster, "b", { "gpu-fraction": "0.6" });
    await cluster.run(3);
    expect([named(cluster, "a")?.status?.phase, named(cluster, "b")?.spec?.nodeName]).toEqual(["Running", undefined]);
    await submit(cluster, "c", { "gpu-fraction": "0.4" });
    await cluster.run(3);
    expect(named(cluster, "c")?.status?.phase).toBe("Running");
  });

  test("places one pod of seven tenths on each GPU, each with a group and a device of its own", async () => {
    const { cluster } = await both();
    for (let i = 0; i < 12; i++) await submit(cluster, `f${i}`, { "gpu-fraction": "0.7" });
    await cluster.run(6);
    const placed = cluster.pods().filter(({ status }) => status?.phase === "Running");
    expect(placed).toHaveLength(8);
    expect(new Set(placed.map(groupOf)).size).toBe(8);
    expect(new Set(placed.map(({ metadata }) => metadata.annotations?.["muster.dev/gpu-devices"])).size).toBe(8);
  });

  test("a share that waits for a whole GPU to be released is bound after that, and to nothing else", async () => {
    const { cluster } = await both(["t4=1"]);
    await submit(
      cluster,
      "all",
      {},
      { containers: [{ name: "c", image: "i", ...whole(4) }], terminationGracePeriodSeconds: 5 },
    );
    await cluster.run(3);
    expect(named(cluster, "all")?.status?.phase).toBe("Running");
    await submit(cluster, "f");
    await cluster.run(2);
    await cluster.api.delete("/pods", "default/all");
    await cluster.run(1);
    expect(named(cluster, "all") === undefined || cluster.reservations().length === 0).toBe(true);
    await cluster.run(30);
    expect(named(cluster, "f")?.status?.phase).toBe("Running");
    expect(cluster.reservations()).toHaveLength(1);
  });

  test("starts no BindRequest of a gang before all of them are created", async () => {
    const { cluster, way } = await both(["t4=1"]);
    let failures = 0;
    let isBoundEarly = false;
    way.refuse = ({ verb, plural, name }) => {
      if (verb !== "create" || plural !== "bindrequests" || name !== "g-2" || failures >= 2) return undefined;
      failures++;
      isBoundEarly ||= cluster.pods().some(({ spec }) => spec?.nodeName !== undefined);
      return refused("Unavailable", "down");
    };
    await cluster.gang("g", 3, half);
    await cluster.run(30);
    expect(failures).toBeGreaterThan(0);
    expect(isBoundEarly).toBe(false);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Running", "Running", "Running"]);
  });

  test("does not take a gang for stale when some of its pods have succeeded", async () => {
    const { cluster } = await both(["t4=1"]);
    await cluster.gang("g", 2, half, (member) => (member === 0 ? { "sim.muster.dev/run-duration": "5s" } : {}));
    await cluster.run(120);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Succeeded", "Running"]);
  });

  test("schedules others while the bind of one pod is refused again and again, and retries it with back-off", async () => {
    const { cluster } = await both(["t4=1"]);
    let refusals = 0;
    cluster.kube.faults = {
      before: (verb, what) =>
        verb === "bind" && what === "pods cursed" && ++refusals > 0
          ? refused("Forbidden", "policy says no")
          : undefined,
    };
    await submit(cluster, "cursed");
    await cluster.run(5);
    for (let i = 0; i < 7; i++) await submit(cluster, `f${i}`);
    await cluster.run(10);
    expect(cluster.pods().filter(({ status }) => status?.phase === "Running")).toHaveLength(7);
    const early = refusals;
    await cluster.run(60);
    expect(refusals).toBeGreaterThan(1);
    // Without back-off it would have been hundreds.
    expect(refusals - early).toBeLessThan(20);
    expect(named(cluster, "cursed")?.spec?.nodeName).toBeUndefined();
  });

  test("does not take a pod for placed because of a BindRequest of an earlier pod of that name", async () => {
    const { cluster } = await both(["t4=1"]);
    const predecessor = "11111111-2222-3333-4444-555555555555";
    await cluster.api.create(requests, {
      apiVersion: "scheduling.run.ai/v1alpha2",
      kind: "BindRequest",
      metadata: {
        name: "f",
        namespace: "default",
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "f", uid: predecessor }],
      },
      spec: { podName: "f", selectedNode: "t4-0", selectedGPUGroups: ["old"], receivedResourceType: "Fraction" },
    });
    const pod = await submit(cluster, "f");
    await cluster.run(30);
    expect(named(cluster, "f")?.status?.phase).toBe("Running");
    expect(named(cluster, "f")?.metadata.uid).toBe(pod.metadata.uid);
    expect(groupOf(named(cluster, "f") as Pod)).not.toBe("old");
  });
});

test("groups deleted before their sums were reported leave nothing behind", async () => {
  const groups = new Map<string, object>();
  const clock = { nowMs: () => 0 };
  const cancel = { cancelled: false, onCancel: () => () => undefined };
  const turns = new AccountReconciler(
    { ports: { clock } } as unknown as Controllers,
    { cluster: { jobs: groups }, groups } as unknown as SchedulerCaches,
  );
  for (let round = 0; round < 500; round++) {
    const id = `default/g${round}`;
    groups.set(id, {});
    expect(await turns.reconcileGroup(id, cancel)).toMatchObject({ requeueAfterMs: expect.any(Number) });
    groups.delete(id);
    expect(await turns.reconcileGroup(id, cancel)).toBeUndefined();
  }
  expect(turns.waits).toBe(0);
});

test("the reasons of deleted groups are dropped, however many there were", () => {
  const pushed: string[] = [];
  const book = new PendingReasons((id) => pushed.push(id));
  const verdict = { reason: "PodSchedulingErrors", message: "no room", cure: "" } as const;
  for (let round = 0; round < 500; round++)
    book.note(String(round), [{ id: `default/g${round}`, verdict, waiting: `p${round}` }], {
      released: new Set(),
      isHeld: () => false,
    });
  expect(book.size).toBe(1);
  expect(book.get("default/g498")).toBeUndefined();
  // Reported twice each: when its reason was set, and when it was removed.
  expect(pushed).toHaveLength(999);
});
