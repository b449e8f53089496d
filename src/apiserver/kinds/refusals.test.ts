/** What a kube-apiserver refuses and takes, field by field; seen beside a real one. */
import { describe, expect, test } from "vitest";
import { create, type Draft, update, updateStatus } from "../../../test/fixtures/kindWrites.ts";
import { sampleOf } from "../../../test/validObjects.ts";

// biome-ignore lint/suspicious/noExplicitAny: changes walk into objects of every kind.
type Change = (object: any) => void;

function changed(plural: string, change: Change): { key: string; object: Draft } {
  const { type, object } = sampleOf(plural);
  const draft = object("a") as Draft;
  change(draft);
  return { key: type.storageKey, object: draft };
}

function createErrors(plural: string, change: Change): string {
  const { key, object } = changed(plural, change);
  return create(key, object).errors.join("\n");
}

describe("is refused when it is created", () => {
  test.each<[string, Change, string]>([
    ["limitranges", ({ spec }) => (spec.limits[0].type = "x"), "must be a standard limit type or fully qualified"],
    ["persistentvolumes", ({ spec }) => (spec.hostPath.type = "Nope"), 'spec.hostPath.type: Unsupported value: "Nope"'],
    ["persistentvolumes", ({ spec }) => (spec.volumeAttributesClassName = "x"), "spec.csi: Required value"],
    [
      "deployments",
      ({ spec }) => (spec.template.spec.overhead = { "Bad Key!": "1" }),
      "spec.template.spec.overhead.limits[Bad Key!]: Invalid value",
    ],
    ["deployments", ({ spec }) => (spec.template.spec.overhead = { "nvidia.com/gpu": "1500m" }), "must be an integer"],
    ["pods", ({ spec }) => (spec.resources = { claims: [] }), "spec.resources.claims: Forbidden"],
    [
      "pods",
      ({ spec }) => (spec.securityContext = { windowsOptions: { runAsUserName: "" } }),
      "cannot be an empty string",
    ],
    [
      "pods",
      ({ spec }) => (spec.dnsConfig = { searches: ["Bad Value!"] }),
      "spec.dnsConfig.searches[0]: Invalid value",
    ],
    ["servicecidrs", ({ spec }) => (spec.cidrs = []), "spec.cidrs: Required value"],
    ["servicecidrs", ({ spec }) => (spec.cidrs = ["10.0.0.1/8"]), "spec.cidrs[0]: Invalid value"],
    ["servicecidrs", ({ spec }) => (spec.cidrs = ["10.0.0.0/8", "11.0.0.0/8"]), "one IP for each IP family"],
    ["ipaddresses", ({ metadata }) => (metadata.name = "010.0.0.1"), "metadata.name: Invalid value"],
    ["ipaddresses", ({ spec }) => (spec.parentRef = { resource: "", name: "x" }), "spec.parentRef.resource: Required"],
    ["runtimeclasses", (object) => (object.overhead = { podFixed: { x: "1" } }), "overhead.limits[x]: Invalid value"],
    ["controllerrevisions", (object) => (object.data = []), "data must be a valid JSON object"],
    ["jobs", ({ spec }) => (spec.managedBy = "x"), "must be a domain-prefixed path"],
    ["certificatesigningrequests", ({ spec }) => (spec.usages = ["x"]), 'spec.usages[0]: Unsupported value: "x"'],
    ["certificatesigningrequests", ({ spec }) => (spec.request = "eA=="), "PEM block type must be CERTIFICATE REQUEST"],
    ["csidrivers", ({ spec }) => (spec.nodeAllocatableUpdatePeriodSeconds = 5), "greater than or equal to 10 seconds"],
    ["csidrivers", ({ spec }) => (spec.serviceAccountTokenInSecrets = true), "no tokenRequests are specified"],
    ["csinodes", ({ spec }) => (spec.drivers[0].topologyKeys = ["a", "a"]), 'Duplicate value: "a"'],
    ["storageclasses", (object) => (object.allowedTopologies = [{}]), "allowedTopologies[0].matchLabelExpressions"],
    ["volumeattachments", ({ spec }) => (spec.nodeName = "Bad Value!"), "spec.nodeName: Invalid value"],
    ["volumeattachments", ({ spec }) => (spec.attacher = "Bad Value!"), "spec.attacher: Invalid value"],
    [
      "endpointslices",
      ({ endpoints }) => (endpoints[0].hints = { forNodes: [{ name: "A B" }] }),
      "hints.forNodes[0].name",
    ],
    [
      "endpointslices",
      ({ endpoints }) => (endpoints[0].hints = { forZones: [{ name: "A B" }] }),
      "hints.forZones[0].name",
    ],
    ["resourceclaimtemplates", ({ spec }) => (spec.metadata = { labels: { "Bad Key!": "b" } }), "spec.metadata.labels"],
    [
      "validatingadmissionpolicies",
      ({ spec }) => (spec.matchConstraints.resourceRules[0].resourceNames = ["a", "a"]),
      "resourceNames[1]: Duplicate value",
    ],
    [
      "mutatingadmissionpolicies",
      ({ spec }) => delete spec.reinvocationPolicy,
      "spec.reinvocationPolicy: Required value",
    ],
  ])("%s: %s", (plural, change, message) => {
    expect(createErrors(plural, change)).toContain(message);
  });
});

