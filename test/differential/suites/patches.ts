/** Strategic merge, merge, JSON patch and apply on one Deployment with lists of every sort. */
import type { Loose } from "../apiUnderTest.ts";
import { namespace, type Probe, patchTypes } from "../probe.ts";

const collection = `/apis/apps/v1/namespaces/${namespace}/deployments`;
const container = {
  name: "c1",
  image: "x",
  args: ["a", "b"],
  ports: [{ containerPort: 80 }, { containerPort: 80, protocol: "UDP" }],
  env: [
    { name: "A", value: "1" },
    { name: "B", value: "2" },
  ],
  volumeMounts: [
    { name: "v1", mountPath: "/a" },
    { name: "v2", mountPath: "/b" },
  ],
};
const podSpec = {
  nodeSelector: { q: "r" },
  imagePullSecrets: [{ name: "i1" }, { name: "i2" }],
  hostAliases: [{ ip: "1.1.1.1", hostnames: ["h"] }],
  tolerations: [{ key: "t" }],
  volumes: [
    { name: "v1", emptyDir: {} },
    { name: "v2", configMap: { name: "c" } },
  ],
  containers: [container, { name: "c2", image: "y" }],
};
const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "pp", finalizers: ["a.b/c", "d.e/f"], annotations: { x: "y" } },
  spec: {
    replicas: 0,
    paused: true,
    selector: { matchLabels: { a: "pp" } },
    strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } },
    template: { metadata: { labels: { a: "pp" } }, spec: podSpec },
  },
};
const inTemplate = (spec: object) => ({ spec: { template: { spec } } });
const inContainer = (fields: object) => inTemplate({ containers: [{ name: "c1", ...fields }] });

