import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../../testing/decide/workloadObjects.ts";
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

  test("is in the local time of its time zone", () => {
    expect(next("0 9 * * *", "2027-01-15T00:00:00Z", "Europe/Berlin")).toBe("2027-01-15T08:00:00Z");
    expect(next("0 9 * * *", "2027-07-15T00:00:00Z", "Europe/Berlin")).toBe("2027-07-15T07:00:00Z");
    expect(next("0 0 * * *", "2027-01-15T12:00:00Z", "Asia/Kolkata")).toBe("2027-01-15T18:30:00Z");
  });

  test("skips the hour that daylight saving time skips, and runs twice in the repeated one", () => {
    expect(next("30 2 * * *", "2027-03-28T00:00:00Z", "Europe/Berlin")).toBe("2027-03-29T00:30:00Z");
    expect(next("30 2 * * *", "2027-10-30T23:00:00Z", "Europe/Berlin")).toBe("2027-10-31T00:30:00Z");
    expect(next("30 2 * * *", "2027-10-31T00:30:00Z", "Europe/Berlin")).toBe("2027-10-31T01:30:00Z");
  });

  test("has the same last time as a forward search", () => {
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

function cronOf(cluster: TestCluster, spec: Partial<CronJobSpec> = {}): CronJob {
  return cluster.add<CronJob>({
    apiVersion: "batch/v1",
    kind: "CronJob",
    metadata: { name: "tick" },
    spec: { schedule: "*/10 * * * *", jobTemplate: { spec: { template: { spec: { containers: [] } } } }, ...spec },
  });
}

const cronJob = (cluster: TestCluster) => cluster.get<CronJob>("CronJob", "tick");
const jobs = (cluster: TestCluster) => cluster.all<Job>("Job");
const decide = (cluster: TestCluster) =>
  decideCronJob({ revision: String(cluster.revision), cronJob: cronJob(cluster), jobs: jobs(cluster) }, cluster.nowMs);
const turn = (cluster: TestCluster) => cluster.apply(decide(cluster));
function finish(cluster: TestCluster, name: string, type = "Complete"): void {
  cluster.change<Job>("Job", name, (job) => {
    const time = formatTime(cluster.nowMs);
    job.status = {
      startTime: time,
      conditions: [{ type, status: "True", lastTransitionTime: time }],
      ...(type === "Complete" && { completionTime: time }),
    };
  });
}
/** Test clusters start at 08:00; the first schedule time is ten past. */
function tick(cluster: TestCluster, minutes: number): void {
  cluster.nowMs += minutes * 60_000;
  turn(cluster);
  turn(cluster);
}

describe("a CronJob", () => {
  test("waits for its schedule time, then creates one Job named after it", () => {
    const cluster = new TestCluster();
    cronOf(cluster);
    expect(decide(cluster)).toEqual({ intents: [], wakeAtMs: cluster.nowMs + 600_000 });
    tick(cluster, 10);
    expect(jobs(cluster)).toHaveLength(1);
    const [job] = jobs(cluster);
    expect(job?.metadata.name).toBe(`tick-${cluster.nowMs / 60_000}`);
    expect(job?.metadata.annotations).toEqual({
      "batch.kubernetes.io/cronjob-scheduled-timestamp": formatTime(cluster.nowMs),
    });
    expect(cronJob(cluster).status).toMatchObject({
      lastScheduleTime: formatTime(cluster.nowMs),
      active: [{ uid: job?.metadata.uid }],
    });
    expect(decide(cluster).intents).toEqual([]);
  });

  test("whose status was not written does not create the same Job again", () => {
    const cluster = new TestCluster();
    cronOf(cluster);
    cluster.nowMs += 600_000;
    const [create] = decide(cluster).intents;
    cluster.applyOne(create!);
    expect(decide(cluster).intents.map(({ type }) => type)).toEqual(["status"]);
  });

  test("that missed many schedule times starts once, for the last of them", () => {
    const cluster = new TestCluster();
    cronOf(cluster);
    tick(cluster, 10_000);
    expect(jobs(cluster)).toHaveLength(1);
    expect(cronJob(cluster).status?.lastScheduleTime).toBe(formatTime(cluster.nowMs));
  });

  test("does not start later than its deadline", () => {
    const cluster = new TestCluster();
    cronOf(cluster, { startingDeadlineSeconds: 60 });
    tick(cluster, 12);
    expect(jobs(cluster)).toHaveLength(0);
    tick(cluster, 9);
    expect(jobs(cluster)).toHaveLength(1);
  });

  test.each([
    { concurrencyPolicy: "Allow", count: 2 },
    { concurrencyPolicy: "Forbid", count: 1 },
    { concurrencyPolicy: "Replace", count: 1 },
  ])("with $concurrencyPolicy has $count jobs when the first still runs", ({ concurrencyPolicy, count }) => {
    const cluster = new TestCluster();
    cronOf(cluster, { concurrencyPolicy });
    tick(cluster, 10);
    const first = jobs(cluster)[0]?.metadata.uid;
    tick(cluster, 10);
    expect(jobs(cluster)).toHaveLength(count);
    expect(jobs(cluster).some(({ metadata }) => metadata.uid === first)).toBe(concurrencyPolicy !== "Replace");
  });

  test("with Forbid starts the delayed run as soon as the first is over", () => {
    const cluster = new TestCluster();
    cronOf(cluster, { concurrencyPolicy: "Forbid" });
    tick(cluster, 10);
    tick(cluster, 10);
    finish(cluster, jobs(cluster)[0]!.metadata.name);
    tick(cluster, 1);
    expect(jobs(cluster)).toHaveLength(2);
    expect(cronJob(cluster).status?.lastSuccessfulTime).toBeDefined();
  });

  test("that is suspended starts nothing", () => {
    const cluster = new TestCluster();
    cronOf(cluster, { suspend: true });
    tick(cluster, 100);
    expect(jobs(cluster)).toHaveLength(0);
  });

  test("keeps the newest Jobs of each outcome", () => {
    const cluster = new TestCluster();
    cronOf(cluster, { successfulJobsHistoryLimit: 2, failedJobsHistoryLimit: 1 });
    for (let i = 0; i < 8; i++) {
      tick(cluster, 10);
      finish(cluster, jobs(cluster).at(-1)!.metadata.name, i % 2 === 0 ? "Complete" : "Failed");
    }
    tick(cluster, 1);
    expect(jobs(cluster)).toHaveLength(3);
    const snapshot = { revision: "1", cronJob: cronJob(cluster), jobs: jobs(cluster) };
    expect(decideCronJob({ ...snapshot, jobs: [...snapshot.jobs].reverse() }, cluster.nowMs)).toEqual(
      decideCronJob(snapshot, cluster.nowMs),
    );
  });
});
