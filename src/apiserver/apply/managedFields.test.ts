import { describe, expect, test } from "vitest";
import type { KubeObject, ManagedFieldsEntry } from "../../model/objects/object.ts";
import { StatusError } from "../../model/objects/status.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { decodeObject } from "../schema/decode.ts";
import { applyPatch } from "./applyPatch.ts";
import { describePath, fromFieldsV1, pathsOf } from "./fieldSet.ts";
import { resetSpec, resetStatus, updateManagedFields } from "./managedFields.ts";

// Built-in kinds, written as the verbs write them. Decoding stands for decoding and defaults.

const definitions: Record<string, string> = {
  Pod: "io.k8s.api.core.v1.Pod",
  Service: "io.k8s.api.core.v1.Service",
  ConfigMap: "io.k8s.api.core.v1.ConfigMap",
  Deployment: "io.k8s.api.apps.v1.Deployment",
};

type Loose = Record<string, unknown>;

function decode(object: unknown): KubeObject {
  const { kind, apiVersion } = object as KubeObject;
  const schema = schemaFor(definitions[kind]!);
  return decodeObject(schema, object, { kindName: kind, apiVersion, fieldValidation: "Ignore" }).object;
}

let seconds = 0;
function now(): string {
  seconds++;
  return `2026-01-01T00:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}Z`;
}

function write(
  live: KubeObject | undefined,
  sent: unknown,
  manager: string,
  subresource = "",
  time = now(),
): KubeObject {
  const next = decode(sent);
  const managedFields = updateManagedFields({
    schema: schemaFor(definitions[next.kind]!),
    live,
    next,
    manager,
    apiVersion: next.apiVersion,
    subresource,
    time,
    resetFields: subresource === "status" ? resetSpec : resetStatus,
  });
  if (managedFields === undefined) delete next.metadata.managedFields;
  else next.metadata.managedFields = managedFields;
  next.metadata.uid = "u";
  return next;
}

function apply(live: KubeObject | undefined, config: unknown, manager: string, force = false): KubeObject {
  const { apiVersion, kind } = config as KubeObject;
  const { object, managedFields } = applyPatch({
    schema: schemaFor(definitions[kind]!),
    live,
    config: config as KubeObject,
    manager,
    force,
    apiVersion,
    subresource: "",
    time: now(),
    resetFields: resetStatus,
    decode,
  });
  const next = decode(object);
  if (managedFields !== undefined) next.metadata.managedFields = managedFields;
  next.metadata.uid = "u";
  return next;
}

function entry(object: KubeObject, manager: string): ManagedFieldsEntry | undefined {
  return object.metadata.managedFields?.find((one) => one.manager === manager);
}

function owned(object: KubeObject, manager: string): string[] {
  return pathsOf(fromFieldsV1(entry(object, manager)?.fieldsV1)).map(describePath);
}

function refusal(act: () => unknown): StatusError {
  try {
    act();
  } catch (error) {
    if (error instanceof StatusError) return error;
    throw error;
  }
  throw new Error("was not refused");
}

const pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "web", namespace: "default", labels: { run: "web" } },
  spec: {
    containers: [{ name: "web", image: "nginx", imagePullPolicy: "Always", resources: {} }],
    dnsPolicy: "ClusterFirst",
    enableServiceLinks: true,
    restartPolicy: "Always",
    schedulerName: "default-scheduler",
    securityContext: {},
    terminationGracePeriodSeconds: 30,
  },
  status: { phase: "Pending" },
};

const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: "default" },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: "web" } },
    template: {
      metadata: { labels: { app: "web" } },
      spec: { containers: [{ name: "web", image: "nginx:1", ports: [{ containerPort: 80 }] }] },
    },
  },
};

function scaled(replicas: number): unknown {
  return { ...deployment, spec: { ...deployment.spec, replicas } };
}

