import { expect, test } from "vitest";
import type { Json } from "../../src/model/objects/json.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Outcome } from "../../src/model/outcome.ts";
import type { Cancel } from "../../src/ports/cancel.ts";
import type { KubeApi, Patch } from "../../src/ports/kubeApi.ts";
import {
  at,
  type ContractCluster,
  configMap,
  configMaps,
  deployment,
  deployments,
  expectRefused,
  fresh,
  namespaces,
  nodes,
  pod,
  pods,
  value,
} from "./contractCluster.ts";
import { ownNamespace } from "./ownNamespace.ts";

export function objectFacts(cluster: () => ContractCluster): void {
  const own = ownNamespace("objects", cluster);
  const named = (name: string, subresource?: string) => at(configMaps, own(), name, subresource);
  const make = async (name: string, more: object = {}, metadata: object = {}): Promise<KubeObject> =>
    value(await cluster().api.create(configMaps, configMap(own(), name, more, metadata)));

  test("a created object is read back with a UID", async () => {
    const made = await make("a", { data: { key: "gr\u00fc\u00dfe \u{1f600}" } });
    expect(made.metadata.uid).not.toBe("");
    expect(made.metadata.resourceVersion).toMatch(/^[0-9]+$/);
    expect(value(await cluster().api.get(named("a")))).toEqual(made);
    expect(made).toMatchObject({ apiVersion: "v1", kind: "ConfigMap", data: { key: "gr\u00fc\u00dfe \u{1f600}" } });
  });

  test("generateName becomes a name", async () => {
    const object = fresh({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { namespace: own(), generateName: "made-" },
    });
    expect(value(await cluster().api.create(configMaps, object)).metadata.name).toMatch(/^made-.+/);
  });

  test("a second create of one name is AlreadyExists, and the first object stays", async () => {
    const first = await make("a", { data: { one: "1" } });
    expectRefused(await cluster().api.create(configMaps, configMap(own(), "a")), "AlreadyExists");
    expect(value(await cluster().api.get(named("a")))).toEqual(first);
  });

  test("objects without a namespace are created and read without one", async () => {
    const name = `node-of-${own()}`;
    const object = fresh({ apiVersion: "v1", kind: "Node", metadata: { name } });
    const made = value(await cluster().api.create(nodes, object));
    expect(value(await cluster().api.get(at(nodes, "", name)))).toEqual(made);
  });

  test.each<[string, (api: KubeApi, namespace: string) => Promise<Outcome<unknown>>]>([
    ["an object", (api, namespace) => api.get(at(configMaps, namespace, "none"))],
    ["a kind", (api, namespace) => api.get(at({ ...configMaps, plural: "nothings" }, namespace, "a"))],
    ["a group", (api, namespace) => api.get(at({ ...configMaps, group: "none.example.com" }, namespace, "a"))],
    ["a namespace", (api) => api.create(configMaps, configMap("no-such-namespace", "a"))],
    ["a subresource", (api, namespace) => api.get(at(configMaps, namespace, "a", "status"))],
    ["an object to update", (api, namespace) => api.update(at(pods, namespace, "none"), pod(namespace, "none"))],
    [
      "an object to patch",
      (api, namespace) => api.patch(at(pods, namespace, "none"), { type: "merge", body: { metadata: {} } }),
    ],
    ["an object to delete", (api, namespace) => api.delete(at(pods, namespace, "none"))],
    ["a kind to list", (api) => api.list({ ...configMaps, plural: "nothings" })],
  ])("%s that is not there is NotFound", async (_, call) => {
    expectRefused(await call(cluster().api, own()), "NotFound");
  });

  test.each<[string, (api: KubeApi, namespace: string) => Promise<Outcome<unknown>>]>([
    ["get", (api, namespace) => api.get(at(configMaps, namespace, ""))],
    ["update", (api, namespace) => api.update(at(configMaps, namespace, ""), configMap(namespace, "a"))],
    ["patch", (api, namespace) => api.patch(at(configMaps, namespace, ""), { type: "merge", body: {} })],
    ["delete", (api, namespace) => api.delete(at(configMaps, namespace, ""))],
    ["bind", (api, namespace) => api.bind(at(pods, namespace, ""), { node: "n", uid: "u" })],
    ["evict", (api, namespace) => api.evict(at(pods, namespace, ""))],
  ])("%s without a name is Invalid, and never means the whole collection", async (_, call) => {
    await make("kept");
    expectRefused(await call(cluster().api, own()), "Invalid");
    expect((await cluster().api.get(named("kept"))).ok).toBe(true);
  });

  test("an invalid object is Invalid, and the status names the field", async () => {
    const outcome = await cluster().api.create(configMaps, configMap(own(), "Not_A_Name"));
    expectRefused(outcome, "Invalid");
    if (!outcome.ok) expect(outcome.status?.details?.causes?.[0]?.field).toBe("metadata.name");
  });

  test("an update with the current revision takes effect and increases the revision", async () => {
    const made = await make("a", { data: { step: "1" } });
    const updated = value(await cluster().api.update(named("a"), { ...made, data: { step: "2" } }));
    expect(updated).toMatchObject({ data: { step: "2" }, metadata: { uid: made.metadata.uid } });
    expect(Number(updated.metadata.resourceVersion)).toBeGreaterThan(Number(made.metadata.resourceVersion));
  });

  test("an update with an old revision is a Conflict and changes nothing", async () => {
    const made = await make("a", { data: { step: "1" } });
    const second = value(await cluster().api.update(named("a"), { ...made, data: { step: "2" } }));
    expectRefused(await cluster().api.update(named("a"), { ...made, data: { step: "3" } }), "Conflict");
    expect(value(await cluster().api.get(named("a")))).toEqual(second);
  });

  test("an update of an object that was replaced by another of its name is a Conflict", async () => {
    const made = await make("a");
    value(await cluster().api.delete(named("a")));
    await make("a");
    const { resourceVersion: _, ...metadata } = made.metadata;
    expectRefused(await cluster().api.update(named("a"), fresh({ ...made, metadata })), "Conflict");
  });

  test("of many updates from one revision exactly one takes effect", async () => {
    const made = await make("a");
    const writers = Array.from({ length: 8 }, (_, writer) =>
      cluster().api.update(named("a"), { ...made, data: { writer: String(writer) } }),
    );
    const outcomes = await Promise.all(writers);
    expect(outcomes.filter((outcome) => outcome.ok)).toHaveLength(1);
    for (const outcome of outcomes) if (!outcome.ok) expect(outcome.reason).toBe("Conflict");
  });

  test("an update that changes nothing keeps the revision", async () => {
    const made = await make("a", { data: { key: "value" } });
    expect(value(await cluster().api.update(named("a"), made))).toEqual(made);
  });

  test("status is written through its subresource only, and the spec only through the object", async () => {
    const made = value(await cluster().api.create(deployments, deployment(own(), "a")));
    const both = { ...made, spec: { ...(made["spec"] as object), replicas: 7 }, status: { replicas: 3 } };
    const afterStatus = value(await cluster().api.update(at(deployments, own(), "a", "status"), both));
    expect(afterStatus).toMatchObject({ spec: { replicas: 2 }, status: { replicas: 3 } });
    const wiped = { ...afterStatus, spec: { ...(made["spec"] as object), replicas: 7 }, status: {} };
    const afterSpec = value(await cluster().api.update(at(deployments, own(), "a"), wiped));
    expect(afterSpec).toMatchObject({ spec: { replicas: 7 }, status: { replicas: 3 } });
  });

  test("replicas are read and written through the scale", async () => {
    value(await cluster().api.create(deployments, deployment(own(), "a")));
    const subresource = at(deployments, own(), "a", "scale");
    const scale = value(await cluster().api.get(subresource));
    expect(scale).toMatchObject({ kind: "Scale", spec: { replicas: 2 } });
    const replaced = value(await cluster().api.update(subresource, { ...scale, spec: { replicas: 5 } }));
    expect(replaced).toMatchObject({ kind: "Scale", spec: { replicas: 5 } });
    expectRefused(await cluster().api.update(subresource, { ...scale, spec: { replicas: 6 } }), "Conflict");
    value(await cluster().api.patch(subresource, { type: "merge", body: { spec: { replicas: 4 } } }));
    expect(value(await cluster().api.get(at(deployments, own(), "a")))).toMatchObject({ spec: { replicas: 4 } });
  });

  test.each<{ patch: Patch; keys: Json }>([
    { patch: { type: "merge", body: { data: { one: null, two: "2" } } }, keys: { kept: "k", two: "2" } },
    { patch: { type: "strategic", body: { data: { one: null, two: "2" } } }, keys: { kept: "k", two: "2" } },
    {
      patch: {
        type: "json",
        body: [
          { op: "remove", path: "/data/one" },
          { op: "add", path: "/data/two", value: "2" },
        ],
      },
      keys: { kept: "k", two: "2" },
    },
    {
      patch: { type: "apply", body: { apiVersion: "v1", kind: "ConfigMap", data: { two: "2" } } },
      keys: { kept: "k", one: "1", two: "2" },
    },
  ])("a $patch.type patch says what changes and nothing else", async ({ patch, keys }) => {
    await make("a", { data: { kept: "k", one: "1" } });
    expect(value(await cluster().api.patch(named("a"), patch))["data"]).toEqual(keys);
    expect(value(await cluster().api.get(named("a")))["data"]).toEqual(keys);
  });

  test("a strategic patch merges lists by their key, a merge patch replaces them", async () => {
    value(await cluster().api.create(deployments, deployment(own(), "a")));
    const sidecar = {
      spec: { template: { spec: { containers: [{ name: "sidecar", image: "example.com/side:1" }] } } },
    };
    const names = (object: KubeObject): string[] => {
      const { spec } = object as unknown as { spec: { template: { spec: { containers: { name: string }[] } } } };
      return spec.template.spec.containers.map((container) => container.name).sort();
    };
    const subresource = at(deployments, own(), "a");
    const merged = value(await cluster().api.patch(subresource, { type: "strategic", body: sidecar }));
    expect(names(merged)).toEqual(["main", "sidecar"]);
    const replaced = value(await cluster().api.patch(subresource, { type: "merge", body: sidecar }));
    expect(names(replaced)).toEqual(["sidecar"]);
  });

  test("a patch that names an old revision is a Conflict", async () => {
    const made = await make("a");
    value(await cluster().api.patch(named("a"), { type: "merge", body: { data: { step: "2" } } }));
    const body = { metadata: { resourceVersion: made.metadata.resourceVersion }, data: { step: "3" } };
    expectRefused(await cluster().api.patch(named("a"), { type: "merge", body }), "Conflict");
  });

  test("a JSON patch whose test fails is Invalid and changes nothing", async () => {
    const made = await make("a", { data: { key: "value" } });
    const body = [
      { op: "test", path: "/data/key", value: "other" },
      { op: "remove", path: "/data/key" },
    ];
    expectRefused(await cluster().api.patch(named("a"), { type: "json", body }), "Invalid");
    expect(value(await cluster().api.get(named("a")))).toEqual(made);
  });

  test("apply creates what is missing, owns what it says, and takes fields from others only by force", async () => {
    const wish = (key: string): Patch & { type: "apply" } => ({
      type: "apply",
      body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", namespace: own() }, data: { key } },
    });
    const { api } = cluster();
    value(await api.patch(named("a"), wish("one"), { fieldManager: "first" }));
    expectRefused(await api.patch(named("a"), wish("two"), { fieldManager: "second" }), "Conflict");
    value(await api.patch(named("a"), { ...wish("two"), force: true }, { fieldManager: "second" }));
    const found = value(await api.get(named("a")));
    expect(found["data"]).toEqual({ key: "two" });
    expect(found.metadata.managedFields?.map(({ manager }) => manager)).toContain("second");
  });

  test("writes have the field manager of the call, else that of the caller", async () => {
    const made = await make("a", { data: { key: "1" } });
    const [ownEntry] = made.metadata.managedFields ?? [];
    expect(ownEntry).toMatchObject({ manager: "contract", operation: "Update" });
    const next = { ...made, data: { key: "2" } };
    const updated = value(await cluster().api.update(named("a"), next, { fieldManager: "somebody" }));
    expect(updated.metadata.managedFields?.map(({ manager }) => manager)).toContain("somebody");
  });

  test("a delete of an object without finalizers answers with no object", async () => {
    await make("a");
    expect(value(await cluster().api.delete(named("a")))).toBeUndefined();
    expectRefused(await cluster().api.get(named("a")), "NotFound");
  });

  test("a delete of an object with a finalizer answers with the terminating object", async () => {
    await make("a", {}, { finalizers: ["example.com/hold"] });
    const marked = value(await cluster().api.delete(named("a")));
    expect(marked?.metadata.deletionTimestamp).toBeDefined();
    expect(value(await cluster().api.get(named("a"))).metadata.deletionTimestamp).toBeDefined();
    const free: Patch = { type: "merge", body: { metadata: { finalizers: null } } };
    value(await cluster().api.patch(named("a"), free));
    expectRefused(await cluster().api.get(named("a")), "NotFound");
  });

  test("a delete meant for another object of that name, or another revision of it, is a Conflict", async () => {
    const made = await make("a");
    const { uid, resourceVersion } = made.metadata;
    const other = "00000000-0000-4000-8000-000000000000";
    expectRefused(await cluster().api.delete(named("a"), { preconditions: { uid: other } }), "Conflict");
    expectRefused(await cluster().api.delete(named("a"), { preconditions: { uid, resourceVersion: "1" } }), "Conflict");
    expect((await cluster().api.get(named("a"))).ok).toBe(true);
    value(await cluster().api.delete(named("a"), { preconditions: { uid, resourceVersion } }));
    expectRefused(await cluster().api.get(named("a")), "NotFound");
  });

  test("a dry run answers as the write would, and nothing changes", async () => {
    const { api } = cluster();
    const dry = { dryRun: true };
    const made = await make("a", { data: { key: "1" } });
    const created = value(await api.create(configMaps, configMap(own(), "b", { data: { x: "y" } }), dry));
    expect(created).toMatchObject({ metadata: { name: "b" }, data: { x: "y" } });
    expect(value(await api.update(named("a"), { ...made, data: { key: "2" } }, dry))["data"]).toEqual({ key: "2" });
    const patch: Patch = { type: "merge", body: { data: { key: "3" } } };
    expect(value(await api.patch(named("a"), patch, dry))["data"]).toEqual({ key: "3" });
    expect(value(await api.delete(named("a"), dry))).toBeUndefined();
    expectRefused(await api.create(configMaps, configMap(own(), "a"), dry), "AlreadyExists");
    expectRefused(await api.get(named("b")), "NotFound");
    expect(value(await api.get(named("a")))).toEqual(made);
  });

  test("an object that is passed in is not changed", async () => {
    const labels: Record<string, string> = { team: "a" };
    const object = configMap(own(), "a", { data: { key: "1" } }, { labels });
    const before = JSON.stringify(object);
    value(await cluster().api.create(configMaps, object));
    expect(JSON.stringify(object)).toBe(before);
    labels["team"] = "b";
    (object["data"] as Record<string, string>)["key"] = "2";
    expect(value(await cluster().api.get(named("a")))).toMatchObject({
      metadata: { labels: { team: "a" } },
      data: { key: "1" },
    });
  });

  test("undefined fields are absent fields", async () => {
    const made = await make("a", { data: { key: "1" }, immutable: undefined }, { labels: undefined });
    expect("immutable" in made).toBe(false);
    expect("labels" in made.metadata).toBe(false);
    expect(value(await cluster().api.update(named("a"), { ...made, immutable: undefined }))).toEqual(made);
  });

  test("a call that was cancelled before it was sent is Unavailable, and did not happen", async () => {
    const cancel: Cancel = {
      cancelled: true,
      onCancel: (run) => {
        run();
        return () => {};
      },
    };
    expectRefused(await cluster().api.create(configMaps, configMap(own(), "a"), { cancel }), "Unavailable");
    expectRefused(await cluster().api.get(named("a"), { cancel }), "Unavailable");
    expectRefused(await cluster().api.get(named("a")), "NotFound");
  });

  test.each<[string, (api: KubeApi, namespace: string) => Promise<Outcome<unknown>>]>([
    ["get", (api, namespace) => api.get(at(configMaps, namespace, "a"))],
    ["list", (api) => api.list(configMaps)],
    ["create", (api, namespace) => api.create(configMaps, configMap(namespace, "b"))],
    ["update", (api, namespace) => api.update(at(configMaps, namespace, "a"), configMap(namespace, "a"))],
    ["patch", (api, namespace) => api.patch(at(configMaps, namespace, "a"), { type: "merge", body: {} })],
    ["delete", (api, namespace) => api.delete(at(configMaps, namespace, "a"))],
    ["bind", (api, namespace) => api.bind(at(pods, namespace, "a"), { node: "n", uid: "u" })],
    ["evict", (api, namespace) => api.evict(at(pods, namespace, "a"))],
    ["get of a namespace", (api, namespace) => api.get(at(namespaces, "", namespace))],
  ])("%s by a user without the right is Forbidden", async (_, call) => {
    await make("a");
    expectRefused(await call(cluster().stranger, own()), "Forbidden");
    expect((await cluster().api.get(named("a"))).ok).toBe(true);
  });
}
