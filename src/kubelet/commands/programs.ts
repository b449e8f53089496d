/** The programs of simulated containers, as functions of the pod, its node and a small file system. */
import { devicesOf as shareDevicesOf } from "../../decide/bind/reservation.ts";
import type { Container, Pod } from "../../model/kubernetes.generated.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { gpuUtilisation } from "../canned/cannedUsage.ts";
import { assignmentOf, migInstances } from "../devices/devices.ts";
import { nvidiaSmi } from "../devices/nvidiaSmi.ts";
import { durationMs } from "../node/faults.ts";
import type { SimNode } from "../node/simNode.ts";
import { arithmetic } from "./shell.ts";

export interface CommandInput {
  readonly pod: Pod;
  readonly container: string;
  /** Undefined on nodes that are not simulated here. */
  readonly sim: SimNode | undefined;
  readonly driver?: string | undefined;
  /** UUIDs of the devices that the container has by claims. */
  readonly claimed?: readonly string[];
  /** Restarts of the container before this run. */
  readonly restarts?: number;
  readonly nowMs: number;
}

export interface ProgramContext {
  readonly input: CommandInput;
  readonly env: ReadonlyMap<string, string>;
  /** Files that commands of this container have written, by path. */
  readonly files: Map<string, string>;
}

export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  /** How long the program runs; Infinity for a program that does not end. */
  readonly waitMs?: number;
  readonly reads?: "lines" | "echo";
}

export type Program = (args: readonly string[], context: ProgramContext) => CommandResult;

const print = (stdout: string): CommandResult => ({ stdout, stderr: "", exitCode: 0 });
const fail = (stderr: string, exitCode: number): CommandResult => ({ stdout: "", stderr, exitCode });

export function programNamed(path: string): Program | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return Object.hasOwn(programs, name) ? programs[name] : undefined;
}

const programs: Readonly<Record<string, Program>> = {
  true: () => print(""),
  ":": () => print(""),
  false: () => fail("", 1),
  echo: (args) => {
    const flags = args.findIndex((arg) => !/^-[ne]+$/.test(arg));
    const words = flags < 0 ? [] : args.slice(flags);
    const isRaw = args.slice(0, flags < 0 ? args.length : flags).some((flag) => flag.includes("n"));
    return print(`${words.join(" ")}${isRaw ? "" : "\n"}`);
  },
  printf: (args) => print(formatted(args[0] ?? "", args.slice(1))),
  hostname: (_, { input }) => print(`${hostOf(input.pod)}\n`),
  env: (_, { env }) => print([...env].map(([name, value]) => `${name}=${value}\n`).join("")),
  printenv: (args, { env }) => {
    if (args.length === 0) return print([...env].map(([name, value]) => `${name}=${value}\n`).join(""));
    const found = args.map((name) => env.get(name));
    return {
      stdout: found.flatMap((value) => (value === undefined ? [] : [`${value}\n`])).join(""),
      stderr: "",
      exitCode: found.includes(undefined) ? 1 : 0,
    };
  },
  pwd: (_, { input }) => print(`${containerOf(input)?.workingDir ?? "/"}\n`),
  whoami: () => print("root\n"),
  id: () => print("uid=0(root) gid=0(root) groups=0(root)\n"),
  uname: (args, { input }) =>
    print(args.includes("-a") ? `Linux ${hostOf(input.pod)} 6.8.0-sim #1 SMP x86_64 GNU/Linux\n` : "Linux\n"),
  date: (_, { input }) => print(`${new Date(input.nowMs).toUTCString().replace("GMT", "UTC")}\n`),
  ps: (_, { input }) => print(`PID   USER     TIME  COMMAND\n    1 root      0:00 ${commandOf(input)}\n`),
  ls: (args, { files }) => {
    const paths = args.filter((arg) => !arg.startsWith("-"));
    if (paths.every((path) => path === "/")) return print(`${folders.join("\n")}\n`);
    const absent = paths.find((path) => !files.has(path));
    return absent === undefined ? print(`${paths.join("\n")}\n`) : missing("ls", absent);
  },
  cat: (args, context) => {
    if (args.length === 0) return { stdout: "", stderr: "", exitCode: 0, reads: "echo" };
    const texts = args.map((file) => fileOf(file, context));
    const absent = args.find((_, at) => texts[at] === undefined);
    return absent === undefined ? print(texts.join("")) : missing("cat", absent);
  },
  touch: (args, { files }) => {
    for (const path of args.filter((arg) => !arg.startsWith("-"))) files.set(path, files.get(path) ?? "");
    return print("");
  },
  rm: (args, { files }) => {
    const paths = args.filter((arg) => !arg.startsWith("-"));
    const isForced = args.some((arg) => /^-\w*f/.test(arg));
    const absent = paths.find((path) => !isForced && ![...files.keys()].some((each) => isWithin(each, path)));
    for (const each of [...files.keys()]) if (paths.some((path) => isWithin(each, path))) files.delete(each);
    return absent === undefined ? print("") : missing("rm", absent);
  },
  mkdir: () => print(""),
  test: (args, context) => fail("", isTrue(args, context) ? 0 : 1),
  "[": (args, context) => fail("", isTrue(args.slice(0, -1), context) ? 0 : 1),
  "[[": (args, context) => fail("", isTrue(args.slice(0, -1), context) ? 0 : 1),
  expr: (args) => {
    const value = arithmetic(args.join(" "));
    return { ...print(`${value}\n`), exitCode: value === 0 ? 1 : 0 };
  },
  seq: (args) => {
    const numbers = args.map(Number);
    const first = numbers.length > 1 ? (numbers[0] ?? 1) : 1;
    const step = numbers.length > 2 ? numbers[1] || 1 : 1;
    const last = numbers.at(-1) ?? 0;
    const lines: number[] = [];
    for (let at = first; step > 0 ? at <= last : at >= last; at += step) if (lines.push(at) >= linesMax) break;
    return print(lines.map((line) => `${line}\n`).join(""));
  },
  sleep: (args) => {
    let waitMs = 0;
    for (const arg of args) {
      const ms = arg === "infinity" || arg === "inf" ? Number.POSITIVE_INFINITY : secondsOrDuration(arg);
      if (ms === undefined || ms < 0) return fail(`sleep: invalid number '${arg}'\n`, 1);
      waitMs += ms;
    }
    return args.length === 0 ? fail("sleep: missing operand\n", 1) : { ...print(""), waitMs };
  },
  /** Of the pause image and of agnhost. */
  pause: () => ({ ...print(""), waitMs: Number.POSITIVE_INFINITY }),
  "nvidia-smi": smi,
};

