import type { NamespaceCondition } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";

/** What is left in a terminating namespace. */
export interface Remains {
  /** Count of objects by `resource.group`. */
  readonly counts: ReadonlyMap<string, number>;
  /** Count of objects by finalizer. */
  readonly finalizers: ReadonlyMap<string, number>;
  /** Why content could not be deleted, one message each. */
  readonly failures: readonly string[];
}

interface Fact {
  readonly type: string;
  readonly isTrue: boolean;
  readonly reason: string;
  readonly message: string;
}

/** The five conditions of a terminating namespace. lastTransitionTime changes only when a status does. */
export function namespaceConditions(
  old: readonly NamespaceCondition[],
  remains: Remains,
  nowMs: number,
): NamespaceCondition[] {
  const { counts, finalizers, failures } = remains;
  const facts: Fact[] = [
    {
      type: "NamespaceDeletionDiscoveryFailure",
      isTrue: false,
      reason: "ResourcesDiscovered",
      message: "All resources successfully discovered",
    },
    {
      type: "NamespaceDeletionGroupVersionParsingFailure",
      isTrue: false,
      reason: "ParsedGroupVersions",
      message: "All legacy kube types successfully parsed",
    },
    {
      type: "NamespaceDeletionContentFailure",
      isTrue: failures.length > 0,
      reason: failures.length > 0 ? "ContentDeletionFailed" : "ContentDeleted",
      message:
        failures.length > 0
          ? `Failed to delete all resource types, ${failures.length} remaining: ${failures.join(", ")}`
          : "All content successfully deleted, may be waiting on finalization",
    },
    {
      type: "NamespaceContentRemaining",
      isTrue: counts.size > 0,
      reason: counts.size > 0 ? "SomeResourcesRemain" : "ContentRemoved",
      message:
        counts.size > 0
          ? `Some resources are remaining: ${listed(counts, (word, count) => `${word} has ${count} resource instances`)}`
          : "All content successfully removed",
    },
    {
      type: "NamespaceFinalizersRemaining",
      isTrue: finalizers.size > 0,
      reason: finalizers.size > 0 ? "SomeFinalizersRemain" : "ContentHasNoFinalizers",
      message:
        finalizers.size > 0
          ? `Some content in the namespace has finalizers remaining: ${listed(finalizers, (word, count) => `${word} in ${count} resource instances`)}`
          : "All content-preserving finalizers finished",
    },
  ];
  const known = new Map(old.map((condition) => [condition.type, condition]));
  const kept = old.filter(({ type }) => !facts.some((fact) => fact.type === type));
  return [...kept, ...facts.map((fact) => conditionOf(fact, known.get(fact.type), nowMs))];
}

function conditionOf(fact: Fact, before: NamespaceCondition | undefined, nowMs: number): NamespaceCondition {
  const status = fact.isTrue ? "True" : "False";
  const lastTransitionTime =
    before?.status === status && before.lastTransitionTime !== undefined
      ? before.lastTransitionTime
      : formatTime(nowMs);
  return { type: fact.type, status, lastTransitionTime, reason: fact.reason, message: fact.message };
}

function listed(counts: ReadonlyMap<string, number>, sentence: (word: string, count: number) => string): string {
  return [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([word, count]) => sentence(word, count))
    .join(", ");
}
