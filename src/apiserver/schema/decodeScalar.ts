import type { Json } from "../../model/objects/json.ts";
import { canonicalMilliQuantity, canonicalQuantity } from "../../model/values/quantity.ts";
import { canonicalMicroTime, canonicalTime } from "../../model/values/time.ts";
import { canonicalBase64 } from "./base64Text.ts";
import type { ScalarNode } from "./schemaNode.ts";

/** A quantity in a resource list is also rounded up to thousandths. */
export type ScalarOp = ScalarNode["type"] | "milliQuantity";

/** The value has the right JSON type and is invalid; the message is that of the Go type's unmarshaller. */
export class ScalarError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ScalarError";
  }
}

/** The canonical form of one value, null where the value means "unset", undefined where its JSON type is wrong. */
export function decodeScalar(op: ScalarOp, value: unknown): Json | undefined {
  switch (op) {
    case "string":
      return typeof value === "string" ? value : undefined;
    case "boolean":
      return typeof value === "boolean" ? value : undefined;
    case "int32":
      return isInteger(value) && value >= -2_147_483_648 && value <= 2_147_483_647 ? value : undefined;
    case "int64":
      // Doubles near 2^63 have steps of 1024, so the bound itself is out of range.
      return isInteger(value) && value >= -(2 ** 63) && value < 2 ** 63 ? value : undefined;
    case "number":
      return typeof value === "number" ? value : undefined;
    case "quantity":
      return canonicalQuantity(quantityText(value));
    case "milliQuantity":
      return canonicalMilliQuantity(quantityText(value));
    case "time":
      return canonicalTime(stringOrRefuse(value));
    case "microTime":
      return canonicalMicroTime(stringOrRefuse(value));
    case "intOrString":
      if (typeof value === "string") return value;
      return decodeScalar("int32", value) ?? refuse(value, "int32");
    case "bytes": {
      if (typeof value !== "string") return undefined;
      const canonical = canonicalBase64(value);
      if (typeof canonical === "string") return canonical;
      throw new ScalarError(`illegal base64 data at input byte ${canonical}`);
    }
  }
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value);
}

/** Numbers are parsed from their text; any other value has a text that is no quantity. */
function quantityText(value: unknown): string {
  if (typeof value === "string") return value.trim();
  return typeof value === "number" ? String(value) : JSON.stringify(value);
}

function stringOrRefuse(value: unknown): string {
  return typeof value === "string" ? value : refuse(value, "string");
}

/** Go types with their own unmarshaller do not know the field that they are in. */
function refuse(value: unknown, type: string): never {
  const word = Array.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value;
  const fraction = typeof value === "number" && type === "int32" ? ` ${value}` : "";
  throw new ScalarError(`json: cannot unmarshal ${word}${fraction} into Go value of type ${type}`);
}
