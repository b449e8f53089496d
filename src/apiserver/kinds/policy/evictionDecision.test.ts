import { expect, test } from "vitest";
import { nowMs, nowText } from "../../../../test/fixtures/kindWrites.ts";
import type { Pod, PodDisruptionBudget, PodDisruptionBudgetStatus } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";
import { computeBudgetStatus } from "./budgetStatus.ts";
import { evictionDecision } from "./evictionDecision.ts";

const pod = (
  status: Pod["status"] = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] },
  metadata: object = {},
): Pod => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "p",
    namespace: "ns",
    uid: "u",
    resourceVersion: "9",
    creationTimestamp: nowText,
    labels: { app: "a" },
    ...metadata,
  },
  spec: { containers: [] },
  status,
});
const budget = (status: PodDisruptionBudgetStatus, spec: object = {}, name = "b"): PodDisruptionBudget => ({
  apiVersion: "policy/v1",
  kind: "PodDisruptionBudget",
  metadata: { name, namespace: "ns", uid: name, resourceVersion: "1", creationTimestamp: nowText, generation: 1 },
  spec: { selector: { matchLabels: { app: "a" } }, ...spec },
  status: { observedGeneration: 1, ...status },
});
const unready: Pod["status"] = { phase: "Running", conditions: [{ type: "Ready", status: "False" }] };
const decide = (p: Pod, ...budgets: PodDisruptionBudget[]) => evictionDecision({ pod: p, budgets, nowMs });
const none = budget({ disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2 });

test.each([
  ["an ended pod ignores budgets", pod({ phase: "Succeeded" }), [none], "delete"],
  ["a terminating pod ignores budgets", pod(undefined, { deletionTimestamp: nowText }), [none], "delete"],
  ["a pending pod ignores budgets, as it is now", pod({ phase: "Pending" }), [none], "deleteWithRevision"],
  ["no budget, no question", pod(), [], "delete"],
  [
    "a budget of other pods does not matter",
    pod(),
    [budget({}, { selector: { matchLabels: { app: "b" } } })],
    "delete",
  ],
  ["an unready pod goes while the healthy ones suffice", pod(unready), [none], "deleteWithRevision"],
  [
    "an unready pod goes when the policy always allows it",
    pod(unready),
    [
      budget(
        { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 2 },
        { unhealthyPodEvictionPolicy: "AlwaysAllow" },
      ),
    ],
    "deleteWithRevision",
  ],
  [
    "an unready pod stays while too few are healthy",
    pod(unready),
    [budget({ disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 2 })],
    "refuse",
  ],
  ["a spent budget refuses", pod(), [none], "refuse"],
  ["a budget to spare is spent", pod(), [budget({ disruptionsAllowed: 1 })], "spendBudget"],
])("eviction: %s", (_name, target, budgets, kind) => {
  expect(decide(target, ...budgets).kind).toBe(kind);
});

test("an eviction takes one disruption, records the pod, and sets the condition when it was the last", () => {
  const decision = decide(pod(), budget({ disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2 }));
  expect(decision).toMatchObject({
    kind: "spendBudget",
    budgetStatus: {
      disruptionsAllowed: 0,
      disruptedPods: { p: nowText },
      conditions: [
        { type: "DisruptionAllowed", status: "False", reason: "InsufficientPods", lastTransitionTime: nowText },
      ],
    },
  });
});

test.each([
  [
    "a spent budget names what it needs",
    none,
    429,
    "Cannot evict pod as it would violate the pod's disruption budget.",
    "The disruption budget b needs 2 healthy pods and has 2 currently",
    undefined,
  ],
  [
    "a budget that was edited since it was computed asks for patience",
    budget({ observedGeneration: 0, disruptionsAllowed: 5 }),
    429,
    "Cannot evict pod as it would violate the pod's disruption budget.",
    "The disruption budget b is still being processed by the server.",
    10,
  ],
])("refusal: %s", (_name, one, code, message, cause, retryAfterSeconds) => {
  const decision = decide(pod(), one);
  if (decision.kind !== "refuse") throw new Error(decision.kind);
  expect(decision.error.status).toMatchObject({
    code,
    message,
    details: { causes: [{ reason: "DisruptionBudget", message: cause }] },
  });
  expect(decision.error.status.details?.retryAfterSeconds).toBe(retryAfterSeconds);
});

