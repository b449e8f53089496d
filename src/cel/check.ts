import type { Call, Expr, Fold, Select } from "./ast.ts";
import type { CelFunction } from "./functions.ts";
import { literalErrors } from "./literals.ts";
import { qualifiedName } from "./parse.ts";
import { globalFunctions, memberFunctions } from "./registry.ts";
import {
  assignable,
  type Bindings,
  boolType,
  bytesType,
  type CelType,
  doubleType,
  dynType,
  intType,
  joinTypes,
  listType,
  mapType,
  nullType,
  optionalType,
  stringType,
  substitute,
  typeText,
  typeType,
  uintType,
} from "./types.ts";
import { CelDouble, CelTypeValue, CelUint } from "./values.ts";

/** Resolves names and types of an expression before it is evaluated. */
export interface Checked {
  readonly types: ReadonlyMap<Expr, CelType>;
  /** The overloads that a call may resolve to; more than one only where types are unknown. */
  readonly calls: ReadonlyMap<Call, ResolvedCall>;
  /** The slot or the constant of an identifier. */
  readonly refs: ReadonlyMap<Expr, Ref>;
  /** The data key of a selected field. */
  readonly keys: ReadonlyMap<Select, string>;
  /** Slots of the variables that a fold, bind or optMap introduces. */
  readonly locals: ReadonlyMap<Expr, readonly number[]>;
  readonly slots: number;
}

export interface ResolvedCall {
  readonly fn: CelFunction;
  /** Receiver first, if the function has one. */
  readonly args: readonly Expr[];
}

export type Ref = { readonly slot: number } | { readonly constant: CelTypeValue };

export interface CheckError {
  readonly at: number;
  readonly message: string;
}

const typeNames = new Set(["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"]);
for (const name of ["google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type", "kubernetes.Quantity"])
  typeNames.add(name);
for (const name of ["net.IP", "net.CIDR", "kubernetes.URL", "kubernetes.Semver"]) typeNames.add(name);

/** What an environment adds to the common functions. */
export interface CheckOptions {
  /** `cel.bind(x, 1, x + 1)`: available in device selectors only. */
  readonly hasBindings?: boolean | undefined;
  /** Message types that expressions may construct, by name: `JSONPatch{op: "add"}`. */
  readonly messageType?: ((name: string) => CelType | undefined) | undefined;
}

export function check(
  expr: Expr,
  variables: ReadonlyMap<string, CelType>,
  options: CheckOptions = {},
): { checked: Checked; errors: readonly CheckError[] } {
  const checker = new Checker(variables, options);
  checker.visit(expr);
  const errors = checker.errors.length > 0 ? checker.errors : literalErrors(expr, checker);
  return { checked: checker, errors };
}

class Checker implements Checked {
  readonly types = new Map<Expr, CelType>();
  readonly calls = new Map<Call, ResolvedCall>();
  readonly refs = new Map<Expr, Ref>();
  readonly keys = new Map<Select, string>();
  readonly locals = new Map<Expr, readonly number[]>();
  readonly errors: CheckError[] = [];
  slots = 0;
  private readonly scopes: Map<string, { slot: number; type: CelType }>[] = [];

  private readonly options: CheckOptions;

  constructor(variables: ReadonlyMap<string, CelType>, options: CheckOptions) {
    this.options = options;
    const scope = new Map<string, { slot: number; type: CelType }>();
    for (const [name, type] of variables) scope.set(name, { slot: this.slots++, type });
    this.scopes.push(scope);
  }

  visit(expr: Expr): CelType {
    const type = this.typeOf(expr);
    this.types.set(expr, type);
    return type;
  }

  private error(at: number, message: string): CelType {
    this.errors.push({ at, message });
    return dynType;
  }

