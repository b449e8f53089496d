/** Reservations when reads fail, caches lag and other clients interfere. */
import { describe, expect, test } from "vitest";
import { readGroup } from "../../src/control/bind/readGroup.ts";
import { deviceOf, holdersOf, newReservation, reservationDefaults } from "../../src/decide/bind/reservation.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { WatchEvent } from "../../src/ports/kubeApi.ts";
import { ScheduleCluster } from "../schedule/scheduleCluster.ts";
import { BindCluster } from "./bindCluster.ts";
import { InterceptedApi } from "./interceptedApi.ts";

const half = { "gpu-fraction": "0.5" };
const requests = "scheduling.run.ai/bindrequests";
const onNode = { selectedNode: "h100-0", selectedGPUGroups: ["X"] };

async function share(cluster: BindCluster, name: string, spec: object = onNode, annotations = {}): Promise<Pod> {
  const pod = await cluster.pod(name, { ...half, ...annotations });
  await cluster.request(pod, spec as typeof onNode);
  return pod;
}

/** A reservation without users, as an earlier binder may have left it. */
async function orphan(cluster: BindCluster, group: string): Promise<Pod> {
  const pod = await cluster.reserve("h100-0", group);
  await cluster.run(1);
  return pod;
}

async function loseReservation(cluster: BindCluster): Promise<void> {
  const [reservation] = cluster.reservations();
  await cluster.api.delete("/pods", `kai-resource-reservation/${reservation?.metadata.name}`);
}

function running(cluster: BindCluster): string[] {
  return cluster
    .pods()
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => metadata.name);
}

describe("a binder whose cache has not observed the label of another pod", () => {
  /**
   * The first binder is current. The watch of the second one delivers no changes of users' pods after their creation.
   */
  async function two(cluster: BindCluster): Promise<InterceptedApi> {
    await cluster.startBinder();
    const way = new InterceptedApi();
    way.isLate = (plural: string, event: WatchEvent) =>
      plural === "pods" && event.type === "MODIFIED" && event.object.metadata.namespace === "default";
    cluster.through((kube) => way.of(kube));
    await cluster.startBinder();
    return way;
  }

  test("keeps the reservation at the start of the next bind, and both pods end on one GPU", async () => {
    const cluster = await BindCluster.create();
    const way = await two(cluster);
    await share(cluster, "a");
    await cluster.run(1);
    await share(cluster, "b");
    await cluster.run(5);
    expect(way.lateEvents).toBeGreaterThan(0);
    way.catchUp();
    await cluster.run(5);
    expect(running(cluster)).toEqual(["a", "b"]);
    expect(cluster.lost).toEqual([]);
    const [reservation] = cluster.reservations();
    const device = reservation && deviceOf(reservation);
    for (const { metadata } of cluster.pods()) {
      expect(JSON.parse(metadata.annotations?.["muster.dev/gpu-devices"] ?? "{}")).toEqual({ X: device });
    }
  });

  test("keeps it when a third BindRequest of the group is deleted", async () => {
    const cluster = await BindCluster.create();
    const third = await cluster.pod("third", half);
    await cluster.request(
      third,
      { ...onNode, podName: "third" },
      { "muster.dev/commit": "c", "muster.dev/commit-size": "9" },
    );
    const way = await two(cluster);
    await share(cluster, "a");
    await cluster.run(1);
    await cluster.api.delete(requests, "default/third");
    await cluster.run(5);
    expect(cluster.lost).toEqual([]);
    expect(way.lateEvents).toBeGreaterThan(0);
    way.catchUp();
    await cluster.run(3);
    expect([running(cluster), cluster.reservations().length, cluster.lost]).toEqual([["a"], 1, []]);
  });

  test("keeps it when another pod of the group ends", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    await share(cluster, "old");
    await cluster.run(3);
    const way = await two(cluster);
    await share(cluster, "a");
    await cluster.run(1);
    await cluster.api.delete("/pods", "default/old");
    await cluster.run(20);
    expect(cluster.lost).toEqual([]);
    expect(way.lateEvents).toBeGreaterThan(0);
    way.catchUp();
    await cluster.run(3);
    expect([running(cluster), cluster.reservations().length, cluster.lost]).toEqual([["a"], 1, []]);
  });

  test("makes no second reservation: the first one's name is taken", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    const way = new InterceptedApi();
    way.isLate = (plural, event) =>
      plural === "pods" && event.type === "ADDED" && event.object.metadata.namespace !== "default";
    cluster.through((kube) => way.of(kube));
    await cluster.startBinder();
    await share(cluster, "a");
    await share(cluster, "b");
    await cluster.run(3);
    expect(cluster.reservations()).toHaveLength(1);
    expect(way.lateEvents).toBeGreaterThan(0);
    way.catchUp();
    await cluster.run(3);
    expect([running(cluster), cluster.reservations().length, cluster.lost]).toEqual([["a", "b"], 1, []]);
  });
});

