/**
 * Choosing objects by their labels: the text form of URLs (`app=web,tier in (a,b),!old`), the object form of specs
 * (matchLabels and matchExpressions), and one matcher for both.
 */
import { append } from "../values/append.ts";
import { describeFieldError, type FieldError, forbidden, invalid, required } from "./fieldError.ts";
import { isObject } from "./json.ts";
import { labelValueErrors, qualifiedNameErrors } from "./names.ts";
import { badRequest } from "./status.ts";

export type LabelOperator = "in" | "notin" | "=" | "==" | "!=" | "exists" | "!" | "gt" | "lt";

export type LabelRequirement = {
  readonly key: string;
  readonly operator: LabelOperator;
  readonly values: readonly string[];
};

/** All requirements must hold; the empty list matches everything. */
export type LabelRequirements = readonly LabelRequirement[];

export type Labels = Readonly<Record<string, string>>;

/** The selector inside a spec. */
export type LabelSelector = {
  matchLabels?: Record<string, string>;
  matchExpressions?: LabelExpression[];
};
export type LabelExpression = { key: string; operator: string; values?: string[] };

/** Requirements that match no object, as for an absent selector. */
export const matchNothing: LabelRequirements = [{ key: "", operator: "in", values: [] }];

export function matchesLabels(requirements: LabelRequirements, labels: Labels | undefined): boolean {
  for (const requirement of requirements) if (!holds(requirement, labels)) return false;
  return true;
}

function holds({ key, operator, values }: LabelRequirement, labels: Labels | undefined): boolean {
  const value = labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "=":
    case "==":
    case "in":
      return value !== undefined && values.includes(value);
    case "!=":
    case "notin":
      return value === undefined || !values.includes(value);
    case "exists":
      return value !== undefined;
    case "!":
      return value === undefined;
    case "gt":
    case "lt": {
      const left = value === undefined ? undefined : parseInt64(value);
      const right = parseInt64(values[0] ?? "");
      if (left === undefined || right === undefined) return false;
      return operator === "gt" ? left > right : left < right;
    }
  }
}

/** The object form as requirements; absent matches nothing, empty everything. Throws on an unknown operator. */
export function selectorRequirements(selector: LabelSelector | null | undefined): LabelRequirements {
  if (selector === undefined || selector === null) return matchNothing;
  const requirements: LabelRequirement[] = [];
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    requirements.push({ key, operator: "=", values: [value] });
  }
  for (const { key, operator, values = [] } of selector.matchExpressions ?? []) {
    const known = expressionOperators.get(operator);
    if (known === undefined) throw badRequest(`${JSON.stringify(operator)} is not a valid label selector operator`);
    requirements.push({ key, operator: known, values });
  }
  return requirements;
}

const expressionOperators = new Map<string, LabelOperator>([
  ["In", "in"],
  ["NotIn", "notin"],
  ["Exists", "exists"],
  ["DoesNotExist", "!"],
]);

/** Validates a selector in a spec, at `field`. */
export function validateLabelSelector(selector: unknown, field: string): FieldError[] {
  if (!isObject(selector)) return [];
  const { matchLabels, matchExpressions } = selector as LabelSelector;
  const errors = validateLabels(matchLabels, `${field}.matchLabels`);
  for (const [i, expression] of (matchExpressions ?? []).entries()) {
    append(errors, validateExpression(expression, `${field}.matchExpressions[${i}]`));
  }
  return errors;
}

