/**
 * The claims of one pod on nodes: the requirements are computed once, each node is checked, and the allocations are
 * returned by the UIDs of the claims. Nothing here writes or waits.
 */
import type {
  AllocatedDeviceStatus,
  AllocationResult,
  DeviceClass,
  DeviceRequestAllocationResult,
  Node,
  Pod,
  ResourceClaim,
} from "../../model/kubernetes.generated.ts";
import { matchesNodeSelector } from "../../model/objects/nodeMatch.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { PodClaim } from "./claims/podClaims.ts";
import type { RefusalReason } from "./refusalReason.ts";
import { allocate } from "./search/allocate.ts";
import type { AllocatedState } from "./search/allocatedState.ts";
import { type ClaimPlan, planClaims } from "./search/claimPlan.ts";
import type { DeviceFeatures } from "./search/features.ts";
import { type FullNodes, isSkippable } from "./search/fullNodes.ts";
import { BadSelector, type SliceIndex } from "./search/pools.ts";
import type { SelectorCache } from "./search/selectors.ts";

export interface ClaimNeeds {
  readonly pod: Pod;
  readonly claims: readonly PodClaim[];
  /** Claims that are allocated, or whose allocation is in flight for another pod of the same gang. */
  readonly placed: ReadonlyMap<string, AllocationResult>;
  readonly toAllocate: readonly ResourceClaim[];
  readonly plan: ClaimPlan | undefined;
  /** Whether a node without free devices can be skipped without a search. */
  readonly isSkippable: boolean;
}

export type Prepared =
  | { readonly kind: "skip" }
  | { readonly kind: "ready"; readonly needs: ClaimNeeds }
  /** Unschedulable until an event changes it. */
  | { readonly kind: "unschedulable"; readonly why: string; readonly reason: RefusalReason }
  /** An error; retried later. */
  | { readonly kind: "error"; readonly why: string };

export interface PrepareInput {
  readonly pod: Pod;
  readonly claims: readonly PodClaim[];
  readonly pendingAllocation: (uid: string) => AllocationResult | undefined;
  /** Whether the pod may use an allocation that is being written for another pod: pods of one gang may. */
  readonly mayJoin?: (uid: string) => boolean;
  readonly classOf: (name: string) => DeviceClass | undefined;
  readonly selectors: SelectorCache;
  readonly features: DeviceFeatures;
}

export function prepareClaims(input: PrepareInput): Prepared {
  const { pod, claims } = input;
  if (claims.length === 0) return { kind: "skip" };
  const placed = new Map<string, AllocationResult>();
  const toAllocate: ResourceClaim[] = [];
  for (const { claim } of claims) {
    const { uid, name } = claim.metadata;
    const allocation = claim.status?.allocation;
    if (allocation !== undefined) {
      placed.set(uid, allocation);
      continue;
    }
    const pending = input.pendingAllocation(uid);
    if (pending !== undefined) {
      if (input.mayJoin?.(uid) !== true) {
        const why = `resourceclaim ${name} is in the process of being allocated`;
        return { kind: "unschedulable", why, reason: "BeingAllocated" };
      }
      placed.set(uid, pending);
      continue;
    }
    const problem = classProblem(claim, input);
    if (problem !== undefined) return problem;
    toAllocate.push(claim);
  }
  if (toAllocate.length === 0)
    return { kind: "ready", needs: { pod, claims, placed, toAllocate, plan: undefined, isSkippable: false } };
  const planned = planClaims({ ...input, claims: toAllocate });
  if (!planned.ok) return { kind: "error", why: planned.message };
  const { plan } = planned;
  const isNodeSkippable = placed.size === 0 && isSkippable(plan);
  return { kind: "ready", needs: { pod, claims, placed, toAllocate, plan, isSkippable: isNodeSkippable } };
}