test("two budgets over one pod are an error of the server", () => {
  const decision = decide(pod(), budget({ disruptionsAllowed: 1 }), budget({ disruptionsAllowed: 1 }, {}, "c"));
  expect(decision.kind === "refuse" && decision.error.status.code).toBe(500);
});

const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r", uid: "r1", controller: true };
const replicas = (ready: number, unreadyCount: number): Pod[] =>
  Array.from({ length: ready + unreadyCount }, (_, i) =>
    pod(i < ready ? undefined : unready, { name: `p${i}`, ownerReferences: [owner] }),
  );

test.each([
  ["an absolute minimum counts the pods there are", { minAvailable: 2 }, replicas(3, 1), 5, [3, 2, 4, 1]],
  [
    "a minimum share is of what the controller wants, rounded up",
    { minAvailable: "50%" },
    replicas(3, 0),
    5,
    [3, 3, 5, 0],
  ],
  ["a maximum counts down from what the controller wants", { maxUnavailable: 1 }, replicas(5, 0), 5, [5, 4, 5, 1]],
  ["a maximum share rounds up too", { maxUnavailable: "30%" }, replicas(5, 0), 5, [5, 3, 5, 2]],
  ["no pods, nothing to spare", { minAvailable: 0 }, [], 5, [0, 0, 0, 0]],
])("budget: %s", (_name, spec, pods, wanted, expected) => {
  const { status, isChanged } = computeBudgetStatus(budget({}, spec), pods, nowMs, () => wanted);
  const { currentHealthy, desiredHealthy, expectedPods, disruptionsAllowed } = status;
  expect([currentHealthy, desiredHealthy, expectedPods, disruptionsAllowed]).toEqual(expected);
  expect(isChanged).toBe(true);
});

test("computing twice changes nothing", () => {
  const first = computeBudgetStatus(budget({}, { minAvailable: 1 }), replicas(2, 0), nowMs, () => 2).status;
  const again = computeBudgetStatus(budget(first, { minAvailable: 1 }), replicas(2, 0), nowMs + 5000, () => 2);
  expect(again.isChanged).toBe(false);
});

const grants: [string, number, number | undefined][] = [
  ["was made before it", -1000, 120_000],
  ["was made in the same second, and is most likely another one", 0, 5_000],
  ["was made after it, and is another one", 1000, undefined],
];
test.each(grants)("a granted eviction counts for a pod that %s, by %d ms, for %d ms", (_, madeMs, lastsMs) => {
  const pods = replicas(2, 0);
  for (const { metadata } of pods) metadata.creationTimestamp = formatTime(nowMs + madeMs);
  const at = (ms: number) =>
    computeBudgetStatus(budget({ disruptedPods: { p0: nowText } }, { minAvailable: 1 }), pods, nowMs + ms, () => 2);
  if (lastsMs !== undefined) expect(at(lastsMs - 1).status).toMatchObject({ currentHealthy: 1, disruptionsAllowed: 0 });
  expect(at((lastsMs ?? 0) + 1).status).toMatchObject({ currentHealthy: 2, disruptionsAllowed: 1 });
});

test("an evicted pod counts as deleted for two minutes, and not longer", () => {
  const granted = { p0: nowText, p7: nowText };
  const old = replicas(2, 0);
  for (const { metadata } of old) metadata.creationTimestamp = formatTime(nowMs - 60_000);
  const soon = computeBudgetStatus(budget({ disruptedPods: granted }, { minAvailable: 1 }), old, nowMs + 1000, () => 2);
  expect(soon.status).toMatchObject({ currentHealthy: 1, disruptionsAllowed: 0, disruptedPods: { p0: nowText } });
  expect(soon.recheckAtMs).toBe(nowMs + 120_000);
  const late = computeBudgetStatus(
    budget({ disruptedPods: granted }, { minAvailable: 1 }),
    replicas(2, 0),
    nowMs + 120_001,
    () => 2,
  );
  expect(late.status).toMatchObject({ currentHealthy: 2, disruptionsAllowed: 1 });
  expect(late.status.disruptedPods).toBeUndefined();
});

test("pods of an unknown controller stop all evictions", () => {
  const { status } = computeBudgetStatus(
    budget({ disruptionsAllowed: 3 }, { maxUnavailable: 1 }),
    replicas(2, 0),
    nowMs,
    () => undefined,
  );
  expect(status).toMatchObject({
    disruptionsAllowed: 0,
    conditions: [{ reason: "SyncFailed", message: 'found no controllers for pod "p0"' }],
  });
});
