/**
 * A slow scan of JSON text, for the rare bodies that JSON.parse rejects or that look suspicious: it reports errors in
 * the words of Go's decoder, and finds what a parsed value no longer has (duplicate keys, digits that a double cannot
 * hold). It keeps its own stack, so depth cannot overflow the call stack.
 */
export interface JsonVisitor {
  /** A key of an object, with its path: `spec.containers[0].name`. */
  key?(key: string, path: () => string): void;
  /** A number, as written. */
  number?(text: string, path: () => string): void;
  /** A key seen before in the same object. */
  duplicate?(path: () => string): void;
}

/** The text is not JSON. */
export class JsonSyntaxError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "JsonSyntaxError";
  }
}

type Frame = { readonly keys: Set<string> | undefined; key: string; index: number };

export function scanJson(text: string, visitor: JsonVisitor): void {
  const frames: Frame[] = [];
  let at = 0;

  const path = (): string => {
    let result = "";
    for (const frame of frames) {
      if (frame.keys === undefined) result += `[${frame.index}]`;
      else result += result === "" ? frame.key : `.${frame.key}`;
    }
    return result;
  };
  const fail = (context: string): never => {
    if (at >= text.length) throw new JsonSyntaxError("unexpected end of JSON input");
    throw new JsonSyntaxError(`invalid character ${quoteCharacter(text, at)} ${context}`);
  };
  const skipSpace = (): void => {
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      at++;
    }
  };
  const readString = (): string => {
    const start = at++;
    for (;;) {
      const code = text.charCodeAt(at);
      if (at >= text.length || code < 0x20) fail("in string literal");
      if (code === 0x22) break;
      if (code === 0x5c) {
        at++;
        const escaped = text[at] ?? "";
        if (escaped === "" || !'"\\/bfnrtu'.includes(escaped)) fail("in string escape code");
        if (escaped === "u") {
          for (let i = 0; i < 4; i++) {
            at++;
            if (!/[0-9a-fA-F]/.test(text[at] ?? "")) fail("in \\u hexadecimal character escape");
          }
        }
      }
      at++;
    }
    at++;
    return JSON.parse(text.slice(start, at)) as string;
  };
  const readLiteral = (word: string): void => {
    for (let i = 1; i < word.length; i++) {
      at++;
      if (text[at] !== word[i]) fail(`in literal ${word} (expecting '${word[i]}')`);
    }
    at++;
  };
  const readDigits = (context: string): void => {
    if (!isDigit(text.charCodeAt(at))) fail(context);
    while (isDigit(text.charCodeAt(at))) at++;
  };
  const readNumber = (): void => {
    const start = at;
    if (text[at] === "-") at++;
    if (text[at] === "0") at++;
    else readDigits("in numeric literal");
    if (text[at] === ".") {
      at++;
      readDigits("after decimal point in numeric literal");
    }
    if (text[at] === "e" || text[at] === "E") {
      at++;
      if (text[at] === "+" || text[at] === "-") at++;
      readDigits("in exponent of numeric literal");
    }
    visitor.number?.(text.slice(start, at), path);
  };
  const readKey = (frame: Frame): void => {
    frame.key = readString();
    visitor.key?.(frame.key, path);
    if (frame.keys?.has(frame.key)) visitor.duplicate?.(path);
    frame.keys?.add(frame.key);
    skipSpace();
    if (text[at] !== ":") fail("after object key");
    at++;
  };

  // Each iteration reads one value, or opens one container and continues with its first value.
  for (;;) {
    skipSpace();
    const character = text[at];
    if (character === "{" || character === "[") {
      const isMap = character === "{";
      const frame: Frame = { keys: isMap ? new Set() : undefined, key: "", index: 0 };
      at++;
      skipSpace();
      if (text[at] === (isMap ? "}" : "]")) {
        at++;
      } else {
        frames.push(frame);
        if (!isMap) continue;
        if (text[at] !== '"') fail("looking for beginning of object key string");
        readKey(frame);
        continue;
      }
    } else if (character === '"') readString();
    else if (character === "t") readLiteral("true");
    else if (character === "f") readLiteral("false");
    else if (character === "n") readLiteral("null");
    else if (character === "-" || isDigit(text.charCodeAt(at))) readNumber();
    else fail("looking for beginning of value");

    // A value is complete: close the containers that end here, or continue with the next value.
    for (;;) {
      skipSpace();
      const frame = frames.at(-1);
      if (frame === undefined) {
        if (at < text.length) fail("after top-level value");
        return;
      }
      const next = text[at];
      if (next === ",") {
        at++;
        if (frame.keys === undefined) frame.index++;
        else {
          skipSpace();
          if (text[at] !== '"') fail("looking for beginning of object key string");
          readKey(frame);
        }
        break;
      }
      if (next !== (frame.keys === undefined ? "]" : "}")) {
        fail(frame.keys === undefined ? "after array element" : "after object key:value pair");
      }
      at++;
      frames.pop();
    }
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function quoteCharacter(text: string, at: number): string {
  const character = String.fromCodePoint(text.codePointAt(at) ?? 0xfffd);
  if (character === "'") return "'\\''";
  if (character === '"') return "'\"'";
  return `'${JSON.stringify(character).slice(1, -1)}'`;
}
