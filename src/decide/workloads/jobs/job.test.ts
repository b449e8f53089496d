import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { Job, JobSpec, Pod } from "../../../model/kubernetes.generated.ts";
import { findCondition, isTrue } from "../../../model/objects/condition.ts";
import { isActive } from "../../../model/objects/podFacts.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decideJob, decideOrphanedJobPod } from "./job.ts";
import { formatIndexes, IndexSet, parseIndexes } from "./jobIndexes.ts";

const labels = { "batch.kubernetes.io/controller-uid": "job-uid" };

function jobOf(world: TestWorld, spec: Partial<JobSpec> = {}): Job {
  return world.add<Job>({
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

const job = (world: TestWorld) => world.get<Job>("Job", "work");
const pods = (world: TestWorld) => world.all<Pod>("Pod");
const active = (world: TestWorld) => pods(world).filter(isActive);
const decide = (world: TestWorld) =>
  decideJob({ revision: String(world.revision), job: job(world), pods: pods(world) }, world.nowMs);
const turn = (world: TestWorld) => world.apply(decide(world));
const condition = (world: TestWorld, type: string) => findCondition(job(world).status?.conditions, type);

/** Ends a pod as a kubelet would. */
function end(world: TestWorld, pod: Pod, exitCode: number): void {
  world.setPhase(pod.metadata.name, exitCode === 0 ? "Succeeded" : "Failed");
  world.change<Pod>("Pod", pod.metadata.name, ({ status }) => {
    const terminated = { exitCode, finishedAt: formatTime(world.nowMs) };
    const container = { name: "c", image: "i", imageID: "", ready: false, restartCount: 0, state: { terminated } };
    if (status !== undefined) status.containerStatuses = [container];
  });
}

function run(world: TestWorld, exitCode: (pod: Pod) => number | undefined): void {
  world.settle((each) => {
    turn(each);
    for (const pod of active(each)) {
      const code = pod.status?.phase === "Running" ? exitCode(pod) : undefined;
      if (code !== undefined) end(each, pod, code);
    }
    each.kubelet();
    const { wakeAtMs } = decide(each);
    // Nothing else happens while the Job waits, so time may jump.
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
  test("runs no more pods at a time than it may, and completes with all of them counted", () => {
    const world = new TestWorld();
    jobOf(world, { parallelism: 2, completions: 5 });
    world.settle((each) => {
      turn(each);
      expect(active(each).length).toBeLessThanOrEqual(2);
      for (const pod of active(each)) if (pod.status?.phase === "Running") end(each, pod, 0);
      each.kubelet();
    });
    const { status } = job(world);
    expect(status).toMatchObject({ succeeded: 5, ready: 0, terminating: 0, uncountedTerminatedPods: {} });
    expect(status?.completionTime).toBeDefined();
    expect(status?.conditions?.map(({ type }) => type)).toEqual(["SuccessCriteriaMet", "Complete"]);
    expect(condition(world, "Complete")?.reason).toBe("CompletionsReached");
    expect(pods(world).every(({ metadata }) => metadata.finalizers === undefined)).toBe(true);
    expect(decide(world).intents).toEqual([]);
  });

  test("keeps its finalizer on a pod until the pod stands in the status", () => {
    const world = new TestWorld();
    jobOf(world);
    turn(world);
    world.kubelet();
    turn(world);
    end(world, pods(world)[0]!, 0);
    const { intents } = decide(world);
    expect(intents.map(({ type, target }) => `${type} ${target.plural}`)).toEqual(["status jobs"]);
    turn(world);
    expect(job(world).status?.uncountedTerminatedPods?.succeeded).toEqual([pods(world)[0]?.metadata.uid]);
    expect(job(world).status?.succeeded).toBeUndefined();
    turn(world);
    expect(pods(world)[0]?.metadata.finalizers).toBeUndefined();
    turn(world);
    expect(job(world).status).toMatchObject({ succeeded: 1, uncountedTerminatedPods: {} });
  });

  test("does not believe that an uncounted pod is gone from a list older than itself", () => {
    const world = new TestWorld();
    const given = jobOf(world);
    world.change<Job>("Job", "work", (each) => {
      each.status = { startTime: formatTime(startMs), uncountedTerminatedPods: { succeeded: ["p"] } };
    });
    const snapshot = { revision: "1", job: job(world), pods: [] };
    const old = decideJob({ ...snapshot, podsRevision: given.metadata.resourceVersion }, startMs);
    const status = old.intents.find(({ type }) => type === "status");
    expect(status).toMatchObject({ object: { status: { uncountedTerminatedPods: { succeeded: ["p"] } } } });
    const fresh = decideJob({ ...snapshot, podsRevision: String(world.revision) }, startMs);
    expect(fresh.intents.find(({ type }) => type === "status")).toMatchObject({ object: { status: { succeeded: 1 } } });
  });

  test("waits ten seconds after a failure, then twenty, and gives up beyond its limit", () => {
    const world = new TestWorld();
    jobOf(world, { backoffLimit: 2 });
    const waits: number[] = [];
    for (let i = 0; i < 3; i++) {
      world.settle((each) => {
        turn(each);
        each.kubelet();
      });
      end(world, active(world)[0]!, 1);
      const failedMs = world.nowMs;
      world.settle(turn);
      const { wakeAtMs } = decide(world);
      if (wakeAtMs === undefined) break;
      waits.push((wakeAtMs - failedMs) / 1000);
      world.nowMs = wakeAtMs;
    }
    expect(waits).toEqual([10, 20]);
    expect(job(world).status?.failed).toBe(3);
    expect(condition(world, "Failed")?.reason).toBe("BackoffLimitExceeded");
    expect(job(world).status?.conditions?.map(({ type }) => type)).toEqual(["FailureTarget", "Failed"]);
  });

  test.each([
    { backoffLimit: 0, restarts: 0, givesUp: false },
    { backoffLimit: 0, restarts: 1, givesUp: true },
    { backoffLimit: 3, restarts: 2, givesUp: false },
    { backoffLimit: 3, restarts: 3, givesUp: true },
  ])("with a limit of $backoffLimit, after $restarts restarts in place, gives up: $givesUp", (row) => {
    const world = new TestWorld();
    const { template } = jobOf(world, { backoffLimit: row.backoffLimit }).spec ?? {};
    world.change<Job>("Job", "work", ({ spec }) => {
      if (spec !== undefined && template !== undefined)
        spec.template = { ...template, spec: { containers: [], ...template.spec, restartPolicy: "OnFailure" } };
    });
    turn(world);
    const [pod] = pods(world);
    world.setPhase(pod?.metadata.name ?? "", "Running");
    world.change<Pod>("Pod", pod?.metadata.name ?? "", ({ status }) => {
      const container = { name: "c", image: "i", imageID: "", ready: false, restartCount: row.restarts, state: {} };
      if (status !== undefined) status.containerStatuses = [container];
    });
    world.settle(turn);
    expect(condition(world, "FailureTarget")?.reason).toBe(row.givesUp ? "BackoffLimitExceeded" : undefined);
  });

  test("without completions is done when one pod has succeeded and the others have ended", () => {
    const world = new TestWorld();
    jobOf(world, { parallelism: 3 });
    world.change<Job>("Job", "work", ({ spec }) => {
      delete spec?.completions;
    });
    turn(world);
    world.kubelet();
    end(world, pods(world)[0]!, 0);
    for (let i = 0; i < 5; i++) turn(world);
    expect(pods(world)).toHaveLength(3);
    expect(condition(world, "Complete")).toBeUndefined();
    for (const pod of active(world)) end(world, pod, 0);
    world.settle(turn);
    expect(job(world).status?.succeeded).toBe(3);
    expect(condition(world, "Complete")?.status).toBe("True");
  });

  test("past its deadline sends its pods away and fails", () => {
    const world = new TestWorld();
    jobOf(world, { activeDeadlineSeconds: 60 });
    world.settle((each) => {
      turn(each);
      each.kubelet();
    });
    const { wakeAtMs } = decide(world);
    expect(wakeAtMs).toBe(startMs + 60_000);
    world.nowMs = wakeAtMs ?? 0;
    turn(world);
    expect(condition(world, "FailureTarget")?.reason).toBe("DeadlineExceeded");
    expect(active(world)).toHaveLength(1);
    turn(world);
    expect(active(world)).toHaveLength(0);
    expect(condition(world, "Failed")).toBeUndefined();
    world.settle((each) => {
      turn(each);
      each.kubelet();
    });
    expect(condition(world, "Failed")?.reason).toBe("DeadlineExceeded");
    expect(pods(world)).toHaveLength(0);
  });

  test("that is suspended has no pods and no failures, and restarts its clock when it is resumed", () => {
    const world = new TestWorld();
    jobOf(world, { parallelism: 2, completions: 2 });
    const settle = () =>
      world.settle((each) => {
        turn(each);
        each.kubelet();
      });
    settle();
    const suspend = (value: boolean) =>
      world.change<Job>("Job", "work", ({ spec }) => {
        if (spec !== undefined) spec.suspend = value;
      });
    suspend(true);
    settle();
    expect(pods(world)).toHaveLength(0);
    expect(job(world).status?.failed).toBeUndefined();
    expect(job(world).status?.startTime).toBeUndefined();
    expect(condition(world, "Suspended")?.status).toBe("True");
    suspend(false);
    world.nowMs += 100_000;
    turn(world);
    expect(job(world).status?.startTime).toBe(formatTime(world.nowMs));
    expect(condition(world, "Suspended")).toMatchObject({ status: "False", reason: "JobResumed" });
    settle();
    expect(active(world)).toHaveLength(2);
  });

  test("is deleted when it has been over for its time to live", () => {
    const world = new TestWorld();
    jobOf(world, { ttlSecondsAfterFinished: 30 });
    run(world, () => 0);
    const { wakeAtMs } = decide(world);
    expect(wakeAtMs).toBeGreaterThan(world.nowMs);
    world.nowMs = wakeAtMs ?? 0;
    expect(decide(world).intents).toMatchObject([{ type: "delete", propagationPolicy: "Foreground" }]);
  });

  test("of another controller is left alone", () => {
    const world = new TestWorld();
    jobOf(world, { managedBy: "kueue.x-k8s.io/multikueue" });
    expect(decide(world).intents).toEqual([]);
  });

  test("adopts a pod together with the duty to count it", () => {
    const world = new TestWorld();
    jobOf(world);
    world.add<Pod>({ apiVersion: "v1", kind: "Pod", metadata: { name: "stray", labels }, spec: { containers: [] } });
    turn(world);
    expect(pods(world)[0]?.metadata.finalizers).toEqual(["batch.kubernetes.io/job-tracking"]);
    run(world, () => 0);
    expect(job(world).status?.succeeded).toBe(1);
    expect(pods(world)).toHaveLength(1);
  });

  test("that is gone leaves pods which let go", () => {
    const world = new TestWorld();
    jobOf(world);
    turn(world);
    const [pod] = pods(world);
    expect(decideOrphanedJobPod(pod!, job(world)).intents).toEqual([]);
    expect(decideOrphanedJobPod(pod!, undefined).intents).toMatchObject([{ type: "patch" }]);
  });
});

describe("an Indexed Job", () => {
  test("tells each pod its index by name, label, annotation, host name and environment", () => {
    const world = new TestWorld();
    jobOf(world, { completionMode: "Indexed", completions: 3, parallelism: 3 });
    turn(world);
    const pod = pods(world)[2]!;
    expect(pod.metadata.name).toMatch(/^work-2-[a-z0-9]{5}$/);
    expect(pod.metadata.labels?.["batch.kubernetes.io/job-completion-index"]).toBe("2");
    expect(pod.spec?.hostname).toBe("work-2");
    expect(pod.spec?.containers[0]?.env?.[0]?.name).toBe("JOB_COMPLETION_INDEX");
  });

  test("has each index succeed once", () => {
    const world = new TestWorld();
    jobOf(world, { completionMode: "Indexed", completions: 5, parallelism: 2 });
    run(world, () => 0);
    expect(job(world).status).toMatchObject({ succeeded: 5, completedIndexes: "0-4" });
    expect(pods(world)).toHaveLength(5);
  });

  test("with a limit per index gives one index up and finishes the others", () => {
    const world = new TestWorld();
    const spec = { completions: 4, parallelism: 4, backoffLimitPerIndex: 1, backoffLimit: 2 ** 31 - 1 };
    jobOf(world, { completionMode: "Indexed", ...spec });
    run(world, (pod) => (indexOf(pod) === 2 ? 1 : 0));
    expect(job(world).status).toMatchObject({ completedIndexes: "0-1,3", failedIndexes: "2", failed: 2 });
    expect(condition(world, "Failed")?.reason).toBe("FailedIndexes");
  });

  test("with more failed indexes than it may have ends at once", () => {
    const world = new TestWorld();
    const spec = { completions: 4, parallelism: 4, backoffLimitPerIndex: 0, maxFailedIndexes: 1 };
    jobOf(world, { completionMode: "Indexed", ...spec });
    run(world, (pod) => (indexOf(pod) < 2 ? 1 : undefined));
    expect(condition(world, "Failed")?.reason).toBe("MaxFailedIndexesExceeded");
  });

  test("is done when its success policy is met, and the pods it sends away have not failed", () => {
    const world = new TestWorld();
    const successPolicy = { rules: [{ succeededIndexes: "1-2", succeededCount: 1 }] };
    jobOf(world, { completionMode: "Indexed", completions: 4, parallelism: 4, successPolicy });
    run(world, (pod) => (indexOf(pod) === 2 ? 0 : undefined));
    expect(condition(world, "Complete")?.reason).toBe("SuccessPolicy");
    expect(job(world).status).toMatchObject({ succeeded: 1, completedIndexes: "2" });
    expect(active(world)).toHaveLength(0);
  });
});

describe("a pod failure policy", () => {
  const policy = (action: string) => ({
    rules: [{ action, onExitCodes: { operator: "In", values: [42] } }],
  });

  test("that fails the Job does so at the first such exit code", () => {
    const world = new TestWorld();
    jobOf(world, { podFailurePolicy: policy("FailJob") });
    run(world, () => 42);
    expect(condition(world, "Failed")?.reason).toBe("PodFailurePolicy");
    expect(job(world).status?.failed).toBe(1);
  });

  test("that ignores a failure does not count it", () => {
    const world = new TestWorld();
    jobOf(world, { podFailurePolicy: policy("Ignore"), backoffLimit: 0 });
    let failures = 3;
    run(world, () => (failures-- > 0 ? 42 : 0));
    expect(condition(world, "Complete")?.status).toBe("True");
    expect(job(world).status?.failed).toBeUndefined();
  });

  test("that fails the index spares the others", () => {
    const world = new TestWorld();
    const spec = { completions: 2, parallelism: 2, backoffLimitPerIndex: 5, backoffLimit: 1000 };
    jobOf(world, { completionMode: "Indexed", ...spec, podFailurePolicy: policy("FailIndex") });
    run(world, (pod) => (indexOf(pod) === 0 ? 42 : 0));
    expect(job(world).status).toMatchObject({ completedIndexes: "1", failedIndexes: "0", failed: 1 });
  });

  test("matches a condition such as DisruptionTarget", () => {
    const world = new TestWorld();
    const rule = { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] };
    jobOf(world, { podFailurePolicy: { rules: [rule] }, backoffLimit: 0 });
    turn(world);
    world.kubelet();
    const [pod] = pods(world);
    end(world, pod!, 137);
    world.change<Pod>("Pod", pod!.metadata.name, ({ status }) => {
      status?.conditions?.push({ type: "DisruptionTarget", status: "True" });
    });
    run(world, () => 0);
    expect(condition(world, "Complete")?.status).toBe("True");
  });
});

test("a replacement waits for the end of a leaving pod only where the policy says Failed", () => {
  for (const [podReplacementPolicy, count] of [
    ["Failed", 1],
    ["TerminatingOrFailed", 2],
  ] as const) {
    const world = new TestWorld();
    jobOf(world, { podReplacementPolicy });
    turn(world);
    world.kubelet();
    world.remove(pods(world)[0]!);
    world.nowMs += 20_000;
    for (let i = 0; i < 4; i++) turn(world);
    expect(pods(world)).toHaveLength(count);
    expect(job(world).status?.terminating).toBe(1);
  }
});

test("a Job never counts a pod twice and counts every one, whatever the order of events", () => {
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
        const world = new TestWorld();
        const completionMode = indexed ? "Indexed" : "NonIndexed";
        jobOf(world, { parallelism, completions, completionMode, backoffLimit: 1000 });
        const succeeded = new Set<string>();
        const ended = new Set<string>();
        const note = (exit: number) => (pod: Pod | undefined) => {
          if (pod === undefined || pod.status?.phase !== "Running") return;
          end(world, pod, exit);
          // A pod that was already leaving has been counted as failed, or will be as what it ends as.
          if (exit === 0) succeeded.add(pod.metadata.uid);
          ended.add(pod.metadata.uid);
        };
        for (const { kind, at } of steps) {
          const pod = pods(world)[at];
          if (kind === "turn") turn(world);
          else if (kind === "succeed") note(0)(active(world)[at]);
          else if (kind === "fail") note(1)(active(world)[at]);
          else if (kind === "kubelet") world.kubelet();
          else if (kind === "time") world.nowMs += 30_000;
          else if (pod !== undefined) {
            if (pod.status?.phase !== "Succeeded") ended.add(pod.metadata.uid);
            world.remove(pod);
          }
          const { status } = job(world);
          if (!indexed) expect(status?.succeeded ?? 0).toBeLessThanOrEqual(succeeded.size);
          expect((status?.succeeded ?? 0) + (status?.failed ?? 0)).toBeLessThanOrEqual(ended.size);
        }
        world.settle((each) => {
          turn(each);
          for (const pod of active(each)) note(0)(pod);
          each.kubelet();
          const { wakeAtMs, intents } = decide(each);
          if (wakeAtMs !== undefined && intents.length === 0) {
            each.nowMs = Math.max(each.nowMs, wakeAtMs);
            each.revision++;
          }
        });
        const { status } = job(world);
        expect(isTrue(status?.conditions, "Complete")).toBe(true);
        if (indexed) expect(status?.succeeded).toBe(completions);
        else expect(status?.succeeded).toBe(succeeded.size);
        if (!indexed) expect((status?.succeeded ?? 0) + (status?.failed ?? 0)).toBe(ended.size);
        expect(decide(world).intents).toEqual([]);
        expect(world.conflicts).toBe(0);
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
        const world = new TestWorld();
        jobOf(world, { parallelism: 4, completions: 6 });
        turn(world);
        world.kubelet();
        for (const [i, pod] of pods(world).entries()) if (codes[i] !== undefined) end(world, pod, codes[i] ?? 0);
        for (let i = 0; i < turns; i++) turn(world);
        const snapshot = { revision: "1", job: job(world) };
        const forth = decideJob({ ...snapshot, pods: pods(world) }, world.nowMs);
        expect(decideJob({ ...snapshot, pods: pods(world).reverse() }, world.nowMs)).toEqual(forth);
      },
    ),
    { numRuns: 50 },
  );
});
