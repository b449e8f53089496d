/** Attempts of a bind: retries, failures, restarts, and their clean-up. */
import { describe, expect, test } from "vitest";
import { deviceOf, devicesOf, holdersOf } from "../../src/decide/bind/reservation.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";
import { InterceptedApi } from "./interceptedApi.ts";

const half = { "gpu-fraction": "0.5" };
const onNode = { selectedNode: "h100-0", selectedGPUGroups: ["g"] };
const allocationTimeoutMs = 40_000;

function conditionOf(pod: Pod | undefined): string | undefined {
  const found = pod?.status?.conditions?.find(({ type }) => type === "PodBound");
  return found === undefined ? undefined : `${found.status} ${found.reason}`;
}

async function withPod(annotations: Record<string, string> = half) {
  const cluster = await BindCluster.create();
  const pod = await cluster.pod("f", annotations);
  return { cluster, pod };
}

/** Refuses the first calls of a kind. */
function failing(cluster: BindCluster, verb: string, what: string, times: number): () => number {
  let left = times;
  cluster.kube.faults = {
    before: (called, about) => {
      if (called !== verb || !about.includes(what) || left === 0) return undefined;
      left--;
      return refused("Invalid", "not today");
    },
  };
  return () => times - left;
}

describe("pods without GPU shares", () => {
  const whole = { selectedNode: "h100-0", receivedResourceType: "Regular" as const };

  test("get their allocation and their node in one write", async () => {
    const { cluster, pod } = await withPod({});
    await cluster.request(pod, whole);
    await cluster.startBinder();
    await cluster.run(2);
    const [bound] = cluster.pods();
    expect(bound?.spec?.nodeName).toBe("h100-0");
    expect(bound?.metadata.annotations).toMatchObject({ "received-resource-type": "Regular" });
    const writes = cluster.kube.calls.filter((call) => /^(patch|update|bind) pods f/.test(call));
    // The writes after the bind report it.
    expect(writes[0]).toBe("bind pods f");
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(conditionOf(bound)).toBe("True Bound");
  });

  test("of a gang are all bound before a status is written", async () => {
    const cluster = await BindCluster.create();
    await cluster.startBinder();
    // More than run at once.
    const count = 80;
    const set = { "muster.dev/commit": "c", "muster.dev/commit-size": String(count) };
    for (let at = 0; at < count; at++) await cluster.request(await cluster.pod(`f${at}`, {}), whole, set);
    await cluster.run(5);
    const kinds = cluster.kube.calls.filter((call) => /^bind pods|^update bindrequests/.test(call));
    expect(kinds.slice(0, count).filter((call) => !call.startsWith("bind"))).toEqual([]);
    expect(kinds).toHaveLength(2 * count);
  });
});

