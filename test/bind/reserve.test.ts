/** Reserving a GPU when other clients are faster, slower or unavailable. */
import { describe, expect, test } from "vitest";
import { deviceOf, newReservation, reservationDefaults } from "../../src/decide/bind/reservation.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";
import { InterceptedApi } from "./interceptedApi.ts";

const pods = builtin.Pod;
const half = { "gpu-fraction": "0.5" };
const onNode = { selectedNode: "h100-0", selectedGPUGroups: ["X"] };

async function withRequest() {
  const cluster = await BindCluster.create();
  const pod = await cluster.pod("f", half);
  await cluster.request(pod, onNode);
  return { cluster, pod };
}

async function annotateNode(cluster: BindCluster, faults: object[]): Promise<void> {
  await cluster.admin.patch(
    { ...builtin.Node, namespace: "", name: "h100-0" },
    { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": JSON.stringify(faults) } } } },
  );
}

/** A pod that stands in for shares towards a cluster autoscaler. */
async function scalingPod(cluster: BindCluster, spec: object, metadata: object = {}): Promise<void> {
  await cluster.api.create("/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "kai-scale-adjust" },
  });
  await cluster.api.create("/pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "default-other", namespace: "kai-scale-adjust", ...metadata },
    spec: { containers: [{ name: "c", image: "i" }], ...spec },
  });
}

