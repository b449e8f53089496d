/** Interprets a parsed script in virtual time. Nothing runs on the machine: programs are functions (programs.ts). */
import { seededFraction } from "../../model/values/seeded.ts";
import type { CommandResult, ProgramContext } from "./programs.ts";
import {
  parseScript,
  type Redirect,
  type Script,
  type ShellCommand,
  ShellSyntaxError,
  type Word,
} from "./shellSyntax.ts";

export interface Output {
  /** Since the start of the command. */
  readonly afterMs: number;
  readonly text: string;
  readonly isError: boolean;
}

export interface CommandRun {
  readonly output: readonly Output[];
  /** Undefined: the command does not end within its limits. */
  readonly exitCode: number | undefined;
  readonly runMs: number | undefined;
  /** The first thing that a simulated container does not understand, such as an unknown program. */
  readonly unknown: string | undefined;
  /** Stdin is answered line by line by a shell, or echoed. */
  readonly reads?: "lines" | "echo";
}

export interface RunLimits {
  /** The run is cut at this time. */
  readonly untilMs?: number;
  /** The run is cut after this number of commands: an endless loop, for example. */
  readonly stepsMax?: number;
}

/** Answers one simple command; undefined for an unknown program. */
export type RunProgram = (argv: readonly string[], context: ProgramContext) => CommandResult | undefined;

const stepsMaxDefault = 20_000;

class Exit {}
class Cut {}
class LoopSignal {
  readonly continues: boolean;
  constructor(continues: boolean) {
    this.continues = continues;
  }
}

export class Shell {
  readonly #context: ProgramContext & { readonly env: Map<string, string> };
  readonly #program: RunProgram;
  readonly #untilMs: number;
  readonly #stepsMax: number;
  readonly #output: Output[] = [];
  readonly #captures: string[] = [];
  #elapsedMs = 0;
  #steps = 0;
  #exitCode = 0;
  #exitsOnError = false;
  #unknown: string | undefined;

  constructor(
    context: ProgramContext & { readonly env: Map<string, string> },
    program: RunProgram,
    { untilMs = Number.POSITIVE_INFINITY, stepsMax = stepsMaxDefault }: RunLimits = {},
  ) {
    this.#context = context;
    this.#program = program;
    this.#untilMs = untilMs;
    this.#stepsMax = stepsMax;
  }

