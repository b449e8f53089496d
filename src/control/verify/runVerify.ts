/**
 * Runs `muster verify`: takes a snapshot, runs the checks on it, and repeats within the settle window while a finding
 * may pass. All rules are in decide/verify.
 */
import { kindsFor } from "../../decide/verify/checks.ts";
import { classify } from "../../decide/verify/classify.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../../decide/verify/clusterSnapshot.ts";
import { type Judgement, judge, type RunProgress, resultOf, resultWithout } from "../../decide/verify/judge.ts";
import { podKey } from "../../decide/verify/placement.ts";
import type { KindName } from "../../decide/verify/readKinds.ts";
import { FirstSeenPods, isOpen, nextAttemptMs } from "../../decide/verify/settling.ts";
import type { VerifyConfig } from "../../decide/verify/verifyConfig.ts";
import { type AttemptLine, exitCodes, type VerifyError, type VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type Refusal, type RefusalReason, refused } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { PodWaker } from "./podWaker.ts";
import { type Taken, type TakeOptions, takeSnapshot, withKind } from "./takeSnapshot.ts";

export interface VerifyPorts {
  readonly kube: KubeApi;
  readonly clock: Clock;
  /** A monotonic clock, independent of the wall clock. */
  readonly monotonicMs: () => number;
}

export interface RunOptions {
  readonly cluster: string;
  /** May be cancelled by a signal; `interrupted` then names it. */
  readonly cancel?: Cancel;
  readonly interrupted?: () => { readonly message: string; readonly exitCode: number };
  /** When the window began, by the monotonic clock; the time spent on connecting to the cluster is included. */
  readonly startedMs?: number;
  /**
   * How long after the window the attempts may end, reading events included. An attempt that hangs must not prevent the
   * report. Single calls have the client's own time-out.
   */
  readonly overrunMs?: number;
  /** Called for every attempt that was not the last. */
  readonly attempt?: (line: AttemptLine) => void;
}

/** Enough for the lists of a very large cluster on a busy machine. */
const overrunMsDefault = 60_000;
/** The minimum time-out of an API call, whatever is left of the window: in the first attempt, and later. */
export const firstAnswerMs = 10_000;
const answerMs = 2_000;

/** The number of pods that a progress line names. */
const namedMax = 5;

export async function runVerify(ports: VerifyPorts, config: VerifyConfig, options: RunOptions): Promise<VerifyResult> {
  const run = new Run(ports, config, options);
  return run.run();
}

class Run {
  private readonly ports: VerifyPorts;
  private readonly config: VerifyConfig;
  private readonly options: RunOptions;
  private readonly startMs: number;
  private readonly firstSeen: FirstSeenPods;
  private readonly history: AttemptLine[] = [];
  private attempts = 0;
  private attemptAtMs = 0;
  /** The longest time between two answers. */
  private slowestMs = 0;

  constructor(ports: VerifyPorts, config: VerifyConfig, options: RunOptions) {
    this.ports = ports;
    this.config = config;
    this.options = options;
    this.startMs = options.startedMs ?? ports.monotonicMs();
    this.firstSeen = new FirstSeenPods(config.graceMs);
  }

  async run(): Promise<VerifyResult> {
    const kinds = kindsFor(this.config.checks);
    for (;;) {
      this.attempts++;
      this.attemptAtMs = this.attempts === 1 ? 0 : this.elapsedMs();
      const taken = await this.inTime((options) => takeSnapshot(this.ports.kube, kinds, options));
      if (this.isCancelled()) return this.interrupted();
      // No attempt begins after the deadline, even when this one ended after it.
      const isLast = !isOpen(this.config, this.attemptAtMs) || !isOpen(this.config, this.elapsedMs());
      if (!taken.ok) {
        const error = errorOf(taken.kind, taken.refusal);
        if (isLast || this.config.compat === "aicr" || !isTransient(taken.refusal.reason)) return this.without(error);
        this.note({ why: error.message });
        await this.wait(undefined, undefined);
      } else {
        const { snapshot } = taken;
        this.firstSeen.record(objectsOf<Pod>(snapshot, "pods"), this.attemptAtMs);
        const judgement = this.judge(snapshot);
        if (isLast || judgement.waitingFor.length === 0) return this.report(snapshot, judgement);
        const unscheduled = [...judgement.tally.unscheduled, ...judgement.tally.settling];
        this.note({
          counts: judgement.tally.counts,
          neverTried: unscheduled.filter((pod) => classify(snapshot, pod).class === "never tried").length,
          why: judgement.waitingFor.join("; "),
          pods: unscheduled.slice(0, namedMax).map(podKey),
        });
        await this.wait(snapshot, unscheduled);
      }
      if (this.isCancelled()) return this.interrupted();
    }
  }

