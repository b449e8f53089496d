import type { Call, Expr, FoldKind, ListItem, MapEntry, StructField } from "./ast.ts";
import { CelSyntaxError, intLiteral, type Token, tokenize } from "./lexer.ts";

/** Parses a CEL expression into a tree; macros become nodes here, as upstream. */
export function parse(text: string): Expr {
  const parser = new Parser(tokenize(text));
  const expr = parser.expression();
  const rest = parser.peek();
  if (rest.kind !== "end") throw unexpected(rest);
  return expr;
}

/** The depth limit of the reference parser. */
const depthMax = 250;
const reserved = new Set(
  "as break const continue else for function if import let loop package namespace return var void while".split(" "),
);
const relations = new Map([
  ["<", "_<_"],
  ["<=", "_<=_"],
  [">", "_>_"],
  [">=", "_>=_"],
  ["==", "_==_"],
  ["!=", "_!=_"],
]);
const foldsOfOne = new Map<string, FoldKind>([
  ["all", "all"],
  ["exists", "exists"],
  ["exists_one", "existsOne"],
  ["existsOne", "existsOne"],
  ["map", "map"],
  ["filter", "filter"],
  ["sortBy", "sortBy"],
]);
const foldsOfTwo = new Map<string, FoldKind>([
  ["all", "all"],
  ["exists", "exists"],
  ["existsOne", "existsOne"],
  ["exists_one", "existsOne"],
  ["transformList", "transformList"],
  ["transformMap", "transformMap"],
  ["transformMapEntry", "transformMapEntry"],
]);

function unexpected(token: Token): CelSyntaxError {
  const what = token.kind === "end" ? "<EOF>" : token.text;
  return new CelSyntaxError(token.at, `Syntax error: mismatched input '${what}'`);
}

class Parser {
  private readonly tokens: readonly Token[];
  private next = 0;
  private depth = 0;

  constructor(tokens: readonly Token[]) {
    this.tokens = tokens;
  }

  peek(): Token {
    return this.tokens[this.next] as Token;
  }

  private take(): Token {
    const token = this.peek();
    if (token.kind !== "end") this.next++;
    return token;
  }

  private is(text: string): boolean {
    const token = this.peek();
    return token.kind === "punct" && token.text === text;
  }

  private accept(text: string): boolean {
    if (!this.is(text)) return false;
    this.next++;
    return true;
  }

  private expect(text: string): Token {
    if (!this.is(text)) throw unexpected(this.peek());
    return this.take();
  }

  expression(): Expr {
    if (++this.depth > depthMax) {
      throw new CelSyntaxError(this.peek().at, `expression recursion limit exceeded: ${depthMax}`);
    }
    const test = this.disjunction();
    const at = this.peek().at;
    let result = test;
    if (this.accept("?")) {
      const then = this.disjunction();
      this.expect(":");
      result = { op: "if", at, test, then, otherwise: this.expression() };
    }
    this.depth--;
    return result;
  }

  private disjunction(): Expr {
    const first = this.conjunction();
    if (!this.is("||")) return first;
    const at = this.peek().at;
    const args = [first];
    while (this.accept("||")) args.push(this.conjunction());
    return { op: "or", at, args };
  }

  private conjunction(): Expr {
    const first = this.relation();
    if (!this.is("&&")) return first;
    const at = this.peek().at;
    const args = [first];
    while (this.accept("&&")) args.push(this.relation());
    return { op: "and", at, args };
  }

  private relation(): Expr {
    let left = this.addition();
    for (;;) {
      const token = this.peek();
      const name =
        token.kind === "punct"
          ? relations.get(token.text)
          : token.kind === "ident" && token.text === "in" && !token.quoted
            ? "@in"
            : undefined;
      if (name === undefined) return left;
      this.take();
      left = call(name, token.at, [left, this.addition()]);
    }
  }

  private addition(): Expr {
    let left = this.multiplication();
    while (this.is("+") || this.is("-")) {
      const token = this.take();
      left = call(`_${token.text}_`, token.at, [left, this.multiplication()]);
    }
    return left;
  }

  private multiplication(): Expr {
    let left = this.unary();
    while (this.is("*") || this.is("/") || this.is("%")) {
      const token = this.take();
      left = call(`_${token.text}_`, token.at, [left, this.unary()]);
    }
    return left;
  }

  private unary(): Expr {
    const at = this.peek().at;
    if (this.is("!")) {
      let count = 0;
      while (this.accept("!")) count++;
      const inner = this.member();
      return count % 2 === 1 ? call("!_", at, [inner]) : inner;
    }
    if (this.is("-")) {
      let count = 0;
      while (this.accept("-")) count++;
      const number = this.peek();
      if (count === 1 && number.kind === "int") {
        this.take();
        return this.members({ op: "const", at, value: intLiteral(number, true) });
      }
      const inner = this.member();
      return count % 2 === 1 ? call("-_", at, [inner]) : inner;
    }
    return this.member();
  }

  private member(): Expr {
    return this.members(this.primary());
  }

  private members(start: Expr): Expr {
    let target = start;
    for (;;) {
      const token = this.peek();
      if (this.accept(".")) {
        const optional = this.accept("?");
        const name = this.take();
        if (name.kind !== "ident") throw unexpected(name);
        if (!optional && !name.quoted && this.is("(")) {
          const open = this.take().at;
          target = expandMember(target, name.text, this.args(")"), open);
        } else {
          target = { op: "select", at: token.at, target, field: name.text, optional, quoted: name.quoted };
        }
      } else if (this.accept("[")) {
        const optional = this.accept("?");
        const index = this.expression();
        this.expect("]");
        target = { op: "index", at: token.at, target, index, optional };
      } else if (this.is("{") && qualifiedName(target) !== undefined) {
        const fields = this.fields();
        target = { op: "struct", at: token.at, name: qualifiedName(target) as string, fields };
      } else {
        return target;
      }
    }
  }