test("a selector of a Job with an unknown operator is refused as a field", () => {
  const broken: Change = ({ spec }) => {
    spec.manualSelector = true;
    spec.selector = { matchExpressions: [{ key: "a", operator: "x" }] };
  };
  expect(createErrors("jobs", broken)).toContain("spec.selector.matchExpressions[0].operator");
});

test("a device status without conditions is judged, and no internal error", () => {
  const { key, object } = changed("resourceclaims", () => {});
  const stored = create(key, object).object;
  const { errors } = updateStatus(key, stored, (next) => {
    next.status = { devices: [{ device: "d", conditions: null }] };
  });
  expect(errors.join("\n")).toContain("status.devices[0].driver: Required value");
});

describe("is taken", () => {
  test.each<[string, Change]>([
    ["statefulsets", ({ spec }) => (spec.revisionHistoryLimit = -1)],
    ["endpointslices", ({ ports }) => (ports[0].port = 0)],
    ["storageclasses", (object) => (object.reclaimPolicy = "")],
    ["nodes", ({ spec }) => (spec.podCIDRs = ["a", "b"])],
    ["leases", ({ spec }) => Object.assign(spec, { strategy: "x", preferredHolder: "y" })],
    ["persistentvolumeclaims", ({ spec }) => (spec.dataSourceRef = { namespace: "x" })],
  ])("%s: %s", (plural, change) => {
    expect(createErrors(plural, change)).toBe("");
  });

  test("fields of gates that are off are dropped", () => {
    const { key, object } = changed("leases", ({ spec }) =>
      Object.assign(spec, { strategy: "x", preferredHolder: "y" }),
    );
    expect(create(key, object).object.spec).not.toHaveProperty("strategy");
  });
});

test("events with a time of their own leave the older fields empty, and a series has two", () => {
  const event = sampleOf("events").object("a") as Draft;
  const modern = {
    eventTime: "2026-01-01T00:00:00.000000Z",
    reportingComponent: "a.b/c",
    reportingInstance: "i",
    action: "A",
  };
  const errors = (more: object) =>
    create("/events", { ...event, ...modern, metadata: { name: "a", namespace: "default" }, source: {}, ...more })
      .errors;
  expect(errors({})).toEqual([]);
  expect(errors({ count: 1 })).toEqual(['count: Invalid value: "": needs to be unset']);
  expect(errors({ series: { count: 1 } })).toHaveLength(2);
});

describe("updates", () => {
  test("another spec of a signing request is put back", () => {
    const { key, object } = changed("certificatesigningrequests", () => {});
    const stored = create(key, object).object;
    const written = update(key, stored, ({ spec }) => (spec.signerName = "other/one"));
    expect(written.errors).toEqual([]);
    expect(written.object.spec.signerName).toBe("example.com/s");
  });

  test("metadata of the template of a suspended Job may change", () => {
    const { key, object } = changed("jobs", ({ spec }) => (spec.suspend = true));
    const stored = create(key, object).object;
    expect(update(key, stored, ({ spec }) => (spec.template.metadata.name = "x")).errors).toEqual([]);
  });

  test("an empty scope selector is the same as none", () => {
    const { key, object } = changed("resourcequotas", () => {});
    const stored = create(key, object).object;
    expect(update(key, stored, ({ spec }) => (spec.scopeSelector = {})).errors).toEqual([]);
  });
});

describe("a status is refused", () => {
  test.each<[string, Change, string]>([
    [
      "services",
      (status) => (status.loadBalancer = { ingress: [{ ip: "1.2.3.4" }] }),
      "may only be used when `spec.type` is 'LoadBalancer'",
    ],
    ["ingresses", (status) => (status.loadBalancer = { ingress: [{ ip: "x" }] }), "status.loadBalancer.ingress[0].ip"],
    ["deployments", (status) => (status.terminatingReplicas = -1), "status.terminatingReplicas"],
    ["jobs", (status) => (status.ready = 1), "cannot set more ready pods than active"],
    ["jobs", (status) => (status.failedIndexes = "0"), "when backoffLimitPerIndex is null"],
    ["certificatesigningrequests", (status) => (status.conditions = [{}]), "status.conditions[0].type: Required value"],
    ["certificatesigningrequests", (status) => (status.certificate = "eA=="), "at least one CERTIFICATE PEM block"],
    ["pods", (status) => (status.conditions = [{ status: "True" }]), "status.conditions[0].Type"],
    ["pods", (status) => (status.hostIPs = [{ ip: "1.2.3.4" }]), "must be equal to `hostIP`"],
    ["pods", (status) => (status.containerStatuses = [{ name: "c", user: { linux: { uid: -1 } } }]), "user.linux.uid"],
  ])("%s: %s", (plural, change, message) => {
    const { key, object } = changed(plural, () => {});
    const stored = { ...create(key, object).object };
    const { errors } = updateStatus(key, stored, (next) => {
      next.status ??= {};
      change(next.status);
    });
    expect(errors.join("\n")).toContain(message);
  });
});
