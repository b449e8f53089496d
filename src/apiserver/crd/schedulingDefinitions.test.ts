import { expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { copyJson, type JsonObject } from "../../model/objects/json.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { customResources } from "./customResource.ts";
import { crdErrors, setCrdDefaults } from "./validateCrd.ts";

const crds = schedulingDefinitions.map((each) => {
  const crd = partly<CustomResourceDefinition>(copyJson(each));
  setCrdDefaults(crd);
  return crd;
});

function resourceOf(kind: string) {
  const crd = crds.find(({ spec }) => spec.names.kind === kind);
  return customResources(crd as CustomResourceDefinition)[0]!;
}

function errorsOf(kind: string, spec: JsonObject, old?: JsonObject): string[] {
  const resource = resourceOf(kind);
  const make = (value: JsonObject): JsonObject => {
    const { object } = resource.decode({ metadata: { name: "x", namespace: "n" }, spec: copyJson(value) });
    resource.setDefaults(object);
    return object;
  };
  return resource.validate(make(spec), old === undefined ? undefined : make(old)).map(describeFieldError);
}

test.each(crds.map((crd) => ({ name: crd.metadata.name, crd })))("the definition $name is valid", ({ crd }) => {
  expect(crdErrors(crd, undefined).map(describeFieldError)).toEqual([]);
});

test.each([
  { name: "quotas may be fractions of a GPU", kind: "Queue", spec: { resources: { gpu: { quota: 0.5, limit: -1 } } } },
  { name: "a gang may have no minimum", kind: "PodGroup", spec: { minMember: null, queue: "q" } },
  { name: "preemptibility may be left to the priority", kind: "PodGroup", spec: { preemptibility: "" } },
  {
    name: "a topology ends at the host",
    kind: "Topology",
    spec: { levels: [{ nodeLabel: "zone" }, { nodeLabel: "kubernetes.io/hostname" }] },
  },
])("$name", ({ kind, spec }) => {
  expect(errorsOf(kind, spec as JsonObject)).toEqual([]);
});

test.each([
  { name: "a gang has no negative minimum", kind: "PodGroup", spec: { minMember: -1 }, says: "minMember" },
  { name: "preemptibility has two words", kind: "PodGroup", spec: { preemptibility: "maybe" }, says: "preemptibility" },
  {
    name: "a subgroup's name is lower case",
    kind: "PodGroup",
    spec: { subGroups: [{ name: "A", minMember: 1 }] },
    says: "subGroups[0].name",
  },
  { name: "a topology has a level", kind: "Topology", spec: { levels: [] }, says: "levels" },
  {
    name: "a label is one level",
    kind: "Topology",
    spec: { levels: [{ nodeLabel: "zone" }, { nodeLabel: "zone" }] },
    says: "node labels must be unique",
  },
  {
    name: "the host is the last level",
    kind: "Topology",
    spec: { levels: [{ nodeLabel: "kubernetes.io/hostname" }, { nodeLabel: "zone" }] },
    says: "last level",
  },
])("$name", ({ kind, spec, says }) => {
  expect(errorsOf(kind, spec as JsonObject).join()).toContain(says);
});

test("the levels of a topology stay, their aliases may change", () => {
  const before = { levels: [{ nodeLabel: "zone", alias: "z" }] };
  expect(errorsOf("Topology", { levels: [{ nodeLabel: "zone", alias: "area" }] }, before)).toEqual([]);
  expect(errorsOf("Topology", { levels: [{ nodeLabel: "rack" }] }, before).join()).toContain("are immutable");
});
