import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";

/**
 * What a kubelet may do with its own credentials, and what a stolen kubelet credential may not: node n1 runs the pod
 * `mine`, node n2 runs the pod `theirs`, and each pod refers to objects of its own.
 */
let server: ApiServer;
const uids = { mine: "", theirs: "", n1: "" };

const tokens = [
  'root,root,root,"system:masters"',
  'n1,system:node:n1,n1,"system:nodes"',
  'n2,system:node:n2,n2,"system:nodes"',
  "impostor,system:node:n1,impostor,",
].join("\n");

interface Reply {
  code: number;
  body: { message?: string; reason?: string; metadata?: { uid: string }; items?: { metadata: { name: string } }[] };
}

async function call(user: string, method: string, path: string, body?: unknown, type = "application/json") {
  const headers = { authorization: `Bearer ${user}`, "content-type": type };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${server.url}${path}`, { method, headers, ...sent });
  return { code: response.status, body: await response.json() } as Reply;
}
const ns = "/api/v1/namespaces/default";
const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const slices = "/apis/resource.k8s.io/v1/resourceslices";
const merge = "application/merge-patch+json";

async function create(path: string, body: object): Promise<Reply> {
  const answer = await call("root", "POST", path, body);
  expect([path, answer.code, answer.body.message]).toEqual([path, 201, undefined]);
  return answer;
}

function podOf(name: string, nodeName: string): object {
  return {
    metadata: { name },
    spec: {
      nodeName,
      serviceAccountName: `${name}-account`,
      imagePullSecrets: [{ name: `${name}-pull` }],
      containers: [
        {
          name: "main",
          image: "app",
          env: [{ name: "A", valueFrom: { secretKeyRef: { name: `${name}-env`, key: "a" } } }],
          envFrom: [{ configMapRef: { name: `${name}-config` } }],
        },
      ],
      volumes: [
        { name: "s", secret: { secretName: `${name}-volume` } },
        { name: "c", persistentVolumeClaim: { claimName: `${name}-claim` } },
        {
          name: "t",
          projected: { sources: [{ serviceAccountToken: { path: "t" } }, { secret: { name: `${name}-projected` } }] },
        },
      ],
    },
  };
}

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile: tokens });
  for (const name of ["n1", "n2"]) {
    const made = await create("/api/v1/nodes", { metadata: { name } });
    if (name === "n1") uids.n1 = made.body.metadata?.uid ?? "";
    await create(leases, { metadata: { name }, spec: { holderIdentity: name } });
    const pool = { name, generation: 1, resourceSliceCount: 1 };
    await create(slices, {
      metadata: { name },
      spec: { driver: "gpu.example.com", nodeName: name, pool, devices: [] },
    });
  }
  for (const [name, node] of [
    ["mine", "n1"],
    ["theirs", "n2"],
  ] as const) {
    await create(`${ns}/serviceaccounts`, { metadata: { name: `${name}-account` } });
    for (const part of ["pull", "env", "volume", "projected", "stage"]) {
      await create(`${ns}/secrets`, { metadata: { name: `${name}-${part}` } });
    }
    await create(`${ns}/configmaps`, { metadata: { name: `${name}-config` } });
    const spec = {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1Gi" } },
      volumeName: `${name}-pv`,
    };
    await create(`${ns}/persistentvolumeclaims`, { metadata: { name: `${name}-claim` }, spec });
    const secretRef = { name: `${name}-stage`, namespace: "default" };
    await create("/api/v1/persistentvolumes", {
      metadata: { name: `${name}-pv` },
      spec: {
        capacity: { storage: "1Gi" },
        accessModes: ["ReadWriteOnce"],
        claimRef: { namespace: "default", name: `${name}-claim` },
        csi: {
          driver: "d.example.com",
          volumeHandle: "h",
          nodeStageSecretRef: secretRef,
          controllerPublishSecretRef: { name: "controller", namespace: "default" },
        },
      },
    });
    const pod = await create(`${ns}/pods`, podOf(name, node));
    uids[name] = pod.body.metadata?.uid ?? "";
  }
  await create(`${ns}/secrets`, { metadata: { name: "controller" } });
  await create(`${ns}/secrets`, { metadata: { name: "unused" } });
});
afterAll(() => server.stop());

describe("a node reads what its own pods refer to", () => {
  test.each([
    `${ns}/secrets/mine-pull`,
    `${ns}/secrets/mine-env`,
    `${ns}/secrets/mine-volume`,
    `${ns}/secrets/mine-projected`,
    `${ns}/secrets/mine-stage`,
    `${ns}/secrets?fieldSelector=metadata.name%3Dmine-env`,
    `${ns}/configmaps/mine-config`,
    `${ns}/persistentvolumeclaims/mine-claim`,
    "/api/v1/persistentvolumes/mine-pv",
    `${ns}/serviceaccounts/mine-account`,
    `${ns}/pods/mine`,
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",
    "/api/v1/nodes/n1",
    "/api/v1/nodes?fieldSelector=metadata.name%3Dn1",
    "/api/v1/services",
    "/apis/node.k8s.io/v1/runtimeclasses",
    `${leases}/n1`,
    `${slices}/n1`,
    `${slices}?fieldSelector=spec.nodeName%3Dn1`,
  ])("%s", async (path) => {
    expect((await call("n1", "GET", path)).code).toBe(200);
  });
});

describe("a node does not read what is not its own", () => {
  test.each([
    `${ns}/secrets/unused`,
    `${ns}/secrets/controller`,
    `${ns}/secrets/theirs-env`,
    `${ns}/secrets/theirs-stage`,
    `${ns}/secrets`,
    "/api/v1/secrets",
    `/api/v1/secrets?fieldSelector=metadata.name%3Dmine-env`,
    `/api/v1/namespaces/kube-system/secrets/mine-env`,
    `${ns}/secrets?fieldSelector=metadata.name%3Dtheirs-env`,
    `${ns}/configmaps/theirs-config`,
    "/api/v1/configmaps",
    `${ns}/persistentvolumeclaims/theirs-claim`,
    "/api/v1/persistentvolumes/theirs-pv",
    `${ns}/serviceaccounts/theirs-account`,
    `${ns}/pods/theirs`,
    "/api/v1/pods",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2",
    "/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1",
    "/api/v1/nodes/n2",
    "/api/v1/nodes",
    `${leases}/n2`,
    leases,
    `${slices}/n2`,
    slices,
  ])("%s", async (path) => {
    expect(await call("n1", "GET", path)).toMatchObject({ code: 403, body: { reason: "Forbidden" } });
  });

  test("the error names the missing relationship", async () => {
    const { body } = await call("n1", "GET", `${ns}/secrets/unused`);
    expect(body.message).toBe(
      `secrets "unused" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'n1' and this object`,
    );
  });

  test("the deletion of a pod revokes the right", async () => {
    await create(`${ns}/secrets`, { metadata: { name: "short-env" } });
    await create(`${ns}/serviceaccounts`, { metadata: { name: "short-account" } });
    await create(`${ns}/pods`, podOf("short", "n1"));
    expect((await call("n1", "GET", `${ns}/secrets/short-env`)).code).toBe(200);
    await call("root", "DELETE", `${ns}/pods/short`, { gracePeriodSeconds: 0 });
    expect((await call("n1", "GET", `${ns}/secrets/short-env`)).code).toBe(403);
  });

  test("a node's user name without the group system:nodes is no node", async () => {
    expect((await call("impostor", "GET", `${ns}/secrets/mine-env`)).code).toBe(403);
  });
});

describe("a node writes", () => {
  const condition = { conditions: [{ type: "Ready", status: "True" }] };

  test("its own Node and its status", async () => {
    expect((await call("n1", "PATCH", "/api/v1/nodes/n1/status", { status: condition }, merge)).code).toBe(200);
    const labels = { "kubernetes.io/hostname": "n1", "gpu.example.com/kind": "h100" };
    expect((await call("n1", "PATCH", "/api/v1/nodes/n1", { metadata: { labels } }, merge)).code).toBe(200);
  });

  test("the status of its own pods, its own lease and its own slices", async () => {
    expect((await call("n1", "PATCH", `${ns}/pods/mine/status`, { status: { phase: "Running" } }, merge)).code).toBe(
      200,
    );
    expect((await call("n1", "PATCH", `${leases}/n1`, { spec: { leaseDurationSeconds: 40 } }, merge)).code).toBe(200);
    const spec = {
      driver: "gpu.example.com",
      nodeName: "n1",
      pool: { name: "p", generation: 1, resourceSliceCount: 1 },
    };
    expect((await call("n1", "POST", slices, { metadata: { name: "own" }, spec: { ...spec, devices: [] } })).code).toBe(
      201,
    );
    expect((await call("n1", "DELETE", `${slices}/own`)).code).toBe(200);
  });

  test("a mirror pod that it owns, without references to API objects", async () => {
    const owner = { apiVersion: "v1", kind: "Node", name: "n1", uid: uids.n1, controller: true };
    const mirror = {
      metadata: { name: "static-n1", annotations: { "kubernetes.io/config.mirror": "x" }, ownerReferences: [owner] },
      spec: { nodeName: "n1", containers: [{ name: "main", image: "app" }] },
    };
    expect((await call("n1", "POST", `${ns}/pods`, mirror)).code).toBe(201);
    expect((await call("n1", "DELETE", `${ns}/pods/static-n1`, { gracePeriodSeconds: 0 })).code).toBe(200);
  });

  test("tokens of its own pods, bound to them", async () => {
    const boundObjectRef = { apiVersion: "v1", kind: "Pod", name: "mine", uid: uids.mine };
    const path = `${ns}/serviceaccounts/mine-account/token`;
    expect((await call("n1", "POST", path, { spec: { boundObjectRef } })).code).toBe(201);
  });

  test.each<[string, string, string, unknown, string?]>([
    ["another node", "PATCH", "/api/v1/nodes/n2", { metadata: { labels: { a: "b" } } }],
    ["the status of another node", "PATCH", "/api/v1/nodes/n2/status", { status: condition }],
    ["a taint of its own", "PATCH", "/api/v1/nodes/n1", { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } }],
    [
      "a label that only administrators set",
      "PATCH",
      "/api/v1/nodes/n1",
      { metadata: { labels: { "node-restriction.kubernetes.io/zone": "secure" } } },
    ],
    ["a role label", "PATCH", "/api/v1/nodes/n1", { metadata: { labels: { "node-role.kubernetes.io/master": "" } } }],
    ["the status of another node's pod", "PATCH", `${ns}/pods/theirs/status`, { status: { phase: "Failed" } }],
    ["labels through a pod's status", "PATCH", `${ns}/pods/mine/status`, { metadata: { labels: { app: "other" } } }],
    ["another node's lease", "PATCH", `${leases}/n2`, { spec: { leaseDurationSeconds: 1 } }],
    ["a pod's spec", "PATCH", `${ns}/pods/mine`, { metadata: { labels: { a: "b" } } }],
    ["a Secret of its own pod", "PATCH", `${ns}/secrets/mine-env`, { data: {} }],
    ["another node's slice", "PATCH", `${slices}/n2`, { metadata: { labels: { a: "b" } } }],
  ])("not %s", async (_, method, path, body) => {
    expect(await call("n1", method, path, body, merge)).toMatchObject({ code: 403, body: { reason: "Forbidden" } });
  });

  test.each<[string, string, string, () => unknown]>([
    ["a node under another name", "POST", "/api/v1/nodes", () => ({ metadata: { name: "n3" } })],
    ["a deletion of another node's pod", "DELETE", `${ns}/pods/theirs`, () => undefined],
    [
      "an eviction of another node's pod",
      "POST",
      `${ns}/pods/theirs/eviction`,
      () => ({ metadata: { name: "theirs" } }),
    ],
    ["a pod that would give it a Secret", "POST", `${ns}/pods`, () => podOf("greedy", "n1")],
    [
      "a mirror pod that would give it a Secret",
      "POST",
      `${ns}/pods`,
      () => {
        const pod = podOf("greedy", "n1") as { metadata: object; spec: object };
        const owner = { apiVersion: "v1", kind: "Node", name: "n1", uid: uids.n1, controller: true };
        const annotations = { "kubernetes.io/config.mirror": "x" };
        return { ...pod, metadata: { ...pod.metadata, annotations, ownerReferences: [owner] } };
      },
    ],
    ["a lease under another name", "POST", leases, () => ({ metadata: { name: "n3" } })],
    [
      "a slice for another node",
      "POST",
      slices,
      () => ({
        metadata: { name: "bad" },
        spec: { driver: "d", nodeName: "n2", pool: { name: "p", generation: 1, resourceSliceCount: 1 }, devices: [] },
      }),
    ],
    ["a token for another node's pod", "POST", `${ns}/serviceaccounts/theirs-account/token`, () => ({ spec: {} })],
    ["a token that no pod binds", "POST", `${ns}/serviceaccounts/mine-account/token`, () => ({ spec: {} })],
    [
      "a token of its own account bound to a pod elsewhere",
      "POST",
      `${ns}/serviceaccounts/mine-account/token`,
      () => ({ spec: { boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "theirs", uid: uids.theirs } } }),
    ],
    [
      "a token for an audience that its pod does not ask for",
      "POST",
      `${ns}/serviceaccounts/mine-account/token`,
      () => ({
        spec: {
          audiences: ["vault"],
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "mine", uid: uids.mine },
        },
      }),
    ],
    ["a Secret", "POST", `${ns}/secrets`, () => ({ metadata: { name: "new" } })],
    ["all slices away", "DELETE", slices, () => undefined],
  ])("not %s", async (_, method, path, body) => {
    expect(await call("n1", method, path, body())).toMatchObject({ code: 403, body: { reason: "Forbidden" } });
  });
});

test("access reviews answer as the requests do", async () => {
  const ask = async (resourceAttributes: object): Promise<unknown> => {
    const spec = { user: "system:node:n1", groups: ["system:nodes"], resourceAttributes };
    const answer = await call("root", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", { spec });
    return (answer.body as { status?: { allowed: boolean } }).status?.allowed;
  };
  const secret = { verb: "get", resource: "secrets", namespace: "default" };
  expect(await ask({ ...secret, name: "mine-env" })).toBe(true);
  expect(await ask({ ...secret, name: "theirs-env" })).toBe(false);
  const requirements = [{ key: "spec.nodeName", operator: "In", values: ["n1"] }];
  expect(await ask({ verb: "list", resource: "pods", fieldSelector: { requirements } })).toBe(true);
  expect(await ask({ verb: "list", resource: "pods" })).toBe(false);
});

test("a data folder of an earlier version loses the binding that gave every node every Secret", async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-"));
  const start = async (): Promise<void> => {
    await server.stop();
    const store = new FileStore({ directory });
    server = await startApiServer({
      clock: systemClock(),
      random: systemRandom(),
      tls: false,
      tokenFile: tokens,
      store,
    });
  };
  await start();
  const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:node";
  const subjects = [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "system:nodes" }];
  expect((await call("root", "PATCH", binding, { subjects }, merge)).code).toBe(200);
  await create(`${ns}/secrets`, { metadata: { name: "unused" } });
  expect((await call("n1", "GET", `${ns}/secrets/unused`)).code).toBe(200);
  await start();
  expect((await call("n1", "GET", `${ns}/secrets/unused`)).code).toBe(403);
  await rm(directory, { recursive: true });
});
