/** Flakes that were seen in the field, as timelines: what the cluster did, and what must be said about it. */
import { describe, expect, test } from "vitest";
import { guardTarget } from "../../src/control/verify/guardTarget.ts";
import { budgetMs } from "../../src/decide/verify/settling.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Status } from "../../src/model/objects/status.ts";
import { type Refusal, refused } from "../../src/model/outcome.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { anHourAgo, custom, event, job, node, owner, pod, pods, refusedBy, startMs } from "./builders.ts";
import { play } from "./play.ts";
import { type ListCall, type Moment, ScriptedApi } from "./scriptedApi.ts";

const nodes = [node("n1"), node("n2")];
const unbound = (key: string, status: object = {}): KubeObject => pod(key, { node: "", status });

/** One pod waits from the start and gets its node at `boundAtS`. */
function waitsUntil(boundAtS: number, key: string, others: readonly KubeObject[] = []): Moment[] {
  return [
    { atS: 0, nodes, pods: [...others, unbound(key)] },
    { atS: boundAtS, pods: [...others, pod(key)] },
  ];
}

/** One pod waits for ever. */
function startWaitPending(waiting: readonly KubeObject[], more: Partial<Moment> = {}): Moment[] {
  return [{ atS: 0, nodes, pods: [...pods(3), ...waiting], ...more }];
}

const tooLarge: Status = {
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  code: 504,
  reason: "Timeout",
  details: { causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }] },
};

const count = (text: string, line: string): number => text.split(line).length - 1;

