/** Pages, watches, finalizers, deletion with grace, subresources of pods, addresses of services, types of secrets. */
import type { Loose } from "../apiUnderTest.ts";
import { accepts, namespace, type Probe, patchTypes } from "../probe.ts";

const inNamespace = `/api/v1/namespaces/${namespace}`;
const configMaps = `${inNamespace}/configmaps`;
const configMap = (name: string, metadata: object = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
});

export async function pages(probe: Probe): Promise<void> {
  await probe.namespace();
  await lists(probe);
  await finalizers(probe);
  for (const [name, spec] of Object.entries({ scheduled: { nodeName: "nonode" }, waiting: {} }))
    await pod(probe, name, spec);
  await services(probe);
  for (const [type, data] of secrets) {
    const body = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, type, data };
    await probe.compare(`secret ${type} ${JSON.stringify(data)}`, "POST", `${inNamespace}/secrets?dryRun=All`, body);
  }
}

async function lists(probe: Probe): Promise<void> {
  for (let at = 0; at < 5; at++)
    await probe.both("POST", configMaps, configMap(`pg${at}`, { labels: { pg: at % 2 === 0 ? "n" : "y" } }));
  let answers = await probe.compare("page 1", "GET", `${configMaps}?limit=2&labelSelector=pg`);
  for (let page = 2; page < 5; page++) {
    const [real, ours] = [answers.real.json?.metadata?.continue, answers.ours.json?.metadata?.continue];
    if (!real || !ours) break;
    const at = `${configMaps}?limit=2&labelSelector=pg&continue=`;
    const [a, b] = await Promise.all([
      probe.peers.real.send("GET", at + real),
      probe.peers.ours.send("GET", at + ours),
    ]);
    answers = { real: a, ours: b };
    probe.record(`page ${page}`, `GET ${at}`, undefined, answers);
  }
  const watches = [
    "",
    "&allowWatchBookmarks=true",
    "&resourceVersion=0",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
  ];
  const pairs = watches.flatMap((query) =>
    ["application/json", accepts.table, accepts.partial].map((accept) => ({ query, accept })),
  );
  await probe.all(pairs, ({ query, accept }) => {
    const at = `${configMaps}?watch=1&timeoutSeconds=1&labelSelector=pg%3Dy${query}`;
    return probe.compare(`watch${query} ${accept}`, "GET", at, undefined, { headers: { Accept: accept } });
  });
  await probe.compare("deletecollection", "DELETE", `${configMaps}?labelSelector=pg%3Dy`);
  await probe.compare("deletecollection with a limit", "DELETE", `${configMaps}?labelSelector=pg&limit=1`);
  await probe.both("DELETE", `${configMaps}?labelSelector=pg`);
}

async function finalizers(probe: Probe): Promise<void> {
  const one = `${configMaps}/fin`;
  const merge = { headers: patchTypes.merge };
  await probe.compare("finalizer: create", "POST", configMaps, configMap("fin", { finalizers: ["a.b/c"] }));
  await probe.compare("finalizer: delete", "DELETE", one);
  await probe.compare("finalizer: get", "GET", one);
  await probe.compare("finalizer: delete again", "DELETE", one);
  await probe.compare("finalizer: add", "PATCH", one, { metadata: { finalizers: ["a.b/c", "d.e/f"] } }, merge);
  await probe.compare("finalizer: create the same", "POST", configMaps, configMap("fin"));
  await probe.compare("finalizer: remove", "PATCH", one, { metadata: { finalizers: null } }, merge);
  await probe.compare("finalizer: gone", "GET", one);
  for (const propagationPolicy of ["Foreground", "Orphan", "Background"]) {
    await probe.both("POST", configMaps, configMap("fg", { finalizers: ["a.b/c"] }));
    await probe.compare(`delete ${propagationPolicy}`, "DELETE", `${configMaps}/fg`, { propagationPolicy });
    await probe.both("PATCH", `${configMaps}/fg`, { metadata: { finalizers: null } }, merge);
  }
}

