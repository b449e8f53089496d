import { type CelProgram, compile, evaluate } from "../../cel/cel.ts";
import { boolType, type CelType, optionalType, stringType } from "../../cel/types.ts";
import { CelOptional, type CelValue } from "../../cel/values.ts";
import { duplicate, type FieldError, forbidden, invalid, required } from "../../model/objects/fieldError.ts";
import { equalJson, type Json } from "../../model/objects/json.ts";
import { celTypeOf, celValueOf } from "./celTypes.ts";
import { correlatedItem } from "./correlate.ts";
import { parseSimplePath } from "./jsonPath.ts";
import type { RuleSource, Structural } from "./structural.ts";

/** The rules of x-kubernetes-validations: compiled once per schema, evaluated within a budget per object. */
export interface RuleNode {
  /** The value in the message of a violation: a full object would make it unreadable. */
  readonly typeName: string;
  readonly schema: Structural;
  readonly rules: readonly CompiledRule[];
  readonly properties: ReadonlyMap<string, RuleNode>;
  readonly additional: RuleNode | undefined;
  readonly items: RuleNode | undefined;
}

interface CompiledRule {
  readonly source: RuleSource;
  readonly program: CelProgram;
  readonly messageProgram: CelProgram | undefined;
  /** The rule uses oldSelf without optionalOldSelf, so it is evaluated on update only. */
  readonly isTransition: boolean;
  readonly fieldPath: string;
}

export const ruleCostLimit = 1_000_000;
export const objectCostLimit = 10_000_000;
const messageLengthMax = 5 * 1024;

export type RuleProgram = { program: CelProgram } | { error: string };

/** The compiled rule for a value of this type, or the error. */
export function compileRule(rule: RuleSource, selfType: CelType): RuleProgram {
  return compileOver(rule.rule, rule, selfType, boolType, "must evaluate to a bool");
}

export function compileMessage(rule: RuleSource, selfType: CelType): RuleProgram {
  return compileOver(rule.messageExpression, rule, selfType, stringType, "must evaluate to a string");
}

function compileOver(text: string, rule: RuleSource, self: CelType, result: CelType, wrongResult: string): RuleProgram {
  const oldSelf = rule.optionalOldSelf ? optionalType(self) : self;
  const compiled = compile(text, { variables: { self, oldSelf } });
  if (!compiled.ok) return { error: compiled.errors.join("\n") };
  const { kind } = compiled.program.type;
  return kind === result.kind || kind === "dyn" ? { program: compiled.program } : { error: wrongResult };
}

/**
 * The tree of rules of a schema; undefined where there are none. Rules that do not compile were rejected with the
 * definition.
 */
export function compileRules(schema: Structural, isResource: boolean): RuleNode | undefined {
  if (!schema.has.rules) return undefined;
  const type = celTypeOf(schema, isResource);
  const rules: CompiledRule[] = [];
  for (const source of schema.rules) {
    const compiled = type === undefined ? { error: "" } : compileRule(source, type);
    if (!("program" in compiled)) continue;
    const message = source.messageExpression === "" || type === undefined ? undefined : compileMessage(source, type);
    rules.push({
      source,
      program: compiled.program,
      messageProgram: message !== undefined && "program" in message ? message.program : undefined,
      isTransition: compiled.program.uses("oldSelf") && !source.optionalOldSelf,
      fieldPath: fieldPathText(source.fieldPath),
    });
  }
  const properties = new Map<string, RuleNode>();
  for (const [name, child] of schema.properties) {
    const node = compileRules(child, false);
    if (node !== undefined) properties.set(name, node);
  }
  return {
    typeName: schema.type === "" ? "any" : schema.type,
    schema,
    rules,
    properties,
    additional: schema.additional === undefined ? undefined : compileRules(schema.additional, false),
    items: schema.items === undefined ? undefined : compileRules(schema.items, false),
  };
}

/** `.spec.x` and `['spec'].x` as the end of a field path. */
function fieldPathText(path: string): string {
  if (path === "") return "";
  const steps = parseSimplePath(path);
  return typeof steps === "string" ? "" : steps.map((step) => `.${step}`).join("");
}

/** Evaluates all rules. `old` is the stored value, on update. */
export function checkRules(root: RuleNode, value: Json, old: Json | undefined): FieldError[] {
  const run: RuleRun = { budget: objectCostLimit, exhausted: false, errors: [] };
  const before = old === undefined ? undefined : { value: old, cel: celValueOf(old, root.schema) };
  visit(root, { value, cel: celValueOf(value, root.schema) }, before, undefined, "", run);
  return run.errors;
}

interface RuleRun {
  budget: number;
  exhausted: boolean;
  readonly errors: FieldError[];
}

/** One value, as JSON and as CEL sees it. */
interface Place {
  readonly value: Json;
  readonly cel: CelValue;
}

/** The innermost ancestor that has an old value; items of atomic lists are ratcheted with their list. */
interface Change {
  readonly value: Json;
  readonly old: Json;
  same: boolean | undefined;
}

function isUnchanged(change: Change | undefined): boolean {
  if (change === undefined) return false;
  change.same ??= equalJson(change.value, change.old);
  return change.same;
}