describe("settling", () => {
  test("a pod created and bound between two queries: all numbers are of one instant, and it passes", async () => {
    const { text, exitCode, result } = await play({ moments: waitsUntil(3, "team/late", pods(19)) });
    expect(exitCode).toBe(0);
    expect(result?.attempts).toBe(2);
    expect(text).toContain("Attempt 1: 20 total, 19 running, 1 pending (1 unscheduled), 0 failed");
    expect(text).toContain("Pod status: 20 total, 20 running, 0 pending (0 unscheduled), 0 failed (attempts=2");
    expect(count(text, "Attempt ")).toBe(1);
    expect(count(text, "Pod status:")).toBe(1);
    expect(text).not.toContain("Unscheduled pods:");
  });

  test("a snapshot with nothing unscheduled takes one attempt", async () => {
    const { exitCode, result, text } = await play({ moments: [{ atS: 0, nodes, pods: pods(20) }] });
    expect({ exitCode, attempts: result?.attempts, waited: result?.waitedMs }).toEqual({
      exitCode: 0,
      attempts: 1,
      waited: 0,
    });
    expect(text).toContain(
      "Pod status: 20 total, 20 running, 0 pending (0 unscheduled), 0 failed (attempts=1, waited=0s)",
    );
  });

  test("a pod that no scheduler has tried yet is waited for", async () => {
    const key = "cert-manager/cert-manager-786cc54854-kngvm";
    const other = pod("cert-manager/other", { phase: "Pending" });
    const { text, exitCode, result } = await play({ moments: waitsUntil(12, key, [other]) });
    expect(exitCode).toBe(0);
    expect(result?.attempts).toBeGreaterThan(1);
    expect(text).toContain("Attempt 1: 2 total, 0 running, 2 pending (1 unscheduled), 0 failed");
    expect(text).toMatch(/Attempt 1: .*1 without a scheduling attempt in their status/);
    expect(result?.history[0]?.pods).toEqual([key]);
  });

  test("eleven run and the operator's pod is late: it passes", async () => {
    const key = "skyhook/skyhook-operator-controller-manager-596b99b857-8shfm";
    const { text, exitCode } = await play({ moments: waitsUntil(21, key, pods(11)) });
    expect(exitCode).toBe(0);
    expect(text).toContain("Attempt 1: 12 total, 11 running, 1 pending (1 unscheduled), 0 failed");
    expect(text).toContain(
      "Pod status: 12 total, 12 running, 0 pending (0 unscheduled), 0 failed (attempts=6, waited=25s)",
    );
  });

  test("a watch ends the wait when the pod is bound, not when the interval is over", async () => {
    const { exitCode, result, tookS } = await play({ moments: waitsUntil(7, "team/late", pods(2)), watches: true });
    expect(exitCode).toBe(0);
    expect(result?.waitedMs).toBe(7_250);
    expect(tookS).toBeLessThanOrEqual(7.5);
  });

  test("a watch ends the wait when a pod fails, though others still wait", async () => {
    const waiting = unbound("team/waits");
    const moments = [
      { atS: 0, nodes, pods: [...pods(2), waiting] },
      { atS: 7, pods: [...pods(2), waiting, pod("team/broken", { phase: "Failed" })] },
    ];
    const { exitCode, result } = await play({ moments, watches: true });
    expect({ exitCode, waitedMs: result?.waitedMs }).toEqual({ exitCode: 1, waitedMs: 7_250 });
  });

  test("a pod that requests more than any node has: thirteen attempts, sixty seconds, its reasons", async () => {
    const message = "0/6 nodes are available: 4 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}.";
    const greedy = pod("team/nine-gpus", { node: "", requests: { "nvidia.com/gpu": "9" }, status: refusedBy(message) });
    const events = [event(greedy, "FailedScheduling", message, "2026-05-28T11:59:00Z")];
    const { text, exitCode, result, api } = await play({ moments: startWaitPending([greedy], { events }) });
    expect(exitCode).toBe(1);
    expect(result).toMatchObject({ attempts: 13, waitedMs: 60_000, verdict: "fail" });
    expect(api.calls.filter(({ kind }) => kind === "pods").map(({ atS }) => atS)).toEqual([
      0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60,
    ]);
    expect(text).toContain("team/nine-gpus Pending <none>");
    expect(text).toContain("refused: 4 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}");
    expect(text).toContain("team/nine-gpus: 2026-05-28T11:59:00Z FailedScheduling (x1): 0/6 nodes are available");
    expect(text).toContain("requests nvidia.com/gpu=9");
  });

  test("a window of zero is one attempt, and it fails", async () => {
    const { exitCode, result } = await play({ moments: startWaitPending([unbound("team/p")]) }, { settle: "0" });
    expect({ exitCode, attempts: result?.attempts }).toEqual({ exitCode: 1, attempts: 1 });
  });

  test("an interval longer than the window is cut: the last attempt is at the deadline", async () => {
    const { exitCode, result, api } = await play(
      { moments: waitsUntil(70, "team/p") },
      { interval: "100", settle: "60" },
    );
    expect(exitCode).toBe(1);
    expect(result).toMatchObject({ attempts: 2, waitedMs: 60_000 });
    expect(api.calls.filter(({ kind }) => kind === "pods").map(({ atS }) => atS)).toEqual([0, 60]);
  });

  test("bound pods that have not started are scheduled", async () => {
    const starting = ["a", "b", "c"].map((name) => pod(`team/${name}`, { phase: "Pending" }));
    const { exitCode, text } = await play({ moments: [{ atS: 0, nodes, pods: starting }] });
    expect(exitCode).toBe(0);
    expect(text).toContain("3 total, 0 running, 3 pending (0 unscheduled), 0 failed");
    expect(text).toContain("PASSED: all 3 pods accounted for: 3 bound and starting");
  });

  test("with --require-running it waits until bound pods run, or names those that do not", async () => {
    const at = (phase: string): KubeObject[] => ["a", "b"].map((name) => pod(`team/${name}`, { phase }));
    const moments = [
      { atS: 0, nodes, pods: at("Pending") },
      { atS: 14, pods: at("Running") },
    ];
    const good = await play({ moments }, { requireRunning: true });
    expect({ exitCode: good.exitCode, waitedMs: good.result?.waitedMs }).toEqual({ exitCode: 0, waitedMs: 15_000 });
    const never = await play({ moments: moments.slice(0, 1) }, { requireRunning: true });
    expect(never.exitCode).toBe(1);
    expect(never.text).toContain("Bound pods that are not running:");
    expect(never.text).toContain("team/a");
  });

  const churn: Moment[] = [
    { atS: 0, nodes, pods: [unbound("team/a")] },
    { atS: 10, pods: [pod("team/a"), unbound("team/b1")] },
    { atS: 20, pods: [pod("team/a"), pod("team/b1"), unbound("team/b2")] },
    { atS: 58, pods: [pod("team/a"), pod("team/b1"), pod("team/b2"), unbound("team/b3")] },
  ];
  test("a pod that appeared two seconds before the deadline is settling and does not fail the run", async () => {
    const { exitCode, text, result } = await play({ moments: churn });
    expect(exitCode).toBe(0);
    expect(result?.counts).toMatchObject({ unscheduled: 1, settling: 1 });
    expect(text).toContain("4 total, 3 running, 1 pending (1 unscheduled), 0 failed (attempts=13, waited=60s)");
    expect(text).toContain("Settling pods:");
    expect(text).toContain("team/b3");
    expect(text).toContain("PASSED: all 4 pods accounted for: 3 running, 1 settling");
  });

  const nineGpus = refusedBy("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.");
  const ungated = (late: KubeObject, more: Partial<Moment> = {}): Moment[] => [
    { atS: 0, nodes, pods: [pod("team/base", { node: "", spec: { schedulingGates: [{ name: "wait" }] } })] },
    { atS: 2, pods: [pod("team/base"), late], ...more },
  ];

  test("a pod that was refused while verify waited fails the run, however long the interval is", async () => {
    const script = { moments: ungated(unbound("team/nine", nineGpus)), watches: true };
    const { exitCode, text, result } = await play(script, { settle: "60", interval: "30" });
    expect(exitCode).toBe(1);
    expect(result?.counts).toMatchObject({ unscheduled: 1, settling: 0 });
    expect(text).toMatch(/2 total, 1 running, 1 pending \(1 unscheduled\), 0 failed \(attempts=\d, waited=60s\)/);
    expect(text).toContain("refused: 2 Insufficient nvidia.com/gpu");
  });

  test.each([
    { name: "its condition says", late: unbound("team/late", nineGpus), events: [] },
    {
      name: "only an event says",
      late: unbound("team/late"),
      events: [event(unbound("team/late"), "FailedScheduling", "0/2 nodes are available: 2 x.", anHourAgo)],
    },
    {
      name: "a nomination says",
      late: unbound("team/late", { nominatedNodeName: "n2" }),
      events: [],
    },
    {
      name: "the event of a pod that waits for a release says",
      late: unbound("team/late"),
      events: [event(unbound("team/late"), "Pipelined", "waits for what is being released on n2", anHourAgo)],
    },
  ])("a pod that appeared a second ago and that, as $name, a scheduler has tried is not settling", async (about) => {
    const moments = [
      { atS: 0, nodes, pods: [pod("team/a"), unbound("team/b")] },
      { atS: 59, pods: [pod("team/a"), pod("team/b"), about.late], events: about.events },
    ];
    const { exitCode, result } = await play({ moments });
    expect(exitCode).toBe(1);
    expect(result?.unscheduled.map(({ name }) => name)).toEqual(["late"]);
    expect(result?.counts).toMatchObject({ unscheduled: 1, settling: 0 });
  });

  test("a gated pod that appeared a second ago has not been tried, and is settling", async () => {
    const late = pod("team/late", {
      node: "",
      spec: { schedulingGates: [{ name: "wait" }] },
      status: { conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }] },
    });
    const moments = [
      { atS: 0, nodes, pods: [pod("team/a"), unbound("team/b")] },
      { atS: 59, pods: [pod("team/a"), pod("team/b"), late] },
    ];
    expect((await play({ moments })).exitCode).toBe(0);
  });

  test("without events nothing proves that a new pod was not refused: it fails the run", async () => {
    const script = {
      moments: churn,
      refuse: ({ kind }: ListCall) => (kind === "events" ? refused("Forbidden", "no events for you") : undefined),
    };
    const { exitCode, text } = await play(script);
    expect(exitCode).toBe(1);
    expect(text).toContain("events could not be read: no events for you");
    expect(text).toContain("team/b3 Pending <none>");
  });

  test.each([
    { settle: "60", interval: "30", appearsS: 29, exits: 1 },
    { settle: "60", interval: "30", appearsS: 59, exits: 0 },
    { settle: "60", interval: "5", appearsS: 52, exits: 0 },
    { settle: "8", interval: "5", appearsS: 4, exits: 1 },
  ])(
    "the grace of a pod that no scheduler tried is a quarter of the window at most: $settle/$interval, from second $appearsS",
    async (about) => {
      const { settle, interval, appearsS, exits } = about;
      const moments = [
        { atS: 0, nodes, pods: [unbound("team/a")] },
        { atS: appearsS, pods: [pod("team/a"), unbound("team/late")] },
      ];
      expect((await play({ moments }, { settle, interval })).exitCode).toBe(exits);
    },
  );

  test("with --strict a pod that appeared two seconds before the deadline fails the run", async () => {
    const { exitCode } = await play({ moments: churn }, { strict: true });
    expect(exitCode).toBe(1);
  });

  test("a pod that has existed for longer than the grace fails as any other", async () => {
    const moments = [
      ...churn.slice(0, 3),
      { atS: 44, pods: [pod("team/a"), pod("team/b1"), pod("team/b2"), unbound("team/b3")] },
    ];
    const { exitCode, text } = await play({ moments });
    expect(exitCode).toBe(1);
    expect(text).toContain("team/b3 Pending <none>");
  });
});

