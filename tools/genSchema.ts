import { readFileSync, writeFileSync } from "node:fs";
import { builtinResources, definitionName } from "../src/apiserver/builtinResources.ts";
import { type Model, type ModelField, readModels } from "./readModels.ts";
import {
  atomicTypes,
  type FieldOverlay,
  fieldOverlays,
  goFacts,
  messageTwins,
  quantityFields,
  renamedModels,
} from "./schemaOverlays.ts";

/**
 * Generates the schema bundle and the TypeScript types of all built-in kinds from the model files of client-node, the
 * protobuf field table (for what Go does with zero values) and the overlays. Run it after a change of either, and
 * commit what it writes: `npm run schema`.
 */
const root = new URL("../", import.meta.url);
const models = readModels(new URL("node_modules/client-node-2/dist/gen/models", root).pathname);
for (const [name, source] of Object.entries(renamedModels)) models.set(name, renameModel(name, source));

type Message = [number: number, field: string, type: string, flags: string][];
const messages = (
  JSON.parse(readFileSync(new URL("tools/protobuf-fields.json", root), "utf8")) as { messages: Record<string, Message> }
).messages;

type Definition = {
  name: string;
  group: string;
  version: string;
  kind: string;
  isKind: boolean;
  model: Model;
  fields: GeneratedField[];
};
type GeneratedField = { source: ModelField; type: string; flags: string; overlay: FieldOverlay | undefined };

const definitions = new Map<string, Definition>();
const unknownFacts: string[] = [];
const usedOverlays = new Set<string>();

for (const resource of builtinResources()) {
  define(resource.group, resource.version, resource.kind, true);
  for (const sub of resource.subresources) {
    if (sub.definition !== "") define(sub.group, sub.version, sub.kind, true);
  }
}
for (const kind of ["DeleteOptions", "ListMeta", "Status"]) define("meta", "v1", kind, false);
check();
writeBundle();
writeDescriptions();
writeTypes();
writeResources();

function renameModel(name: string, source: string): Model {
  const model = models.get(source);
  if (model === undefined) throw new Error(`no model ${source}`);
  const fields = model.fields.map((field) => ({
    ...field,
    type: field.type.replace(/V1beta2(DeviceTaint\w*)/, "V1$1"),
  }));
  return { name, description: model.description, fields };
}

function groupWord(group: string): string {
  return group === "" ? "core" : (group.split(".", 1)[0] ?? group);
}

/** Adds the definition of a type and, through its fields, of all that it refers to. Returns its name. */
function define(group: string, version: string, kind: string, isKind: boolean): string {
  const name = definitionName(group, version, kind);
  const known = definitions.get(name);
  if (known !== undefined) {
    known.isKind ||= isKind;
    return name;
  }
  const model = findModel(group, version, kind);
  const definition: Definition = { name, group, version, kind, isKind, model, fields: [] };
  definitions.set(name, definition);
  definition.fields = model.fields.map((source) => {
    const key = `${groupWord(group)}/${kind}.${source.name}`;
    const type = fieldType(definition, source, source.type, quantityFields.has(key));
    if (quantityFields.has(key)) usedOverlays.add(key);
    const overlay = fieldOverlays[key];
    if (overlay !== undefined) usedOverlays.add(key);
    return { source, type, overlay, flags: flagsOf(definition, source, type) };
  });
  return name;
}

function findModel(group: string, version: string, kind: string): Model {
  const tail = `${version[0]?.toUpperCase()}${version.slice(1)}${kind}`;
  const word = groupWord(group);
  const model = models.get(`${word[0]?.toUpperCase()}${word.slice(1)}${tail}`) ?? models.get(tail);
  if (model === undefined) throw new Error(`no model for ${group}/${version} ${kind}`);
  return model;
}

