/** Computes how many disruptions a PodDisruptionBudget allows now. Evictions are decided by this number. */

import type { Pod, PodDisruptionBudget, PodDisruptionBudgetStatus } from "../../../model/kubernetes.generated.ts";
import { equalJson } from "../../../model/objects/json.ts";
import type { OwnerReference } from "../../../model/objects/object.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { scaledValue } from "../checks/fieldChecks.ts";
import { isPodReady } from "../pods/podConditions.ts";
import { withDisruptionAllowed } from "./disruptionCondition.ts";

/** A pod whose eviction was admitted counts as deleted for this long; after that it is assumed to have stayed. */
const deletionTimeoutMs = 2 * 60 * 1000;
/** A pod that was created in the second of the eviction most likely replaced the evicted pod under the same name. */
const successorTimeoutMs = 5_000;

/** The number of replicas of the controller of an owner reference, or undefined when it is unknown. */
export type ExpectedCount = (owner: OwnerReference, namespace: string) => number | undefined;

export interface BudgetVerdict {
  readonly status: PodDisruptionBudgetStatus;
  /** Whether it differs from the stored status. */
  readonly isChanged: boolean;
  /** When the next disrupted pod times out and the status must be computed again, if there is one. */
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
  // A budget without pods allows none: the first pods may be created before the next reconcile.
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
 * Until when a pod of this name counts as deleted; undefined when the eviction was of an earlier pod of the same name.
 * Names are reused at once (by a StatefulSet, for example), and a drain must not wait two minutes for each.
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

  // Percentages are of the controllers' replicas, not of the running pods: otherwise a budget would shrink with its
  // pods.
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

/** When the expected count is unknown, no disruption is allowed. */
function failedVerdict(budget: PodDisruptionBudget, why: string, nowMs: number): BudgetVerdict {
  const old = budget.status ?? {};
  const status: PodDisruptionBudgetStatus = { ...old, disruptionsAllowed: 0 };
  const conditions = withDisruptionAllowed(status, old.observedGeneration ?? 0, nowMs);
  status.conditions = conditions.map((condition) =>
    condition.type === "DisruptionAllowed" ? { ...condition, reason: "SyncFailed", message: why } : condition,
  );
  return { status, isChanged: !equalJson(status, old), recheckAtMs: undefined };
}
