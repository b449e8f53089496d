import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { badRequest } from "../../model/objects/status.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ExecCommand, ExecEnd, ExecStreams, LogOptions, PodAgent, PodUsage, Usage } from "../../ports/podAgent.ts";
import {
  type LogLine,
  logLines,
  logRunOf,
  logText,
  nextLogMs,
  type ReplayMain,
  statusOf,
} from "../canned/cannedLog.ts";
import { containerUsage, nodeUsage, runningContainers, type UsedAmounts } from "../canned/cannedUsage.ts";
import { type CommandInput, containerOf } from "../commands/programs.ts";
import { playMain, runCommand, runLine } from "../commands/runCommand.ts";
import type { CommandRun } from "../commands/shell.ts";
import { type DraOptions, draInventory } from "../devices/draDevices.ts";
import { devicesByClaim } from "../pods/claimLife.ts";
import type { NodeAgent } from "./nodeAgent.ts";

/** A command that does not end is ended after an hour. */
const execMsMax = 3_600_000;
/** Commands of a main process that are replayed for its log. */
const logStepsMax = 200_000;
/** Containers whose files are kept between commands. */
const filesMax = 200;

/** What the agent reads of the running nodes. Undefined until the component has been added. */
export interface AgentContext {
  readonly clock: Clock;
  readonly dra: DraOptions | undefined;
  nodeAgent(node: string): NodeAgent | undefined;
  pod(key: string): Pod | undefined;
}

/** Serves logs, exec and usage of the containers of simulated nodes, derived from the objects. No container runs. */
export class SimPodAgent implements PodAgent {
  private context: AgentContext | undefined;
  private readonly files = new Map<string, Map<string, string>>();

  bind(context: AgentContext): void {
    this.context = context;
  }

  plays(node: string): boolean {
    return this.context?.nodeAgent(node) !== undefined;
  }

  async *log(pod: Pod, options: LogOptions, stopped: Cancel): AsyncGenerator<string> {
    const context = this.started();
    const { clock } = context;
    const answer = logRunOf(pod, options.container, options.previous);
    if ("refused" in answer) throw badRequest(answer.refused);
    const { timestamps, sinceSeconds, tailLines, limitBytes } = options;
    const nowMs = clock.nowMs();
    const sinceMs = sinceSeconds === undefined ? timeToMs(options.sinceTime) : nowMs - sinceSeconds * 1000;
    const lines = logLines(pod, answer.run, nowMs, this.replay(pod, options.container));
    const text = logText(lines, { timestamps, sinceMs, tailLines, limitBytes });
    yield text;
    if (!options.follow || options.previous) return;
    yield* this.follow(context, pod, options, { fromMs: nowMs, stopped });
  }

  /** Sends lines as they come, until the container has terminated or the pod is deleted. */
  private async *follow(
    context: AgentContext,
    pod: Pod,
    { container, timestamps }: LogOptions,
    { fromMs, stopped }: { fromMs: number; stopped: Cancel },
  ): AsyncGenerator<string> {
    const key = `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`;
    let sentUntilMs = fromMs;
    const wish = { timestamps, sinceMs: undefined, tailLines: undefined, limitBytes: undefined };
    while (!stopped.cancelled) {
      const current = context.pod(key);
      const answer =
        current?.metadata.uid === pod.metadata.uid
          ? logRunOf(current, container, false)
          : { refused: "the pod is deleted" };
      if ("refused" in answer || current === undefined) return;
      const nowMs = context.clock.nowMs();
      const all = logLines(current, answer.run, nowMs, this.replay(current, container));
      const lines: LogLine[] = [...all].filter(({ atMs }) => atMs > sentUntilMs);
      if (lines.length > 0) yield logText(lines, wish);
      sentUntilMs = Math.max(sentUntilMs, nowMs);
      if (answer.run.untilMs !== undefined) return;
      const nextMs = nextLogMs(current, answer.run, nowMs) ?? nowMs + 1000;
      // The end of the container is read from the object, more often than lines come.
      await pause(context.clock, Math.min(1000, Math.max(1, nextMs - nowMs)), stopped);
    }
  }

