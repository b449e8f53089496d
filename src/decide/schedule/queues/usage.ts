import { latestIn, parseSchedule } from "../../../model/values/cronSchedule.ts";
import { durationToMs } from "../../../model/values/goDuration.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Vector } from "../cluster/resources.ts";

/** Settings of historical usage: the usage of queues over a time window, in which recent usage may count more. */
export interface UsageSettings {
  /**
   * The source: a Prometheus, or the observations of this process. `fake` has no data: historical usage is zero.
   */
  readonly source:
    | { readonly type: "prometheus"; readonly url: string }
    | { readonly type: "own" }
    | { readonly type: "fake" };
  readonly windowMs: number;
  readonly window:
    | { readonly type: "sliding" }
    | { readonly type: "tumbling"; readonly startMs: number }
    | { readonly type: "cron"; readonly schedule: string };
  /** The half-life of usage; undefined: all of the window counts equally. */
  readonly halfLifeMs: number | undefined;
  readonly fetchMs: number;
  /** Older data is used with a warning in the log. */
  readonly staleMs: number;
  /** How long the first decision waits for the first data. */
  readonly waitMs: number;
}

const minuteMs = 60_000;
const weekMs = 7 * 24 * 60 * minuteMs;

/** Reads `usageDBConfig` of a shard. Problems are added to the list; with a serious one historical usage is off. */
export function readUsageSettings(
  config: Readonly<Record<string, unknown>>,
  environment: (name: string) => string | undefined,
  problems: string[],
): UsageSettings | undefined {
  const text = (of: Readonly<Record<string, unknown>>, key: string): string | undefined => {
    const value = of[key];
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const clientType = text(config, "clientType");
  const variable = text(config, "connectionStringEnvVar");
  const url = text(config, "connectionString") ?? (variable === undefined ? undefined : environment(variable));
  if (clientType !== "prometheus" && clientType !== "own" && clientType !== "fake") {
    problems.push(
      `usageDBConfig.clientType: ${JSON.stringify(clientType ?? "")} is none of prometheus, own, fake: no usage is read`,
    );
    return undefined;
  }
  if (clientType === "prometheus" && url === undefined) {
    problems.push("usageDBConfig has no connectionString");
    return undefined;
  }
  const params = (config["usageParams"] ?? {}) as Readonly<Record<string, unknown>>;
  const duration = (key: string, fallback: number): number => {
    const given = text(params, key);
    const ms = durationToMs(given);
    if (given !== undefined && (ms === undefined || ms <= 0)) {
      problems.push(`usageDBConfig.usageParams.${key}: ${JSON.stringify(given)} is no duration`);
      return fallback;
    }
    return ms ?? fallback;
  };
  return {
    source: clientType === "prometheus" ? { type: "prometheus", url: url as string } : { type: clientType },
    windowMs: duration("windowSize", weekMs),
    window: windowOf(text(params, "windowType"), params, problems),
    halfLifeMs: text(params, "halfLifePeriod") === undefined ? undefined : duration("halfLifePeriod", weekMs),
    fetchMs: duration("fetchInterval", minuteMs),
    staleMs: duration("stalenessPeriod", 5 * minuteMs),
    waitMs: duration("waitTimeout", minuteMs),
  };
}

function windowOf(
  type: string | undefined,
  params: Readonly<Record<string, unknown>>,
  problems: string[],
): UsageSettings["window"] {
  const start = params["tumblingWindowStartTime"] ?? params["startTime"];
  const cron = params["cronString"] ?? params["tumblingWindowCronString"];
  if (type === "tumbling") {
    const startMs = typeof start === "string" ? timeToMs(start) : 0;
    if (startMs !== undefined) return { type, startMs };
    problems.push(`usageDBConfig.usageParams: ${JSON.stringify(start)} is no time`);
  } else if (type === "cron") {
    if (typeof cron === "string" && parseSchedule(cron) !== undefined) return { type, schedule: cron };
    problems.push(`usageDBConfig.usageParams: ${JSON.stringify(cron ?? "")} is no schedule`);
  } else if (type !== undefined && type !== "sliding") {
    problems.push(`usageDBConfig.usageParams.windowType: ${JSON.stringify(type)} is none of sliding, tumbling, cron`);
  }
  return { type: "sliding" };
}

/** The start of the window. */
export function windowStartMs({ window, windowMs }: UsageSettings, nowMs: number): number {
  switch (window.type) {
    case "sliding":
      return nowMs - windowMs;
    case "tumbling":
      return window.startMs + Math.floor((nowMs - window.startMs) / windowMs) * windowMs;
    case "cron": {
      const schedule = parseSchedule(window.schedule);
      // A window that has not been restarted for longer than its size does not grow further.
      const fromMs = nowMs - windowMs;
      const latest = schedule === undefined ? undefined : latestIn(schedule, { afterMs: fromMs, untilMs: nowMs });
      return Math.max(fromMs, latest ?? fromMs);
    }
  }
}

/** The usage of every queue and the capacity, at one time. */
export interface UsageSample {
  readonly ms: number;
  readonly byQueue: ReadonlyMap<string, Readonly<Vector>>;
  readonly total: Readonly<Vector>;
}

/** The portion of the cluster that each queue has used, by resource, from 0 to 1. Samples are equidistant. */
export function usageOf(
  samples: Iterable<UsageSample>,
  settings: UsageSettings,
  nowMs: number,
): ReadonlyMap<string, Vector> {
  const fromMs = windowStartMs(settings, nowMs);
  const sums = new Map<string, Vector>();
  const total: Vector = [0, 0, 0];
  for (const sample of samples) {
    if (sample.ms < fromMs || sample.ms > nowMs) continue;
    const weight = settings.halfLifeMs === undefined ? 1 : 0.5 ** ((nowMs - sample.ms) / settings.halfLifeMs);
    for (let r = 0; r < 3; r++) (total[r] as number) += (sample.total[r] as number) * weight;
    for (const [queue, had] of sample.byQueue) {
      const sum = sums.get(queue) ?? [0, 0, 0];
      sums.set(queue, sum);
      for (let r = 0; r < 3; r++) (sum[r] as number) += (had[r] as number) * weight;
    }
  }
  for (const sum of sums.values()) {
    for (let r = 0; r < 3; r++) sum[r] = total[r] === 0 ? 0 : Math.min(1, (sum[r] as number) / (total[r] as number));
  }
  return sums;
}
