import { type FieldError, forbidden, invalid, notSupported, required } from "../../model/objects/fieldError.ts";
import { compileMessage, compileRule } from "./celRules.ts";
import { celTypeOf, listMax, mapMax } from "./celTypes.ts";
import { parseSimplePath } from "./jsonPath.ts";
import type { RuleSource, Structural } from "./structural.ts";

/**
 * Checks the rules of a schema: they must compile, refer to existing fields, and stay within the cost limit for the
 * largest object that the schema allows.
 */
export function checkRuleSources(schema: Structural, path: string, errors: FieldError[]): void {
  const check: Check = { errors, totalCost: 0, dearest: [] };
  visit(schema, path, { isRoot: true, count: 1, uncorrelatable: undefined }, check);
  if (check.totalCost > schemaCostLimit) {
    const factor = excess(check.totalCost, schemaCostLimit);
    for (const { field, cost } of check.dearest) {
      if (cost < schemaCostLimit / 100) continue;
      const share = `contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema`;
      errors.push(forbidden(field, share));
    }
    const why = `x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of ${factor} (${advice})`;
    errors.push(forbidden(path, why));
  }
}

export const ruleEstimateLimit = 10_000_000;
export const schemaCostLimit = 100_000_000;
const advice =
  "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared";
const reasons = ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
const expressionLengthMax = 5 * 1024;

interface Check {
  readonly errors: FieldError[];
  totalCost: number;
  readonly dearest: { field: string; cost: number }[];
}

interface Where {
  readonly isRoot: boolean;
  /** How often this value can occur in one object. */
  readonly count: number;
  /** The atomic list above: its items have no identity, so an old value cannot be found. */
  readonly uncorrelatable: string | undefined;
}

function visit(schema: Structural, path: string, where: Where, check: Check): void {
  if (!schema.has.rules) return;
  schema.rules.forEach((rule, i) => {
    checkRule(rule, schema, `${path}.x-kubernetes-validations[${i}]`, where, check);
  });
  const inFields = schema.mapAtomic ? (where.uncorrelatable ?? path) : where.uncorrelatable;
  for (const [name, child] of schema.properties) {
    visit(child, `${path}.properties[${name}]`, { isRoot: false, count: where.count, uncorrelatable: inFields }, check);
  }
  if (schema.additional !== undefined) {
    const count = where.count * mapMax(schema);
    visit(schema.additional, `${path}.additionalProperties`, { ...where, isRoot: false, count }, check);
  }
  if (schema.items !== undefined) {
    const uncorrelatable = schema.listType === "map" ? where.uncorrelatable : (where.uncorrelatable ?? path);
    visit(
      schema.items,
      `${path}.items`,
      { isRoot: false, count: where.count * listMax(schema), uncorrelatable },
      check,
    );
  }
}

function checkRule(rule: RuleSource, schema: Structural, path: string, where: Where, check: Check): void {
  const { errors } = check;
  if (rule.rule.trim() === "") {
    errors.push(required(`${path}.rule`, "rule is not specified"));
    return;
  }
  if (rule.message !== "" && rule.message.trim() === "") {
    errors.push(invalid(`${path}.message`, rule.message, "message must be non-empty if specified"));
  } else if (/[\n\r]/.test(rule.message)) {
    errors.push(invalid(`${path}.message`, rule.message, "message must not contain line breaks"));
  } else if (/[\n\r]/.test(rule.rule.trim()) && rule.message === "") {
    errors.push(required(`${path}.message`, "message must be specified if rule contains line breaks"));
  }
  if (rule.reason !== "" && !reasons.includes(rule.reason)) {
    errors.push(notSupported(`${path}.reason`, rule.reason, reasons));
  }
  if (rule.fieldPath !== "") checkFieldPath(rule.fieldPath, schema, `${path}.fieldPath`, errors);
  const type = celTypeOf(schema, where.isRoot);
  if (type === undefined) {
    const why = "compilation failed: rules cannot look into content without a type";
    errors.push(invalid(`${path}.rule`, rule.rule, why));
    return;
  }
  checkProgram(rule, compileRule(rule, type), rule.rule, `${path}.rule`, where, check, path);
  if (rule.messageExpression !== "") {
    if (rule.messageExpression.length > expressionLengthMax) {
      const why = `must not be longer than ${expressionLengthMax} bytes`;
      errors.push(invalid(`${path}.messageExpression`, rule.messageExpression, why));
      return;
    }
    const compiled = compileMessage(rule, type);
    checkProgram(rule, compiled, rule.messageExpression, `${path}.messageExpression`, where, check, undefined);
  }
}

function checkProgram(
  rule: RuleSource,
  compiled: ReturnType<typeof compileRule>,
  text: string,
  field: string,
  where: Where,
  check: Check,
  rulePath: string | undefined,
): void {
  const { errors } = check;
  if ("error" in compiled) {
    errors.push(invalid(field, text, `compilation failed: ${compiled.error}`));
    return;
  }
  const { program } = compiled;
  const usesOld = program.uses("oldSelf");
  if (rulePath !== undefined && usesOld && where.uncorrelatable !== undefined) {
    const why = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${where.uncorrelatable}`;
    errors.push(invalid(field, text, why));
  }
  if (rulePath !== undefined && rule.optionalOldSelf && !usesOld) {
    errors.push(invalid(`${rulePath}.optionalOldSelf`, true, "may not be set if oldSelf is not used in rule"));
  }
  // The first violation ends the evaluation, so the cost of a message is not multiplied by the number of values.
  const cost = rulePath === undefined ? program.costMax : program.costMax * where.count;
  check.totalCost += cost;
  check.dearest.push({ field, cost });
  if (cost > ruleEstimateLimit) {
    const what = rulePath === undefined ? "estimated messageExpression cost" : "estimated rule cost";
    errors.push(forbidden(field, `${what} exceeds budget by factor of ${excess(cost, ruleEstimateLimit)} (${advice})`));
  }
}

function excess(cost: number, limit: number): string {
  const factor = cost / limit;
  if (factor > 100) return "more than 100x";
  // Rounded, a small excess would look like none.
  return factor < 1.5 ? `${factor.toFixed(6)}x` : `${factor.toFixed(1)}x`;
}

function checkFieldPath(text: string, schema: Structural, field: string, errors: FieldError[]): void {
  const names = /^[.[]/.test(text) ? parseSimplePath(text) : "must start with a dot";
  if (typeof names === "string") {
    errors.push(invalid(field, text, "fieldPath must be a valid path"));
    return;
  }
  let place: Structural | undefined = schema;
  for (const name of names) {
    place = place?.properties.get(name) ?? place?.additional;
    if (place === undefined) {
      errors.push(invalid(field, text, "fieldPath must be a valid path"));
      return;
    }
  }
}
