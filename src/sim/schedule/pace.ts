import { watchesRestMs } from "../scenario.ts";

/** How long placement is shaken and may take to come to rest, in every scene of it. */
export const placementPace = {
  faultPhaseMs: 14_000,
  settleMs: 240_000,
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "events.k8s.io/events", "/events"],
} as const;
