import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { Job, JobSpec, Pod } from "../../../model/kubernetes.generated.ts";
import { findCondition, isTrue } from "../../../model/objects/condition.ts";
import { isActive } from "../../../model/objects/podFacts.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decideJob, decideOrphanedJobPod } from "./job.ts";
import { formatIndexes, IndexSet, parseIndexes } from "./jobIndexes.ts";

const labels = { "batch.kubernetes.io/controller-uid": "job-uid" };

function jobOf(cluster: TestCluster, spec: Partial<JobSpec> = {}): Job {
  return cluster.add<Job>({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "work", uid: "job-uid" },
    spec: {
      parallelism: 1,
      completions: 1,
      backoffLimit: 6,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } },
      ...spec,
    },
  });
}

const job = (cluster: TestCluster) => cluster.get<Job>("Job", "work");
const pods = (cluster: TestCluster) => cluster.all<Pod>("Pod");
const active = (cluster: TestCluster) => pods(cluster).filter(isActive);
const decide = (cluster: TestCluster) =>
  decideJob({ revision: String(cluster.revision), job: job(cluster), pods: pods(cluster) }, cluster.nowMs);
const turn = (cluster: TestCluster) => cluster.apply(decide(cluster));
const condition = (cluster: TestCluster, type: string) => findCondition(job(cluster).status?.conditions, type);

/** Ends a pod as a kubelet does. */
function end(cluster: TestCluster, pod: Pod, exitCode: number): void {
  cluster.setPhase(pod.metadata.name, exitCode === 0 ? "Succeeded" : "Failed");
  cluster.change<Pod>("Pod", pod.metadata.name, ({ status }) => {
    const terminated = { exitCode, finishedAt: formatTime(cluster.nowMs) };
    const container = { name: "c", image: "i", imageID: "", ready: false, restartCount: 0, state: { terminated } };
    if (status !== undefined) status.containerStatuses = [container];
  });
}

function run(cluster: TestCluster, exitCode: (pod: Pod) => number | undefined): void {
  cluster.settle((each) => {
    turn(each);
    for (const pod of active(each)) {
      const code = pod.status?.phase === "Running" ? exitCode(pod) : undefined;
      if (code !== undefined) end(each, pod, code);
    }
    each.kubelet();
    const { wakeAtMs } = decide(each);
    // No other events happen while the Job waits, so time may jump.
    if (
      wakeAtMs !== undefined &&
      decide(each).intents.length === 0 &&
      !isTrue(job(each).status?.conditions, "Complete")
    ) {
      each.nowMs = wakeAtMs;
      each.revision++;
    }
  });
}

const indexOf = (pod: Pod) => Number(pod.metadata.annotations?.["batch.kubernetes.io/job-completion-index"]);

describe("indexes as text", () => {
  test.each([
    { text: "", indexes: [] },
    { text: "0", indexes: [0] },
    { text: "0-1,4,6-9", indexes: [7, 0, 1, 4, 6, 9, 8] },
  ])("$text", ({ text, indexes }) => {
    expect(formatIndexes(new IndexSet([], indexes))).toBe(text);
    const parsed = parseIndexes(text, 100);
    expect(parsed.size).toBe(indexes.length);
    expect(indexes.every((index) => parsed.has(index))).toBe(true);
    expect(formatIndexes(parsed)).toBe(text);
  });

  test("beyond the completions are left out", () => {
    expect(formatIndexes(parseIndexes("0-9", 3))).toBe("0-2");
  });

  test("all indexes of the largest Job are one range", () => {
    const all = parseIndexes("0-2147483646", 2_147_483_647);
    expect(all.size).toBe(2_147_483_647);
    expect(all.gapFrom(0)).toBe(2_147_483_647);
    expect(parseIndexes("5-7,9", 100).countIn(all)).toBe(4);
  });

  test("a set of ranges and single numbers is the set of its numbers", () => {
    const number = fc.integer({ min: 0, max: 30 });
    fc.assert(
      fc.property(fc.array(fc.tuple(number, number)), fc.array(number), fc.array(number), (pairs, more, other) => {
        const ranges = pairs.map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));
        const plain = new Set(more);
        for (const { first, last } of ranges) for (let at = first; at <= last; at++) plain.add(at);
        const set = new IndexSet(ranges, more);
        expect(set.size).toBe(plain.size);
        for (let at = 0; at <= 32; at++) {
          expect(set.has(at)).toBe(plain.has(at));
          let gap = at;
          while (plain.has(gap)) gap++;
          expect(set.gapFrom(at)).toBe(gap);
        }
        expect(set.countIn(new IndexSet([], other))).toBe([...new Set(other)].filter((at) => plain.has(at)).length);
      }),
    );
  });
});

