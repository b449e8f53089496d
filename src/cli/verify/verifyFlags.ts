/** The settings of `muster verify` from flags and variables. They are validated before the first request. */

import type { CheckId } from "../../decide/verify/check.ts";
import { checks, defaultChecks, findCheck } from "../../decide/verify/checks.ts";
import {
  excludedByDefault,
  intervalMsDefault,
  settleMsDefault,
  type VerifyConfig,
  verifyConfig,
} from "../../decide/verify/verifyConfig.ts";
import { findProfile, profilesWith } from "../../model/profiles/profiles.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { durationMs, wholeSecondsMs } from "../../model/values/duration.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { ClusterFlags } from "../cluster/findCluster.ts";

export interface VerifyFlags extends ClusterFlags {
  readonly settle?: string;
  readonly interval?: string;
  readonly until?: string;
  readonly allowEmpty?: boolean;
  readonly expectMin?: string;
  readonly expectWorkload?: readonly string[];
  readonly ignoreJobs?: boolean;
  readonly failOnEvicted?: boolean;
  readonly strict?: boolean;
  readonly requireRunning?: boolean;
  readonly check?: readonly string[];
  readonly excludeNamespace?: readonly string[];
  readonly profile?: string;
  readonly gitopsRoot?: string;
  readonly report?: readonly string[];
  readonly snapshot?: string;
  readonly allowContext?: readonly string[];
  readonly compat?: "aicr";
  readonly output: "text" | "json";
}

export interface VerifyRequest {
  readonly config: VerifyConfig;
  readonly untilMs?: number;
  readonly reports: readonly AskedReport[];
  /** Whether the active check of the gang barrier runs. */
  readonly proveBarrier: boolean;
}

export const reportFormats = ["text", "json", "ctrf", "junit", "github"] as const;
export type ReportFormat = (typeof reportFormats)[number];

export interface AskedReport<F extends string = ReportFormat> {
  readonly format: F;
  /** `-` is standard output. */
  readonly file: string;
}

const barrier = "gang-barrier";

export function askedFor(flags: VerifyFlags, env: Readonly<Record<string, string | undefined>>): VerifyRequest {
  const settleMs = duration("--settle", flags.settle, "KWOK_VERIFY_PODS_DEADLINE", env) ?? settleMsDefault;
  const intervalMs = duration("--interval", flags.interval, "KWOK_VERIFY_PODS_INTERVAL", env) ?? intervalMsDefault;
  if (intervalMs < 1000) throw tooOften(flags, env);
  const untilMs = flags.until === undefined ? undefined : until(flags.until);
  const chosen = chosenIds(split(flags.check));
  refuseUnasked(flags, chosen);
  const given: { -readonly [K in keyof VerifyConfig]?: VerifyConfig[K] } = {
    settleMs,
    intervalMs,
    excluded: flags.excludeNamespace === undefined ? excludedByDefault : split(flags.excludeNamespace),
    allowEmpty: flags.allowEmpty === true,
    expectMin: flags.expectMin === undefined ? 0 : wholeNumber("--expect-min", flags.expectMin),
    expectWorkloads: split(flags.expectWorkload),
    ignoreJobs: flags.ignoreJobs === true,
    failOnEvicted: flags.failOnEvicted === true,
    strict: flags.strict === true,
    requireRunning: flags.requireRunning === true,
  };
  if (flags.profile !== undefined) given.profile = findProfile(profilesWith(), flags.profile);
  if (flags.gitopsRoot !== undefined) given.gitopsRoot = flags.gitopsRoot;
  if (flags.compat !== undefined) given.compat = flags.compat;
  return {
    config: verifyConfig({ ...given, checks: chosen.ids }),
    ...(untilMs === undefined ? {} : { untilMs }),
    reports: askedReports(flags, reportFormats),
    proveBarrier: chosen.proveBarrier,
  };
}

/** A flag takes precedence over its variable; an empty variable counts as unset. Undefined when neither is set. */
export function duration(
  flag: string,
  given: string | undefined,
  variable = "",
  env: Readonly<Record<string, string | undefined>> = {},
): number | undefined {
  if (given !== undefined) {
    const ms = durationMs(given);
    if (ms !== undefined) return ms;
    throw new UserError(
      "duration-invalid",
      `${flag} must be a duration, got ${JSON.stringify(given)}`,
      "write whole seconds of at most nine digits, or a duration such as 90s, 1m30s or 500ms",
    );
  }
  const text = env[variable];
  if (text === undefined || text === "") return undefined;
  const ms = wholeSecondsMs(text);
  if (ms !== undefined) return ms;
  throw new UserError(
    "duration-invalid",
    `${variable} must be a non-negative whole number of seconds, got ${JSON.stringify(text)}`,
    `unset ${variable} or set it to digits only, such as 60`,
  );
}

