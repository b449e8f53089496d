import { describe, expect, test } from "vitest";
import { configMapNamed, namespaceNamed, podNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import type { KubeObject, OwnerReference } from "../../model/objects/object.ts";

const maps = "/configmaps";

function ownedBy(owner: KubeObject, more: Partial<OwnerReference> = {}): OwnerReference {
  const { apiVersion, kind, metadata } = owner;
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid, ...more };
}

async function family(api: TestApi, more: Partial<OwnerReference> = {}): Promise<KubeObject> {
  const owner = await api.create(maps, configMapNamed("default/owner"));
  for (const name of ["one", "two"]) {
    await api.create(maps, configMapNamed(`default/${name}`, { ownerReferences: [ownedBy(owner, more)] }));
  }
  await api.settle();
  return owner;
}

function left(api: TestApi): string[] {
  return api
    .names(maps)
    .filter((key) => key.startsWith("default/") && !key.endsWith("kube-root-ca.crt"))
    .map((key) => key.slice("default/".length));
}

describe("dependents of a deleted owner", () => {
  test("stay while it exists", async () => {
    const api = await TestApi.start();
    await family(api);
    expect(left(api)).toEqual(["one", "owner", "two"]);
  });

  test("follow it in the background", async () => {
    const api = await TestApi.start();
    await family(api);
    await api.delete(maps, "default/owner", { propagationPolicy: "Background" });
    expect(left(api)).toEqual(["one", "two"]);
    await api.settle();
    expect(left(api)).toEqual([]);
  });

  test("go before it in the foreground when they block it", async () => {
    const api = await TestApi.start();
    await family(api, { blockOwnerDeletion: true });
    await api.edit(maps, "default/one", ({ metadata }) => {
      metadata.finalizers = ["example.com/hold"];
    });
    await api.delete(maps, "default/owner", { propagationPolicy: "Foreground" });
    await api.settle();
    expect(left(api)).toEqual(["one", "owner"]);
    expect(api.get(maps, "default/owner")?.metadata.finalizers).toEqual(["foregroundDeletion"]);
    await api.edit(maps, "default/one", ({ metadata }) => {
      delete metadata.finalizers;
    });
    await api.settle();
    expect(left(api)).toEqual([]);
  });

  test("do not hold it in the foreground when they do not block it", async () => {
    const api = await TestApi.start();
    await family(api);
    await api.edit(maps, "default/one", ({ metadata }) => {
      metadata.finalizers = ["example.com/hold"];
    });
    await api.delete(maps, "default/owner", { propagationPolicy: "Foreground" });
    await api.settle();
    expect(left(api)).toEqual(["one"]);
    expect(api.get(maps, "default/one")?.metadata.deletionTimestamp).toBeDefined();
  });

  test("go through the generations in the foreground, youngest first", async () => {
    const api = await TestApi.start();
    const owner = await api.create(maps, configMapNamed("default/a"));
    const child = await api.create(
      maps,
      configMapNamed("default/b", { ownerReferences: [ownedBy(owner, { blockOwnerDeletion: true })] }),
    );
    await api.create(
      maps,
      configMapNamed("default/c", { ownerReferences: [ownedBy(child, { blockOwnerDeletion: true })] }),
    );
    const gone: string[] = [];
    api.core.store.onEvent(({ current }) => {
      if (current.deleted) gone.push(current.name);
    });
    await api.delete(maps, "default/a", { propagationPolicy: "Foreground" });
    await api.settle();
    expect(gone).toEqual(["c", "b", "a"]);
  });

  test("are orphaned: they forget it and stay", async () => {
    const api = await TestApi.start();
    await family(api);
    await api.delete(maps, "default/owner", { propagationPolicy: "Orphan" });
    await api.settle();
    expect(left(api)).toEqual(["one", "two"]);
    expect(api.get(maps, "default/one")?.metadata.ownerReferences).toBeUndefined();
  });

  test("with another owner that exists only lose the reference", async () => {
    const api = await TestApi.start();
    const [first, second] = [
      await api.create(maps, configMapNamed("default/first")),
      await api.create(maps, configMapNamed("default/second")),
    ];
    await api.create(maps, configMapNamed("default/child", { ownerReferences: [ownedBy(first), ownedBy(second)] }));
    await api.delete(maps, "default/first");
    await api.settle();
    expect(left(api)).toEqual(["child", "second"]);
    expect(api.get(maps, "default/child")?.metadata.ownerReferences?.map(({ name }) => name)).toEqual(["second"]);
  });

  test("of an owner that is made again under its name are collected all the same", async () => {
    const api = await TestApi.start();
    await family(api);
    await api.delete(maps, "default/owner");
    await api.create(maps, configMapNamed("default/owner"));
    await api.settle();
    expect(left(api)).toEqual(["owner"]);
  });
});

