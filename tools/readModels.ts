import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Reads the generated model classes of client-node as text. They are the one npm source of the Kubernetes type system;
 * importing them would cost half a second and 130 MB, and their type declarations would still have to be read.
 */
export type Model = { name: string; description: string; fields: ModelField[] };

export type ModelField = {
  /** The name on the wire. */
  name: string;
  /** `string`, `Array<V1Container>`, `{ [key: string]: string; }`... */
  type: string;
  format: string;
  required: boolean;
  description: string;
};

export function readModels(directory: string): Map<string, Model> {
  const models = new Map<string, Model>();
  for (const file of readdirSync(directory)) {
    if (!/V\d.*\.d\.ts$/.test(file)) continue;
    const name = file.slice(0, -".d.ts".length);
    const declaration = readFileSync(join(directory, file), "utf8");
    const program = readFileSync(join(directory, `${name}.js`), "utf8");
    models.set(name, parseModel(name, declaration, program));
  }
  return models;
}

export function parseModel(name: string, declaration: string, program: string): Model {
  const attributes = /attributeTypeMap = (\[[\s\S]*?\n\]);/.exec(program);
  if (attributes?.[1] === undefined) throw new Error(`${name}: no attribute map`);
  const declared = new Map<string, { required: boolean; description: string }>();
  const member = /(?:\/\*\*\s*\n([\s\S]*?)\*\/\s*)?\n {4}'([^']+)'(\?)?:/g;
  const body = declaration.slice(declaration.indexOf(`export declare class ${name} {`));
  for (const match of body.matchAll(member)) {
    const text = match[1] === undefined ? "" : commentText(match[1]);
    declared.set(match[2] ?? "", { required: match[3] !== "?", description: text });
  }
  const head = declaration.slice(0, declaration.indexOf(`export declare class ${name} {`)).trimEnd();
  const comment = head.endsWith("*/") ? head.slice(head.lastIndexOf("/**") + 3, -2) : "";
  const fields = (JSON.parse(attributes[1]) as { name: string; baseName: string; type: string; format: string }[]).map(
    (attribute): ModelField => {
      const found = declared.get(attribute.name);
      if (found === undefined) throw new Error(`${name}.${attribute.name} is not declared`);
      return { name: attribute.baseName, type: attribute.type, format: attribute.format, ...found };
    },
  );
  return { name, description: comment.includes("auto generated") ? "" : commentText(comment), fields };
}

function commentText(raw: string): string {
  return raw
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim()
    .replaceAll("\\'", "'")
    .replaceAll('\\"', '"')
    .replaceAll("*_/", "*/");
}
