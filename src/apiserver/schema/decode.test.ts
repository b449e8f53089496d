import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StatusError } from "../../model/objects/status.ts";
import { builtinResources } from "../builtinResources.ts";
import { schemaFor } from "./builtinSchemas.ts";
import { decodeFields, decodeObject, type FieldValidation, zeroValue } from "./decode.ts";
import type { StructNode } from "./schemaNode.ts";

type Loose = { [key: string]: unknown };

function decodeAs(definition: string, value: unknown): Loose {
  return decodeFields(schemaFor(definition), value, false).object as Loose;
}

const pod = schemaFor("io.k8s.api.core.v1.Pod");

function decodePod(value: unknown, fieldValidation: FieldValidation = "Strict") {
  return decodeObject(pod, value, { kindName: "Pod", apiVersion: "v1", fieldValidation });
}

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    expect(error.status).toMatchObject({ code: 400, reason: "BadRequest" });
    return error.message;
  }
  throw new Error("it was accepted");
}

const container = { name: "main", image: "busybox" };

describe("canonical forms", () => {
  test.each([
    ["1000m", "1"],
    ["0.5", "500m"],
    ["1024Mi", "1Gi"],
    [2, "2"],
    [0.1, "100m"],
    ["1u", "1m"],
  ])("in a resource list %s becomes %s", (given, stored) => {
    const decoded = decodeAs("io.k8s.api.core.v1.ResourceRequirements", { requests: { cpu: given } });
    expect(decoded).toEqual({ requests: { cpu: stored } });
  });

  test("a single quantity keeps what is finer than a thousandth", () => {
    expect(decodeAs("io.k8s.api.resource.v1.Counter", { value: "1u" })).toEqual({ value: "1u" });
  });

  test.each([
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"],
    ["2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"],
    ["2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"],
  ])("the time %s becomes %s", (given, stored) => {
    expect(decodeAs("io.k8s.api.core.v1.PodStatus", { startTime: given })).toEqual({ startTime: stored });
  });

  test("a lease keeps six digits", () => {
    const decoded = decodeAs("io.k8s.api.coordination.v1.LeaseSpec", { renewTime: "2026-01-02T05:04:05.000007+02:00" });
    expect(decoded).toEqual({ renewTime: "2026-01-02T03:04:05.000007Z" });
  });

  test.each([
    ["aGk=", "aGk="],
    ["aGl=", "aGk="],
    ["aG\nk=\n", "aGk="],
    ["", ""],
  ])("secret data %j becomes %j", (given, stored) => {
    expect(decodeAs("io.k8s.api.core.v1.Secret", { data: { key: given } })["data"]).toEqual({ key: stored });
  });

  test("a number or a text stays what it was where both are allowed", () => {
    const definition = "io.k8s.api.policy.v1.PodDisruptionBudgetSpec";
    expect(decodeAs(definition, { minAvailable: "50%", maxUnavailable: 1 })).toEqual({
      minAvailable: "50%",
      maxUnavailable: 1,
    });
  });

  test("raw JSON passes as it is", () => {
    const parameters = { apiVersion: "gpu.example.com/v1", empty: {}, zero: 0, nothing: null };
    const decoded = decodeAs("io.k8s.api.resource.v1.OpaqueDeviceConfiguration", { driver: "gpu", parameters });
    expect(decoded).toEqual({ driver: "gpu", parameters });
    expect(decoded["parameters"]).not.toBe(parameters);
  });

  test("decoding what was decoded changes nothing", () => {
    const shallow = fc.oneof(
      fc.constant(null),
      fc.constant({}),
      fc.dictionary(fc.constantFrom("name", "labels", "replicas", "spec", "status", "metadata"), fc.constant(null)),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...builtinResources()),
        fc.record({ metadata: shallow, spec: shallow, status: shallow }, { requiredKeys: [] }),
        ({ definition }, value) => {
          const once = decodeAs(definition, value);
          expect(decodeAs(definition, once)).toEqual(once);
        },
      ),
    );
  });

  test("the result shares no object with the input", () => {
    const input = { metadata: { name: "a", labels: { a: "b" } }, spec: { containers: [container] } };
    const { object } = decodePod(input);
    (object.metadata.labels as Loose)["a"] = "changed";
    expect(input.metadata.labels.a).toBe("b");
  });
});

