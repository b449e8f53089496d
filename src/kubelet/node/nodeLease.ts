/**
 * A node's lease: the cheap heartbeat, and the right to simulate the node. A process that does not hold it leaves the
 * node and its pods alone, so that two simulators can share a cluster.
 */
import type { Lease } from "../../model/kubernetes.generated.ts";
import { seededFraction } from "../../model/values/seeded.ts";
import { formatMicroTime, timeToMs } from "../../model/values/time.ts";
import { leaseRef, type Next } from "./nodeWrite.ts";

export interface LeaseOptions {
  /** The holder identity; two simulators must not share one. */
  readonly holder: string;
  readonly leaseSeconds: number;
  readonly clusterSeed: string;
}

export const leaseDefaults = { leaseSeconds: 40 };

/**
 * Each node renews at an offset within the renew interval, derived from its name, so that 5,000 nodes that were created
 * together do not renew together. The first interval is shorter for that; all others are a quarter of the duration.
 */
function nextRenewMs(renewedMs: number, node: string, options: LeaseOptions): number {
  const quarter = (options.leaseSeconds * 1000) / 4;
  const phase = Math.floor(quarter * seededFraction(options.clusterSeed, "renew", node));
  return (Math.floor((renewedMs - phase) / quarter) + 1) * quarter + phase;
}

export interface LeaseNext extends Next {
  /** Whether this process may write for the node now. A lease that it is about to take is not held yet. */
  readonly held: boolean;
}

type LeaseNode = {
  readonly name: string;
  readonly uid: string;
  /**
   * False until this process has written the lease: one with its identity may have been written by an earlier process.
   */
  readonly isTaken?: boolean;
};

export function nextForLease(
  node: LeaseNode,
  lease: Lease | undefined,
  options: LeaseOptions,
  nowMs: number,
): LeaseNext {
  const { holder, leaseSeconds } = options;
  const { isTaken = true } = node;
  const renewMs = (leaseSeconds * 1000) / 4;
  const spec = lease?.spec ?? {};
  if (lease === undefined) {
    const object = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: node.name,
        namespace: "kube-node-lease",
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node.name, uid: node.uid }],
      },
      spec: {
        holderIdentity: holder,
        leaseDurationSeconds: leaseSeconds,
        acquireTime: formatMicroTime(nowMs),
        renewTime: formatMicroTime(nowMs),
        leaseTransitions: 0,
      },
    };
    return {
      held: false,
      writes: [{ kind: "create", ref: leaseRef(node.name), object }],
      wakeAtMs: nextRenewMs(nowMs, node.name, options),
    };
  }
  const renewedMs = timeToMs(spec.renewTime);
  const expiresMs = (renewedMs ?? 0) + (spec.leaseDurationSeconds ?? leaseSeconds) * 1000;
  const isMine = spec.holderIdentity === holder;
  const isFree = !spec.holderIdentity || renewedMs === undefined || nowMs >= expiresMs;
  if (!isMine && !isFree) {
    return { held: false, writes: [], wakeAtMs: Math.min(expiresMs, nowMs + renewMs) };
  }
  const dueMs = nextRenewMs(renewedMs ?? 0, node.name, options);
  // A clock that stepped back would otherwise let the lease expire for every other reader.
  const isAhead = renewedMs !== undefined && renewedMs > nowMs;
  if (isMine && isTaken && renewedMs !== undefined && nowMs < dueMs && !isAhead) {
    return { held: true, writes: [], wakeAtMs: dueMs };
  }
  const object = {
    ...lease,
    spec: {
      ...spec,
      holderIdentity: holder,
      leaseDurationSeconds: leaseSeconds,
      renewTime: formatMicroTime(nowMs),
      ...(isMine ? {} : { acquireTime: formatMicroTime(nowMs), leaseTransitions: (spec.leaseTransitions ?? 0) + 1 }),
    },
  };
  // An expired lease of this process may have been taken by another one whose write is not observed yet: it is not held
  // until the renewal is acknowledged.
  return {
    held: isMine && isTaken && nowMs < expiresMs,
    writes: [{ kind: "update", ref: leaseRef(node.name), object }],
    wakeAtMs: nextRenewMs(nowMs, node.name, options),
  };
}

/** Whether the lease has this process as its holder. */
export function holdsLease(lease: Lease | undefined, holder: string, nowMs: number): boolean {
  const spec = lease?.spec;
  const renewedMs = timeToMs(spec?.renewTime);
  if (spec?.holderIdentity !== holder || renewedMs === undefined) return false;
  return nowMs < renewedMs + (spec.leaseDurationSeconds ?? 0) * 1000;
}
