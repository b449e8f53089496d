/** What a TypeScript file says to people: its comments, and its string literals. */
export interface Said {
  readonly comments: readonly string[];
  readonly strings: readonly string[];
  /** The rest: the source with every comment, text and regular expression blanked, quotes excepted. */
  readonly code: string;
}

/** A slash begins a regular expression where a value is expected. */
const beforeRegex = /(?:^|[=(,:[!&|?{};>~+*%^-]|\breturn|\bcase|\btypeof)\s*$/;

/** Splits a source into comments and strings. Templates are split at their expressions, which are scanned too. */
export function scanSource(source: string): Said {
  const comments: string[] = [];
  const strings: string[] = [];
  const rest = [...Array(source.length).keys()].map((index) => source.charAt(index));
  const blank = (from: number, to: number): void => {
    for (let index = from; index < to; index++) if (rest[index] !== "\n") rest[index] = " ";
  };
  let at = 0;
  const upTo = (end: RegExp): string => {
    end.lastIndex = at;
    const found = end.exec(source);
    const stop = found === null ? source.length : found.index + found[0].length;
    const text = source.slice(at, stop);
    blank(at, stop);
    at = stop;
    return text;
  };
  const code = (closing: "}" | ""): void => {
    let depth = 0;
    let lineStart = at;
    while (at < source.length) {
      const char = source[at];
      const two = source.slice(at, at + 2);
      if (two === "//") comments.push(upTo(/$/gm));
      else if (two === "/*") comments.push(upTo(/\*\//g));
      else if (char === '"' || char === "'") quoted(char);
      else if (char === "`") template();
      else if (char === "/" && beforeRegex.test(source.slice(lineStart, at))) regex();
      else {
        if (char === "{") depth++;
        if (char === "}" && depth-- === 0 && closing === "}") {
          at++;
          return;
        }
        if (char === "\n") lineStart = at;
        at++;
      }
    }
  };
  const quoted = (quote: string): void => {
    const start = ++at;
    while (at < source.length && source[at] !== quote) at += source[at] === "\\" ? 2 : 1;
    blank(start, at);
    strings.push(source.slice(start, at++));
  };
  const regex = (): void => {
    let inClass = false;
    const start = at;
    for (at++; at < source.length; at++) {
      if (source[at] === "\\") at++;
      else if (source[at] === "[") inClass = true;
      else if (source[at] === "]") inClass = false;
      else if (source[at] === "/" && !inClass) break;
    }
    at++;
    blank(start, at);
  };
  const template = (): void => {
    let start = ++at;
    while (at < source.length && source[at] !== "`") {
      if (source[at] === "\\") at += 2;
      else if (source[at] === "$" && source[at + 1] === "{") {
        blank(start, at);
        strings.push(source.slice(start, at));
        at += 2;
        code("}");
        start = at;
      } else at++;
    }
    blank(start, at);
    strings.push(source.slice(start, at++));
  };
  code("");
  return { comments, strings, code: rest.join("") };
}