  async exec(pod: Pod, { container, command, tty }: ExecCommand, streams: ExecStreams): Promise<ExecEnd> {
    const { clock } = this.started();
    demandRunning(pod, container);
    const files = this.filesOf(pod, container);
    const run = runCommand(command, this.commandInput(pod, container), { files, untilMs: execMsMax });
    if (run.reads === "lines") return this.shell(pod, container, streams, tty);
    if (run.reads === "echo") return echo(streams);
    return sendRun(run, clock, streams, tty);
  }

  async attach(pod: Pod, container: string, streams: ExecStreams): Promise<ExecEnd> {
    demandRunning(pod, container);
    const { stdin, tty = false, command = [], args = [], image } = containerOf({ pod, container }) ?? {};
    const argv = [...command, ...args];
    const isShell =
      argv.length === 0 ? isShellImage(image) : argv.length === 1 && /^(?:\/bin\/)?(?:ba|a)?sh$/.test(argv[0] ?? "");
    if (stdin === true && isShell) return this.shell(pod, container, streams, tty);
    const options = {
      container,
      follow: true,
      previous: false,
      timestamps: false,
      // Of a container with stdin the output is complete: its client attaches as soon as it can.
      sinceSeconds: stdin === true ? undefined : 0,
      sinceTime: undefined,
      tailLines: undefined,
      limitBytes: undefined,
    };
    for await (const text of this.log(pod, options, streams.stopped)) if (text !== "") streams.stdout(text);
    return { exitCode: 0 };
  }

  podUsage(pod: Pod): PodUsage | undefined {
    const nowMs = this.started().clock.nowMs();
    const containers = runningContainers(pod);
    if (containers.length === 0) return undefined;
    return {
      containers: containers.map((each) => ({ name: each.name, usage: asUsage(containerUsage(pod, each, nowMs)) })),
    };
  }

  nodeUsage(node: Node): Usage | undefined {
    const context = this.started();
    const agent = context.nodeAgent(node.metadata.name);
    if (agent?.state === undefined || !agent.state.alive) return undefined;
    return asUsage(nodeUsage(node, agent.podsNow(), context.clock.nowMs()));
  }

  private started(): AgentContext {
    if (this.context === undefined) throw badRequest("the simulated nodes have not started yet");
    return this.context;
  }

  private commandInput(pod: Pod, container: string, restarts = restartsOf(pod, container)): CommandInput {
    const context = this.started();
    const agent = context.nodeAgent(pod.spec?.nodeName ?? "");
    const claimed = agent === undefined ? [] : this.claimed(agent, pod, container);
    const { clock } = context;
    return { pod, container, claimed, sim: agent?.sim, driver: agent?.state?.driver, restarts, nowMs: clock.nowMs() };
  }

  private replay(pod: Pod, container: string): ReplayMain {
    return (restarts, untilMs) => {
      const input = this.commandInput(pod, container, restarts);
      return playMain({ ...input, nowMs: input.nowMs - untilMs }, { untilMs, stepsMax: logStepsMax })?.run;
    };
  }

  /** The files that commands have written in a container, on top of those of its main process. */
  private filesOf(pod: Pod, container: string): Map<string, string> {
    const key = `${pod.metadata.uid}/${container}/${restartsOf(pod, container)}`;
    let files = this.files.get(key);
    if (files === undefined) {
      const startedMs = timeToMs(statusOf(pod, container)?.state?.running?.startedAt) ?? 0;
      const untilMs = Math.max(0, this.started().clock.nowMs() - startedMs);
      files = playMain(this.commandInput(pod, container), { untilMs })?.files ?? new Map<string, string>();
      const [oldest] = this.files.keys();
      if (this.files.size >= filesMax && oldest !== undefined) this.files.delete(oldest);
      this.files.set(key, files);
    }
    return files;
  }

  private claimed({ prepared, sim, state }: NodeAgent, pod: Pod, container: string): string[] {
    const { dra } = this.started();
    if (dra === undefined || state === undefined) return [];
    const names = new Set(devicesByClaim(pod, container, prepared.values()));
    if (names.size === 0) return [];
    const { devices } = draInventory(sim, state, dra);
    return devices
      .filter(({ name }) => names.has(name))
      .flatMap(({ attributes }) => attributes?.["uuid"]?.string ?? []);
  }

