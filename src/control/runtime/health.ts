/** Undefined when the check passes, otherwise why it fails. */
export type HealthCheck = () => string | undefined;

export interface HealthReport {
  readonly isWell: boolean;
  readonly checks: readonly { readonly name: string; readonly problem: string | undefined }[];
}

/**
 * Whether the process should be restarted (health), and whether it can do its work (readiness). The HTTP endpoints are
 * in the command.
 */
export class Health {
  private readonly checks = new Map<string, HealthCheck>();

  add(name: string, check: HealthCheck): void {
    this.checks.set(name, check);
  }

  report(): HealthReport {
    const checks = [...this.checks]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, check]) => ({ name, problem: check() }));
    return { isWell: checks.every(({ problem }) => problem === undefined), checks };
  }
}

/** The answer of `/healthz` and `/readyz`, as in Kubernetes: `ok`, or one line for each check. */
export function renderHealth(
  report: HealthReport,
  isVerbose = false,
): { readonly code: number; readonly text: string } {
  const code = report.isWell ? 200 : 500;
  if (report.isWell && !isVerbose) return { code, text: "ok" };
  const lines = report.checks.map(({ name, problem }) =>
    problem === undefined ? `[+]${name} ok` : `[-]${name} failed: ${problem}`,
  );
  lines.push(report.isWell ? "check passed" : "check failed");
  return { code, text: `${lines.join("\n")}\n` };
}
