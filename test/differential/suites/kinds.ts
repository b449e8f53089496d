/** The whole life of one object of every built-in kind. */
import type { Loose } from "../apiUnderTest.ts";
import { accepts, type Options, type Probe, patchTypes } from "../probe.ts";
import { type Subject, subjects } from "./objects.ts";

const dry = "dryRun=All";
const selected = "labelSelector=probe%3Dyes";

export async function kinds(probe: Probe): Promise<void> {
  await probe.namespace();
  for (const subject of subjects()) await life(probe, subject);
}

async function life(probe: Probe, { plural, path, object }: Subject): Promise<void> {
  const made = object("base");
  const name = (made["metadata"] as { name: string }).name;
  const one = `${path}/${name}`;
  const check = (what: string, method: string, at: string, body?: unknown, options?: Options) =>
    probe.compare(`${plural}: ${what}`, method, at, body, options);
  await probe.both("DELETE", `${one}?gracePeriodSeconds=0`);

  await check("dry run", "POST", `${path}?${dry}`, made);
  const doubled = `${JSON.stringify(made).slice(0, -1)}, "nope": 1, "kind": "${made["kind"]}"}`;
  for (const validation of ["Strict", "Warn", "Ignore"]) {
    await check(`unknown and duplicate ${validation}`, "POST", `${path}?${dry}&fieldValidation=${validation}`, doubled);
  }
  await check("create", "POST", `${path}?fieldManager=probe`, made);
  await check("create again", "POST", path, made);
  await check("create wrong kind", "POST", `${path}?${dry}`, { ...made, kind: "Nope" });
  await check("create without name", "POST", `${path}?${dry}`, { ...made, metadata: {} });
  await check("create other namespace", "POST", `${path}?${dry}`, {
    ...made,
    metadata: { name: "x", namespace: "other" },
  });

  await check("get", "GET", one);
  await check("get table", "GET", one, undefined, { headers: { Accept: accepts.table } });
  await check("get partial", "GET", one, undefined, { headers: { Accept: accepts.partial } });
  await check("list", "GET", `${path}?${selected}`);
  await check("list table", "GET", `${path}?${selected}`, undefined, { headers: { Accept: accepts.table } });
  await check("list partial", "GET", `${path}?${selected}`, undefined, { headers: { Accept: accepts.partials } });
  await check("list none", "GET", `${path}?labelSelector=zz`);
  await check("list table none", "GET", `${path}?labelSelector=zz`, undefined, { headers: { Accept: accepts.table } });
  await check("list by name", "GET", `${path}?fieldSelector=metadata.name%3D${name}`);
  await check("list limit", "GET", `${path}?limit=1&${selected}`);

  const stored = await probe.both("GET", one);
  if (stored.real.status !== 200 || stored.ours.status !== 200) return;
  await check("put unchanged", "PUT", one, stored.real.json, { ours: stored.ours.json });
  for (const [what, metadata] of Object.entries(changedMetadata)) {
    const change = (body: Loose) => ({ ...body, metadata: { ...body.metadata, ...metadata } });
    await check(`put ${what}`, "PUT", `${one}?${dry}`, change(stored.real.json), { ours: change(stored.ours.json) });
  }
  await check("put missing", "PUT", `${path}/missing?${dry}`, object("missing"));
  await check("patch missing", "PATCH", `${path}/missing?${dry}`, {}, { headers: patchTypes.merge });
  for (const patch of jsonPatches)
    await check(`json ${JSON.stringify(patch)}`, "PATCH", `${one}?${dry}`, patch, { headers: patchTypes.json });
  for (const type of ["merge", "strategic"] as const) {
    for (const patch of mergePatches) {
      const what = `${type} ${JSON.stringify(patch)}`;
      await check(what, "PATCH", `${one}?${dry}`, patch, { headers: patchTypes[type] });
    }
    for (const validation of ["Strict", "Warn"]) {
      const at = `${one}?${dry}&fieldValidation=${validation}`;
      await check(
        `${type} unknown ${validation}`,
        "PATCH",
        at,
        { zz: 1, metadata: { yy: 2 } },
        { headers: patchTypes[type] },
      );
    }
  }
  await applied(probe, { plural, path, object });
  await subresources(probe, { plural, path, object }, one, name);

  await check("delete wrong uid", "DELETE", one, { preconditions: { uid: "x" } });
  await check("delete dry", "DELETE", `${one}?${dry}`);
  await check("delete foreground dry", "DELETE", `${one}?${dry}&propagationPolicy=Foreground`);
  await check("delete", "DELETE", one, { propagationPolicy: "Background" });
  if (!/^(namespaces|persistentvolume.*)$/.test(plural)) await check("delete gone", "DELETE", one);
}

