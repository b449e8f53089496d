import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { configMapNamed, namespaceNamed, podNamed, refusal, TestApi } from "../../../../testing/apiserver/testApi.ts";
import type { ResourceQuota } from "../../../model/kubernetes.generated.ts";
import { formatQuantity } from "../../../model/values/quantity.ts";
import { createAdmission } from "../createAdmission.ts";
import { QuotaLedger, quotaLedgerOf } from "./quotaLedger.ts";

const quotas = "/resourcequotas";

async function limited(hard: Record<string, string>, more: object = {}): Promise<TestApi> {
  const api = await TestApi.start({ admission: createAdmission() });
  await api.create("/namespaces", namespaceNamed("team"));
  await api.create(quotas, {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: "q", namespace: "team" },
    spec: { hard, ...more },
  });
  await api.settle();
  return api;
}

function pod(name: string, resources: object = {}, spec: object = {}): object {
  const containers = [{ name: "main", image: "registry/app:1", resources }];
  return podNamed(`team/${name}`, { spec: { containers, ...spec } });
}

function statusOf(api: TestApi): ResourceQuota["status"] {
  return (api.get(quotas, "team/q") as ResourceQuota).status;
}

const gpus = (count: number): object => ({ limits: { "nvidia.com/gpu": String(count) } });

describe("a quota refuses what exceeds it:", () => {
  test("pods, with upstream's message", async () => {
    const api = await limited({ pods: "1" });
    await api.create("/pods", pod("a"));
    expect(await refusal(api.create("/pods", pod("b")))).toMatchObject({
      code: 403,
      reason: "Forbidden",
      message: 'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
    });
  });

  test("graphics cards", async () => {
    const api = await limited({ "requests.nvidia.com/gpu": "4" });
    await api.create("/pods", pod("a", gpus(3)));
    expect((await refusal(api.create("/pods", pod("b", gpus(2))))).message).toContain(
      "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4",
    );
    await api.create("/pods", pod("c", gpus(1)));
  });

  test("requests and limits, all that is over in one message", async () => {
    const api = await limited({ "requests.cpu": "1", "limits.memory": "1Gi", pods: "10" });
    const resources = { requests: { cpu: "2", memory: "1Gi" }, limits: { cpu: "2", memory: "2Gi" } };
    expect((await refusal(api.create("/pods", pod("a", resources)))).message).toContain(
      "requested: limits.memory=2Gi,requests.cpu=2, used: limits.memory=0,requests.cpu=0, limited: limits.memory=1Gi,requests.cpu=1",
    );
  });

  const others: [string, Record<string, string>, string, object][] = [
    ["configmaps by count", { "count/configmaps": "1" }, "/configmaps", configMapNamed("team/m")],
    [
      "load balancers",
      { "services.loadbalancers": "0" },
      "/services",
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "s", namespace: "team" },
        spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
      },
    ],
    [
      "storage of a class",
      { "fast.storageclass.storage.k8s.io/requests.storage": "1Gi" },
      "/persistentvolumeclaims",
      {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: { name: "c", namespace: "team" },
        spec: {
          accessModes: ["ReadWriteOnce"],
          storageClassName: "fast",
          resources: { requests: { storage: "2Gi" } },
        },
      },
    ],
    [
      "devices of a class",
      { "gpu.example.com.deviceclass.resource.k8s.io/devices": "1" },
      "resource.k8s.io/resourceclaims",
      {
        apiVersion: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        metadata: { name: "c", namespace: "team" },
        spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu.example.com", count: 2 } }] } },
      },
    ],
  ];
  test.each(others)("%s", async (_, hard, resource, object) => {
    const api = await limited(hard);
    expect(await refusal(api.create(resource, object))).toMatchObject({ code: 403 });
  });

  test("pods that do not specify a limited resource", async () => {
    const api = await limited({ "limits.cpu": "4", "requests.memory": "1Gi" });
    expect((await refusal(api.create("/pods", pod("a")))).message).toContain(
      "failed quota: q: must specify limits.cpu for: main; requests.memory for: main",
    );
  });

  test("also in a dry run, which uses nothing", async () => {
    const api = await limited({ pods: "1" });
    await api.create("/pods", pod("a"), api.call({ dryRun: true }));
    await api.create("/pods", pod("a"));
    expect(await refusal(api.create("/pods", pod("b"), api.call({ dryRun: true })))).toMatchObject({ code: 403 });
  });

  test("the second of two writes of one turn", async () => {
    const api = await limited({ pods: "1" });
    const outcomes = await Promise.allSettled([api.create("/pods", pod("a")), api.create("/pods", pod("b"))]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });
});

