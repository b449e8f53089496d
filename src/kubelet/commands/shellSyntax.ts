/**
 * The subset of the POSIX shell that simulated containers understand: lists with `;`, `&&` and `||`, `if`, `while`,
 * `until`, `for`, groups, assignments, redirections to files, quotes, variables, command substitution and arithmetic.
 * Pipes, background jobs, functions and `case` are not supported.
 */

export class ShellSyntaxError extends Error {}

export type Piece =
  | { readonly kind: "text"; readonly text: string; readonly isQuoted: boolean }
  | { readonly kind: "variable"; readonly name: string; readonly fallback?: Word; readonly isQuoted: boolean }
  | { readonly kind: "substitution"; readonly script: Script; readonly isQuoted: boolean }
  | { readonly kind: "arithmetic"; readonly expression: Word; readonly isQuoted: boolean };
export type Word = readonly Piece[];

export interface Redirect {
  readonly from: 1 | 2;
  /** A file, or the other output. */
  readonly to: Word | 1 | 2;
  readonly append: boolean;
}

export type ShellCommand =
  | {
      readonly kind: "simple";
      readonly assignments: readonly (readonly [string, Word])[];
      readonly words: readonly Word[];
      readonly redirects: readonly Redirect[];
    }
  | { readonly kind: "if"; readonly arms: readonly { when: Script; body: Script }[]; readonly otherwise: Script }
  | { readonly kind: "loop"; readonly isUntil: boolean; readonly when: Script; readonly body: Script }
  | { readonly kind: "for"; readonly name: string; readonly words: readonly Word[]; readonly body: Script }
  | { readonly kind: "group"; readonly body: Script };

export interface Entry {
  readonly joint: ";" | "&&" | "||";
  readonly isNegated: boolean;
  readonly command: ShellCommand;
}
export type Script = readonly Entry[];

/** Throws ShellSyntaxError for a script that is invalid or outside the subset. */
export function parseScript(text: string): Script {
  const parser = new Parser(text);
  const script = parser.script([]);
  if (!parser.isAtEnd()) throw new ShellSyntaxError(`unexpected ${JSON.stringify(parser.rest().slice(0, 10))}`);
  return script;
}