test("a group is read at one revision: a pod created between two lists is not in it", async () => {
  const cluster = await BindCluster.create();
  const pod = await cluster.pod("f", half);
  const way = new InterceptedApi();
  const kube = way.of(cluster.admin);
  let isFirst = true;
  way.before = ({ verb, plural }) => {
    if (!isFirst || verb !== "list" || plural !== "bindrequests") return undefined;
    isFirst = false;
    return cluster.request(pod, onNode).then(() => undefined);
  };
  const cancel = { cancelled: false, onCancel: () => () => undefined };
  const read = async () => {
    const view = await readGroup(kube, { group: "X", node: "h100-0" }, { atLeast: "1", cancel });
    return view.ok ? view.value.requests.map(({ metadata }) => metadata.name) : view.message;
  };
  expect([await read(), isFirst, await read()]).toEqual([[], false, ["f"]]);
});

describe("a reservation without users and requests", () => {
  test.each(["pods", "bindrequests"])("stays while the list of %s fails, and is deleted afterwards", async (plural) => {
    const cluster = await BindCluster.create();
    await orphan(cluster, "X");
    await cluster.startBinder();
    cluster.kube.faults = {
      before: (verb, what) => (verb === "list" && what === plural ? refused("Unavailable", "down") : undefined),
    };
    await share(cluster, "f");
    await cluster.run(2);
    await cluster.api.delete("/pods", "default/f");
    await cluster.run(20);
    expect(cluster.reservations()).toHaveLength(1);
    cluster.kube.faults = {};
    await cluster.run(10);
    expect(cluster.reservations()).toEqual([]);
  });

  test("stays while its delete fails, and the delete is retried until it succeeds", async () => {
    const cluster = await BindCluster.create();
    await orphan(cluster, "X");
    let refusals = 0;
    cluster.kube.faults = {
      before: (verb) => (verb === "delete" && ++refusals < 5 ? refused("Unavailable", "down") : undefined),
    };
    await cluster.startBinder();
    expect(cluster.reservations()).toHaveLength(1);
    await cluster.run(5);
    expect([refusals, cluster.reservations()]).toEqual([5, []]);
  });

  test("that is deleted already causes no error", async () => {
    const cluster = await BindCluster.create();
    await orphan(cluster, "X");
    cluster.kube.faults = { after: (verb) => (verb === "delete" ? refused("NotFound", "gone") : undefined) };
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.reservations()).toEqual([]);
    expect(cluster.log.errors).toEqual([]);
    expect(cluster.kube.calls.filter((call) => call.startsWith("delete pods"))).toHaveLength(1);
  });

  test("is deleted also while the one of another group on its node cannot be", async () => {
    const cluster = await BindCluster.create();
    const stuck = await orphan(cluster, "X");
    await orphan(cluster, "Z");
    cluster.kube.faults = {
      before: (verb, what) =>
        verb === "delete" && what.includes(stuck.metadata.name) ? refused("Unavailable", "down") : undefined,
    };
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.reservations().map(({ metadata }) => metadata.name)).toEqual([stuck.metadata.name]);
    const told = cluster.log.lines.filter(
      ({ fields }) => fields["group"] === "X" && fields["outcome"] === "Unavailable",
    );
    expect(told.length).toBeGreaterThan(0);
  });

  test("orphans that hold every GPU of a node are deleted at the start, and the GPUs are free", async () => {
    const cluster = await BindCluster.create();
    for (let i = 0; i < 8; i++) await orphan(cluster, `o${i}`);
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.reservations()).toEqual([]);
    const whole = { resources: { limits: { "nvidia.com/gpu": "8" } } };
    await cluster.pod("whole", {}, { nodeName: "h100-0", containers: [{ name: "c", image: "i", ...whole }] });
    await cluster.run(2);
    expect(running(cluster)).toEqual(["whole"]);
  });
});