describe("a reservation", () => {
  test("is not created by a binder that cannot list reservations", async () => {
    const { cluster } = await withRequest();
    cluster.kube.faults = {
      before: (verb) => (verb === "list" ? refused("Unavailable", "down") : undefined),
      watch: () => refused("Unavailable", "down"),
    };
    const started = cluster.startBinder();
    await cluster.run(10);
    expect(cluster.reservations()).toEqual([]);
    cluster.kube.faults = {};
    await cluster.run(60);
    await started;
    expect(cluster.phase("f")).toBe("Succeeded");
  });

  test("that cannot be deleted after its time-out stays, fails the bind, and is deleted later", async () => {
    const { cluster } = await withRequest();
    await annotateNode(cluster, [{ kind: "reservation-never" }]);
    cluster.kube.faults = { before: (verb) => (verb === "delete" ? refused("Unavailable", "down") : undefined) };
    await cluster.startBinder();
    await cluster.run(45);
    expect(cluster.requestOf("f")?.status?.reason).toContain("within 40 s");
    expect(cluster.reservations()).toHaveLength(1);
    cluster.kube.faults = {};
    await cluster.run(10);
    expect(cluster.reservations()).toEqual([]);
  });

  test("is created though lists fail: scale-up is known from the cache", async () => {
    const { cluster } = await withRequest();
    await cluster.startBinder();
    const isAboutOne = (what: string): boolean => what.includes(" ");
    cluster.kube.faults = {
      before: (verb, what) => (verb === "list" && !isAboutOne(what) ? refused("Unavailable", "down") : undefined),
    };
    const other = await cluster.pod("g", half);
    await cluster.request(other, { ...onNode, selectedGPUGroups: ["Z"] });
    await cluster.run(5);
    expect(cluster.phase("g")).toBe("Succeeded");
  });

  test("whose create lands when its request has ended and another pod has the GPU gets no node, and is deleted", async () => {
    const { cluster, pod } = await withRequest();
    // The caller gives up waiting for the answer; the server executes the write later.
    cluster.kube.faults = {
      before: (verb, what) =>
        verb === "create" && what.startsWith("pods") ? refused("Unknown", "timed out") : undefined,
    };
    await cluster.startBinder();
    await cluster.run(1);
    await cluster.api.delete("scheduling.run.ai/bindrequests", "default/f");
    await cluster.run(1);
    const whole = { resources: { limits: { "nvidia.com/gpu": "8" } } };
    await cluster.pod("taker", {}, { nodeName: "h100-0", containers: [{ name: "c", image: "i", ...whole }] });
    await cluster.run(1);
    const late = newReservation({ node: "h100-0", group: "X", users: [pod], options: reservationDefaults });
    expect(await cluster.admin.create(pods, late)).toMatchObject({ ok: true });
    await cluster.run(5);
    expect(cluster.lost).toEqual([late.metadata.name]);
    expect(cluster.kube.calls.filter((call) => call.startsWith("bind"))).toEqual([]);
    expect(cluster.pods().map(({ metadata: { name }, status }) => [name, status?.phase])).toEqual([
      ["f", "Pending"],
      ["taker", "Running"],
    ]);
  });

  test.each(["bindrequests", "pods"])(
    "gets no node when the read of %s shows that it is no longer needed",
    async (plural) => {
      const { cluster } = await withRequest();
      let hasChanged = false;
      cluster.kube.faults = {
        hold: (verb, what) => {
          if (hasChanged || `${verb} ${what}` !== `list ${plural} f`) return undefined;
          hasChanged = true;
          const kind = plural === "pods" ? "/pods" : "scheduling.run.ai/bindrequests";
          return cluster.api.delete(kind, "default/f").then(() => undefined);
        },
      };
      await cluster.startBinder();
      await cluster.run(5);
      expect(hasChanged).toBe(true);
      expect(cluster.kube.calls.filter((call) => call.startsWith("bind"))).toEqual([]);
      expect(cluster.reservations()).toEqual([]);
    },
  );

  test("is created while a scale-up pod of an autoscaler has its node", async () => {
    const { cluster } = await withRequest();
    await scalingPod(cluster, { nodeName: "h100-0" });
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.phase("f")).toBe("Succeeded");
  });

  test("of a new group is not created while a scale-up pod has no node, and existing ones are joined", async () => {
    const { cluster } = await withRequest();
    await cluster.startBinder();
    await cluster.run(3);
    await scalingPod(cluster, {});
    const [joins, opens] = [await cluster.pod("joins", half), await cluster.pod("opens", half)];
    await cluster.request(joins, onNode);
    await cluster.request(opens, { ...onNode, selectedGPUGroups: ["Z"] });
    await cluster.run(3);
    expect(cluster.phase("joins")).toBe("Succeeded");
    expect(cluster.requestOf("opens")?.status?.reason).toBe("the cluster is being scaled up for GPU shares");
  });

  test("is created while a scale-up pod is stuck terminating", async () => {
    const { cluster } = await withRequest();
    await scalingPod(cluster, {}, { finalizers: ["example.com/stuck"] });
    await cluster.api.delete("/pods", "kai-scale-adjust/default-other");
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.phase("f")).toBe("Succeeded");
  });

  test("is waited for also when the watch ends, and nothing is discarded", async () => {
    const { cluster } = await withRequest();
    await annotateNode(cluster, [{ kind: "reservation-late", delay: "5s" }]);
    await cluster.startBinder();
    await cluster.run(1);
    cluster.kube.cut();
    await cluster.run(2);
    cluster.kube.cut(refused("Expired", "too old"));
    await cluster.run(20);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect([cluster.reservations().length, cluster.lost, cluster.log.errors]).toEqual([1, [], []]);
  });

  test("whose pod cannot be labelled is deleted when the bind has failed for good", async () => {
    const { cluster } = await withRequest();
    cluster.kube.faults = {
      before: (verb, what) => (verb === "patch" && what === "pods f" ? refused("Forbidden", "no labels") : undefined),
    };
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: "no labels" });
    // Its pod must be written before the hold ends: a label may still be in flight. The hold ends with the pod at the
    // latest.
    cluster.kube.faults = {};
    await cluster.run(10);
    expect(cluster.reservations()).toEqual([]);
  });

  test("that then cannot be deleted either stays, and is deleted when it can be", async () => {
    const { cluster } = await withRequest();
    let isDown = true;
    let isFirst = true;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "delete" && isDown) return refused("Unavailable", "down");
        if (verb !== "patch" || what !== "pods f" || !isFirst) return undefined;
        isFirst = false;
        return refused("Forbidden", "no labels");
      },
    };
    await cluster.startBinder();
    await cluster.run(5);
    expect(cluster.phase("f")).toBe("Failed");
    expect(cluster.reservations()).toHaveLength(1);
    isDown = false;
    await cluster.run(10);
    expect(cluster.reservations()).toEqual([]);
  });

  test("that is deleted while two binders wait for its device is created again, and the pod gets the new device", async () => {
    const { cluster } = await withRequest();
    await annotateNode(cluster, [{ kind: "reservation-late", delay: "5s" }]);
    await cluster.startBinder();
    await cluster.startBinder();
    await cluster.run(2);
    const [first] = cluster.reservations();
    await cluster.api.delete("/pods", `kai-resource-reservation/${first?.metadata.name}`);
    await cluster.run(20);
    const [second, ...others] = cluster.reservations();
    expect(others).toEqual([]);
    expect(second?.metadata.uid).not.toBe(first?.metadata.uid);
    expect(cluster.phase("f")).toBe("Succeeded");
    const told = JSON.parse(cluster.pods()[0]?.metadata.annotations?.["muster.dev/gpu-devices"] ?? "{}");
    expect(told).toEqual({ X: second && deviceOf(second) });
  });
});

