/**
 * Claims on a bad network: answers that are lost, writes that land late, a watch that is behind. No device is allocated
 * twice, and no pod waits for ever.
 */

import { expect, test } from "vitest";
import { claimKind } from "../../src/decide/devices/claimTracker.ts";
import type { ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { DevicesCluster } from "./devicesCluster.ts";

const protection = "resource.kubernetes.io/delete-protection";

test("a device whose allocation may still land is not allocated again", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("a");
  await cluster.claim("b");
  // The finalizer gets through; the allocation's outcome is unknown, and reads fail.
  let updates = 0;
  let looks = 0;
  cluster.kube.faults.before = (verb, what) => {
    if (what !== "resourceclaims a" || (verb === "update" && ++updates === 1)) return undefined;
    if (verb === "get" && ++looks === 1) return undefined;
    return refused("Unknown", "no answer");
  };
  await cluster.pod("a", { claim: "a" });
  await cluster.run(3);
  expect(updates).toBeGreaterThan(1);
  expect(cluster.given()).toEqual([]);
  await cluster.pod("b", { claim: "b" });
  await cluster.run(3);
  expect(cluster.phases()).toEqual(["a waits", "b Running"]);
  expect(cluster.given()).not.toContain("b h100-0/gpu-0");
  cluster.kube.faults = {};
  await cluster.run(60);
  expect(cluster.phases()).toEqual(["a Running", "b Running"]);
  expect(new Set(cluster.given().map((each) => each.split(" ")[1])).size).toBe(2);
});

test("a device that was chosen for a pod whose claim cannot be written goes to the next pod when that pod is deleted", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.template("one");
  for (let i = 0; i < 8; i++) await cluster.pod(`p${i}`, { template: "one" });
  await cluster.run(10);
  for (const name of ["x", "y"]) {
    await cluster.claim(name);
    await cluster.pod(name, { claim: name });
    await cluster.run(1);
  }
  await cluster.run(10);
  expect(cluster.phases().slice(-2)).toEqual(["x waits", "y waits"]);
  cluster.kube.faults.before = (verb, what) =>
    verb === "update" && what === "resourceclaims x" ? refused("Unavailable", "too busy") : undefined;
  // Both are enqueued; x is older, and its BindRequest keeps the device while y is tried.
  await cluster.api.delete("/pods", "default/p0");
  await cluster.run(60);
  expect(cluster.phases().slice(-2)).toEqual(["x waits", "y waits"]);
  await cluster.api.delete("/pods", "default/x");
  await cluster.run(10);
  expect(cluster.phases().slice(-1)).toEqual(["y Running"]);
});

test("an allocation of an earlier leader conflicts when it lands late", async () => {
  const predecessor = await DevicesCluster.start();
  await predecessor.claim("theirs");
  await predecessor.stop();
  await predecessor.api.edit("resource.k8s.io/resourceclaims", "default/theirs", (claim) => {
    claim.metadata.finalizers = [protection];
  });
  // As the earlier leader read it for its decision, before it crashed.
  const [seen] = predecessor.claims();
  const cluster = await DevicesCluster.on(predecessor.api);
  await cluster.claim("ours");
  await cluster.pod("a", { claim: "ours" });
  await cluster.run(5);
  expect(cluster.given()).toEqual(["ours h100-0/gpu-0"]);
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: "h100-0", device: "gpu-0" }];
  const late = { ...seen, status: { allocation: { devices: { results } } } } as ResourceClaim;
  const ref = { ...claimKind, namespace: "default", name: "theirs", subresource: "status" };
  expect(await cluster.kube.update(ref, late)).toMatchObject({ ok: false, reason: "Conflict" });
});