function visit(
  node: RuleNode,
  place: Place,
  old: Place | undefined,
  above: Change | undefined,
  path: string,
  run: RuleRun,
): void {
  const change = old === undefined ? above : { value: place.value, old: old.value, same: undefined };
  // A rule is not evaluated for a null value; the rule of its parent is.
  if (run.exhausted || place.value === null) return;
  if (node.rules.length > 0) evaluateRules(node, place, old, change, path, run);
  const { value, cel } = place;
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    const { items } = node;
    if (items === undefined) return;
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as Json;
      const before = correlatedItem(node.schema, item, old?.value);
      visit(
        items,
        { value: item, cel: (cel as CelValue[])[i] as CelValue },
        before === undefined ? undefined : { value: before.value, cel: celValueOf(before.value, items.schema) },
        change,
        `${path}[${i}]`,
        run,
      );
    }
    return;
  }
  const children = node.additional === undefined ? node.properties.keys() : Object.keys(value);
  for (const key of children) {
    const child = node.properties.get(key) ?? node.additional;
    if (child === undefined || !Object.hasOwn(value, key)) continue;
    const inner: Place = { value: value[key] as Json, cel: (cel as Record<string, CelValue>)[key] as CelValue };
    const before = node.schema.mapAtomic ? undefined : childOf(old, key);
    const isNamed = node.properties.has(key);
    const childPath = isNamed ? (path === "" ? key : `${path}.${key}`) : `${path}[${key}]`;
    visit(child, inner, before, change, childPath, run);
  }
}

function childOf(place: Place | undefined, key: string): Place | undefined {
  const value = place?.value;
  if (place === undefined || typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  if (!Object.hasOwn(value, key)) return undefined;
  return { value: value[key] as Json, cel: (place.cel as Record<string, CelValue>)[key] as CelValue };
}

function evaluateRules(
  node: RuleNode,
  place: Place,
  old: Place | undefined,
  change: Change | undefined,
  path: string,
  run: RuleRun,
): void {
  for (const rule of node.rules) {
    if (rule.isTransition && old === undefined) continue;
    const oldSelf = rule.source.optionalOldSelf
      ? old === undefined
        ? CelOptional.none
        : new CelOptional(old.cel)
      : old?.cel;
    const bindings: Record<string, CelValue> = { self: place.cel };
    if (oldSelf !== undefined) bindings["oldSelf"] = oldSelf;
    const limit = Math.min(ruleCostLimit, run.budget);
    const result = evaluate(rule.program, bindings, { costLimit: limit });
    run.budget -= result.cost;
    if (result.kind === "value" && result.value === true) continue;
    const about = (rule.source.message || rule.source.rule).trim();
    if (result.kind === "costExceeded") {
      run.exhausted = true;
      const why =
        limit < ruleCostLimit
          ? "validation failed due to running out of cost budget, no further validation rules will be run"
          : `'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: ${about}`;
      run.errors.push(invalid(path, node.typeName, why));
      return;
    }
    if (result.kind === "error") {
      const why = result.message.startsWith("no such overload")
        ? `'${result.message}': call arguments did not match a supported operator, function or macro signature for rule: ${about}`
        : `${result.message} evaluating rule: ${about}`;
      run.errors.push(invalid(path, node.typeName, why));
      continue;
    }
    // Ratcheting: a violation of an unchanged value is tolerated, unless it is a transition rule.
    if (!rule.program.uses("oldSelf") && isUnchanged(change)) continue;
    const message = messageOf(rule, bindings, run);
    if (message !== undefined) {
      run.errors.push(violation(rule, node, path, message));
      continue;
    }
    run.exhausted = true;
    const why =
      "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
    run.errors.push(invalid(path, node.typeName, why));
    return;
  }
}

/** The message of a violation; undefined if evaluating it exceeded the budget. */
function messageOf(rule: CompiledRule, bindings: Record<string, CelValue>, run: RuleRun): string | undefined {
  const { message, rule: text } = rule.source;
  const fallback = message.trim() === "" ? `failed rule: ${text.trim()}` : message.trim();
  if (rule.messageProgram === undefined) return fallback;
  const result = evaluate(rule.messageProgram, bindings, {
    costLimit: Math.min(ruleCostLimit, Math.max(0, run.budget)),
  });
  run.budget -= result.cost;
  if (result.kind === "costExceeded") return undefined;
  if (result.kind !== "value" || typeof result.value !== "string") return fallback;
  const spoken = result.value.trim();
  // Messages are written into headers and one-line outputs.
  const isUsable = spoken !== "" && !spoken.includes("\n") && spoken.length <= messageLengthMax;
  return isUsable ? spoken : fallback;
}

function violation(rule: CompiledRule, node: RuleNode, path: string, message: string): FieldError {
  const field = rule.fieldPath === "" ? path : `${path}${rule.fieldPath}`.replace(/^\./, "");
  switch (rule.source.reason) {
    case "FieldValueForbidden":
      return forbidden(field, message);
    case "FieldValueRequired":
      return required(field, message);
    case "FieldValueDuplicate":
      return duplicate(field, node.typeName);
    default:
      return invalid(field, node.typeName, message);
  }
}