describe("what does not count, and what does", () => {
  test("events of others are not shown; a pod without events was not tried", async () => {
    const coredns = pod("kube-system/coredns-1", { node: "" });
    const provisioner = pod("local-path-storage/provisioner", { node: "" });
    const taint = "0/1 nodes are available: 1 node(s) had untolerated taint {nfd-excluded: true}.";
    const events = [
      event(coredns, "FailedScheduling", taint, "2026-05-28T11:50:00Z"),
      event(coredns, "FailedScheduling", taint, "2026-05-28T11:55:00Z"),
      event(provisioner, "FailedScheduling", taint, "2026-05-28T11:56:00Z"),
    ];
    const { text, exitCode } = await play({
      moments: startWaitPending([unbound("a/p"), coredns, provisioner], { events }),
    });
    expect(exitCode).toBe(1);
    expect(text).toContain("a/p: no FailedScheduling event: no scheduler has tried the pod");
    expect(text).not.toContain("coredns");
    expect(text).not.toContain("nfd-excluded");
  });

  test("an Unschedulable event of KAI is a refusal, and no other event is missed", async () => {
    const waiting = unbound("team/p");
    const events = [event(waiting, "Unschedulable", "no node has 9 GPUs", "2026-05-28T11:55:00Z")];
    const { text } = await play({ moments: startWaitPending([waiting], { events }) });
    expect(text).toContain("Unschedulable (x1): no node has 9 GPUs");
    expect(text).not.toContain("no FailedScheduling event");
  });

  test("a hook's Job may wait for ever, and is counted as ignored", async () => {
    const hook = pod("team/migrate-x", { node: "", owner: owner("Job", "migrate") });
    const jobs = [job("team/migrate", { annotations: { "helm.sh/hook": "post-install" } })];
    const { exitCode, text, result } = await play({ moments: startWaitPending([hook], { jobs }) });
    expect({ exitCode, attempts: result?.attempts }).toEqual({ exitCode: 0, attempts: 1 });
    expect(text).toContain("ignored (Job hook): 1: team/migrate-x");
    expect(result?.counts).toMatchObject({ ignoredJobs: 1, pending: 1, unscheduled: 0 });
  });

  test("a Job that is not a hook is waited for, unless --ignore-jobs", async () => {
    const training = pod("team/train-x", { node: "", owner: owner("Job", "train") });
    const moments = startWaitPending([training], { jobs: [job("team/train")] });
    expect((await play({ moments })).exitCode).toBe(1);
    expect((await play({ moments }, { ignoreJobs: true })).exitCode).toBe(0);
  });

  test.each(["JobSet", "PyTorchJob", "CronJob", "TrainJob", "RayJob"])(
    "pods of a %s are no Job pods: they are unscheduled",
    async (kind) => {
      const of = owner(kind, "train", "example.io/v1");
      const members = ["a", "b"].map((name) => pod(`team/${name}`, { node: "", owner: of }));
      const moments = [{ atS: 0, nodes, pods: [pod("team/ok"), ...members] }];
      const { exitCode, text, result } = await play({ moments });
      expect(exitCode).toBe(1);
      expect(result?.counts?.unscheduled).toBe(2);
      expect((await play({ moments }, { ignoreJobs: true })).exitCode).toBe(1);
      expect(text).toContain("3 total, 1 running, 2 pending (2 unscheduled), 0 failed (attempts=13, waited=60s)");
    },
  );

  const oom = pod("team/oom", {
    phase: "Failed",
    status: {
      initContainerStatuses: [{ name: "prepare", state: { terminated: { exitCode: 0, reason: "Completed" } } }],
      containerStatuses: [
        { name: "main", state: { terminated: { exitCode: 137, reason: "OOMKilled" } } },
        { name: "side", state: { terminated: { exitCode: 1, reason: "Error", message: "lost its peer" } } },
      ],
    },
  });

  test("a failed pod stays failed: no waiting, and the block is of this snapshot", async () => {
    const elsewhere = pod("kube-system/broken", { phase: "Failed" });
    const { exitCode, text, result, tookS } = await play({
      moments: [{ atS: 0, nodes, pods: [...pods(4), oom, elsewhere] }],
    });
    expect({ exitCode, attempts: result?.attempts, tookS }).toEqual({ exitCode: 1, attempts: 1, tookS: 0 });
    expect(text).toContain("5 total, 4 running, 0 pending (0 unscheduled), 1 failed");
    expect(text).toContain("Failed pods:");
    expect(text).toContain("team/oom on n1: OOMKilled");
    expect(text).toContain("container main: OOMKilled, exit code 137");
    expect(text).toContain("container side: Error, exit code 1: lost its peer");
    expect(text).not.toContain("kube-system/broken");
  });

  test("a pod that fails while terminating has the window to be deleted, except in the harness's mode", async () => {
    const leaving = pod("team/old", { phase: "Failed", deleted: anHourAgo });
    const moments = [
      { atS: 0, nodes, pods: [...pods(2), leaving] },
      { atS: 12, pods: pods(2) },
    ];
    const gone = await play({ moments });
    expect(gone.exitCode).toBe(0);
    expect(gone.text).toContain("3 total, 2 running, 0 pending (0 unscheduled), 1 failed (waited=0s, deadline=60s; ");
    expect(gone.text).toContain("waiting for 1 failed and being deleted");
    const stays = await play({ moments: moments.slice(0, 1) });
    expect({ exitCode: stays.exitCode, waitedMs: stays.result?.waitedMs }).toEqual({ exitCode: 1, waitedMs: 60_000 });
    const besideAnother = await play({ moments: [{ atS: 0, nodes, pods: [oom, leaving] }] });
    expect({ exitCode: besideAnother.exitCode, attempts: besideAnother.result?.attempts }).toEqual({
      exitCode: 1,
      attempts: 1,
    });
    const harness = await play({ moments }, { compat: "aicr" });
    expect({ exitCode: harness.exitCode, attempts: harness.result?.attempts }).toEqual({ exitCode: 1, attempts: 1 });
  });

  test("a failed pod of a Job that still retries does not fail the run; one of a failed Job does", async () => {
    const failed = pod("team/try-1", { phase: "Failed", owner: owner("Job", "try") });
    const at = (status: object): Moment[] => [
      { atS: 0, nodes, pods: [...pods(2), failed], jobs: [job("team/try", { status })] },
    ];
    const tries = await play({ moments: at({ active: 1, failed: 1 }) });
    expect(tries.exitCode).toBe(0);
    expect(tries.text).toContain("failed and replaced: 1: team/try-1");
    const gaveUp = await play({ moments: at({ conditions: [{ type: "Failed", status: "True" }] }) });
    expect(gaveUp.exitCode).toBe(1);
  });

  test("an evicted pod that was replaced does not fail the run, unless --fail-on-evicted", async () => {
    const set = owner("ReplicaSet", "web", "apps/v1");
    const evicted = pod("team/web-1", { phase: "Failed", owner: set, status: { reason: "Evicted" } });
    const next = pod("team/web-2", { owner: set, created: "2026-05-28T11:30:00Z" });
    const moments = [{ atS: 0, nodes, pods: [evicted, next] }];
    expect((await play({ moments })).exitCode).toBe(0);
    expect((await play({ moments }, { failOnEvicted: true })).exitCode).toBe(1);
    expect(
      (await play({ moments: [{ atS: 0, nodes, pods: [evicted, pod("team/web-0", { owner: set })] }] })).exitCode,
    ).toBe(1);
  });

  test("a failed and an unscheduled pod: both blocks, no waiting", async () => {
    const { exitCode, text, result } = await play({
      moments: [{ atS: 0, nodes, pods: [...pods(4), oom, unbound("team/p")] }],
    });
    expect({ exitCode, attempts: result?.attempts }).toEqual({ exitCode: 1, attempts: 1 });
    expect(text).toContain("6 total, 4 running, 1 pending (1 unscheduled), 1 failed");
    expect(text).toContain("Unscheduled pods:");
    expect(text).toContain("Failed pods:");
  });

  test.each([
    { name: "nothing was created", there: [] },
    { name: "only excluded namespaces have pods", there: [pod("flux-system/source"), pod("kube-system/dns")] },
  ])("$name: nothing to verify, unless that is allowed", async ({ there }) => {
    const moments = [{ atS: 0, nodes, pods: there }];
    const strict = await play({ moments });
    expect({ exitCode: strict.exitCode, verdict: strict.result?.verdict }).toEqual({ exitCode: 4, verdict: "empty" });
    expect(strict.text).toContain("nothing to verify");
    const allowed = await play({ moments }, { allowEmpty: true });
    expect(allowed.exitCode).toBe(0);
    expect(allowed.text).toContain("[WARN] No pods were created - bundle may be empty");
  });

  test("a namespace is excluded by its whole name", async () => {
    const moments = [{ atS: 0, nodes, pods: [unbound("kube-system-extra/p")] }];
    expect((await play({ moments }, { settle: "0" })).exitCode).toBe(1);
    expect(
      (await play({ moments }, { settle: "0", excludeNamespace: ["kube-system-extra"], allowEmpty: true })).exitCode,
    ).toBe(0);
  });

  test("thousands of events: the newest five of each pod, and the last line is printed", async () => {
    const waiting = unbound("team/p", refusedBy("0/2 nodes are available: 2 Insufficient cpu."));
    const events = Array.from({ length: 300 }, (_, at) => {
      const time = new Date(startMs - (300 - at) * 1000).toISOString().replace(".000", "");
      return event(waiting, "FailedScheduling", `try ${at}`, time);
    });
    const { text, exitCode, result } = await play({ moments: startWaitPending([waiting], { events }) });
    expect(exitCode).toBe(1);
    expect(result?.unscheduled[0]?.events.map(({ message }) => message)).toEqual([
      "try 299",
      "try 298",
      "try 297",
      "try 296",
      "try 295",
    ]);
    expect(text).toContain("and 295 older events");
    expect(text).toContain("Scheduling validation FAILED");
  });

  test("fifty-five refused pods: each is called refused, though only fifty events are printed", async () => {
    const waiting = Array.from({ length: 55 }, (_, at) => unbound(`team/p${String(at).padStart(2, "0")}`));
    const events = waiting.map((each) =>
      event(each, "FailedScheduling", "0/2 nodes are available: 2 Insufficient cpu.", anHourAgo),
    );
    const { text, result } = await play({ moments: startWaitPending(waiting, { events }) }, { settle: "0" });
    expect(new Set(result?.unscheduled.map((each) => each.class))).toEqual(new Set(["refused"]));
    expect(result?.checks.find(({ id }) => id === "S12")?.message).toBe("55 refused");
    expect(count(text, "FailedScheduling (x1)")).toBe(50);
    expect(text).not.toMatch(/never tried|has not tried|no FailedScheduling event|older events/);
    expect(text).toContain("and 5 events of 5 more pods");
  });

  test("a refusal that five newer events push out of print is still a refusal", async () => {
    const waiting = unbound("team/p");
    const later = Array.from({ length: 6 }, (_, at) =>
      event(waiting, "TriggeredScaleUp", `group ${at}`, `2026-05-28T11:30:0${at}Z`),
    );
    const first = event(waiting, "FailedScheduling", "0/2 nodes are available: 2 Insufficient cpu.", anHourAgo);
    const { text, result } = await play({ moments: startWaitPending([waiting], { events: [first, ...later] }) });
    expect(result?.unscheduled[0]).toMatchObject({
      class: "refused",
      reasons: [{ nodes: 2, reason: "Insufficient cpu" }],
    });
    expect(text).not.toContain("no FailedScheduling event");
    expect(text).toContain("and 2 older events");
  });

  test("with an expectation of components, pods of some of them never pass", async () => {
    const web = pods(5, "web").map((each) => ({ ...each, metadata: { ...each.metadata, labels: { app: "web" } } }));
    const late = pod("gpu-operator/operator-x", { owner: owner("ReplicaSet", "gpu-operator", "apps/v1") });
    const short = await play({ moments: [{ atS: 0, nodes, pods: web }] }, { expectWorkload: ["web", "gpu-operator"] });
    expect(short.exitCode).toBe(1);
    expect(short.result?.waitedMs).toBe(60_000);
    expect(short.text).toContain("component gpu-operator has no pods");
    const moments = [
      { atS: 0, nodes, pods: web },
      { atS: 30, pods: [...web, late] },
    ];
    const inTime = await play({ moments }, { expectWorkload: ["web", "gpu-operator"] });
    expect({ exitCode: inTime.exitCode, waitedMs: inTime.result?.waitedMs }).toEqual({ exitCode: 0, waitedMs: 30_000 });
    const few = await play({ moments: [{ atS: 0, nodes, pods: pods(13) }] }, { expectMin: "35" });
    expect(few.exitCode).toBe(1);
    expect(few.text).toContain("13 pods in scope, at least 35 expected");
  });
});