describe("between a reservation and its bind", () => {
  /** Runs once, before the first call of this kind leaves. */
  async function interrupted(
    call: { verb: string; plural: string; isReservation?: boolean },
    act: () => Promise<unknown>,
  ) {
    const { cluster, pod } = await withRequest();
    const way = new InterceptedApi();
    let isFirst = true;
    way.before = ({ verb, plural, name }) => {
      const isMeant = verb === call.verb && plural === call.plural;
      if (!isFirst || !isMeant || (call.isReservation === true) !== name.startsWith("gpu-reservation"))
        return undefined;
      isFirst = false;
      return act.call(undefined).then(() => undefined);
    };
    cluster.through((kube) => way.of(kube));
    return { cluster, pod, wasMet: () => !isFirst };
  }

  test("a request that was ended meanwhile, the same object in another version, is not carried out", async () => {
    let end = async (): Promise<unknown> => undefined;
    const { cluster, wasMet } = await interrupted({ verb: "list", plural: "bindrequests" }, () => end());
    end = () =>
      cluster.admin.patch(
        {
          group: "scheduling.run.ai",
          version: "v1alpha2",
          plural: "bindrequests",
          namespace: "default",
          name: "f",
          subresource: "status",
        },
        { type: "merge", body: { status: { phase: "Failed", reason: "ended elsewhere" } } },
      );
    const placed: string[] = [];
    cluster.api.core.store.onEvent(({ current }) => {
      if (current.resource !== "/pods" || !current.name.startsWith("gpu-reservation")) return;
      const { spec } = current.object() as unknown as Pod;
      if (spec?.nodeName !== undefined) placed.push(spec.nodeName);
    });
    await cluster.startBinder();
    await cluster.run(10);
    expect(wasMet()).toBe(true);
    expect(placed).toEqual([]);
    expect(cluster.requestOf("f")?.status?.reason).toBe("ended elsewhere");
    expect(cluster.reservations()).toEqual([]);
  });

  test("a reservation that is deleted meanwhile is created again, and the attempt has not failed", async () => {
    let remove = async (): Promise<unknown> => undefined;
    const { cluster, wasMet } = await interrupted({ verb: "bind", plural: "pods", isReservation: true }, () =>
      remove(),
    );
    remove = async () => {
      const [reservation] = cluster.reservations();
      await cluster.api.delete("/pods", `kai-resource-reservation/${reservation?.metadata.name}`);
    };
    await cluster.startBinder();
    await cluster.run(10);
    expect(wasMet()).toBe(true);
    expect(cluster.requestOf("f")?.status).toEqual({ phase: "Succeeded" });
    expect(cluster.eventReasons()).not.toContain("BindingError");
    expect(cluster.reservations()).toHaveLength(1);
  });
});