  private fields(): StructField[] {
    const fields: StructField[] = [];
    this.expect("{");
    while (!this.accept("}")) {
      const optional = this.accept("?");
      const name = this.take();
      if (name.kind !== "ident") throw unexpected(name);
      const { at } = this.peek();
      this.expect(":");
      fields.push({ at, name: name.text, value: this.expression(), optional });
      if (!this.accept(",") && !this.is("}")) throw unexpected(this.peek());
    }
    return fields;
  }

  private args(close: string): Expr[] {
    const args: Expr[] = [];
    if (this.accept(close)) return args;
    do args.push(this.expression());
    while (this.accept(","));
    this.expect(close);
    return args;
  }

  private primary(): Expr {
    const token = this.take();
    switch (token.kind) {
      case "int":
        return { op: "const", at: token.at, value: intLiteral(token, false) };
      case "const":
        return { op: "const", at: token.at, value: token.value };
      case "ident":
        return this.identifier(token);
      case "punct":
        if (token.text === "(") {
          const inner = this.expression();
          this.expect(")");
          return inner;
        }
        if (token.text === "[") return this.list(token.at);
        if (token.text === "{") return this.map(token.at);
        // A leading dot means the outermost scope, and there is only one.
        if (token.text === ".") {
          const name = this.take();
          if (name.kind === "ident") return this.identifier(name);
          throw unexpected(name);
        }
        throw unexpected(token);
      case "end":
        throw unexpected(token);
    }
  }

  private identifier(token: Token & { kind: "ident" }): Expr {
    if (!token.quoted) {
      if (token.text === "true" || token.text === "false") {
        return { op: "const", at: token.at, value: token.text === "true" };
      }
      if (token.text === "null") return { op: "const", at: token.at, value: null };
      if (token.text === "in") throw unexpected(token);
      if (reserved.has(token.text)) throw new CelSyntaxError(token.at, `reserved identifier: ${token.text}`);
      if (this.is("(")) {
        const open = this.take().at;
        return expandGlobal(token.text, this.args(")"), open);
      }
    }
    return { op: "ident", at: token.at, name: token.text };
  }

  private list(at: number): Expr {
    const items: ListItem[] = [];
    while (!this.accept("]")) {
      const optional = this.accept("?");
      items.push({ value: this.expression(), optional });
      if (!this.accept(",") && !this.is("]")) throw unexpected(this.peek());
    }
    return { op: "list", at, items };
  }

  private map(at: number): Expr {
    const entries: MapEntry[] = [];
    while (!this.accept("}")) {
      const optional = this.accept("?");
      const key = this.expression();
      this.expect(":");
      entries.push({ key, value: this.expression(), optional });
      if (!this.accept(",") && !this.is("}")) throw unexpected(this.peek());
    }
    return { op: "map", at, entries };
  }
}

function call(name: string, at: number, args: readonly Expr[], target?: Expr): Call {
  return { op: "call", at, name, target, args };
}

/** `a.b.c` as a name, for functions and types with dotted names. */
export function qualifiedName(expr: Expr): string | undefined {
  if (expr.op === "ident") return expr.name;
  if (expr.op !== "select" || expr.optional || expr.quoted) return undefined;
  const prefix = qualifiedName(expr.target);
  return prefix === undefined ? undefined : `${prefix}.${expr.field}`;
}

function expandGlobal(name: string, args: readonly Expr[], at: number): Expr {
  if (name !== "has" || args.length !== 1) return call(name, at, args);
  const select = args[0] as Expr;
  if (select.op !== "select" || select.optional) throw new CelSyntaxError(at, "invalid argument to has() macro");
  return { op: "has", at, select };
}

function expandMember(target: Expr, name: string, args: readonly Expr[], at: number): Expr {
  const [first, second, third, fourth] = args;
  if (name === "bind" && args.length === 3 && qualifiedName(target) === "cel" && first && second && third) {
    return { op: "bind", at, name: variable(first, "cel.bind()"), value: second, body: third };
  }
  if ((name === "optMap" || name === "optFlatMap") && args.length === 2 && first && second) {
    return { op: name, at, target, name: variable(first, `${name}()`), body: second };
  }
  const one = foldsOfOne.get(name);
  if (one !== undefined && args.length === 2 && first && second) {
    return {
      op: "fold",
      at,
      kind: one,
      range: target,
      names: [variable(first, name)],
      filter: undefined,
      body: second,
    };
  }
  if (name === "map" && args.length === 3 && first && second && third) {
    return { op: "fold", at, kind: "map", range: target, names: [variable(first, name)], filter: second, body: third };
  }
  const two = foldsOfTwo.get(name);
  if (two !== undefined && first && second && third) {
    const isTransform = two.startsWith("transform");
    if (args.length === 3 || (args.length === 4 && isTransform && fourth)) {
      const names = [variable(first, name), variable(second, name)];
      if (names[0] === names[1]) {
        throw new CelSyntaxError(second.at, `duplicate variable name: ${names[0]}`);
      }
      const filter = fourth === undefined ? undefined : third;
      return { op: "fold", at, kind: two, range: target, names, filter, body: fourth ?? third };
    }
  }
  return call(name, at, args, target);
}

function variable(expr: Expr, macro: string): string {
  if (expr.op !== "ident") throw new CelSyntaxError(expr.at, `argument of ${macro} must be a simple name`);
  return expr.name;
}
