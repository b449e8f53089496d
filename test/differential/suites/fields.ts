/** Every field of every kind, from the OpenAPI of the real server, with several values each, as dry runs. */
import type { Loose } from "../apiUnderTest.ts";
import type { Probe } from "../probe.ts";
import { subjects } from "./objects.ts";

type Step = string | 0;
type Schemas = Record<string, Loose>;
const removed = Symbol("removed");
const long = "a".repeat(300);

export function kindFields(probe: Probe): Promise<void> {
  return created(probe, (plural) => plural !== "pods", 6);
}

export function podFields(probe: Probe): Promise<void> {
  return created(probe, (plural) => plural === "pods", 7);
}

async function created(probe: Probe, wanted: (plural: string) => boolean, depth: number): Promise<void> {
  await probe.namespace();
  const schemas = await readSchemas(probe);
  for (const { plural, path, object } of subjects().filter((subject) => wanted(subject.plural))) {
    const base: Loose = object("f");
    const tries = Object.entries(metadataValues).flatMap(([key, values]) =>
      values.map((value) => {
        const { name, ...rest } = base.metadata;
        const metadata = { ...(key === "generateName" ? rest : base.metadata), [key]: value };
        return { what: `metadata.${key}=${short(value)}`, body: { ...base, metadata } };
      }),
    );
    for (const { at, schema } of walk(schemas, schemaOf(schemas, base), depth)) {
      if (at[0] === "status" || !interesting(at)) continue;
      for (const value of [removed, ...valuesOf(schemas, schema)]) {
        const body = withValue(base, at, value);
        if (body === undefined || (value === removed && same(body, base))) continue;
        tries.push({ what: `${at.join(".")}${value === removed ? " removed" : `=${short(value)}`}`, body });
      }
    }
    await probe.all(tries, ({ what, body }) => probe.compare(`${plural}: ${what}`, "POST", `${path}?dryRun=All`, body));
  }
}

/** The same as PUT of an object that is there: what may change. */
export async function updatedFields(probe: Probe): Promise<void> {
  await probe.namespace();
  const schemas = await readSchemas(probe);
  for (const { plural, path, object } of subjects()) {
    if (plural.startsWith("events")) continue;
    const base: Loose = object("u");
    const one = `${path}/${base.metadata.name}`;
    await probe.both("POST", path, base);
    // Controllers have written their status by then.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const stored = await probe.both("GET", one);
    if (stored.real.status !== 200 || stored.ours.status !== 200) continue;
    const tries: { what: string; at: string; real: Loose; ours: Loose }[] = [];
    for (const { at, schema } of walk(schemas, schemaOf(schemas, base), plural === "pods" ? 6 : 5)) {
      if (!interesting(at)) continue;
      const values = valuesOf(schemas, schema);
      const telling = values
        .slice(1)
        .filter((value) => ["[]", "{}", "0", "-1", '"50%"', '"Nope"'].includes(JSON.stringify(value)));
      for (const value of [removed, values[0], ...telling.slice(0, 3)]) {
        const real = withValue(stored.real.json, at, value);
        const ours = withValue(stored.ours.json, at, value);
        if (real === undefined || ours === undefined || (same(real, stored.real.json) && same(ours, stored.ours.json)))
          continue;
        const what = `${at.join(".")}${value === removed ? " removed" : `=${short(value)}`}`;
        tries.push({ what, at: `${one}${at[0] === "status" ? "/status" : ""}?dryRun=All`, real, ours });
      }
    }
    await probe.all(tries, async ({ what, at, real, ours }) => {
      const ignore = at.includes("/status?") ? /managedFields/ : /managedFields|^\.status\b/;
      let answers = await probe.both("PUT", at, real, { ours });
      if (answers.real.status === 409 || answers.ours.status === 409) {
        // A controller has written since: the same change of the newest version.
        const now = await probe.both("GET", one);
        const sent = { ours: versioned(ours, now.ours.json) };
        answers = await probe.both("PUT", at, versioned(real, now.real.json), sent);
      }
      probe.record(`${plural}: update ${what}`, `PUT ${at}`, real, answers, { ignore });
    });
    await probe.both("DELETE", `${one}?gracePeriodSeconds=0`);
  }
}

function versioned(object: Loose, newest: Loose): Loose {
  const { resourceVersion } = newest?.metadata ?? {};
  return { ...object, metadata: { ...object.metadata, resourceVersion } };
}

const metadataValues: Record<string, unknown[]> = {
  name: ["A", "a_b", "a.b", "-a", "a".repeat(64), "a".repeat(254), "", "a/b", "a:b", "1a", "..", 5, "a..b"],
  generateName: ["g-", "G_", long],
  labels: [
    { a: "b".repeat(64) },
    { ["a".repeat(64)]: "b" },
    { "x/y/z": "b" },
    { "-": "" },
    { "A.b/c": "d" },
    { a: null },
    { a: "b c" },
    [],
    "x",
  ],
  annotations: [{ "A/B": "x" }, { "a b": "x" }, { a: 1 }, { a: null }],
  finalizers: [["a"], ["a.b/c"], ["A B/c"], ["kubernetes"], ["foregroundDeletion", "orphan"], [""]],
  ownerReferences: [
    [{}],
    [{ apiVersion: "v1", kind: "Pod", name: "a", uid: "b", controller: true }],
    [{ apiVersion: "v1", kind: "Event", name: "a", uid: "b" }],
  ],
  deletionTimestamp: ["2026-01-01T00:00:00Z"],
  generation: [-1, 7],
  managedFields: [
    [{}],
    [{ manager: "m", operation: "Update", apiVersion: "v1", fieldsType: "FieldsV1", fieldsV1: { "f:x": {} } }],
  ],
  resourceVersion: ["1", "0", "x"],
  namespace: ["", "zz"],
};

