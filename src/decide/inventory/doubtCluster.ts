/**
 * Whether a listing of nodes can be believed. An API that answers for another cluster, one that was restored without
 * its nodes, and a clock that is wrong all give a well-formed answer by which nothing is free. Nodes have two witnesses
 * that are not the API: the machines that the cloud has in service, and the time.
 */
import type { Node } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/values/time.ts";
import { instanceIdOf, type NodeRules } from "./schedulableNode.ts";

/**
 * The time that heartbeats are compared with. The newest heartbeat is the cluster's own clock, so a database whose
 * clock is ahead makes no node look silent; a kubelet whose clock is ahead of the database's makes no other node look
 * silent.
 */
export function heartbeatClockMs(nodes: readonly Node[], nowMs: number): number {
  const newest = newestHeartbeatMs(nodes);
  return newest === undefined ? nowMs : Math.min(newest, nowMs);
}

/** Why nothing can be counted from these nodes, or undefined. */
export function whyClusterIsDoubted(
  nodes: readonly Node[],
  /** Ids of the machines that the cloud has in service; undefined where that is not known. */
  inService: ReadonlySet<string> | undefined,
  rules: NodeRules,
  nowMs: number,
): string | undefined {
  if (inService !== undefined && inService.size > 0) {
    const machines = `${inService.size} machines are in service`;
    if (nodes.length === 0) return `the API lists no nodes while ${machines}`;
    const isJoined = nodes.some((node) => inService.has(instanceIdOf(node) ?? node.metadata.name));
    if (!isJoined) return `none of the ${nodes.length} nodes runs on a machine of the groups while ${machines}`;
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
  const silent = beats.filter((atMs) => clockMs - atMs > rules.heartbeatMsMax).length;
  if (silent * 2 > beats.length) {
    return `${silent} of ${beats.length} ready nodes have no recent heartbeat by the database's clock: one of the clocks is wrong, or kubelets do not report`;
  }
  return undefined;
}

function newestHeartbeatMs(nodes: readonly Node[]): number | undefined {
  const beats = heartbeatsMs(nodes);
  return beats.length === 0 ? undefined : beats.reduce((newest, atMs) => Math.max(newest, atMs));
}

/** Of ready nodes: those of others are old for a reason that is known. */
function heartbeatsMs(nodes: readonly Node[]): number[] {
  return nodes.flatMap(({ status }) => {
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    return ready?.status === "True" ? (timeToMs(ready.lastHeartbeatTime) ?? []) : [];
  });
}