describe("zero values", () => {
  test("values that Go leaves out when empty vanish", () => {
    const { object } = decodePod({
      metadata: { name: "a", labels: {}, finalizers: [], generateName: "", deletionTimestamp: null },
      spec: { containers: [container], hostNetwork: false, nodeName: "", tolerations: [], nodeSelector: {} },
    });
    expect(object).toEqual({
      metadata: { name: "a" },
      spec: { containers: [{ ...container, resources: {} }] },
      status: {},
    });
  });

  test("pointer fields distinguish zero from absent", () => {
    const spec = { containers: [], terminationGracePeriodSeconds: 0, enableServiceLinks: false, securityContext: {} };
    expect(decodePod({ spec }).object["spec"]).toEqual(spec);
    expect(decodeAs("io.k8s.api.apps.v1.ReplicaSetSpec", { replicas: 0 })).toMatchObject({ replicas: 0 });
  });

  test("an empty volume source is a choice and stays", () => {
    expect(decodeAs("io.k8s.api.core.v1.Volume", { name: "a", emptyDir: {} })).toEqual({ name: "a", emptyDir: {} });
  });

  test("structs held by value are written even when absent", () => {
    expect(decodeAs("io.k8s.api.apps.v1.Deployment", { metadata: null })).toEqual({
      metadata: {},
      spec: { template: { metadata: {}, spec: {} }, strategy: {} },
      status: {},
    });
    expect(decodeAs("io.k8s.api.core.v1.EnvVarSource", { resourceFieldRef: { resource: "limits.cpu" } })).toEqual({
      resourceFieldRef: { resource: "limits.cpu", divisor: "0" },
    });
  });

  test("fields without omitempty are written as zero", () => {
    const status = decodeAs("io.k8s.api.core.v1.ContainerStatus", { name: "main", started: false });
    expect(status).toEqual({
      name: "main",
      ready: false,
      restartCount: 0,
      image: "",
      imageID: "",
      state: {},
      lastState: {},
      started: false,
    });
  });

  test("a status that was never set has the zeros of its kind", () => {
    expect(zeroValue(schemaFor("io.k8s.api.apps.v1.ReplicaSetStatus"))).toEqual({ replicas: 0 });
    expect(zeroValue(schemaFor("io.k8s.api.core.v1.ServiceStatus"))).toEqual({ loadBalancer: {} });
    expect(zeroValue(schemaFor("io.k8s.api.core.v1.PodStatus"))).toEqual({});
  });

  test("null inside a list or a map is the zero of its type", () => {
    expect(decodeAs("io.k8s.api.core.v1.ConfigMap", { data: { a: null } })["data"]).toEqual({ a: "" });
    expect(decodeAs("io.k8s.api.core.v1.Container", { name: "a", command: [null] })).toMatchObject({ command: [""] });
  });
});

describe("unknown fields", () => {
  const odd = {
    metadata: { name: "a", Labels: {} },
    spec: { foo: 1, containers: [container, { ...container, bar: {}, env: [{ name: "A", Value: "x" }] }] },
    extra: null,
  };
  const paths = ["metadata.Labels", "spec.foo", "spec.containers[1].bar", "spec.containers[1].env[0].Value", "extra"];

  test("Strict refuses them and names every one", () => {
    expect(refusal(() => decodePod(odd, "Strict"))).toBe(
      `Pod in version "v1" cannot be handled as a Pod: strict decoding error: ${paths
        .map((path) => `unknown field "${path}"`)
        .join(", ")}`,
    );
  });

  test("Warn drops them with a warning", () => {
    const { object, warnings } = decodePod(odd, "Warn");
    expect(warnings).toEqual(paths.map((path) => `unknown field "${path}"`));
    expect(object["spec"]).toEqual({
      containers: [
        { ...container, resources: {} },
        { ...container, resources: {}, env: [{ name: "A" }] },
      ],
    });
  });

  test("Ignore drops them silently", () => {
    expect(decodePod(odd, "Ignore").warnings).toEqual([]);
  });

  test("keys of a map are part of the path", () => {
    const { unknownFields } = decodeFields(
      schemaFor("io.k8s.api.resource.v1.Device"),
      { name: "d", capacity: { memory: { value: "1", size: 2 } } },
      true,
    );
    expect(unknownFields).toEqual(["capacity.memory.size"]);
  });

  test("fields that stood twice in the text are reported with them", () => {
    const options = { kindName: "Pod", apiVersion: "v1", duplicateFields: ["spec.nodeName"] };
    const decode = (fieldValidation: FieldValidation) =>
      decodeObject(pod, { spec: {} }, { ...options, fieldValidation });
    expect(decode("Warn").warnings).toEqual(['duplicate field "spec.nodeName"']);
    expect(refusal(() => decode("Strict"))).toContain('strict decoding error: duplicate field "spec.nodeName"');
  });

  test("a flood of unknown fields is cut at one hundred", () => {
    const flood = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`f${index}`, 1]));
    expect(decodePod({ spec: flood }, "Warn").warnings).toHaveLength(100);
  });

  test("a key named __proto__ is a key of a map like any other", () => {
    const decoded = decodeAs("io.k8s.api.core.v1.ConfigMap", JSON.parse('{"data":{"__proto__":"x","a":"b"}}'));
    expect(JSON.stringify(decoded["data"])).toBe('{"__proto__":"x","a":"b"}');
    expect(decodePod(JSON.parse('{"__proto__":{"spec":1}}'), "Warn").warnings).toEqual(['unknown field "__proto__"']);
  });

  test("where unknown fields are data they stay", () => {
    const node: StructNode = { kind: "struct", name: "", fields: new Map(), atomic: false, preserveUnknown: true };
    expect(decodeFields(node, { a: { b: null } }, true)).toEqual({ object: { a: { b: null } }, unknownFields: [] });
  });
});