  private judge(snapshot: ClusterSnapshot): Judgement {
    return judge(snapshot, this.config, (pod) => this.firstSeen.isNew(pod, this.attemptAtMs));
  }

  /** The result. Events are read only now, at the revision of the snapshot, and only when a pod is unscheduled. */
  private async report(snapshot: ClusterSnapshot, judgement: Judgement): Promise<VerifyResult> {
    const { unscheduled, settling } = judgement.tally;
    if (unscheduled.length + settling.length === 0 || isServed(snapshot, "events")) {
      return resultOf(snapshot, judgement, this.config, this.progress());
    }
    const taken = await this.inTime((options) => withKind(this.ports.kube, snapshot, "events", options));
    if (taken.ok) return resultOf(taken.snapshot, this.judge(taken.snapshot), this.config, this.progress());
    if (this.isCancelled()) return this.interrupted();
    // Without events a new pod may have been tried and refused, so no pod counts as settling.
    const withoutSettling = judge(snapshot, this.config);
    const warning = `events could not be read: ${taken.refusal.message}`;
    const warned = { ...withoutSettling, warnings: [...withoutSettling.warnings, warning] };
    return resultOf(snapshot, warned, this.config, this.progress());
  }

  private async wait(snapshot: ClusterSnapshot | undefined, unscheduled: readonly Pod[] | undefined): Promise<void> {
    const { clock, kube } = this.ports;
    const nowMs = this.elapsedMs();
    const untilMs = nextAttemptMs(this.config, this.attemptAtMs, nowMs);
    if (untilMs <= nowMs) return;
    const excluded = new Set(this.config.excluded);
    await new Promise<void>((resolve) => {
      const cleanUp: (() => void)[] = [];
      const wake = (): void => {
        for (const each of cleanUp.splice(0)) each();
        resolve();
      };
      cleanUp.push(clock.after(untilMs - nowMs, wake));
      if (snapshot !== undefined) {
        const waker = new PodWaker(
          { kube, clock },
          {
            revision: snapshot.revision,
            isInScope: ({ metadata }) => !excluded.has(metadata.namespace ?? ""),
            unscheduled: (unscheduled ?? []).map(({ metadata }) => metadata.uid),
            wake,
          },
        );
        cleanUp.push(() => waker.stop());
      }
      const forget = this.options.cancel?.onCancel(wake);
      if (forget !== undefined) cleanUp.push(forget);
    });
  }

