/** How long placement is shaken and may take to come to rest, in every scene of it. */
export const placementPace = {
  faultPhaseMs: 14_000,
  settleMs: 180_000,
  // A cache whose lists were refused tries again after half a minute at the latest: the binder may be silent for that
  // long.
  quietMs: 40_000,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "events.k8s.io/events", "/events"],
} as const;