/** The type of a field in the words of the bundle: a scalar's name, `#definition`, `[]type` or `{}type`. */
function fieldType(owner: Definition, field: ModelField, type: string, quantity: boolean): string {
  const list = /^Array<(.*)>$/.exec(type)?.[1];
  if (list !== undefined) return `[]${fieldType(owner, field, list, quantity)}`;
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (map !== undefined) return `{}${fieldType(owner, field, map, quantity)}`;
  switch (type) {
    case "string":
      return quantity ? "quantity" : field.format === "byte" ? "bytes" : "string";
    case "boolean":
      return "boolean";
    case "number":
      if (field.format === "int32" || field.format === "int64") return field.format;
      return field.format === "double" || field.format === "" ? "number" : unknown(owner, field);
    case "Date":
      return "time";
    case "V1MicroTime":
      return "microTime";
    case "IntOrString":
      return "intOrString";
    case "any":
      return "any";
  }
  const name = /^([A-Z][a-z]+)?(V\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)$/.exec(type);
  if (name === null) return unknown(owner, field);
  const version = (name[2] ?? "").toLowerCase();
  const kind = name[3] ?? "";
  return `#${define(groupOf(owner, name[1], version, kind), version, kind, false)}`;
}

function unknown(owner: Definition, field: ModelField): never {
  throw new Error(`${owner.name}.${field.name}: cannot read type ${field.type} (${field.format})`);
}

/** Class names carry a group only where two groups clash; otherwise the message table knows who has such a type. */
function groupOf(owner: Definition, prefix: string | undefined, version: string, kind: string): string {
  const served = [...new Set(builtinResources().map(({ group }) => group)), "meta"];
  if (prefix !== undefined) {
    const group = served.find((candidate) => groupWord(candidate) === prefix.toLowerCase());
    if (group === undefined) throw new Error(`no group for ${prefix} in ${owner.name}`);
    return group;
  }
  for (const group of [owner.group, "meta", ""]) if (messages[messageName(group, version, kind)]) return group;
  return served.find((group) => messages[messageName(group, version, kind)]) ?? owner.group;
}

function messageName(group: string, version: string, kind: string): string {
  return `${group === "" ? "core" : group}/${version}.${kind}`;
}

/** Go facts of a message with its embedded structs opened up: field name to flags. */
function factsOf(name: string, into = new Map<string, string>()): Map<string, string> {
  for (const [, field, type, flags] of messages[name] ?? []) {
    if (field === "") factsOf(type, into);
    else if (!into.has(field)) into.set(field, flags);
  }
  return into;
}

/** `R` required, and what happens to a zero value: `k` kept, `p` pointer, `a` always written; vanishes otherwise. */
function flagsOf(owner: Definition, field: ModelField, type: string): string {
  const required = field.required ? "R" : "";
  if (isTypeMeta(owner, field.name)) return required;
  const facts = goFactsOf(owner, field.name);
  if (facts === undefined) {
    unknownFacts.push(`${owner.name}.${field.name}`);
    return `${required}${field.required ? "k" : "p"}`;
  }
  if (facts.includes("p")) return `${required}p`;
  if (type.startsWith("#")) return `${required}a`;
  // Struct values that print as a scalar: omitempty does not help them, they are always on the wire.
  if (type === "quantity" || type === "intOrString") return `${required}k`;
  return facts.includes("k") ? `${required}k` : required;
}

function isTypeMeta(owner: Definition, field: string): boolean {
  const bare = owner.group === "meta" && ["DeleteOptions", "Status"].includes(owner.kind);
  return (owner.isKind || bare) && (field === "apiVersion" || field === "kind");
}

function goFactsOf(owner: Definition, field: string): string | undefined {
  const exact = messageName(owner.group, owner.version, owner.kind);
  const twins = (messageTwins[owner.kind] ?? [owner.kind]).map((kind) => messageName(owner.group, "v1", kind));
  for (const name of messages[exact] === undefined ? twins : [exact]) {
    const facts = factsOf(name).get(field);
    if (facts !== undefined) return facts;
  }
  return goFacts[`${groupWord(owner.group)}/${owner.kind}.${field}`];
}

