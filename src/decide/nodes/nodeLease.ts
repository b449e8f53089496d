/**
 * A node's lease: the cheap heartbeat, and the right to speak for the node. Who does not hold it leaves the node and
 * its pods alone, so that two simulators can share a cluster.
 */
import type { Lease } from "../../model/kubernetes.generated.ts";
import { formatMicroTime, timeToMs } from "../../model/time.ts";
import { leaseRef, type Next } from "./nodeWrite.ts";
import { seededFraction } from "./seeded.ts";

export interface LeaseOptions {
  /** Who we are; two simulators must not share a name. */
  readonly holder: string;
  readonly leaseSeconds: number;
  readonly clusterSeed: string;
}

export const leaseDefaults = { leaseSeconds: 40 };

/** Share of the renew interval by which nodes are spread, so that 5,000 of them do not renew in one instant. */
const jitter = 0.04;

export interface LeaseNext extends Next {
  /** Whether we may write for the node now. A lease that we are only about to take is not held yet. */
  readonly held: boolean;
}

type LeaseNode = { readonly name: string; readonly uid: string };

export function nextForLease(
  node: LeaseNode,
  lease: Lease | undefined,
  options: LeaseOptions,
  nowMs: number,
): LeaseNext {
  const { holder, leaseSeconds } = options;
  const renewMs = renewIntervalMs(node.name, options);
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
    return { held: false, writes: [{ kind: "create", ref: leaseRef(node.name), object }], wakeAtMs: nowMs + renewMs };
  }
  const renewedMs = timeToMs(spec.renewTime);
  const expiresMs = (renewedMs ?? 0) + (spec.leaseDurationSeconds ?? leaseSeconds) * 1000;
  const isMine = spec.holderIdentity === holder;
  const isFree = !spec.holderIdentity || renewedMs === undefined || nowMs >= expiresMs;
  if (!isMine && !isFree) {
    return { held: false, writes: [], wakeAtMs: Math.min(expiresMs, nowMs + renewMs) };
  }
  const dueMs = (renewedMs ?? 0) + renewMs;
  if (isMine && renewedMs !== undefined && nowMs < dueMs) return { held: true, writes: [], wakeAtMs: dueMs };
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
  // Our own lease that has run out may have been taken by somebody whose write we have not seen: not held until ours
  // is acknowledged.
  return {
    held: isMine && nowMs < expiresMs,
    writes: [{ kind: "update", ref: leaseRef(node.name), object }],
    wakeAtMs: nowMs + renewMs,
  };
}

/** A quarter of the duration and a little, fixed for each node. */
export function renewIntervalMs(node: string, { leaseSeconds, clusterSeed }: LeaseOptions): number {
  const quarter = (leaseSeconds * 1000) / 4;
  return Math.floor(quarter * (1 + jitter * seededFraction(clusterSeed, "renew", node)));
}

/** Whether the lease says that we speak for the node. */
export function holdsLease(lease: Lease | undefined, holder: string, nowMs: number): boolean {
  const spec = lease?.spec;
  const renewedMs = timeToMs(spec?.renewTime);
  if (spec?.holderIdentity !== holder || renewedMs === undefined) return false;
  return nowMs < renewedMs + (spec.leaseDurationSeconds ?? 0) * 1000;
}