describe("ownership after a create", () => {
  test("a pod's is what a cluster writes", () => {
    const created = write(undefined, pod, "kubectl-run", "", "2026-01-01T00:00:00Z");
    expect(JSON.stringify(created.metadata.managedFields)).toBe(
      JSON.stringify([
        {
          manager: "kubectl-run",
          operation: "Update",
          apiVersion: "v1",
          time: "2026-01-01T00:00:00Z",
          fieldsType: "FieldsV1",
          fieldsV1: {
            "f:metadata": { "f:labels": { ".": {}, "f:run": {} } },
            "f:spec": {
              "f:containers": {
                'k:{"name":"web"}': {
                  ".": {},
                  "f:image": {},
                  "f:imagePullPolicy": {},
                  "f:name": {},
                  "f:resources": {},
                },
              },
              "f:dnsPolicy": {},
              "f:enableServiceLinks": {},
              "f:restartPolicy": {},
              "f:schedulerName": {},
              "f:securityContext": {},
              "f:terminationGracePeriodSeconds": {},
            },
          },
        },
      ]),
    );
  });

  test("a deployment brings its labels into being, but not its template, which every deployment has", () => {
    expect(owned(write(undefined, deployment, "kubectl-create"), "kubectl-create")).toEqual([
      ".spec.replicas",
      ".spec.selector",
      ".spec.template.metadata.labels",
      ".spec.template.metadata.labels.app",
      '.spec.template.spec.containers[name="web"]',
      '.spec.template.spec.containers[name="web"].image',
      '.spec.template.spec.containers[name="web"].name',
      '.spec.template.spec.containers[name="web"].ports',
      '.spec.template.spec.containers[name="web"].resources',
      '.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"]',
      '.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort',
    ]);
  });

  test("a service has its ports by number and protocol, and its selector as one field", () => {
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web" },
      spec: { selector: { app: "web" }, ports: [{ port: 80, protocol: "TCP", targetPort: 8080 }], type: "ClusterIP" },
    };
    expect(owned(write(undefined, service, "m"), "m")).toEqual([
      ".spec.ports",
      ".spec.selector",
      ".spec.type",
      '.spec.ports[port=80,protocol="TCP"]',
      '.spec.ports[port=80,protocol="TCP"].port',
      '.spec.ports[port=80,protocol="TCP"].protocol',
      '.spec.ports[port=80,protocol="TCP"].targetPort',
    ]);
  });

  test("an object with nothing but a name has no owner", () => {
    const bare = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "x", namespace: "default" } };
    expect(write(undefined, bare, "m").metadata).not.toHaveProperty("managedFields");
  });

  test("equal objects share their field sets", () => {
    const a = write(undefined, pod, "m");
    const b = write(undefined, { ...pod, metadata: { ...pod.metadata, name: "other" } }, "n");
    expect(entry(a, "m")?.fieldsV1).toBe(entry(b, "n")?.fieldsV1);
  });
});

test("keys that never repeat cost memory only for a while, and are tracked all the same", () => {
  for (let i = 0; i < 10_000; i++) {
    const labels = { [`unique-${i}`]: "x", b: "y" };
    const object = { ...pod, metadata: { name: "web", labels } };
    if (i % 1000 === 0) {
      expect(entry(write(undefined, object, "m"), "m")?.fieldsV1).toMatchObject({
        "f:metadata": { "f:labels": { ".": {}, "f:b": {}, [`f:unique-${i}`]: {} } },
      });
    } else write(undefined, object, "m");
  }
});

