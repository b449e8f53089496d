/**
 * Runs `muster audit`: takes snapshots until each finding of the first one has either gone or held for as long as the
 * components involved may need. All rules are in decide/audit.
 */
import type { AuditCheck } from "../../decide/audit/auditCheck.ts";
import { auditedKinds } from "../../decide/audit/auditChecks.ts";
import { type AuditLook, auditLook } from "../../decide/audit/auditLook.ts";
import { type AuditProgress, type AuditResult, auditResult, auditWithout } from "../../decide/audit/auditResult.ts";
import { Persistence } from "../../decide/audit/persistence.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { errorOf, isTransient, type VerifyPorts } from "../verify/runVerify.ts";
import { takeSnapshot } from "../verify/takeSnapshot.ts";

export interface AuditOptions {
  readonly cluster: string;
  readonly checks: readonly AuditCheck[];
  /** How long a finding must hold, instead of the time of its check; 0 takes one snapshot. */
  readonly settleMs?: number;
  readonly intervalMs: number;
  /** How long an API that is busy or unreachable is tried again. */
  readonly retryMs: number;
  readonly cancel?: Cancel;
  readonly interrupted?: () => { readonly message: string; readonly exitCode: number };
  /** Called after each snapshot that was not the last. */
  readonly looked?: (text: string) => void;
  /** Goes on until it is cancelled, and is given the result of each snapshot. */
  readonly watch?: (result: AuditResult) => void;
}

/** The warning of a result that no second snapshot confirms. */
export const oneSnapshot = "findings hold in one snapshot; whether they persist is not known";

export async function runAudit(ports: VerifyPorts, options: AuditOptions): Promise<AuditResult> {
  const run = new Run(ports, options);
  return run.run();
}

class Run {
  private readonly ports: VerifyPorts;
  private readonly options: AuditOptions;
  private readonly startMs: number;
  private readonly persistence: Persistence;
  private looks = 0;
  private firstLookMs: number | undefined;
  private lastLookMs = 0;
  private lastAnswerMs = 0;

  constructor(ports: VerifyPorts, options: AuditOptions) {
    this.ports = ports;
    this.options = options;
    this.startMs = ports.monotonicMs();
    this.persistence = new Persistence(options.settleMs);
  }

  async run(): Promise<AuditResult> {
    const { checks, watch, intervalMs, looked } = this.options;
    for (;;) {
      const outcome = await this.look(checks);
      if (this.isCancelled()) return this.interrupted();
      if ("error" in outcome) {
        if (!outcome.mayPass || (watch === undefined && this.elapsedMs() - this.lastAnswerMs >= this.options.retryMs))
          return auditWithout(outcome.error, this.progress());
        looked?.(`no snapshot: ${outcome.error.message}`);
        await this.wait(intervalMs);
        continue;
      }
      const findings = this.persistence.findings.filter(({ persists }) => persists);
      const leftMs = this.persistence.leftMs(this.firstLookMs ?? 0);
      const result = auditResult(outcome, findings, this.progress(), this.warnings(outcome));
      if (watch !== undefined) watch(result);
      else if (leftMs === 0) return result;
      else looked?.(`${this.persistence.findings.length} findings to confirm, ${Math.ceil(leftMs / 1000)} s left`);
      await this.wait(watch === undefined ? Math.min(leftMs, intervalMs) : intervalMs);
      if (this.isCancelled()) return this.interrupted();
    }
  }

  private async look(
    checks: readonly AuditCheck[],
  ): Promise<AuditLook | { error: ReturnType<typeof errorOf>; mayPass: boolean }> {
    const { kube, clock } = this.ports;
    const atMs = this.elapsedMs();
    const { cancel } = this.options;
    const taken = await takeSnapshot(kube, auditedKinds(checks), {
      nowMs: () => clock.nowMs(),
      mayLack: () => true,
      ...(cancel === undefined ? {} : { cancel }),
    });
    if (!taken.ok) {
      const { kind, refusal } = taken;
      const hint = refusal.reason === "Forbidden" ? " (`muster audit --print-role` prints the rights)" : "";
      return { error: errorOf(kind, refusal, hint), mayPass: isTransient(refusal.reason) };
    }
    const look = auditLook(taken.snapshot, checks);
    this.looks++;
    this.firstLookMs ??= atMs;
    this.lastLookMs = atMs;
    this.lastAnswerMs = this.elapsedMs();
    this.persistence.record(look, atMs);
    return look;
  }

  private warnings({ snapshot }: AuditLook): string[] {
    const warnings: string[] = [];
    if (!snapshot.coherent) warnings.push(`kinds at another revision: ${snapshot.incoherent.join("; ")}`);
    if (this.options.settleMs === 0) warnings.push(oneSnapshot);
    return warnings;
  }

  private async wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cleanUp: (() => void)[] = [];
      const wake = (): void => {
        for (const each of cleanUp.splice(0)) each();
        resolve();
      };
      cleanUp.push(this.ports.clock.after(ms, wake));
      const forget = this.options.cancel?.onCancel(wake);
      if (forget !== undefined) cleanUp.push(forget);
    });
  }

  private progress(): AuditProgress {
    const waitedMs = this.lastLookMs - (this.firstLookMs ?? this.lastLookMs);
    return { cluster: this.options.cluster, looks: this.looks, waitedMs, wallMs: this.elapsedMs() };
  }

  private interrupted(): AuditResult {
    const { message, exitCode } = this.options.interrupted?.() ?? { message: "interrupted", exitCode: 130 };
    return auditWithout({ class: "interrupted", message }, this.progress(), exitCode);
  }

  /** Checked after every wait: a signal may have arrived. */
  private isCancelled(): boolean {
    return this.options.cancel?.cancelled === true;
  }

  private elapsedMs(): number {
    return Math.round(this.ports.monotonicMs() - this.startMs);
  }
}