const reserved = new Set(["if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "esac"]);

class Parser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  rest(): string {
    return this.#text.slice(this.#at);
  }

  /** Commands up to one of the closing words, which is not consumed. */
  script(closers: readonly string[]): Script {
    const entries: Entry[] = [];
    let joint: Entry["joint"] = ";";
    for (;;) {
      this.#skip(/(?:[\s;]|#[^\n]*)*/y);
      if (this.isAtEnd() || this.#peek(")") || closers.some((word) => this.#peekWord(word))) break;
      const isNegated = this.#take(/!\s+/y) !== undefined;
      entries.push({ joint, isNegated, command: this.#command() });
      this.#skip(/[ \t]*/y);
      const mark = this.#take(/&&|\|\||[;\n]|\||&/y);
      if (mark === "|") throw new ShellSyntaxError("a pipe");
      if (mark === "&") throw new ShellSyntaxError("a background job");
      joint = mark === "&&" || mark === "||" ? mark : ";";
      if (mark === undefined) break;
    }
    this.#skip(/(?:[\s;]|#[^\n]*)*/y);
    return entries;
  }

  #command(): ShellCommand {
    if (this.#takeWord("if")) return this.#if();
    for (const word of ["while", "until"]) {
      if (!this.#takeWord(word)) continue;
      const when = this.script(["do"]);
      return { kind: "loop", isUntil: word === "until", when, body: this.#body() };
    }
    if (this.#takeWord("for")) return this.#for();
    if (this.#takeWord("{")) {
      const body = this.script(["}"]);
      this.#expectWord("}");
      return { kind: "group", body };
    }
    if (this.#peek("(")) throw new ShellSyntaxError("a subshell");
    return this.#simple();
  }

  #if(): ShellCommand {
    const arms: { when: Script; body: Script }[] = [];
    do {
      const when = this.script(["then"]);
      this.#expectWord("then");
      arms.push({ when, body: this.script(["elif", "else", "fi"]) });
    } while (this.#takeWord("elif"));
    const otherwise = this.#takeWord("else") ? this.script(["fi"]) : [];
    this.#expectWord("fi");
    return { kind: "if", arms, otherwise };
  }

  #for(): ShellCommand {
    this.#skip(/\s*/y);
    const name = this.#take(/[A-Za-z_]\w*/y);
    this.#skip(/\s*/y);
    if (name === undefined || !this.#takeWord("in")) throw new ShellSyntaxError("for without a list");
    const words: Word[] = [];
    for (;;) {
      this.#skip(/[ \t]*/y);
      if (this.isAtEnd() || /[;\n]/.test(this.#text[this.#at] ?? "")) break;
      words.push(this.#word());
    }
    return { kind: "for", name, words, body: this.#body() };
  }

  #body(): Script {
    this.#skip(/[\s;]*/y);
    this.#expectWord("do");
    const body = this.script(["done"]);
    this.#expectWord("done");
    return body;
  }

  #simple(): ShellCommand {
    const assignments: (readonly [string, Word])[] = [];
    const words: Word[] = [];
    const redirects: Redirect[] = [];
    for (;;) {
      this.#skip(/[ \t]*/y);
      if (this.isAtEnd() || /[;&|\n)#]/.test(this.#text[this.#at] ?? "")) break;
      const redirect = this.#redirect();
      if (redirect !== undefined) {
        redirects.push(redirect);
        continue;
      }
      const name = words.length === 0 ? this.#take(/[A-Za-z_]\w*=/y)?.slice(0, -1) : undefined;
      if (name === undefined) words.push(this.#word());
      else assignments.push([name, this.#isAtWordEnd() ? [] : this.#word()]);
    }
    const [first] = words;
    const text = first?.length === 1 && first[0]?.kind === "text" && !first[0].isQuoted ? first[0].text : "";
    if (reserved.has(text)) throw new ShellSyntaxError(`unexpected ${text}`);
    if (words.length === 0 && assignments.length === 0 && redirects.length === 0) {
      throw new ShellSyntaxError(`unexpected ${JSON.stringify(this.rest().slice(0, 1))}`);
    }
    return { kind: "simple", assignments, words, redirects };
  }

  #redirect(): Redirect | undefined {
    const mark = this.#take(/[12]?>>?|&>|</y);
    if (mark === undefined) return undefined;
    if (mark === "<" || mark === "&>") throw new ShellSyntaxError(`the redirection ${mark}`);
    const from = mark.startsWith("2") ? 2 : 1;
    const other = this.#take(/&[12]/y);
    if (other !== undefined) return { from, to: other === "&1" ? 1 : 2, append: true };
    this.#skip(/[ \t]*/y);
    return { from, to: this.#word(), append: mark.endsWith(">>") };
  }

  #isAtWordEnd(): boolean {
    return this.isAtEnd() || /[\s;&|<>()]/.test(this.#text[this.#at] ?? "");
  }

  #word(): Word {
    const pieces: Piece[] = [];
    const start = this.#at;
    while (!this.#isAtWordEnd()) {
      const single = this.#take(/'[^']*'/y);
      if (single !== undefined) pieces.push({ kind: "text", text: single.slice(1, -1), isQuoted: true });
      else if (this.#take(/"/y) !== undefined) this.#doubleQuoted(pieces);
      else if (this.#peek("$") || this.#peek("`")) pieces.push(this.#expansion(false));
      else {
        const plain = this.#take(/(?:\\.|[^\s;&|<>()'"$`\\])+/sy);
        if (plain === undefined) throw new ShellSyntaxError(`unexpected ${JSON.stringify(this.rest().slice(0, 1))}`);
        pieces.push({ kind: "text", text: plain.replace(/\\(.)/gs, "$1"), isQuoted: plain.includes("\\") });
      }
    }
    if (this.#at === start) throw new ShellSyntaxError(`unexpected ${JSON.stringify(this.rest().slice(0, 1))}`);
    return pieces;
  }

  #doubleQuoted(pieces: Piece[]): void {
    pieces.push({ kind: "text", text: "", isQuoted: true });
    for (;;) {
      if (this.isAtEnd()) throw new ShellSyntaxError("a quote is not closed");
      if (this.#take(/"/y) !== undefined) return;
      const text = this.#take(/(?:\\.|[^"$`\\])+/sy);
      if (text === undefined) pieces.push(this.#expansion(true));
      else pieces.push({ kind: "text", text: text.replace(/\\(["\\$`])/g, "$1"), isQuoted: true });
    }
  }

  #expansion(isQuoted: boolean): Piece {
    const backquoted = this.#take(/`(?:\\.|[^`\\])*`/sy);
    if (backquoted !== undefined)
      return { kind: "substitution", script: parseScript(backquoted.slice(1, -1)), isQuoted };
    if (this.#take(/\$\(\(/y) !== undefined) {
      const expression = new Parser(this.#untilClosed("))")).#arithmeticWord();
      return { kind: "arithmetic", expression, isQuoted };
    }
    if (this.#take(/\$\(/y) !== undefined) {
      const script = this.script([]);
      if (this.#take(/\)/y) === undefined) throw new ShellSyntaxError("$( is not closed");
      return { kind: "substitution", script, isQuoted };
    }
    const braced = this.#take(/\$\{[^}]*\}/y);
    if (braced !== undefined) return bracedVariable(braced.slice(2, -1), isQuoted);
    const name = this.#take(/\$(?:[A-Za-z_]\w*|[?#@*0-9$])/y);
    if (name !== undefined) return { kind: "variable", name: name.slice(1), isQuoted };
    if (this.#take(/\$/y) !== undefined) return { kind: "text", text: "$", isQuoted: true };
    throw new ShellSyntaxError("a backquote is not closed");
  }

  #untilClosed(close: string): string {
    const end = this.#text.indexOf(close, this.#at);
    if (end < 0) throw new ShellSyntaxError(`${close} is missing`);
    const text = this.#text.slice(this.#at, end);
    this.#at = end + close.length;
    return text;
  }

  #arithmeticWord(): Word {
    const pieces: Piece[] = [];
    while (!this.isAtEnd()) {
      const plain = this.#take(/[^$`]+/y);
      pieces.push(plain === undefined ? this.#expansion(true) : { kind: "text", text: plain, isQuoted: true });
    }
    return pieces;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined || found === "") return undefined;
    this.#at += found.length;
    return found;
  }

  #skip(pattern: RegExp): void {
    this.#take(pattern);
  }

  #peek(text: string): boolean {
    return this.#text.startsWith(text, this.#at);
  }

  #peekWord(word: string): boolean {
    const after = this.#text[this.#at + word.length] ?? " ";
    return this.#peek(word) && /[\s;&|()]/.test(after);
  }

  #takeWord(word: string): boolean {
    this.#skip(/[ \t]*/y);
    if (!this.#peekWord(word)) return false;
    this.#at += word.length;
    return true;
  }

  #expectWord(word: string): void {
    if (!this.#takeWord(word)) throw new ShellSyntaxError(`${word} is missing`);
  }
}

function bracedVariable(text: string, isQuoted: boolean): Piece {
  const match = /^([A-Za-z_]\w*|[?#@*0-9])(?::?-(.*))?$/s.exec(text);
  if (match === null) throw new ShellSyntaxError(`the expansion \${${text}}`);
  const [, name = "", fallback] = match;
  if (fallback === undefined) return { kind: "variable", name, isQuoted };
  return { kind: "variable", name, fallback: [{ kind: "text", text: fallback, isQuoted }], isQuoted };
}
