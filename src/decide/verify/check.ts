/** A rule about a snapshot, with an id by which it can be selected and cited. */
import type { ClusterSnapshot } from "./clusterSnapshot.ts";
import type { PodTally } from "./podTally.ts";
import type { KindName } from "./readKinds.ts";
import type { VerifyConfig } from "./verifyConfig.ts";

export type CheckId =
  | "S1"
  | "S2"
  | "S3"
  | "S4"
  | "S5"
  | "S6"
  | "S7"
  | "S8"
  | "S9"
  | "S10"
  | "S11"
  | "S12"
  | "S13"
  | "S14"
  | "S15"
  | "S16"
  | "gitops";

export interface Check {
  readonly id: CheckId;
  /** The fact that must hold. */
  readonly title: string;
  readonly byDefault: boolean;
  /** Its findings may resolve by themselves, so it is repeated within the settle window. */
  readonly settles: boolean;
  readonly needs: readonly KindName[];
  run(input: CheckInput): CheckFinding;
}

export interface CheckInput {
  readonly snapshot: ClusterSnapshot;
  readonly tally: PodTally;
  readonly config: VerifyConfig;
}

export type CheckStatus = "passed" | "failed" | "skipped" | "other";

export interface CheckFinding {
  readonly status: CheckStatus;
  readonly message: string;
  /** The findings, one for each object. */
  readonly evidence: readonly Evidence[];
}

export interface Evidence {
  /** `pods/team-a/train-0`, `nodes/gpu-3`. */
  readonly object: string;
  readonly problem: string;
}

/** Failed when there is evidence, else passed. */
export function passOrFail(evidence: readonly Evidence[], whenPassed: string): CheckFinding {
  if (evidence.length === 0) return { status: "passed", message: whenPassed, evidence };
  const [first] = evidence;
  const more = evidence.length > 1 ? ` (and ${evidence.length - 1} more)` : "";
  return { status: "failed", message: `${first?.object}: ${first?.problem}${more}`, evidence };
}

export function notApplicable(why: string): CheckFinding {
  return { status: "skipped", message: `not applicable: ${why}`, evidence: [] };
}
