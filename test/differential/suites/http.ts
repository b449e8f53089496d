/** Errors of the protocol, media types, bodies that are wrong, options of lists and writes. */
import { namespace, type Probe, patchTypes } from "../probe.ts";

const inNamespace = `/api/v1/namespaces/${namespace}`;
const collection = `${inNamespace}/configmaps`;
const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "h1" }, data: { a: "b" } };
const named = (name: string) => ({ ...configMap, metadata: { name } });

const oddPaths = `
/nope /api/v2 /api/v1/nope /apis/nope /apis/nope/v1 /apis/apps/v2 /apis/apps/v1/nope ${inNamespace}/nope ${collection}/none
/api/v1/namespaces/none/configmaps /api/v1/namespaces/none/configmaps/x /api/v1/configmaps/h1 ${inNamespace}/nodes
${collection}/h1/status ${collection}/h1/nope ${collection}/h1/a/b /api/v1//namespaces /api/v1/namespaces/ ${inNamespace}/
${collection}/ ${inNamespace}/pods/none/log ${inNamespace}/pods/none/exec ${inNamespace}/pods/none/status ${collection}/H1
${collection}/a%2fb /api/v1/nodes/none/proxy/ ${inNamespace}/services/none/proxy/ /api/v1/componentstatuses /api/v1/bindings
/apis/authorization.k8s.io/v1/selfsubjectaccessreviews /apis/apps/v1/namespaces/${namespace}/deployments/none/scale
`
  .trim()
  .split(/\s+/);

export async function errors(probe: Probe): Promise<void> {
  await stage(probe);
  await probe.compare("create again", "POST", collection, configMap);
  for (const path of oddPaths) {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]) {
      // A trailing slash does not keep a real server from deleting the namespace.
      if (method === "DELETE" && path === `${inNamespace}/`) continue;
      const body = /^P/.test(method) ? configMap : undefined;
      const options = method === "PATCH" ? { headers: patchTypes.merge } : {};
      await probe.compare(`${method} ${path}`, method, path, body, options);
    }
  }
  const wrong = [
    ["POST", `${collection}/h1`],
    ["PUT", collection],
    ["DELETE", "/version"],
    ["POST", "/version"],
    ["POST", "/apis"],
    ["POST", "/healthz"],
    ["TRACE", collection],
    ["DELETE", "/api/v1/namespaces"],
  ] as const;
  for (const [method, path] of wrong)
    await probe.compare(`${method} ${path}`, method, path, /^P/.test(method) ? configMap : undefined);
  await stage(probe);
  const accepted = [
    "application/xml",
    "text/html",
    "*/*",
    "application/*",
    "",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Nope;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;q=0",
    "application/xml, application/json;q=0.1",
    "nonsense",
    null,
  ];
  const read = [
    `${collection}/h1`,
    `${collection}?fieldSelector=metadata.name=h1`,
    `${collection}/none`,
    `${collection}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=h1`,
    "/api/v1",
    "/version",
  ];
  const pairs = accepted.flatMap((accept) => read.map((path) => ({ accept, path })));
  await probe.all(pairs, ({ accept, path }) =>
    probe.compare(`accept ${accept} ${path}`, "GET", path, undefined, {
      headers: { Accept: accept },
      keep: (body) => (path === "/api/v1" ? body?.kind : body),
    }),
  );
}

const broken = [
  "",
  "{",
  "[]",
  "null",
  '"x"',
  "1",
  "{}",
  '{"kind":"ConfigMap"}',
  '{"apiVersion":"v1"}',
  '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"h1"}}',
  '{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"h1"}}',
  '{"apiVersion":"v1","kind":"Nope","metadata":{"name":"h1"}}',
  '{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"h1"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"}} trailing',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"},}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"},"data":{"a":1}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":null}',
  '{"apiVersion":1,"kind":"ConfigMap","metadata":{"name":"h1"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","name":"h3"}}',
  '{"APIVERSION":"v1","Kind":"ConfigMap","metadata":{"name":"h1"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","namespace":"other"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","resourceVersion":"5"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","resourceVersion":"abc"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","uid":"5"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1","creationTimestamp":"bad"}}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"},"immutable":"yes"}',
  '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"},"binaryData":{"a":"!!"}}',
  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h1}\n",
];

