/**
 * Counts the pods in scope, each in exactly one category, in one pass over one snapshot. All numbers, lists and the
 * distribution come from here, so they are consistent.
 */
import { assert } from "../../model/assert.ts";
import type { Job, Pod } from "../../model/kubernetes.generated.ts";
import type { OwnerReference } from "../../model/objects/object.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";
import type { VerifyConfig } from "./verifyConfig.ts";

export interface PodTally {
  readonly counts: PodCounts;
  /** Pods in scope, in the order of their names. */
  readonly pods: readonly Pod[];
  readonly unscheduled: readonly Pod[];
  /** Unscheduled too, but they appeared a moment ago and no scheduler has tried them. */
  readonly settling: readonly Pod[];
  readonly failed: readonly Pod[];
  /** Unscheduled pods of Jobs that may stay so. */
  readonly ignoredJobs: readonly Pod[];
  /** Failed pods that their owner has replaced or still retries. */
  readonly excusedFailures: readonly Pod[];
  /** Bound, and not running yet. */
  readonly starting: readonly Pod[];
  /** Running or unknown and without a node: an impossible status. */
  readonly runningWithoutNode: readonly Pod[];
  /** Node to pods in scope; pods without a node under `<none>`. */
  readonly distribution: ReadonlyMap<string, number>;
}

export interface PodCounts {
  readonly total: number;
  readonly running: number;
  readonly pending: number;
  /** Pending and without a node, those that are settling included. */
  readonly unscheduled: number;
  readonly failed: number;
  readonly succeeded: number;
  readonly unknown: number;
  readonly ignoredJobs: number;
  /** Of the unscheduled ones, those that do not fail the run yet. */
  readonly settling: number;
  readonly excusedFailures: number;
}

export const noNode = "<none>";

/** `isSettling`: whether an unscheduled pod is too new to fail the run. */
export function tallyPods(
  snapshot: ClusterSnapshot,
  config: Pick<VerifyConfig, "excluded" | "ignoreJobs" | "failOnEvicted" | "compat">,
  isSettling: (pod: Pod) => boolean = () => false,
): PodTally {
  const excluded = new Set(config.excluded);
  const pods = objectsOf<Pod>(snapshot, "pods").filter(({ metadata }) => !excluded.has(metadata.namespace ?? ""));
  const jobs = new JobsByUid(snapshot);
  const unscheduled: Pod[] = [];
  const settling: Pod[] = [];
  const failures: Pod[] = [];
  const ignoredJobs: Pod[] = [];
  const starting: Pod[] = [];
  const runningWithoutNode: Pod[] = [];
  const distribution = new Map<string, number>();
  let running = 0;
  let pending = 0;
  let succeeded = 0;
  let unknown = 0;
  for (const pod of pods) {
    const node = pod.spec?.nodeName ?? "";
    const place = node === "" ? noNode : node;
    distribution.set(place, (distribution.get(place) ?? 0) + 1);
    switch (pod.status?.phase ?? "Pending") {
      case "Running":
        running++;
        if (node === "") runningWithoutNode.push(pod);
        break;
      case "Succeeded":
        succeeded++;
        break;
      case "Failed":
        failures.push(pod);
        break;
      case "Pending":
        pending++;
        if (node !== "") starting.push(pod);
        else if (mayStayUnscheduled(pod, jobs, config)) ignoredJobs.push(pod);
        else if (isSettling(pod)) settling.push(pod);
        else unscheduled.push(pod);
        break;
      default:
        unknown++;
        if (node === "") runningWithoutNode.push(pod);
    }
  }
  const replaced =
    config.failOnEvicted || config.compat === "aicr" ? new Set<Pod>() : replacedEvictions(failures, pods);
  const isExcused = (pod: Pod): boolean =>
    config.compat !== "aicr" && (replaced.has(pod) || jobs.ofPod(pod)?.state === "retries");
  const failed = failures.filter((pod) => !isExcused(pod));
  const excusedFailures = failures.filter(isExcused);
  const counts: PodCounts = {
    total: pods.length,
    running,
    pending,
    unscheduled: unscheduled.length + settling.length,
    failed: failed.length,
    succeeded,
    unknown,
    ignoredJobs: ignoredJobs.length,
    settling: settling.length,
    excusedFailures: excusedFailures.length,
  };
  assertCounts(counts, distribution);
  const placed = { starting, runningWithoutNode, distribution };
  return { counts, pods, unscheduled, settling, failed, ignoredJobs, excusedFailures, ...placed };
}

