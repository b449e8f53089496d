import fc from "fast-check";
import { expect, test } from "vitest";
import { job, owner, pod } from "../../../test/verify/builders.ts";
import { snapshotWith } from "../../../test/verify/syntheticCluster.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { durationMs, secondsText, wholeSecondsMs } from "../../model/values/duration.ts";
import { countedReasons } from "./classify.ts";
import { tallyPods } from "./podTally.ts";
import { FirstSeenPods, nextAttemptMs } from "./settling.ts";
import { excludedByDefault } from "./verifyConfig.ts";

const anyPod = fc.record({
  namespace: fc.constantFrom("team", "web", "kube-system", "kube-system-extra", "argocd"),
  node: fc.constantFrom("", "", "n1", "n2"),
  phase: fc.constantFrom("Pending", "Pending", "Running", "Succeeded", "Failed", "Unknown"),
  owner: fc.constantFrom("none", "hook", "plain", "failed", "gone", "JobSet", "ReplicaSet"),
  reason: fc.constantFrom("", "Evicted"),
  minute: fc.nat(59),
});

const jobs = [
  job("team/hook", { annotations: { "helm.sh/hook": "pre-install" } }),
  job("team/plain"),
  job("team/failed", { status: { conditions: [{ type: "Failed", status: "True" }] } }),
];

function objectOf(wish: typeof anyPod extends fc.Arbitrary<infer T> ? T : never, at: number): KubeObject {
  const kind = wish.owner === "JobSet" || wish.owner === "ReplicaSet" ? wish.owner : "Job";
  const of = owner(kind, wish.owner, kind === "Job" ? "batch/v1" : "apps/v1");
  return pod(`${wish.namespace}/p${at}`, {
    node: wish.node,
    phase: wish.phase,
    created: `2026-05-28T11:${String(wish.minute).padStart(2, "0")}:00Z`,
    ...(wish.owner === "none" ? {} : { owner: of }),
    ...(wish.reason === "" ? {} : { status: { reason: wish.reason, phase: wish.phase } }),
  });
}

test("for any pods the counts add up, lists are as long as their counts, and a separate recount agrees", () => {
  const config = fc.record({
    ignoreJobs: fc.boolean(),
    failOnEvicted: fc.boolean(),
    compat: fc.constantFrom<("aicr" | undefined)[]>("aicr", undefined),
    youngShare: fc.nat(2),
  });
  fc.assert(
    fc.property(fc.array(anyPod, { maxLength: 60 }), config, (wishes, { compat, youngShare, ...flags }) => {
      const pods = wishes.map(objectOf);
      const given = { excluded: excludedByDefault, ...flags, ...(compat === undefined ? {} : { compat }) };
      const young = ({ metadata }: Pod): boolean => youngShare > 0 && metadata.name.length % 3 < youngShare;
      const tally = tallyPods(snapshotWith({ pods, jobs }), given, young);
      const { counts } = tally;
      const scope = wishes.filter(({ namespace }) => namespace !== "kube-system" && namespace !== "argocd");
      const of = (phase: string): number => scope.filter((each) => each.phase === phase).length;
      const unbound = scope.filter(({ phase, node }) => phase === "Pending" && node === "").length;
      expect(counts).toMatchObject({
        total: scope.length,
        running: of("Running"),
        pending: of("Pending"),
        succeeded: of("Succeeded"),
        unknown: of("Unknown"),
      });
      expect(counts.failed + counts.excusedFailures).toBe(of("Failed"));
      expect(counts.unscheduled + counts.settling + counts.ignoredJobs).toBe(unbound);
      expect(counts.unscheduled).toBeLessThanOrEqual(counts.pending);
      expect(counts.running + counts.pending + counts.failed).toBeLessThanOrEqual(counts.total);
      for (const name of ["unscheduled", "settling", "failed", "ignoredJobs", "excusedFailures"] as const) {
        expect(tally[name].length).toBe(counts[name]);
      }
      expect([...tally.distribution.values()].reduce((sum, each) => sum + each, 0)).toBe(counts.total);
      expect(tally.starting.length).toBe(counts.pending - unbound);
    }),
    { numRuns: 300 },
  );
});

test.each([
  ["60", 60_000],
  ["08", 8_000],
  ["90s", 90_000],
  ["1m30s", 90_000],
  ["500ms", 500],
  ["1h", 3_600_000],
  ["", undefined],
  ["2.5", undefined],
  ["-1", undefined],
  ["5 s", undefined],
  ["s", undefined],
  ["99999999999s", undefined],
])("the duration %j is %j ms", (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

test("the harness's variables take digits and nothing else", () => {
  expect([wholeSecondsMs("007"), wholeSecondsMs("7s"), wholeSecondsMs("1m")]).toEqual([7_000, undefined, undefined]);
  expect([secondsText(60_000), secondsText(7_250), secondsText(4_001)]).toEqual(["60", "7.3", "4"]);
});

test.each([
  { lookedAt: 0, now: 0, next: 5_000 },
  { lookedAt: 55_000, now: 55_300, next: 60_000 },
  { lookedAt: 58_000, now: 58_100, next: 60_000 },
  { lookedAt: 5_000, now: 11_000, next: 11_000 },
])("after a look at $lookedAt that ended at $now the next one is at $next", ({ lookedAt, now, next }) => {
  expect(nextAttemptMs({ settleMs: 60_000, intervalMs: 5_000 }, lookedAt, now)).toBe(next);
});

test("a pod of the first snapshot is never settling; a later one is, for the length of the grace", () => {
  const firstSeen = new FirstSeenPods(10_000);
  const [first, second] = [pod("t/a", { node: "" }), pod("t/b", { node: "" })];
  firstSeen.record([first], 0);
  firstSeen.record([first, second], 5_000);
  expect(firstSeen.isNew(first, 0)).toBe(false);
  expect([5_000, 14_999, 15_000].map((at) => firstSeen.isNew(second, at))).toEqual([true, true, false]);
});

test.each([
  [
    "0/6 nodes are available: 2 Insufficient cpu, 4 node(s) had untolerated taint {a: b, c}. preemption: 0/6 nodes are available: 6 x.",
    [
      { nodes: 4, reason: "node(s) had untolerated taint {a: b, c}" },
      { nodes: 2, reason: "Insufficient cpu" },
    ],
  ],
  [
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    [{ nodes: 1, reason: "Insufficient nvidia.com/gpu" }],
  ],
  ["0/1 nodes are available: 1 Too many pods.", [{ nodes: 1, reason: "Too many pods" }]],
  [
    "pod t/p fits 0 of 4 nodes: 4 node(s) do not have enough GPUs. To run: it would fit with 1 more GPUs free on one node; h100-3 is closest with 7 of 8",
    [{ nodes: 4, reason: "node(s) do not have enough GPUs" }],
  ],
  ["no such queue", []],
])("the scheduler's message %j is counted", (message, reasons) => {
  expect(countedReasons(message)).toEqual(reasons);
});