const merges: unknown[] = [
  inContainer({ image: "new" }),
  inTemplate({ containers: [{ name: "c3", image: "z" }] }),
  inContainer({ $patch: "delete" }),
  inTemplate({ containers: [{ $patch: "replace" }, { name: "only", image: "o" }] }),
  inTemplate({ containers: [{ image: "noname" }] }),
  inTemplate({ containers: null }),
  inTemplate({ containers: [] }),
  inTemplate({
    "$setElementOrder/containers": [{ name: "c2" }, { name: "c1" }],
    containers: [{ name: "c1", image: "n" }],
  }),
  inTemplate({ "$setElementOrder/containers": [{ name: "c2" }], containers: [{ name: "c1", image: "n" }] }),
  inContainer({ args: ["z"] }),
  inContainer({ env: [{ name: "A", value: null }] }),
  inContainer({ env: [{ name: "B", $patch: "delete" }] }),
  inContainer({ ports: [{ containerPort: 80, name: "http" }] }),
  inContainer({ ports: [{ containerPort: 80, $patch: "delete" }] }),
  inContainer({ volumeMounts: [{ mountPath: "/a", $patch: "delete" }] }),
  inContainer({ volumeMounts: [{ mountPath: "/c", name: "v1" }] }),
  inTemplate({ volumes: [{ name: "v1", configMap: { name: "q" } }] }),
  inTemplate({ volumes: [{ name: "v1", $retainKeys: ["name", "configMap"], configMap: { name: "q" } }] }),
  inTemplate({ tolerations: [{ key: "new" }] }),
  inTemplate({ hostAliases: [{ ip: "1.1.1.1", hostnames: ["z"] }, { ip: "2.2.2.2" }] }),
  inTemplate({ imagePullSecrets: [{ name: "i1", $patch: "delete" }] }),
  inTemplate({ nodeSelector: { s: "t" } }),
  inTemplate({ nodeSelector: { $patch: "replace", s: "t" } }),
  inTemplate({ nodeSelector: null }),
  { spec: { strategy: { type: "Recreate" } } },
  { spec: { strategy: { $retainKeys: ["type"], type: "Recreate" } } },
  { spec: { strategy: { type: "Recreate", rollingUpdate: null } } },
  { metadata: { finalizers: ["d.e/f", "g.h/i"] } },
  { metadata: { "$deleteFromPrimitiveList/finalizers": ["a.b/c"] } },
  { metadata: { "$setElementOrder/finalizers": ["d.e/f", "a.b/c"] } },
  { metadata: { finalizers: [{ $patch: "replace" }] } },
  { spec: { selector: { matchLabels: { new: "x" } } } },
  { spec: { replicas: "3" } },
  { spec: { replicas: null } },
  inTemplate({ containers: "x" }),
  inTemplate({ containers: [1] }),
  inTemplate({ containers: { name: "c1" } }),
  { $patch: "delete" },
  { $patch: "replace", metadata: { name: "pp" } },
  { spec: { $patch: "merge", replicas: 1 } },
  { spec: { $patch: "zz" } },
  { spec: { $retainKeys: "x" } },
  inTemplate({ "$deleteFromPrimitiveList/containers": ["c1"] }),
  { "$setElementOrder/nope": [] },
  { status: { replicas: 5 } },
  { metadata: { managedFields: null } },
  { metadata: { managedFields: [{}] } },
  { metadata: { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "o", uid: "u" }] } },
  { kind: "Nope" },
  null,
];
const operations: unknown[] = [
  [{ op: "add", path: "/spec/template/spec/containers/-", value: { name: "z", image: "z" } }],
  [{ op: "add", path: "/spec/template/spec/containers/9", value: {} }],
  [{ op: "remove", path: "/spec/template/spec/containers/1" }],
  [{ op: "remove", path: "/spec/template/spec/containers/-1" }],
  [{ op: "remove", path: "/spec/template/spec/containers/x" }],
  [{ op: "replace", path: "/spec/replicas", value: 5 }],
  [{ op: "replace", path: "/spec/replicas", value: "5" }],
  [{ op: "replace", path: "/spec/nope", value: 5 }],
  [{ op: "remove", path: "/spec/nope" }],
  [{ op: "move", from: "/metadata/annotations/x", path: "/metadata/annotations/y" }],
  [{ op: "move", from: "/metadata/none", path: "/metadata/annotations/y" }],
  [{ op: "copy", from: "/metadata/annotations/x", path: "/metadata/annotations/a~1b" }],
  [{ op: "copy", from: "/none", path: "/metadata/annotations/y" }],
  [{ op: "test", path: "/spec/replicas", value: 0 }],
  [{ op: "test", path: "/spec/replicas", value: 1 }],
  [{ op: "test", path: "/none", value: null }],
  [{ op: "test", path: "/none/deeper", value: null }],
  [{ op: "add", path: "", value: {} }],
  [{ op: "replace", path: "", value: { a: 1 } }],
  [{ op: "add", path: "/spec/replicas" }],
  [{ path: "/spec/replicas", value: 1 }],
  [{ op: "add", value: 1 }],
  [{ op: "remove" }],
  [1],
  ["x"],
  [null],
  [{ op: 5, path: "/a" }],
  [],
  [{ op: "add", path: "/metadata/resourceVersion", value: "1" }],
  [{ op: "remove", path: "/spec" }],
  [{ op: "remove", path: "/metadata" }],
  [{ op: "replace", path: "/kind", value: "X" }],
  null,
];

export async function patches(probe: Probe): Promise<void> {
  await probe.namespace();
  const one = `${collection}/pp`;
  const clear = async (name: string) => {
    await probe.both(
      "PATCH",
      `${collection}/${name}`,
      { metadata: { finalizers: null } },
      { headers: patchTypes.merge },
    );
    await probe.both("DELETE", `${collection}/${name}`);
  };
  await clear("pp");
  await probe.both("POST", collection, deployment);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const ignore = /managedFields|^\.status\b|deployment\.kubernetes/;
  const send = (type: keyof typeof patchTypes, body: unknown, query = "") =>
    probe.compare(
      `${type}: ${JSON.stringify(body).slice(0, 110)}${query}`,
      "PATCH",
      `${one}?dryRun=All${query}`,
      body,
      { headers: patchTypes[type], ignore },
    );
  for (const body of merges) await send("strategic", body);
  for (const body of merges) await send("merge", body);
  for (const body of operations) await send("json", body);
  for (const query of ["&fieldValidation=Strict", "&fieldValidation=Warn"]) {
    for (const body of [
      inContainer({ zz: 1 }),
      { spec: { zz: 1, template: { metadata: { yy: 1 } } } },
      '{"spec":{"paused":true,"paused":false}}',
    ]) {
      await send("strategic", body, query);
      await send("merge", body, query);
    }
    await send("json", '[{"op":"add","op":"add","path":"/spec/zz","value":1,"foo":2}]', query);
    await probe.compare(
      `put doubled ${query}`,
      "PUT",
      `${one}?dryRun=All${query}`,
      `${JSON.stringify(deployment).slice(0, -1)},"spec":{"zz":1},"yy":2}`,
      { ignore },
    );
  }
  await clear("pp");
  await applied(probe);
  await clear("ap");
}

