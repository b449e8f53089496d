/**
 * The log of a simulated container: the output of its command where that is understood, otherwise a line when it
 * starts, lines at intervals while it runs, and one when it ends. The lines are derived from the pod alone, so that
 * reading twice gives the same text and nothing has to be kept.
 */
import type { ContainerStatus, Pod } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { CommandRun } from "../commands/shell.ts";
import { assignmentOf } from "../devices/devices.ts";
import { durationMs } from "../node/faults.ts";

export interface LogLine {
  readonly atMs: number;
  readonly text: string;
  /** The line has no line break yet. */
  readonly isOpen?: boolean;
}

/** Runs the main process of the container again up to a time; undefined where its command is not understood. */
export type ReplayMain = (restarts: number, untilMs: number) => CommandRun | undefined;

/** A run of a container: it has started, and may have terminated. */
export interface LogRun {
  readonly container: string;
  readonly fromMs: number;
  readonly untilMs: number | undefined;
  readonly exitCode: number;
  readonly restarts: number;
}

export type LogRunAnswer = { readonly run: LogRun } | { readonly refused: string };

/** The run whose log is requested, or the kubelet's refusal. */
export function logRunOf(pod: Pod, container: string, previous: boolean): LogRunAnswer {
  const name = pod.metadata.name;
  const status = statusOf(pod, container);
  if (previous) {
    const last = status?.lastState?.terminated;
    if (last === undefined) {
      return { refused: `previous terminated container ${quoted(container)} in pod ${quoted(name)} not found` };
    }
    return { run: runOf(container, last, (status?.restartCount ?? 1) - 1) };
  }
  const { running, terminated, waiting } = status?.state ?? {};
  if (running !== undefined) {
    const fromMs = timeToMs(running.startedAt) ?? 0;
    return { run: { container, fromMs, untilMs: undefined, exitCode: 0, restarts: status?.restartCount ?? 0 } };
  }
  if (terminated !== undefined) return { run: runOf(container, terminated, status?.restartCount ?? 0) };
  const last = status?.lastState?.terminated;
  if (last !== undefined) return { run: runOf(container, last, status?.restartCount ?? 0) };
  const reason = waiting?.reason ?? "ContainerCreating";
  return { refused: `container ${quoted(container)} in pod ${quoted(name)} is waiting to start: ${reason}` };
}

type Ended = NonNullable<NonNullable<ContainerStatus["state"]>["terminated"]>;

function runOf(container: string, ended: Ended, restarts: number): LogRun {
  const untilMs = timeToMs(ended.finishedAt) ?? 0;
  return { container, fromMs: timeToMs(ended.startedAt) ?? untilMs, untilMs, exitCode: ended.exitCode, restarts };
}

export function statusOf(pod: Pod, container: string): ContainerStatus | undefined {
  const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] } = pod.status ?? {};
  const all = [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses];
  return all.find(({ name }) => name === container);
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

const everyMsDefault = 10_000;
/** Of a container that has run for weeks only the newest lines are returned. */
const linesMax = 10_000;

/** Lines of a run that were written up to a moment, oldest first. */
export function* logLines(pod: Pod, run: LogRun, upToMs: number, replay?: ReplayMain): Generator<LogLine> {
  const { fromMs, untilMs } = run;
  const endMs = Math.min(upToMs, untilMs ?? upToMs);
  if (replay !== undefined && knob(pod, marks.log, run.container) === undefined) {
    // Objects have seconds: a run that ended may have lasted up to a second longer.
    const main = replay(run.restarts, endMs - fromMs + (untilMs === undefined ? 0 : 999));
    if (main !== undefined) {
      yield* linesOfOutput(main, fromMs);
      return;
    }
  }
  if (fromMs <= endMs) for (const text of firstLines(pod, run)) yield { atMs: fromMs, text };
  const everyMs = logEveryMs(pod, run.container);
  const last = Math.floor((endMs - fromMs - (untilMs === undefined ? 0 : 1)) / everyMs);
  for (let at = Math.max(1, last - linesMax + 1); at <= last; at++) {
    yield { atMs: fromMs + at * everyMs, text: workLine(pod, run, at) };
  }
  if (untilMs !== undefined && untilMs <= upToMs) {
    yield { atMs: untilMs, text: run.exitCode === 0 ? "done" : `fatal: exit code ${run.exitCode}` };
  }
}