describe("without a snapshot there is no verdict", () => {
  test("an API that cannot be reached is tried until the deadline; no counts are printed", async () => {
    const refuse = () => refused("Unavailable", "connect ECONNREFUSED 127.0.0.1:6443");
    const { exitCode, text, result } = await play({ moments: startWaitPending([]), refuse });
    expect(exitCode).toBe(3);
    expect(text).toContain("Failed to list pods: connect ECONNREFUSED");
    expect(text).not.toContain("Pod status:");
    expect(result).toMatchObject({ verdict: "error", attempts: 13, error: { class: "unreachable" } });
    expect(result?.counts).toBeUndefined();
  });

  test.each([
    { reason: "Unauthorized", cls: "unauthorized" },
    { reason: "Forbidden", cls: "forbidden" },
  ] as const)("$reason in the middle of the window ends it at once", async ({ reason, cls }) => {
    const refuse = ({ nth }: { nth: number }) => (nth > 1 ? refused(reason, "no") : undefined);
    const { exitCode, result, tookS } = await play({ moments: startWaitPending([unbound("team/p")]), refuse });
    expect(exitCode).toBe(3);
    expect(result?.error?.class).toBe(cls);
    expect(tookS).toBeLessThanOrEqual(5.5);
  });

  test.each(["TooManyRequests", "Unavailable", "Unknown"] as const)(
    "%s is retried until the deadline, then the result is unknown",
    async (reason) => {
      const refuse = ({ nth }: { nth: number }) => (nth > 1 ? refused(reason, "try later") : undefined);
      const { exitCode, result, text } = await play({ moments: startWaitPending([unbound("team/p")]), refuse });
      expect(exitCode).toBe(3);
      expect(result).toMatchObject({ attempts: 13, waitedMs: 60_000 });
      expect(text).toContain("try later");
      expect(text).not.toContain("Pod status:");
    },
  );

  test.each([
    { name: "that never answers", hang: () => true, settle: "60", endsS: 60 },
    { name: "that never answers, in a short window,", hang: () => true, settle: "20", endsS: 20 },
    { name: "that never answers, in one look,", hang: () => true, settle: "0", endsS: 10 },
    { name: "that falls silent", hang: ({ atS }: ListCall) => atS >= 5, settle: "60", endsS: 60 },
    { name: "that answers half", hang: ({ kind }: ListCall) => kind === "nodes", settle: "60", endsS: 60 },
    { name: "that answers half, in one look,", hang: ({ kind }: ListCall) => kind === "nodes", settle: "0", endsS: 10 },
    { name: "that falls silent before the last look", hang: ({ atS }: ListCall) => atS >= 55, settle: "60", endsS: 60 },
    { name: "that falls silent just before the end", hang: ({ atS }: ListCall) => atS >= 11, settle: "12", endsS: 14 },
    { name: "that falls silent at the end", hang: ({ atS }: ListCall) => atS >= 60, settle: "60", endsS: 62 },
  ])("an API $name is given up when the window is over, and the result is unknown", async ({ hang, settle, endsS }) => {
    const script = { moments: startWaitPending([unbound("team/p")]), hang };
    const { exitCode, result, tookS, text } = await play(script, { settle });
    expect({ exitCode, verdict: result?.verdict, tookS }).toEqual({ exitCode: 3, verdict: "error", tookS: endsS });
    expect(text).toMatch(/Failed to list (pods|nodes): no answer within \d+ s/);
  });

  test("an API that does not answer requests for events delays the verdict by two seconds", async () => {
    const script = { moments: startWaitPending([unbound("team/p")]), hang: ({ kind }: ListCall) => kind === "events" };
    const { exitCode, text, tookS } = await play(script, { settle: "12" });
    expect({ exitCode, tookS }).toEqual({ exitCode: 1, tookS: 14 });
    expect(text).toContain("events could not be read: no answer within 2 s");
  });

  test("a client whose calls never return does not hold the run", async () => {
    const script = { moments: startWaitPending([unbound("team/p")]), hang: () => true, deaf: true };
    const { exitCode, text, tookS } = await play(script, { settle: "12" });
    expect({ exitCode, tookS }).toEqual({ exitCode: 3, tookS: 12 });
    expect(text).toContain("Failed to list pods: no answer within 12 s");
  });

  test("the time spent on finding the cluster is part of the window", async () => {
    const script = { moments: startWaitPending([unbound("team/p")]), hang: ({ atS }: ListCall) => atS >= 5 };
    const { exitCode, tookS } = await play(script, { settle: "12", spentS: 4 });
    expect({ exitCode, tookS }).toEqual({ exitCode: 3, tookS: 8 });
  });

  test("attempts and events that come one by one share one overrun", async () => {
    const moments = startWaitPending([unbound("team/p")]);
    const { exitCode, text, tookS } = await play({ moments, takesS: 9, pageSize: 1 }, { settle: "0" });
    expect({ exitCode, tookS }).toEqual({ exitCode: 1, tookS: 60 });
    expect(text).toContain("events could not be read: no answer within 6 s");
  });

  test("an API that answers slowly is read to the end though the window is over", async () => {
    const moments = startWaitPending([]);
    const { exitCode, result, tookS } = await play({ moments, takesS: 25 }, { settle: "30" });
    expect({ exitCode, verdict: result?.verdict }).toEqual({ exitCode: 0, verdict: "pass" });
    expect(tookS).toBe(75);
  });

  test("an API without pods is no Kubernetes: a 404 ends it at once", async () => {
    const { exitCode, result, tookS } = await play({
      moments: [],
      refuse: () => refused("NotFound", "404 page not found"),
    });
    expect({ exitCode, cls: result?.error?.class, tookS }).toEqual({ exitCode: 3, cls: "no-api", tookS: 0 });
  });

  test("a throttled API is an error of the infrastructure, status other, and not a failed check", async () => {
    const refuse = () => refused("TooManyRequests", "too many requests");
    const { exitCode, result } = await play({ moments: startWaitPending([]), refuse }, { settle: "10" });
    expect(exitCode).toBe(3);
    expect(result?.checks).toEqual([expect.objectContaining({ id: "snapshot", status: "other" })]);
    expect(result?.error?.class).toBe("busy");
  });

  test("one throttled read of gangs does not end the run", async () => {
    const refuse = ({ kind, nth }: { kind: string; nth: number }) =>
      kind === "podgroups" && nth === 1 ? refused("TooManyRequests", "slow down") : undefined;
    const podgroups = [custom("scheduling.run.ai/v2alpha2", "PodGroup", "team/g", { spec: { minMember: 1 } })];
    const moments = [{ atS: 0, nodes, pods: pods(2), podgroups }];
    const { exitCode, result } = await play({ moments, refuse });
    expect(exitCode).toBe(0);
    expect(result).toMatchObject({ attempts: 2, waitedMs: 5_000 });
    expect(result?.checks.find(({ id }) => id === "S5")?.status).toBe("passed");
  });

  test("a forbidden read of gangs ends the run: an error is not the absence of gangs", async () => {
    const refuse = ({ kind }: { kind: string }) => (kind === "podgroups" ? refused("Forbidden", "no") : undefined);
    const { exitCode, text } = await play({ moments: [{ atS: 0, nodes, pods: pods(2) }], refuse });
    expect(exitCode).toBe(3);
    expect(text).toContain("Failed to list podgroups: no (deploy/verify-clusterrole.yaml has the rights");
  });

  test("a list whose token expired is begun again; two revisions are never mixed", async () => {
    const moments = [
      { atS: 0, nodes, pods: pods(5, "old") },
      { atS: 0.1, pods: pods(7, "new") },
    ];
    let expired = 0;
    const refuse = ({ options }: { options: { continueToken?: string } }) =>
      options.continueToken !== undefined && expired++ === 0 ? refused("Expired", "the token is too old") : undefined;
    const { exitCode, result, api } = await play({ moments, refuse, pageSize: 2 });
    expect(exitCode).toBe(0);
    expect(result?.counts?.total).toBe(5);
    expect(result?.snapshot?.coherent).toBe(true);
    expect(
      api.calls.filter(({ kind, options }) => kind === "pods" && options.continueToken === undefined),
    ).toHaveLength(2);
  });

  test("a list whose pages are of two revisions is begun again", async () => {
    let drifted = 0;
    const drift = (): boolean => drifted++ === 0;
    const { exitCode, result, api } = await play({ moments: [{ atS: 0, nodes, pods: pods(5) }], drift, pageSize: 2 });
    expect({ exitCode, total: result?.counts?.total, coherent: result?.snapshot?.coherent }).toEqual({
      exitCode: 0,
      total: 5,
      coherent: true,
    });
    expect(
      api.calls.filter(({ kind, options }) => kind === "pods" && options.continueToken === undefined),
    ).toHaveLength(2);
  });

  test("an object that a check cannot read fails that check, and hides nothing that the others found", async () => {
    const unreadable = pod("team/odd", { requests: { "nvidia.com/gpu": "many" } });
    const { exitCode, result } = await play({ moments: startWaitPending([unreadable]) }, { settle: "0" });
    expect(exitCode).toBe(1);
    expect(result?.checks.filter(({ status }) => status === "failed")).toEqual([
      expect.objectContaining({ id: "S3", message: expect.stringContaining("the check failed with an error") }),
    ]);
  });

  // The pods are of revision 100 at any time; a plain list of nodes is then of revision 101.
  const nodesElsewhere = (why: Refusal) => ({
    moments: [
      { atS: 0, nodes, pods: pods(1) },
      { atS: 0, nodes: [...nodes, node("n3")] },
    ],
    refuse: ({ kind, options }: ListCall) => {
      if (kind === "pods") return undefined;
      return kind === "nodes" && options.resourceVersionMatch === "Exact" ? why : undefined;
    },
  });
  test.each([
    { name: "is forgotten, three times over", why: refused("Expired", "compacted"), podLists: 3 },
    { name: "is of another store", why: { ...refused("Unknown", "too large"), status: tooLarge }, podLists: 1 },
  ])("a kind whose past $name is read as it is, and the result says so", async ({ why, podLists }) => {
    const script = nodesElsewhere(why);
    let lists = 0;
    const { exitCode, result, text, api } = await play({
      ...script,
      refuse: (call) => {
        if (call.kind === "nodes" && call.options.resourceVersionMatch !== "Exact") lists++;
        return script.refuse(call);
      },
      revisionOf: { nodes: "7" },
    });
    expect({ exitCode, lists, podLists: api.listsByKind["pods"] }).toEqual({ exitCode: 0, lists: 1, podLists });
    expect(result?.snapshot).toMatchObject({ coherent: false, versions: { nodes: "7" } });
    expect(result?.snapshot?.incoherent).toEqual([`nodes at 7: ${why.message}`]);
    expect(text).toContain("not all kinds at one revision");
  });
});