describe("values of the wrong type", () => {
  const spec = (fields: Loose) => ({ spec: { containers: [{ ...container, ...fields }] } });
  test.each([
    [{ spec: 1 }, "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"],
    [[], "json: cannot unmarshal array into Go value of type v1.Pod"],
    [
      { spec: { priority: "high" } },
      "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
    ],
    [
      { spec: { priority: 1.5 } },
      "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
    ],
    [
      { spec: { hostNetwork: "yes" } },
      "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
    ],
    [
      { spec: { containers: {} } },
      "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    ],
    [
      spec({ env: [{ name: "A", value: 1 }] }),
      "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ],
    [
      { metadata: { labels: { a: true } } },
      "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
    ],
    [
      spec({ resources: { limits: [] } }),
      "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
    ],
    [
      spec({ resources: { limits: { cpu: "much" } } }),
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      { metadata: { creationTimestamp: "today" } },
      'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
    ],
    [{ metadata: { creationTimestamp: 5 } }, "json: cannot unmarshal number into Go value of type string"],
    [spec({ livenessProbe: { tcpSocket: { port: true } } }), "json: cannot unmarshal bool into Go value of type int32"],
  ])("%j", (value, why) => {
    expect(refusal(() => decodePod(value, "Ignore"))).toBe(`Pod in version "v1" cannot be handled as a Pod: ${why}`);
  });

  test("the version in the message has no group", () => {
    const node = schemaFor("io.k8s.api.apps.v1.Deployment");
    const options = { kindName: "Deployment", apiVersion: "apps/v1", fieldValidation: "Strict" as const };
    expect(refusal(() => decodeObject(node, { spec: { replicas: "3" } }, options))).toBe(
      'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32',
    );
  });

  test.each([
    ["abc", 3],
    ["a-bc", 1],
    ["====", 0],
  ])("secret data %s is no base64", (text, offset) => {
    const node = schemaFor("io.k8s.api.core.v1.Secret");
    const options = { kindName: "Secret", apiVersion: "v1", fieldValidation: "Strict" as const };
    expect(refusal(() => decodeObject(node, { data: { key: text } }, options))).toContain(
      `illegal base64 data at input byte ${offset}`,
    );
  });

  test("whole numbers may be written with a fraction of zero, within their range", () => {
    expect(decodePod(JSON.parse('{"spec":{"priority":3.0}}')).object["spec"]).toEqual({ priority: 3 });
    expect(refusal(() => decodePod({ spec: { priority: 2 ** 31 } }))).toContain("of type int32");
    expect(refusal(() => decodePod({ spec: { activeDeadlineSeconds: 2 ** 63 } }))).toContain("of type int64");
  });

  test("JSON nested beyond measure is refused, not a crash", () => {
    let deep: unknown = {};
    for (let level = 0; level < 200_000; level++) deep = { a: deep };
    const node = schemaFor("io.k8s.api.apps.v1.ControllerRevision");
    const options = { kindName: "ControllerRevision", apiVersion: "apps/v1", fieldValidation: "Strict" as const };
    expect(refusal(() => decodeObject(node, { data: deep }, options))).toContain("exceeded max depth");
  });
});

test("times of conditions and container states that were never set are null, as Kubernetes writes them", () => {
  const condition = { type: "Ready", status: "True" };
  const status = {
    conditions: [condition],
    containerStatuses: [{ name: "c", image: "i", state: { running: {} } }],
  };
  const { object } = decodePod({ metadata: { name: "p" }, spec: { containers: [container] }, status });
  expect(object).toMatchObject({
    status: {
      conditions: [{ ...condition, lastProbeTime: null, lastTransitionTime: null }],
      containerStatuses: [{ state: { running: { startedAt: null } } }],
    },
  });
});