const linesMax = 10_000;
const folders = ["bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var"];

function missing(program: string, file: string): CommandResult {
  return fail(`${program}: ${file}: No such file or directory\n`, 1);
}

function secondsOrDuration(text: string): number | undefined {
  const seconds = Number(text);
  if (text.trim() !== "" && Number.isFinite(seconds)) return seconds * 1000;
  const days = /^(\d+)d$/.exec(text)?.[1];
  return days === undefined ? durationMs(text) : Number(days) * 86_400_000;
}

function formatted(format: string, args: readonly string[]): string {
  const rest = [...args];
  let text = "";
  do {
    text += format
      .replace(/\\n/g, "\n")
      .replace(/\\t/g, "\t")
      .replace(/%([sd%])/g, (_, kind: string) => (kind === "%" ? "%" : (rest.shift() ?? (kind === "d" ? "0" : ""))));
  } while (rest.length > 0 && /%[sd]/.test(format));
  return text;
}

function isWithin(path: string, folder: string): boolean {
  return (
    path === folder ||
    path.startsWith(`${folder.replace(/\/$/, "")}/`) ||
    (folder.endsWith("*") && path.startsWith(folder.slice(0, -1)))
  );
}

function isTrue(args: readonly string[], context: ProgramContext): boolean {
  const [first = "", second, third = ""] = args;
  if (first === "!") return !isTrue(args.slice(1), context);
  if (args.length <= 1) return first !== "";
  if (args.length === 2) {
    if (first === "-z") return second === "";
    if (first === "-n") return second !== "";
    if (first === "-d") return folders.includes((second ?? "").replaceAll("/", ""));
    const text = fileOf(second ?? "", context);
    return first === "-s" ? (text ?? "") !== "" : text !== undefined;
  }
  const [a, b] = [Number(first), Number(third)];
  const compared: Readonly<Record<string, boolean>> = {
    "=": first === third,
    "==": first === third,
    "!=": first !== third,
    "-eq": a === b,
    "-ne": a !== b,
    "-lt": a < b,
    "-le": a <= b,
    "-gt": a > b,
    "-ge": a >= b,
  };
  return compared[second ?? ""] === true;
}

