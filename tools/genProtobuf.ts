/**
 * Writes src/apiserver/schema/protobuf.json, the field numbers of the Kubernetes wire format, from a table of
 * message -> [number, jsonName, goType, flags]: `tsx tools/genProtobuf.ts <table.json>`.
 *
 * One line a message, fields separated by `;`, each `number name type`. A `!` after the name: the field is written even
 * when zero. The name `.`: the fields of that message stand in this one. Types: `*T` present only when set, `[]T` repeated,
 * `{}T` a map from strings.
 */
import { readFileSync, writeFileSync } from "node:fs";

type Table = {
  messages: Record<string, [number: number, name: string, type: string, flags: string][]>;
  aliases: Record<string, string>;
};

const [source] = process.argv.slice(2);
if (source === undefined) throw new Error("usage: tsx tools/genProtobuf.ts <table.json>");
const table = JSON.parse(readFileSync(source, "utf8")) as Table;

const extensions = "apiextensions.k8s.io/v1";
const builtIn = new Map([
  ["string", "string"],
  ["types.UID", "string"],
  ["bool", "bool"],
  ["int32", "int32"],
  ["int64", "int64"],
  ["float64", "double"],
  ["[]byte", "bytes"],
  ["resource.Quantity", "quantity"],
  ["meta/v1.Time", "time"],
  ["meta/v1.MicroTime", "microTime"],
  ["intstr.IntOrString", "intOrString"],
  ["runtime.RawExtension", "raw"],
  ["meta/v1.FieldsV1", "raw"],
  [`${extensions}.JSON`, "raw"],
  [`${extensions}.JSONSchemaPropsOrArray`, "schemaOrArray"],
  [`${extensions}.JSONSchemaPropsOrBool`, "schemaOrBool"],
  [`${extensions}.JSONSchemaPropsOrStringArray`, "schemaOrStrings"],
]);
/** Names for types that are not what their name says; `strings` is a message around a list of strings. */
const aliasTypes = new Map([
  ["string", "string"],
  ["[]string", "strings"],
  ["map[ResourceName]resource.Quantity", "{}quantity"],
  ["[]ValidationRule", `[]${extensions}.ValidationRule`],
  ["map[string]JSONSchemaPropsOrStringArray", "{}schemaOrStrings"],
  ["map[string]JSONSchemaProps", `{}${extensions}.JSONSchemaProps`],
]);
/** Messages without fields are not in the table. */
const empty = new Set([
  "scheduling.k8s.io/v1alpha2.BasicSchedulingPolicy",
  `${extensions}.CustomResourceSubresourceStatus`,
]);
/** The table took these for embedded, because their names begin like the word for it. */
const renamed = new Map([["storage.k8s.io/v1.VolumeAttachmentSource 2", "inlineVolumeSpec"]]);

function typeOf(type: string): string {
  const known = builtIn.get(type);
  if (known !== undefined) return known;
  const alias = table.aliases[type];
  if (alias !== undefined) {
    const resolved = aliasTypes.get(alias);
    if (resolved === undefined) throw new Error(`unknown alias ${type} = ${alias}`);
    return resolved;
  }
  if (table.messages[type] === undefined && !empty.has(type)) throw new Error(`unknown type ${type}`);
  return type;
}

const lines: string[] = [];
for (const [message, fields] of Object.entries(table.messages)) {
  if (builtIn.has(message)) continue;
  const texts = fields.map(([number, jsonName, goType, flags]) => {
    const rename = renamed.get(`${message} ${number}`);
    const name = rename ?? (flags.includes("i") ? "." : jsonName);
    if (name === "") throw new Error(`${message} ${number} has no name`);
    const shape = flags.includes("r") ? "[]" : flags.includes("m") ? "{}" : flags.includes("p") ? "*" : "";
    return `${number} ${name}${flags.includes("k") && name !== "." ? "!" : ""} ${shape}${typeOf(goType)}`;
  });
  lines.push(`${JSON.stringify(message)}: ${JSON.stringify(texts.join(";"))}`);
}
for (const message of empty) lines.push(`${JSON.stringify(message)}: ""`);
writeFileSync(new URL("../src/apiserver/schema/protobuf.json", import.meta.url), `{\n${lines.join(",\n")}\n}\n`);