describe("durations", () => {
  const moments = startWaitPending([unbound("team/p")]);

  test("an interval of zero is refused before any call", async () => {
    const { exitCode, text, api } = await play({ moments }, { env: { KWOK_VERIFY_PODS_INTERVAL: "0" } });
    expect({ exitCode, calls: api.calls.length }).toEqual({ exitCode: 2, calls: 0 });
    expect(text).toContain('KWOK_VERIFY_PODS_INTERVAL must be at least 1 second, got "0"');
  });

  test.each([
    ["08", 8],
    ["09", 9],
    ["007", 7],
    ["0", 0],
  ])("%s seconds are %d, whatever a shell makes of them", async (text, seconds) => {
    const { result } = await play({ moments }, { env: { KWOK_VERIFY_PODS_DEADLINE: text } });
    expect(result?.config.settleMs).toBe(seconds * 1000);
    expect(result?.waitedMs).toBe(seconds * 1000);
  });

  test.each(["abc", "2.5", "-1", "+5", " 5"])("%j is refused, by name and value", async (text) => {
    for (const variable of ["KWOK_VERIFY_PODS_DEADLINE", "KWOK_VERIFY_PODS_INTERVAL"]) {
      const played = await play({ moments }, { env: { [variable]: text } });
      expect({ exitCode: played.exitCode, calls: played.api.calls.length }).toEqual({ exitCode: 2, calls: 0 });
      expect(played.text).toContain(variable);
      expect(played.text).toContain(JSON.stringify(text));
    }
    const byFlag = await play({ moments }, { settle: text });
    expect(byFlag.exitCode).toBe(2);
    expect(byFlag.text).toContain(`--settle must be a duration, got ${JSON.stringify(text)}`);
  });

  test("flags win over variables, variables over defaults, and an empty variable is none", async () => {
    const env = { KWOK_VERIFY_PODS_DEADLINE: "20", KWOK_VERIFY_PODS_INTERVAL: "" };
    expect((await play({ moments }, { env })).result?.config).toMatchObject({ settleMs: 20_000, intervalMs: 5_000 });
    expect((await play({ moments }, { env, settle: "1m30s" })).result?.config.settleMs).toBe(90_000);
  });

  test("an absolute end shortens the window and leaves time for the report; too little is refused at once", () => {
    expect(budgetMs(60_000, startMs + 300_000, startMs)).toEqual({ ok: true, budgetMs: 60_000 });
    expect(budgetMs(60_000, startMs + 50_000, startMs)).toEqual({ ok: true, budgetMs: 20_000 });
    expect(budgetMs(60_000, startMs + 33_000, startMs).ok).toBe(false);
    expect(budgetMs(0, startMs + 30_000, startMs)).toEqual({ ok: true, budgetMs: 0 });
  });
});