/** Asserts that the counts add up; a failure is a bug of Muster. */
export function assertCounts(counts: PodCounts, distribution: ReadonlyMap<string, number>): void {
  const { total, running, pending, unscheduled, failed, succeeded, unknown, ignoredJobs, settling } = counts;
  const placed = [...distribution.values()].reduce((sum, each) => sum + each, 0);
  const phases = running + pending + failed + counts.excusedFailures + succeeded + unknown;
  assert(unscheduled + ignoredJobs <= pending, `${pending} pods are pending and more are unscheduled`);
  assert(settling <= unscheduled, `${unscheduled} pods are unscheduled and more are settling`);
  assert(phases === total, `${total} pods have ${phases} phases`);
  assert(placed === total, `${total} pods are in ${placed} places`);
}

function mayStayUnscheduled(pod: Pod, jobs: JobsByUid, config: Pick<VerifyConfig, "ignoreJobs" | "compat">): boolean {
  const owners = pod.metadata.ownerReferences ?? [];
  if (owners.length === 0) return false;
  // The aicr harness compared only the kind, so training Jobs of every API group were ignored too.
  if (config.compat === "aicr") return owners.some(({ kind }) => kind === "Job");
  if (!owners.some(isJob)) return false;
  return config.ignoreJobs || jobs.ofPod(pod)?.isHook === true;
}

function isJob({ apiVersion, kind }: OwnerReference): boolean {
  return kind === "Job" && apiVersion.startsWith("batch/");
}

interface KnownJob {
  readonly isHook: boolean;
  /** `failed`: the Job has failed for good. `retries`: it is still running or has succeeded. */
  readonly state: "failed" | "retries";
}

const hookAnnotations = ["helm.sh/hook", "argocd.argoproj.io/hook"];

/** Jobs are indexed only when a pod of a Job needs it. */
class JobsByUid {
  private readonly snapshot: ClusterSnapshot;
  private byUid: Map<string, KnownJob> | undefined;

  constructor(snapshot: ClusterSnapshot) {
    this.snapshot = snapshot;
  }

  /** The Job that a pod belongs to, if it is in the snapshot. Failures of a deleted Job's pods count. */
  ofPod({ metadata }: Pod): KnownJob | undefined {
    const owner = metadata.ownerReferences?.find(isJob);
    if (owner === undefined) return undefined;
    this.byUid ??= new Map(objectsOf<Job>(this.snapshot, "jobs").map((job) => [job.metadata.uid, known(job)]));
    return this.byUid.get(owner.uid);
  }
}

function known({ metadata, status }: Job): KnownJob {
  const gaveUp = status?.conditions?.some(
    ({ type, status: holds }) => (type === "Failed" || type === "FailureTarget") && holds === "True",
  );
  return {
    isHook: hookAnnotations.some((key) => metadata.annotations?.[key] !== undefined),
    state: gaveUp === true ? "failed" : "retries",
  };
}

/** Evicted pods that their controller has replaced since. Each replacement counts for one eviction. */
function replacedEvictions(failures: readonly Pod[], pods: readonly Pod[]): ReadonlySet<Pod> {
  const evicted = failures.filter(({ status }) => status?.reason === "Evicted");
  const replaced = new Set<Pod>();
  if (evicted.length === 0) return replaced;
  const owners = new Set(evicted.map(controllerUid));
  const free = new Map<string, Pod[]>();
  for (const pod of pods) {
    const uid = controllerUid(pod);
    if (uid === undefined || !owners.has(uid)) continue;
    if (pod.status?.phase === "Failed" || pod.metadata.deletionTimestamp !== undefined) continue;
    free.set(uid, [...(free.get(uid) ?? []), pod]);
  }
  const newestFirst = [...evicted].sort((a, b) => compareTimes(b, a));
  for (const pod of newestFirst) {
    const candidates = free.get(controllerUid(pod) ?? "") ?? [];
    const at = candidates.findIndex((other) => compareTimes(other, pod) > 0);
    if (at < 0) continue;
    candidates.splice(at, 1);
    replaced.add(pod);
  }
  return replaced;
}

function compareTimes(a: Pod, b: Pod): number {
  const [left, right] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp];
  return left === right ? 0 : left < right ? -1 : 1;
}

function controllerUid({ metadata }: Pod): string | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true)?.uid;
}