describe("ownership after an update", () => {
  const created = write(undefined, pod, "kubectl-run");

  test("a status has an owner of its own, and the creator loses nothing", () => {
    const status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    const running = write(created, { ...created, status }, "kubelet", "status");
    expect(owned(running, "kubelet")).toEqual([
      ".status.conditions",
      ".status.phase",
      '.status.conditions[type="Ready"]',
      // The server has written null for them, so they are owned as well.
      '.status.conditions[type="Ready"].lastProbeTime',
      '.status.conditions[type="Ready"].lastTransitionTime',
      '.status.conditions[type="Ready"].status',
      '.status.conditions[type="Ready"].type',
    ]);
    expect(entry(running, "kubelet")).toMatchObject({ operation: "Update", subresource: "status" });
    expect(entry(running, "kubectl-run")).toBe(entry(created, "kubectl-run"));
  });

  test("a value that changes again changes the time, not the fields", () => {
    const first = write(created, { ...created, status: { phase: "Running" } }, "kubelet", "status");
    const second = write(first, { ...first, status: { phase: "Failed" } }, "kubelet", "status");
    expect(entry(second, "kubelet")?.fieldsV1).toBe(entry(first, "kubelet")?.fieldsV1);
    expect(entry(second, "kubelet")?.time).not.toBe(entry(first, "kubelet")?.time);
  });

  test("an update that changes nothing leaves the list as it is", () => {
    const again = updateManagedFields({
      schema: schemaFor(definitions["Pod"]!),
      live: created,
      next: structuredClone(created),
      manager: "other",
      apiVersion: "v1",
      subresource: "",
      time: now(),
    });
    expect(again).toBe(created.metadata.managedFields);
  });

  test("fields that a main endpoint resets are not owned", () => {
    const next = write(created, { ...created, status: { phase: "Failed" } }, "liar");
    expect(entry(next, "liar")).toBeUndefined();
  });

  test("applies are listed before updates, and these by time", () => {
    let object = write(undefined, deployment, "z");
    object = write(object, { ...object, metadata: { ...object.metadata, labels: { a: "b" } } }, "a");
    object = apply(object, { ...deployment, spec: { minReadySeconds: 5 } }, "applier");
    expect(object.metadata.managedFields?.map(({ manager }) => manager)).toEqual(["applier", "z", "a"]);
  });

  test("of more than ten updaters the oldest are folded into one", () => {
    let object = write(undefined, { ...pod, metadata: { ...pod.metadata, labels: { l0: "x" } } }, "m0");
    for (let i = 1; i <= 12; i++) {
      const labels = { ...object.metadata.labels, [`l${i}`]: "x" };
      object = write(object, { ...object, metadata: { ...object.metadata, labels } }, `m${i}`);
    }
    const managers = object.metadata.managedFields?.map(({ manager }) => manager);
    expect(managers).toEqual(["ancient-changes", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11", "m12"]);
    expect(owned(object, "ancient-changes")).toEqual(
      expect.arrayContaining([".metadata.labels.l0", ".metadata.labels.l3"]),
    );
  });

  test("a list whose items have no names leaves ownership as it was", () => {
    const labels = { run: "changed" };
    const containers = [{ name: "web", image: "nginx", env: [null] }];
    const next = {
      ...created,
      metadata: { ...created.metadata, labels },
      spec: { containers },
    } as KubeObject;
    const managedFields = updateManagedFields({
      schema: schemaFor(definitions["Pod"]!),
      live: created,
      next,
      manager: "m",
      apiVersion: "v1",
      subresource: "",
      time: now(),
    });
    expect(managedFields).toBe(created.metadata.managedFields);
  });
});

describe("what a client writes into managedFields", () => {
  const created = write(undefined, pod, "kubectl-run");
  const withSent = (managedFields: unknown) => ({ ...created, metadata: { ...created.metadata, managedFields } });
  const update = (sent: unknown, subresource = "") =>
    updateManagedFields({
      schema: schemaFor(definitions["Pod"]!),
      live: created,
      next: withSent(sent) as KubeObject,
      manager: "m",
      apiVersion: "v1",
      subresource,
      time: now(),
    });
  const theirs = {
    manager: "theirs",
    operation: "Apply",
    apiVersion: "v1",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:spec": { "f:restartPolicy": {}, "f:dnsPolicy": {} } },
  };

  test.each([
    { name: "nothing keeps the list", sent: undefined, managers: ["kubectl-run"] },
    { name: "null keeps the list", sent: null, managers: ["kubectl-run"] },
    { name: "an empty list forgets all owners", sent: [], managers: undefined },
    { name: "one empty entry forgets all owners", sent: [{}], managers: undefined },
    { name: "a list that can be read is taken", sent: [theirs], managers: ["theirs"] },
    {
      name: "an unknown operation keeps the list",
      sent: [{ ...theirs, operation: "Steal" }],
      managers: ["kubectl-run"],
    },
    { name: "a missing version keeps the list", sent: [{ ...theirs, apiVersion: "" }], managers: ["kubectl-run"] },
    { name: "a missing type keeps the list", sent: [{ ...theirs, fieldsType: undefined }], managers: ["kubectl-run"] },
    { name: "unreadable fields keep the list", sent: [{ ...theirs, fieldsV1: { x: 1 } }], managers: ["kubectl-run"] },
  ])("$name", ({ sent, managers }) => {
    expect(update(sent)?.map(({ manager }) => manager)).toEqual(managers);
  });

  test("on a subresource it does not count", () => {
    expect(update([{}], "status")).toBe(created.metadata.managedFields);
  });

  test("fields are stored in our order", () => {
    expect(JSON.stringify(update([theirs])?.[0]?.fieldsV1)).toBe('{"f:spec":{"f:dnsPolicy":{},"f:restartPolicy":{}}}');
  });

  test("an object whose managedFields were reset is not tracked until the next apply", () => {
    const forgotten = write(created, withSent([{}]), "m");
    expect(forgotten.metadata).not.toHaveProperty("managedFields");
    const labels = { run: "other" };
    const updated = write(forgotten, { ...forgotten, metadata: { ...forgotten.metadata, labels } }, "m");
    expect(updated.metadata).not.toHaveProperty("managedFields");
    const config = { apiVersion: "v1", kind: "Pod", metadata: { name: "web", labels: { mine: "yes" } } };
    const applied = apply(updated, config, "applier");
    expect(applied.metadata.managedFields?.map(({ manager }) => manager)).toEqual(["applier", "before-first-apply"]);
    expect(owned(applied, "before-first-apply")).toContain(".metadata.labels.run");
    expect(owned(applied, "applier")).toEqual([".metadata.labels.mine"]);
  });
});

describe("kubectl apply --server-side", () => {
  test("creates, owns the fields of the file, and is a no-op the second time", () => {
    const created = apply(undefined, deployment, "kubectl");
    expect(owned(created, "kubectl")).toEqual([
      ".spec.replicas",
      ".spec.selector",
      ".spec.template.metadata.labels.app",
      '.spec.template.spec.containers[name="web"]',
      '.spec.template.spec.containers[name="web"].image',
      '.spec.template.spec.containers[name="web"].name',
      '.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"]',
      '.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort',
    ]);
    expect(apply(created, deployment, "kubectl")).toEqual(created);
  });

  test("a default that the server added can be applied explicitly", () => {
    const created = apply(undefined, deployment, "kubectl");
    const spec = created["spec"] as { template: { spec: { containers: Loose[] } } };
    (spec.template.spec.containers[0]!["ports"] as Loose[])[0]!["protocol"] = "TCP";
    const again = apply(created, deployment, "kubectl");
    expect(again.metadata.managedFields).toBe(created.metadata.managedFields);
    expect(again["spec"]).toEqual(created["spec"]);
  });

  test("a second applier is refused with one line, and takes the field with --force-conflicts", () => {
    const created = apply(undefined, deployment, "kubectl");
    const error = refusal(() => apply(created, scaled(3), "other"));
    expect(error.status.message).toBe('Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas');
    expect(error.status.details).toEqual({
      causes: [{ reason: "FieldManagerConflict", message: 'conflict with "kubectl"', field: ".spec.replicas" }],
    });
    const forced = apply(created, scaled(3), "other", true);
    expect((forced["spec"] as Loose)["replicas"]).toBe(3);
    expect(owned(forced, "other")).toContain(".spec.replicas");
    expect(owned(forced, "kubectl")).not.toContain(".spec.replicas");
    expect(owned(forced, "kubectl")).toContain(".spec.selector");
  });

  test("zero values and other spellings are shared, not contested", () => {
    // A file may say what the types of a Deployment do not allow.
    const file = structuredClone(deployment) as unknown as {
      spec: { template: { metadata: Loose; spec: Loose & { containers: Loose[] } } };
    };
    file.spec.template.metadata["creationTimestamp"] = null;
    file.spec.template.spec["hostNetwork"] = false;
    file.spec.template.spec.containers[0]!["resources"] = { limits: { cpu: "1000m" } };
    const created = apply(undefined, file, "one");
    const shared = apply(created, file, "two");
    expect(shared["spec"]).toEqual(created["spec"]);
    expect(owned(shared, "one")).toEqual(owned(shared, "two"));
    expect(owned(shared, "one")).toEqual(
      expect.arrayContaining([".spec.template.metadata.creationTimestamp", ".spec.template.spec.hostNetwork"]),
    );
    expect(apply(shared, file, "one").metadata.managedFields).toBe(shared.metadata.managedFields);
  });

  test("a field that a controller took over can be given up without a change", () => {
    const created = apply(undefined, deployment, "kubectl");
    const hpa = write(created, { ...created, spec: { ...(created["spec"] as Loose), replicas: 7 } }, "hpa", "scale");
    const error = refusal(() => apply(hpa, deployment, "kubectl"));
    expect(error.status.message).toBe(
      'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas',
    );
    const { replicas: _, ...rest } = deployment.spec;
    expect((apply(hpa, { ...deployment, spec: rest }, "kubectl")["spec"] as Loose)["replicas"]).toBe(7);
  });

  test("a container that is no longer in the file is removed, an injected one stays", () => {
    const two = structuredClone(deployment);
    two.spec.template.spec.containers.push({ name: "extra", image: "x", ports: [] });
    const created = apply(undefined, two, "kubectl");
    const spec = created["spec"] as { template: { spec: { containers: Loose[] } } };
    const containers = [...spec.template.spec.containers, { name: "injected", image: "envoy" }];
    const template = { ...spec.template, spec: { ...spec.template.spec, containers } };
    const injected = write(created, { ...created, spec: { ...spec, template } }, "injector");
    const applied = apply(injected, deployment, "kubectl");
    const left = (applied["spec"] as typeof spec).template.spec.containers.map((container) => container["name"]);
    expect(left).toEqual(["web", "injected"]);
  });

  test("two containers of one name are refused", () => {
    const twice = structuredClone(deployment);
    twice.spec.template.spec.containers.push(twice.spec.template.spec.containers[0]!);
    expect(refusal(() => apply(undefined, twice, "kubectl")).status.message).toBe(
      "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): " +
        '.spec.template.spec.containers: duplicate entries for key [name="web"]',
    );
  });
});

describe("the way from client-side to server-side apply", () => {
  const key = "kubectl.kubernetes.io/last-applied-configuration";
  const note = (object: unknown) => `${JSON.stringify(object)}\n`;
  const clientSide = (object: unknown) => {
    const { metadata, ...rest } = object as KubeObject;
    const annotated = { ...rest, metadata: { ...metadata, annotations: { [key]: note(object) } } };
    return write(undefined, annotated, "kubectl-client-side-apply");
  };

  test("kubectl may change fields of its last-applied annotation", () => {
    const live = clientSide(deployment);
    const applied = apply(live, scaled(5), "kubectl");
    expect((applied["spec"] as Loose)["replicas"]).toBe(5);
    expect(owned(applied, "kubectl")).toContain(".spec.replicas");
  });

  test("another manager may not on the strength of that annotation", () => {
    const error = refusal(() => apply(clientSide(deployment), scaled(5), "other"));
    expect(error.status.message).toBe(
      'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas',
    );
  });

  test("kubectl may not change what another manager changed since", () => {
    const live = clientSide(deployment);
    const edited = write(live, { ...live, spec: { ...(live["spec"] as Loose), replicas: 4 } }, "hpa");
    const error = refusal(() => apply(edited, scaled(5), "kubectl"));
    expect(error.status.message).toBe(
      'Apply failed with 1 conflict: conflict with "hpa" using apps/v1: .spec.replicas',
    );
  });

  test("the note follows what kubectl applies, with sorted keys", () => {
    const config = { kind: "ConfigMap", apiVersion: "v1", metadata: { name: "c" }, data: { b: "2", a: "1" } };
    const live = clientSide({ ...config, data: { a: "1" } });
    const applied = apply(live, config, "kubectl");
    expect(applied.metadata.annotations?.[key]).toBe(
      '{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap","metadata":{"name":"c"}}\n',
    );
    expect(apply(live, config, "other").metadata.annotations?.[key]).toBe(live.metadata.annotations?.[key]);
  });

  test("after kubectl rewrites the list, what the file drops is removed", () => {
    const live = clientSide(deployment);
    const applied = apply(live, deployment, "kubectl");
    const [own, old] = applied.metadata.managedFields!;
    expect([own!.manager, old!.manager]).toEqual(["kubectl", "kubectl-client-side-apply"]);
    // What kubectl sends: the two entries joined under the applier.
    const joined = { ...old!, manager: "kubectl", operation: "Apply" as const };
    const migrated = write(
      applied,
      { ...applied, metadata: { ...applied.metadata, managedFields: [joined] } },
      "kubectl",
    );
    expect(migrated.metadata.managedFields?.map(({ manager, operation }) => [manager, operation])).toEqual([
      ["kubectl", "Apply"],
    ]);
    const { replicas: _, ...rest } = deployment.spec;
    const dropped = apply(migrated, { ...deployment, spec: rest }, "kubectl");
    expect((dropped["spec"] as Loose)["replicas"]).toBeUndefined();
  });
});