describe("a Job", () => {
  test("runs no more pods at a time than its parallelism, and completes with all of them counted", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { parallelism: 2, completions: 5 });
    cluster.settle((each) => {
      turn(each);
      expect(active(each).length).toBeLessThanOrEqual(2);
      for (const pod of active(each)) if (pod.status?.phase === "Running") end(each, pod, 0);
      each.kubelet();
    });
    const { status } = job(cluster);
    expect(status).toMatchObject({ succeeded: 5, ready: 0, terminating: 0, uncountedTerminatedPods: {} });
    expect(status?.completionTime).toBeDefined();
    expect(status?.conditions?.map(({ type }) => type)).toEqual(["SuccessCriteriaMet", "Complete"]);
    expect(condition(cluster, "Complete")?.reason).toBe("CompletionsReached");
    expect(pods(cluster).every(({ metadata }) => metadata.finalizers === undefined)).toBe(true);
    expect(decide(cluster).intents).toEqual([]);
  });

  test("keeps its finalizer on a pod until the status has the pod", () => {
    const cluster = new TestCluster();
    jobOf(cluster);
    turn(cluster);
    cluster.kubelet();
    turn(cluster);
    end(cluster, pods(cluster)[0]!, 0);
    const { intents } = decide(cluster);
    expect(intents.map(({ type, target }) => `${type} ${target.plural}`)).toEqual(["status jobs"]);
    turn(cluster);
    expect(job(cluster).status?.uncountedTerminatedPods?.succeeded).toEqual([pods(cluster)[0]?.metadata.uid]);
    expect(job(cluster).status?.succeeded).toBeUndefined();
    turn(cluster);
    expect(pods(cluster)[0]?.metadata.finalizers).toBeUndefined();
    turn(cluster);
    expect(job(cluster).status).toMatchObject({ succeeded: 1, uncountedTerminatedPods: {} });
  });

  test("does not conclude from a list older than itself that an uncounted pod is deleted", () => {
    const cluster = new TestCluster();
    const given = jobOf(cluster);
    cluster.change<Job>("Job", "work", (each) => {
      each.status = { startTime: formatTime(startMs), uncountedTerminatedPods: { succeeded: ["p"] } };
    });
    const snapshot = { revision: "1", job: job(cluster), pods: [] };
    const old = decideJob({ ...snapshot, podsRevision: given.metadata.resourceVersion }, startMs);
    const status = old.intents.find(({ type }) => type === "status");
    expect(status).toMatchObject({ object: { status: { uncountedTerminatedPods: { succeeded: ["p"] } } } });
    const fresh = decideJob({ ...snapshot, podsRevision: String(cluster.revision) }, startMs);
    expect(fresh.intents.find(({ type }) => type === "status")).toMatchObject({ object: { status: { succeeded: 1 } } });
  });

  test("waits ten seconds after a failure, then twenty, and gives up beyond its limit", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { backoffLimit: 2 });
    const waits: number[] = [];
    for (let i = 0; i < 3; i++) {
      cluster.settle((each) => {
        turn(each);
        each.kubelet();
      });
      end(cluster, active(cluster)[0]!, 1);
      const failedMs = cluster.nowMs;
      cluster.settle(turn);
      const { wakeAtMs } = decide(cluster);
      if (wakeAtMs === undefined) break;
      waits.push((wakeAtMs - failedMs) / 1000);
      cluster.nowMs = wakeAtMs;
    }
    expect(waits).toEqual([10, 20]);
    expect(job(cluster).status?.failed).toBe(3);
    expect(condition(cluster, "Failed")?.reason).toBe("BackoffLimitExceeded");
    expect(job(cluster).status?.conditions?.map(({ type }) => type)).toEqual(["FailureTarget", "Failed"]);
  });

  test.each([
    { backoffLimit: 0, restarts: 0, givesUp: false },
    { backoffLimit: 0, restarts: 1, givesUp: true },
    { backoffLimit: 3, restarts: 2, givesUp: false },
    { backoffLimit: 3, restarts: 3, givesUp: true },
  ])("with a limit of $backoffLimit, after $restarts restarts in place, gives up: $givesUp", (row) => {
    const cluster = new TestCluster();
    const { template } = jobOf(cluster, { backoffLimit: row.backoffLimit }).spec ?? {};
    cluster.change<Job>("Job", "work", ({ spec }) => {
      if (spec !== undefined && template !== undefined)
        spec.template = { ...template, spec: { containers: [], ...template.spec, restartPolicy: "OnFailure" } };
    });
    turn(cluster);
    const [pod] = pods(cluster);
    cluster.setPhase(pod?.metadata.name ?? "", "Running");
    cluster.change<Pod>("Pod", pod?.metadata.name ?? "", ({ status }) => {
      const container = { name: "c", image: "i", imageID: "", ready: false, restartCount: row.restarts, state: {} };
      if (status !== undefined) status.containerStatuses = [container];
    });
    cluster.settle(turn);
    expect(condition(cluster, "FailureTarget")?.reason).toBe(row.givesUp ? "BackoffLimitExceeded" : undefined);
  });

  test("without completions is done when one pod has succeeded and the others have ended", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { parallelism: 3 });
    cluster.change<Job>("Job", "work", ({ spec }) => {
      delete spec?.completions;
    });
    turn(cluster);
    cluster.kubelet();
    end(cluster, pods(cluster)[0]!, 0);
    for (let i = 0; i < 5; i++) turn(cluster);
    expect(pods(cluster)).toHaveLength(3);
    expect(condition(cluster, "Complete")).toBeUndefined();
    for (const pod of active(cluster)) end(cluster, pod, 0);
    cluster.settle(turn);
    expect(job(cluster).status?.succeeded).toBe(3);
    expect(condition(cluster, "Complete")?.status).toBe("True");
  });

  test("past its deadline deletes its pods and fails", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { activeDeadlineSeconds: 60 });
    cluster.settle((each) => {
      turn(each);
      each.kubelet();
    });
    const { wakeAtMs } = decide(cluster);
    expect(wakeAtMs).toBe(startMs + 60_000);
    cluster.nowMs = wakeAtMs ?? 0;
    turn(cluster);
    expect(condition(cluster, "FailureTarget")?.reason).toBe("DeadlineExceeded");
    expect(active(cluster)).toHaveLength(1);
    turn(cluster);
    expect(active(cluster)).toHaveLength(0);
    expect(condition(cluster, "Failed")).toBeUndefined();
    cluster.settle((each) => {
      turn(each);
      each.kubelet();
    });
    expect(condition(cluster, "Failed")?.reason).toBe("DeadlineExceeded");
    expect(pods(cluster)).toHaveLength(0);
  });

  test("that is suspended has no pods and no failures, and restarts its clock when it is resumed", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { parallelism: 2, completions: 2 });
    const settle = () =>
      cluster.settle((each) => {
        turn(each);
        each.kubelet();
      });
    settle();
    const suspend = (value: boolean) =>
      cluster.change<Job>("Job", "work", ({ spec }) => {
        if (spec !== undefined) spec.suspend = value;
      });
    suspend(true);
    settle();
    expect(pods(cluster)).toHaveLength(0);
    expect(job(cluster).status?.failed).toBeUndefined();
    expect(job(cluster).status?.startTime).toBeUndefined();
    expect(condition(cluster, "Suspended")?.status).toBe("True");
    suspend(false);
    cluster.nowMs += 100_000;
    turn(cluster);
    expect(job(cluster).status?.startTime).toBe(formatTime(cluster.nowMs));
    expect(condition(cluster, "Suspended")).toMatchObject({ status: "False", reason: "JobResumed" });
    settle();
    expect(active(cluster)).toHaveLength(2);
  });

  test("is deleted when its TTL after the end is over", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { ttlSecondsAfterFinished: 30 });
    run(cluster, () => 0);
    const { wakeAtMs } = decide(cluster);
    expect(wakeAtMs).toBeGreaterThan(cluster.nowMs);
    cluster.nowMs = wakeAtMs ?? 0;
    expect(decide(cluster).intents).toMatchObject([{ type: "delete", propagationPolicy: "Foreground" }]);
  });

  test("of another controller is left alone", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { managedBy: "kueue.x-k8s.io/multikueue" });
    expect(decide(cluster).intents).toEqual([]);
  });

  test("adopts a pod and adds its finalizer", () => {
    const cluster = new TestCluster();
    jobOf(cluster);
    cluster.add<Pod>({ apiVersion: "v1", kind: "Pod", metadata: { name: "stray", labels }, spec: { containers: [] } });
    turn(cluster);
    expect(pods(cluster)[0]?.metadata.finalizers).toEqual(["batch.kubernetes.io/job-tracking"]);
    run(cluster, () => 0);
    expect(job(cluster).status?.succeeded).toBe(1);
    expect(pods(cluster)).toHaveLength(1);
  });

  test("that is deleted leaves pods that lose their finalizer", () => {
    const cluster = new TestCluster();
    jobOf(cluster);
    turn(cluster);
    const [pod] = pods(cluster);
    expect(decideOrphanedJobPod(pod!, job(cluster)).intents).toEqual([]);
    expect(decideOrphanedJobPod(pod!, undefined).intents).toMatchObject([{ type: "patch" }]);
  });
});

