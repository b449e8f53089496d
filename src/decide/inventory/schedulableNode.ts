/**
 * Whether a reservation can start on a node now. Availability and placement use the same function, so that no GPU is
 * shown as free that cannot be used.
 */
import type { Node } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/values/time.ts";

export interface NodeRules {
  /** Taints that reservations tolerate, by key. */
  readonly toleratedTaints: readonly string[];
  /** A Ready condition with an older heartbeat counts as not ready; 0 accepts any age. */
  readonly heartbeatMsMax: number;
}

export const nodeRulesDefault: NodeRules = { toleratedTaints: ["nvidia.com/gpu"], heartbeatMsMax: 15 * 60_000 };

export type UnschedulableReason =
  | { readonly why: "not ready" | "no heartbeat" | "cordoned" }
  | { readonly why: "tainted"; readonly key: string };

export function unschedulableText(reason: UnschedulableReason): string {
  return reason.why === "tainted" ? `tainted ${reason.key}` : reason.why;
}

/** Why no new pod can start on the node; undefined when one can. */
export function whyNotSchedulable(node: Node, rules: NodeRules, nowMs: number): UnschedulableReason | undefined {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True") return { why: "not ready" };
  const heartbeatMs = timeToMs(ready.lastHeartbeatTime);
  if (rules.heartbeatMsMax > 0 && heartbeatMs !== undefined && nowMs - heartbeatMs > rules.heartbeatMsMax) {
    return { why: "no heartbeat" };
  }
  if (node.spec?.unschedulable === true) return { why: "cordoned" };
  const taint = node.spec?.taints?.find(
    ({ key, effect }) => (effect === "NoSchedule" || effect === "NoExecute") && !rules.toleratedTaints.includes(key),
  );
  return taint === undefined ? undefined : { why: "tainted", key: taint.key };
}

/** `aws:///us-east-2a/i-0abc` is the instance `i-0abc`. */
export function instanceIdOf(node: Node): string | undefined {
  const id = node.spec?.providerID?.split("/").at(-1);
  return id === undefined || id === "" ? undefined : id;
}
