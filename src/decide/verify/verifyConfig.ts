import type { Profile } from "../../model/profiles/profile.ts";
import type { CheckId } from "./check.ts";

/** The options of a run. Durations are in milliseconds. */
export interface VerifyConfig {
  /** The window in which pods may settle; 0 is one snapshot. */
  readonly settleMs: number;
  readonly intervalMs: number;
  /** How long a pod that was created during the run and that no scheduler has tried may stay unscheduled. */
  readonly graceMs: number;
  /** Namespaces that are out of scope, by exact name. */
  readonly excluded: readonly string[];
  readonly allowEmpty: boolean;
  readonly expectMin: number;
  readonly expectWorkloads: readonly string[];
  readonly ignoreJobs: boolean;
  readonly failOnEvicted: boolean;
  readonly strict: boolean;
  readonly requireRunning: boolean;
  readonly checks: readonly CheckId[];
  /**
   * The profile that every GPU node must match; without it each node is compared with the profile in its annotation.
   */
  readonly profile?: Profile;
  /** The Application or Kustomization that manages the others. */
  readonly gitopsRoot?: string;
  /** `aicr`: same verdicts as the aicr shell harness. */
  readonly compat?: "aicr";
}

/** Exact names, not prefixes: `kube-system-extra` is a user's own namespace. */
export const excludedByDefault: readonly string[] = [
  "kube-system",
  "kube-node-lease",
  "kube-public",
  "local-path-storage",
  "kwok-system",
  "argocd",
  "flux-system",
  "aicr-registry",
];

export const settleMsDefault = 60_000;
export const intervalMsDefault = 5_000;

/** The maximum grace period, as a fraction of the settle window. */
const gracePartMax = 1 / 4;

/**
 * The defaults, overridden by `given`. The grace period defaults to two intervals, limited to a quarter of the window.
 */
export function verifyConfig(given: Partial<VerifyConfig> & { readonly checks: readonly CheckId[] }): VerifyConfig {
  const intervalMs = given.intervalMs ?? intervalMsDefault;
  const settleMs = given.settleMs ?? settleMsDefault;
  const graceMs = Math.min(intervalMs * 2, settleMs * gracePartMax);
  return {
    excluded: excludedByDefault,
    allowEmpty: false,
    expectMin: 0,
    expectWorkloads: [],
    ignoreJobs: false,
    failOnEvicted: false,
    strict: false,
    requireRunning: false,
    ...given,
    settleMs,
    intervalMs,
    graceMs: given.compat === "aicr" ? 0 : (given.graceMs ?? graceMs),
  };
}