describe("an attempt", () => {
  test("for a node that does not exist fails with the reason", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, { ...onNode, selectedNode: "nowhere" });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: "there is no node nowhere" });
    expect(conditionOf(cluster.pods()[0])).toBe("False BindingError");
  });

  test("for a pod that does not exist fails with the reason", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, { ...onNode, podName: "other" });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: "there is no pod other" });
  });

  test("without a back-off limit is not retried, and counts nothing", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    const refusals = failing(cluster, "bind", "pods f", 9);
    await cluster.startBinder();
    await cluster.run(30);
    expect(refusals()).toBe(1);
    expect(cluster.requestOf("f")?.status).toEqual({ phase: "Failed", reason: "not today", failedAttempts: 0 });
  });

  test.each([
    { backoffLimit: 0, attempts: 1 },
    { backoffLimit: 1, attempts: 2 },
    { backoffLimit: 2, attempts: 3 },
  ])("with a limit of $backoffLimit there are $attempts attempts, and the last one is final", async (about) => {
    const { backoffLimit, attempts } = about;
    const { cluster, pod } = await withPod();
    await cluster.request(pod, { ...onNode, backoffLimit });
    const refusals = failing(cluster, "bind", "pods f", 9);
    await cluster.startBinder();
    await cluster.run(60);
    expect(refusals()).toBe(attempts);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", failedAttempts: attempts });
  });

  test("is retried up to the limit, with a growing back-off, and every retry is recorded", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, { ...onNode, backoffLimit: 3 });
    const refusals = failing(cluster, "bind", "pods f", 9);
    await cluster.startBinder();
    const seen: number[] = [];
    for (let tenth = 0; tenth < 200; tenth++) {
      await cluster.run(0.1);
      const attempts = cluster.requestOf("f")?.status?.failedAttempts ?? 0;
      if (attempts > (seen.length === 0 ? 0 : seen.length)) seen.push(tenth / 10);
    }
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", failedAttempts: 4 });
    expect(refusals()).toBe(4);
    const [first = 0, second = 0, third = 0] = seen;
    expect(second - first).toBeGreaterThanOrEqual(1);
    expect(second - first).toBeLessThan(1.5);
    expect(third - second).toBeGreaterThanOrEqual(2);
    expect(third - second).toBeLessThan(2.5);
  });

  test("for a pod that another scheduler binds elsewhere meanwhile reports that, and its reservation is deleted", async () => {
    const cluster = await BindCluster.create(["h100=2"]);
    const pod = await cluster.pod("f", half);
    await cluster.request(pod, onNode);
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    let isFirst = true;
    way.before = ({ verb, name }) => {
      if (!isFirst || verb !== "bind" || name !== "f") return undefined;
      isFirst = false;
      const ref = { ...builtin.Pod, namespace: "default", name: "f" };
      const elsewhere = { node: "h100-1", uid: pod.metadata.uid };
      return cluster.admin.bind(ref, elsewhere).then(() => undefined);
    };
    await cluster.startBinder();
    await cluster.run(10);
    expect(isFirst).toBe(false);
    expect(cluster.requestOf("f")?.status).toEqual({
      phase: "Succeeded",
      reason: "bound to h100-1 by another scheduler, not to h100-0",
    });
    expect(cluster.reservations().map(({ spec }) => spec?.nodeName)).not.toContain("h100-0");
  });

  test("that fails at the bind removes its labels and ConfigMaps, keeps other labels, and its reservation is deleted", async () => {
    const { cluster, pod } = await withPod();
    await cluster.admin.patch(
      { ...builtin.Pod, namespace: "default", name: "f" },
      { type: "merge", body: { metadata: { labels: { mine: "stays" } } } },
    );
    await cluster.request(pod, onNode);
    failing(cluster, "bind", "pods f", 9);
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.requestOf("f")?.status?.phase).toBe("Failed");
    expect(cluster.pods()[0]?.metadata.labels).toEqual({ mine: "stays" });
    const prefix = pod.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect([cluster.configMap(`${prefix}-0`), cluster.configMap(`${prefix}-0-evar`)]).toEqual([undefined, undefined]);
    expect(cluster.reservations()).toEqual([]);
  });

  test("reverts the rest when one removal is refused", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    cluster.kube.faults = {
      before: (verb, what) =>
        (verb === "bind" && what === "pods f") || (verb === "delete" && what.includes("shared-gpu"))
          ? refused("Forbidden", "no")
          : undefined,
    };
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.pods()[0]?.metadata.labels ?? {}).toEqual({});
    expect(cluster.reservations()).toEqual([]);
  });

  test("that fails once and then succeeds ends with one reservation, its device, and True after False", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, { ...onNode, backoffLimit: 3 });
    failing(cluster, "bind", "pods f", 1);
    await cluster.startBinder();
    await cluster.run(0.8);
    expect(conditionOf(cluster.pods()[0])).toBe("False BindingError");
    await cluster.run(5);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Succeeded", failedAttempts: 1 });
    expect(conditionOf(cluster.pods()[0])).toBe("True Bound");
    const [reservation] = cluster.reservations();
    const prefix = pod.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect(cluster.configMap(`${prefix}-0`)?.data?.["NVIDIA_VISIBLE_DEVICES"]).toBe(
      reservation && deviceOf(reservation),
    );
    expect(cluster.reservations()).toHaveLength(1);
  });

  test("that throws is recorded as failed, and the binder continues with others", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "bind" && what === "pods f") throw new Error("cannot read properties of undefined");
        return undefined;
      },
    };
    await cluster.startBinder();
    await cluster.run(3);
    const reason = "internal error: cannot read properties of undefined";
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason });
    const other = await cluster.pod("g", half);
    await cluster.request(other, onNode);
    await cluster.run(3);
    expect(cluster.phase("g")).toBe("Succeeded");
  });

  test("writes nothing to a pod that was created again under the name: no label, no ConfigMap, no condition", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    let isFirst = true;
    way.before = ({ verb, plural, name }) => {
      if (!isFirst || verb !== "patch" || plural !== "pods" || name !== "f") return undefined;
      isFirst = false;
      return cluster.api.delete("/pods", "default/f").then(async () => void (await cluster.pod("f", half)));
    };
    await cluster.startBinder();
    await cluster.run(20);
    expect(isFirst).toBe(false);
    const [anew] = cluster.pods();
    expect(anew?.metadata.uid).not.toBe(pod.metadata.uid);
    expect([anew?.spec?.nodeName, anew?.metadata.labels, conditionOf(anew)]).toEqual([undefined, undefined, undefined]);
    const prefix = anew?.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect(cluster.configMap(`${prefix}-0`)).toBeUndefined();
    expect(cluster.reservations()).toEqual([]);
  });

  test("of a BindRequest that was replaced leaves the new one's status alone", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    failing(cluster, "bind", "pods f", 1);
    let isFirst = true;
    way.before = ({ verb, plural, subresource }) => {
      if (!isFirst || verb !== "update" || plural !== "bindrequests" || subresource !== "status") return undefined;
      isFirst = false;
      return cluster.api
        .delete("scheduling.run.ai/bindrequests", "default/f")
        .then(() => cluster.request(pod, { ...onNode, backoffLimit: 7 }));
    };
    await cluster.startBinder();
    await cluster.run(5);
    expect(isFirst).toBe(false);
    expect(cluster.requestOf("f")?.spec?.backoffLimit).toBe(7);
    // The failure of the first one is not counted.
    expect(cluster.requestOf("f")?.status).toEqual({ phase: "Succeeded" });
  });

  test("whose pod is deleted in the middle leaves nothing", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    await cluster.startBinder();
    await cluster.run(0.1);
    expect(cluster.reservations()).toHaveLength(1);
    await cluster.api.delete("/pods", "default/f");
    await cluster.run(20);
    expect([cluster.pods(), cluster.reservations(), cluster.requestOf("f")]).toEqual([[], [], undefined]);
  });

  test("whose bind landed and whose answer was lost has succeeded", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    let lost = 0;
    cluster.kube.faults = {
      after: (verb, what) =>
        verb === "bind" && what === "pods f" && lost++ === 0 ? refused("Unknown", "timed out") : undefined,
    };
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(cluster.reservations()).toHaveLength(1);
    expect(cluster.lost).toEqual([]);
  });

  test("whose success could not be written is written again until it is", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    let refusals = 3;
    cluster.kube.faults = {
      before: (verb, what) =>
        verb === "update" && what.includes("bindrequests") && refusals-- > 0
          ? refused("Unavailable", "busy")
          : undefined,
    };
    await cluster.startBinder();
    await cluster.run(10);
    expect(cluster.phase("f")).toBe("Succeeded");
  });

  test.each([1, 2, 3, 4, 5, 6])(
    "a binder that crashes before its write number %i is continued by the next, with the same reservation",
    async (number) => {
      const { cluster, pod } = await withPod();
      await cluster.request(pod, onNode);
      let writes = 0;
      let dead = false;
      cluster.kube.faults = {
        before: (verb, what) => {
          if (["get", "list", "watch"].includes(verb) || what.startsWith("events")) return undefined;
          if (++writes === number) dead = true;
          return dead ? refused("Unavailable", "dead") : undefined;
        },
      };
      const first = await cluster.startBinder();
      await cluster.run(1);
      expect(dead).toBe(true);
      void first.stop();
      dead = false;
      writes = Number.NEGATIVE_INFINITY;
      await cluster.startBinder();
      await cluster.run(10);
      expect(cluster.phase("f")).toBe("Succeeded");
      expect(cluster.reservations().map((each) => [...holdersOf(each).keys()])).toEqual([[pod.metadata.uid]]);
      expect(cluster.lost).toEqual([]);
    },
  );
});