const changedMetadata: Record<string, Loose> = {
  label: { labels: { n: "v" } },
  "old version": { resourceVersion: "1" },
  "bad version": { resourceVersion: "x" },
  "no version": { resourceVersion: undefined },
  "other uid": { uid: "x" },
  "other name": { name: "other" },
  "bad label": { labels: { "-": "!" } },
  creationTimestamp: { creationTimestamp: "2020-01-01T00:00:00Z" },
  generation: { generation: 99 },
  deletionTimestamp: { deletionTimestamp: "2020-01-01T00:00:00Z" },
  finalizer: { finalizers: ["a.b/c"] },
  "bad finalizer": { finalizers: ["abc"] },
  owner: { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "x", uid: "y", controller: true }] },
  "bad owner": { ownerReferences: [{ apiVersion: "v1", kind: "", name: "x", uid: "y", controller: true }] },
  "managedFields []": { managedFields: [] },
  "managedFields bad": { managedFields: [{ manager: "x", operation: "Nope" }] },
};
const jsonPatches = [
  [{ op: "add", path: "/metadata/labels/q", value: "w" }],
  [{ op: "remove", path: "/metadata/nope/q" }],
  [{ op: "test", path: "/metadata/name", value: "zz" }],
  [{ op: "zz", path: "/a" }],
  { op: "add" },
  [{ op: "add", path: "/zz", value: 1 }],
];
const mergePatches = [
  { metadata: { labels: { q: "w" } } },
  {},
  { metadata: { labels: null } },
  { kind: "Nope" },
  { metadata: { name: "zz" } },
  { metadata: { labels: 5 } },
  { metadata: { labels: { a: 5 } } },
  { spec: null },
  { spec: "x" },
  [],
];

async function applied(probe: Probe, { plural, path, object }: Subject): Promise<void> {
  const made: Loose = object("applied");
  delete made.metadata.namespace;
  const { apiVersion, kind } = made;
  const name: string = made.metadata.name;
  const apply = (what: string, query: string, body: unknown) =>
    probe.compare(`${plural}: apply ${what}`, "PATCH", `${path}/${name}?${query}`, body, { headers: patchTypes.apply });
  const onlyLabel = { apiVersion, kind, metadata: { name, labels: { probe: "no" } } };
  await probe.both("DELETE", `${path}/${name}?gracePeriodSeconds=0`);
  await apply("create", "fieldManager=m1", made);
  await apply("again", "fieldManager=m1", made);
  await apply("label conflict", `fieldManager=m2&${dry}`, onlyLabel);
  await apply("label force", "fieldManager=m2&force=true", onlyLabel);
  await apply("gives up all", `fieldManager=m1&${dry}`, { apiVersion, kind, metadata: { name } });
  await apply("no manager", "", made);
  await apply("unknown", `fieldManager=m1&${dry}`, { ...made, zz: 1 });
  await apply("wrong kind", `fieldManager=m1&${dry}`, { ...made, kind: "Nope" });
  await apply("wrong name", `fieldManager=m1&${dry}`, { ...made, metadata: { name: "zz" } });
  await probe.both("DELETE", `${path}/${name}?gracePeriodSeconds=0`);
}

async function subresources(probe: Probe, { plural, object }: Subject, one: string, name: string): Promise<void> {
  for (const sub of ["status", "scale", "approval", "finalize", "resize", "ephemeralcontainers", "nope"]) {
    const at = `${one}/${sub}`;
    const { real, ours } = await probe.compare(`${plural}: get /${sub}`, "GET", at);
    if (real.status !== 200 || ours.status !== 200) continue;
    await probe.compare(`${plural}: put /${sub} unchanged`, "PUT", `${at}?${dry}`, real.json, { ours: ours.json });
    const patches = [
      {},
      { metadata: { annotations: { s: "t" } } },
      { spec: { replicas: 2 } },
      { status: { conditions: [{ type: "X", status: "True", lastTransitionTime: null, reason: "r", message: "m" }] } },
      { status: "x" },
      { spec: { replicas: -1 }, status: { replicas: -1, observedGeneration: -1 } },
    ];
    for (const patch of patches) {
      const what = `${plural}: merge /${sub} ${JSON.stringify(patch)}`;
      await probe.compare(what, "PATCH", `${at}?${dry}`, patch, { headers: patchTypes.merge });
    }
    const { apiVersion, kind } = real.json;
    const body = {
      apiVersion,
      kind,
      metadata: { name },
      ...(sub === "scale" ? { spec: { replicas: 1 } } : { status: {} }),
    };
    await probe.compare(`${plural}: apply /${sub}`, "PATCH", `${at}?${dry}&fieldManager=s`, body, {
      headers: patchTypes.apply,
    });
    await probe.compare(`${plural}: post /${sub}`, "POST", `${at}?${dry}`, object("base"));
  }
}