export async function bodies(probe: Probe): Promise<void> {
  await stage(probe);
  const invalidText = Buffer.concat([
    Buffer.from('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h1"},"data":{"a":"'),
    Buffer.from([255]),
    Buffer.from('"}}'),
  ]);
  for (const text of [...broken, invalidText]) {
    const shown = Buffer.isBuffer(text) ? "invalid UTF-8" : text.slice(0, 90);
    const body = Buffer.isBuffer(text) ? text : Buffer.from(text);
    await probe.compare(`post ${shown}`, "POST", `${collection}?dryRun=All`, body);
    await probe.compare(`put ${shown}`, "PUT", `${collection}/h1?dryRun=All`, body);
    for (const [kind, headers] of Object.entries(patchTypes)) {
      await probe.compare(`${kind} ${shown}`, "PATCH", `${collection}/h1?dryRun=All&fieldManager=m`, body, { headers });
    }
    await probe.compare(`delete ${shown}`, "DELETE", `${collection}/h1?dryRun=All`, body);
    await stage(probe);
  }
  const types = [
    "text/plain",
    "application/xml",
    "application/yaml",
    "application/json; charset=utf-8",
    "application/cbor",
    "",
    "nonsense",
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    null,
  ];
  for (const type of types) {
    const headers = { "Content-Type": type };
    await probe.compare(`content type ${type} post`, "POST", `${collection}?dryRun=All`, named("h2"), { headers });
    await probe.compare(`content type ${type} put`, "PUT", `${collection}/h1?dryRun=All`, configMap, { headers });
    await probe.compare(
      `content type ${type} patch`,
      "PATCH",
      `${collection}/h1?dryRun=All&fieldManager=m`,
      configMap,
      { headers },
    );
    await probe.compare(`content type ${type} delete`, "DELETE", `${collection}/h1`, { dryRun: ["All"] }, { headers });
    await stage(probe);
  }
  await probe.compare("data over 1 MiB", "POST", `${collection}?dryRun=All`, {
    ...named("h3"),
    data: { a: "x".repeat(1_100_000) },
  });
  await probe.compare("annotations over 256 KiB", "POST", `${collection}?dryRun=All`, {
    ...configMap,
    metadata: { name: "h3", annotations: { a: "x".repeat(300_000) } },
  });
}

const listQueries = [
  "limit=-1",
  "limit=x",
  "limit=0",
  "limit=1",
  "continue=x",
  "continue=&limit=1",
  "resourceVersion=x",
  "resourceVersion=-1",
  "resourceVersion=0",
  "resourceVersion=1",
  "resourceVersion=999999999",
  "resourceVersionMatch=Exact",
  "resourceVersionMatch=NotOlderThan",
  "resourceVersionMatch=Nope",
  "resourceVersion=0&resourceVersionMatch=Exact",
  "resourceVersion=0&resourceVersionMatch=NotOlderThan",
  "resourceVersion=1&resourceVersionMatch=Nope",
  "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
  "resourceVersion=5&continue=x",
  "labelSelector=a=b",
  "labelSelector=%3D",
  "labelSelector=a%20in%20(",
  "labelSelector=a!!b",
  "labelSelector=-a=b",
  "labelSelector=a>1",
  "labelSelector=a>x",
  "fieldSelector=nope=1",
  "fieldSelector=metadata.name",
  "fieldSelector=metadata.name!=h1&limit=1",
  "fieldSelector=metadata.name=a\\,b",
  "timeoutSeconds=x",
  "timeoutSeconds=-1",
  "timeout=invalid",
  "watch=x",
  "allowWatchBookmarks=x",
  "sendInitialEvents=true",
  "sendInitialEvents=true&watch=1&timeoutSeconds=1",
  "sendInitialEvents=true&watch=1&resourceVersionMatch=NotOlderThan&timeoutSeconds=1&fieldSelector=metadata.name=h1",
  "sendInitialEvents=true&watch=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1&fieldSelector=metadata.name=h1",
  "sendInitialEvents=true&watch=1&resourceVersionMatch=Exact&timeoutSeconds=1",
  "watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan",
  "watch=1&timeoutSeconds=1&resourceVersion=x",
  "watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name=h1",
  "watch=1&timeoutSeconds=1&continue=x",
  "watch=1&timeoutSeconds=1&limit=1&fieldSelector=metadata.name=h1",
  "watch=1&timeoutSeconds=1&fieldSelector=nope=1",
  "pretty=true&fieldSelector=metadata.name=h1",
  "unknown=1&fieldSelector=metadata.name=h1",
];
const writeQueries = [
  "dryRun=x",
  "dryRun=",
  "dryRun=All&dryRun=All",
  "dryRun=All&dryRun=x",
  `fieldManager=${"x".repeat(130)}`,
  "fieldManager=%01",
  "fieldManager=",
  "fieldValidation=x",
  "fieldValidation=Strict",
  "fieldValidation=",
  "force=true",
  "force=x",
  "nope=1",
  "timeout=invalid",
];
const deleteQueries = [
  "propagationPolicy=x",
  "propagationPolicy=Orphan&orphanDependents=true",
  "orphanDependents=x",
  "gracePeriodSeconds=x",
  "gracePeriodSeconds=-1",
  "gracePeriodSeconds=0",
  "dryRun=x",
  "preconditions=x",
];
const deleteBodies = [
  { preconditions: { uid: "x" } },
  { preconditions: { resourceVersion: "1" } },
  { apiVersion: "meta.k8s.io/v1", kind: "DeleteOptions", dryRun: ["All"] },
  { apiVersion: "nope/v1", kind: "DeleteOptions", dryRun: ["All"] },
  { apiVersion: "v1", kind: "Nope", dryRun: ["All"] },
  { propagationPolicy: "x" },
  { propagationPolicy: "Orphan", orphanDependents: true },
  { dryRun: ["x"] },
  { gracePeriodSeconds: "x" },
  { gracePeriodSeconds: -5, dryRun: ["All"] },
  { nope: 1, dryRun: ["All"] },
  { ignoreStoreReadErrorWithClusterBreakingPotential: true },
];