describe("the GitOps gate", () => {
  const release = (name: string, ready: boolean): KubeObject =>
    custom("helm.toolkit.fluxcd.io/v2", "HelmRelease", `apps/${name}`, {
      status: { conditions: [{ type: "Ready", status: ready ? "True" : "False", message: "dependency not ready" }] },
    });
  const application = (
    name: string,
    sync: string,
    health: string,
    more: { phase?: string; of?: string } = {},
  ): KubeObject =>
    custom("argoproj.io/v1alpha1", "Application", `argocd/${name}`, {
      metadata: more.of === undefined ? {} : { annotations: { "argocd.argoproj.io/tracking-id": `${more.of}:x` } },
      status: {
        sync: { status: sync },
        health: { status: health },
        ...(more.phase === undefined ? {} : { operationState: { phase: more.phase } }),
      },
    });
  const check = ["default", "gitops"];

  test("one ready release of thirteen does not open the gate: all must be ready", async () => {
    const blocked = Array.from({ length: 12 }, (_, at) => release(`r${at}`, false));
    const helmreleases = [release("first", true), ...blocked];
    const { exitCode, text } = await play({ moments: [{ atS: 0, nodes, pods: pods(3), helmreleases }] }, { check });
    expect(exitCode).toBe(50);
    expect(text).toContain("is not released: dependency not ready (and 11 more)");
  });

  test("conditions share one deadline: what needs thirty seconds has them", async () => {
    const root = application("stack", "Synced", "Healthy", { phase: "Succeeded" });
    const moments = [
      { atS: 0, nodes, pods: pods(3), applications: [root, application("a", "OutOfSync", "Missing", { of: "stack" })] },
      { atS: 30, applications: [root, application("a", "OutOfSync", "Healthy", { of: "stack" })] },
    ];
    const { exitCode, result } = await play({ moments }, { check });
    expect({ exitCode, waitedMs: result?.waitedMs }).toEqual({ exitCode: 0, waitedMs: 30_000 });
  });

  test("no Application at all does not open the gate", async () => {
    const { exitCode, text } = await play({ moments: [{ atS: 0, nodes, pods: pods(3), applications: [] }] }, { check });
    expect(exitCode).toBe(50);
    expect(text).toContain("there is no Application and no Flux object");
  });

  test.each([
    { name: "synced and healthy", sync: "Synced", health: "Healthy", opens: true },
    { name: "synced and progressing", sync: "Synced", health: "Progressing", opens: true },
    { name: "changed by its own operator", sync: "OutOfSync", health: "Healthy", opens: true },
    { name: "synced and degraded", sync: "Synced", health: "Degraded", opens: true },
    { name: "not there", sync: "OutOfSync", health: "Missing", opens: false },
    { name: "unknown", sync: "Unknown", health: "Unknown", opens: false },
    { name: "out of sync and degraded", sync: "OutOfSync", health: "Degraded", opens: false },
  ])("a child that is $name: the gate opens $opens", async ({ sync, health, opens }) => {
    const root = application("stack", "Synced", "Healthy", { phase: "Succeeded" });
    const applications = [root, application("child", sync, health, { of: "stack" })];
    const { exitCode } = await play(
      { moments: [{ atS: 0, nodes, pods: pods(1), applications }] },
      { check, settle: "0" },
    );
    expect(exitCode).toBe(opens ? 0 : 50);
  });

  test("the root must have succeeded, and exist when it is named", async () => {
    const at = (phase: string): Moment[] => [
      { atS: 0, nodes, pods: pods(1), applications: [application("stack", "Synced", "Healthy", { phase })] },
    ];
    expect((await play({ moments: at("Running") }, { check, settle: "0" })).exitCode).toBe(50);
    expect((await play({ moments: at("Succeeded") }, { check, settle: "0" })).exitCode).toBe(0);
    expect((await play({ moments: at("Succeeded") }, { check, settle: "0", gitopsRoot: "other" })).exitCode).toBe(50);
  });

  test("a release marked as handed over counts although its pods never become ready", async () => {
    const handed = custom("helm.toolkit.fluxcd.io/v2", "HelmRelease", "apps/r", {
      status: { conditions: [{ type: "Released", status: "True" }], history: [{ status: "deployed" }] },
    });
    const stalled = custom("helm.toolkit.fluxcd.io/v2", "HelmRelease", "apps/r", {
      status: {
        conditions: [
          { type: "Released", status: "True" },
          { type: "Stalled", status: "True" },
        ],
        history: [{ status: "deployed" }],
      },
    });
    const at = (helmreleases: KubeObject[]) => ({ moments: [{ atS: 0, nodes, pods: pods(1), helmreleases }] });
    expect((await play(at([handed]), { check, settle: "0" })).exitCode).toBe(0);
    expect((await play(at([stalled]), { check, settle: "0" })).exitCode).toBe(50);
  });
});

