import { describePathElement, UnnamedItemError } from "./pathElement.ts";
import { type Fields, formOf, type Shape } from "./shape.ts";

/**
 * The mistakes that make a configuration impossible to apply: two items with the same key, items without a key, and
 * fields that the schema does not declare, unless they are inside an object that preserves unknown fields. Each mistake
 * is reported as `.path: what is wrong`.
 */
export function checkApplied(shape: Shape, value: unknown, path = "", into: string[] = [], isOpen = false): string[] {
  if (value === null) return into;
  switch (formOf(shape, value)) {
    case "leaf":
      return into;
    case "fields":
      for (const name in value as Fields) {
        const below = (value as Fields)[name];
        if (below === undefined) continue;
        const shapeBelow = shape.field(name)?.shape ?? shape.undeclared;
        if (shapeBelow !== undefined) {
          checkApplied(shapeBelow, below, `${path}.${name}`, into, isOpen || shape.keepsUnknown);
        } else if (!isOpen) into.push(`${path}.${name}: field not declared in schema`);
      }
      return into;
    case "list": {
      const seen = new Set<string>();
      for (const [index, item] of (value as unknown[]).entries()) {
        let element: string;
        try {
          element = shape.nameItem(item);
        } catch (error) {
          if (!(error instanceof UnnamedItemError)) throw error;
          into.push(`${path}: element ${index}: ${error.message}`);
          return into;
        }
        const text = describePathElement(element);
        if (seen.has(element)) into.push(`${path}: duplicate entries for key ${text}`);
        seen.add(element);
        checkApplied(shape.items, item, `${path}${text}`, into, isOpen);
      }
      return into;
    }
  }
}
