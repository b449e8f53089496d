/**
 * Whether a reservation could start on a node now. One rule for whoever shows capacity and whoever places on it: two
 * copies drift apart, and then what is shown as free can never be had.
 */
import type { Node } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/time.ts";

export interface NodeRules {
  /** Taints that reservations tolerate, by key. */
  readonly toleratedTaints: readonly string[];
  /** A Ready that was last confirmed longer ago than this is not believed; 0 believes any. */
  readonly heartbeatMsMax: number;
}

export const nodeRulesDefault: NodeRules = { toleratedTaints: ["nvidia.com/gpu"], heartbeatMsMax: 15 * 60_000 };

/** Why nothing new can start here, or undefined. */
export function whyNotSchedulable(node: Node, rules: NodeRules, nowMs: number): string | undefined {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True") return "not ready";
  const heartbeatMs = timeToMs(ready.lastHeartbeatTime);
  if (rules.heartbeatMsMax > 0 && heartbeatMs !== undefined && nowMs - heartbeatMs > rules.heartbeatMsMax) {
    return "no heartbeat";
  }
  if (node.spec?.unschedulable === true) return "cordoned";
  const taint = node.spec?.taints?.find(
    ({ key, effect }) => (effect === "NoSchedule" || effect === "NoExecute") && !rules.toleratedTaints.includes(key),
  );
  return taint === undefined ? undefined : `tainted ${taint.key}`;
}

/** `aws:///us-east-2a/i-0abc` is the instance `i-0abc`. */
export function instanceIdOf(node: Node): string | undefined {
  const id = node.spec?.providerID?.split("/").at(-1);
  return id === undefined || id === "" ? undefined : id;
}
