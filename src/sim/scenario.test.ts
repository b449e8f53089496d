import { expect, test } from "vitest";
import type { Component } from "../control/runtime/component.ts";
import type { NewObject } from "../model/intent.ts";
import type { ConfigMap } from "../model/kubernetes.generated.ts";
import type { KubeObject, NewMeta, Unstored } from "../model/objects/object.ts";
import { builtin } from "../model/resources.generated.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import { runSeed, withTripwires } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

const widgets = { group: "example.com", version: "v1", plural: "widgets" };
const configMaps = builtin.ConfigMap;

const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Cluster",
    names: { plural: "widgets", kind: "Widget" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", properties: { size: { type: "integer" } } } },
      },
    ],
  },
};

const part: Component = {
  name: "widgets",
  about: "for this test",
  definitions: [definition],
  startObjects: [widget("first", 1)],
  hooks: [
    {
      name: "size.example.com",
      type: "validating",
      resource: widgets,
      operations: ["CREATE"],
      review: ({ object }) =>
        Number(object?.["size"]) > 0 ? { allowed: true } : { allowed: false, message: "a widget has a size" },
    },
  ],
  add: () => {},
};

function widget(name: string, size: number): NewObject {
  return { apiVersion: "example.com/v1", kind: "Widget", metadata: { name }, size };
}

async function played(run: (kube: KubeApi) => Promise<void>, more: Partial<Scenario>): Promise<void> {
  const scenario: Scenario = {
    name: "test",
    about: "one actor",
    actors: () => [{ name: "user", finite: true, run: ({ kube }) => run(kube) }],
    invariants: [],
    faultPhaseMs: 100,
    settleMs: 10_000,
    quietMs: 1_000,
    ...more,
  };
  const { violation } = await withTripwires(() => runSeed(scenario, 1, []));
  expect(violation).toBeUndefined();
}

test("a part's definitions are served, its start objects exist and its hooks are asked", async () => {
  const seen: unknown[] = [];
  const user = async (kube: KubeApi): Promise<void> => {
    const first = await kube.get({ ...widgets, namespace: "", name: "first" });
    const bad = await kube.create(widgets, widget("second", 0));
    seen.push(first.ok && first.value["size"], bad.ok ? "made" : bad.reason);
  };
  await played(user, { components: [part] });
  expect(seen).toEqual([1, "Forbidden"]);
});

test("the server's own loops remove what its owner left behind, in simulated time", async () => {
  const place = { ...configMaps, namespace: "default" };
  const map = (name: string, metadata: NewMeta = {}): Unstored<ConfigMap> =>
    ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: "default", ...metadata },
    }) as KubeObject;
  let left: unknown = "never asked";
  const user = async (kube: KubeApi): Promise<void> => {
    const owner = await kube.create(configMaps, map("owner"));
    if (!owner.ok) throw new Error(owner.message);
    const { name, uid } = owner.value.metadata;
    const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name, uid }];
    await kube.create(configMaps, map("child", { ownerReferences }));
    await kube.delete({ ...place, name: "owner" });
  };
  const namespaces = builtin.Namespace;
  await played(user, {
    serverLoops: true,
    setUp: async (kube) => {
      await kube.create(namespaces, {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: "default" },
      } as KubeObject);
    },
    invariants: [
      {
        id: "I17",
        fact: "for this test",
        begin: ({ store }) => ({
          atRest: () => {
            left = store.get("/configmaps", "default", "child");
            return undefined;
          },
        }),
      },
    ],
  });
  expect(left).toBeUndefined();
});