describe("the rest", () => {
  test("simulated nodes that the label index shows half a second late are waited for, not refused", async () => {
    const clock = new ManualClock(startMs);
    const fake = node("sim-0", { labels: { type: "kwok" } });
    const kube = new ScriptedApi(clock, {
      moments: [
        { atS: 0, nodes: [] },
        { atS: 0.1, nodes: [fake] },
      ],
    });
    const asked = guardTarget({ kube, clock }, { isEmbedded: true, context: undefined, allowedContexts: [] });
    for (let step = 0; step < 13; step++) await clock.advance(500);
    expect(await asked).toBeUndefined();
    expect(kube.calls.length).toBe(2);
  });

  test("a cluster without simulated nodes is refused after ten attempts, and one that was not named at once", async () => {
    const clock = new ManualClock(startMs);
    const kube = new ScriptedApi(clock, { moments: [{ atS: 0, nodes: [] }] });
    const asked = guardTarget({ kube, clock }, { isEmbedded: false, context: "kind-a", allowedContexts: ["kind-a"] });
    for (let step = 0; step < 13; step++) await clock.advance(500);
    expect(await asked).toContain("refusing to run: the cluster has no simulated nodes");
    expect(kube.calls.length).toBe(10);
    const prod = await guardTarget(
      { kube, clock },
      { isEmbedded: false, context: "prod", allowedContexts: ["kind-a"] },
    );
    expect(prod).toContain("refusing to run");
    expect(kube.calls.length).toBe(10);
  });

  test("a recipe for arm64 GB300 on amd64 H100 nodes is not green", async () => {
    const labels = {
      "nvidia.com/gpu.present": "true",
      "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
      "nvidia.com/gpu.count": "8",
      "nvidia.com/gpu.memory": "81559",
    };
    const h100 = node("gpu-0", { labels, allocatable: { "nvidia.com/gpu": "8" } });
    const moments = [{ atS: 0, nodes: [h100], pods: [pod("team/p", { node: "gpu-0" })] }];
    const { exitCode, text } = await play({ moments }, { profile: "gb300" });
    expect(exitCode).toBe(1);
    expect(text).toContain("arch is amd64, but profile gb300 has arm64");
    expect(text).toContain("GPU product is NVIDIA-H100-80GB-HBM3, but profile gb300 has NVIDIA-GB300");
    expect(text).toContain("GPU count is 8, but profile gb300 has 4");
    expect((await play({ moments }, { profile: "h100" })).exitCode).toBe(0);
    expect((await play({ moments }, { profile: "h900" })).exitCode).toBe(2);
  });

  test("a signal in the middle of the wait leaves a report with one entry of status other", async () => {
    const { exitCode, result, text } = await play(
      { moments: startWaitPending([unbound("team/p")]) },
      { interruptAtS: 12 },
    );
    expect(exitCode).toBe(143);
    expect(result?.checks).toEqual([
      expect.objectContaining({ id: "verdict", status: "other", message: "interrupted by SIGTERM" }),
    ]);
    expect(text).toContain("Attempt 3:");
    expect(text).toContain("interrupted by SIGTERM");
  });
});