describe("a quota releases", () => {
  test("what was deleted", async () => {
    const api = await limited({ pods: "1" });
    await api.create("/pods", pod("a"));
    await api.delete("/pods", "team/a");
    await api.create("/pods", pod("b"));
  });

  test("what a pod held that has finished", async () => {
    const api = await limited({ pods: "1", "count/pods": "2" });
    await api.create("/pods", pod("a"));
    await api.edit(
      "/pods",
      "team/a",
      (object) => {
        (object["status"] as { phase: string }).phase = "Succeeded";
      },
      "status",
    );
    await api.create("/pods", pod("b"));
    await api.settle();
    expect(statusOf(api)?.used).toEqual({ pods: "1", "count/pods": "2" });
  });
});

test("a quota over what is there already refuses more, and lets what is there be changed", async () => {
  const api = await limited({ pods: "5" });
  await api.create("/pods", pod("a"));
  await api.edit(quotas, "team/q", (quota) => {
    (quota["spec"] as { hard: object }).hard = { pods: "0" };
  });
  await api.edit("/pods", "team/a", ({ metadata }) => {
    metadata.labels = { changed: "yes" };
  });
  expect(await refusal(api.create("/pods", pod("b")))).toMatchObject({ code: 403 });
});

test("a quota does not limit other namespaces", async () => {
  const api = await limited({ pods: "0" });
  await api.create("/pods", podNamed("default/p"));
});

describe("scopes choose the pods that count:", () => {
  const cases: [string, object, object, boolean][] = [
    ["BestEffort takes pods that ask for nothing", { scopes: ["BestEffort"] }, {}, true],
    ["BestEffort leaves the others", { scopes: ["BestEffort"] }, { requests: { cpu: "1" } }, false],
    ["NotBestEffort takes the others", { scopes: ["NotBestEffort"] }, { requests: { cpu: "1" } }, true],
    ["NotTerminating takes pods without a deadline", { scopes: ["NotTerminating"] }, {}, true],
    ["Terminating leaves them", { scopes: ["Terminating"] }, {}, false],
    [
      "a class of priority that the pod has not",
      { scopeSelector: { matchExpressions: [{ scopeName: "PriorityClass", operator: "In", values: ["high"] }] } },
      {},
      false,
    ],
  ];
  test.each(cases)("%s", async (_, scope, resources, counts) => {
    const api = await limited({ pods: "0" }, scope);
    const write = api.create("/pods", pod("a", resources));
    if (counts) expect(await refusal(write)).toMatchObject({ code: 403 });
    else await write;
  });
});

describe("the status of a quota", () => {
  test("shows what it limits and what is used, as objects come and go", async () => {
    const api = await limited({ pods: "5", "requests.nvidia.com/gpu": "8", "count/configmaps": "9" });
    expect(statusOf(api)).toEqual({
      hard: { pods: "5", "requests.nvidia.com/gpu": "8", "count/configmaps": "9" },
      used: { pods: "0", "requests.nvidia.com/gpu": "0", "count/configmaps": "1" },
    });
    await api.create("/pods", pod("a", gpus(2)));
    await api.settle();
    expect(statusOf(api)?.used).toMatchObject({ pods: "1", "requests.nvidia.com/gpu": "2" });
    await api.delete("/pods", "team/a");
    await api.settle();
    expect(statusOf(api)?.used).toMatchObject({ pods: "0", "requests.nvidia.com/gpu": "0" });
  });
});

test("however objects come, change and go, what is used is what a fresh count finds", async () => {
  const step = fc.record({
    name: fc.constantFrom("a", "b", "c"),
    act: fc.constantFrom("create", "delete", "finish", "compact"),
    cards: fc.integer({ min: 0, max: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const api = await limited({ pods: "2", "count/pods": "3", "requests.nvidia.com/gpu": "4" });
      const ledger = quotaLedgerOf(api.core);
      for (const { name, act, cards } of steps) {
        const exists = api.get("/pods", `team/${name}`) !== undefined;
        if (act === "create" && !exists) await api.create("/pods", pod(name, gpus(cards))).catch(() => {});
        else if (act === "delete" && exists) await api.delete("/pods", `team/${name}`);
        else if (act === "finish" && exists) {
          const finish = (object: Record<string, unknown>): void => {
            (object["status"] as { phase: string }).phase = "Failed";
          };
          await api.edit("/pods", `team/${name}`, finish, "status").catch(() => {});
        } else if (act === "compact") api.core.store.compact(api.core.store.revision);
        const usedBy = (from: QuotaLedger): object => {
          const [account] = from.accounts("team", "/pods");
          return Object.fromEntries([...account!.used].map(([key, amount]) => [key, formatQuantity(amount)]));
        };
        expect(usedBy(ledger)).toEqual(usedBy(new QuotaLedger(api.core.store)));
      }
    }),
    { numRuns: 15 },
  );
});
