import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { copyJson, type JsonObject } from "../../model/objects/json.ts";
import { DecodeError } from "../schema/decode.ts";
import { type CustomResource, customResources } from "./customResource.ts";
import { crdErrors, setCrdDefaults } from "./validateCrd.ts";

function load(name: string): CustomResourceDefinition {
  const text = readFileSync(new URL(`fixtures/${name}.yaml`, import.meta.url), "utf8");
  const crd = parse(text) as CustomResourceDefinition;
  setCrdDefaults(crd);
  return crd;
}

const first = (name: string) => customResources(load(name))[0]!;

/** What a write would store, and what is wrong with it. */
function write(resource: CustomResource, value: JsonObject, old?: JsonObject) {
  const { object, unknownPaths } = resource.decode(copyJson(value));
  resource.setDefaults(object);
  return { object, unknownPaths, errors: resource.validate(object, old).map(describeFieldError) };
}

test.each(["queueing", "gang", "podgroup"])("the definition %s is valid", (name) => {
  expect(crdErrors(load(name), undefined).map(describeFieldError)).toEqual([]);
});

const queue = (spec: JsonObject): JsonObject => ({
  apiVersion: "queueing.example.com/v1beta1",
  kind: "ClusterQueue",
  metadata: { name: "q" },
  spec,
});
const flavors = (quota: number | string) => [
  { coveredResources: ["cpu"], flavors: [{ name: "a100", resources: [{ name: "cpu", nominalQuota: quota }] }] },
];