export function hostOf({ metadata, spec }: Pod): string {
  return spec?.hostNetwork === true ? (spec.nodeName ?? metadata.name) : (spec?.hostname ?? metadata.name);
}

export function containerOf({ pod, container }: Pick<CommandInput, "pod" | "container">): Container | undefined {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  return [...containers, ...initContainers].find(({ name }) => name === container);
}

function commandOf(input: CommandInput): string {
  const { command = [], args = [] } = containerOf(input) ?? {};
  return [...command, ...args].join(" ") || "/entrypoint";
}

/** Devices of the container: from the device plugin, from claims, and of a GPU share. */
function devicesOf({ pod, container, claimed = [] }: CommandInput): string[] {
  const own = Object.values(assignmentOf(pod)[container] ?? {}).flat();
  return [...own, ...claimed, ...Object.values(shareDevicesOf(pod))];
}

/** The environment of a container, without values from other objects, which the node does not read. */
export function environmentOf(input: CommandInput): Map<string, string> {
  const { pod } = input;
  const env = new Map([
    ["PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    ["HOSTNAME", hostOf(pod)],
  ]);
  for (const { name, value, valueFrom } of containerOf(input)?.env ?? []) {
    const field = valueFrom?.fieldRef?.fieldPath;
    const text =
      value === undefined ? (field === undefined ? undefined : fieldOf(pod, field)) : substituted(value, env);
    if (text !== undefined) env.set(name, text);
  }
  const devices = devicesOf(input);
  if (devices.length > 0) env.set("NVIDIA_VISIBLE_DEVICES", devices.join(","));
  env.set("KUBERNETES_SERVICE_HOST", "10.96.0.1").set("KUBERNETES_SERVICE_PORT", "443").set("HOME", "/root");
  return env;
}

/** Kubernetes' own substitution of `$(NAME)` in commands, arguments and values. */
export function substituted(text: string, env: ReadonlyMap<string, string>): string {
  return text.replace(/\$\$|\$\(([\w.-]+)\)/g, (all, name: string | undefined) =>
    name === undefined ? "$" : (env.get(name) ?? all),
  );
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

function fileOf(file: string, { input: { pod }, files }: ProgramContext): string | undefined {
  if (files.has(file)) return files.get(file);
  const given: Readonly<Record<string, string>> = {
    "/etc/hostname": `${hostOf(pod)}\n`,
    "/etc/hosts": `127.0.0.1\tlocalhost\n${pod.status?.podIP ?? "127.0.0.1"}\t${hostOf(pod)}\n`,
    "/etc/os-release": 'NAME="Simulated Linux"\nID=simulated\n',
    "/var/run/secrets/kubernetes.io/serviceaccount/namespace": pod.metadata.namespace ?? "",
  };
  return Object.hasOwn(given, file) ? given[file] : undefined;
}

function smi(args: readonly string[], { input }: ProgramContext): CommandResult {
  const { sim, pod, nowMs } = input;
  if (sim?.profile.gpu === undefined) return fail("sh: nvidia-smi: not found\n", 127);
  const { memoryMiB, driver } = sim.profile.gpu;
  const ids = new Set(devicesOf(input).map((id) => id.split("::")[0] ?? id));
  const busy = gpuUtilisation(pod, nowMs);
  // A share does not change the total: nvidia-smi shows the memory of the whole GPU in every container.
  const share = Number(pod.metadata.annotations?.[annotationKeys.gpuFraction] ?? 1);
  const gpus = sim.devices
    .filter(({ uuid }) => ids.has(uuid))
    .map(({ uuid, pciBusId }, index) => {
      const utilisation = [...busy].find(([id]) => id.startsWith(uuid))?.[1] ?? 0;
      const usedMiB = Math.round((memoryMiB * share * utilisation) / 110);
      return { index, uuid, pciBusId, utilisation, usedMiB };
    });
  const known = sim.devices.flatMap((device) =>
    sim.profile.gpu?.mig === undefined
      ? []
      : migInstances(sim, device, sim.profile.gpu.mig).map(({ id, profile }) => ({ id, profile, gpu: device.uuid })),
  );
  const partitions = [...ids]
    .filter((id) => id.startsWith("MIG-"))
    .map((id) => known.find((each) => each.id === id) ?? { id, profile: "", gpu: sim.devices[0]?.uuid ?? "" });
  return nvidiaSmi(args, { sim, gpus, partitions, nowMs, driver: input.driver ?? driver });
}
