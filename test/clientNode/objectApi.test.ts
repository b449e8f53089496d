import {
  ApiextensionsV1Api,
  CustomObjectsApi,
  type KubernetesObject,
  KubernetesObjectApi,
  PatchStrategy,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sampleOf } from "../validObjects.ts";
import { refusalOf, type ServerForClients, serverForClients } from "./serverForClients.ts";

/* The client that knows no kinds and asks discovery where an object lives. */

let running: ServerForClients;
let objects: KubernetesObjectApi;

beforeAll(async () => {
  running = await serverForClients();
  objects = KubernetesObjectApi.makeApiClient(running.config);
});
afterAll(() => running.server.stop());

type Loose = KubernetesObject & { metadata: { name: string; namespace: string } } & Record<string, unknown>;

test.each([
  "configmaps",
  "deployments",
  "poddisruptionbudgets",
  "clusterroles",
  "resourceclaims",
  "leases",
  "workloads",
])("%s: found by discovery, then created, read, patched, replaced, listed and deleted", async (plural) => {
  const { object } = sampleOf(plural);
  const sent = object(`generic-${plural}`) as Loose;
  if (plural === "leases") delete sent["spec"];
  const header = { apiVersion: sent.apiVersion, kind: sent.kind, metadata: sent.metadata } as Loose;
  const created = await objects.create(sent);
  expect(created.metadata.name).toBe(sent.metadata.name);
  const read = (await objects.read(header)) as Loose;
  expect(read.metadata?.uid).toBe(created.metadata.uid);
  const patch = { ...header, metadata: { ...header.metadata, labels: { patched: "yes" } } };
  const patched = await objects.patch(patch, undefined, undefined, undefined, undefined, PatchStrategy.MergePatch);
  expect(patched.metadata.labels).toMatchObject({ patched: "yes" });
  await running.server.controllers.idle();
  const current = (await objects.read(header)) as Loose;
  const replaced = await objects.replace({
    ...current,
    metadata: { ...current.metadata, annotations: { by: "replace" } },
  });
  expect(replaced.metadata.annotations).toMatchObject({ by: "replace" });
  const list = await objects.list(
    String(sent.apiVersion),
    String(sent.kind),
    undefined,
    undefined,
    undefined,
    undefined,
    `metadata.name=${sent.metadata.name}`,
  );
  expect(list.items.map((item) => item.metadata?.uid)).toEqual([created.metadata.uid]);
  // Device kinds answer with the object, as upstream has it.
  const deleted = await objects.delete(header);
  expect(deleted.kind).toBe(plural === "resourceclaims" ? "ResourceClaim" : "Status");
  expect(await refusalOf(objects.read(header))).toMatchObject({ code: 404, reason: "NotFound" });
});

test("an unknown kind is not found by discovery, without a request for it", async () => {
  const unknown = { apiVersion: "v1", kind: "Nothing", metadata: { name: "x" } };
  await expect(objects.read(unknown)).rejects.toThrow("Unrecognized API version and kind");
});

test("server-side apply: created, owned, in conflict, forced, and given up", async () => {
  const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied", namespace: "default" } };
  const apply = (data: Record<string, string>, manager: string, force?: boolean) =>
    objects.patch(
      { ...config, data } as KubernetesObject,
      undefined,
      undefined,
      manager,
      force,
      PatchStrategy.ServerSideApply,
    ) as Promise<Loose>;
  const created = await apply({ a: "1", b: "1" }, "alice");
  expect(created["data"]).toEqual({ a: "1", b: "1" });
  expect(managersOf(created)).toEqual(["alice Apply"]);
  const same = await apply({ a: "1", b: "1" }, "alice");
  expect(same.metadata.resourceVersion).toBe(created.metadata.resourceVersion);
  const conflict = await refusalOf(apply({ a: "2" }, "bob"));
  expect(conflict).toMatchObject({ code: 409, reason: "Conflict" });
  expect(conflict.message).toContain('conflict with "alice": .data.a');
  const forced = await apply({ a: "2" }, "bob", true);
  expect(forced["data"]).toEqual({ a: "2", b: "1" });
  expect(managersOf(forced).sort()).toEqual(["alice Apply", "bob Apply"]);
  // A field that alice no longer applies, and that has no other manager, is removed.
  const given = await apply({}, "alice");
  expect(given["data"]).toEqual({ a: "2" });
  const unnamed = apply({ a: "3" }, "");
  expect(await refusalOf(unnamed)).toMatchObject({ code: 422, reason: "Invalid" });
});