test("a new leader allocates nothing before its watch has shown earlier allocations", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("ours");
  await cluster.claim("theirs");
  await cluster.run(1);
  cluster.kube.faults.watch = () => refused("Unavailable", "too busy");
  cluster.kube.cut(undefined, "resourceclaims");
  const claims = "resource.k8s.io/resourceclaims";
  await cluster.api.edit(claims, "default/theirs", (claim) => {
    claim.metadata.finalizers = [protection];
  });
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: "h100-0", device: "gpu-0" }];
  const allocate = (claim: KubeObject) => Object.assign(claim, { status: { allocation: { devices: { results } } } });
  await cluster.api.edit(claims, "default/theirs", allocate, "status");
  await cluster.pod("a", { claim: "ours" });
  await cluster.run(5);
  expect(cluster.given()).toEqual(["theirs h100-0/gpu-0"]);
  cluster.kube.faults = {};
  await cluster.run(60);
  expect(cluster.given()).toEqual(["ours h100-0/gpu-1", "theirs h100-0/gpu-0"]);
});

test("a bind that lands late conflicts when its claim has been deallocated", async () => {
  const cluster = await DevicesCluster.start({ pools: ["h100=2"] });
  await cluster.claim("c");
  const send = cluster.kube.bind;
  let late: (() => ReturnType<typeof send>) | undefined;
  let landed: Awaited<ReturnType<typeof send>> | undefined;
  cluster.kube.bind = async (pod, node, options) => {
    late ??= () => send(pod, node, options);
    if (JSON.stringify(node).includes("h100-0")) return refused("Unknown", "no answer");
    landed ??= await late();
    return send(pod, node, options);
  };
  await cluster.pod("a", { claim: "c" });
  await cluster.run(2);
  expect(cluster.given()).toEqual(["c h100-0/gpu-0"]);
  await cluster.api.edit("/nodes", "h100-0", (node) => {
    (node as { spec?: object }).spec = { ...(node as { spec?: object }).spec, unschedulable: true };
  });
  // Only the end of the BindRequest shows that the bind was given up.
  await cluster.api.delete("scheduling.run.ai/bindrequests", "default/a");
  await cluster.run(60);
  expect(landed).toMatchObject({ ok: false, reason: "Conflict" });
  expect(cluster.look("a")?.spec?.nodeName).toBe("h100-1");
  expect(cluster.given()).toEqual(["c h100-1/gpu-0"]);
});

test("a pod that the watch has not shown yet keeps its claim", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(6);
  cluster.kube.faults.watch = () => refused("Unavailable", "too busy");
  cluster.kube.cut(undefined, "pods");
  await cluster.pod("b", { claim: "c" }, { nodeName: "h100-0" });
  const user = { resource: "pods", name: "b", uid: cluster.look("b")?.metadata.uid };
  await cluster.api.edit(
    "resource.k8s.io/resourceclaims",
    "default/c",
    (claim) => {
      const { status } = claim as { status?: { reservedFor?: object[] } };
      status?.reservedFor?.push(user);
    },
    "status",
  );
  await cluster.run(20);
  expect(cluster.claims()[0]?.status?.reservedFor).toContainEqual(user);
});

test("a pod keeps its device when the taint is removed while its eviction is in flight", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(5);
  const list: KubeApi["list"] = cluster.kube.list.bind(cluster.kube);
  let looks = 0;
  // The last read before the eviction: by the time of its answer the rule is deleted and the watch has delivered that.
  cluster.kube.list = async (ref, options) => {
    const found = await list(ref, options);
    if (ref.plural === "pods" && looks++ === 0) await cluster.api.delete("resource.k8s.io/devicetaintrules", "broken");
    return found;
  };
  await cluster.api.create("resource.k8s.io/devicetaintrules", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceTaintRule",
    metadata: { name: "broken" },
    spec: { deviceSelector: { driver: "gpu.nvidia.com" }, taint: { key: "broken", value: "yes", effect: "NoExecute" } },
  });
  await cluster.run(30);
  expect(looks).toBeGreaterThan(0);
  expect(cluster.phases()).toEqual(["a Running"]);
});