async function readSchemas(probe: Probe): Promise<Schemas> {
  const index = await probe.peers.real.send("GET", "/openapi/v3");
  const found: Schemas = {};
  for (const path of Object.keys(index.json.paths).filter((name) => /^api\/v1$|^apis\/[^/]+\/v\d+$/.test(name))) {
    Object.assign(found, (await probe.peers.real.send("GET", `/openapi/v3/${path}`)).json.components.schemas);
  }
  return found;
}

function schemaOf(schemas: Schemas, { apiVersion, kind }: Loose): Loose {
  return Object.values(schemas).find((schema) =>
    schema["x-kubernetes-group-version-kind"]?.some(
      (type: Loose) =>
        type.kind === kind && `${type.group === "" ? "" : `${type.group}/`}${type.version}` === apiVersion,
    ),
  );
}

function typeName(schema: Loose): string {
  const inner = schema.allOf?.[0] ?? schema;
  return (inner.$ref ?? "").split(".").at(-1);
}

function resolved(schemas: Schemas, schema: Loose): Loose {
  const inner = schema.allOf?.length === 1 ? schema.allOf[0] : schema;
  return inner.$ref === undefined ? inner : resolved(schemas, schemas[inner.$ref.split("/").at(-1)] ?? {});
}

function* walk(
  schemas: Schemas,
  schema: Loose,
  depth: number,
  at: Step[] = [],
  seen: string[] = [],
): Generator<{ at: Step[]; schema: Loose }> {
  const type = typeName(schema);
  if (type !== "" && seen.includes(type)) return;
  for (const [key, field] of Object.entries<Loose>(resolved(schemas, schema).properties ?? {})) {
    if (at.length === 0 && (key === "apiVersion" || key === "kind" || key === "metadata")) continue;
    yield { at: [...at, key], schema: field };
    if (at.length + 1 >= depth) continue;
    const inner = resolved(schemas, field);
    if (inner.type === "array" && resolved(schemas, inner.items).properties !== undefined) {
      yield* walk(schemas, inner.items, depth, [...at, key, 0], [...seen, type]);
    } else if (inner.properties !== undefined) yield* walk(schemas, field, depth, [...at, key], [...seen, type]);
  }
}

/** Pod templates are walked whole in pods; elsewhere only their first steps. Volumes of removed plugins only there too. */
function interesting(at: Step[]): boolean {
  const path = at.join(".");
  const template = /template\.spec\.(.*)$/.exec(path)?.[1];
  if (template?.includes(".") && !path.startsWith("spec.volumeClaim")) return false;
  return !path.includes("jobTemplate.spec.template.spec");
}

function valuesOf(schemas: Schemas, raw: Loose): unknown[] {
  const name = typeName(raw);
  const schema = resolved(schemas, raw);
  if (name === "Quantity") return ["1", "-1", "x", "1.5Gi", 3, ""];
  if (name === "IntOrString" || schema.format === "int-or-string") return [1, "50%", -1, "x y", "http", ""];
  if (schema.format === "date-time") return ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z", "x", "", null];
  if (Array.isArray(schema.enum)) return [schema.enum[0], schema.enum.at(-1), "Nope", "", 5];
  switch (schema.type) {
    case "string":
      return schema.format === "byte" ? ["eA==", "!!", ""] : ["x", "", "Bad Value!", long, 5];
    case "integer":
      return [1, 0, -1, 2147483647, schema.format === "int32" ? 2147483648 : 9000000000, "x", 1.5];
    case "number":
      return [1, "x"];
    case "boolean":
      return [true, false, "x"];
    case "array":
      return [[], null, "x", ...itemValues(resolved(schemas, schema.items))];
    case "object":
      return [
        {},
        null,
        "x",
        ...(schema.additionalProperties === undefined ? [[]] : entryValues(schemas, schema.additionalProperties)),
      ];
    default:
      return [{}, null, "x", []];
  }
}

function itemValues(item: Loose): unknown[] {
  if (item.type === "string") return [["a", "a"], ["Bad Value!"], [""], [5]];
  return item.type === "object" ? [[{}], [{}, {}], [null]] : [[1, 1], [-1]];
}

function entryValues(schemas: Schemas, entry: Loose): unknown[] {
  if (typeName(entry) === "Quantity")
    return [
      { cpu: "1" },
      { x: "-1" },
      { "Bad Key!": "1" },
      { "nvidia.com/gpu": "1.5" },
      { "hugepages-2Mi": "3" },
      { storage: "x" },
    ];
  if (resolved(schemas, entry).type === "string")
    return [{ a: "b" }, { "Bad Key!": "b" }, { a: "Bad Value!" }, { a: 5 }, { "": "" }, { a: long }];
  return [{ a: {} }, { a: null }];
}

/** A copy with the field set; missing steps are made; undefined when a step is no container. */
function withValue(object: Loose, at: Step[], value: unknown): Loose {
  const copy = structuredClone(object);
  let inner = copy;
  for (const [index, step] of at.slice(0, -1).entries()) {
    const fresh = at[index + 1] === 0 ? [] : {};
    if (step === 0 ? !Array.isArray(inner) : inner === null || typeof inner !== "object" || Array.isArray(inner))
      return undefined;
    inner[step] ??= fresh;
    inner = inner[step];
  }
  const last = at.at(-1);
  if (last === undefined || inner === null || typeof inner !== "object" || Array.isArray(inner)) return undefined;
  if (value === removed) delete inner[last];
  else inner[last] = value;
  return copy;
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function short(value: unknown): string {
  return JSON.stringify(value).slice(0, 40);
}