test("a dry run answers as the real thing would and keeps nothing", async () => {
  const before = running.server.core.store.revision;
  const sent = sampleOf("configmaps").object("dry") as Loose;
  const answered = await objects.create(sent, undefined, "All");
  expect(answered.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
  expect(running.server.core.store.revision).toBe(before);
  expect(await refusalOf(objects.read(sent))).toMatchObject({ code: 404 });
});

test("a custom resource is served from the moment its definition is established", async () => {
  const definitions = running.config.makeApiClient(ApiextensionsV1Api);
  const custom = running.config.makeApiClient(CustomObjectsApi);
  const name = "widgets.example.com";
  await definitions.createCustomResourceDefinition({
    body: {
      metadata: { name },
      spec: {
        group: "example.com",
        scope: "Namespaced",
        names: { plural: "widgets", singular: "widget", kind: "Widget", shortNames: ["wd"] },
        versions: [
          {
            name: "v1",
            served: true,
            storage: true,
            subresources: { status: {} },
            schema: {
              openAPIV3Schema: {
                type: "object",
                properties: {
                  spec: {
                    type: "object",
                    properties: {
                      size: { type: "integer", minimum: 1, _default: 3 },
                      color: { type: "string", _enum: ["red", "blue"] },
                    },
                  },
                  status: { type: "object", properties: { ready: { type: "boolean" } } },
                },
              },
            },
          },
        ],
      },
    },
  });
  await running.server.controllers.idle();
  const definition = await definitions.readCustomResourceDefinition({ name });
  const established = definition.status?.conditions?.find(({ type }) => type === "Established");
  expect(established?.status).toBe("True");
  const at = { group: "example.com", version: "v1", namespace: "default", plural: "widgets" };
  const widget = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "w" }, spec: { color: "red" } };
  const created = (await custom.createNamespacedCustomObject({ ...at, body: widget })) as Loose;
  expect(created["spec"]).toEqual({ color: "red", size: 3 });
  expect(created.metadata.generation).toBe(1);
  const bad = { ...widget, metadata: { name: "bad" }, spec: { color: "green", size: 0 } };
  const refused = await refusalOf(custom.createNamespacedCustomObject({ ...at, body: bad }));
  expect(refused).toMatchObject({ code: 422, reason: "Invalid" });
  expect(refused.message).toContain("spec.color");
  expect(refused.message).toContain("spec.size");
  // The generic client finds it by discovery as well.
  const generic = KubernetesObjectApi.makeApiClient(running.config);
  const read = (await generic.read({ ...widget, metadata: { name: "w", namespace: "default" } })) as Loose;
  expect(read.metadata.uid).toBe(created.metadata.uid);
  const status = (await custom.replaceNamespacedCustomObjectStatus({
    ...at,
    name: "w",
    body: { ...read, status: { ready: true }, spec: { color: "blue" } },
  })) as Loose;
  expect(status["status"]).toEqual({ ready: true });
  expect(status["spec"]).toEqual({ color: "red", size: 3 });
  await custom.deleteNamespacedCustomObject({ ...at, name: "w" });
  await definitions.deleteCustomResourceDefinition({ name });
  await running.server.controllers.idle();
  expect(await refusalOf(custom.listNamespacedCustomObject(at))).toMatchObject({ code: 404 });
});

function managersOf(object: Loose): string[] {
  const { managedFields = [] } = object.metadata;
  return managedFields.map(({ manager, operation }) => `${manager} ${operation}`);
}
