import { type BundleDefinition, type FieldExtras, schemaBundle } from "./schemaBundle.ts";
import type { ListNode, MapNode, ScalarNode, SchemaNode, StructField, StructNode } from "./schemaNode.ts";

/**
 * Resolves the generated bundle into schema nodes. Each definition becomes one node on first use, and its fields are
 * resolved on first access: so a type may contain itself (JSONSchemaProps), and a server that serves pods never
 * resolves flex volumes.
 */
export function schemaFor(definition: string): StructNode {
  const node = definitionNode(definition);
  if (node === undefined) throw new Error(`no schema for ${definition}`);
  return node;
}

export function hasSchema(definition: string): boolean {
  return Object.hasOwn(schemaBundle(), definition);
}

const nodes = new Map<string, DefinitionNode>();

function definitionNode(definition: string): DefinitionNode | undefined {
  const known = nodes.get(definition);
  if (known !== undefined) return known;
  if (!hasSchema(definition)) return undefined;
  const node = new DefinitionNode(definition, schemaBundle()[definition] as BundleDefinition);
  nodes.set(definition, node);
  return node;
}

class DefinitionNode implements StructNode {
  readonly kind = "struct";
  readonly name: string;
  readonly definition: string;
  readonly atomic: boolean;
  readonly preserveUnknown = false;
  readonly #source: BundleDefinition;
  #fields: ReadonlyMap<string, StructField> | undefined;

  constructor(definition: string, source: BundleDefinition) {
    this.name = definition.slice(definition.lastIndexOf(".") + 1);
    this.definition = definition;
    this.atomic = source.atomic === true;
    this.#source = source;
  }

  get fields(): ReadonlyMap<string, StructField> {
    this.#fields ??= resolveFields(this.definition, this.#source);
    return this.#fields;
  }
}

/** A type at a field whose own merge rule overrides that of the type. */
class PlacedNode implements StructNode {
  readonly kind = "struct";
  readonly name: string;
  readonly definition: string;
  readonly atomic: boolean;
  readonly preserveUnknown = false;
  readonly retainKeys: boolean;
  readonly replace: boolean;
  readonly #base: DefinitionNode;

  constructor(base: DefinitionNode, extras: FieldExtras) {
    this.name = base.name;
    this.definition = base.definition;
    this.atomic = extras.atomic ?? base.atomic;
    this.retainKeys = extras.retain === true;
    this.replace = extras.replace === true;
    this.#base = base;
  }

  get fields(): ReadonlyMap<string, StructField> {
    return this.#base.fields;
  }
}

function resolveFields(definition: string, source: BundleDefinition): ReadonlyMap<string, StructField> {
  const fields = new Map<string, StructField>();
  for (const [name, entry] of Object.entries(source.fields)) {
    const [type, flags, extras] = typeof entry === "string" ? [entry, "", undefined] : entry;
    fields.set(name, {
      name,
      schema: resolveType(`${definition}.${name}`, type, extras ?? {}),
      required: flags.includes("R"),
      zero: flags.includes("a") ? "always" : flags.includes("p") ? "pointer" : flags.includes("k") ? "keep" : "drop",
    });
  }
  return fields;
}

const noExtras: FieldExtras = {};

function resolveType(place: string, type: string, extras: FieldExtras): SchemaNode {
  if (type.startsWith("[]")) {
    const items = resolveType(place, type.slice(2), noExtras);
    return {
      kind: "list",
      items,
      listType: extras.list ?? "atomic",
      listKeys: extras.keys ?? [],
      ...(extras.keyDefaults === undefined ? {} : { keyDefaults: extras.keyDefaults }),
      patchMerge: extras.merge !== undefined,
      patchMergeKey: extras.merge ?? "",
      patchRetainKeys: extras.retain === true,
    } satisfies ListNode;
  }
  if (type.startsWith("{}")) {
    const values = resolveType(place, type.slice(2), noExtras);
    return { kind: "map", values, atomic: extras.atomic === true } satisfies MapNode;
  }
  if (type.startsWith("#")) {
    const node = definitionNode(type.slice(1));
    if (node === undefined) throw new Error(`${place} refers to ${type}, which is not in the bundle`);
    const placed = extras.atomic !== undefined || extras.retain !== undefined || extras.replace !== undefined;
    return placed ? new PlacedNode(node, extras) : node;
  }
  if (type === "any") return anyNode;
  const scalar = scalars.get(type);
  if (scalar === undefined) throw new Error(`${place} has the unknown type ${type}`);
  return scalar;
}

/** Raw JSON has one owner: its content has no schema. */
const anyNode: SchemaNode = { kind: "any", atomic: true };

const scalarTypes: readonly ScalarNode["type"][] = [
  "string",
  "boolean",
  "int32",
  "int64",
  "number",
  "quantity",
  "time",
  "microTime",
  "intOrString",
  "bytes",
];
const scalars = new Map<string, ScalarNode>(scalarTypes.map((type) => [type, { kind: "scalar", type }]));