describe("a reservation", () => {
  test("whose device is not reported in time fails the bind and is deleted", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    const never = [{ kind: "reservation-never" }];
    await cluster.admin.patch(
      { ...builtin.Node, namespace: "", name: "h100-0" },
      { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": JSON.stringify(never) } } } },
    );
    await cluster.startBinder();
    await cluster.run(allocationTimeoutMs / 1000 + 5);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed" });
    expect(cluster.requestOf("f")?.status?.reason).toContain("within 40 s");
    expect(cluster.reservations()).toEqual([]);
  });

  test("that cannot be created fails the bind and leaves nothing", async () => {
    const { cluster, pod } = await withPod();
    await cluster.request(pod, onNode);
    failing(cluster, "create", "pods", 9);
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: "not today" });
    expect(cluster.reservations()).toEqual([]);
  });

  test("of a pod that shares three GPUs is deleted when the second one cannot be reserved", async () => {
    const { cluster, pod } = await withPod({ ...half, "gpu-fraction-num-devices": "3" });
    const whole = { resources: { limits: { "nvidia.com/gpu": "7" } } };
    await cluster.pod("taker", {}, { nodeName: "h100-0", containers: [{ name: "c", image: "i", ...whole }] });
    await cluster.run(1);
    await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["a", "b", "c"] });
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed" });
    expect(cluster.requestOf("f")?.status?.reason).toContain("no GPU left for GPU group b");
    expect(cluster.pods().find(({ metadata }) => metadata.name === "f")?.metadata.labels ?? {}).toEqual({});
    expect(cluster.reservations()).toEqual([]);
  });

  test("stays while one of its pods runs and is deleted when the last has ended", async () => {
    const cluster = await BindCluster.create();
    for (const [name, seconds] of [
      ["a", "10s"],
      ["b", "20s"],
    ] as const) {
      const pod = await cluster.pod(
        name,
        { ...half, "sim.muster.dev/run-duration": seconds },
        { restartPolicy: "Never" },
      );
      await cluster.request(pod, onNode);
    }
    await cluster.startBinder();
    await cluster.run(14);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Succeeded", "Running"]);
    expect(cluster.reservations()).toHaveLength(1);
    await cluster.run(15);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Succeeded", "Succeeded"]);
    expect(cluster.reservations()).toEqual([]);
  });

  test("of a pod on two GPUs is deleted with it, on both GPUs", async () => {
    const cluster = await BindCluster.create();
    const annotations = { ...half, "gpu-fraction-num-devices": "2", "sim.muster.dev/run-duration": "10s" };
    const pod = await cluster.pod("f", annotations, { restartPolicy: "Never" });
    await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["a", "b"] });
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.reservations()).toHaveLength(2);
    expect(cluster.pods()[0]?.metadata.labels).toMatchObject({ "runai-gpu-group/a": "a", "runai-gpu-group/b": "b" });
    const prefix = pod.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect(cluster.configMap(`${prefix}-0`)?.data?.["NVIDIA_VISIBLE_DEVICES"]?.split(",")).toHaveLength(2);
    await cluster.run(15);
    expect(cluster.pods()[0]?.status?.phase).toBe("Succeeded");
    expect(cluster.reservations()).toEqual([]);
  });

  describe("that a user deletes under a running pod", () => {
    const losing = async (cluster: BindCluster, pod: Pod) => {
      await cluster.request(pod, onNode);
      const binder = await cluster.startBinder();
      await cluster.run(5);
      const [reservation] = cluster.reservations();
      const remove = () => cluster.api.delete("/pods", `kai-resource-reservation/${reservation?.metadata.name}`);
      return { binder, remove, device: reservation && deviceOf(reservation) };
    };

    test("is created again on the same device where the node can pin it, and the pod runs on", async () => {
      const { cluster, pod } = await withPod();
      // A lower GPU is free by then: a reservation that does not pin the device gets another one.
      const other = await cluster.pod("other", half);
      await cluster.request(other, { selectedNode: "h100-0", selectedGPUGroups: ["before"] });
      await cluster.startBinder();
      await cluster.run(5);
      const { remove, device } = await losing(cluster, pod);
      await cluster.api.delete("/pods", "default/other");
      await cluster.run(20);
      await remove();
      await cluster.run(20);
      expect(cluster.pods().map(({ metadata, status }) => [metadata.uid, status?.phase])).toEqual([
        [pod.metadata.uid, "Running"],
      ]);
      expect(cluster.reservations().map(deviceOf)).toEqual([device]);
      expect(cluster.reservations().map((each) => [...holdersOf(each).keys()])).toEqual([[pod.metadata.uid]]);
      expect(cluster.eventReasons()).toContain("ReservationRestored");
    });

    test("that cannot be created again, as its namespace is deleted, is not reported as restored: the event has the cure", async () => {
      const { cluster, pod } = await withPod();
      await cluster.startBinder();
      await cluster.run(5);
      const { remove } = await losing(cluster, pod);
      cluster.kube.faults = {
        before: (verb, what) =>
          verb === "create" && what.startsWith("pods") ? refused("NotFound", 'namespaces "x" not found') : undefined,
      };
      await remove();
      await cluster.run(10);
      expect(cluster.eventReasons()).not.toContain("ReservationRestored");
      expect(cluster.eventReasons()).toContain("ReservationRefused");
      expect(cluster.metrics.value("muster_reservations_refused_total", { reason: "NotFound" })).toBeGreaterThan(0);
      const [warned] = cluster.log.lines.filter(({ message }) => message === "reservation").reverse();
      expect(warned).toMatchObject({ level: "warn", fields: { outcome: "NotFound" } });
      cluster.kube.faults = {};
      await cluster.run(60);
      expect(cluster.eventReasons()).toContain("ReservationRestored");
    });

    test("while another bind of its group begins, is created again on the device that its pods use, and the other pod joins", async () => {
      const { cluster, pod } = await withPod();
      // A lower GPU is free by then: a reservation that does not pin the device gets another one.
      const other = await cluster.pod("other", half);
      await cluster.request(other, { selectedNode: "h100-0", selectedGPUGroups: ["before"] });
      const { binder, remove, device } = await losing(cluster, pod);
      await cluster.api.delete("/pods", "default/other");
      await cluster.run(20);
      await binder.stop();
      const joining = await cluster.pod("g", half);
      await cluster.request(joining, onNode);
      await remove();
      await cluster.startBinder();
      await cluster.run(20);
      expect(cluster.pods().map(({ metadata, status }) => [metadata.uid, status?.phase])).toEqual([
        [pod.metadata.uid, "Running"],
        [joining.metadata.uid, "Running"],
      ]);
      expect(cluster.reservations().map(deviceOf)).toEqual([device]);
      expect(cluster.pods().map((each) => Object.values(devicesOf(each)))).toEqual([[device], [device]]);
    });

    describe("and whose device another pod has by then", () => {
      const taken = async () => {
        const { cluster, pod } = await withPod();
        const { binder, remove, device } = await losing(cluster, pod);
        await binder.stop();
        await remove();
        const whole = { resources: { limits: { "nvidia.com/gpu": "8" } } };
        await cluster.pod("taker", {}, { nodeName: "h100-0", containers: [{ name: "c", image: "i", ...whole }] });
        await cluster.run(1);
        const before = cluster.lost.length;
        await cluster.startBinder();
        await cluster.run(10);
        return { cluster, pod, device, tries: () => cluster.lost.length - before };
      };

      test("is requested again with back-off, and its pod is left alone for a while", async () => {
        const { cluster, tries } = await taken();
        expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Running", "Running"]);
        expect(tries()).toBeGreaterThan(1);
        await cluster.run(60);
        expect(cluster.pods().map(({ metadata }) => metadata.name)).toEqual(["taker"]);
        expect(tries()).toBeLessThan(30);
      });

      // A pod deleted by force keeps its device on its node for a moment after it is gone from the API.
      test("gets the device when the other pod releases it, and its pod runs on", async () => {
        const { cluster, pod, device } = await taken();
        await cluster.api.delete("/pods", "default/taker", { gracePeriodSeconds: 0 });
        await cluster.run(10);
        expect(cluster.pods().map(({ metadata, status }) => [metadata.uid, status?.phase])).toEqual([
          [pod.metadata.uid, "Running"],
        ]);
        expect(cluster.reservations().map(deviceOf)).toEqual([device]);
        expect(cluster.eventReasons()).not.toContain("ReservationLost");
      });
    });

    test("has its pod evicted, with the reason, where the node cannot pin", async () => {
      const { cluster, pod } = await withPod();
      await cluster.label("h100-0", { "muster.dev/pins-devices": null });
      const { remove } = await losing(cluster, pod);
      await remove();
      await cluster.run(40);
      expect(cluster.pods()).toEqual([]);
      expect(cluster.eventReasons()).toContain("ReservationLost");
    });

    test("has its pod evicted when another pod has the device by then, and is deleted", async () => {
      const { cluster, pod } = await withPod();
      const { binder, remove } = await losing(cluster, pod);
      await binder.stop();
      await remove();
      const whole = { resources: { limits: { "nvidia.com/gpu": "8" } } };
      await cluster.pod("taker", {}, { nodeName: "h100-0", containers: [{ name: "c", image: "i", ...whole }] });
      await cluster.run(1);
      await cluster.startBinder();
      await cluster.run(60);
      expect(cluster.pods().map(({ metadata, status }) => [metadata.name, status?.phase])).toEqual([
        ["taker", "Running"],
      ]);
      expect(cluster.reservations()).toEqual([]);
      expect(cluster.eventReasons()).toContain("ReservationLost");
    });
  });
});
