import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { DeviceClass, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { ExtendedResources, extendedRequests, mappedResources, sourceOn } from "./extendedResources.ts";

const classOf = (name: string, resource?: string, created = "2026-01-01T00:00:00Z"): DeviceClass =>
  partly<DeviceClass>({
    metadata: { name, uid: name, creationTimestamp: created },
    spec: { ...(resource && { extendedResourceName: resource }) },
  });
const gpu = "example.com/gpu";
const nic = "example.com/nic";
const known = new ExtendedResources([classOf("gpu", gpu), classOf("nic", nic)]);
const classFor = (name: string) => known.classFor(name);
const container = (name: string, requests: Record<string, string>, more: object = {}) => ({
  name,
  resources: { requests },
  ...more,
});
const pod = (containers: object[], initContainers: object[] = []): Pod =>
  partly<Pod>({ spec: { containers, initContainers } });
const sidecar = { restartPolicy: "Always" };
const asked = (each: Pod) => {
  const { requests, mappings } = extendedRequests(each, mappedResources(each, classFor), classFor);
  return {
    requests: requests.map(({ name, exactly }) => `${name} ${exactly?.deviceClassName} ${exactly?.count}`),
    mappings: mappings.map((one) => `${one.containerName} ${one.resourceName} ${one.requestName}`),
  };
};

describe("the class of an extended resource", () => {
  test("explicit, implicit, or none", () => {
    expect(classFor(gpu)?.metadata.name).toBe("gpu");
    expect(classFor("deviceclass.resource.kubernetes.io/nic")?.metadata.name).toBe("nic");
    expect(classFor("example.com/other")).toBeUndefined();
  });

  test.each([
    { name: "the newest wins", classes: [classOf("a", gpu), classOf("b", gpu, "2026-02-01T00:00:00Z")], winner: "b" },
    { name: "among equals the smaller name", classes: [classOf("b", gpu), classOf("a", gpu)], winner: "a" },
  ])("$name", ({ classes, winner }) => {
    expect(new ExtendedResources(classes).classFor(gpu)?.metadata.name).toBe(winner);
  });
});

describe("the requests of the pod's claim", () => {
  test.each([
    { name: "nothing", pod: pod([container("a", { cpu: "1" })]), requests: [] },
    { name: "one match", pod: pod([container("a", { [gpu]: "2" })]), requests: ["container-0-request-0 gpu 2"] },
    {
      name: "one of two",
      pod: pod([container("a", { [gpu]: "1", "example.com/x": "1" })]),
      requests: ["container-0-request-0 gpu 1"],
    },
    {
      name: "two",
      pod: pod([container("a", { [gpu]: "1", [nic]: "1" })]),
      requests: ["container-0-request-0 gpu 1", "container-0-request-1 nic 1"],
    },
    {
      name: "two containers",
      pod: pod([container("a", { [gpu]: "1" }), container("b", { [gpu]: "2" })]),
      requests: ["container-0-request-0 gpu 1", "container-1-request-0 gpu 2"],
    },
    {
      name: "init + regular share a request",
      pod: pod([container("a", { [gpu]: "2" })], [container("i", { [gpu]: "1" })]),
      requests: ["container-1-request-0 gpu 2"],
    },
    {
      name: "two init containers: the larger remainder counts",
      pod: pod([container("a", { cpu: "1" })], [container("i", { [gpu]: "1" }), container("j", { [gpu]: "2" })]),
      requests: ["container-1-request-0 gpu 2"],
    },
    {
      name: "init + sidecar + init",
      pod: pod(
        [],
        [container("i", { [gpu]: "1" }), container("s", { [gpu]: "1" }, sidecar), container("j", { [gpu]: "2" })],
      ),
      requests: ["container-1-request-0 gpu 1", "container-2-request-0 gpu 2"],
    },
  ])("$name", ({ pod: each, requests }) => {
    expect(asked(each).requests).toEqual(requests);
  });

  test("init and regular container are mapped to one request", () => {
    const each = pod([container("a", { [gpu]: "2" })], [container("i", { [gpu]: "1" })]);
    expect(asked(each).mappings).toEqual([`a ${gpu} container-1-request-0`, `i ${gpu} container-1-request-0`]);
  });

  test("remainders of init containers are mapped to the one that is left", () => {
    const each = pod([container("a", { cpu: "1" })], [container("i", { [gpu]: "1" }), container("j", { [gpu]: "2" })]);
    expect(asked(each).mappings).toEqual([`i ${gpu} container-1-request-0`, `j ${gpu} container-1-request-0`]);
  });
});

test.each([
  { name: "extended-resource-name-with-node-resource", allocatable: { [gpu]: "2" }, source: "plugin" },
  { name: "extended-resource-name-with-zero-allocatable", allocatable: { [gpu]: "0" }, source: "claims" },
  { name: "extended-resource-name-with-resources", allocatable: {}, source: "claims" },
])("$name", ({ allocatable, source }) => {
  expect(sourceOn(partly<Node>({ status: { allocatable } }), gpu, classFor)).toBe(source);
});
