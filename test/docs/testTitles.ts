import { scanSource } from "./scanSource.ts";

/** Of a call of `test`, `it` or `describe`; a skipped test shows nothing. */
const modifiers: readonly string[] = ["each", "for", "skipIf", "runIf", "only", "concurrent", "sequential", "fails"];

/**
 * The titles of the tests in a file: the first argument of `test`, `it` and `describe`, after a table and modifiers. For
 * a title with `$name`, the texts of the field `name` in its table count too; the table has to stand in the call.
 */
export function testTitles(source: string): string[] {
  const { code } = scanSource(source);
  const titles: string[] = [];
  for (const found of code.matchAll(/(?<![\w.$])(?:test|it|describe)\b/g)) {
    titles.push(...titlesOf(source, code, found.index + found[0].length));
  }
  return titles;
}

function titlesOf(source: string, code: string, from: number): string[] {
  const textAt = (quoteAt: number): string =>
    source.slice(quoteAt + 1, code.indexOf(code.charAt(quoteAt), quoteAt + 1));
  let at = from;
  let table = { start: 0, end: 0 };
  for (;;) {
    const modifier = /^\s*\.(\w+)/.exec(code.slice(at, at + 100));
    if (modifier !== null) {
      if (!modifiers.includes(modifier[1] ?? "")) return [];
      at += modifier[0].length;
      continue;
    }
    at = textStart(code, at);
    const isCall = code.charAt(at) === "(";
    if (!isCall && code.charAt(at) !== "<") return [];
    const end = closingOf(code, at);
    const first = textStart(code, at + 1);
    if (isCall && isQuote(code.charAt(first))) {
      const title = textAt(first);
      const fields = [...title.matchAll(/\$(\w+)/g)].map(([, name]) => `${name}: `);
      return [title, ...fields.flatMap((field) => textsAfter(code, field, table).map(textAt))];
    }
    if (isCall) table = { start: at, end };
    at = end + 1;
  }
}

/** The places of quotes that follow a field's name. */
function textsAfter(code: string, field: string, { start, end }: { start: number; end: number }): number[] {
  const places: number[] = [];
  for (let at = code.indexOf(field, start); at >= 0 && at < end; at = code.indexOf(field, at + 1)) {
    if (!/\w/.test(code.charAt(at - 1)) && isQuote(code.charAt(at + field.length))) places.push(at + field.length);
  }
  return places;
}

function textStart(code: string, from: number): number {
  let at = from;
  while (/\s/.test(code.charAt(at))) at++;
  return at;
}

function isQuote(char: string): boolean {
  return char === '"' || char === "'" || char === "`";
}

/** The place of the bracket that closes the one at `from`; arrows close nothing. */
function closingOf(code: string, from: number): number {
  const open = code.charAt(from);
  const close = open === "(" ? ")" : ">";
  let depth = 0;
  for (let at = from; at < code.length; at++) {
    if (code[at] === open) depth++;
    else if (code[at] === close && code[at - 1] !== "=" && --depth === 0) return at;
  }
  return code.length;
}