function isAtomic({ group, version, kind }: Definition): boolean {
  const word = groupWord(group);
  return atomicTypes.has(`${word}/${kind}`) || atomicTypes.has(`${word}/${version}/${kind}`);
}

function check(): void {
  const unused = [...Object.keys(fieldOverlays), ...quantityFields].filter((key) => !usedOverlays.has(key));
  const words = [...definitions.values()].flatMap(({ group, version, kind }) => [
    `${groupWord(group)}/${kind}`,
    `${groupWord(group)}/${version}/${kind}`,
  ]);
  unused.push(...[...atomicTypes].filter((key) => !words.includes(key)));
  if (unused.length > 0) throw new Error(`overlays that match no field: ${unused.join(", ")}`);
  if (unknownFacts.length > 0) throw new Error(`no Go facts for: ${unknownFacts.join(", ")}`);
  for (const { group, version, kind, fields } of definitions.values()) {
    for (const [, field, type] of messages[messageName(group, version, kind)] ?? []) {
      const quantity = type === "resource.Quantity" || type === "core/v1.ResourceList";
      const generated = fields.find(({ source }) => source.name === field)?.type;
      if (quantity && !generated?.endsWith("quantity")) throw new Error(`${kind}.${field} should be a quantity`);
    }
  }
}

function sorted(): Definition[] {
  return [...definitions.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function writeBundle(): void {
  const lines = sorted().map((definition) => {
    const fields: Record<string, unknown> = {};
    for (const { source, type, flags, overlay } of definition.fields) {
      fields[source.name] = overlay !== undefined ? [type, flags, overlay] : flags !== "" ? [type, flags] : type;
    }
    const entry = isAtomic(definition) ? { atomic: true, fields } : { fields };
    return `${JSON.stringify(definition.name)}:${JSON.stringify(entry)}`;
  });
  write("src/apiserver/schema/schema.json", `{\n${lines.join(",\n")}\n}\n`);
}

/** The sentences that `kubectl explain` prints, with the empty key for the type itself. */
function writeDescriptions(): void {
  const lines = sorted().map((definition) => {
    const texts: Record<string, string> = {};
    if (definition.model.description !== "") texts[""] = definition.model.description;
    for (const { source } of definition.fields) {
      if (source.description !== "") texts[source.name] = source.description;
    }
    return `${JSON.stringify(definition.name)}:${JSON.stringify(texts)}`;
  });
  write("src/apiserver/schema/descriptions.json", `{\n${lines.join(",\n")}\n}\n`);
}

/** Types that live by hand in model/object.ts and model/status.ts. */
function handWritten({ group, kind }: { group: string; kind: string }): boolean {
  const names = ["ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "Status", "StatusDetails", "StatusCause"];
  return group === "meta" && names.includes(kind);
}

/** Versions whose types keep the plain name; types of the others start with their version. */
function isPreferred({ group, version }: Definition): boolean {
  const first = builtinResources().find((resource) => resource.group === group);
  return group === "meta" || first?.version === version || group === "scheduling.k8s.io";
}

function typeNames(): Map<string, string> {
  const takers = new Map<string, Definition[]>();
  for (const definition of sorted()) {
    if (isPreferred(definition)) takers.set(definition.kind, [...(takers.get(definition.kind) ?? []), definition]);
  }
  const names = new Map<string, string>();
  for (const definition of definitions.values()) {
    const { group, version, kind, isKind } = definition;
    const versionWord = `${version[0]?.toUpperCase()}${version.slice(1)}`;
    const rivals = (takers.get(kind) ?? []).filter((other) => other !== definition);
    // autoscaling/v1 has kinds of its own, and one that v2 shares.
    const plain = isPreferred(definition) || rivals.length === 0;
    const beaten = rivals.length > 0 && (!isKind || rivals.some((other) => other.isKind));
    const word = groupWord(group);
    if (!plain) names.set(definition.name, `${versionWord}${kind}`);
    else names.set(definition.name, beaten ? `${word[0]?.toUpperCase()}${word.slice(1)}${kind}` : kind);
  }
  const all = [...names.values()];
  const twice = all.filter((name, index) => all.indexOf(name) !== index);
  if (twice.length > 0) throw new Error(`type names taken twice: ${twice.join(", ")}`);
  return names;
}

function writeTypes(): void {
  const names = typeNames();
  const text: string[] = [
    "// Generated by tools/genSchema.ts; do not edit. The shapes of all built-in kinds, as the server stores them.",
    'import type { ObjectMeta } from "./objects/object.ts";',
    "",
    "/** `500m`, `2Gi`: canonical once stored. */",
    "export type Quantity = string;",
    "/** A number, or text such as `50%` or the name of a port. */",
    "export type IntOrString = number | string;",
    "/** RFC 3339 in seconds, UTC. */",
    "export type Time = string;",
    "/** RFC 3339 with six digits, UTC. */",
    "export type MicroTime = string;",
    "",
  ];
  const list = sorted().filter((definition) => !handWritten(definition));
  list.sort((a, b) => ((names.get(a.name) ?? "") < (names.get(b.name) ?? "") ? -1 : 1));
  for (const definition of list) {
    const { group, version } = definition;
    const where = group === "" ? version : `${group}/${version}`;
    text.push(`/** ${where} ${definition.kind} */`, `export type ${names.get(definition.name)} = {`);
    for (const field of definition.fields) text.push(`  ${typeOfField(definition, field, names)}`);
    text.push("};", "");
  }
  write("src/model/kubernetes.generated.ts", text.join("\n"));
}

/** The handle of every resource under the name of the type of its objects. */
function writeResources(): void {
  const names = typeNames();
  const rows = builtinResources().map(({ group, version, plural, kind }) => {
    const type = names.get(definitionName(group, version, kind)) ?? "never";
    return { type, text: `  ${type}: resource<${type}>("${group}", "${version}", "${plural}"),` };
  });
  rows.sort((a, b) => (a.type < b.type ? -1 : 1));
  const text = [
    "// Generated by tools/genSchema.ts; do not edit. The handles of all built-in resources.",
    `import type {\n${rows.map(({ type }) => `  ${type},`).join("\n")}\n} from "./kubernetes.generated.ts";`,
    'import { resource } from "./objects/resource.ts";',
    "",
    `export const builtin = {\n${rows.map((row) => row.text).join("\n")}\n} as const;`,
    "",
  ];
  write("src/model/resources.generated.ts", text.join("\n"));
}

function typeOfField(owner: Definition, { source, type }: GeneratedField, names: Map<string, string>): string {
  const key = /^\w+$/.test(source.name) ? source.name : JSON.stringify(source.name);
  if (owner.isKind && isTypeMeta(owner, key)) return `${key}: string;`;
  if (type === `#${definitionName("meta", "v1", "ObjectMeta")}`) {
    // A stored object has full metadata; the metadata of a template may say little or nothing.
    return owner.isKind ? `${key}: ObjectMeta;` : `${key}?: Partial<ObjectMeta>;`;
  }
  return `${key}${source.required ? "" : "?"}: ${typeText(type, names)};`;
}

function typeText(type: string, names: Map<string, string>): string {
  if (type.startsWith("[]")) return `${typeText(type.slice(2), names)}[]`;
  if (type.startsWith("{}")) return `Record<string, ${typeText(type.slice(2), names)}>`;
  if (type.startsWith("#")) return names.get(type.slice(1)) ?? "never";
  const words: Record<string, string> = {
    int32: "number",
    int64: "number",
    quantity: "Quantity",
    time: "Time",
    microTime: "MicroTime",
    intOrString: "IntOrString",
    bytes: "string",
    any: "unknown",
  };
  return words[type] ?? type;
}

function write(path: string, text: string): void {
  writeFileSync(new URL(path, root), text);
  console.log(`${path}: ${Math.round(text.length / 1024)} KB`);
}
