import { describe, expect, test } from "vitest";
import type { Vector } from "../cluster/resources.ts";
import { readUsageSettings, type UsageSample, type UsageSettings, usageOf, windowStartMs } from "./usage.ts";

const hourMs = 3_600_000;
const nowMs = Date.UTC(2026, 0, 7, 12);
const settings = (more: Partial<UsageSettings> = {}): UsageSettings => ({
  source: { type: "own" },
  windowMs: 10 * hourMs,
  window: { type: "sliding" },
  halfLifeMs: undefined,
  fetchMs: 60_000,
  staleMs: 300_000,
  waitMs: 60_000,
  ...more,
});
const sample = (hoursAgo: number, byQueue: Record<string, number>, gpus = 10): UsageSample => ({
  ms: nowMs - hoursAgo * hourMs,
  byQueue: new Map(Object.entries(byQueue).map(([name, had]) => [name, [had, 0, 0] as Vector])),
  total: [gpus, 0, 0],
});
const gpusOf = (samples: readonly UsageSample[], of: UsageSettings = settings()): Record<string, number> =>
  Object.fromEntries([...usageOf(samples, of, nowMs)].map(([name, [gpu]]) => [name, gpu]));

describe("use in the past", () => {
  test("is what a queue had of what there was", () => {
    expect(gpusOf([sample(2, { a: 4, b: 1 }), sample(1, { a: 4, b: 1 })])).toEqual({ a: 0.4, b: 0.1 });
  });

  test("counts hours in which a queue had nothing", () => {
    expect(gpusOf([sample(2, { a: 8 }), sample(1, {})])).toEqual({ a: 0.4 });
  });

  test("before the window does not count", () => {
    expect(gpusOf([sample(11, { a: 10 }), sample(1, { a: 1 })])).toEqual({ a: 0.1 });
  });

  test("counts half after its half-life", () => {
    const halved = settings({ halfLifeMs: hourMs });
    // One part of three an hour ago, two of three now.
    expect(gpusOf([sample(1, { a: 10 }), sample(0, {})], halved)["a"]).toBeCloseTo(1 / 3);
    expect(gpusOf([sample(1, {}), sample(0, { a: 10 })], halved)["a"]).toBeCloseTo(2 / 3);
  });

  test("of a cluster that had nothing is nothing", () => {
    expect(gpusOf([sample(1, { a: 5 }, 0)])).toEqual({ a: 0 });
  });

  test.each([
    ["sliding", { type: "sliding" }, nowMs - 10 * hourMs],
    ["tumbling", { type: "tumbling", startMs: nowMs - 25 * hourMs }, nowMs - 5 * hourMs],
    ["by the clock", { type: "cron", schedule: "0 6 * * *" }, Date.UTC(2026, 0, 7, 6)],
    ["by a clock that is slower than the window", { type: "cron", schedule: "0 0 1 * *" }, nowMs - 10 * hourMs],
  ] as const)("has a window that is %s", (_, window, fromMs) => {
    expect(windowStartMs(settings({ window }), nowMs)).toBe(fromMs);
  });
});

describe("usageDBConfig of a shard", () => {
  const read = (config: Record<string, unknown>) => {
    const problems: string[] = [];
    const found = readUsageSettings(config, (name) => (name === "URL" ? "http://env:9090" : undefined), problems);
    return { found, problems };
  };

  test("a Prometheus with all that is usual", () => {
    expect(read({ clientType: "prometheus", connectionString: "http://p:9090" })).toEqual({
      found: {
        source: { type: "prometheus", url: "http://p:9090" },
        windowMs: 7 * 24 * hourMs,
        window: { type: "sliding" },
        halfLifeMs: undefined,
        fetchMs: 60_000,
        staleMs: 300_000,
        waitMs: 60_000,
      },
      problems: [],
    });
  });

  test("the address may be in the environment, and periods may be said", () => {
    const usageParams = { windowSize: "24h", halfLifePeriod: "6h", fetchInterval: "30s", windowType: "tumbling" };
    expect(read({ clientType: "prometheus", connectionStringEnvVar: "URL", usageParams }).found).toMatchObject({
      source: { url: "http://env:9090" },
      windowMs: 24 * hourMs,
      halfLifeMs: 6 * hourMs,
      fetchMs: 30_000,
      window: { type: "tumbling", startMs: 0 },
    });
  });

  test.each(["own", "fake"])("%s needs no address", (clientType) => {
    expect(read({ clientType })).toMatchObject({ found: { source: { type: clientType } }, problems: [] });
  });

  test.each([
    ["no address", { clientType: "prometheus" }, "usageDBConfig has no connectionString"],
    [
      "another database",
      { clientType: "mysql" },
      'usageDBConfig.clientType: "mysql" is none of prometheus, own, fake: no usage is read',
    ],
    [
      "no duration",
      { clientType: "own", usageParams: { windowSize: "long" } },
      'usageDBConfig.usageParams.windowSize: "long" is no duration',
    ],
    [
      "no schedule",
      { clientType: "own", usageParams: { windowType: "cron", cronString: "never" } },
      'usageDBConfig.usageParams: "never" is no schedule',
    ],
  ])("%s is told", (_, config, problem) => {
    expect(read(config).problems).toEqual([problem]);
  });
});
