/**
 * Answers of commands in simulated containers. Nothing runs anywhere: a few commands that people type are answered from
 * the pod and its node, the user's own answers go first, and everything else is "not found", which says that it is
 * simulated.
 */

import type { Container, Pod } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import { marks } from "../../model/profiles/marks.ts";
import { assignmentOf } from "../devices/devices.ts";
import { nvidiaSmi } from "../devices/nvidiaSmi.ts";
import { durationMs } from "../node/faults.ts";
import type { SimNode } from "../node/simNode.ts";
import { gpuUtilisation } from "./cannedUsage.ts";

export interface ExecInput {
  readonly pod: Pod;
  readonly container: string;
  /** Undefined on nodes that are not simulated here. */
  readonly sim: SimNode | undefined;
  readonly driver?: string | undefined;
  /** UUIDs of the devices that the container has by claims. */
  readonly claimed?: readonly string[];
  readonly nowMs: number;
}

export interface ExecAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  /** How long it would have taken. */
  readonly waitMs?: number;
  /** What is typed is answered line by line, or repeated as it comes. */
  readonly reads?: "lines" | "echo";
}

const say = (stdout: string): ExecAnswer => ({ stdout, stderr: "", exitCode: 0 });
const fail = (stderr: string, exitCode: number): ExecAnswer => ({ stdout: "", stderr, exitCode });

export function answerExec(command: readonly string[], input: ExecInput): ExecAnswer {
  const own = ownAnswer(command, input);
  if (own !== undefined) return own;
  const [path = "", ...args] = command;
  const program = path.slice(path.lastIndexOf("/") + 1);
  if (!Object.hasOwn(programs, program)) {
    const message = `exec: ${JSON.stringify(path)}: executable file not found in $PATH (this container is simulated: nothing runs in it)\n`;
    return fail(message, 127);
  }
  return (programs[program] as Program)(args, input);
}

type Program = (args: readonly string[], input: ExecInput) => ExecAnswer;

const shell: Program = (args, input) => {
  const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg));
  if (at < 0) return { stdout: "", stderr: "", exitCode: 0, reads: "lines" };
  return answerScript(args[at + 1] ?? "", input);
};

const programs: Readonly<Record<string, Program>> = {
  sh: shell,
  bash: shell,
  ash: shell,
  true: () => say(""),
  ":": () => say(""),
  false: () => fail("", 1),
  echo: (args) => (args[0] === "-n" ? say(args.slice(1).join(" ")) : say(`${args.join(" ")}\n`)),
  printf: (args) => say((args[0] ?? "").replace(/\\n/g, "\n").replace(/%s/g, () => args[1] ?? "")),
  hostname: (_, { pod }) => say(`${hostOf(pod)}\n`),
  env: (_, input) =>
    say(
      envOf(input)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(""),
    ),
  printenv: (args, input) => {
    const env = envOf(input);
    if (args.length === 0) return say(env.map(([name, value]) => `${name}=${value}\n`).join(""));
    const found = args.map((name) => env.find(([each]) => each === name)?.[1]);
    return {
      stdout: found.flatMap((value) => (value === undefined ? [] : [`${value}\n`])).join(""),
      stderr: "",
      exitCode: found.includes(undefined) ? 1 : 0,
    };
  },
  pwd: (_, input) => say(`${containerOf(input)?.workingDir ?? "/"}\n`),
  whoami: () => say("root\n"),
  id: () => say("uid=0(root) gid=0(root) groups=0(root)\n"),
  uname: (args, { pod }) =>
    say(args.includes("-a") ? `Linux ${hostOf(pod)} 6.8.0-sim #1 SMP x86_64 GNU/Linux\n` : "Linux\n"),
  date: (_, { nowMs }) => say(`${new Date(nowMs).toUTCString().replace("GMT", "UTC")}\n`),
  ps: (_, input) => say(`PID   USER     TIME  COMMAND\n    1 root      0:00 ${commandOf(input)}\n`),
  ls: (args) =>
    args.every((arg) => arg === "/" || arg.startsWith("-")) ? say(`${folders.join("\n")}\n`) : missing("ls", args),
  cat: (args, input) => {
    if (args.length === 0) return { stdout: "", stderr: "", exitCode: 0, reads: "echo" };
    const texts = args.map((file) => fileOf(file, input));
    const absent = args.find((_, at) => texts[at] === undefined);
    return absent === undefined ? say(texts.join("")) : missing("cat", [absent]);
  },
  sleep: (args) => {
    const seconds = Number(args[0] ?? Number.NaN);
    const waitMs = Number.isFinite(seconds) ? seconds * 1000 : durationMs(args[0] ?? "");
    return waitMs === undefined ? fail(`sleep: invalid number '${args[0] ?? ""}'\n`, 1) : { ...say(""), waitMs };
  },
  "nvidia-smi": smi,
  nvidia_smi: smi,
};

