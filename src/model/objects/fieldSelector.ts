import { badRequest } from "./status.ts";

/** One condition on one field: `spec.nodeName=n1`. */
export type FieldRequirement = {
  readonly field: string;
  readonly operator: "=" | "!=";
  readonly value: string;
};

/**
 * Reads `a=b,c!=d`. Commas, equals signs and backslashes inside values are written with a backslash before them.
 * Which fields a kind offers is not known here. Refuses with 400.
 */
export function parseFieldSelector(text: string): FieldRequirement[] {
  const requirements: FieldRequirement[] = [];
  for (const term of splitTerms(text)) {
    if (term === "") continue;
    const match = /^([^=!]*(?:!(?!=)[^=!]*)*)(!=|==|=)/.exec(term);
    if (match === null) throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
    requirements.push({
      field: match[1] ?? "",
      operator: match[2] === "!=" ? "!=" : "=",
      value: unescapeValue(term.slice(match[0].length)),
    });
  }
  return requirements;
}

/** Whether every condition holds; a field without a value counts as empty. */
export function matchesFields(
  requirements: readonly FieldRequirement[],
  read: (field: string) => string | undefined,
): boolean {
  for (const { field, operator, value } of requirements) {
    if (((read(field) ?? "") === value) !== (operator === "=")) return false;
  }
  return true;
}

/** The value that every matching object must have, if the selector pins the field to one; for lookups by index. */
export function exactFieldValue(requirements: readonly FieldRequirement[], field: string): string | undefined {
  return requirements.find((one) => one.field === field && one.operator === "=")?.value;
}

/** Writes a value so that parseFieldSelector reads it back. */
export function escapeFieldValue(value: string): string {
  return value.replace(/[\\,=]/g, "\\$&");
}

function splitTerms(text: string): string[] {
  const terms: string[] = [];
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === ",") {
      terms.push(text.slice(start, i));
      start = i + 1;
    }
  }
  terms.push(text.slice(start));
  return terms;
}

function unescapeValue(text: string): string {
  if (!/[\\,=]/.test(text)) return text;
  let value = "";
  const characters = [...text];
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i] ?? "";
    if (character === "=" || character === ",") {
      throw badRequest(`invalid field selector: unescaped character in value: ${character.charCodeAt(0)}`);
    }
    if (character !== "\\") {
      value += character;
      continue;
    }
    const next = characters[++i];
    if (next !== "\\" && next !== "," && next !== "=") {
      throw badRequest(`invalid field selector: invalid escape sequence: \\${next ?? ""}`);
    }
    value += next;
  }
  return value;
}
