import { describe, expect, test } from "vitest";
import { databaseUrl, historyDaysOf, pageSize, runOptions, switchOf } from "../../src/cli/inventory/settings.ts";

const postgres = {
  POSTGRES_HOST: "db",
  POSTGRES_USER: "gpudev",
  POSTGRES_PASSWORD: "p@ss/word",
  POSTGRES_DB: "gpudev",
};

describe("where the database is", () => {
  test.each([
    {
      fact: "the flag, before everything",
      flag: "postgresql://a@b/c",
      env: { DATABASE_URL: "postgresql://x@y/z", ...postgres },
      url: "postgresql://a@b/c",
    },
    {
      fact: "DATABASE_URL, before the parts",
      flag: undefined,
      env: { DATABASE_URL: "postgresql://x@y/z", ...postgres },
      url: "postgresql://x@y/z",
    },
    {
      fact: "the parts, on the usual port",
      flag: undefined,
      env: postgres,
      url: "postgresql://gpudev:p%40ss%2Fword@db:5432/gpudev",
    },
    {
      fact: "the parts, on another port",
      flag: undefined,
      env: { ...postgres, POSTGRES_PORT: "6000" },
      url: "postgresql://gpudev:p%40ss%2Fword@db:6000/gpudev",
    },
    { fact: "the embedded one when nothing is said", flag: undefined, env: {}, url: undefined },
  ])("$fact", ({ flag, env, url }) => {
    expect(databaseUrl(flag, env)).toBe(url);
  });

  test("incomplete settings are refused with the missing names", () => {
    expect(() => databaseUrl(undefined, { POSTGRES_HOST: "db", POSTGRES_USER: "u" })).toThrow(
      "POSTGRES_PASSWORD, POSTGRES_DB",
    );
  });
});

describe("an invalid port", () => {
  test.each(["99999", "0", "-1", "five"])("%s: rejected with its value and the cure", (port) => {
    const refused = thrownBy(() => databaseUrl(undefined, { ...postgres, POSTGRES_PORT: port }));
    expect(refused).toMatchObject({ code: "inventory-setting-invalid", cure: "pass a port from 1 to 65535" });
    expect(refused).toMatchObject({ message: expect.stringContaining(`POSTGRES_PORT: ${port}`) });
  });

  test("in DATABASE_URL: rejected without showing the password", () => {
    const refused = thrownBy(() => databaseUrl(undefined, { DATABASE_URL: "postgresql://u:secret@db:99999/x" }));
    expect(refused).toMatchObject({ code: "inventory-setting-invalid" });
    expect(String(refused)).not.toContain("secret");
  });
});

describe("a switch", () => {
  test.each(["1", "true", "True", "TRUE", "yes", "YES"])("%s is on", (text) => {
    expect(runOptions({}, { MUSTER_DRY_RUN: text }).dryRun).toBe(true);
    expect(switchOf("DB_POOL_HEALTH_CHECK", { DB_POOL_HEALTH_CHECK: text }, false)).toBe(true);
  });

  test.each(["0", "false", "No", ""])("%j is off", (text) => {
    expect(runOptions({}, { MUSTER_DRY_RUN: text }).dryRun).toBe(false);
  });

  test.each(["y", "on", "ture", "dry", " true"])("%j is rejected", (text) => {
    const refused = thrownBy(() => runOptions({}, { MUSTER_DRY_RUN: text }));
    expect(refused).toMatchObject({ code: "inventory-setting-invalid", cure: "pass true or false" });
    expect(refused).toMatchObject({ message: expect.stringContaining(`MUSTER_DRY_RUN: ${text}`) });
  });
});

test.each([
  { flags: {}, env: { MUSTER_PHASE: "bogus" }, says: "MUSTER_PHASE: bogus" },
  { flags: { phase: "bogus" }, env: { MUSTER_PHASE: "gpu" }, says: "--phase: bogus" },
  { flags: {}, env: { MUSTER_SNAPSHOT_SCOPE: "bogus" }, says: "MUSTER_SNAPSHOT_SCOPE: bogus" },
])("an invalid value is reported with the name of its source: $says", ({ flags, env, says }) => {
  expect(thrownBy(() => runOptions(flags, env))).toMatchObject({
    code: "inventory-setting-invalid",
    message: `invalid value of ${says}`,
  });
});

test("the history is kept for 90 days, unless a setting says otherwise", () => {
  expect(historyDaysOf({})).toBe(90);
  expect(historyDaysOf({ MUSTER_HISTORY_DAYS: "0" })).toBe(0);
  expect(thrownBy(() => historyDaysOf({ MUSTER_HISTORY_DAYS: "1w" }))).toMatchObject({
    code: "inventory-setting-invalid",
  });
});

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("the settings of a run", () => {
  test("by default: both phases, ten minutes, the original's prefix", () => {
    expect(runOptions({}, {})).toMatchObject({
      kind: "all",
      dryRun: false,
      deadlineMs: 600_000,
      names: { prefix: "pytorch-gpu-dev", aliases: { "t4-az2": "t4" } },
      disks: { acceptDrop: false, nameFallback: false, trust: { dropMax: 0.3 }, disks: { leaseMs: 1_800_000 } },
    });
  });

  test("by the environment", () => {
    const env = {
      MUSTER_ASG_PREFIX: "lab",
      MUSTER_CLAIM_LEASE_SECONDS: "60",
      MUSTER_DROP_THRESHOLD: "0.5",
      MUSTER_GPU_TYPE_ALIASES: "x=y",
      HOSTNAME: "pod-1",
      MUSTER_PHASE: "gpu",
      MUSTER_TOLERATED_TAINTS: "a,b",
    };
    expect(runOptions({}, env)).toMatchObject({
      kind: "gpu",
      updatedBy: "pod-1",
      names: { prefix: "lab", aliases: { "t4-az2": "t4", x: "y" } },
      nodeRules: { toleratedTaints: ["a", "b"] },
      disks: { trust: { dropMax: 0.5 }, disks: { leaseMs: 60_000 } },
    });
  });

  test.each([
    { MUSTER_CLAIM_LEASE_SECONDS: "soon" },
    { MUSTER_DROP_THRESHOLD: "2" },
    { MUSTER_PHASE: "cpu" },
    { MUSTER_SNAPSHOT_SCOPE: "all" },
    { MUSTER_GPU_TYPE_ALIASES: "x" },
  ])("nonsense is refused: %o", (env) => {
    expect(() => runOptions({}, env)).toThrow("invalid value of");
  });
});

test("the size of a page is one that the cloud takes, or is refused", () => {
  expect(pageSize("MUSTER_VOLUME_PAGE", {})).toBeUndefined();
  expect(pageSize("MUSTER_VOLUME_PAGE", { MUSTER_VOLUME_PAGE: "500" })).toBe(500);
  for (const text of ["4", "1001", "many", "5.5", "-5"]) {
    expect(() => pageSize("MUSTER_VOLUME_PAGE", { MUSTER_VOLUME_PAGE: text })).toThrow("invalid value of");
  }
});