export async function listOptions(probe: Probe): Promise<void> {
  await stage(probe);
  await probe.all(listQueries, (query) =>
    probe.compare(`list ${query}`, "GET", `${collection}?${query}`, undefined, {
      keep: (body) =>
        Array.isArray(body?.items) && !/limit|fieldS/.test(query) ? { ...body, items: body.items.length } : body,
    }),
  );
  for (const query of [
    "resourceVersion=x",
    "resourceVersion=999999999",
    "resourceVersion=0",
    "resourceVersion=1",
    "resourceVersionMatch=Exact",
    "watch=1",
    "export=true",
    "timeout=invalid",
  ]) {
    await probe.compare(`get ${query}`, "GET", `${collection}/h1?${query}`);
  }
  for (const query of writeQueries) {
    const all = query.includes("dryRun") ? query : `dryRun=All&${query}`;
    const shown = query.slice(0, 40);
    await probe.compare(`post ${shown}`, "POST", `${collection}?${all}`, named("h4"));
    await probe.compare(`put ${shown}`, "PUT", `${collection}/h1?${all}`, configMap);
    await probe.compare(`merge ${shown}`, "PATCH", `${collection}/h1?${all}`, configMap, { headers: patchTypes.merge });
    await probe.compare(`apply ${shown}`, "PATCH", `${collection}/h1?${all}`, configMap, { headers: patchTypes.apply });
    await probe.both("DELETE", `${collection}/h4`);
  }
  for (const query of deleteQueries) {
    await probe.compare(
      `delete ${query}`,
      "DELETE",
      `${collection}/h1?${query.includes("dryRun") ? "" : "dryRun=All&"}${query}`,
    );
  }
  for (const body of deleteBodies) {
    await stage(probe);
    await probe.compare(`delete ${JSON.stringify(body)}`, "DELETE", `${collection}/h1`, body);
    await probe.compare(
      `deletecollection ${JSON.stringify(body)}`,
      "DELETE",
      `${collection}?fieldSelector=metadata.name=zzz`,
      body,
    );
  }
  await stage(probe);
  await probe.compare("delete", "DELETE", `${collection}/h1`);
  await probe.compare("delete again", "DELETE", `${collection}/h1`);
}

async function stage(probe: Probe): Promise<void> {
  await probe.namespace();
  await probe.both("DELETE", `${collection}/h1`);
  await probe.both("POST", collection, configMap);
}