/** What is owned, what conflicts and what goes when an applier no longer sends it. */
async function applied(probe: Probe): Promise<void> {
  const one = `${collection}/ap`;
  await probe.both("DELETE", one);
  const base = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "ap" },
    spec: {
      selector: { matchLabels: { a: "ap" } },
      replicas: 0,
      template: {
        metadata: { labels: { a: "ap" } },
        spec: { containers: [{ ...container, volumeMounts: undefined, ports: [{ containerPort: 80 }] }] },
      },
    },
  };
  const keep = (body: Loose) => {
    if (body?.metadata?.managedFields)
      body.metadata.managedFields = body.metadata.managedFields.filter(
        ({ subresource }: Loose) => subresource !== "status",
      );
    return body;
  };
  const options = { headers: patchTypes.apply, ignore: /^\.status\b|metadata\.annotations|observedGeneration/, keep };
  const apply = (what: string, manager: string, change: (body: Loose) => unknown = () => {}, query = "") => {
    const body: Loose = structuredClone(base);
    change(body);
    return probe.compare(`apply: ${what}`, "PATCH", `${one}?fieldManager=${manager}${query}`, body, options);
  };
  const first = (body: Loose) => body.spec.template.spec.containers[0];
  const dry = "&dryRun=All";
  await apply("create", "m1");
  await apply("same", "m1");
  await apply("same by another", "m2");
  await apply("env dropped by one", "m1", (body) => first(body).env.pop());
  await apply("env dropped by both", "m2", (body) => first(body).env.pop());
  await apply("new container", "m2", (body) => body.spec.template.spec.containers.push({ name: "c2", image: "y" }));
  await apply("container of another stays", "m1");
  await apply("own container goes", "m2");
  await apply("port twice", "m1", (body) => first(body).ports.push({ containerPort: 80 }), dry);
  await apply(
    "container twice",
    "m1",
    (body) => body.spec.template.spec.containers.push({ name: "c1", image: "z" }),
    dry,
  );
  await apply("container without name", "m1", (body) => body.spec.template.spec.containers.push({ image: "z" }), dry);
  await apply("image conflict", "m3", (body) => Object.assign(first(body), { image: "other" }));
  await apply("image force", "m3", (body) => Object.assign(first(body), { image: "other" }), "&force=true");
  await apply("null replicas", "m1", (body) => Object.assign(body.spec, { replicas: null }), dry);
  await apply("finalizers", "m2", (body) => Object.assign(body.metadata, { finalizers: ["r.t/y"] }));
  await apply("resources", "m1", (body) =>
    Object.assign(first(body), { image: "other", resources: { limits: { cpu: "1000m" } } }),
  );
  await apply("with uid", "m1", (body) => Object.assign(body.metadata, { uid: "zz" }), dry);
  await apply("with version", "m1", (body) => Object.assign(body.metadata, { resourceVersion: "1" }), dry);
  await apply("bad type", "m1", (body) => Object.assign(body.spec, { replicas: "x" }), dry);
  await apply("bad list", "m1", (body) => Object.assign(body.spec.template.spec, { containers: "x" }), dry);
  await apply("unknown deep", "m1", (body) => Object.assign(first(body), { zz: 1, yy: { q: 1 } }), dry);
  await probe.compare("apply: update takes over", "PATCH", `${one}?fieldManager=upd`, inContainer({ image: "upd" }), {
    ...options,
    headers: patchTypes.strategic,
  });
  await apply("conflict with an update", "m1");
  await apply("force over an update", "m1", () => {}, "&force=true");
}