  /** An interactive shell: every line is answered, until the end of the input or `exit`. */
  private async shell(pod: Pod, container: string, streams: ExecStreams, tty: boolean): Promise<ExecEnd> {
    const { clock } = this.started();
    const prompt = tty ? "/ # " : "";
    let exitCode = 0;
    let typed = "";
    streams.stdout(prompt);
    if (streams.stdin === undefined) return { exitCode };
    for await (const bytes of streams.stdin) {
      for (const character of decodeText(bytes)) {
        if (character === "\u0004" && typed === "") return { exitCode };
        if (character === "\u0003") {
          typed = "";
          streams.stdout(`^C\r\n${prompt}`);
        } else if (character === "\u007f" && tty) {
          if (typed !== "") streams.stdout("\b \b");
          typed = typed.slice(0, -1);
        } else if (character !== "\r" && character !== "\n") {
          typed += character;
          if (tty) streams.stdout(character);
        } else {
          if (tty) streams.stdout("\r\n");
          const line = typed.trim();
          typed = "";
          const leave = /^exit(?:\s+([0-9]+))?$/.exec(line);
          if (leave !== null) return { exitCode: Number(leave[1] ?? exitCode) };
          const run = runLine(line, this.commandInput(pod, container), this.filesOf(pod, container));
          ({ exitCode } = await sendRun(run, clock, streams, tty));
          streams.stdout(prompt);
        }
      }
      if (streams.stopped.cancelled) break;
    }
    return { exitCode };
  }
}

/** Sends the output of a command as it comes, and ends with it. */
async function sendRun(run: CommandRun, clock: Clock, streams: ExecStreams, tty: boolean): Promise<ExecEnd> {
  let atMs = 0;
  for (const { afterMs, text, isError } of run.output) {
    if (afterMs > atMs) await pause(clock, afterMs - atMs, streams.stopped);
    if (streams.stopped.cancelled) break;
    atMs = afterMs;
    if (isError && !tty) streams.stderr(text);
    else streams.stdout(tty ? crlf(text) : text);
  }
  const restMs = (run.runMs ?? execMsMax) - atMs;
  if (restMs > 0) await pause(clock, restMs, streams.stopped);
  return { exitCode: run.exitCode ?? 137 };
}

function restartsOf(pod: Pod, container: string): number {
  return statusOf(pod, container)?.restartCount ?? 0;
}

function isShellImage(image = ""): boolean {
  return /(?:^|\/)(?:busybox|alpine|ubuntu|debian)(?:[:@]|$)/.test(image);
}

async function echo({ stdin, stdout }: ExecStreams): Promise<ExecEnd> {
  if (stdin !== undefined) for await (const bytes of stdin) stdout(decodeText(bytes));
  return { exitCode: 0 };
}

/** Decodes UTF-8 input; this room has no TextDecoder. */
function decodeText(bytes: Uint8Array): string {
  let escaped = "";
  for (const byte of bytes) escaped += `%${byte.toString(16).padStart(2, "0")}`;
  try {
    return decodeURIComponent(escaped);
  } catch {
    return String.fromCharCode(...bytes);
  }
}

function crlf(text: string): string {
  return text.replace(/\n/g, "\r\n");
}

function demandRunning(pod: Pod, container: string): void {
  if (statusOf(pod, container)?.state?.running !== undefined) return;
  throw badRequest(`container ${JSON.stringify(container)} of pod ${JSON.stringify(pod.metadata.name)} is not running`);
}

function asUsage({ cpuNano, memoryBytes }: UsedAmounts): Usage {
  return { cpu: `${Math.ceil(cpuNano)}n`, memory: `${Math.ceil(memoryBytes / 1024)}Ki` };
}

/** Sleeps, or returns early when the request is cancelled. */
function pause(clock: Clock, ms: number, stopped: Cancel): Promise<void> {
  return new Promise((resolve) => {
    let forget = (): void => {};
    const cancel = clock.after(ms, () => {
      forget();
      resolve();
    });
    forget = stopped.onCancel(() => {
      cancel();
      resolve();
    });
  });
}
