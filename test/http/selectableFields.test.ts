import { afterEach, expect, test } from "vitest";
import { builtinResources, type ResourceType } from "../../src/apiserver/builtinResources.ts";
import type { Version } from "../../src/apiserver/storage/version.ts";
import { watchObjects } from "../../src/apiserver/verbs/getListWatch.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { samples } from "../validObjects.ts";

/** A change of an existing object that gives the field another value; through a subresource where one is named. */
interface Move {
  readonly subresource?: string;
  readonly change: (object: KubeObject) => void;
}

const set =
  (part: "spec" | "status", key: string, value: unknown) =>
  (object: KubeObject): void => {
    const whole = object as unknown as Record<string, object | undefined>;
    whole[part] = { ...whole[part], [key]: value };
  };

const status = (key: string, value: unknown): Move => ({ subresource: "status", change: set("status", key, value) });

/** How an object stops matching the selector. Fields without a row are immutable. */
const moves: Record<string, Record<string, Move>> = {
  "/nodes": { "spec.unschedulable": { change: set("spec", "unschedulable", true) } },
  "/pods": {
    "status.phase": status("phase", "Running"),
    "status.podIP": {
      subresource: "status",
      change: (pod) => {
        set("status", "podIP", "10.9.9.9")(pod);
        set("status", "podIPs", [{ ip: "10.9.9.9" }])(pod);
      },
    },
    "status.nominatedNodeName": status("nominatedNodeName", "n9"),
  },
  "/replicationcontrollers": { "status.replicas": status("replicas", 3) },
  "apps/replicasets": { "status.replicas": status("replicas", 3) },
  "/services": {
    "spec.type": {
      change: (service) => {
        set("spec", "type", "NodePort")(service);
        set("spec", "externalTrafficPolicy", "Cluster")(service);
      },
    },
  },
};

const fixed: Record<string, readonly string[]> = {
  "/events": builtinResources().flatMap((type) => (type.storageKey === "/events" ? type.selectableFields : [])),
  "/namespaces": ["status.phase"],
  "/pods": [
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.podIPs",
  ],
  "/secrets": ["type"],
  "/services": ["spec.clusterIP"],
  "batch/jobs": ["status.successful"],
  "certificates.k8s.io/certificatesigningrequests": ["spec.signerName"],
  "resource.k8s.io/resourceslices": ["spec.nodeName", "spec.driver", "spec.pool.name"],
};

let running: TestApi | undefined;
afterEach(() => {
  running?.api.controllers.stop();
  running = undefined;
});

/** Watches by a field selector from now on and records the events as `TYPE name`. */
async function watchBy(api: TestApi, type: ResourceType, fieldSelector: string): Promise<string[]> {
  const seen: string[] = [];
  const resource = api.core.registry.find(type.group, type.version, type.plural);
  if (resource === undefined) throw new Error(`${type.plural} is not served`);
  const target = { resource, namespace: "", name: "", subresource: "" };
  const options = { fieldSelector, allowBookmarks: false, resourceVersion: String(api.core.store.revision) };
  await watchObjects(api.core, target, options, {
    deliver: (event) => {
      if (event.type !== "BOOKMARK") seen.push(`${event.type} ${event.version.name}`);
    },
    closed: () => {},
  });
  return seen;
}

function fieldValue(api: TestApi, type: ResourceType, field: string, path: string): string {
  const { resource, namespace, name } = api.target(type.storageKey, path);
  const version = api.core.store.get(resource.type.storageKey, namespace, name) as Version;
  return version.side.fields[type.selectableFields.indexOf(field)] ?? "";
}

const rows = builtinResources().flatMap((type) =>
  type.selectableFields.map((field) => ({
    type,
    field,
    title: `${type.group}/${type.version} ${type.plural} ${field}`,
  })),
);

