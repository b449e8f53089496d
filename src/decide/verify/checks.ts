/** All checks in the order of their ids. */
import type { Check, CheckId } from "./check.ts";
import { claimsAllocated } from "./checks/claimsAllocated.ts";
import { gangsComplete } from "./checks/gangsComplete.ts";
import { gitopsConverged } from "./checks/gitopsConverged.ts";
import { gpusAllocatedOnce } from "./checks/gpusAllocatedOnce.ts";
import { inventoryAgrees } from "./checks/inventoryAgrees.ts";
import { nodesNotOvercommitted } from "./checks/nodesNotOvercommitted.ts";
import { nodesReady } from "./checks/nodesReady.ts";
import { noPriorityInversion } from "./checks/noPriorityInversion.ts";
import { nothingStale } from "./checks/nothingStale.ts";
import { podsBound } from "./checks/podsBound.ts";
import { podsClassified } from "./checks/podsClassified.ts";
import { podsMatchNodes } from "./checks/podsMatchNodes.ts";
import { queuesWithinLimits } from "./checks/queuesWithinLimits.ts";
import { noOrphans, sharesFit } from "./checks/reservations.ts";
import { shapesMatch } from "./checks/shapesMatch.ts";
import { workloadsHavePods } from "./checks/workloadsHavePods.ts";
import type { KindName } from "./readKinds.ts";

export const checks: readonly Check[] = [
  podsBound,
  nodesReady,
  nodesNotOvercommitted,
  podsMatchNodes,
  gangsComplete,
  claimsAllocated,
  noOrphans,
  sharesFit,
  queuesWithinLimits,
  inventoryAgrees,
  shapesMatch,
  podsClassified,
  workloadsHavePods,
  noPriorityInversion,
  nothingStale,
  gpusAllocatedOnce,
  gitopsConverged,
];

export const defaultChecks: readonly CheckId[] = checks.filter(({ byDefault }) => byDefault).map(({ id }) => id);

export function findCheck(id: string): Check | undefined {
  return checks.find((check) => check.id.toLowerCase() === id.toLowerCase());
}

/** The selected checks in the order of their ids, each once. */
export function chosenChecks(ids: readonly CheckId[]): readonly Check[] {
  return checks.filter(({ id }) => ids.includes(id));
}

/** The kinds to read. Pods are first, because all other kinds are read at their revision. */
export function kindsFor(ids: readonly CheckId[]): readonly KindName[] {
  const kinds = new Set<KindName>(["pods", "nodes", "jobs"]);
  for (const { needs } of chosenChecks(ids)) for (const kind of needs) kinds.add(kind);
  return [...kinds];
}