describe("a queue", () => {
  const resource = first("queueing");

  test("gets the defaults of its schema, also inside objects that are defaults themselves", () => {
    expect(write(resource, queue({})).object["spec"]).toEqual({
      queueingStrategy: "BestEffortFIFO",
      stopPolicy: "None",
      preemption: { reclaimWithinCohort: "Never", withinClusterQueue: "Never" },
    });
  });

  test("is pruned by its schema, and pruned fields are reported", () => {
    const { object, unknownPaths } = write(resource, {
      ...queue({ cohort: "c", colour: 1, preemption: { x: 1 } }),
      extra: 1,
    });
    expect(unknownPaths).toEqual(["spec.colour", "spec.preemption.x", "extra"]);
    expect(object["spec"]).not.toHaveProperty("colour");
  });

  test("accepts amounts as numbers and as strings", () => {
    expect(write(resource, queue({ resourceGroups: flavors(5) })).errors).toEqual([]);
    expect(write(resource, queue({ resourceGroups: flavors("500m") })).errors).toEqual([]);
    expect(write(resource, queue({ resourceGroups: flavors("lots") })).errors[0]).toContain(
      "nominalQuota in body should match",
    );
  });

  test("obeys its rules", () => {
    const groups = flavors(1);
    groups[0]!.coveredResources.push("memory");
    expect(write(resource, queue({ resourceGroups: groups })).errors).toEqual([
      'spec.resourceGroups[0]: Invalid value: "object": flavors must have the same number of resources as the coveredResources',
    ]);
  });

  test("has rules that wait until the schema is satisfied", () => {
    expect(write(resource, queue({ resourceGroups: [{ flavors: [] }] })).errors).toEqual([
      "spec.resourceGroups[0].coveredResources: Required value",
      "spec.resourceGroups[0].flavors: Invalid value: []: spec.resourceGroups[0].flavors in body should have at least 1 items",
      '<nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    ]);
  });

  test("refuses the same flavour and the same resource twice", () => {
    const [group] = flavors(1);
    const twice = { coveredResources: ["cpu", "cpu"], flavors: [...group!.flavors, ...group!.flavors] };
    const { errors } = write(resource, queue({ resourceGroups: [twice] }));
    expect(errors).toContain('spec.resourceGroups[0].coveredResources[1]: Duplicate value: "cpu"');
    expect(errors).toContain('spec.resourceGroups[0].flavors[1]: Duplicate value: {"name":"a100"}');
  });

  test("tolerates doubles that were there before", () => {
    const doubled = write(
      resource,
      queue({ resourceGroups: [{ ...flavors(1)[0]!, coveredResources: ["cpu", "cpu"] }] }),
    );
    const again = copyJson(doubled.object);
    (again["metadata"] as JsonObject)["labels"] = { a: "b" };
    expect(write(resource, again, doubled.object).errors).toEqual([]);
  });

  test("shows its columns", () => {
    const object = {
      ...queue({ cohort: "c", queueingStrategy: "StrictFIFO" }),
      metadata: { name: "q", creationTimestamp: "2026-01-01T00:00:00Z" },
    };
    const nowMs = Date.UTC(2026, 0, 1, 0, 5);
    expect(resource.columns.map(({ name, priority }) => [name, priority])).toEqual([
      ["Cohort", 0],
      ["Strategy", 1],
      ["Pending Workloads", 0],
      ["Age", 0],
    ]);
    expect(resource.columns.map((column) => column.cell(object, nowMs))).toEqual(["c", "StrictFIFO", null, "5m"]);
  });

  test("can be selected by its cohort", () => {
    expect(resource.selectableFields).toEqual(["spec.cohort"]);
    expect(resource.selectFields(queue({ cohort: "c" }))).toEqual(["c"]);
    expect(resource.selectFields(queue({}))).toEqual([""]);
  });
});

describe("a set of cliques", () => {
  const resource = first("gang");
  const clique = (name: string, spec: JsonObject, more: JsonObject = {}): JsonObject => ({ name, spec, ...more });
  const set = (cliques: JsonObject[], more: JsonObject = {}): JsonObject => ({
    apiVersion: "gang.example.com/v1alpha1",
    kind: "CliqueSet",
    metadata: { name: "s", namespace: "d" },
    spec: { template: { cliques, ...more } },
  });

  test("has the scale paths of the definition", () => {
    expect(resource.scale).toEqual({
      specReplicas: ["spec", "replicas"],
      statusReplicas: ["status", "replicas"],
      labelSelector: ["status", "selector"],
    });
    expect(resource.hasStatus).toBe(true);
  });

  test("keeps unknown fields of a pod spec and fills the known ones", () => {
    const { object, unknownPaths } = write(
      resource,
      set([clique("a", { replicas: 1, podSpec: { containers: [{ name: "c" }] } })]),
    );
    expect(unknownPaths).toEqual([]);
    expect(object["spec"]).toMatchObject({
      replicas: 1,
      template: {
        startupType: "AnyOrder",
        cliques: [
          {
            spec: {
              roleName: "worker",
              minAvailable: 1,
              podSpec: { schedulerName: "default-scheduler", containers: [{ name: "c" }] },
            },
          },
        ],
      },
    });
  });

  test("keeps null where null is allowed and drops it elsewhere", () => {
    const { object } = write(
      resource,
      set([clique("a", { replicas: 1, roleName: null })], { headless: null, terminationDelay: null }),
    );
    expect(object["spec"]).toMatchObject({ template: { headless: null, cliques: [{ spec: { roleName: "worker" } }] } });
    expect((object["spec"] as { template: object }).template).not.toHaveProperty("terminationDelay");
  });

  test("says which field a rule is about, and who names an unknown clique", () => {
    expect(write(resource, set([clique("a", { replicas: 1, minAvailable: 2 })])).errors).toEqual([
      'spec.template.cliques[0].spec.minAvailable: Invalid value: "object": minAvailable must not be greater than replicas',
    ]);
    expect(write(resource, set([clique("a", { replicas: 1 }, { startsAfter: ["b"] })])).errors).toEqual([
      "spec.template.cliques: Forbidden: startsAfter of a clique names an unknown clique",
    ]);
  });

  test("cannot change what its rules call immutable, wherever the clique moves", () => {
    const old = write(
      resource,
      set([clique("a", { replicas: 1 }), clique("b", { replicas: 1, roleName: "x" })]),
    ).object;
    const moved = set([clique("b", { replicas: 2, roleName: "x" }), clique("a", { replicas: 1 })]);
    expect(write(resource, moved, old).errors).toEqual([]);
    const changed = set([clique("b", { replicas: 1, roleName: "y" })], { startupType: "InOrder" });
    expect(write(resource, changed, old).errors).toEqual([
      'spec.template.startupType: Invalid value: "string": startupType is immutable',
      'spec.template.cliques[0].spec: Invalid value: "object": roleName is immutable',
    ]);
  });
});

describe("a pod group with an embedded owner", () => {
  const resource = first("podgroup");
  const group = (spec: JsonObject): JsonObject => ({
    apiVersion: "fractions.example.com/v2alpha2",
    kind: "PodGroup",
    metadata: { name: "g" },
    spec,
  });

  test("compares whole numbers as fractions", () => {
    expect(write(resource, group({ gpuFraction: 1 })).errors).toEqual([]);
    expect(write(resource, group({})).errors).toEqual([]);
    expect(write(resource, group({ gpuFraction: 0 })).errors[0]).toContain("should be greater than 0");
  });

  test("keeps its queue", () => {
    const old = write(resource, group({ queue: "a" })).object;
    expect(write(resource, group({ queue: "b" }), old).errors).toEqual([
      'spec: Invalid value: "object": queue cannot change',
    ]);
  });

  test("requires the fields of every resource in an embedded resource", () => {
    expect(write(resource, group({ owner: { metadata: { name: "x" } } })).errors.slice(0, 2)).toEqual([
      "spec.owner.apiVersion: Required value: must not be empty",
      "spec.owner.kind: Required value: must not be empty",
    ]);
    const labelled = { apiVersion: "v1", kind: "Pod", metadata: { labels: { "-bad": "x" } } };
    expect(write(resource, group({ owner: labelled })).errors[0]).toContain(
      'spec.owner.metadata.labels: Invalid value: "-bad"',
    );
  });

  test("drops from embedded metadata what is not metadata", () => {
    const owner = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p", colour: "red", labels: 5 },
      spec: { any: 1 },
    };
    const { object, unknownPaths } = write(resource, group({ owner }));
    expect((object["spec"] as JsonObject)["owner"]).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p" },
      spec: { any: 1 },
    });
    expect(unknownPaths).toEqual(["spec.owner.metadata.colour"]);
  });

  test("has exactly one kind of minimum in each sub-group", () => {
    expect(write(resource, group({ subGroups: [{ name: "a", minMember: 1 }] })).errors).toEqual([]);
    expect(write(resource, group({ subGroups: [{ name: "a" }] })).errors[0]).toContain("(oneOf). Found none valid");
  });

  test("serves its versions by their own flags", () => {
    const [current, old] = customResources(load("podgroup"));
    expect([current?.served, current?.isStorage, current?.deprecationWarning]).toEqual([true, true, ""]);
    expect([old?.served, old?.storageVersion, old?.deprecationWarning]).toEqual([
      false,
      "fractions.example.com/v2alpha2",
      "fractions.example.com/v1 PodGroup is deprecated",
    ]);
    expect(current?.columns.map(({ name }) => name)).toEqual(["Age"]);
  });
});