const folders = ["bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var"];

function missing(program: string, files: readonly string[]): ExecAnswer {
  const file = files.find((arg) => !arg.startsWith("-")) ?? "";
  return fail(`${program}: ${file}: No such file or directory\n`, 1);
}

function hostOf({ metadata, spec }: Pod): string {
  return spec?.hostNetwork === true ? (spec.nodeName ?? metadata.name) : (spec?.hostname ?? metadata.name);
}

function containerOf({ pod, container }: ExecInput): Container | undefined {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  return [...containers, ...initContainers].find(({ name }) => name === container);
}

function commandOf(input: ExecInput): string {
  const { command = [], args = [] } = containerOf(input) ?? {};
  return [...command, ...args].join(" ") || "/entrypoint";
}

function devicesOf({ pod, container, claimed = [] }: ExecInput): string[] {
  return [...Object.values(assignmentOf(pod)[container] ?? {}).flat(), ...claimed];
}

/** What a container's environment says; values that come from elsewhere are left out, except the pod's own fields. */
function envOf(input: ExecInput): [string, string][] {
  const { pod } = input;
  const env: [string, string][] = [
    ["PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    ["HOSTNAME", hostOf(pod)],
  ];
  for (const { name, value, valueFrom } of containerOf(input)?.env ?? []) {
    const field = valueFrom?.fieldRef?.fieldPath;
    const text = value ?? (field === undefined ? undefined : fieldOf(pod, field));
    if (text !== undefined) env.push([name, text]);
  }
  const devices = devicesOf(input);
  if (devices.length > 0) env.push(["NVIDIA_VISIBLE_DEVICES", devices.join(",")]);
  env.push(["KUBERNETES_SERVICE_HOST", "10.96.0.1"], ["KUBERNETES_SERVICE_PORT", "443"], ["HOME", "/root"]);
  return env;
}

function fieldOf(pod: Pod, path: string): string | undefined {
  const { metadata, spec, status } = pod;
  const label = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path);
  if (label !== null) return metadata[label[1] as "labels" | "annotations"]?.[label[2] ?? ""];
  const fields: Readonly<Record<string, string | undefined>> = {
    "metadata.name": metadata.name,
    "metadata.namespace": metadata.namespace,
    "metadata.uid": metadata.uid,
    "spec.nodeName": spec?.nodeName,
    "spec.serviceAccountName": spec?.serviceAccountName,
    "status.podIP": status?.podIP,
    "status.hostIP": status?.hostIP,
  };
  return fields[path];
}

function fileOf(file: string, { pod }: ExecInput): string | undefined {
  const files: Readonly<Record<string, string>> = {
    "/etc/hostname": `${hostOf(pod)}\n`,
    "/etc/hosts": `127.0.0.1\tlocalhost\n${pod.status?.podIP ?? "127.0.0.1"}\t${hostOf(pod)}\n`,
    "/etc/os-release": 'NAME="Simulated Linux"\nID=simulated\n',
    "/var/run/secrets/kubernetes.io/serviceaccount/namespace": pod.metadata.namespace ?? "",
  };
  return Object.hasOwn(files, file) ? files[file] : undefined;
}

function smi(args: readonly string[], input: ExecInput): ExecAnswer {
  const { sim, pod, nowMs } = input;
  if (sim?.profile.gpu === undefined) return fail("sh: nvidia-smi: not found\n", 127);
  const { memoryMiB, driver } = sim.profile.gpu;
  const ids = new Set(devicesOf(input).map((id) => id.split("::")[0] ?? id));
  const busy = gpuUtilisation(pod, nowMs);
  const gpus = sim.devices
    .filter(({ uuid }) => ids.has(uuid))
    .map(({ uuid, pciBusId }, index) => {
      const utilisation = [...busy].find(([id]) => id.startsWith(uuid))?.[1] ?? 0;
      return { index, uuid, pciBusId, utilisation, usedMiB: Math.round((memoryMiB * utilisation) / 110) };
    });
  const partitions = [...ids].filter((id) => id.startsWith("MIG-"));
  return nvidiaSmi(args, { sim, gpus, partitions, nowMs, driver: input.driver ?? driver });
}