describe("pods whose reservation was lost", () => {
  test("those that run are evicted where the node cannot pin, one that has no node stays", async () => {
    const cluster = await BindCluster.create();
    await cluster.label("h100-0", { "muster.dev/pins-devices": null });
    const binder = await cluster.startBinder();
    await share(cluster, "runs");
    await cluster.run(3);
    await binder.stop();
    await share(cluster, "waits");
    await loseReservation(cluster);
    await cluster.startBinder();
    await cluster.run(40);
    // The pending pod is bound again, with a new reservation and its device.
    expect(running(cluster)).toEqual(["waits"]);
    expect(cluster.reservations()).toHaveLength(1);
  });

  test("an eviction that is refused is tried again", async () => {
    const cluster = await BindCluster.create();
    await cluster.label("h100-0", { "muster.dev/pins-devices": null });
    await cluster.startBinder();
    await share(cluster, "f");
    await cluster.run(3);
    let refusals = 0;
    cluster.kube.faults = {
      before: (verb) => (verb === "evict" && ++refusals < 4 ? refused("TooManyRequests", "budget") : undefined),
    };
    await loseReservation(cluster);
    await cluster.run(60);
    expect(refusals).toBe(4);
    expect(cluster.pods()).toEqual([]);
  });

  test("get no new one on a node whose GPU is unhealthy by now", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    await share(cluster, "f");
    await cluster.run(3);
    const broken = Array.from({ length: 8 }, (_, device) => ({ kind: "gpu-unhealthy", device }));
    await cluster.admin.patch(
      { ...builtin.Node, namespace: "", name: "h100-0" },
      { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": JSON.stringify(broken) } } } },
    );
    await cluster.run(2);
    await loseReservation(cluster);
    await cluster.run(60);
    expect([cluster.pods(), cluster.reservations()]).toEqual([[], []]);
    const pod = await cluster.pod("g", half);
    await cluster.request(pod, { ...onNode, selectedGPUGroups: ["Z"] });
    await cluster.run(3);
    expect(cluster.requestOf("g")?.status?.reason).toContain("has no GPU left for GPU group Z");
  });

  test("according to the cache alone are not evicted", async () => {
    const cluster = await BindCluster.create();
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    await cluster.label("h100-0", { "muster.dev/pins-devices": null });
    await cluster.startBinder();
    await share(cluster, "f");
    await cluster.run(3);
    const [reservation] = cluster.reservations();
    const listsBefore = cluster.kube.calls.filter((call) => call === "list bindrequests").length;
    way.tell("pods", { type: "DELETED", object: reservation as KubeObject });
    await cluster.run(30);
    expect(cluster.kube.calls.filter((call) => call === "list bindrequests").length).toBeGreaterThan(listsBefore);
    expect(running(cluster)).toEqual(["f"]);
    expect(cluster.reservations()).toHaveLength(1);
    expect(cluster.kube.calls.filter((call) => call.startsWith("evict"))).toEqual([]);
  });
});

