import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { CronJob, CronJobSpec, Job } from "../../../model/kubernetes.generated.ts";
import { latestIn, nextAfter, parseSchedule } from "../../../model/values/cronSchedule.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decideCronJob } from "./cronJob.ts";

const at = (text: string) => Date.parse(text);
const next = (schedule: string, after: string, zone?: string) => {
  const found = nextAfter(parseSchedule(schedule)!, at(after), zone);
  return found === undefined ? undefined : formatTime(found);
};

describe("a schedule", () => {
  test.each([
    { schedule: "*/15 * * * *", after: "2027-01-15T08:01:00Z", due: "2027-01-15T08:15:00Z" },
    { schedule: "0 0 * * *", after: "2027-01-15T00:00:00Z", due: "2027-01-16T00:00:00Z" },
    { schedule: "@hourly", after: "2027-01-15T08:59:59Z", due: "2027-01-15T09:00:00Z" },
    { schedule: "@weekly", after: "2027-01-15T08:00:00Z", due: "2027-01-17T00:00:00Z" },
    { schedule: "@yearly", after: "2027-01-15T08:00:00Z", due: "2028-01-01T00:00:00Z" },
    { schedule: "30 4 1,15 * fri", after: "2027-01-16T00:00:00Z", due: "2027-01-22T04:30:00Z" },
    { schedule: "0 12 * feb mon-wed", after: "2027-01-15T00:00:00Z", due: "2027-02-01T12:00:00Z" },
    { schedule: "0 0 29 2 *", after: "2027-01-15T00:00:00Z", due: "2028-02-29T00:00:00Z" },
    { schedule: "0 0 31 2 *", after: "2027-01-15T00:00:00Z", due: undefined },
    { schedule: "5/20 * * * *", after: "2027-01-15T08:26:00Z", due: "2027-01-15T08:45:00Z" },
    { schedule: "@every 90s", after: "2027-01-15T08:00:00Z", due: "2027-01-15T08:01:30Z" },
  ])("$schedule after $after is due at $due", ({ schedule, after, due }) => {
    expect(next(schedule, after)).toBe(due);
  });

  test("means the clock on the wall of its zone", () => {
    expect(next("0 9 * * *", "2027-01-15T00:00:00Z", "Europe/Berlin")).toBe("2027-01-15T08:00:00Z");
    expect(next("0 9 * * *", "2027-07-15T00:00:00Z", "Europe/Berlin")).toBe("2027-07-15T07:00:00Z");
    expect(next("0 0 * * *", "2027-01-15T12:00:00Z", "Asia/Kolkata")).toBe("2027-01-15T18:30:00Z");
  });

  test("skips the hour that the clock skips, and counts twice the one it shows twice", () => {
    expect(next("30 2 * * *", "2027-03-28T00:00:00Z", "Europe/Berlin")).toBe("2027-03-29T00:30:00Z");
    expect(next("30 2 * * *", "2027-10-30T23:00:00Z", "Europe/Berlin")).toBe("2027-10-31T00:30:00Z");
    expect(next("30 2 * * *", "2027-10-31T00:30:00Z", "Europe/Berlin")).toBe("2027-10-31T01:30:00Z");
  });

  test("is due last where walking forward ends", () => {
    const schedules = ["*/7 * * * *", "0 */5 * * *", "15 3 * * 1", "0 0 1 * *", "@every 11m"];
    const zones = fc.constantFrom("UTC", "Europe/Berlin", "America/New_York");
    const spans = fc.record({ from: fc.nat(400 * 24 * 60), minutes: fc.nat(3000) });
    fc.assert(
      fc.property(fc.constantFrom(...schedules), zones, spans, (text, zone, { from, minutes }) => {
        const schedule = parseSchedule(text)!;
        const afterMs = at("2027-01-01T00:00:00Z") + from * 60_000;
        const untilMs = afterMs + minutes * 60_000;
        let last: number | undefined;
        for (let each = nextAfter(schedule, afterMs, zone); each !== undefined && each <= untilMs; ) {
          last = each;
          each = nextAfter(schedule, each, zone);
        }
        expect(latestIn(schedule, { afterMs, untilMs }, zone)).toBe(last);
      }),
      { numRuns: 40 },
    );
  });
});

function cronOf(world: TestWorld, spec: Partial<CronJobSpec> = {}): CronJob {
  return world.add<CronJob>({
    apiVersion: "batch/v1",
    kind: "CronJob",
    metadata: { name: "tick" },
    spec: { schedule: "*/10 * * * *", jobTemplate: { spec: { template: { spec: { containers: [] } } } }, ...spec },
  });
}

