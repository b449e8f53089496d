import type { Expr, Fold } from "./ast.ts";
import type { Checked } from "./check.ts";
import { traversal } from "./functions.ts";
import type { CelType } from "./types.ts";
import { type CelValue, isMap, mapSize, stringSize } from "./values.ts";

/**
 * The maximum cost of an expression, from the sizes that types declare. Costs are those of evaluation; of two branches
 * the more expensive one counts, and every loop runs over the longest possible list.
 */
export function estimateCost(expr: Expr, checked: Checked): number {
  return new Estimator(checked).cost(expr);
}

/** The size of a value without a declared limit. */
const unlimited = Number.POSITIVE_INFINITY;

/** Functions that read every item of a list. Kubernetes adds the characters of items that are strings. */
const listWalks: ReadonlySet<string> = new Set(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"]);

class Estimator {
  private readonly checked: Checked;
  /** Slots of variables with a computed value, not a value of the data. */
  private readonly computed = new Set<number>();
  /** Slots of variables with keys of a map, for which no schema declares a limit. */
  private readonly keys = new Set<number>();

  constructor(checked: Checked) {
    this.checked = checked;
  }

  cost(expr: Expr): number {
    switch (expr.op) {
      case "const":
        return 0;
      case "ident": {
        const ref = this.checked.refs.get(expr);
        return ref !== undefined && "constant" in ref ? 0 : 1;
      }
      case "select":
        return this.checked.refs.has(expr) ? this.referenceCost(expr) : this.cost(expr.target) + 1;
      case "has":
        return this.cost(expr.select.target);
      case "index":
        return this.cost(expr.target) + this.cost(expr.index) + 1;
      case "call":
        return this.callCost(expr);
      case "and":
      case "or":
        return expr.args.reduce((sum, arg) => sum + this.cost(arg), 0);
      case "if":
        return this.cost(expr.test) + Math.max(this.cost(expr.then), this.cost(expr.otherwise));
      case "list":
        return expr.items.reduce((sum, item) => sum + this.cost(item.value), 10);
      case "map":
        return expr.entries.reduce((sum, entry) => sum + this.cost(entry.key) + this.cost(entry.value), 30);
      case "struct":
        return 40;
      case "fold":
        return this.foldCost(expr);
      case "bind":
        this.follow(expr, expr.value);
        return 10 + this.cost(expr.value) + this.cost(expr.body);
      case "optMap":
      case "optFlatMap":
        return this.cost(expr.target) + 13 + this.cost(expr.body);
    }
  }

  private referenceCost(expr: Expr): number {
    const ref = this.checked.refs.get(expr);
    return ref !== undefined && "constant" in ref ? 0 : 1;
  }

  private callCost(expr: Expr & { op: "call" }): number {
    const resolved = this.checked.calls.get(expr);
    if (resolved === undefined) return 1;
    const { fn, args } = resolved;
    const inner = args.reduce((sum, arg) => sum + this.cost(arg), 0);
    const [first, second, third] = args;
    const type = first === undefined ? undefined : this.checked.types.get(first);
    if (fn.name === "@in" && second !== undefined) {
      const over = this.checked.types.get(second)?.kind;
      return inner + (over === "map" ? 1 : this.size(second));
    }
    const isText = type?.kind === "string" || type?.kind === "bytes";
    if (/^_[<>]/.test(fn.name) && type !== undefined && !isText && type.kind !== "dyn") return inner + 1;
    if (fn.name === "_+_" && type !== undefined && !isText && type.kind !== "dyn") return inner + 1;
    if (first !== undefined && type?.kind === "list" && listWalks.has(fn.name)) {
      return inner + this.size(first) * (1 + traversal(this.textSize(first, type.elem)));
    }
    if (fn.resultCost !== undefined) return inner + fn.resultCost(this.size(expr));
    if (fn.cost === undefined) return inner + 1;
    const sizes = [first, second, third].map((arg) => (arg === undefined ? 1 : this.size(arg)));
    const [a = 1, b = 1, c = 1] = sizes;
    return inner + fn.cost(a, b, c, isText);
  }

  /** The characters of an item that is a string; 0 for all others. A limit is known only for lists of the data. */
  private textSize(list: Expr, elem: CelType): number {
    if (elem.kind !== "string" && elem.kind !== "bytes") return 0;
    return this.isData(list) ? sizeOfType(elem) : unlimited;
  }

  /** Whether an expression refers to a value of the data, whose schema declares limits. */
  private isData(expr: Expr): boolean {
    switch (expr.op) {
      case "ident": {
        const ref = this.checked.refs.get(expr);
        return ref !== undefined && "slot" in ref && !this.computed.has(ref.slot);
      }
      case "select":
        return !expr.optional && this.isData(expr.target);
      case "index":
        // An item of a computed list counts as data: Kubernetes uses the limits of the original list.
        return !expr.optional;
      default:
        return false;
    }
  }

  /** The variables of a loop or a binding are data where their source is. */
  private follow(owner: Expr, source: Expr): void {
    if (this.isData(source)) return;
    for (const slot of this.checked.locals.get(owner) ?? []) this.computed.add(slot);
  }

  /**
   * The size of the variable of a loop. For keys of a map Kubernetes assumes nothing; an item of a computed list is
   * assumed to be as large as `self`. Undefined for values of the data.
   */
  private variableSize(expr: Expr): number | undefined {
    const ref = expr.op === "ident" ? this.checked.refs.get(expr) : undefined;
    if (ref === undefined || !("slot" in ref)) return undefined;
    const self = this.selfType();
    if (self === undefined) return undefined;
    if (this.keys.has(ref.slot)) return 0;
    if (!this.computed.has(ref.slot)) return undefined;
    return self.kind === "object" ? 0 : sizeOfType(self);
  }

  /** The type of `self` in rules of custom resources; undefined in all other expressions. */
  private selfType(): CelType | undefined {
    for (const [expr, type] of this.checked.types) if (expr.op === "ident" && expr.name === "self") return type;
    return undefined;
  }

  private foldCost(expr: Fold): number {
    this.follow(expr, expr.range);
    const [key] = this.checked.locals.get(expr) ?? [];
    if (key !== undefined && this.checked.types.get(expr.range)?.kind === "map") this.keys.add(key);
    const range = this.cost(expr.range);
    const count = this.size(expr.range);
    const body = this.cost(expr.body);
    const filter = expr.filter === undefined ? 0 : this.cost(expr.filter);
    const loops = (perItem: number) => (count === 0 ? 0 : count * perItem);
    switch (expr.kind) {
      case "all":
        return range + loops(3 + body) + 1;
      case "exists":
        return range + loops(4 + body) + 1;
      case "existsOne":
        return range + loops(2 + body) + 2;
      case "filter":
        return range + loops(13 + body) + 11;
      case "map":
      case "transformList":
        return range + loops(12 + filter + body) + 11;
      case "transformMap":
      case "transformMapEntry":
        return range + loops(3 + filter + body) + 31;
      case "sortBy":
        return range + loops(12 + body + Math.ceil(Math.log2(Math.min(count, 2 ** 40) + 1)));
    }
  }

  private joinedSize([list, separator]: readonly Expr[]): number {
    if (list === undefined) return unlimited;
    const type = this.checked.types.get(list);
    const item = type?.kind === "list" && this.isData(list) ? sizeOfType(type.elem) : unlimited;
    return this.size(list) * (item + (separator === undefined ? 0 : this.size(separator)));
  }

  /** The maximum size of the value of this expression. */
  private size(expr: Expr): number {
    switch (expr.op) {
      case "ident": {
        const size = this.variableSize(expr);
        if (size !== undefined) return size;
        break;
      }
      case "const":
        return constantSize(expr.value);
      case "list":
        return expr.items.length;
      case "map":
        return expr.entries.length;
      case "if":
        return Math.max(this.size(expr.then), this.size(expr.otherwise));
      case "bind":
        return this.size(expr.body);
      case "fold":
        return expr.kind === "all" || expr.kind === "exists" || expr.kind === "existsOne" ? 1 : this.size(expr.range);
      case "call": {
        const resolved = this.checked.calls.get(expr);
        const resultSize = resolved?.fn.resultSize;
        if (resolved?.fn.name === "join") return this.joinedSize(resolved.args);
        if (resolved === undefined || resultSize === undefined) break;
        const type = this.checked.types.get(expr);
        if (type !== undefined && isScalar(type)) return 1;
        const [a = 1, b = 1, c = 1] = resolved.args.map((arg) => this.size(arg));
        return resultSize(a, b, c, true);
      }
      default:
        break;
    }
    return sizeOfType(this.checked.types.get(expr));
  }
}

function isScalar(type: CelType): boolean {
  return !["string", "bytes", "list", "map", "dyn", "object"].includes(type.kind);
}

function sizeOfType(type: CelType | undefined): number {
  if (type === undefined) return unlimited;
  switch (type.kind) {
    case "string":
    case "bytes":
    case "list":
    case "map":
    case "dyn":
      return type.max ?? unlimited;
    case "object":
      return type.fields.size;
    case "optional":
      return sizeOfType(type.elem);
    default:
      return 1;
  }
}

function constantSize(value: CelValue): number {
  if (typeof value === "string") return stringSize(value);
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return isMap(value) ? mapSize(value) : 1;
}