  private lookup(name: string): { slot: number; type: CelType } | undefined {
    for (let i = this.scopes.length - 1; i >= 0; i--) {
      const found = this.scopes[i]?.get(name);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Checks a body with additional variables in scope. */
  private within(owner: Expr, names: readonly (readonly [string, CelType])[], visit: () => void): void {
    const scope = new Map<string, { slot: number; type: CelType }>();
    for (const [name, type] of names) scope.set(name, { slot: this.slots++, type });
    this.locals.set(
      owner,
      names.map(([name]) => (scope.get(name) as { slot: number }).slot),
    );
    this.scopes.push(scope);
    visit();
    this.scopes.pop();
  }

  private typeOf(expr: Expr): CelType {
    switch (expr.op) {
      case "const":
        return constantType(expr.value);
      case "ident":
        return (
          this.named(expr, expr.name) ?? this.error(expr.at, `undeclared reference to '${expr.name}' (in container '')`)
        );
      case "select":
        return this.select(expr);
      case "has":
        this.select(expr.select, true);
        return boolType;
      case "index":
        return this.index(expr);
      case "call":
        return this.call(expr);
      case "and":
      case "or": {
        const name = expr.op === "and" ? "_&&_" : "_||_";
        for (const arg of expr.args) {
          const type = this.visit(arg);
          if (!isBool(type)) this.noOverload(expr.at, name, [boolType, type]);
        }
        return boolType;
      }
      case "if": {
        const test = this.visit(expr.test);
        const then = this.visit(expr.then);
        const otherwise = this.visit(expr.otherwise);
        // An empty literal has the type of the other branch.
        if (isEmptyLiteral(expr.then) && otherwise.kind === then.kind && isBool(test)) return otherwise;
        if (isEmptyLiteral(expr.otherwise) && otherwise.kind === then.kind && isBool(test)) return then;
        const agree = assignable(then, otherwise, new Map()) || assignable(otherwise, then, new Map());
        if (!isBool(test) || !agree) return this.noOverload(expr.at, "_?_:_", [test, then, otherwise]);
        return joinTypes(then, otherwise);
      }
      case "list": {
        let elem: CelType | undefined;
        for (const item of expr.items) {
          const type = this.element(item.value, item.optional);
          elem = elem === undefined ? type : joinTypes(elem, type);
        }
        return listType(elem ?? dynType, expr.items.length);
      }
      case "map": {
        let key: CelType | undefined;
        let value: CelType | undefined;
        for (const entry of expr.entries) {
          const keyType = this.visit(entry.key);
          const valueType = this.element(entry.value, entry.optional);
          key = key === undefined ? keyType : joinTypes(key, keyType);
          value = value === undefined ? valueType : joinTypes(value, valueType);
        }
        return mapType(key ?? dynType, value ?? dynType, expr.entries.length);
      }
      case "struct":
        return this.struct(expr);
      case "fold":
        return this.fold(expr);
      case "bind": {
        if (this.options.hasBindings !== true) {
          return this.error(expr.at, "undeclared reference to 'cel' (in container '')");
        }
        const value = this.visit(expr.value);
        let body: CelType = dynType;
        this.within(expr, [[expr.name, value]], () => {
          body = this.visit(expr.body);
        });
        return body;
      }
      case "optMap":
      case "optFlatMap": {
        const target = this.visit(expr.target);
        if (target.kind !== "optional" && target.kind !== "dyn") return this.noOverload(expr.at, expr.op, [target]);
        let body: CelType = dynType;
        this.within(expr, [[expr.name, target.kind === "optional" ? target.elem : dynType]], () => {
          body = this.visit(expr.body);
        });
        if (expr.op === "optMap") return optionalType(body);
        if (body.kind !== "optional" && body.kind !== "dyn") return this.noOverload(expr.at, expr.op, [target, body]);
        return body;
      }
    }
  }

  private struct(expr: Expr & { op: "struct" }): CelType {
    const message = this.options.messageType?.(expr.name);
    if (message === undefined) {
      return this.error(expr.at, `undeclared reference to '${expr.name}' (in container '')`);
    }
    for (const { at, name, value, optional } of expr.fields) {
      const given = this.element(value, optional);
      const declared = message.kind === "object" ? (message.fields.get(name)?.type ?? noType) : dynType;
      if (declared !== noType && assignable(declared, given, new Map())) continue;
      const wanted = declared === noType ? "" : typeText(declared);
      this.error(at, `expected type of field '${name}' is '${wanted}' but provided type is '${typeText(given)}'`);
    }
    return message;
  }

  private element(expr: Expr, optional: boolean): CelType {
    const type = this.visit(expr);
    if (!optional) return type;
    if (type.kind === "optional") return type.elem;
    if (type.kind === "dyn") return dynType;
    return this.error(expr.at, `expected type 'optional_type' but found '${typeText(type)}'`);
  }

  private named(expr: Expr, name: string): CelType | undefined {
    const variable = this.lookup(name);
    if (variable !== undefined) {
      this.refs.set(expr, { slot: variable.slot });
      return variable.type;
    }
    if (!typeNames.has(name)) return undefined;
    this.refs.set(expr, { constant: new CelTypeValue(name) });
    return typeType;
  }

  /** Whether the first identifier of a dotted name is a variable, so that the dots select fields. */
  private startsWithVariable(dotted: string): boolean {
    return this.lookup(dotted.split(".")[0] as string) !== undefined;
  }

  private select(expr: Select, testOnly = false): CelType {
    const dotted = qualifiedName(expr);
    if (!testOnly && dotted !== undefined && !this.startsWithVariable(dotted)) {
      const type = this.named(expr, dotted);
      if (type !== undefined) return type;
    }
    const target = this.visit(expr.target);
    const inner = target.kind === "optional" ? target.elem : target;
    const field = this.field(expr, inner);
    return expr.optional || target.kind === "optional" ? wrapOptional(field) : field;
  }

  private field(expr: Select, target: CelType): CelType {
    this.keys.set(expr, expr.field);
    switch (target.kind) {
      case "dyn":
      case "param":
        return dynType;
      case "map":
        return target.value;
      case "object": {
        const field =
          target.fields.get(expr.field) ?? (expr.quoted ? fieldByKey(target.fields, expr.field) : undefined);
        if (field === undefined) return this.error(expr.at, `undefined field '${expr.field}'`);
        this.keys.set(expr, field.key);
        return field.type;
      }
      default:
        return this.error(expr.at, `type '${typeText(target)}' does not support field selection`);
    }
  }

  private index(expr: Expr & { op: "index" }): CelType {
    const target = this.visit(expr.target);
    const index = this.visit(expr.index);
    const inner = target.kind === "optional" ? target.elem : target;
    let result: CelType | undefined;
    if (inner.kind === "dyn") result = dynType;
    else if (inner.kind === "list" && ["int", "dyn", "uint", "double"].includes(index.kind)) result = inner.elem;
    else if (inner.kind === "map" && assignable(inner.key, index, new Map())) result = inner.value;
    if (result === undefined) return this.noOverload(expr.at, expr.optional ? "_[?_]" : "_[_]", [target, index]);
    return expr.optional || target.kind === "optional" ? wrapOptional(result) : result;
  }

  private call(expr: Call): CelType {
    if (expr.target !== undefined) {
      const prefix = qualifiedName(expr.target);
      if (prefix !== undefined && !this.startsWithVariable(prefix)) {
        const name = `${prefix}.${expr.name}`;
        const functions = globalFunctions(name);
        if (functions !== undefined) return this.resolve(expr, name, functions, expr.args, undefined);
      }
    }
    const functions = expr.target === undefined ? globalFunctions(expr.name) : memberFunctions(expr.name);
    if (functions === undefined) {
      if (expr.target !== undefined) this.visit(expr.target);
      for (const arg of expr.args) this.visit(arg);
      return this.error(expr.at, `undeclared reference to '${expr.name}' (in container '')`);
    }
    return this.resolve(expr, expr.name, functions, expr.args, expr.target);
  }

  private resolve(
    expr: Call,
    name: string,
    functions: readonly CelFunction[],
    args: readonly Expr[],
    target: Expr | undefined,
  ): CelType {
    const receiver = target === undefined ? undefined : this.visit(target);
    const types = args.map((arg) => this.visit(arg));
    let result: CelType | undefined;
    let chosen: CelFunction | undefined;
    for (const fn of functions) {
      for (const signature of fn.signatures) {
        const bindings: Bindings = new Map();
        if (signature.receiver !== undefined) {
          if (receiver === undefined || !assignable(signature.receiver, receiver, bindings)) continue;
        }
        const { params, variadic } = signature;
        if (variadic ? types.length < params.length : types.length !== params.length) continue;
        const last = params.at(-1);
        const fits = types.every((type, i) => assignable((params[i] ?? last) as CelType, type, bindings));
        if (!fits) continue;
        const type = substitute(signature.result, bindings);
        chosen ??= fn;
        result = result === undefined ? type : joinTypes(result, type);
      }
    }
    if (result === undefined || chosen === undefined) {
      return this.noOverload(expr.at, name, types, receiver);
    }
    this.calls.set(expr, { fn: chosen, args: target === undefined ? args : [target, ...args] });
    return result;
  }

  private fold(expr: Fold): CelType {
    const range = this.visit(expr.range);
    const [first, second] = foldTypes(range, expr.names.length);
    if (first === undefined || second === undefined) {
      this.error(
        expr.range.at,
        `expression of type '${typeText(range)}' cannot be range of a comprehension (must be list, map, or dynamic)`,
      );
    }
    const names = expr.names.map((name, i) => [name, (i === 0 ? first : second) ?? dynType] as const);
    let body: CelType = dynType;
    this.within(expr, names, () => {
      if (expr.filter !== undefined) this.mustBeBool(expr.filter, this.visit(expr.filter));
      body = this.visit(expr.body);
    });
    const max = "max" in range ? range.max : undefined;
    switch (expr.kind) {
      case "all":
      case "exists":
      case "existsOne":
        this.mustBeBool(expr.body, body);
        return boolType;
      case "filter":
        this.mustBeBool(expr.body, body);
        return listType(first ?? dynType, max);
      case "map":
      case "transformList":
        return listType(body, max);
      case "transformMap":
        return mapType(range.kind === "list" ? intType : (first ?? dynType), body, max);
      case "transformMapEntry":
        if (body.kind === "map") return mapType(body.key, body.value, max);
        if (body.kind !== "dyn") this.error(expr.body.at, `expected type 'map' but found '${typeText(body)}'`);
        return mapType(dynType, dynType);
      case "sortBy":
        return listType(first ?? dynType, max);
    }
  }

  private mustBeBool(expr: Expr, type: CelType): void {
    if (!isBool(type)) this.error(expr.at, `expected type 'bool' but found '${typeText(type)}'`);
  }

  private noOverload(at: number, name: string, types: readonly CelType[], receiver?: CelType): CelType {
    const args = types.map(typeText).join(", ");
    const applied = receiver === undefined ? `(${args})` : `${typeText(receiver)}.(${args})`;
    return this.error(at, `found no matching overload for '${name}' applied to '${applied}'`);
  }
}

const noType: CelType = { kind: "opaque", name: "" };

function isEmptyLiteral(expr: Expr): boolean {
  return (expr.op === "list" && expr.items.length === 0) || (expr.op === "map" && expr.entries.length === 0);
}

function isBool(type: CelType): boolean {
  return type.kind === "bool" || type.kind === "dyn";
}

function wrapOptional(type: CelType): CelType {
  return type.kind === "optional" ? type : optionalType(type);
}

function fieldByKey(fields: ReadonlyMap<string, { key: string; type: CelType }>, key: string) {
  for (const field of fields.values()) if (field.key === key) return field;
  return undefined;
}

/** The types of the variables of a fold: item, key, or index and value. */
function foldTypes(range: CelType, names: number): [CelType | undefined, CelType | undefined] {
  switch (range.kind) {
    case "dyn":
      return [dynType, dynType];
    case "list":
      return names === 1 ? [range.elem, range.elem] : [intType, range.elem];
    case "map":
      return [range.key, range.value];
    default:
      return [undefined, undefined];
  }
}

function constantType(value: unknown): CelType {
  switch (typeof value) {
    case "string":
      return stringType;
    case "boolean":
      return boolType;
    case "bigint":
      return intType;
    case "number":
      return Number.isSafeInteger(value) ? intType : doubleType;
    default:
      if (value === null) return nullType;
      if (value instanceof CelUint) return uintType;
      if (value instanceof CelDouble) return doubleType;
      return value instanceof Uint8Array ? bytesType : dynType;
  }
}