test("a signal while events are read ends the run: exit code and report are the signal's", async () => {
  const script = { moments: startWaitPending([unbound("team/p")]), hang: ({ kind }: ListCall) => kind === "events" };
  const { exitCode, result, tookS } = await play(script, { settle: "0", interruptAtS: 3 });
  expect({ exitCode, verdict: result?.verdict, tookS }).toEqual({ exitCode: 143, verdict: "error", tookS: 3 });
});

describe("--compat aicr", () => {
  const aicr = { compat: "aicr" } as const;

  test.each([
    {
      name: "any list error fails at once",
      script: { moments: [], refuse: () => refused("Unavailable", "down") },
      exitCode: 1,
      attempts: 1,
    },
    {
      name: "every pod owned by a Job is left out, hook or not",
      script: {
        moments: [{ atS: 0, nodes, pods: [...pods(1), pod("team/j", { node: "", owner: owner("Job", "j") })] }],
      },
      exitCode: 0,
      attempts: 1,
    },
    {
      name: "but a JobSet is no Job",
      script: { moments: [{ atS: 0, nodes, pods: [pod("team/j", { node: "", owner: owner("JobSet", "j") })] }] },
      exitCode: 1,
      attempts: 13,
    },
    {
      name: "any failed pod is terminal",
      script: {
        moments: [
          {
            atS: 0,
            nodes,
            pods: [pod("team/f", { phase: "Failed", owner: owner("Job", "j") })],
            jobs: [job("team/j")],
          },
        ],
      },
      exitCode: 1,
      attempts: 1,
    },
    {
      name: "an empty scope passes with the warning",
      script: { moments: [{ atS: 0, nodes, pods: [] }] },
      exitCode: 0,
      attempts: 1,
    },
  ])("$name", async ({ script, exitCode, attempts }) => {
    const played = await play(script, aicr);
    expect({ exitCode: played.exitCode, attempts: played.result?.attempts }).toEqual({ exitCode, attempts });
  });

  test("a pod that appeared two seconds before the end fails the run", async () => {
    const moments = [
      { atS: 0, nodes, pods: [unbound("team/a")] },
      { atS: 58, pods: [pod("team/a"), unbound("team/b")] },
    ];
    expect((await play({ moments }, aicr)).exitCode).toBe(1);
    expect((await play({ moments })).exitCode).toBe(0);
  });

  test("a bad tunable is 1, a closed gate stays 50, a signal stays itself", async () => {
    const moments = startWaitPending([unbound("team/p", { created: anHourAgo })]);
    expect((await play({ moments }, { ...aicr, settle: "abc" })).exitCode).toBe(1);
    expect(
      (await play({ moments: [{ atS: 0, nodes, pods: pods(1), applications: [] }] }, { ...aicr, check: ["gitops"] }))
        .exitCode,
    ).toBe(50);
    expect((await play({ moments }, { ...aicr, interruptAtS: 7 })).exitCode).toBe(143);
  });
});

test("with nothing unscheduled every kind is listed exactly once, and events not at all", async () => {
  const { exitCode, api } = await play({
    moments: [
      {
        atS: 0,
        nodes,
        pods: pods(20),
        podgroups: [],
        podgangs: [],
        topologies: [],
        bindrequests: [],
        resourceclaims: [],
        resourceslices: [],
      },
    ],
  });
  expect(exitCode).toBe(0);
  expect(api.listsByKind).toEqual({
    pods: 1,
    nodes: 1,
    jobs: 1,
    podgroups: 1,
    podgangs: 1,
    topologies: 1,
    resourceclaims: 1,
    resourceslices: 1,
    bindrequests: 1,
    deployments: 1,
    replicasets: 1,
    statefulsets: 1,
    daemonsets: 1,
  });
  const others = api.calls.filter(({ kind }) => kind !== "pods");
  expect(others.map(({ options }) => [options.resourceVersion, options.resourceVersionMatch])).toEqual(
    others.map(() => ["100", "Exact"]),
  );
});
