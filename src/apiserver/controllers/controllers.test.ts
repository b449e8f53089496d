import { describe, expect, test } from "vitest";
import { configMapNamed, podNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import type { Pod, PodDisruptionBudget } from "../../model/kubernetes.generated.ts";

const budgets = "policy/poddisruptionbudgets";

describe("events", () => {
  const event = (name: string): object => ({
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: "default" },
    involvedObject: { kind: "Pod", name: "p", namespace: "default" },
    reason: "Test",
    type: "Normal",
  });
  const minutes = 60_000;

  test("are deleted an hour after they were written", async () => {
    const api = await TestApi.start();
    await api.create("/events", event("old"));
    await api.clock.advance(30 * minutes);
    await api.create("/events", event("young"));
    await api.clock.advance(29 * minutes);
    expect(api.names("/events")).toEqual(["default/old", "default/young"]);
    await api.clock.advance(2 * minutes);
    expect(api.names("/events")).toEqual(["default/young"]);
    await api.clock.advance(30 * minutes);
    expect(api.names("/events")).toEqual([]);
  });

  test("live an hour longer when they are written again", async () => {
    const api = await TestApi.start();
    await api.create("/events", event("e"));
    await api.clock.advance(50 * minutes);
    await api.edit("/events", "default/e", (object) => {
      object["count"] = 2;
    });
    await api.clock.advance(30 * minutes);
    expect(api.names("/events")).toEqual(["default/e"]);
    await api.clock.advance(31 * minutes);
    expect(api.names("/events")).toEqual([]);
  });
});

describe("a disruption budget", () => {
  async function withPods(ready: number, unready: number): Promise<TestApi> {
    const api = await TestApi.start();
    await api.create(budgets, {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "b", namespace: "default" },
      spec: { minAvailable: 2, selector: { matchLabels: { app: "web" } } },
    });
    for (let at = 0; at < ready + unready; at++) {
      await api.create("/pods", podNamed(`default/p${at}`, { metadata: { labels: { app: "web" } } }));
      if (at < ready) await setReady(api, `default/p${at}`, "True");
    }
    await api.create("/pods", podNamed("default/other"));
    await api.settle();
    return api;
  }
  async function setReady(api: TestApi, path: string, status: string): Promise<void> {
    const change = (pod: Pod): void => {
      pod.status = { ...pod.status, phase: "Running", conditions: [{ type: "Ready", status }] };
    };
    await api.edit("/pods", path, change, "status");
  }
  function statusOf(api: TestApi): PodDisruptionBudget["status"] {
    return (api.get(budgets, "default/b") as PodDisruptionBudget).status;
  }

  test("counts the pods it selects", async () => {
    const api = await withPods(3, 1);
    expect(statusOf(api)).toMatchObject({
      currentHealthy: 3,
      desiredHealthy: 2,
      expectedPods: 4,
      disruptionsAllowed: 1,
      observedGeneration: 1,
    });
  });

  test("follows pods that become unready, change labels or go", async () => {
    const api = await withPods(5, 0);
    expect(statusOf(api)?.disruptionsAllowed).toBe(3);
    await setReady(api, "default/p0", "False");
    await api.edit("/pods", "default/p1", ({ metadata }) => {
      metadata.labels = { app: "else" };
    });
    await api.delete("/pods", "default/p2", { gracePeriodSeconds: 0 });
    await api.settle();
    expect(statusOf(api)).toMatchObject({ currentHealthy: 2, expectedPods: 3, disruptionsAllowed: 0 });
  });

  test("follows its own selector", async () => {
    const api = await withPods(3, 0);
    await api.edit(budgets, "default/b", (budget) => {
      (budget as PodDisruptionBudget).spec = { minAvailable: 1, selector: { matchLabels: { app: "none" } } };
    });
    await api.settle();
    expect(statusOf(api)).toMatchObject({ expectedPods: 0, disruptionsAllowed: 0, observedGeneration: 2 });
  });
});

test("a ClusterRole that gathers others follows them", async () => {
  const roles = "rbac.authorization.k8s.io/clusterroles";
  const api = await TestApi.start();
  const role = (name: string, more: object): object => ({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name, labels: { part: name } },
    ...more,
  });
  const rule = { apiGroups: [""], resources: ["pods"], verbs: ["get"] };
  const aggregationRule = { clusterRoleSelectors: [{ matchLabels: { part: "part" } }] };
  await api.create(roles, role("whole", { aggregationRule, rules: [] }));
  await api.create(roles, role("part", { rules: [rule] }));
  await api.settle();
  expect(api.get(roles, "whole")?.["rules"]).toEqual([rule]);
  await api.delete(roles, "part");
  await api.settle();
  expect(api.get(roles, "whole")?.["rules"] ?? []).toEqual([]);
});

describe("a claim that is deleted", () => {
  async function withUser(spec: object): Promise<TestApi> {
    const api = await TestApi.start();
    await api.create("/persistentvolumeclaims", {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "data", namespace: "default" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data" } }];
    await api.create("/pods", podNamed("default/user", { spec: { ...spec, volumes } }));
    await api.delete("/persistentvolumeclaims", "default/data");
    await api.settle();
    return api;
  }

  test("stays while a pod on a node uses it", async () => {
    const api = await withUser({ nodeName: "n1" });
    expect(api.names("/persistentvolumeclaims")).toEqual(["default/data"]);
    await api.delete("/pods", "default/user", { gracePeriodSeconds: 0 });
    await api.settle();
    expect(api.names("/persistentvolumeclaims")).toEqual([]);
  });

  test("is deleted when its pods have no node yet", async () => {
    const api = await withUser({});
    expect(api.names("/persistentvolumeclaims")).toEqual([]);
  });
});

test("controllers that were stopped do nothing more", async () => {
  const api = await TestApi.start();
  const owner = await api.create("/configmaps", configMapNamed("default/owner"));
  const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: owner.metadata.uid }];
  await api.create("/configmaps", configMapNamed("default/child", { ownerReferences }));
  api.api.controllers.stop();
  await api.delete("/configmaps", "default/owner");
  await api.settle();
  expect(api.get("/configmaps", "default/child")).toBeDefined();
  await api.api.controllers.idle();
});

test("two runs of one script write the same history", async () => {
  const run = async (): Promise<string[]> => {
    const api = await TestApi.start();
    const log: string[] = [];
    api.core.store.onEvent(({ current }) =>
      log.push(`${current.revision} ${current.resource} ${current.key} ${current.deleted}`),
    );
    await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "x" } });
    for (let at = 0; at < 20; at++) await api.create("/pods", podNamed(`default/p${at}`));
    await api.settle();
    await api.delete("/namespaces", "x");
    await api.settle();
    return log;
  };
  expect(await run()).toEqual(await run());
});