describe("a node that is deleted", () => {
  test("leaves nothing behind: its BindRequests, its pods and their reservations are deleted", async () => {
    const cluster = await ScheduleCluster.create(["t4=2"]);
    const labels = { "kai.scheduler/queue": "default-queue" };
    for (let i = 0; i < 8; i++) await cluster.pod(`f${i}`, { annotations: half, labels });
    await cluster.run(5);
    const all = () => cluster.api.names("/pods").map((key) => cluster.api.get("/pods", key) as unknown as Pod);
    const onFirst = () => all().filter(({ spec }) => spec?.nodeName === "t4-0");
    expect(onFirst().length).toBeGreaterThan(0);
    await cluster.api.delete("/nodes", "t4-0");
    await cluster.run(120);
    expect(cluster.api.names("/nodes")).toEqual(["t4-1"]);
    expect(onFirst()).toEqual([]);
    const named = (key: string) =>
      (cluster.api.get(requests, key) as unknown as { spec: { selectedNode: string } }).spec;
    expect(cluster.api.names(requests).filter((key) => named(key).selectedNode === "t4-0")).toEqual([]);
    const groups = new Set(all().map(({ metadata }) => metadata.labels?.["runai-gpu-group"]));
    const reserved = all().filter(({ metadata }) => metadata.namespace === "kai-resource-reservation");
    expect(reserved.every(({ metadata }) => groups.has(metadata.labels?.["runai-gpu-group"]))).toBe(true);
  });
});

describe("a reservation", () => {
  test("of a pod on two GPUs stays through sweeps, on both GPUs, and is deleted with the pod", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    await share(
      cluster,
      "f",
      { selectedNode: "h100-0", selectedGPUGroups: ["X", "Y"] },
      { "gpu-fraction-num-devices": "2" },
    );
    await cluster.run(130);
    expect([running(cluster), cluster.reservations().length, cluster.lost]).toEqual([["f"], 2, []]);
    await cluster.api.delete("/pods", "default/f");
    await cluster.run(40);
    expect([cluster.pods(), cluster.reservations()]).toEqual([[], []]);
  });

  test("of one of a pod's two GPUs that is lost is created again on the same device, and the pod runs on", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    const two = { "gpu-fraction-num-devices": "2" };
    const pod = await share(cluster, "f", { ...onNode, selectedGPUGroups: ["X", "Y"] }, two);
    await cluster.run(5);
    const devices = cluster.reservations().map(deviceOf).sort();
    expect(devices).toHaveLength(2);
    await loseReservation(cluster);
    await cluster.run(20);
    expect(cluster.reservations().map(deviceOf).sort()).toEqual(devices);
    expect(cluster.pods().map(({ metadata, status }) => [metadata.uid, status?.phase])).toEqual([
      [pod.metadata.uid, "Running"],
    ]);
  });

  test("of a GPU that always has users does not keep every past holder", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    await share(cluster, "stays");
    for (let round = 0; round < 4; round++) {
      const names = Array.from({ length: 10 }, (_, at) => `p${round}-${at}`);
      for (const name of names) await share(cluster, name);
      await cluster.run(3);
      expect(running(cluster)).toHaveLength(11);
      for (const name of names) await cluster.api.delete("/pods", `default/${name}`, { gracePeriodSeconds: 0 });
      await cluster.run(3);
    }
    expect([running(cluster), cluster.lost]).toEqual([["stays"], []]);
    const [reservation] = cluster.reservations();
    const holders = reservation === undefined ? new Map() : holdersOf(reservation);
    expect(holders.size).toBeLessThan(12);
    expect([...holders.values()]).toContain("default/stays");
  });

  test("is deleted when its only pod is gone, and not before", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    await share(cluster, "f", onNode, { "sim.muster.dev/stop-delay": "10s" });
    await cluster.run(3);
    await cluster.api.delete("/pods", "default/f");
    await cluster.run(5);
    expect([cluster.pods().length, cluster.reservations().length]).toEqual([1, 1]);
    await cluster.run(20);
    expect([cluster.pods().length, cluster.reservations().length]).toEqual([0, 0]);
  });

  test("is not used by a bind whose BindRequest was deleted before its label landed", async () => {
    const cluster = await BindCluster.create();
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    let isFirst = true;
    way.before = ({ verb, plural, name }) => {
      if (!isFirst || verb !== "patch" || plural !== "pods" || name !== "f") return undefined;
      isFirst = false;
      return cluster.api
        .delete(requests, "default/f")
        .then(() => new Promise<void>((resolve) => void cluster.api.clock.after(3_000, resolve)));
    };
    await share(cluster, "f");
    await cluster.startBinder();
    await cluster.run(15);
    const [pod] = cluster.pods();
    expect(isFirst).toBe(false);
    expect([pod?.spec?.nodeName, pod?.metadata.labels?.["runai-gpu-group"]]).toEqual([undefined, undefined]);
    expect(cluster.reservations()).toEqual([]);
  });

  test("whose clean-up is slow does not block the cache", async () => {
    const cluster = await BindCluster.create();
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    const binder = await cluster.startBinder();
    for (let i = 0; i < 8; i++) await share(cluster, `f${i}`, { ...onNode, selectedGPUGroups: [`g${i}`] });
    await cluster.run(5);
    way.before = ({ verb }) =>
      verb === "list" ? new Promise<void>((resolve) => void cluster.api.clock.after(60_000, resolve)) : undefined;
    for (let i = 0; i < 8; i++) await cluster.api.delete("/pods", `default/f${i}`);
    await cluster.run(5);
    const seen = [...binder.cache(builtin.Pod).view().objects.keys()];
    expect(seen.filter((key) => key.startsWith("default/"))).toEqual([]);
    expect(cluster.reservations()).toHaveLength(8);
    way.before = () => undefined;
    await cluster.run(130);
    expect(cluster.reservations()).toEqual([]);
  });
});

