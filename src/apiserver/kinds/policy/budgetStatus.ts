/** How many pods a disruption budget can spare right now. Without this number no eviction ever passes. */

import type { Pod, PodDisruptionBudget, PodDisruptionBudgetStatus } from "../../../model/kubernetes.generated.ts";
import { equalJson } from "../../../model/objects/json.ts";
import type { OwnerReference } from "../../../model/objects/object.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { scaledValue } from "../checks/fieldChecks.ts";
import { isPodReady } from "../pods/podConditions.ts";
import { withDisruptionAllowed } from "./disruptionCondition.ts";

/** A pod whose eviction was granted counts as gone for this long; after that it is taken to have stayed. */
const deletionTimeoutMs = 2 * 60 * 1000;
/**
 * One that was made in the second of the grant is most likely its successor of the same name: that one went at once.
 */
const successorTimeoutMs = 5_000;

/** How many pods the controller behind an owner reference wants, or undefined when it is unknown. */
export type ExpectedCount = (owner: OwnerReference, namespace: string) => number | undefined;

export interface BudgetVerdict {
  readonly status: PodDisruptionBudgetStatus;
  /** Whether it differs from what the budget says already. */
  readonly isChanged: boolean;
  /** When a granted eviction runs out and the status must be computed again, if any is open. */
  readonly recheckAtMs: number | undefined;
}

/** `pods` are those that the budget selects. */
export function computeBudgetStatus(
  budget: PodDisruptionBudget,
  pods: readonly Pod[],
  nowMs: number,
  expectedCount: ExpectedCount,
): BudgetVerdict {
  const old = budget.status ?? {};
  const generation = budget.metadata.generation ?? 0;
  const needs = needsOf(budget, pods, expectedCount);
  if ("failure" in needs) return failedVerdict(budget, needs.failure, nowMs);
  const { expectedPods, desiredHealthy } = needs;

  const disruptedPods: Record<string, string> = {};
  let recheckAtMs: number | undefined;
  let currentHealthy = 0;
  for (const pod of pods) {
    if (pod.metadata.deletionTimestamp !== undefined) continue;
    const granted = old.disruptedPods?.[pod.metadata.name];
    const runsOutMs = granted === undefined ? undefined : runsOut(granted, pod);
    if (granted !== undefined && runsOutMs !== undefined && runsOutMs >= nowMs) {
      disruptedPods[pod.metadata.name] = granted;
      if (recheckAtMs === undefined || runsOutMs < recheckAtMs) recheckAtMs = runsOutMs;
      if (runsOutMs > nowMs) continue;
    }
    if (isPodReady(pod)) currentHealthy++;
  }
  // A budget over no pods spares none: the first pods may appear before the next look.
  const spare = expectedPods > 0 ? Math.max(0, currentHealthy - desiredHealthy) : 0;
  const status: PodDisruptionBudgetStatus = {
    currentHealthy,
    desiredHealthy,
    expectedPods,
    disruptionsAllowed: spare,
    observedGeneration: generation,
  };
  if (Object.keys(disruptedPods).length > 0) status.disruptedPods = disruptedPods;
  if (old.conditions !== undefined) status.conditions = old.conditions;
  status.conditions = withDisruptionAllowed(status, generation, nowMs);
  return { status, isChanged: !equalJson(status, old), recheckAtMs };
}

/**
 * Until when a pod of this name counts as gone; undefined when the grant was for one that had the name before it. Names
 * come again at once (a StatefulSet's, and those that follow from a ReplicaSet), and a drain must not wait two minutes
 * for each.
 */
function runsOut(granted: string, { metadata }: Pod): number | undefined {
  const grantedMs = timeToMs(granted) ?? 0;
  const madeMs = timeToMs(metadata.creationTimestamp) ?? 0;
  if (madeMs > grantedMs) return undefined;
  return grantedMs + (madeMs === grantedMs ? successorTimeoutMs : deletionTimeoutMs);
}

type Needs = { expectedPods: number; desiredHealthy: number } | { failure: string };

function needsOf(budget: PodDisruptionBudget, pods: readonly Pod[], expectedCount: ExpectedCount): Needs {
  const { maxUnavailable, minAvailable } = budget.spec ?? {};
  if (typeof minAvailable === "number") return { expectedPods: pods.length, desiredHealthy: minAvailable };
  if (maxUnavailable === undefined && minAvailable === undefined) return { expectedPods: 0, desiredHealthy: 0 };

  // Shares are of what the controllers want, not of what happens to run: else a budget would shrink with its pods.
  const wanted = new Map<string, number>();
  for (const pod of pods) {
    const owner = pod.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (owner === undefined || wanted.has(owner.uid)) continue;
    const count = expectedCount(owner, pod.metadata.namespace ?? "");
    if (count === undefined) return { failure: `found no controllers for pod ${JSON.stringify(pod.metadata.name)}` };
    wanted.set(owner.uid, count);
  }
  let expectedPods = 0;
  for (const count of wanted.values()) expectedPods += count;
  if (maxUnavailable !== undefined) {
    return {
      expectedPods,
      desiredHealthy: Math.max(0, expectedPods - scaledValue(maxUnavailable, expectedPods, true)),
    };
  }
  return { expectedPods, desiredHealthy: scaledValue(minAvailable ?? 0, expectedPods, true) };
}

/** When the count cannot be known, nothing may go. */
function failedVerdict(budget: PodDisruptionBudget, why: string, nowMs: number): BudgetVerdict {
  const old = budget.status ?? {};
  const status: PodDisruptionBudgetStatus = { ...old, disruptionsAllowed: 0 };
  const conditions = withDisruptionAllowed(status, old.observedGeneration ?? 0, nowMs);
  status.conditions = conditions.map((condition) =>
    condition.type === "DisruptionAllowed" ? { ...condition, reason: "SyncFailed", message: why } : condition,
  );
  return { status, isChanged: !equalJson(status, old), recheckAtMs: undefined };
}