function classProblem(claim: ResourceClaim, { classOf, features }: PrepareInput): Prepared | undefined {
  for (const { name, exactly, firstAvailable = [] } of claim.spec.devices?.requests ?? []) {
    if (exactly === undefined && firstAvailable.length === 0) {
      return { kind: "unschedulable", why: `request ${name}: unsupported request type`, reason: "BadRequest" };
    }
    if (firstAvailable.length > 0 && !features.prioritizedList) {
      const why = `request ${name}: has subrequests, but the DRAPrioritizedList feature is disabled`;
      return { kind: "unschedulable", why, reason: "BadRequest" };
    }
    const named = exactly === undefined ? [] : [{ label: name, className: exactly.deviceClassName }];
    for (const each of firstAvailable) named.push({ label: `${name}/${each.name}`, className: each.deviceClassName });
    for (const { label, className } of named) {
      if (className === "") return { kind: "error", why: `request ${label}: unsupported request type` };
      if (classOf(className) === undefined) {
        const why = `request ${label}: device class ${className} does not exist`;
        return { kind: "unschedulable", why, reason: "BadRequest" };
      }
    }
  }
  return undefined;
}

export type NodeVerdict =
  /** Allocations by claim UID; `score` is the sum over the chosen alternatives. */
  | { readonly kind: "fits"; readonly allocations: ReadonlyMap<string, AllocationResult>; readonly score: number }
  /** `unavailable`: claims whose allocation cannot be used on this node. */
  | {
      readonly kind: "unschedulable";
      readonly why: string;
      readonly reason: RefusalReason;
      readonly unavailable: readonly string[];
    }
  | { readonly kind: "error"; readonly why: string };

export interface FilterInput {
  /** Skips the search of nodes without free devices. */
  readonly full?: FullNodes;
  readonly sliceIndex: SliceIndex;
  readonly state: AllocatedState;
  readonly features: DeviceFeatures;
  readonly nowMs: number;
  readonly bindingTimeoutMs?: number;
  /**
   * Called at every step of the search; a returned value stops it. "timeout" means that the result for this node is
   * unknown.
   */
  readonly stop?: () => "timeout" | "canceled" | undefined;
}

export const defaultBindingTimeoutMs = 600_000;
const noDevices = (unavailable: readonly string[]): NodeVerdict => ({
  kind: "unschedulable",
  why: "cannot allocate all claims",
  reason: "NoDevices",
  unavailable,
});

export function filterNode(needs: ClaimNeeds, node: Node, input: FilterInput): NodeVerdict {
  if (input.full !== undefined && canSkipNode(needs, node, input.full)) return noDevices([]);
  const unavailable: string[] = [];
  for (const [uid, allocation] of needs.placed) {
    const claim = needs.claims.find((each) => each.claim.metadata.uid === uid)?.claim;
    const { nodeSelector } = allocation;
    const isReached = nodeSelector === undefined || matchesNodeSelector(nodeSelector, node);
    if (!isReached || (claim !== undefined && hasFailedBinding(claim, input))) unavailable.push(uid);
  }
  const allocations = new Map(needs.placed);
  if (needs.plan !== undefined) {
    const { sliceIndex, state, features, stop } = input;
    const found = allocate({
      plan: needs.plan,
      sliceIndex,
      node,
      state,
      features,
      ...(stop !== undefined && { stop }),
    });
    switch (found.kind) {
      case "doesNotFit":
        return noDevices(unavailable);
      case "failed":
        if (!found.isNodeLocal) return { kind: "error", why: found.message };
        return { kind: "unschedulable", why: found.message, reason: "Error", unavailable };
      case "stopped":
        if (found.why === "timeout") {
          const why = `node ${node.metadata.name}: timed out trying to allocate devices`;
          return { kind: "error", why };
        }
        return {
          kind: "unschedulable",
          why: "asked by caller to stop allocating devices",
          reason: "Error",
          unavailable,
        };
      case "allocated":
        for (const [i, claim] of needs.toAllocate.entries()) {
          allocations.set(claim.metadata.uid, found.results[i] as AllocationResult);
        }
    }
  }
  if (unavailable.length > 0) {
    return { kind: "unschedulable", why: "resourceclaim not available on the node", reason: "NotOnNode", unavailable };
  }
  return { kind: "fits", allocations, score: scoreOf(needs, allocations) };
}

