import { describe, expect, test } from "vitest";
import { builtinResources } from "../builtinResources.ts";
import { hasSchema, schemaFor } from "./builtinSchemas.ts";
import { schemaBundle, schemaDescriptions } from "./schemaBundle.ts";
import type { ListNode, SchemaNode, StructNode } from "./schemaNode.ts";

function at(definition: string, ...path: string[]): SchemaNode {
  let node: SchemaNode = schemaFor(definition);
  for (const step of path) {
    if (node.kind === "list") node = node.items;
    if (node.kind === "map") node = node.values;
    if (node.kind !== "struct") throw new Error(`${step} below a ${node.kind}`);
    const field: SchemaNode | undefined = node.fields.get(step)?.schema;
    if (field === undefined) throw new Error(`no field ${step} in ${node.name}`);
    node = field;
  }
  return node;
}

const core = (kind: string) => `io.k8s.api.core.v1.${kind}`;

describe("the bundle of built-in schemas", () => {
  test("every kind of the resource table and of its subresources has a schema", () => {
    for (const resource of builtinResources()) {
      expect(hasSchema(resource.definition), resource.definition).toBe(true);
      for (const sub of resource.subresources) {
        if (sub.definition !== "") expect(hasSchema(sub.definition), sub.definition).toBe(true);
      }
    }
  });

  test("every reference of every definition resolves", () => {
    for (const definition of Object.keys(schemaBundle())) {
      const { fields } = schemaFor(definition);
      expect(fields.size, definition).toBe(Object.keys(schemaBundle()[definition]?.fields ?? {}).length);
    }
  });

  test("every description belongs to a field that exists", () => {
    for (const [definition, texts] of Object.entries(schemaDescriptions())) {
      const { fields } = schemaFor(definition);
      for (const field of Object.keys(texts)) {
        if (field !== "") expect(fields.has(field), `${definition}.${field}`).toBe(true);
      }
    }
    expect(schemaDescriptions()[core("Pod")]?.[""]).toContain("Pod is a collection of containers");
  });

  test("a kind with a status subresource has a status field", () => {
    for (const resource of builtinResources()) {
      if (resource.hasStatus) expect(schemaFor(resource.definition).fields.has("status"), resource.kind).toBe(true);
    }
  });

  test("a type may contain itself", () => {
    const definition = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    expect(at(definition, "properties", "properties", "properties", "type")).toEqual({
      kind: "scalar",
      type: "string",
    });
    expect(at(definition, "x-kubernetes-validations")).toMatchObject({ listType: "map", patchMergeKey: "rule" });
  });

  test.each<[string, string, Partial<ListNode>]>([
    [core("PodSpec"), "containers", { listType: "map", listKeys: ["name"], patchMerge: true, patchMergeKey: "name" }],
    [core("PodSpec"), "volumes", { patchMergeKey: "name", patchRetainKeys: true }],
    [core("PodSpec"), "tolerations", { listType: "atomic", patchMerge: false }],
    [
      core("PodSpec"),
      "topologySpreadConstraints",
      { listKeys: ["topologyKey", "whenUnsatisfiable"], patchMergeKey: "topologyKey" },
    ],
    [
      core("Container"),
      "ports",
      { listKeys: ["containerPort", "protocol"], keyDefaults: { protocol: "TCP" }, patchMergeKey: "containerPort" },
    ],
    [core("PodStatus"), "hostIPs", { listType: "atomic", patchMerge: true, patchMergeKey: "ip" }],
    ["io.k8s.api.batch.v1.JobStatus", "conditions", { listType: "atomic", patchMerge: true, patchMergeKey: "type" }],
    ["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", { listType: "set", patchMerge: true }],
    [
      "io.k8s.api.resource.v1.ResourceClaimStatus",
      "devices",
      { listKeys: ["driver", "device", "pool", "shareID"], patchMerge: false },
    ],
    ["io.k8s.api.resource.v1beta1.ResourceClaimStatus", "reservedFor", { listKeys: ["uid"], patchMerge: true }],
  ])("%s.%s merges as Kubernetes merges it", (definition, field, expected) => {
    expect(at(definition, field)).toMatchObject(expected);
  });

  test.each([
    ["selectors have one owner", core("ReplicationControllerSpec"), "selector", true],
    ["label selectors have one owner", "io.k8s.api.apps.v1.DeploymentSpec", "selector", true],
    ["node selectors of pods have one owner", core("PodSpec"), "nodeSelector", true],
    ["labels have an owner per key", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels", false],
    ["object references have one owner", core("Event"), "involvedObject", true],
    ["the claim of a volume is the exception", core("PersistentVolumeSpec"), "claimRef", false],
    [
      "scale targets of v1 have one owner",
      "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec",
      "scaleTargetRef",
      true,
    ],
    ["scale targets of v2 do not", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef", false],
  ])("%s", (_fact, definition, field, atomic) => {
    expect(at(definition, field)).toMatchObject({ atomic });
  });

  test("patch strategies of single objects belong to their place, not to their type", () => {
    expect(at("io.k8s.api.apps.v1.DeploymentSpec", "strategy")).toMatchObject({ retainKeys: true });
    expect(at("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector")).toMatchObject({ replace: true });
    expect((at("io.k8s.api.apps.v1.ReplicaSetSpec", "selector") as StructNode).replace).toBeUndefined();
  });

  test.each([
    [core("ResourceRequirements"), "limits", "quantity"],
    [core("EmptyDirVolumeSource"), "sizeLimit", "quantity"],
    ["io.k8s.api.resource.v1.Counter", "value", "quantity"],
    ["io.k8s.api.coordination.v1.LeaseSpec", "renewTime", "microTime"],
    ["io.k8s.api.events.v1.Event", "eventTime", "microTime"],
    [core("Event"), "lastTimestamp", "time"],
    [core("Secret"), "data", "bytes"],
    ["io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "minAvailable", "intOrString"],
  ])("%s.%s holds a %s", (definition, field, type) => {
    const node = at(definition, field);
    expect(node.kind === "map" ? node.values : node).toEqual({ kind: "scalar", type });
  });

  test("the taint rule of 1.37 has the shape of its beta and the taint of v1", () => {
    expect(at("io.k8s.api.resource.v1.DeviceTaintRule", "spec", "taint")).toMatchObject({
      definition: "io.k8s.api.resource.v1.DeviceTaint",
    });
  });
});

describe("the resource table", () => {
  test("no two rows share a path, and no two kinds of a version share a name", () => {
    const rows = builtinResources();
    expect(new Set(rows.map((row) => `${row.group}/${row.version}/${row.plural}`)).size).toBe(rows.length);
    expect(new Set(rows.map((row) => `${row.group}/${row.version}/${row.kind}`)).size).toBe(rows.length);
  });

  test("every storage version is itself served under the same storage key", () => {
    const rows = builtinResources();
    for (const row of rows) {
      const home = rows.find(
        ({ storageKey, group, version }) =>
          storageKey === row.storageKey && (group === "" ? version : `${group}/${version}`) === row.storageVersion,
      );
      expect(home, row.definition).toBeDefined();
    }
  });

  test("short names are unique among stored kinds of different storage", () => {
    const owners = new Map<string, string>();
    for (const row of builtinResources()) {
      for (const short of row.shortNames) {
        expect(owners.get(short) ?? row.storageKey).toBe(row.storageKey);
        owners.set(short, row.storageKey);
      }
    }
  });
});