  /**
   * Gives up an attempt when the window is over and the API hangs, when it takes far longer than the window, and on a
   * signal. An API hangs when an answer takes three times as long as its slowest one so far. The attempt is then
   * abandoned even if its client cannot be cancelled, for example in a credential plug-in.
   */
  private async inTime(attempt: (options: TakeOptions) => Promise<Taken>): Promise<Taken> {
    const { clock } = this.ports;
    const source = new CancelSource();
    const begunMs = this.elapsedMs();
    let answeredMs = begunMs;
    const pending = new Set<KindName>();
    let leave = (_: Taken): void => {};
    const left = new Promise<Taken>((resolve) => {
      leave = resolve;
    });
    const giveUp = (message: string): void => {
      const [kind = "pods"] = pending;
      source.cancel();
      leave({ ok: false, kind, refusal: refused("Unavailable", message) });
    };
    const timeOut = (): void => giveUp(`no answer within ${Math.round((this.elapsedMs() - answeredMs) / 1000)} s`);
    const leftMs = (): number => Math.max(0, this.config.settleMs - this.elapsedMs());
    const timeoutMs = (): number => Math.max(this.attempts === 1 ? firstAnswerMs : answerMs, 3 * this.slowestMs);
    const startTimer = (): (() => void) => clock.after(Math.max(leftMs(), timeoutMs()), timeOut);
    let stopAnswerTimer = startTimer();
    const endMs = this.config.settleMs + (this.options.overrunMs ?? overrunMsDefault);
    const stopTimer = clock.after(endMs - this.elapsedMs(), timeOut);
    const forget = this.options.cancel?.onCancel(() => giveUp("interrupted"));
    const answered = (): void => {
      const nowMs = this.elapsedMs();
      this.slowestMs = Math.max(this.slowestMs, nowMs - answeredMs);
      answeredMs = nowMs;
      stopAnswerTimer();
      stopAnswerTimer = startTimer();
    };
    try {
      return await Promise.race([left, attempt({ nowMs: () => clock.nowMs(), cancel: source, pending, answered })]);
    } finally {
      stopAnswerTimer();
      stopTimer();
      forget?.();
    }
  }

  private note(line: Omit<AttemptLine, "attempt" | "waitedMs">): void {
    const complete: AttemptLine = { attempt: this.attempts, waitedMs: this.attemptAtMs, ...line };
    this.history.push(complete);
    this.options.attempt?.(complete);
  }

  private progress(): RunProgress {
    return {
      cluster: this.options.cluster,
      attempts: this.attempts,
      waitedMs: this.attemptAtMs,
      wallMs: this.elapsedMs(),
      history: this.history,
    };
  }

  private without(error: VerifyError): VerifyResult {
    // The last attempt began earlier and ended without a snapshot.
    const progress = { ...this.progress(), waitedMs: this.elapsedMs() };
    return resultWithout(error, exitCodes.noSnapshot, this.config, progress);
  }

  private interrupted(): VerifyResult {
    const { message, exitCode } = this.options.interrupted?.() ?? { message: "interrupted", exitCode: 130 };
    return resultWithout({ class: "interrupted", message }, exitCode, this.config, this.progress());
  }

  /** Checked after every wait: a signal may have arrived. */
  private isCancelled(): boolean {
    return this.options.cancel?.cancelled === true;
  }

  private elapsedMs(): number {
    return Math.round(this.ports.monotonicMs() - this.startMs);
  }
}

/** Whether a retry may help: the API may be temporarily unavailable. Other refusals are permanent. */
export function isTransient(reason: RefusalReason): boolean {
  return reason === "TooManyRequests" || reason === "Unavailable" || reason === "Unknown" || reason === "Expired";
}

export function errorOf(kind: KindName, { reason, message }: Refusal, hint = hintOf(kind, reason)): VerifyError {
  return { class: classOf(reason), message: `Failed to list ${kind}: ${message}${hint}` };
}

function hintOf(kind: KindName, reason: RefusalReason): string {
  if (reason !== "Forbidden") return "";
  const otherwise = kindsFor([]).includes(kind) ? "" : `; or leave out, with --check, the checks that read ${kind}`;
  return ` (deploy/verify-clusterrole.yaml has the rights${otherwise})`;
}

function classOf(reason: RefusalReason): VerifyError["class"] {
  switch (reason) {
    case "Unauthorized":
      return "unauthorized";
    case "Forbidden":
      return "forbidden";
    case "NotFound":
      return "no-api";
    case "TooManyRequests":
      return "busy";
    case "Unavailable":
      return "unreachable";
    case "Unknown":
    case "Expired":
      return "unreadable";
    case "Conflict":
    case "AlreadyExists":
    case "Invalid":
    case "Fenced":
      return "refused";
  }
}
