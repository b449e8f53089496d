/**
 * Whether a list of nodes can be trusted. An API server of another cluster, a cluster that was restored without its
 * nodes, and a wrong clock all give a valid answer that shows no free GPU. The list is compared with two sources that
 * do not depend on the API: the instances that the cloud has in service, and the time.
 */
import type { Node } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/values/time.ts";
import { instanceIdOf, type NodeRules } from "./schedulableNode.ts";

/**
 * The time that heartbeats are compared with. The newest heartbeat is the cluster's own clock, so no heartbeat looks
 * overdue when the database's clock is ahead. It is capped at the database's clock, so that no heartbeat looks overdue
 * when one kubelet's clock is ahead.
 */
export function heartbeatClockMs(nodes: readonly Node[], nowMs: number): number {
  const newest = newestHeartbeatMs(nodes);
  return newest === undefined ? nowMs : Math.min(newest, nowMs);
}

/** Why the list of nodes is not trusted; undefined when it is. */
export function whyNodesNotTrusted(
  nodes: readonly Node[],
  /** Ids of the instances that the cloud has in service; undefined when unknown. */
  inService: ReadonlySet<string> | undefined,
  rules: NodeRules,
  nowMs: number,
): string | undefined {
  if (inService !== undefined && inService.size > 0) {
    const machines = `${inService.size} instances are in service`;
    if (nodes.length === 0) return `the API lists no nodes while ${machines}`;
    const isJoined = nodes.some((node) => inService.has(instanceIdOf(node) ?? node.metadata.name));
    if (!isJoined)
      return `none of the ${nodes.length} nodes runs on an instance of the Auto Scaling groups while ${machines}`;
  }
  if (rules.heartbeatMsMax === 0) return undefined;
  const newest = newestHeartbeatMs(nodes);
  if (newest === undefined) return undefined;
  const lateMs = nowMs - newest;
  if (lateMs > rules.heartbeatMsMax) {
    const minutes = Math.round(lateMs / 60_000);
    return `the newest heartbeat of any ready node is ${minutes} minutes old by the database's clock: one of the clocks is wrong, or no kubelet reports`;
  }
  const clockMs = heartbeatClockMs(nodes, nowMs);
  const beats = heartbeatsMs(nodes);
  const overdue = beats.filter((atMs) => clockMs - atMs > rules.heartbeatMsMax).length;
  if (overdue * 2 > beats.length) {
    return `${overdue} of ${beats.length} ready nodes have no recent heartbeat by the database's clock: one of the clocks is wrong, or kubelets do not report`;
  }
  return undefined;
}

function newestHeartbeatMs(nodes: readonly Node[]): number | undefined {
  const beats = heartbeatsMs(nodes);
  return beats.length === 0 ? undefined : beats.reduce((newest, atMs) => Math.max(newest, atMs));
}

/** Heartbeats of Ready nodes only: those of NotReady nodes are expected to be old. */
function heartbeatsMs(nodes: readonly Node[]): number[] {
  return nodes.flatMap(({ status }) => {
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    return ready?.status === "True" ? (timeToMs(ready.lastHeartbeatTime) ?? []) : [];
  });
}