test.each(rows)("a watch by a selectable field delivers later writes: $title", async ({ type, field }) => {
  const move = moves[type.storageKey]?.[field];
  if (move === undefined) expect(fixed[type.storageKey]).toContain(field);
  running = await TestApi.start({ controllers: "none" });
  const api = running;
  const stored = api.target(type.storageKey, "x").resource.type;
  const sample = samples().find((each) => each.type.plural === stored.plural && each.type.version === stored.version);
  if (sample === undefined) throw new Error(`no sample of ${type.storageKey}`);
  const pathOf = (name: string): string => (type.namespaced ? `default/${name}` : name);
  const create = async (name: string): Promise<void> => {
    const object = sample.object(name) as KubeObject;
    if (type.namespaced) object.metadata.namespace = "default";
    if (type.plural === "pods" && field === "spec.nodeName") set("spec", "nodeName", "n1")(object);
    if (type.plural === "services" && field === "spec.clusterIP") set("spec", "clusterIP", "None")(object);
    await api.create(type.storageKey, object);
  };
  await create("first");
  const value = fieldValue(api, type, field, pathOf("first"));
  const inside = await watchBy(api, type, `${field}=${value}`);
  const outside = await watchBy(api, type, `${field}!=${value}`);

  await create("later");
  expect(inside).toEqual(["ADDED later"]);
  await api.edit(type.storageKey, pathOf("later"), ({ metadata }) => {
    metadata.labels = { app: "a", touched: "yes" };
  });
  expect(inside).toEqual(["ADDED later", "MODIFIED later"]);
  if (move !== undefined) {
    await api.edit(type.storageKey, pathOf("first"), move.change, move.subresource);
    expect(fieldValue(api, type, field, pathOf("first"))).not.toBe(value);
    expect(inside.slice(2)).toEqual(["DELETED first"]);
    expect(outside).toEqual(["ADDED first"]);
  }
  inside.length = 0;
  outside.length = 0;
  await api.delete(type.storageKey, pathOf("first"), { gracePeriodSeconds: 0, propagationPolicy: "Background" });
  await api.delete(type.storageKey, pathOf("later"), { gracePeriodSeconds: 0, propagationPolicy: "Background" });
  const gone = inside.filter((event) => event.startsWith("DELETED"));
  // A namespace stops matching by its phase, since its finalizer keeps it.
  expect(gone).toEqual(move === undefined ? ["DELETED first", "DELETED later"] : ["DELETED later"]);
  if (move !== undefined) expect(outside).toContain("DELETED first");
});

test("a watch of ResourceSlices by driver and node delivers only the slices of that driver on that node", async () => {
  running = await TestApi.start({ controllers: "none" });
  const api = running;
  const type = builtinResources().find(({ plural, version }) => plural === "resourceslices" && version === "v1");
  const seen = await watchBy(api, type as ResourceType, "spec.driver=d.example.com,spec.nodeName=n1");
  const slice = (name: string, nodeName: string, driver = "d.example.com"): object => ({
    metadata: { name },
    spec: {
      driver,
      nodeName,
      pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
      devices: [{ name: "g" }],
    },
  });
  await api.create("resource.k8s.io/resourceslices", slice("a", "n1"));
  await api.create("resource.k8s.io/resourceslices", slice("b", "n2"));
  await api.create("resource.k8s.io/resourceslices", slice("c", "n1", "other.example.com"));
  await api.edit("resource.k8s.io/resourceslices", "a", (object) => {
    set("spec", "devices", [{ name: "g" }, { name: "h" }])(object);
  });
  await api.delete("resource.k8s.io/resourceslices", "a");
  expect(seen).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
});

test("a watch of custom resources by a selectable spec.nodeName delivers objects that begin and stop matching", async () => {
  running = await TestApi.start();
  const api = running;
  const schema = {
    type: "object",
    properties: { spec: { type: "object", properties: { nodeName: { type: "string" } } } },
  };
  await api.create("apiextensions.k8s.io/customresourcedefinitions", {
    metadata: { name: "agents.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "agents", singular: "agent", kind: "Agent" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          selectableFields: [{ jsonPath: ".spec.nodeName" }],
        },
      ],
    },
  });
  await api.settle();
  const type = api.target("example.com/agents", "default/x").resource.type;
  const seen = await watchBy(api, type, "spec.nodeName=n1");
  const object = { apiVersion: "example.com/v1", kind: "Agent", metadata: { name: "x", namespace: "default" } };
  await api.create("example.com/agents", { ...object, spec: { nodeName: "n2" } });
  await api.edit("example.com/agents", "default/x", set("spec", "nodeName", "n1"));
  await api.edit("example.com/agents", "default/x", ({ metadata }) => {
    metadata.labels = { touched: "yes" };
  });
  await api.edit("example.com/agents", "default/x", set("spec", "nodeName", "n2"));
  await api.edit("example.com/agents", "default/x", set("spec", "nodeName", "n1"));
  await api.delete("example.com/agents", "default/x");
  expect(seen).toEqual(["ADDED x", "MODIFIED x", "DELETED x", "ADDED x", "DELETED x"]);
});
