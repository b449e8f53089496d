import type { Profile } from "../../model/profiles/profile.ts";
import type { CheckId } from "./check.ts";

/** What was asked for. Durations in milliseconds. */
export interface VerifyConfig {
  /** The window in which pods may settle; 0 is one snapshot. */
  readonly settleMs: number;
  readonly intervalMs: number;
  /**
   * A pod that appeared while we were looking and that no scheduler has tried has this long before it fails the run.
   */
  readonly graceMs: number;
  /** Namespaces that are out of scope, by their whole name. */
  readonly excluded: readonly string[];
  readonly allowEmpty: boolean;
  readonly expectMin: number;
  readonly expectWorkloads: readonly string[];
  readonly ignoreJobs: boolean;
  readonly failOnEvicted: boolean;
  readonly strict: boolean;
  readonly requireRunning: boolean;
  readonly checks: readonly CheckId[];
  /** The shape that every GPU node must have; without it each node is held to the profile that it names itself. */
  readonly profile?: Profile;
  /** The Application or Kustomization from which the others come. */
  readonly gitopsRoot?: string;
  /** `aicr`: decides as the shell harness did. */
  readonly compat?: "aicr";
}

/** Whole names, never prefixes: `kube-system-extra` is a user's own namespace. */
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

/** The largest part of the window that a new pod may spend without being tried. */
const gracePartMax = 1 / 4;

/**
 * The defaults, with what is given on top. The grace follows the interval, within the window, unless it is given
 * itself.
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
