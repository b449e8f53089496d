/** The settings of `muster audit` from its flags. They are validated before the first request. */
import type { AuditCheck } from "../../decide/audit/auditCheck.ts";
import { auditChecks } from "../../decide/audit/auditChecks.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import type { ClusterFlags } from "../cluster/findCluster.ts";
import { hostAndPort } from "../cluster/hostAndPort.ts";
import { type AskedReport, askedReports, duration, split } from "../verify/verifyFlags.ts";

export interface AuditFlags extends ClusterFlags {
  readonly check?: readonly string[];
  readonly settle?: string;
  readonly interval?: string;
  readonly snapshot?: readonly string[];
  readonly report?: readonly string[];
  readonly watch?: boolean;
  readonly metricsAddress?: string;
  readonly printRole?: boolean;
  readonly output: "text" | "json";
}

export const auditFormats = ["text", "json", "ctrf", "junit", "sarif"] as const;
export type AuditFormat = (typeof auditFormats)[number];

export interface AuditRequest {
  readonly checks: readonly AuditCheck[];
  /** Undefined is the time of each check. */
  readonly settleMs: number | undefined;
  readonly intervalMs: number;
  readonly metricsAddress: { readonly host: string; readonly port: number } | undefined;
  readonly reports: readonly AskedReport<AuditFormat>[];
}

const intervalMsDefault = 15_000;
const snapshotsMax = 2;

export function auditAskedFor(flags: AuditFlags): AuditRequest {
  const intervalMs = duration("--interval", flags.interval) ?? intervalMsDefault;
  if (intervalMs < 1000) {
    const message = `--interval must be at least 1 second, got ${JSON.stringify(flags.interval)}`;
    throw new UserError("duration-invalid", message, "use an interval of one second or more; 15s is the default");
  }
  const snapshots = flags.snapshot?.length ?? 0;
  if (snapshots > 0 && (flags.watch === true || flags.settle !== undefined)) {
    throw new UsageError(
      "flags-conflict",
      "--watch and --settle need a cluster, and --snapshot reads files",
      "leave out --snapshot, or the other flag",
    );
  }
  if (flags.metricsAddress !== undefined && flags.watch !== true) {
    const cure = "add --watch; for a CronJob, the exit code is the result";
    throw new UsageError("flags-conflict", "--metrics-address needs --watch: one run ends before it is scraped", cure);
  }
  if (snapshots > snapshotsMax) {
    const cure = "pass one file, or an earlier and a later one of the same cluster";
    throw new UsageError("flags-conflict", `${snapshots} snapshots cannot be compared`, cure);
  }
  return {
    checks: chosenChecks(split(flags.check)),
    settleMs: duration("--settle", flags.settle),
    intervalMs,
    metricsAddress:
      flags.metricsAddress === undefined ? undefined : hostAndPort(flags.metricsAddress, "--metrics-address"),
    reports: askedReports(flags, auditFormats),
  };
}

function chosenChecks(names: readonly string[]): readonly AuditCheck[] {
  if (names.length === 0 || names.includes("all")) return auditChecks;
  for (const name of names) {
    if (auditChecks.some((check) => check.name === name)) continue;
    const known = [...auditChecks.map((check) => check.name), "all"].join(", ");
    throw new UserError("check-unknown", `there is no check ${JSON.stringify(name)}`, `choose from: ${known}`);
  }
  return auditChecks.filter(({ name }) => names.includes(name));
}