describe("an Indexed Job", () => {
  test("gives each pod its index by name, label, annotation, host name and environment", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { completionMode: "Indexed", completions: 3, parallelism: 3 });
    turn(cluster);
    const pod = pods(cluster)[2]!;
    expect(pod.metadata.name).toMatch(/^work-2-[a-z0-9]{5}$/);
    expect(pod.metadata.labels?.["batch.kubernetes.io/job-completion-index"]).toBe("2");
    expect(pod.spec?.hostname).toBe("work-2");
    expect(pod.spec?.containers[0]?.env?.[0]?.name).toBe("JOB_COMPLETION_INDEX");
  });

  test("has each index succeed once", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { completionMode: "Indexed", completions: 5, parallelism: 2 });
    run(cluster, () => 0);
    expect(job(cluster).status).toMatchObject({ succeeded: 5, completedIndexes: "0-4" });
    expect(pods(cluster)).toHaveLength(5);
  });

  test("with a limit per index fails one index and finishes the others", () => {
    const cluster = new TestCluster();
    const spec = { completions: 4, parallelism: 4, backoffLimitPerIndex: 1, backoffLimit: 2 ** 31 - 1 };
    jobOf(cluster, { completionMode: "Indexed", ...spec });
    run(cluster, (pod) => (indexOf(pod) === 2 ? 1 : 0));
    expect(job(cluster).status).toMatchObject({ completedIndexes: "0-1,3", failedIndexes: "2", failed: 2 });
    expect(condition(cluster, "Failed")?.reason).toBe("FailedIndexes");
  });

  test("with more failed indexes than it may have ends at once", () => {
    const cluster = new TestCluster();
    const spec = { completions: 4, parallelism: 4, backoffLimitPerIndex: 0, maxFailedIndexes: 1 };
    jobOf(cluster, { completionMode: "Indexed", ...spec });
    run(cluster, (pod) => (indexOf(pod) < 2 ? 1 : undefined));
    expect(condition(cluster, "Failed")?.reason).toBe("MaxFailedIndexesExceeded");
  });

  test("succeeds when its success policy is met, and the pods that it deletes do not count as failed", () => {
    const cluster = new TestCluster();
    const successPolicy = { rules: [{ succeededIndexes: "1-2", succeededCount: 1 }] };
    jobOf(cluster, { completionMode: "Indexed", completions: 4, parallelism: 4, successPolicy });
    run(cluster, (pod) => (indexOf(pod) === 2 ? 0 : undefined));
    expect(condition(cluster, "Complete")?.reason).toBe("SuccessPolicy");
    expect(job(cluster).status).toMatchObject({ succeeded: 1, completedIndexes: "2" });
    expect(active(cluster)).toHaveLength(0);
  });
});

