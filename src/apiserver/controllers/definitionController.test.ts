import { describe, expect, test } from "vitest";
import { configMapNamed, refusal, TestApi } from "../../../testing/apiserver/testApi.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";

const definitions = "apiextensions.k8s.io/customresourcedefinitions";
const widgets = "example.com/widgets";

function widgetDefinition(
  fields: { kind?: string; plural?: string; schema?: object; versions?: object[] } = {},
): object {
  const { kind = "Widget", plural = "widgets" } = fields;
  const properties = { spec: { type: "object", properties: { size: { type: "integer", default: 3 } } } };
  const version = {
    name: "v1",
    served: true,
    storage: true,
    schema: { openAPIV3Schema: fields.schema ?? { type: "object", properties } },
  };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.example.com` },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { kind, plural },
      versions: fields.versions ?? [version],
    },
  };
}

function widget(path: string, metadata: object = {}): object {
  const [namespace, name] = path.split("/");
  return { apiVersion: "example.com/v1", kind: "Widget", metadata: { namespace, name, ...metadata }, spec: {} };
}

function conditionsOf(object: KubeObject | undefined): Record<string, string> {
  const { status } = object as CustomResourceDefinition;
  return Object.fromEntries((status?.conditions ?? []).map(({ type, status: value }) => [type, value]));
}

test("a definition is established, and served, in the revision in which it is written", async () => {
  const api = await TestApi.start();
  const crd = await api.create(definitions, widgetDefinition());
  expect(conditionsOf(crd)).toMatchObject({ NamesAccepted: "True", Established: "True" });
  const made = await api.create(widgets, widget("default/w"));
  expect(made["spec"]).toEqual({ size: 3 });
  expect(made.metadata.generation).toBe(1);
});

test("definitions that are in the store are served before the first request", async () => {
  const api = await TestApi.start({ controllers: "none" });
  await api.create(definitions, widgetDefinition());
  const { followDefinitions } = await import("../crd/followDefinitions.ts");
  const { Registry } = await import("../registry.ts");
  const registry = new Registry();
  followDefinitions({ ...api.core, registry });
  expect(registry.find("example.com", "v1", "widgets")?.type.kind).toBe("Widget");
});

test("a version that is not served cannot be found, even if it stores", async () => {
  const api = await TestApi.start();
  const schema = { openAPIV3Schema: { type: "object" } };
  const versions = [
    { name: "v1", served: false, storage: true, schema },
    { name: "v2", served: true, storage: false, schema },
  ];
  await api.create(definitions, widgetDefinition({ versions }));
  const { registry } = api.core;
  expect(registry.find("example.com", "v1", "widgets")).toBeUndefined();
  expect(registry.find("example.com", "v2", "widgets")?.type.storageVersion).toBe("example.com/v1");
  expect(registry.stored(widgets)?.apiVersion).toBe("example.com/v1");
});

describe("a definition that is deleted", () => {
  test("deletes its instances, then is no longer served", async () => {
    const api = await TestApi.start();
    await api.create(definitions, widgetDefinition());
    await api.create(widgets, widget("default/w"));
    await api.delete(definitions, "widgets.example.com");
    expect(conditionsOf(api.get(definitions, "widgets.example.com"))).toMatchObject({ Terminating: "True" });
    await api.settle();
    expect(api.get(definitions, "widgets.example.com")).toBeUndefined();
    expect(api.core.registry.find("example.com", "v1", "widgets")).toBeUndefined();
    expect(api.core.store.collection(widgets).size).toBe(0);
  });

  test("waits for instances that are held, and refuses new ones", async () => {
    const api = await TestApi.start();
    await api.create(definitions, widgetDefinition());
    await api.create(widgets, widget("default/w", { finalizers: ["example.com/hold"] }));
    await api.delete(definitions, "widgets.example.com");
    await api.settle();
    expect(api.get(widgets, "default/w")?.metadata.deletionTimestamp).toBeDefined();
    const answer = await refusal(api.create(widgets, widget("default/late")));
    expect(answer).toMatchObject({ code: 403 });
    expect(answer.message).toContain("create not allowed while custom resource definition is terminating");
    await api.edit(widgets, "default/w", ({ metadata }) => {
      delete metadata.finalizers;
    });
    await api.settle();
    expect(api.get(definitions, "widgets.example.com")).toBeUndefined();
  });

  test("lets the objects go that its instances owned", async () => {
    const api = await TestApi.start();
    await api.create(definitions, widgetDefinition());
    const owner = await api.create(widgets, widget("default/w"));
    const ownerReferences = [{ apiVersion: "example.com/v1", kind: "Widget", name: "w", uid: owner.metadata.uid }];
    await api.create("/configmaps", configMapNamed("default/child", { ownerReferences }));
    await api.delete(definitions, "widgets.example.com");
    await api.settle();
    expect(api.get("/configmaps", "default/child")).toBeUndefined();
  });
});

test("names that another definition has are refused until they are free", async () => {
  const api = await TestApi.start();
  await api.create(definitions, widgetDefinition());
  const second = await api.create(definitions, widgetDefinition({ plural: "gadgets" }));
  expect(conditionsOf(second)).toMatchObject({ NamesAccepted: "False", Established: "False" });
  expect(api.core.registry.find("example.com", "v1", "gadgets")).toBeUndefined();
  await api.delete(definitions, "widgets.example.com");
  await api.settle();
  expect(conditionsOf(api.get(definitions, "gadgets.example.com"))).toMatchObject({ Established: "True" });
  expect(api.core.registry.find("example.com", "v1", "gadgets")?.type.kind).toBe("Widget");
});

describe("watches of a custom resource", () => {
  async function watched(change: (crd: KubeObject) => void): Promise<boolean> {
    const api = await TestApi.start();
    await api.create(definitions, widgetDefinition());
    let isClosed = false;
    api.core.hub.watch({
      resource: widgets,
      filter: { namespace: "", matches: () => true },
      sinceRevision: api.core.store.revision,
      bookmarks: false,
      deliver: () => {},
      closed: () => {
        isClosed = true;
      },
    });
    await api.edit(definitions, "widgets.example.com", change);
    await api.settle();
    return isClosed;
  }

  test("end when its schema changes", async () => {
    const isClosed = await watched((crd) => {
      const { spec } = crd as CustomResourceDefinition;
      (spec.versions[0] as { schema: unknown }).schema = {
        openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      };
    });
    expect(isClosed).toBe(true);
  });

  test("go on when only its labels change", async () => {
    const isClosed = await watched(({ metadata }) => {
      metadata.labels = { team: "gpu" };
    });
    expect(isClosed).toBe(false);
  });
});

test("objects from before a default are read with it", async () => {
  const api = await TestApi.start();
  await api.create(
    definitions,
    widgetDefinition({ schema: { type: "object", properties: { spec: { type: "object" } } } }),
  );
  await api.create(widgets, widget("default/old"));
  await api.edit(definitions, "widgets.example.com", (crd) => {
    const { spec } = widgetDefinition() as { spec: { versions: unknown } };
    (crd["spec"] as { versions: unknown }).versions = spec.versions;
  });
  const resource = api.core.registry.find("example.com", "v1", "widgets");
  const stored = api.core.store.get(widgets, "default", "old");
  expect(resource?.fromStorage(stored!.object())["spec"]).toEqual({ size: 3 });
});
