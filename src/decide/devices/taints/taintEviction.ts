/**
 * Which pods are evicted because of a device taint, and when. A pod is evicted when a claim that is reserved for it has
 * a device with a NoExecute taint that the claim does not tolerate, or whose toleration has ended.
 */
import { selectsDevice, toleratesDeviceTaint } from "../../../model/deviceTaints.ts";
import type {
  Condition,
  DeviceRequestAllocationResult,
  DeviceTaint,
  DeviceTaintRule,
  Pod,
  ResourceClaim,
  ResourceSlice,
} from "../../../model/kubernetes.generated.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";
import { isReservedFor } from "../claims/podClaims.ts";

/** The reason and the time of an eviction. */
export interface Eviction {
  readonly atMs: number;
  readonly why: string;
  /** The name of the DeviceTaintRule, if the taint comes from one. */
  readonly rule: string | undefined;
}

export interface TaintView {
  /** The slices as drivers publish them. Of a pool only the newest generation counts. */
  readonly slicesOfPool: (driver: string, pool: string) => readonly ResourceSlice[];
  readonly rules: readonly DeviceTaintRule[];
  readonly nowMs: number;
  /** The UID of the pod's PodGroup: a claim can be reserved for a PodGroup. */
  readonly groupUidOf?: (pod: Pod) => string | undefined;
}

/** The eviction of the pod, or undefined. */
export function evictionOfPod(pod: Pod, claims: readonly ResourceClaim[], view: TaintView): Eviction | undefined {
  if (!pod.spec?.nodeName || pod.metadata.deletionTimestamp !== undefined) return undefined;
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed") return undefined;
  const groupUid = view.groupUidOf?.(pod);
  let first: Eviction | undefined;
  for (const claim of claims) {
    const isUser = isReservedFor(claim, pod.metadata.uid) || (groupUid !== undefined && isReservedFor(claim, groupUid));
    if (!isUser) continue;
    const own = evictionOfClaim(claim, view);
    if (own !== undefined && (first === undefined || own.atMs < first.atMs)) first = own;
  }
  return first;
}

export function evictionOfClaim(claim: ResourceClaim, view: TaintView): Eviction | undefined {
  let first: Eviction | undefined;
  for (const result of claim.status?.allocation?.devices?.results ?? []) {
    for (const { taint, rule } of taintsOf(result, view)) {
      if (taint.effect !== "NoExecute") continue;
      const atMs = evictAtMs(taint, result, view.nowMs);
      if (atMs === undefined || (first !== undefined && first.atMs <= atMs)) continue;
      const why = `device ${result.driver}/${result.pool}/${result.device} has taint ${taint.key}${taint.value ? `=${taint.value}` : ""}:NoExecute`;
      first = { atMs, why, rule };
    }
  }
  return first;
}

interface Tainted {
  readonly taint: DeviceTaint;
  readonly rule: string | undefined;
}

/** Taints of the slice that lists the device, then those of rules, which apply also without the slice. */
function taintsOf(result: DeviceRequestAllocationResult, { slicesOfPool, rules }: TaintView): Tainted[] {
  const slices = slicesOfPool(result.driver, result.pool);
  const newest = Math.max(0, ...slices.map(({ spec }) => spec.pool.generation));
  const own = slices
    .filter(({ spec }) => spec.pool.generation === newest)
    .flatMap(({ spec }) => spec.devices?.find(({ name }) => name === result.device)?.taints ?? [])
    .map((taint) => ({ taint, rule: undefined }));
  const byRule = rules
    .filter(({ spec }) => selectsDevice(spec.deviceSelector, result))
    .map(({ spec, metadata }) => ({ taint: spec.taint, rule: metadata.name }));
  return [...own, ...byRule];
}

/** Undefined: the taint is tolerated for ever. */
function evictAtMs(
  taint: DeviceTaint,
  { tolerations }: DeviceRequestAllocationResult,
  nowMs: number,
): number | undefined {
  const sinceMs = timeToMs(taint.timeAdded) ?? nowMs;
  // The same matcher as the allocator's: a pod that was scheduled with a taint is not evicted for it.
  const matching = (tolerations ?? []).filter((each) => toleratesDeviceTaint(each, taint));
  if (matching.length === 0) return sinceMs;
  let shortest: number | undefined;
  for (const { tolerationSeconds } of matching) {
    if (tolerationSeconds === undefined) continue;
    shortest = Math.min(shortest ?? Number.POSITIVE_INFINITY, Math.max(0, tolerationSeconds));
  }
  return shortest === undefined ? undefined : sinceMs + shortest * 1000;
}

/** The condition of a rule about its evictions. */
export function ruleCondition(
  rule: DeviceTaintRule,
  counts: { pending: number; evicted: number; wouldEvict: number; namespaces: number },
  nowMs: number,
): Condition {
  const before = rule.status?.conditions?.find(({ type }) => type === "EvictionInProgress");
  const next = ruleWords(rule, counts);
  const isSame = before?.status === next.status;
  const lastTransitionTime = isSame && before !== undefined ? before.lastTransitionTime : formatTime(nowMs);
  const observedGeneration = rule.metadata.generation;
  return {
    type: "EvictionInProgress",
    ...next,
    lastTransitionTime,
    ...(observedGeneration !== undefined && { observedGeneration }),
  };
}

function ruleWords(
  { spec }: DeviceTaintRule,
  {
    pending,
    evicted,
    wouldEvict,
    namespaces,
  }: { pending: number; evicted: number; wouldEvict: number; namespaces: number },
): Pick<Condition, "status" | "reason" | "message"> {
  switch (spec.taint.effect) {
    case "NoExecute":
      if (pending > 0) {
        const message = `${pending} ${pods(pending)} to be evicted in ${namespaces} ${spaces(namespaces)}, ${evicted} evicted`;
        return { status: "True", reason: "PodsPendingEviction", message };
      }
      if (evicted > 0) return { status: "False", reason: "Completed", message: `${evicted} ${pods(evicted)} evicted` };
      return { status: "False", reason: "NotStarted", message: "no pod uses a device with this taint" };
    case "None":
      return {
        status: "False",
        reason: "NoEffect",
        message: `with NoExecute ${wouldEvict} ${pods(wouldEvict)} in ${namespaces} ${spaces(namespaces)} would be evicted`,
      };
    default:
      return { status: "False", reason: "OtherEffect", message: "only NoExecute evicts pods" };
  }
}

function pods(count: number): string {
  return count === 1 ? "pod" : "pods";
}

function spaces(count: number): string {
  return count === 1 ? "namespace" : "namespaces";
}