test("a reservation that is being bound counts when the free GPUs of its node are recounted", async () => {
  const cluster = await BindCluster.create();
  const seven = { limits: { "nvidia.com/gpu": "7" }, requests: { "nvidia.com/gpu": "7" } };
  await cluster.pod("whole", {}, { nodeName: "h100-0", containers: [{ name: "main", image: "i", resources: seven }] });
  const [first, second] = [await cluster.pod("first", half), await cluster.pod("second", half)];
  cluster.kube.faults = {
    before: (verb, what) =>
      verb === "bind" && what.startsWith("pods gpu-reservation") ? refused("Unavailable", "down") : undefined,
  };
  await cluster.request(first, onNode);
  await cluster.startBinder();
  await cluster.run(2);
  expect(cluster.reservations().map(({ spec }) => spec?.nodeName)).toEqual([undefined]);
  await cluster.request(second, { ...onNode, selectedGPUGroups: ["Y"] });
  await cluster.run(2);
  expect(cluster.requestOf("second")?.status).toMatchObject({
    phase: "Failed",
    reason: "node h100-0 has no GPU left for GPU group Y: all are held by pods, reservations and claims",
  });
  expect(cluster.reservations()).toHaveLength(1);
});

test("a reservation has the image and time-out of the installation's settings", async () => {
  const { cluster } = await withRequest();
  await annotateNode(cluster, [{ kind: "reservation-never" }]);
  const runtimeClass = {
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name: "nvidia" },
    handler: "n",
  };
  await cluster.api.create("node.k8s.io/runtimeclasses", runtimeClass);
  await cluster.startBinder({
    settings: {
      image: "example/reservation:1",
      pullPolicy: "Always",
      allocationTimeoutMs: 3_000,
      serviceAccountName: "reserver",
      runtimeClassName: "nvidia",
      podResources: { requests: { cpu: "10m" }, limits: { memory: "64Mi" } },
      podSecurityContext: { runAsNonRoot: true },
      containerSecurityContext: { readOnlyRootFilesystem: true },
    },
  });
  await cluster.run(1);
  const [reservation] = cluster.reservations();
  expect(reservation?.spec).toMatchObject({
    serviceAccountName: "reserver",
    runtimeClassName: "nvidia",
    securityContext: { runAsNonRoot: true },
    containers: [
      {
        image: "example/reservation:1",
        imagePullPolicy: "Always",
        resources: {
          requests: { cpu: "10m", "nvidia.com/gpu": "1" },
          limits: { memory: "64Mi", "nvidia.com/gpu": "1" },
        },
        securityContext: { readOnlyRootFilesystem: true },
      },
    ],
  });
  await cluster.run(5);
  expect(cluster.requestOf("f")?.status?.reason).toBe(
    "node h100-0 did not report the device of GPU group X within 3 s",
  );
});

test("with CDI a container gets the names of CDI devices", async () => {
  const { cluster, pod } = await withRequest();
  await cluster.startBinder({ settings: { cdi: true } });
  await cluster.run(3);
  const map = cluster.configMap(`${pod.metadata.annotations?.["runai/shared-gpu-configmap"]}-0`);
  expect(map?.data?.["NVIDIA_VISIBLE_DEVICES"]).toMatch(/^k8s\.device-plugin\.nvidia\.com\/gpu=/);
});