async function pod(probe: Probe, name: string, spec: object): Promise<void> {
  const pods = `${inNamespace}/pods`;
  const one = `${pods}/${name}`;
  const ignore = /kube-api-access/;
  const strategic = { headers: patchTypes.strategic, ignore };
  const check = (what: string, method: string, at: string, body?: unknown, options: object = { ignore }) =>
    probe.compare(`pod ${name}: ${what}`, method, at, body, options);
  await probe.both("POST", pods, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      automountServiceAccountToken: false,
      nodeSelector: { none: "such" },
      containers: [{ name: "c", image: "x" }],
      ...spec,
    },
  });
  await check("evict dry", "POST", `${one}/eviction?dryRun=All`, {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name },
  });
  await check("evict another", "POST", `${one}/eviction`, {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name: "zz" },
  });
  await check("bind", "POST", `${one}/binding?dryRun=All`, {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name },
    target: { kind: "Node", name: "nn" },
  });
  await check("bind wrong", "POST", `${one}/binding?dryRun=All`, {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name },
    target: { kind: "Pod", name: "" },
  });
  for (const query of ["", "?container=zz", "?tailLines=-1&sinceSeconds=-5&limitBytes=0"])
    await check(`log${query}`, "GET", `${one}/log${query}`);
  await check(
    "ephemeral",
    "PATCH",
    `${one}/ephemeralcontainers?dryRun=All`,
    { spec: { ephemeralContainers: [{ name: "e", image: "x" }] } },
    strategic,
  );
  await check(
    "ephemeral wrong",
    "PATCH",
    `${one}/ephemeralcontainers?dryRun=All`,
    { spec: { ephemeralContainers: [{ name: "c", image: "", ports: [{ containerPort: 1 }] }] } },
    strategic,
  );
  await check(
    "resize",
    "PATCH",
    `${one}/resize?dryRun=All`,
    { spec: { containers: [{ name: "c", resources: { requests: { cpu: "2" } } }] } },
    strategic,
  );
  await check(
    "status",
    "PATCH",
    `${one}/status?dryRun=All`,
    { status: { phase: "Running", podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] } },
    strategic,
  );
  await check("delete in 5 s", "DELETE", one, { gracePeriodSeconds: 5 });
  await check("delete at once", "DELETE", `${one}?gracePeriodSeconds=0`);
  await check("gone", "GET", one);
}

const serviceSpecs: Record<string, Loose> = {
  address: { clusterIP: "10.96.7.7" },
  "address taken": { clusterIP: "10.96.0.1" },
  "address outside": { clusterIP: "1.2.3.4" },
  headless: { clusterIP: "None" },
  "node port": { type: "NodePort", ports: [{ port: 80, nodePort: 30123 }] },
  "node port outside": { type: "NodePort", ports: [{ port: 80, nodePort: 80 }] },
  external: { type: "ExternalName", externalName: "a.b" },
  "external wrong": { type: "ExternalName", externalName: "A_" },
  "load balancer": {
    type: "LoadBalancer",
    loadBalancerSourceRanges: ["10.0.0.0/8"],
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 30200,
  },
  "dual stack": { ipFamilyPolicy: "RequireDualStack" },
  IPv6: { ipFamilies: ["IPv6"] },
  affinity: { sessionAffinity: "ClientIP" },
  "external addresses": { externalIPs: ["1.2.3.4", "127.0.0.1", "x"] },
  distribution: { trafficDistribution: "PreferClose" },
};

async function services(probe: Probe): Promise<void> {
  for (const [what, spec] of Object.entries(serviceSpecs)) {
    const body = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "sv" },
      spec: { ports: [{ port: 80 }], ...spec },
    };
    await probe.compare(`service ${what}`, "POST", `${inNamespace}/services?dryRun=All`, body, {
      ignore: /clusterIP|nodePort/,
    });
  }
}

const secrets: [string, Record<string, string>][] = [
  ["kubernetes.io/tls", {}],
  ["kubernetes.io/tls", { "tls.crt": "eA==", "tls.key": "eA==" }],
  ["kubernetes.io/dockerconfigjson", { ".dockerconfigjson": "eA==" }],
  ["kubernetes.io/dockerconfigjson", {}],
  ["kubernetes.io/basic-auth", {}],
  ["kubernetes.io/ssh-auth", {}],
  ["kubernetes.io/service-account-token", {}],
  ["bootstrap.kubernetes.io/token", {}],
  ["x", { "a b": "eA==" }],
  ["", { "..": "eA==" }],
];