/** A line of a script: words with quotes and `$NAME`, joined by `;`, `&&` and `||`. No pipes, no loops, no files. */
export function answerScript(script: string, input: ExecInput): ExecAnswer {
  let stdout = "";
  let stderr = "";
  let waitMs = 0;
  let exitCode = 0;
  for (const { joint, words, unsupported } of commandsOf(script, input)) {
    if (joint === "&&" && exitCode !== 0) continue;
    if (joint === "||" && exitCode === 0) continue;
    if (unsupported !== undefined) {
      stderr += `sh: ${unsupported} is not played in a simulated container\n`;
      exitCode = 2;
      continue;
    }
    if (words.length === 0) continue;
    if (words[0] === "exit") return { stdout, stderr, waitMs, exitCode: Number(words[1] ?? exitCode) || 0 };
    const answer = answerExec(words, input);
    stdout += answer.stdout;
    stderr += answer.stderr;
    waitMs += answer.waitMs ?? 0;
    exitCode = answer.exitCode;
  }
  return { stdout, stderr, exitCode, waitMs };
}

interface ScriptCommand {
  readonly joint: string;
  readonly words: string[];
  readonly unsupported: string | undefined;
}

function commandsOf(script: string, input: ExecInput): ScriptCommand[] {
  const commands: ScriptCommand[] = [];
  let words: string[] = [];
  let word: string | undefined;
  let joint = ";";
  let unsupported: string | undefined;
  const endWord = () => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  const endCommand = (next: string) => {
    endWord();
    commands.push({ joint, words, unsupported });
    words = [];
    joint = next;
    unsupported = undefined;
  };
  const tokens =
    /'([^']*)'|"((?:[^"\\]|\\.)*)"|(&&|\|\||[;|&<>\n`(){}])|(\s+)|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|\\?(.)/gs;
  for (const [, single, double, mark, space, name, plain] of script.matchAll(tokens)) {
    if (single !== undefined) word = (word ?? "") + single;
    else if (double !== undefined) word = (word ?? "") + expanded(double.replace(/\\(["\\$`])/g, "$1"), input);
    else if (mark === "&&" || mark === "||") endCommand(mark);
    else if (mark === ";" || mark === "\n") endCommand(";");
    else if (mark !== undefined) unsupported ??= JSON.stringify(mark);
    else if (space !== undefined) endWord();
    else if (name !== undefined) word = (word ?? "") + envValue(name, input);
    else word = (word ?? "") + (plain ?? "");
  }
  endCommand(";");
  return commands;
}

function expanded(text: string, input: ExecInput): string {
  return text.replace(/\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?/g, (_, name: string) => envValue(name, input));
}

function envValue(name: string, input: ExecInput): string {
  return envOf(input).find(([each]) => each === name)?.[1] ?? "";
}

/** The user's own answers, by the whole command line, and for `sh -c` by the script too. */
function ownAnswer(command: readonly string[], { pod, container }: ExecInput): ExecAnswer | undefined {
  const { annotations = {} } = pod.metadata;
  const text = annotations[`${marks.exec}.${container}`] ?? annotations[marks.exec];
  if (text === undefined) return undefined;
  const answers = parsed(text);
  if (!isObject(answers)) return undefined;
  const line = command.join(" ");
  const script = /^(?:sh|bash) -c (.*)$/s.exec(line)?.[1];
  const answer = answers[line] ?? (script === undefined ? undefined : answers[script]);
  if (typeof answer === "string") return say(answer);
  if (!isObject(answer)) return undefined;
  const { stdout, stderr, exitCode } = answer as Record<string, unknown>;
  return {
    stdout: typeof stdout === "string" ? stdout : "",
    stderr: typeof stderr === "string" ? stderr : "",
    exitCode: typeof exitCode === "number" ? exitCode : 0,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