  runText(text: string): CommandRun {
    try {
      return this.#finish(() => this.#script(parseScript(text), false));
    } catch (error) {
      if (!(error instanceof ShellSyntaxError)) throw error;
      this.#unknown ??= error.message;
      this.#write(`sh: ${error.message} is not supported in a simulated container\n`, 2);
      return { output: this.#output, exitCode: 2, runMs: this.#elapsedMs, unknown: this.#unknown };
    }
  }

  runProgram(argv: readonly string[]): CommandRun {
    let reads: CommandRun["reads"];
    const run = this.#finish(() => {
      reads = this.#execute(argv, []);
    });
    return reads === undefined ? run : { ...run, reads };
  }

  #finish(run: () => void): CommandRun {
    let isCut = false;
    try {
      run();
    } catch (signal) {
      if (signal instanceof Cut) isCut = true;
      else if (!(signal instanceof Exit || signal instanceof LoopSignal)) throw signal;
    }
    const end = isCut
      ? { exitCode: undefined, runMs: undefined }
      : { exitCode: this.#exitCode, runMs: this.#elapsedMs };
    return { output: this.#output, ...end, unknown: this.#unknown };
  }

  /** `isTested`: the result is a condition, so that a failure does not end the script under `set -e`. */
  #script(script: Script, isTested: boolean): void {
    for (const [at, { joint, isNegated, command }] of script.entries()) {
      if (joint === "&&" && this.#exitCode !== 0) continue;
      if (joint === "||" && this.#exitCode === 0) continue;
      const isJoined = (script[at + 1]?.joint ?? ";") !== ";";
      this.#command(command, isTested || isJoined || isNegated);
      if (isNegated) this.#exitCode = this.#exitCode === 0 ? 1 : 0;
      if (this.#exitsOnError && this.#exitCode !== 0 && !isTested && !isJoined && !isNegated) throw new Exit();
    }
  }

  #command(command: ShellCommand, isTested: boolean): void {
    if (++this.#steps > this.#stepsMax) throw new Cut();
    if (command.kind === "simple") this.#simple(command);
    else if (command.kind === "group") this.#script(command.body, isTested);
    else if (command.kind === "if") this.#if(command, isTested);
    else if (command.kind === "loop") {
      this.#loop(() => {
        this.#script(command.when, true);
        return (this.#exitCode === 0) !== command.isUntil;
      }, command.body);
    } else {
      const values = command.words.flatMap((word) => this.#fields(word));
      this.#loop(() => {
        const value = values.shift();
        if (value !== undefined) this.#context.env.set(command.name, value);
        return value !== undefined;
      }, command.body);
    }
  }

  #if({ arms, otherwise }: Extract<ShellCommand, { kind: "if" }>, isTested: boolean): void {
    for (const { when, body } of arms) {
      this.#script(when, true);
      if (this.#exitCode !== 0) continue;
      this.#script(body, isTested);
      return;
    }
    this.#exitCode = 0;
    this.#script(otherwise, isTested);
  }

  #loop(goesOn: () => boolean, body: Script): void {
    let exitCode = 0;
    while (goesOn()) {
      if (++this.#steps > this.#stepsMax) throw new Cut();
      try {
        this.#script(body, false);
      } catch (signal) {
        if (!(signal instanceof LoopSignal)) throw signal;
        if (!signal.continues) break;
      }
      exitCode = this.#exitCode;
    }
    this.#exitCode = exitCode;
  }

  #simple({ assignments, words, redirects }: Extract<ShellCommand, { kind: "simple" }>): void {
    const argv = words.flatMap((word) => this.#fields(word));
    this.#exitCode = 0;
    for (const [name, word] of assignments) this.#context.env.set(name, this.#text(word));
    if (argv.length > 0) this.#execute(argv, redirects);
  }

  #execute(argv: readonly string[], redirects: readonly Redirect[]): CommandRun["reads"] {
    const [name = "", ...args] = argv;
    switch (name) {
      case "exit":
      case "return":
        if (args[0] !== undefined) this.#exitCode = Number(args[0]) & 255;
        throw new Exit();
      case "break":
      case "continue":
        throw new LoopSignal(name === "continue");
      case "export":
        for (const each of args) {
          const [, key, value] = /^(\w+)=(.*)$/s.exec(each) ?? [];
          if (key !== undefined) this.#context.env.set(key, value ?? "");
        }
        return undefined;
      case "unset":
        for (const each of args) this.#context.env.delete(each);
        return undefined;
      case "set":
        if (args.some((each) => /^-\w*e/.test(each))) this.#exitsOnError = true;
        return undefined;
      case "trap":
      case "wait":
      case "cd":
      case "umask":
        return undefined;
      case "exec":
        this.#execute(args, redirects);
        throw new Exit();
    }
    const nowMs = this.#context.input.nowMs + this.#elapsedMs;
    const result = this.#program(argv, { ...this.#context, input: { ...this.#context.input, nowMs } });
    if (result === undefined) {
      this.#unknown ??= name;
      this.#write(`sh: ${name}: not found (this container is simulated: nothing runs in it)\n`, 2);
      this.#exitCode = 127;
      return undefined;
    }
    this.#emit(result.stdout, 1, redirects);
    this.#emit(result.stderr, 2, redirects);
    this.#exitCode = result.exitCode;
    this.#wait(result.waitMs ?? 0);
    return result.reads;
  }

  #wait(ms: number): void {
    this.#elapsedMs += ms;
    if (this.#elapsedMs > this.#untilMs || this.#elapsedMs === Number.POSITIVE_INFINITY) throw new Cut();
  }

  #emit(text: string, from: 1 | 2, redirects: readonly Redirect[]): void {
    let to: 1 | 2 | string = from;
    let append = true;
    for (const each of redirects) {
      if (each.from !== from) continue;
      to = typeof each.to === "number" ? each.to : this.#text(each.to);
      append = each.append;
    }
    if (to === "/dev/stdout" || to === "/proc/1/fd/1") to = 1;
    if (to === "/dev/stderr" || to === "/proc/1/fd/2") to = 2;
    if (typeof to === "number") this.#write(text, to);
    else if (to !== "/dev/null") {
      this.#context.files.set(to, append ? (this.#context.files.get(to) ?? "") + text : text);
    }
  }

  #write(text: string, to: 1 | 2): void {
    if (text === "") return;
    const capture = this.#captures.length - 1;
    if (to === 1 && capture >= 0) this.#captures[capture] += text;
    else this.#output.push({ afterMs: this.#elapsedMs, text, isError: to === 2 });
  }

  /** The fields of a word: results of unquoted expansions are split at white space. */
  #fields(word: Word): string[] {
    const fields: string[] = [];
    let field: string | undefined;
    for (const piece of word) {
      const text = this.#piece(piece);
      if (piece.isQuoted || piece.kind === "text") {
        field = (field ?? "") + text;
        continue;
      }
      const [head = "", ...tail] = text.split(/\s+/);
      if (head !== "") field = (field ?? "") + head;
      for (const each of tail) {
        if (field !== undefined) fields.push(field);
        field = each === "" ? undefined : each;
      }
    }
    if (field !== undefined) fields.push(field);
    return fields;
  }

  #text(word: Word): string {
    return word.map((piece) => this.#piece(piece)).join("");
  }

  #piece(piece: Word[number]): string {
    switch (piece.kind) {
      case "text":
        return piece.text;
      case "variable": {
        const value = this.#variable(piece.name);
        return value === "" && piece.fallback !== undefined ? this.#text(piece.fallback) : value;
      }
      case "arithmetic":
        return String(arithmetic(this.#text(piece.expression), (name) => this.#variable(name)));
      case "substitution": {
        this.#captures.push("");
        try {
          this.#script(piece.script, true);
        } catch (signal) {
          if (!(signal instanceof Exit)) throw signal;
        } finally {
          this.#captured = this.#captures.pop() ?? "";
        }
        return this.#captured.replace(/\n+$/, "");
      }
    }
  }
  #captured = "";

  #variable(name: string): string {
    if (name === "?") return String(this.#exitCode);
    if (name === "$") return "1";
    if (name === "RANDOM") {
      const { pod, container, restarts = 0 } = this.#context.input;
      return String(Math.floor(seededFraction(pod.metadata.uid, container, restarts, this.#steps) * 32_768));
    }
    return this.#context.env.get(name) ?? "";
  }
}

/** Integer arithmetic of the shell: `+ - * / %`, comparisons and parentheses. */
export function arithmetic(text: string, variable: (name: string) => string = () => ""): number {
  const tokens = text.match(/\d+|[A-Za-z_]\w*|<=|>=|==|!=|[-+*/%()<>]/g) ?? [];
  let at = 0;
  const primary = (): number => {
    const token = tokens[at++] ?? "";
    if (token === "(") {
      const value = level(0);
      at++;
      return value;
    }
    if (token === "-") return -primary();
    return /^\d/.test(token) ? Number(token) : Number(variable(token)) || 0;
  };
  const levels: readonly Readonly<Record<string, (a: number, b: number) => number>>[] = [
    {
      "<": (a, b) => Number(a < b),
      ">": (a, b) => Number(a > b),
      "<=": (a, b) => Number(a <= b),
      ">=": (a, b) => Number(a >= b),
      "==": (a, b) => Number(a === b),
      "!=": (a, b) => Number(a !== b),
    },
    { "+": (a, b) => a + b, "-": (a, b) => a - b },
    {
      "*": (a, b) => a * b,
      "/": (a, b) => (b === 0 ? 0 : Math.trunc(a / b)),
      "%": (a, b) => (b === 0 ? 0 : a % b),
    },
  ];
  const level = (depth: number): number => {
    const operators = levels[depth];
    if (operators === undefined) return primary();
    let value = level(depth + 1);
    for (;;) {
      const operator = operators[tokens[at] ?? ""];
      if (operator === undefined) return value;
      at++;
      value = operator(value, level(depth + 1));
    }
  };
  return level(0);
}
