import { describe, expect, test } from "vitest";
import { builtinResources, type ResourceType } from "./builtinResources.ts";
import { compareVersions, Discovery } from "./discovery.ts";

type Loose = { [key: string]: unknown };

const gang: ResourceType = {
  group: "example.com",
  version: "v1beta1",
  plural: "gangs",
  singular: "gang",
  kind: "Gang",
  listKind: "GangList",
  shortNames: ["gg"],
  categories: ["ml"],
  namespaced: true,
  verbs: ["get", "list"],
  subresources: [],
  selectableFields: [],
  hasStatus: false,
  storageKey: "example.com/gangs",
  storageVersion: "example.com/v1",
  definition: "",
  virtual: false,
};
const discovery = new Discovery([...builtinResources(), gang, { ...gang, version: "v1" }], "127.0.0.1:6443");

function read(document: { body: string } | undefined): Loose {
  if (document === undefined) throw new Error("no such document");
  return JSON.parse(document.body) as Loose;
}

type AggregatedResource = { resource: string; subresources?: Loose[]; [key: string]: unknown };
type AggregatedGroup = {
  metadata: { name?: string };
  versions: { version: string; resources: AggregatedResource[] }[];
};

function items(root: "api" | "apis"): AggregatedGroup[] {
  return read(discovery.aggregated(root))["items"] as AggregatedGroup[];
}

describe("aggregated discovery", () => {
  test("the core group is under /api, all others under /apis", () => {
    expect(
      items("api").map(({ metadata, versions }) => [metadata.name, versions.map(({ version }) => version)]),
    ).toEqual([[undefined, ["v1"]]]);
    expect(items("apis").some(({ metadata }) => metadata.name === undefined)).toBe(false);
  });

  test("groups come in the order of the table, custom ones last", () => {
    const names = items("apis").map(({ metadata }) => metadata.name);
    expect(names[0]).toBe("apps");
    expect(names.at(-1)).toBe("example.com");
  });

  test("the preferred version of a group is first, in any order of resources", () => {
    const versions = (group: string) =>
      items("apis")
        .find(({ metadata }) => metadata.name === group)
        ?.versions.map(({ version }) => version);
    expect(versions("autoscaling")).toEqual(["v2", "v1"]);
    expect(versions("resource.k8s.io")).toEqual(["v1", "v1beta2", "v1beta1"]);
    expect(versions("scheduling.k8s.io")).toEqual(["v1", "v1alpha2"]);
    expect(versions("example.com")).toEqual(["v1", "v1beta1"]);
  });

  test("a resource has all fields that kubectl needs", () => {
    const deployments = items("apis")[0]?.versions[0]?.resources.find(({ resource }) => resource === "deployments");
    expect(deployments).toEqual({
      resource: "deployments",
      responseKind: { group: "apps", version: "v1", kind: "Deployment" },
      scope: "Namespaced",
      singularResource: "deployment",
      verbs: ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
      shortNames: ["deploy"],
      categories: ["all"],
      subresources: [
        {
          subresource: "scale",
          responseKind: { group: "autoscaling", version: "v1", kind: "Scale" },
          verbs: ["get", "patch", "update"],
        },
        {
          subresource: "status",
          responseKind: { group: "apps", version: "v1", kind: "Deployment" },
          verbs: ["get", "patch", "update"],
        },
      ],
    });
  });

  test("`kubectl get all` finds the workloads and services", () => {
    const all = [...items("api"), ...items("apis")]
      .flatMap(({ versions }) => versions[0]?.resources ?? [])
      .filter(({ categories }) => (categories as string[] | undefined)?.includes("all"))
      .map(({ resource }) => resource);
    expect(all).toEqual([
      "pods",
      "replicationcontrollers",
      "services",
      "daemonsets",
      "deployments",
      "replicasets",
      "statefulsets",
      "horizontalpodautoscalers",
      "cronjobs",
      "jobs",
    ]);
  });
});

describe("legacy discovery", () => {
  test("/api names the versions and the address", () => {
    expect(read(discovery.versions())).toEqual({
      kind: "APIVersions",
      versions: ["v1"],
      serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: "127.0.0.1:6443" }],
    });
  });

  test("a group names its versions and prefers the first", () => {
    expect(read(discovery.group("autoscaling"))).toEqual({
      kind: "APIGroup",
      apiVersion: "v1",
      name: "autoscaling",
      versions: [
        { groupVersion: "autoscaling/v2", version: "v2" },
        { groupVersion: "autoscaling/v1", version: "v1" },
      ],
      preferredVersion: { groupVersion: "autoscaling/v2", version: "v2" },
    });
    const groups = read(discovery.groups())["groups"] as Loose[];
    expect(groups.map(({ name }) => name)).toContain("example.com");
  });

  test("subresources are resources with a slash, and have a group when it differs", () => {
    const list = read(discovery.resources("", "v1"));
    expect(list).toMatchObject({ kind: "APIResourceList", groupVersion: "v1" });
    const resources = list["resources"] as Loose[];
    expect(resources.find(({ name }) => name === "pods/eviction")).toEqual({
      name: "pods/eviction",
      singularName: "",
      namespaced: true,
      group: "policy",
      version: "v1",
      kind: "Eviction",
      verbs: ["create"],
    });
    expect(resources.find(({ name }) => name === "pods/status")).not.toHaveProperty("group");
  });

  test("what is not served has no document", () => {
    expect(discovery.group("nowhere.example.com")).toBeUndefined();
    expect(discovery.resources("apps", "v2")).toBeUndefined();
  });
});

test("the tag of a document changes with its content only", () => {
  const same = new Discovery([...builtinResources(), gang, { ...gang, version: "v1" }], "127.0.0.1:6443");
  const other = new Discovery(builtinResources(), "127.0.0.1:6443");
  expect(same.aggregated("apis").etag).toBe(discovery.aggregated("apis").etag);
  expect(other.aggregated("apis").etag).not.toBe(discovery.aggregated("apis").etag);
  expect(other.aggregated("api").etag).toBe(discovery.aggregated("api").etag);
});

test("versions sort by stability, then by number, then by name", () => {
  const sorted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "bar", "foo1"];
  expect([...sorted].reverse().sort(compareVersions)).toEqual(sorted);
});