describe("a pod failure policy", () => {
  const policy = (action: string) => ({
    rules: [{ action, onExitCodes: { operator: "In", values: [42] } }],
  });

  test("that fails the Job does so at the first such exit code", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { podFailurePolicy: policy("FailJob") });
    run(cluster, () => 42);
    expect(condition(cluster, "Failed")?.reason).toBe("PodFailurePolicy");
    expect(job(cluster).status?.failed).toBe(1);
  });

  test("that ignores a failure does not count it", () => {
    const cluster = new TestCluster();
    jobOf(cluster, { podFailurePolicy: policy("Ignore"), backoffLimit: 0 });
    let failures = 3;
    run(cluster, () => (failures-- > 0 ? 42 : 0));
    expect(condition(cluster, "Complete")?.status).toBe("True");
    expect(job(cluster).status?.failed).toBeUndefined();
  });

  test("that fails the index does not affect the others", () => {
    const cluster = new TestCluster();
    const spec = { completions: 2, parallelism: 2, backoffLimitPerIndex: 5, backoffLimit: 1000 };
    jobOf(cluster, { completionMode: "Indexed", ...spec, podFailurePolicy: policy("FailIndex") });
    run(cluster, (pod) => (indexOf(pod) === 0 ? 42 : 0));
    expect(job(cluster).status).toMatchObject({ completedIndexes: "1", failedIndexes: "0", failed: 1 });
  });

  test("matches a condition such as DisruptionTarget", () => {
    const cluster = new TestCluster();
    const rule = { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] };
    jobOf(cluster, { podFailurePolicy: { rules: [rule] }, backoffLimit: 0 });
    turn(cluster);
    cluster.kubelet();
    const [pod] = pods(cluster);
    end(cluster, pod!, 137);
    cluster.change<Pod>("Pod", pod!.metadata.name, ({ status }) => {
      status?.conditions?.push({ type: "DisruptionTarget", status: "True" });
    });
    run(cluster, () => 0);
    expect(condition(cluster, "Complete")?.status).toBe("True");
  });
});

