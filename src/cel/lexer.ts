import { encodeUtf8 } from "./utf8.ts";
import { CelUint, type CelValue, int64Max, int64Min, makeDouble, normalInt, uint64Max } from "./values.ts";

/** Splits an expression into tokens. */
export type Token =
  | { readonly kind: "ident"; readonly at: number; readonly text: string; readonly quoted: boolean }
  | { readonly kind: "punct"; readonly at: number; readonly text: string }
  | { readonly kind: "int"; readonly at: number; readonly text: string; readonly value: bigint }
  | { readonly kind: "const"; readonly at: number; readonly text: string; readonly value: CelValue }
  | { readonly kind: "end"; readonly at: number; readonly text: string };

export class CelSyntaxError extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

const puncts = [
  "==",
  "!=",
  "<=",
  ">=",
  "&&",
  "||",
  "<",
  ">",
  "+",
  "-",
  "*",
  "/",
  "%",
  "!",
  "?",
  ":",
  ".",
  ",",
  "(",
  ")",
];
puncts.push("[", "]", "{", "}");
const space = /[ \t\r\n\f]/;
const identStart = /[_a-zA-Z]/;
const identPattern = /[_a-zA-Z][_a-zA-Z0-9]*/y;
const quotedIdent = /`([-_a-zA-Z0-9./ ]+)`/y;
const numberPattern = /(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)/y;
const stringStart = /(?:[rR][bB]|[bB][rR]|[rRbB])?("""|'''|"|')/y;

export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const char = text[at] as string;
    if (space.test(char)) {
      at++;
      continue;
    }
    if (char === "/" && text[at + 1] === "/") {
      while (at < text.length && text[at] !== "\n") at++;
      continue;
    }
    const opening = matchAt(stringStart, text, at);
    if (opening !== undefined) {
      const token = readString(text, at, opening);
      tokens.push(token.token);
      at = token.end;
    } else if (identStart.test(char)) {
      const name = matchAt(identPattern, text, at)?.[0] ?? char;
      tokens.push({ kind: "ident", at, text: name, quoted: false });
      at += name.length;
    } else if (char === "`") {
      const quoted = matchAt(quotedIdent, text, at);
      if (quoted === undefined) throw new CelSyntaxError(at, "Syntax error: token recognition error at: '`'");
      tokens.push({ kind: "ident", at, text: quoted[1] as string, quoted: true });
      at += quoted[0].length;
    } else if ((char >= "0" && char <= "9") || (char === "." && /[0-9]/.test(text[at + 1] ?? ""))) {
      at = readNumber(text, at, tokens);
    } else {
      const punct = puncts.find((word) => text.startsWith(word, at));
      if (punct === undefined) throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${char}'`);
      tokens.push({ kind: "punct", at, text: punct });
      at += punct.length;
    }
  }
  tokens.push({ kind: "end", at: text.length, text: "<EOF>" });
  return tokens;
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

function readNumber(text: string, at: number, tokens: Token[]): number {
  const word = (matchAt(numberPattern, text, at) as RegExpExecArray)[0];
  const end = at + word.length;
  if (!/^0[xX]/.test(word) && /[.eE]/.test(word)) {
    tokens.push({ kind: "const", at, text: word, value: makeDouble(Number(word)) });
    return end;
  }
  const value = BigInt(word);
  if (text[end] === "u" || text[end] === "U") {
    if (value > uint64Max) throw new CelSyntaxError(at, "invalid uint literal");
    tokens.push({ kind: "const", at, text: `${word}u`, value: new CelUint(value) });
    return end + 1;
  }
  tokens.push({ kind: "int", at, text: word, value });
  return end;
}

/** The value of an int literal with its sign; without the sign the smallest int would overflow. */
export function intLiteral(token: { at: number; value: bigint }, negative: boolean): CelValue {
  const value = negative ? -token.value : token.value;
  if (value < int64Min || value > int64Max) throw new CelSyntaxError(token.at, "invalid int literal");
  return normalInt(value);
}

function readString(text: string, at: number, opening: RegExpExecArray): { token: Token; end: number } {
  const quote = opening[1] as string;
  const prefix = opening[0].slice(0, -quote.length).toLowerCase();
  const raw = prefix.includes("r");
  const bytes = prefix.includes("b");
  let i = at + opening[0].length;
  let value = "";
  const parts: number[] = [];
  const put = (piece: string) => {
    if (bytes) parts.push(...encodeUtf8(piece));
    else value += piece;
  };
  for (;;) {
    const char = text[i];
    if (char === undefined || (quote.length === 1 && char === "\n")) {
      throw new CelSyntaxError(at, `Syntax error: token recognition error at: '${text.slice(at, i)}'`);
    }
    if (text.startsWith(quote, i)) break;
    if (char !== "\\" || raw) {
      const point = String.fromCodePoint(text.codePointAt(i) as number);
      put(point);
      i += point.length;
      continue;
    }
    const decoded = readEscape(text, i, bytes);
    if (typeof decoded.value === "number") parts.push(decoded.value);
    else put(decoded.value);
    i = decoded.end;
  }
  const constant: CelValue = bytes ? Uint8Array.from(parts) : value;
  const end = i + quote.length;
  return { token: { kind: "const", at, text: text.slice(at, end), value: constant }, end };
}

const simpleEscapes = new Map([
  ["a", "\x07"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
  ["\\", "\\"],
  ["?", "?"],
  ['"', '"'],
  ["'", "'"],
  ["`", "`"],
]);
const hexEscape = /x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})/y;

/** A numeric escape is one byte, which only byte strings may have. */
function readEscape(text: string, at: number, bytes: boolean): { value: string | number; end: number } {
  const char = text[at + 1] ?? "";
  const simple = simpleEscapes.get(char);
  if (simple !== undefined) return { value: simple, end: at + 2 };
  const match = matchAt(hexEscape, text, at + 1);
  if (match === undefined) throw new CelSyntaxError(at, `Syntax error: token recognition error at: '\\${char}'`);
  const end = at + 1 + match[0].length;
  const octal = match[3];
  const hex = match[1] ?? match[2];
  if (octal !== undefined || hex !== undefined) {
    const code = octal !== undefined ? Number.parseInt(octal, 8) : Number.parseInt(hex as string, 16);
    return { value: bytes ? code : String.fromCodePoint(code), end };
  }
  const code = Number.parseInt((match[4] ?? match[5]) as string, 16);
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || bytes) {
    throw new CelSyntaxError(at, "Syntax error: invalid unicode code point");
  }
  return { value: String.fromCodePoint(code), end };
}
