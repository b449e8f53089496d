import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { badRequest } from "../../model/objects/status.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ExecCommand, ExecEnd, ExecStreams, LogOptions, PodAgent, PodUsage, Usage } from "../../ports/podAgent.ts";
import { answerExec, answerScript, type ExecInput } from "../canned/cannedExec.ts";
import { type LogLine, logLines, logRunOf, logText, nextLogMs, statusOf } from "../canned/cannedLog.ts";
import { containerUsage, nodeUsage, runningContainers, type UsedAmounts } from "../canned/cannedUsage.ts";
import { type DraOptions, draInventory } from "../devices/draDevices.ts";
import { devicesByClaim } from "../pods/claimLife.ts";
import type { NodeAgent } from "./nodeAgent.ts";

/** What the agent reads of the nodes that run. Undefined until the part has been added. */
export interface AgentContext {
  readonly clock: Clock;
  readonly dra: DraOptions | undefined;
  nodeAgent(node: string): NodeAgent | undefined;
  pod(key: string): Pod | undefined;
}

/**
 * Answers for the containers of simulated nodes: logs, commands and usage derived from the objects. Nothing runs on the
 * machine.
 */
export class SimPodAgent implements PodAgent {
  private context: AgentContext | undefined;

  bind(context: AgentContext): void {
    this.context = context;
  }

  async *log(pod: Pod, options: LogOptions, stopped: Cancel): AsyncGenerator<string> {
    const context = this.started();
    const { clock } = context;
    const answer = logRunOf(pod, options.container, options.previous);
    if ("refused" in answer) throw badRequest(answer.refused);
    const { timestamps, sinceSeconds, tailLines, limitBytes } = options;
    const nowMs = clock.nowMs();
    const sinceMs = sinceSeconds === undefined ? timeToMs(options.sinceTime) : nowMs - sinceSeconds * 1000;
    const text = logText(logLines(pod, answer.run, nowMs), { timestamps, sinceMs, tailLines, limitBytes });
    yield text;
    if (!options.follow || options.previous) return;
    yield* this.follow(context, pod, options, { fromMs: nowMs, stopped });
  }

  /** Line by line as they come, until the container has ended or the pod is gone. */
  private async *follow(
    context: AgentContext,
    pod: Pod,
    { container, timestamps }: LogOptions,
    { fromMs, stopped }: { fromMs: number; stopped: Cancel },
  ): AsyncGenerator<string> {
    const key = `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`;
    let toldMs = fromMs;
    const wish = { timestamps, sinceMs: undefined, tailLines: undefined, limitBytes: undefined };
    while (!stopped.cancelled) {
      const current = context.pod(key);
      const answer =
        current?.metadata.uid === pod.metadata.uid
          ? logRunOf(current, container, false)
          : { refused: "the pod is gone" };
      if ("refused" in answer || current === undefined) return;
      const nowMs = context.clock.nowMs();
      const lines: LogLine[] = [...logLines(current, answer.run, nowMs)].filter(({ atMs }) => atMs > toldMs);
      if (lines.length > 0) yield logText(lines, wish);
      toldMs = Math.max(toldMs, nowMs);
      if (answer.run.untilMs !== undefined) return;
      const nextMs = nextLogMs(current, answer.run, nowMs) ?? nowMs + 1000;
      // An end shows in the object; it is looked for more often than lines come.
      await pause(context.clock, Math.min(1000, Math.max(1, nextMs - nowMs)), stopped);
    }
  }

  async exec(pod: Pod, { container, command, tty }: ExecCommand, streams: ExecStreams): Promise<ExecEnd> {
    const { clock } = this.started();
    demandRunning(pod, container);
    const input = this.execInput(pod, container);
    const answer = answerExec(command, input);
    if (answer.reads === "lines") return this.shell(pod, container, streams, tty);
    if (answer.reads === "echo") return echo(streams);
    streams.stdout(tty ? crlf(answer.stdout) : answer.stdout);
    if (answer.stderr !== "") {
      if (tty) streams.stdout(crlf(answer.stderr));
      else streams.stderr(answer.stderr);
    }
    if (answer.waitMs !== undefined && answer.waitMs > 0) await pause(clock, answer.waitMs, streams.stopped);
    return { exitCode: answer.exitCode };
  }

  async attach(pod: Pod, container: string, streams: ExecStreams): Promise<ExecEnd> {
    demandRunning(pod, container);
    const options = {
      container,
      follow: true,
      previous: false,
      timestamps: false,
      sinceSeconds: 0,
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

  private execInput(pod: Pod, container: string): ExecInput {
    const context = this.started();
    const agent = context.nodeAgent(pod.spec?.nodeName ?? "");
    const claimed = agent === undefined ? [] : this.claimed(agent, pod, container);
    return { pod, container, claimed, sim: agent?.sim, driver: agent?.state?.driver, nowMs: context.clock.nowMs() };
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

  /** A shell without a script: every line is answered, until the end of what is typed or `exit`. */
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
          const answer = answerScript(line, this.execInput(pod, container));
          streams.stdout(tty ? crlf(answer.stdout) : answer.stdout);
          if (tty) streams.stdout(crlf(answer.stderr));
          else if (answer.stderr !== "") streams.stderr(answer.stderr);
          exitCode = answer.exitCode;
          if (answer.waitMs !== undefined && answer.waitMs > 0) await pause(clock, answer.waitMs, streams.stopped);
          streams.stdout(prompt);
        }
      }
      if (streams.stopped.cancelled) break;
    }
    return { exitCode };
  }
}

async function echo({ stdin, stdout }: ExecStreams): Promise<ExecEnd> {
  if (stdin !== undefined) for await (const bytes of stdin) stdout(decodeText(bytes));
  return { exitCode: 0 };
}

/** UTF-8 as far as a terminal types it; this room has no decoder of its own. */
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
