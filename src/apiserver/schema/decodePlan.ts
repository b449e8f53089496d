import type { Json, JsonObject } from "../../model/objects/json.ts";
import type { ScalarOp } from "./decodeScalar.ts";
import { isWrittenAsNull } from "./nullFields.ts";
import type { SchemaNode } from "./schemaNode.ts";

/**
 * A schema node compiled for decoding: the operation, the fields that are dropped when zero, and the fields that are
 * added when absent. One class, so that the JavaScript engine sees one object shape on the hot path.
 */
export class DecodePlan {
  readonly op: "struct" | "map" | "list" | "any" | ScalarOp;
  readonly node: SchemaNode;
  readonly preserveUnknown: boolean;
  #fields: ReadonlyMap<string, FieldPlan> | undefined;
  #written: readonly FieldPlan[] | undefined;
  #items: DecodePlan | undefined;

  constructor(node: SchemaNode, inMap: boolean) {
    this.node = node;
    this.preserveUnknown = node.kind === "struct" && node.preserveUnknown;
    if (node.kind !== "scalar") this.op = node.kind;
    else this.op = inMap && node.type === "quantity" ? "milliQuantity" : node.type;
  }

  /** Created on first use: types may contain themselves. */
  get fields(): ReadonlyMap<string, FieldPlan> {
    if (this.#fields === undefined) this.#resolve();
    return this.#fields ?? noFields;
  }

  /** Fields that Go encodes even when the input omits them. */
  get written(): readonly FieldPlan[] {
    if (this.#written === undefined) this.#resolve();
    return this.#written ?? [];
  }

  /** The plan of list items or map values. */
  get items(): DecodePlan {
    if (this.#items === undefined) {
      if (this.node.kind === "list") this.#items = planFor(this.node.items);
      else if (this.node.kind === "map") this.#items = makePlan(this.node.values, true);
      else throw new Error(`a ${this.op} has no items`);
    }
    return this.#items;
  }

  #resolve(): void {
    const fields = new Map<string, FieldPlan>();
    const definition = this.node.kind === "struct" ? this.node.definition : undefined;
    if (this.node.kind === "struct") {
      for (const field of this.node.fields.values()) {
        const plan = planFor(field.schema);
        // An empty object is dropped only if it is a map: `{}` for a struct is a value.
        const dropsZero = field.zero === "drop" && field.schema.kind !== "struct" && field.schema.kind !== "any";
        const writesNull = isWrittenAsNull(definition, field.name);
        fields.set(field.name, { name: field.name, plan, dropsZero, writesNull, zero: field.zero });
      }
    }
    this.#fields = fields;
    this.#written = [...fields.values()].filter(
      ({ zero, plan, writesNull }) => zero === "always" || (zero === "keep" && hasZero(plan)) || writesNull,
    );
  }
}

export interface FieldPlan {
  readonly name: string;
  readonly plan: DecodePlan;
  readonly dropsZero: boolean;
  /** Absent and empty are encoded as null. */
  readonly writesNull: boolean;
  readonly zero: "drop" | "keep" | "pointer" | "always";
}

const noFields: ReadonlyMap<string, FieldPlan> = new Map();
const plans = new WeakMap<SchemaNode, DecodePlan>();

export function planFor(node: SchemaNode): DecodePlan {
  const known = plans.get(node);
  if (known !== undefined) return known;
  const plan = makePlan(node, false);
  plans.set(node, plan);
  return plan;
}

function makePlan(node: SchemaNode, inMap: boolean): DecodePlan {
  if (inMap && !(node.kind === "scalar" && node.type === "quantity")) return planFor(node);
  return new DecodePlan(node, inMap);
}

/**
 * Whether Go encodes the zero value. Times and nil lists would be null: nullFields.ts lists those that are encoded.
 */
function hasZero(plan: DecodePlan): boolean {
  return !(plan.op === "list" || plan.op === "map" || plan.op === "any" || plan.op === "bytes" || isTime(plan));
}

function isTime(plan: DecodePlan): boolean {
  return plan.op === "time" || plan.op === "microTime";
}

export function zeroOfField({ writesNull, plan }: FieldPlan): Json {
  return writesNull ? null : zeroOf(plan);
}

/** What Go encodes for a value that was never set. */
export function zeroOf(plan: DecodePlan): Json {
  switch (plan.op) {
    case "struct": {
      const out: JsonObject = {};
      for (const field of plan.written) out[field.name] = zeroOfField(field);
      return out;
    }
    case "map":
      return {};
    case "list":
      return [];
    case "string":
    case "bytes":
      return "";
    case "boolean":
      return false;
    case "int32":
    case "int64":
    case "number":
    case "intOrString":
      return 0;
    case "quantity":
    case "milliQuantity":
      return "0";
    case "any":
    case "time":
    case "microTime":
      return null;
  }
}