function tooOften(flags: VerifyFlags, env: Readonly<Record<string, string | undefined>>): UserError {
  const isFlag = flags.interval !== undefined;
  const name = isFlag ? "--interval" : "KWOK_VERIFY_PODS_INTERVAL";
  const value = isFlag ? flags.interval : env["KWOK_VERIFY_PODS_INTERVAL"];
  const message = `${name} must be at least 1 second, got ${JSON.stringify(value)}`;
  return new UserError("duration-invalid", message, "use an interval of one second or more; 5s is the default");
}

function until(text: string): number {
  const ms = /^[0-9]{9,11}$/.test(text) ? Number(text) * 1000 : timeToMs(text);
  if (ms !== undefined) return ms;
  throw new UserError(
    "time-invalid",
    `--until must be a time, got ${JSON.stringify(text)}`,
    "write it as 2026-01-31T12:00:00Z, or as seconds since 1970",
  );
}

function chosenIds(asked: readonly string[]): { ids: readonly CheckId[]; proveBarrier: boolean } {
  if (asked.length === 0) return { ids: defaultChecks, proveBarrier: false };
  const ids = new Set<CheckId>();
  for (const text of asked) {
    if (text === barrier) continue;
    if (text === "default") for (const id of defaultChecks) ids.add(id);
    // The gate runs only when named: in a cluster without GitOps it never passes.
    else if (text === "all") for (const { id } of checks.filter((each) => each.id !== "gitops")) ids.add(id);
    else {
      const check = findCheck(text);
      if (check === undefined) {
        const known = [...checks.map(({ id }) => id), barrier, "default", "all"].join(", ");
        throw new UserError("check-unknown", `there is no check ${JSON.stringify(text)}`, `choose from: ${known}`);
      }
      ids.add(check.id);
    }
  }
  return { ids: [...ids], proveBarrier: asked.includes(barrier) };
}

/** A flag needs the check that reads it: without the check the expectation would seem to be met. */
function refuseUnasked(flags: VerifyFlags, { ids, proveBarrier }: ReturnType<typeof chosenIds>): void {
  const judges: readonly { flag: string; given: boolean; by: CheckId }[] = [
    { flag: "--expect-workload", given: flags.expectWorkload !== undefined, by: "S13" },
    { flag: "--profile", given: flags.profile !== undefined, by: "S11" },
    { flag: "--gitops-root", given: flags.gitopsRoot !== undefined, by: "gitops" },
  ];
  for (const { flag, given, by } of judges) {
    if (!given || ids.includes(by)) continue;
    const cure = flags.check === undefined ? `pass --check default ${by}` : `add ${by} to --check`;
    throw new UserError("check-missing", `${flag} needs check ${by}, which is not selected`, cure);
  }
  if (proveBarrier && flags.snapshot !== undefined) {
    throw new UsageError(
      "flags-conflict",
      "--check gang-barrier needs a cluster, and --snapshot reads a file",
      "pass one of them",
    );
  }
}

/** When a report goes to standard output, it is the only output there. */
export function askedReports<F extends string>(
  { report, output }: { readonly report?: readonly string[]; readonly output: "text" | "json" },
  formats: readonly F[],
): readonly AskedReport<F>[] {
  const reports = (report ?? []).map((text) => askedReport(text, formats));
  const documents = reports.filter(({ file }) => file === "-").length + (output === "json" ? 1 : 0);
  if (documents <= 1) return reports;
  throw new UsageError(
    "flags-conflict",
    "several reports would go to standard output",
    "send one report to standard output (--report FORMAT=- or -o json) and write the others to files",
  );
}

/** Whether a report goes to standard output, so that progress goes to standard error. */
export function claimsOutput(reports: readonly AskedReport<string>[]): boolean {
  return reports.some(({ file }) => file === "-");
}

function askedReport<F extends string>(text: string, formats: readonly F[]): AskedReport<F> {
  const at = text.indexOf("=");
  const format = formats.find((each) => each === text.slice(0, at));
  const file = text.slice(at + 1);
  if (at > 0 && format !== undefined && file !== "") return { format, file };
  throw new UserError(
    "report-malformed",
    `invalid value of --report: ${JSON.stringify(text)}`,
    `write --report FORMAT=FILE with one of ${formats.join(", ")}; the file - means standard output`,
  );
}

function wholeNumber(flag: string, text: string): number {
  if (/^[0-9]{1,9}$/.test(text)) return Number(text);
  throw new UsageError("bad-number", `${flag} ${text} is not a whole number`, `pass a number such as ${flag} 20`);
}

export function split(values: readonly string[] | undefined): readonly string[] {
  return (values ?? []).flatMap((value) => value.split(",")).filter((value) => value !== "");
}