describe("ConfigMaps", () => {
  const maps = builtin.ConfigMap;
  const nameIn = (annotations: Record<string, string> = {}) => `${annotations["runai/shared-gpu-configmap"]}-0`;
  const owner = (name: string, uid: string) => ({ apiVersion: "v1", kind: "Pod", name, uid });

  test.each([
    ["of another owner is replaced, and its data is removed", "another pod", undefined],
    ["of the pod itself is updated, and other keys stay", "itself", "stays"],
  ])("one %s", async (_, whose, extra) => {
    const { cluster, pod } = await withRequest();
    const name = nameIn(pod.metadata.annotations);
    const uid = whose === "itself" ? pod.metadata.uid : "11111111-2222-3333-4444-555555555555";
    await cluster.admin.create(maps, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: "default", ownerReferences: [owner(pod.metadata.name, uid)] },
      data: { GPU_PORTION: "0.99", "RUNAI-VISIBLE-DEVICES": "old", other: "stays" },
    } as never);
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.phase("f")).toBe("Succeeded");
    const device = cluster.reservations().map(deviceOf)[0];
    const map = cluster.configMap(name);
    expect(map?.metadata.ownerReferences?.map((each) => each.uid)).toEqual([pod.metadata.uid]);
    expect(map?.data).toMatchObject({ NVIDIA_VISIBLE_DEVICES: device, GPU_PORTION: "0.25" });
    expect(map?.data?.["other"]).toBe(extra);
    expect(map?.data?.["RUNAI-VISIBLE-DEVICES"]).toBe(whose === "itself" ? device : undefined);
  });

  test("one that is created at the same time is updated", async () => {
    const { cluster, pod } = await withRequest();
    const name = nameIn(pod.metadata.annotations);
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    let isFirst = true;
    way.before = ({ verb, plural }) => {
      if (!isFirst || verb !== "create" || plural !== "configmaps") return undefined;
      isFirst = false;
      const metadata = { name, namespace: "default", ownerReferences: [owner("f", pod.metadata.uid)] };
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { other: "stays" } };
      return cluster.admin.create(maps, object as never).then(() => undefined);
    };
    await cluster.startBinder();
    await cluster.run(3);
    expect(isFirst).toBe(false);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(cluster.configMap(name)?.data).toMatchObject({ other: "stays", GPU_PORTION: "0.25" });
  });

  test("whose deletion by a failed attempt lands late belong to the next attempt by then, and stay", async () => {
    const cluster = await BindCluster.create();
    const pod = await cluster.pod("f", half);
    await cluster.request(pod, { ...onNode, backoffLimit: 3 });
    const late: { name: string; uid: string; resourceVersion: string }[] = [];
    let refusals = 1;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "bind" && what === "pods f" && refusals-- > 0) return refused("Invalid", "not today");
        if (verb !== "delete" || !what.startsWith("configmaps") || late.length > 1) return undefined;
        const {
          name = "",
          uid = "",
          resourceVersion = "",
        } = cluster.configMap(what.split(" ")[1] ?? "")?.metadata ?? {};
        late.push({ name, uid, resourceVersion });
        return refused("Unknown", "timed out");
      },
    };
    await cluster.startBinder();
    await cluster.run(8);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Succeeded", failedAttempts: 1 });
    expect(late).toHaveLength(2);
    for (const { name, ...preconditions } of late) {
      const landed = await cluster.admin.delete({ ...maps, namespace: "default", name }, { preconditions });
      expect(landed).toMatchObject({ ok: false, reason: "Conflict" });
    }
  });

  test("of a pod that a later BindRequest bound are not overwritten by the bind before it", async () => {
    const { cluster, pod } = await withRequest();
    const way = new InterceptedApi();
    cluster.through((kube) => way.of(kube));
    let isHeldUp = false;
    let go = (): void => {};
    way.before = ({ verb, plural }) => {
      if (isHeldUp || verb !== "create" || plural !== "configmaps") return undefined;
      isHeldUp = true;
      return new Promise<void>((resolve) => {
        go = resolve;
      });
    };
    await cluster.startBinder();
    await cluster.run(2);
    expect(isHeldUp).toBe(true);
    // The first binder is about to write its ConfigMap. The scheduler decides again, and another binder completes the
    // bind.
    await cluster.api.delete("scheduling.run.ai/bindrequests", "default/f");
    const other = await cluster.pod("keeps-the-first-gpu", half);
    await cluster.request(other, onNode);
    await cluster.request(pod, { ...onNode, selectedGPUGroups: ["Y"] });
    cluster.through((kube) => kube);
    await cluster.startBinder();
    await cluster.run(10);
    expect(cluster.phase("f")).toBe("Succeeded");
    const told = JSON.parse(
      cluster.pods().find(({ metadata }) => metadata.name === "f")?.metadata.annotations?.["muster.dev/gpu-devices"] ??
        "{}",
    ) as Record<string, string>;
    const said = () => cluster.configMap(nameIn(pod.metadata.annotations))?.data?.["NVIDIA_VISIBLE_DEVICES"];
    expect(said()).toBe(told["Y"]);
    go();
    await cluster.run(10);
    expect(said()).toBe(told["Y"]);
    expect(cluster.lost).toEqual([]);
  });
});
