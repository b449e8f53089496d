import { watchesRestMs } from "../scenario.ts";

/** The duration of faults and the time limit for quiescence of all placement scenarios. */
export const placementPace = {
  faultPhaseMs: 14_000,
  settleMs: 240_000,
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
} as const;
