/** All checks by number, and which of them were asked for. */
import type { Check, CheckId } from "./check.ts";
import { claimsHold } from "./checks/claimsHold.ts";
import { gangsWhole } from "./checks/gangsWhole.ts";
import { gitopsConverged } from "./checks/gitopsConverged.ts";
import { gpusOnce } from "./checks/gpusOnce.ts";
import { inventoryAgrees } from "./checks/inventoryAgrees.ts";
import { nodesFit } from "./checks/nodesFit.ts";
import { nodesHold } from "./checks/nodesHold.ts";
import { nodesStand } from "./checks/nodesStand.ts";
import { nothingStale } from "./checks/nothingStale.ts";
import { podsBound } from "./checks/podsBound.ts";
import { podsClassified } from "./checks/podsClassified.ts";
import { priorityHolds } from "./checks/priorityHolds.ts";
import { queuesHold } from "./checks/queuesHold.ts";
import { noOrphans, sharesFit } from "./checks/reservations.ts";
import { shapesMatch } from "./checks/shapesMatch.ts";
import { workloadsHavePods } from "./checks/workloadsHavePods.ts";
import type { KindName } from "./readKinds.ts";

export const checks: readonly Check[] = [
  podsBound,
  nodesStand,
  nodesHold,
  nodesFit,
  gangsWhole,
  claimsHold,
  noOrphans,
  sharesFit,
  queuesHold,
  inventoryAgrees,
  shapesMatch,
  podsClassified,
  workloadsHavePods,
  priorityHolds,
  nothingStale,
  gpusOnce,
  gitopsConverged,
];

export const defaultChecks: readonly CheckId[] = checks.filter(({ byDefault }) => byDefault).map(({ id }) => id);

export function findCheck(id: string): Check | undefined {
  return checks.find((check) => check.id.toLowerCase() === id.toLowerCase());
}

/** In the order of their numbers, each once. */
export function chosenChecks(ids: readonly CheckId[]): readonly Check[] {
  return checks.filter(({ id }) => ids.includes(id));
}

/** Pods first: their revision is the one that all others are read at. */
export function kindsFor(ids: readonly CheckId[]): readonly KindName[] {
  const kinds = new Set<KindName>(["pods", "nodes", "jobs"]);
  for (const { needs } of chosenChecks(ids)) for (const kind of needs) kinds.add(kind);
  return [...kinds];
}