function* linesOfOutput({ output }: CommandRun, fromMs: number): Generator<LogLine> {
  let open: { atMs: number; text: string } | undefined;
  for (const { afterMs, text } of output) {
    const [first = "", ...others] = text.split("\n");
    open = { atMs: open?.atMs ?? fromMs + afterMs, text: (open?.text ?? "") + first };
    for (const next of others) {
      yield open;
      open = { atMs: fromMs + afterMs, text: next };
    }
    if (open.text === "") open = undefined;
  }
  if (open !== undefined) yield { ...open, isOpen: true };
}

/** The moment of the next line after one; undefined when the run has ended before it. */
export function nextLogMs(pod: Pod, { container, fromMs, untilMs }: LogRun, afterMs: number): number | undefined {
  const everyMs = logEveryMs(pod, container);
  const atMs = fromMs + (Math.floor((afterMs - fromMs) / everyMs) + 1) * everyMs;
  return untilMs !== undefined && atMs >= untilMs ? undefined : atMs;
}

function knob(pod: Pod, name: string, container: string): string | undefined {
  const annotations = pod.metadata.annotations ?? {};
  return annotations[`${name}.${container}`] ?? annotations[name];
}

export function logEveryMs(pod: Pod, container: string): number {
  const given = durationMs(knob(pod, marks.logEvery, container) ?? "");
  return given === undefined || given < 100 ? everyMsDefault : given;
}

/** A text of the user's annotation replaces the first lines. */
function firstLines(pod: Pod, { container, restarts }: LogRun): string[] {
  const own = knob(pod, marks.log, container);
  if (own !== undefined) return own.replace(/\n$/, "").split("\n");
  const devices = Object.values(assignmentOf(pod)[container] ?? {}).flat();
  const image = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].find(
    ({ name }) => name === container,
  )?.image;
  const lines = [`simulated container ${container} of image ${image ?? "unknown"} on node ${pod.spec?.nodeName ?? ""}`];
  if (restarts > 0) lines.push(`restart ${restarts}`);
  if (devices.length > 0) lines.push(`devices: ${devices.join(" ")}`);
  return lines;
}

function workLine(pod: Pod, { container, restarts }: LogRun, step: number): string {
  const devices = Object.values(assignmentOf(pod)[container] ?? {}).flat();
  if (devices.length === 0) return `tick ${step}`;
  const noise = seededFraction(pod.metadata.uid, container, restarts, step);
  const loss = 0.4 + 10 / Math.sqrt(step + 1) + noise * 0.1;
  return `step ${step * 10} loss ${loss.toFixed(4)}`;
}

export interface LogSelection {
  readonly timestamps: boolean;
  readonly sinceMs: number | undefined;
  readonly tailLines: number | undefined;
  readonly limitBytes: number | undefined;
}

/** The lines as text, limited by the options: first by time, then from the end, then by bytes. */
export function logText(lines: Iterable<LogLine>, wish: LogSelection): string {
  let chosen = [...lines];
  const { sinceMs, tailLines, limitBytes } = wish;
  if (sinceMs !== undefined) chosen = chosen.filter(({ atMs }) => atMs >= sinceMs);
  if (tailLines !== undefined && tailLines >= 0) chosen = tailLines === 0 ? [] : chosen.slice(-tailLines);
  const text = chosen.map((line) => `${lineText(line, wish.timestamps)}${line.isOpen === true ? "" : "\n"}`).join("");
  return limitBytes === undefined ? text : cutToBytes(text, limitBytes);
}

/** A character has up to four bytes in UTF-8, and none is cut in half. */
export function cutToBytes(text: string, bytesMax: number): string {
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > bytesMax) return text.slice(0, end);
    end += character.length;
  }
  return text;
}

function lineText({ atMs, text }: LogLine, timestamps: boolean): string {
  return timestamps ? `${new Date(atMs).toISOString().replace("Z", "000000Z")} ${text}` : text;
}