describe("a reservation that a BindRequest keeps", () => {
  const skipped = "Skipping reservation pod deletion, active BindRequests exist";
  const said = (cluster: BindCluster) => cluster.log.lines.filter(({ message }) => message === skipped);

  /** A reservation without users, and a request for it that waits for its gang. */
  async function kept(): Promise<BindCluster> {
    const cluster = await BindCluster.create();
    await orphan(cluster, "X");
    const pod = await cluster.pod("f", half);
    await cluster.request(pod, onNode, { "muster.dev/commit": "c", "muster.dev/commit-size": "2" });
    await cluster.startBinder();
    await cluster.run(2);
    return cluster;
  }

  test("is logged with its group and the request, once, also when the decision needs only the cache", async () => {
    const cluster = await kept();
    expect(cluster.reservations()).toHaveLength(1);
    const fields = { gpuGroup: "X", bindRequest: "default/f", node: "h100-0" };
    expect(said(cluster)).toEqual([{ level: "info", message: skipped, fields }]);
    expect(cluster.kube.calls.filter((call) => call === "list bindrequests")).toHaveLength(0);
    await cluster.run(200);
    expect(said(cluster)).toHaveLength(1);
  });

  test("is logged again when it is another request", async () => {
    const cluster = await kept();
    const other = await cluster.pod("g", half);
    await cluster.request(other, onNode, { "muster.dev/commit": "d", "muster.dev/commit-size": "2" });
    await cluster.run(2);
    await cluster.api.delete(requests, "default/f");
    await cluster.run(5);
    expect(said(cluster).map(({ fields }) => fields["bindRequest"])).toEqual(["default/f", "default/g"]);
  });
});

test("pods whose device is not known are evicted rather than given a reservation that has no node", async () => {
  const cluster = await BindCluster.create();
  const { name } = await cluster.boundByOther("kai", half, "h100-0", "X").then(({ metadata }) => metadata);
  const object = newReservation({ node: "h100-0", group: "X", users: [], options: reservationDefaults });
  await cluster.api.create("/pods", object as never);
  await cluster.run(1);
  await cluster.startBinder();
  await cluster.run(40);
  expect(cluster.pods().map(({ metadata }) => metadata.name)).not.toContain(name);
  expect(cluster.eventReasons()).toContain("ReservationLost");
  expect(cluster.reservations()).toEqual([]);
});

test("a reservation without a node and without a request is deleted at once", async () => {
  const cluster = await BindCluster.create();
  const object = newReservation({ node: "h100-0", group: "X", users: [], options: reservationDefaults });
  await cluster.api.create("/pods", object as never);
  await cluster.startBinder();
  await cluster.run(0.5);
  expect(cluster.reservations()).toEqual([]);
});