function validateExpression({ key = "", operator = "", values = [] }: LabelExpression, field: string): FieldError[] {
  const errors: FieldError[] = [];
  switch (expressionOperators.get(operator)) {
    case "in":
    case "notin":
      if (values.length === 0) {
        errors.push(required(`${field}.values`, "must be specified when `operator` is 'In' or 'NotIn'"));
      }
      break;
    case "exists":
    case "!":
      if (values.length > 0) {
        errors.push(forbidden(`${field}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
      }
      break;
    default:
      errors.push(invalid(`${field}.operator`, operator, "not a valid selector operator"));
  }
  for (const message of qualifiedNameErrors(key)) errors.push(invalid(`${field}.key`, key, message));
  for (const [i, value] of values.entries()) {
    for (const message of labelValueErrors(value)) errors.push(invalid(`${field}.values[${i}]`, value, message));
  }
  return errors;
}

/** Validates a map of labels. As upstream, the path is that of the map, not of the key. */
export function validateLabels(labels: Labels | undefined | null, field: string): FieldError[] {
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(labels ?? {})) {
    for (const message of qualifiedNameErrors(key)) errors.push(invalid(field, key, message));
    for (const message of labelValueErrors(value)) errors.push(invalid(field, value, message));
  }
  return errors;
}

/** Parses the text form; refuses with 400, the found token and the expected one. */
export function parseLabelSelector(text: string): LabelRequirements {
  const tokens = tokenize(text);
  let at = 0;
  const peek = (): Token => tokens[at] ?? endOfText;
  const take = (): Token => tokens[at++] ?? endOfText;
  const requirements: LabelRequirement[] = [];

  while (peek().kind !== "end") {
    const first = peek();
    if (!isName(first) && first.kind !== "!") {
      throw badRequest(`found '${first.text}', expected: !, identifier, or 'end of string'`);
    }
    try {
      requirements.push(parseRequirement(peek, take));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      throw badRequest(`unable to parse requirement: ${error.message}`);
    }
    const next = take();
    if (next.kind === "end") break;
    if (next.kind !== ",") throw badRequest(`found '${next.text}', expected: ',' or 'end of string'`);
    const after = peek();
    if (!isName(after) && after.kind !== "!") {
      throw badRequest(`found '${after.text}', expected: identifier after ','`);
    }
  }
  return requirements;
}

type Token = { readonly kind: string; readonly text: string };
const endOfText: Token = { kind: "end", text: "" };
const symbols = "=!(),<>";

/** A requirement cannot be parsed. */
class Refusal extends Error {}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const character = text[at] ?? "";
    if (character === " " || character === "\t" || character === "\r" || character === "\n") {
      at++;
    } else if (symbols.includes(character)) {
      const two = text.slice(at, at + 2);
      const symbol = two === "==" || two === "!=" ? two : character;
      tokens.push({ kind: symbol, text: symbol });
      at += symbol.length;
    } else {
      const start = at;
      while (at < text.length && !symbols.includes(text[at] ?? "") && !/\s/.test(text[at] ?? "")) at++;
      tokens.push({ kind: "name", text: text.slice(start, at) });
    }
  }
  return tokens;
}

function isName(token: Token): boolean {
  return token.kind === "name";
}

function parseRequirement(peek: () => Token, take: () => Token): LabelRequirement {
  let token = take();
  const absent = token.kind === "!";
  if (absent) token = take();
  if (!isName(token)) throw new Refusal(`found '${token.text}', expected: identifier`);
  const key = token.text;
  const keyErrors = qualifiedNameErrors(key);
  // Upstream has no path here and prints `<nil>`.
  if (keyErrors.length > 0) throw new Refusal(describeFieldError(invalid("<nil>", key, keyErrors.join("; "))));
  if (absent) return { key, operator: "!", values: [] };
  if (peek().kind === "end" || peek().kind === ",") return { key, operator: "exists", values: [] };

  const operator = operatorOf(take());
  const values = operator === "in" || operator === "notin" ? parseValues(peek, take) : [parseExactValue(peek, take)];
  const errors = validateValues(key, operator, values);
  if (errors.length > 0) {
    const texts = errors.map(describeFieldError);
    throw new Refusal(texts.length === 1 ? (texts[0] ?? "") : `[${texts.join(", ")}]`);
  }
  return { key, operator, values };
}

function operatorOf({ kind, text }: Token): LabelOperator {
  switch (kind) {
    case "=":
    case "==":
    case "!=":
      return kind;
    case ">":
      return "gt";
    case "<":
      return "lt";
  }
  if (kind === "name" && (text === "in" || text === "notin")) return text;
  throw new Refusal(`found '${text}', expected: in, notin, =, ==, !=, gt, lt`);
}

function parseValues(peek: () => Token, take: () => Token): string[] {
  const open = take();
  if (open.kind !== "(") throw new Refusal(`found '${open.text}' expected: '('`);
  const first = peek();
  if (first.kind === ")") {
    take();
    return [];
  }
  if (!isName(first) && first.kind !== ",")
    throw new Refusal(`found '${first.text}', expected: ',', ')' or identifier`);
  const values = new Set<string>();
  for (;;) {
    const token = take();
    if (isName(token)) {
      values.add(token.text);
      if (peek().kind !== "," && peek().kind !== ")") {
        throw new Refusal(`found '${peek().text}', expected: ',' or ')'`);
      }
    } else if (token.kind === ",") {
      // A comma without a value means the empty value.
      if (values.size === 0 || peek().kind === ")" || peek().kind === ",") values.add("");
    } else {
      throw new Refusal(`found '${token.text}', expected: ',', or identifier`);
    }
    if (peek().kind === ")") break;
  }
  take();
  return [...values].sort();
}

function parseExactValue(peek: () => Token, take: () => Token): string {
  if (peek().kind === "end" || peek().kind === ",") return "";
  const token = take();
  if (!isName(token)) throw new Refusal(`found '${token.text}', expected: identifier`);
  return token.text;
}

function validateValues(key: string, operator: LabelOperator, values: readonly string[]): FieldError[] {
  const errors: FieldError[] = [];
  if ((operator === "in" || operator === "notin") && values.length === 0) {
    errors.push(invalid("values", values, "for 'in', 'notin' operators, values set can't be empty"));
  }
  for (const [i, value] of values.entries()) {
    if ((operator === "gt" || operator === "lt") && parseInt64(value) === undefined) {
      errors.push(invalid(`values[${i}]`, value, "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
  }
  for (const [i, value] of values.entries()) {
    const messages = labelValueErrors(value);
    if (messages.length > 0) errors.push(invalid(`values[${i}][${key}]`, value, messages.join("; ")));
  }
  return errors;
}

function parseInt64(text: string): bigint | undefined {
  if (!/^[+-]?[0-9]{1,63}$/.test(text)) return undefined;
  const number = BigInt(text.replace(/^\+/, ""));
  return number >= -(2n ** 63n) && number < 2n ** 63n ? number : undefined;
}