describe("an object is collected soon after it was made", () => {
  const cases: [string, object][] = [
    ["when its owner's UID is unknown", { apiVersion: "v1", kind: "ConfigMap", name: "nobody", uid: "0-0" }],
    ["when its owner has another UID", { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: "0-0" }],
  ];
  test.each(cases)("%s", async (_, owner) => {
    const api = await TestApi.start();
    await api.create(maps, configMapNamed("default/owner"));
    await api.create(maps, configMapNamed("default/child", { ownerReferences: [owner] }));
    expect(left(api)).toEqual(["child", "owner"]);
    await api.settle();
    expect(left(api)).toEqual(["owner"]);
  });
});

describe("an object is kept", () => {
  test("when its owner is of a kind that is not served", async () => {
    const api = await TestApi.start();
    const owner = { apiVersion: "example.com/v1", kind: "Widget", name: "w", uid: "0-0" };
    await api.create(maps, configMapNamed("default/child", { ownerReferences: [owner] }));
    await api.settle();
    expect(left(api)).toEqual(["child"]);
  });

  test("and an event reports it, when it is cluster-scoped and its owner is not", async () => {
    const api = await TestApi.start();
    const owner = await api.create(maps, configMapNamed("default/owner"));
    await api.create("/namespaces", namespaceNamed("child", { ownerReferences: [ownedBy(owner)] }));
    await api.delete(maps, "default/owner");
    await api.create("/namespaces", namespaceNamed("other", { ownerReferences: [{ ...ownedBy(owner), uid: "1-1" }] }));
    await api.settle();
    expect(api.get("/namespaces", "other")).toBeDefined();
    expect(reasons(api)).toContain("OwnerRefInvalidNamespace");
  });
});

test("an owner in another namespace is absent, and an event on the dependent reports it", async () => {
  const api = await TestApi.start();
  await api.create("/namespaces", namespaceNamed("far"));
  const owner = await api.create(maps, configMapNamed("far/owner"));
  await api.create(maps, configMapNamed("default/child", { ownerReferences: [ownedBy(owner)] }));
  await api.settle();
  expect(left(api)).toEqual([]);
  expect(api.get(maps, "far/owner")).toBeDefined();
  expect(reasons(api)).toEqual(["OwnerRefInvalidNamespace"]);
});

describe("objects that own each other", () => {
  async function ring(api: TestApi): Promise<void> {
    const a = await api.create(maps, configMapNamed("default/a"));
    const b = await api.create(
      maps,
      configMapNamed("default/b", { ownerReferences: [ownedBy(a, { blockOwnerDeletion: true })] }),
    );
    await api.edit(maps, "default/a", ({ metadata }) => {
      metadata.ownerReferences = [ownedBy(b, { blockOwnerDeletion: true })];
    });
    await api.settle();
    expect(left(api)).toEqual(["a", "b"]);
  }

  test.each(["Background", "Foreground"] as const)("go together (%s)", async (propagationPolicy) => {
    const api = await TestApi.start();
    await ring(api);
    await api.delete(maps, "default/a", { propagationPolicy });
    await api.settle();
    expect(left(api)).toEqual([]);
  });
});

test("the orphan finalizer of a dependent decides about its own dependents", async () => {
  const api = await TestApi.start();
  const owner = await api.create(maps, configMapNamed("default/owner"));
  const child = await api.create(
    maps,
    configMapNamed("default/child", { ownerReferences: [ownedBy(owner)], finalizers: ["orphan"] }),
  );
  await api.create(maps, configMapNamed("default/grandchild", { ownerReferences: [ownedBy(child)] }));
  await api.delete(maps, "default/owner");
  await api.settle();
  expect(left(api)).toEqual(["grandchild"]);
});

test("a cascade takes the objects of every kind", async () => {
  const api = await TestApi.start();
  const owner = await api.create(maps, configMapNamed("default/owner"));
  await api.create("/pods", podNamed("default/pod", { metadata: { ownerReferences: [ownedBy(owner)] } }));
  await api.delete(maps, "default/owner");
  await api.settle();
  expect(api.names("/pods")).toEqual([]);
});

test("a cascade is finished after a restart", async () => {
  const api = await TestApi.start({ controllers: "none" });
  const owner = await api.create(maps, configMapNamed("default/owner"));
  await api.create(maps, configMapNamed("default/one", { ownerReferences: [ownedBy(owner)] }));
  const waiting = await api.create(maps, configMapNamed("default/waiting"));
  await api.create(maps, configMapNamed("default/two", { ownerReferences: [ownedBy(waiting)] }));
  await api.delete(maps, "default/owner");
  await api.delete(maps, "default/waiting", { propagationPolicy: "Orphan" });
  await api.settle();
  expect(left(api)).toEqual(["one", "two", "waiting"]);
  const { startControllers } = await import("./controllers.ts");
  startControllers(api.core, { authority: "PEM" });
  await api.settle();
  expect(left(api)).toEqual(["two"]);
});

function reasons(api: TestApi): unknown[] {
  return [...api.core.store.collection("/events").all()].map((version) => version.object()["reason"]);
}