test("a negative number of replicas is refused where it can be scaled", () => {
  const crd = load("podgroup");
  crd.spec.versions[0]!.subresources = {
    scale: { specReplicasPath: ".spec.minMember", statusReplicasPath: ".status.n" },
  };
  const resource = customResources(crd)[0]!;
  const { errors } = write(resource, { spec: { minMember: -1 }, status: { n: 3e9 } });
  expect(errors).toContain("spec.minMember: Invalid value: -1: should be a non-negative integer");
  expect(errors).toContain("status.n: Invalid value: 3000000000: should be less than or equal to 2147483647");
});

describe("metadata at the root", () => {
  const resource = first("podgroup");
  test("is decoded like that of any object", () => {
    const value = { apiVersion: "a/v1", kind: "K", metadata: { name: "x", labels: {}, nonsense: 1 } };
    const { object, unknownPaths } = resource.decode(value);
    expect(object["metadata"]).toMatchObject({ name: "x" });
    expect(unknownPaths).toEqual(["metadata.nonsense"]);
  });
  test("of the wrong type is refused", () => {
    expect(() => resource.decode({ metadata: { labels: { a: 1 } } })).toThrow(DecodeError);
  });
});

test("a definition is compiled once for each generation", () => {
  const crd = load("queueing");
  crd.metadata.uid = "u1";
  crd.metadata.generation = 1;
  const once = customResources(crd);
  expect(customResources(copyJson(crd))).toBe(once);
  crd.metadata.generation = 2;
  expect(customResources(crd)).not.toBe(once);
});

test("hostile property names stay data", () => {
  const crd = load("podgroup");
  crd.spec.versions[0]!.schema = JSON.parse(
    '{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"__proto__":{"type":"object","default":{"polluted":true},"properties":{"polluted":{"type":"boolean"}}},"constructor":{"type":"string","default":"x"}}}}}}',
  );
  const resource = customResources(crd)[0]!;
  const { object } = resource.decode({ spec: {} });
  resource.setDefaults(object);
  expect(JSON.stringify(object)).toBe('{"spec":{"__proto__":{"polluted":true},"constructor":"x"}}');
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  expect(resource.validate(object)).toEqual([]);
});