test("a replacement waits for the end of a terminating pod only with podReplacementPolicy Failed", () => {
  for (const [podReplacementPolicy, count] of [
    ["Failed", 1],
    ["TerminatingOrFailed", 2],
  ] as const) {
    const cluster = new TestCluster();
    jobOf(cluster, { podReplacementPolicy });
    turn(cluster);
    cluster.kubelet();
    cluster.remove(pods(cluster)[0]!);
    cluster.nowMs += 20_000;
    for (let i = 0; i < 4; i++) turn(cluster);
    expect(pods(cluster)).toHaveLength(count);
    expect(job(cluster).status?.terminating).toBe(1);
  }
});

test("a Job counts every pod exactly once, whatever the order of events", () => {
  const step = fc.record({
    kind: fc.constantFrom("turn", "succeed", "fail", "delete", "kubelet", "time"),
    at: fc.nat(9),
  });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 6 }),
      fc.boolean(),
      fc.array(step, { maxLength: 60 }),
      (parallelism, completions, indexed, steps) => {
        const cluster = new TestCluster();
        const completionMode = indexed ? "Indexed" : "NonIndexed";
        jobOf(cluster, { parallelism, completions, completionMode, backoffLimit: 1000 });
        const succeeded = new Set<string>();
        const ended = new Set<string>();
        const note = (exit: number) => (pod: Pod | undefined) => {
          if (pod === undefined || pod.status?.phase !== "Running") return;
          end(cluster, pod, exit);
          // A terminating pod has been counted as failed, or will be counted by its final phase.
          if (exit === 0) succeeded.add(pod.metadata.uid);
          ended.add(pod.metadata.uid);
        };
        for (const { kind, at } of steps) {
          const pod = pods(cluster)[at];
          if (kind === "turn") turn(cluster);
          else if (kind === "succeed") note(0)(active(cluster)[at]);
          else if (kind === "fail") note(1)(active(cluster)[at]);
          else if (kind === "kubelet") cluster.kubelet();
          else if (kind === "time") cluster.nowMs += 30_000;
          else if (pod !== undefined) {
            if (pod.status?.phase !== "Succeeded") ended.add(pod.metadata.uid);
            cluster.remove(pod);
          }
          const { status } = job(cluster);
          if (!indexed) expect(status?.succeeded ?? 0).toBeLessThanOrEqual(succeeded.size);
          expect((status?.succeeded ?? 0) + (status?.failed ?? 0)).toBeLessThanOrEqual(ended.size);
        }
        cluster.settle((each) => {
          turn(each);
          for (const pod of active(each)) note(0)(pod);
          each.kubelet();
          const { wakeAtMs, intents } = decide(each);
          if (wakeAtMs !== undefined && intents.length === 0) {
            each.nowMs = Math.max(each.nowMs, wakeAtMs);
            each.revision++;
          }
        });
        const { status } = job(cluster);
        expect(isTrue(status?.conditions, "Complete")).toBe(true);
        if (indexed) expect(status?.succeeded).toBe(completions);
        else expect(status?.succeeded).toBe(succeeded.size);
        if (!indexed) expect((status?.succeeded ?? 0) + (status?.failed ?? 0)).toBe(ended.size);
        expect(decide(cluster).intents).toEqual([]);
        expect(cluster.conflicts).toBe(0);
      },
    ),
    { numRuns: 150 },
  );
});

test("a Job decides the same in whatever order its pods are listed", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(0, 1, undefined), { minLength: 4, maxLength: 4 }),
      fc.nat(6),
      (codes, turns) => {
        const cluster = new TestCluster();
        jobOf(cluster, { parallelism: 4, completions: 6 });
        turn(cluster);
        cluster.kubelet();
        for (const [i, pod] of pods(cluster).entries()) if (codes[i] !== undefined) end(cluster, pod, codes[i] ?? 0);
        for (let i = 0; i < turns; i++) turn(cluster);
        const snapshot = { revision: "1", job: job(cluster) };
        const forth = decideJob({ ...snapshot, pods: pods(cluster) }, cluster.nowMs);
        expect(decideJob({ ...snapshot, pods: pods(cluster).reverse() }, cluster.nowMs)).toEqual(forth);
      },
    ),
    { numRuns: 50 },
  );
});