/** Whether the node can be skipped, because it has no free device. An invalid slice is reported by the search. */
export function canSkipNode(needs: ClaimNeeds, node: Node, full: FullNodes): boolean {
  try {
    return needs.isSkippable && full.isFull(node);
  } catch (error) {
    if (error instanceof BadSelector) return false;
    throw error;
  }
}

const alternativesMax = 8;

/** Scores of alternatives: 8 for the first, 7 for the second, and so on. */
function scoreOf({ claims }: ClaimNeeds, allocations: ReadonlyMap<string, AllocationResult>): number {
  let score = 0;
  for (const { claim } of claims) {
    const results = allocations.get(claim.metadata.uid)?.devices?.results ?? [];
    for (const { name, firstAvailable = [] } of claim.spec.devices?.requests ?? []) {
      if (firstAvailable.length === 0) continue;
      const chosen = firstAvailable.findIndex((each) =>
        results.some(({ request }) => request === `${name}/${each.name}`),
      );
      if (chosen >= 0) score += alternativesMax - chosen;
    }
  }
  return score;
}

/** The score where every request gets its first alternative. */
export function bestScoreOf({ claims }: ClaimNeeds): number {
  let score = 0;
  for (const { claim } of claims) {
    for (const { firstAvailable = [] } of claim.spec.devices?.requests ?? []) {
      if (firstAvailable.length > 0) score += alternativesMax;
    }
  }
  return score;
}

/** Whether a claim that was allocated with conditions can no longer be bound. */
function hasFailedBinding(claim: ResourceClaim, { features, nowMs, bindingTimeoutMs }: FilterInput): boolean {
  if (!features.bindingConditions) return false;
  const verdict = bindingOf(claim, nowMs, bindingTimeoutMs ?? defaultBindingTimeoutMs);
  return verdict.kind === "failed" || verdict.kind === "timedOut";
}

export type BindingVerdict =
  | { readonly kind: "ready" }
  | { readonly kind: "waiting"; readonly untilMs: number; readonly why: string }
  | { readonly kind: "failed"; readonly why: string }
  | { readonly kind: "timedOut"; readonly why: string };

/** The binding conditions of devices that have to be ready before a pod may be bound to them. */
export function bindingOf(claim: ResourceClaim, nowMs: number, timeoutMs: number): BindingVerdict {
  let waiting: string | undefined;
  for (const result of claim.status?.allocation?.devices?.results ?? []) {
    const { bindingConditions = [], bindingFailureConditions = [] } = result;
    if (bindingConditions.length === 0) continue;
    const status = claim.status?.devices?.find((each) => isSameDevice(each, result));
    const isTrue = (type: string): boolean =>
      status?.conditions?.some((each) => each.type === type && each.status === "True") === true;
    const failure = bindingFailureConditions.find(isTrue);
    if (failure !== undefined) return { kind: "failed", why: `device ${result.device}: ${failure}` };
    const missing = bindingConditions.find((type) => !isTrue(type));
    if (missing !== undefined) waiting ??= `device ${result.device}: ${missing}`;
  }
  if (waiting === undefined) return { kind: "ready" };
  const since = claim.status?.allocation?.allocationTimestamp;
  const untilMs = (timeToMs(since) ?? nowMs) + timeoutMs;
  return nowMs >= untilMs ? { kind: "timedOut", why: waiting } : { kind: "waiting", untilMs, why: waiting };
}

/** Upstream leaves the share out, and so mixes up two shares of one device. */
function isSameDevice(status: AllocatedDeviceStatus, result: DeviceRequestAllocationResult): boolean {
  return (
    status.driver === result.driver &&
    status.pool === result.pool &&
    status.device === result.device &&
    status.shareID === result.shareID
  );
}
