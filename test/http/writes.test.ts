import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apps, batch, namespaced, podTemplate, type ServedApi, serveApi } from "./servedApi.ts";

/** Which updates are accepted, which are rejected, and which increase the generation, as on a kube-apiserver. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

async function configMap(name: string): Promise<string> {
  const path = `${namespaced}/configmaps/${name}`;
  expect((await served.api.post(`${namespaced}/configmaps`, { metadata: { name } })).code).toBe(201);
  return path;
}

describe("a PUT", () => {
  test('accepts the resourceVersion "0" as any', async () => {
    const path = await configMap("zero");
    const sent = { metadata: { name: "zero", resourceVersion: "0" }, data: { a: "b" } };
    expect((await served.api.put(path, sent)).json).toMatchObject({ data: { a: "b" } });
  });

  test("with an empty list of managedFields resets them", async () => {
    const path = `${namespaced}/configmaps/unowned`;
    const body = { metadata: { name: "unowned" }, data: { a: "b" } };
    const made = await served.api.post(`${namespaced}/configmaps`, body);
    expect(made.json.metadata["managedFields"]).toHaveLength(1);
    const answer = await served.api.put(path, { ...body, metadata: { name: "unowned", managedFields: [] } });
    expect(answer.json.metadata["managedFields"]).toBeUndefined();
  });

  test("cannot set deletionTimestamp", async () => {
    const path = await configMap("marked");
    const metadata = { name: "marked", deletionTimestamp: "2020-01-01T00:00:00Z", deletionGracePeriodSeconds: 4 };
    const answer = await served.api.put(path, { metadata });
    expect(answer.code).toBe(422);
    expect(answer.json.message).toContain("metadata.deletionTimestamp: Invalid value");
    expect(answer.json.message).toContain("metadata.deletionGracePeriodSeconds: Invalid value: 4: field is immutable");
  });
});

describe("a pod that is written again from its own manifest", () => {
  const manifest = (name: string) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      tolerations: [{ key: "a", operator: "Exists" }],
      automountServiceAccountToken: false,
      containers: [{ name: "main", image: "app" }],
    },
  });

  test("is applied a second time", async () => {
    const path = `${namespaced}/pods/applied?fieldManager=me`;
    expect((await served.api.patch(path, "apply", manifest("applied"))).code).toBe(201);
    const again = await served.api.patch(path, "apply", manifest("applied"));
    expect([again.code, again.json.message]).toEqual([200, undefined]);
  });

  test("is replaced without its priority and preemption policy", async () => {
    const made = await served.api.post(`${namespaced}/pods`, manifest("replaced"));
    const { priority: _, preemptionPolicy: __, ...spec } = made.json["spec"] as Record<string, unknown>;
    const answer = await served.api.put(`${namespaced}/pods/replaced`, { ...made.json, spec });
    expect([answer.code, answer.json.message]).toEqual([200, undefined]);
    expect(answer.json["spec"]).toMatchObject({ priority: 0, preemptionPolicy: "PreemptLowerPriority" });
  });
});

describe("a Deployment", () => {
  const deployment = (name: string) => ({
    metadata: { name },
    spec: { replicas: 3, selector: { matchLabels: { a: name } }, template: podTemplate({ a: name }) },
  });

  test("has a new generation when its annotations change, and the same when its labels do", async () => {
    await served.api.post(`${apps}/deployments`, deployment("annotated"));
    const path = `${apps}/deployments/annotated`;
    const annotated = await served.api.patch(path, "merge", { metadata: { annotations: { a: "b" } } });
    expect(annotated.json.metadata["generation"]).toBe(2);
    const labelled = await served.api.patch(path, "merge", { metadata: { labels: { a: "b" } } });
    expect(labelled.json.metadata["generation"]).toBe(2);
  });

  test("takes annotations with a status, but no labels, and counts no generation for it", async () => {
    await served.api.post(`${apps}/deployments`, deployment("reported"));
    const metadata = { annotations: { a: "b" }, labels: { c: "d" } };
    const answer = await served.api.patch(`${apps}/deployments/reported/status`, "merge", { metadata });
    expect(answer.json.metadata).toMatchObject({ annotations: { a: "b" }, generation: 1 });
    expect(answer.json.metadata.labels).toBeUndefined();
  });

  test("refuses an applied scale that another manager owns, unless it is forced", async () => {
    await served.api.post(`${apps}/deployments?fieldManager=owner`, deployment("scaled"));
    const scale = { apiVersion: "autoscaling/v1", kind: "Scale", metadata: { name: "scaled" }, spec: { replicas: 1 } };
    const path = `${apps}/deployments/scaled/scale?fieldManager=scaler`;
    const refused = await served.api.patch(path, "apply", scale);
    expect(refused.code).toBe(409);
    expect(refused.json.message).toBe(
      'Apply failed with 1 conflict: conflict with "owner" using autoscaling/v1: .spec.replicas',
    );
    const forced = await served.api.patch(`${path}&force=true`, "apply", scale);
    expect([forced.code, forced.json["spec"]]).toEqual([200, { replicas: 1 }]);
    const { managedFields } = (await served.api.get(`${apps}/deployments/scaled`)).json.metadata as {
      managedFields?: { manager: string; operation: string; subresource?: string; fieldsV1: unknown }[];
    };
    expect(managedFields?.find(({ manager }) => manager === "scaler")).toMatchObject({
      operation: "Apply",
      subresource: "scale",
      fieldsV1: { "f:spec": { "f:replicas": {} } },
    });
  });
});

describe("metadata that is sent with a status", () => {
  test.each<[string, string, object]>([
    [
      "Job",
      `${batch}/jobs`,
      { spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "a", image: "b" }] } } } },
    ],
    ["Service", `${namespaced}/services`, { spec: { ports: [{ port: 80 }] } }],
    ["Namespace", "/api/v1/namespaces", {}],
    ["ResourceQuota", `${namespaced}/resourcequotas`, { spec: {} }],
  ])("of a %s is taken", async (_, collection, body) => {
    await served.api.post(collection, { metadata: { name: "noted" }, ...body });
    const metadata = { annotations: { a: "b" }, labels: { c: "d" } };
    const answer = await served.api.patch(`${collection}/noted/status`, "merge", { metadata });
    expect([answer.code, answer.json.message]).toEqual([200, undefined]);
    expect(answer.json.metadata).toMatchObject(metadata);
  });

  test("of a VolumeAttachment is not", async () => {
    const collection = "/apis/storage.k8s.io/v1/volumeattachments";
    const spec = { attacher: "a", nodeName: "n", source: { persistentVolumeName: "pv" } };
    await served.api.post(collection, { metadata: { name: "noted" }, spec });
    const metadata = { annotations: { a: "b" } };
    const answer = await served.api.patch(`${collection}/noted/status`, "merge", { metadata });
    expect(answer.json.metadata["annotations"]).toBeUndefined();
  });
});

test("a binding is no new generation of the pod", async () => {
  const made = await served.api.post(`${namespaced}/pods`, {
    metadata: { name: "bound" },
    spec: { containers: [{ name: "main", image: "app" }] },
  });
  expect(made.json.metadata["generation"]).toBe(1);
  await served.api.post(`${namespaced}/pods/bound/binding`, { metadata: { name: "bound" }, target: { name: "n1" } });
  const bound = (await served.api.get(`${namespaced}/pods/bound`)).json;
  expect(bound["spec"]).toMatchObject({ nodeName: "n1" });
  expect(bound.metadata["generation"]).toBe(1);
});

test("a Job without labels has those of its template, by which kubectl finds it", async () => {
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "a", image: "b" }] } };
  await served.api.post(`${batch}/jobs`, { metadata: { name: "found" }, spec: { template } });
  const list = await served.api.get(`${batch}/jobs?labelSelector=job-name%3Dfound`);
  expect(list.json.items.map(({ metadata }) => metadata.name)).toEqual(["found"]);
  expect(Object.keys(list.json.items[0]?.metadata.labels ?? {}).sort()).toEqual([
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
  ]);
});

describe("the service account of a pod", () => {
  const pod = (name: string, spec: object = {}): object => ({
    metadata: { name },
    spec: { containers: [{ name: "main", image: "app" }], ...spec },
  });
  const dryRun = `${namespaced}/pods?dryRun=All`;

  test("is the default one, whose token is in every container", async () => {
    const { json } = await served.api.post(dryRun, pod("plain"));
    const spec = json["spec"] as {
      serviceAccountName: string;
      serviceAccount: string;
      volumes: { name: string; projected: { sources: object[] } }[];
      containers: { volumeMounts: object[] }[];
    };
    expect([spec.serviceAccountName, spec.serviceAccount]).toEqual(["default", "default"]);
    const [volume] = spec.volumes;
    expect(volume?.name).toMatch(/^kube-api-access-[a-z0-9]{5}$/);
    expect(volume?.projected.sources[0]).toEqual({ serviceAccountToken: { expirationSeconds: 3607, path: "token" } });
    const mountPath = "/var/run/secrets/kubernetes.io/serviceaccount";
    expect(spec.containers[0]?.volumeMounts).toEqual([{ name: volume?.name, readOnly: true, mountPath }]);
  });

  test("has to exist", async () => {
    const answer = await served.api.post(dryRun, pod("lost", { serviceAccountName: "none" }));
    expect(answer.code).toBe(403);
    expect(answer.json.message).toContain(
      'error looking up service account default/none: serviceaccount "none" not found',
    );
  });

  test("is mounted without a token where the pod or the account opts out, and adds its pull secrets", async () => {
    const body = {
      metadata: { name: "quiet" },
      automountServiceAccountToken: false,
      imagePullSecrets: [{ name: "p" }],
    };
    await served.api.post(`${namespaced}/serviceaccounts`, body);
    const quiet = await served.api.post(dryRun, pod("quiet", { serviceAccountName: "quiet" }));
    expect(quiet.json["spec"]).toMatchObject({ imagePullSecrets: [{ name: "p" }] });
    expect(quiet.json["spec"]).not.toHaveProperty("volumes");
    const off = await served.api.post(dryRun, pod("off", { automountServiceAccountToken: false }));
    expect(off.json["spec"]).not.toHaveProperty("volumes");
  });
});

test("a rejected request has no warnings", async () => {
  const answer = await served.api.post(`${batch}/jobs?dryRun=All`, {
    metadata: { name: "a.b" },
    spec: { template: { spec: { containers: [{ name: "a", image: "b" }] } } },
  });
  expect([answer.code, answer.headers["warning"]]).toEqual([422, undefined]);
});

describe("fields that are unknown or duplicate", () => {
  const text = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"strict","zz":1},"spec":{"unknownField":"u","replicas":1,"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b","nope":1,"image":"c"}]}}}}`;

  test("are reported in the order of the text", async () => {
    const path = `${apps}/deployments?fieldValidation=Strict&dryRun=All`;
    const answer = await served.api.call("POST", path, undefined, {
      raw: text,
      headers: { "content-type": "application/json" },
    });
    expect(answer.json.message).toContain(
      'strict decoding error: unknown field "metadata.zz", unknown field "spec.unknownField", duplicate field "spec.replicas", unknown field "spec.template.spec.containers[0].nope", duplicate field "spec.template.spec.containers[0].image"',
    );
  });

  test("cannot be applied", async () => {
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "strict" }, nope: 1 };
    const path = `${namespaced}/configmaps/strict?fieldValidation=Strict&fieldManager=me`;
    const answer = await served.api.patch(path, "apply", config);
    expect([answer.code, answer.json.message]).toEqual([
      500,
      "failed to create typed patch object (/strict; /v1, Kind=ConfigMap): .nope: field not declared in schema",
    ]);
  });
});