const cronJob = (world: TestWorld) => world.get<CronJob>("CronJob", "tick");
const jobs = (world: TestWorld) => world.all<Job>("Job");
const decide = (world: TestWorld) =>
  decideCronJob({ revision: String(world.revision), cronJob: cronJob(world), jobs: jobs(world) }, world.nowMs);
const turn = (world: TestWorld) => world.apply(decide(world));
function finish(world: TestWorld, name: string, type = "Complete"): void {
  world.change<Job>("Job", name, (job) => {
    const time = formatTime(world.nowMs);
    job.status = {
      startTime: time,
      conditions: [{ type, status: "True", lastTransitionTime: time }],
      ...(type === "Complete" && { completionTime: time }),
    };
  });
}
/** 08:00 is when worlds begin; ten past is the first time that is due. */
function tick(world: TestWorld, minutes: number): void {
  world.nowMs += minutes * 60_000;
  turn(world);
  turn(world);
}

describe("a CronJob", () => {
  test("waits for its time, then makes one Job named after it", () => {
    const world = new TestWorld();
    cronOf(world);
    expect(decide(world)).toEqual({ intents: [], wakeAtMs: world.nowMs + 600_000 });
    tick(world, 10);
    expect(jobs(world)).toHaveLength(1);
    const [job] = jobs(world);
    expect(job?.metadata.name).toBe(`tick-${world.nowMs / 60_000}`);
    expect(job?.metadata.annotations).toEqual({
      "batch.kubernetes.io/cronjob-scheduled-timestamp": formatTime(world.nowMs),
    });
    expect(cronJob(world).status).toMatchObject({
      lastScheduleTime: formatTime(world.nowMs),
      active: [{ uid: job?.metadata.uid }],
    });
    expect(decide(world).intents).toEqual([]);
  });

  test("whose status was not written does not make the same Job again", () => {
    const world = new TestWorld();
    cronOf(world);
    world.nowMs += 600_000;
    const [create] = decide(world).intents;
    world.applyOne(create!);
    expect(decide(world).intents.map(({ type }) => type)).toEqual(["status"]);
  });

  test("that missed many times starts once, for the last of them", () => {
    const world = new TestWorld();
    cronOf(world);
    tick(world, 10_000);
    expect(jobs(world)).toHaveLength(1);
    expect(cronJob(world).status?.lastScheduleTime).toBe(formatTime(world.nowMs));
  });

  test("does not start later than its deadline", () => {
    const world = new TestWorld();
    cronOf(world, { startingDeadlineSeconds: 60 });
    tick(world, 12);
    expect(jobs(world)).toHaveLength(0);
    tick(world, 9);
    expect(jobs(world)).toHaveLength(1);
  });

  test.each([
    { concurrencyPolicy: "Allow", count: 2 },
    { concurrencyPolicy: "Forbid", count: 1 },
    { concurrencyPolicy: "Replace", count: 1 },
  ])("with $concurrencyPolicy has $count jobs when the first still runs", ({ concurrencyPolicy, count }) => {
    const world = new TestWorld();
    cronOf(world, { concurrencyPolicy });
    tick(world, 10);
    const first = jobs(world)[0]?.metadata.uid;
    tick(world, 10);
    expect(jobs(world)).toHaveLength(count);
    expect(jobs(world).some(({ metadata }) => metadata.uid === first)).toBe(concurrencyPolicy !== "Replace");
  });

  test("with Forbid starts the run that was held back as soon as the first is over", () => {
    const world = new TestWorld();
    cronOf(world, { concurrencyPolicy: "Forbid" });
    tick(world, 10);
    tick(world, 10);
    finish(world, jobs(world)[0]!.metadata.name);
    tick(world, 1);
    expect(jobs(world)).toHaveLength(2);
    expect(cronJob(world).status?.lastSuccessfulTime).toBeDefined();
  });

  test("that is suspended starts nothing", () => {
    const world = new TestWorld();
    cronOf(world, { suspend: true });
    tick(world, 100);
    expect(jobs(world)).toHaveLength(0);
  });

  test("keeps the newest Jobs of each outcome", () => {
    const world = new TestWorld();
    cronOf(world, { successfulJobsHistoryLimit: 2, failedJobsHistoryLimit: 1 });
    for (let i = 0; i < 8; i++) {
      tick(world, 10);
      finish(world, jobs(world).at(-1)!.metadata.name, i % 2 === 0 ? "Complete" : "Failed");
    }
    tick(world, 1);
    expect(jobs(world)).toHaveLength(3);
    const snapshot = { revision: "1", cronJob: cronJob(world), jobs: jobs(world) };
    expect(decideCronJob({ ...snapshot, jobs: [...snapshot.jobs].reverse() }, world.nowMs)).toEqual(
      decideCronJob(snapshot, world.nowMs),
    );
  });
});
