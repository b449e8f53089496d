/** Answers of commands in simulated containers: as main process, probe, hook and exec alike. */
import type { Container, Pod, Probe } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import { marks } from "../../model/profiles/marks.ts";
import {
  type CommandInput,
  type CommandResult,
  containerOf,
  environmentOf,
  type ProgramContext,
  programNamed,
  substituted,
} from "./programs.ts";
import { type CommandRun, type RunLimits, Shell } from "./shell.ts";

const shells = new Set(["sh", "bash", "ash", "dash"]);

/** Runs a command line. `files` are those of the container, and are changed by it. */
export function runCommand(
  argv: readonly string[],
  input: CommandInput,
  { files = new Map(), ...limits }: RunLimits & { readonly files?: Map<string, string> } = {},
): CommandRun {
  const context = { input, env: environmentOf(input), files };
  const script = scriptOf(argv);
  const shell = new Shell(context, (words, inner) => runWords(words, inner, limits), limits);
  if (script !== undefined && ownAnswer(argv, input) === undefined) return shell.runText(script);
  const run = shell.runProgram(argv);
  if (run.unknown !== argv[0]) return run;
  const text = `exec: ${JSON.stringify(argv[0])}: executable file not found in $PATH (this container is simulated: nothing runs in it)\n`;
  return { ...run, output: [{ afterMs: 0, text, isError: true }] };
}

/** Runs the lines that a user types into a shell. */
export function runLine(line: string, input: CommandInput, files: Map<string, string>): CommandRun {
  return runCommand(["sh", "-c", line], input, { files });
}

function runWords(argv: readonly string[], context: ProgramContext, limits: RunLimits): CommandResult | undefined {
  const own = ownAnswer(argv, context.input);
  if (own !== undefined) return own;
  const [path = "", ...args] = argv;
  if (isShell(path)) {
    const script = scriptOf(argv);
    if (script === undefined) return args.length === 0 ? shellOfStdin : undefined;
    const inner = new Shell(
      { ...context, env: new Map(context.env) },
      (words, deeper) => runWords(words, deeper, limits),
      limits,
    ).runText(script);
    if (inner.unknown !== undefined) return undefined;
    return {
      stdout: inner.output.map(({ text, isError }) => (isError ? "" : text)).join(""),
      stderr: inner.output.map(({ text, isError }) => (isError ? text : "")).join(""),
      exitCode: inner.exitCode ?? 0,
      waitMs: inner.runMs ?? Number.POSITIVE_INFINITY,
    };
  }
  return programNamed(path)?.(args, context);
}

const shellOfStdin: CommandResult = { stdout: "", stderr: "", exitCode: 0, reads: "lines" };

function isShell(path: string): boolean {
  return shells.has(path.slice(path.lastIndexOf("/") + 1));
}

function scriptOf([path = "", ...args]: readonly string[]): string | undefined {
  if (!isShell(path)) return undefined;
  const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg));
  return at < 0 ? undefined : (args[at + 1] ?? "");
}

/** One run of the main process of a container. */
export interface MainRun {
  readonly run: CommandRun;
  /** The files of the container after the run, or at its limit. */
  readonly files: Map<string, string>;
}

/** Earlier runs of a container that are replayed, for the files that they left in volumes. */
const replaysMax = 8;

/**
 * The main process of a container, or undefined where its image or command is not understood: then nothing is known
 * about how long it runs. Files in volumes survive a restart of the container.
 */
export function playMain(input: CommandInput, limits: RunLimits = {}): MainRun | undefined {
  const container = containerOf(input);
  const argv = container === undefined ? undefined : mainCommand(container, input);
  if (container === undefined || argv === undefined) return undefined;
  const { restarts = 0 } = input;
  let files = new Map<string, string>();
  for (let at = Math.max(0, restarts - replaysMax); at < restarts; at++) {
    runCommand(argv, { ...input, restarts: at }, { files });
    files = new Map([...files].filter(([path]) => isInVolume(path, container)));
  }
  const run = runCommand(argv, input, { ...limits, files });
  return run.unknown === undefined && run.reads === undefined ? { run, files } : undefined;
}

function mainCommand({ command = [], args = [], image = "" }: Container, input: CommandInput): string[] | undefined {
  if (command.length === 0 && args.length === 0) return /(?:^|\/)pause(?:[:@]|$)/.test(image) ? ["pause"] : undefined;
  const env = environmentOf(input);
  const argv = [...command, ...args].map((word) => substituted(word, env));
  // Arguments alone are those of the image's entrypoint, unless they begin with a program, as in `kubectl run -- echo`.
  const [first = ""] = argv;
  return isShell(first) || programNamed(first) !== undefined ? argv : undefined;
}

function isInVolume(path: string, { volumeMounts = [] }: Container): boolean {
  return volumeMounts.some(({ mountPath }) => path.startsWith(`${mountPath.replace(/\/$/, "")}/`));
}

/** Whether an exec probe succeeds `atMs` after the start of the container. Other probes always do. */
export function probeSucceeds(probe: Probe, input: CommandInput, atMs: number): boolean {
  const command = probe.exec?.command;
  if (command === undefined) return true;
  const files = playMain(input, { untilMs: atMs })?.files ?? new Map();
  const run = runCommand(command, input, { files, untilMs: 1000 * (probe.timeoutSeconds ?? 1) });
  return run.unknown !== undefined || run.exitCode === 0;
}

/** The user's own answers, by the whole command line, and for `sh -c` by the script too. */
function ownAnswer(command: readonly string[], { pod, container }: CommandInput): CommandResult | undefined {
  const text = annotationOf(pod, container);
  if (text === undefined) return undefined;
  const answers = parsed(text);
  if (!isObject(answers)) return undefined;
  const line = command.join(" ");
  const script = /^(?:sh|bash) -c (.*)$/s.exec(line)?.[1];
  const answer = answers[line] ?? (script === undefined ? undefined : answers[script]);
  if (typeof answer === "string") return { stdout: answer, stderr: "", exitCode: 0 };
  if (!isObject(answer)) return undefined;
  const { stdout, stderr, exitCode } = answer as Record<string, unknown>;
  return {
    stdout: typeof stdout === "string" ? stdout : "",
    stderr: typeof stderr === "string" ? stderr : "",
    exitCode: typeof exitCode === "number" ? exitCode : 0,
  };
}

function annotationOf({ metadata: { annotations = {} } }: Pod, container: string): string | undefined {
  return annotations[`${marks.exec}.${container}`] ?? annotations[marks.exec];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
