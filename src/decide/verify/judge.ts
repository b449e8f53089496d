/** Runs the checks on one snapshot: the verdict, and what a retry may change. */

import type { ContainerStatus, Pod } from "../../model/kubernetes.generated.ts";
import { podRequests } from "../../model/objects/podRequests.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { formatQuantity } from "../../model/values/quantity.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Check } from "./check.ts";
import { chosenChecks } from "./checks.ts";
import { claimOfPod } from "./claims.ts";
import { classify, isRefusal, wasTried } from "./classify.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";
import { gangOfPod } from "./gangs.ts";
import { podKey, podName } from "./placement.ts";
import { eventsOfPods, eventsToPrint, type PodEvent } from "./podEvents.ts";
import { type PodTally, tallyPods } from "./podTally.ts";
import type { VerifyConfig } from "./verifyConfig.ts";
import {
  type CheckResult,
  type ConfigShown,
  compatCode,
  type ExtraId,
  exitCodes,
  type FailedContainer,
  type FailedPod,
  type SnapshotShown,
  type UnscheduledPod,
  type Verdict,
  type VerifyError,
  type VerifyResult,
} from "./verifyResult.ts";

export interface Judgement {
  readonly tally: PodTally;
  readonly checks: readonly CheckResult[];
  /** Findings that may resolve within the settle window; empty when a retry cannot help. */
  readonly waitingFor: readonly string[];
  readonly verdict: Verdict;
  readonly exitCode: number;
  readonly warnings: readonly string[];
}

/**
 * `isNew` is called for unscheduled pods. A new pod that a scheduler has already tried counts as unscheduled, not as
 * settling.
 */
export function judge(
  snapshot: ClusterSnapshot,
  config: VerifyConfig,
  isNew: (pod: Pod) => boolean = () => false,
): Judgement {
  const unbound = objectsOf<Pod>(snapshot, "pods").filter(({ spec }) => (spec?.nodeName ?? "") === "");
  const events = eventsOfPods(snapshot, unbound);
  const isSettling = (pod: Pod): boolean => isNew(pod) && !wasTried(pod, events.get(pod.metadata.uid) ?? []);
  const tally = tallyPods(snapshot, config, isSettling);
  const ran = chosenChecks(config.checks).map((check) => ({ check, result: runCheck(check, snapshot, tally, config) }));
  const extras = extraResults(tally, config);
  const checks = [...extras, ...ran.map(({ result }) => result)];
  const failedChecks = ran.filter(({ result }) => result.status === "failed");
  const gitopsFailed = failedChecks.some(({ check }) => check.id === "gitops");
  const { counts } = tally;
  const isEmpty = counts.total === 0;
  const tooFew = counts.total < config.expectMin;
  const notRunning = config.requireRunning ? tally.starting.length : 0;
  const checksPods = config.checks.includes("S1");
  // A pod that is being deleted may be Failed for a while. The aicr harness did not wait for that.
  const leaving = config.compat === "aicr" ? 0 : tally.failed.filter(isLeaving).length;
  const podsFailed = checksPods && counts.failed > leaving;

  const waitingFor: string[] = [];
  for (const { check, result } of failedChecks) {
    if (check.settles && check.id !== "S1") waitingFor.push(`${check.id}: ${result.message}`);
  }
  if (checksPods && counts.unscheduled > 0) waitingFor.push(`${counts.unscheduled} unscheduled`);
  if (checksPods && leaving > 0) waitingFor.push(`${leaving} failed and being deleted`);
  if (tooFew) waitingFor.push(`${config.expectMin - counts.total} of ${config.expectMin} expected pods`);
  if (notRunning > 0) waitingFor.push(`${notRunning} bound and not running`);
  // A failed pod stays failed. Before GitOps has converged it may still be replaced.
  const cannotPass = podsFailed && !gitopsFailed;

  const warnings: string[] = [];
  let verdict: Verdict = "pass";
  let exitCode: number = exitCodes.pass;
  if (gitopsFailed) [verdict, exitCode] = ["fail", exitCodes.gitops];
  else if (isEmpty && !passesEmpty(config) && checksPods) [verdict, exitCode] = ["empty", exitCodes.empty];
  else if (checks.some(({ status }) => status === "failed")) {
    [verdict, exitCode] = ["fail", exitCodes.failed];
  } else if (isEmpty && checksPods) warnings.push("No pods were created - bundle may be empty");
  if (counts.settling > 0 && !config.strict) {
    warnings.push(
      `${counts.settling} pods appeared less than ${config.graceMs / 1000}s ago and have not been tried by a scheduler yet`,
    );
  }
  if (!snapshot.coherent) {
    warnings.push(`the snapshot is incoherent, kinds at another revision: ${snapshot.incoherent.join("; ")}`);
  }
  return {
    tally,
    checks,
    waitingFor: cannotPass ? [] : waitingFor,
    verdict,
    exitCode: compatCode(exitCode, config.compat),
    warnings,
  };
}

/** Results from the pod counts. A run passes when none of its results is `failed`. */
function extraResults({ counts, failed, starting }: PodTally, config: VerifyConfig): CheckResult[] {
  const results: CheckResult[] = [];
  const add = (
    id: ExtraId,
    title: string,
    bad: boolean,
    message: string,
    details: CheckResult["details"] = [],
  ): void => {
    results.push({ id, title, status: bad ? "failed" : "passed", message, details });
  };
  if (config.checks.includes("S1")) {
    const isMissing = counts.total === 0 && !passesEmpty(config);
    const message = isMissing ? "nothing to verify: no pod is in scope" : `${counts.total} pods in scope`;
    add("scope", "there is something to verify", isMissing, message);
    const details = failed.map((pod) => ({ object: podName(pod), problem: `failed: ${failedPod(pod).reason}` }));
    add("failed-pods", "no pod in scope has failed", failed.length > 0, `${failed.length} pods failed`, details);
  }
  if (config.expectMin > 0) {
    const message = `${counts.total} pods in scope, at least ${config.expectMin} expected`;
    add("expect-min", "as many pods as expected", counts.total < config.expectMin, message);
  }
  if (config.requireRunning) {
    const details = starting.map((pod) => ({ object: podName(pod), problem: "is bound and not running" }));
    add(
      "require-running",
      "bound pods are running",
      starting.length > 0,
      `${starting.length} bound pods are not running`,
      details,
    );
  }
  return results;
}

function isLeaving({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function passesEmpty({ allowEmpty, compat }: VerifyConfig): boolean {
  return allowEmpty || compat === "aicr";
}

function runCheck(check: Check, snapshot: ClusterSnapshot, tally: PodTally, config: VerifyConfig): CheckResult {
  const { id, title } = check;
  try {
    const { status, message, evidence } = check.run({ snapshot, tally, config });
    return { id, title, status, message, details: evidence };
  } catch (error) {
    // A check that fails on an unexpected object counts as failed and does not stop the other checks.
    const message = `the check failed with an error: ${error instanceof Error ? error.message : String(error)}`;
    return { id, title, status: "failed", message, details: [] };
  }
}

/** The progress of a run: attempts and times, which are not in the snapshot. */
export interface RunProgress {
  readonly cluster: string;
  readonly attempts: number;
  readonly waitedMs: number;
  readonly wallMs: number;
  readonly history: VerifyResult["history"];
}

/** The result of a run, from the final snapshot. */
export function resultOf(
  snapshot: ClusterSnapshot,
  judgement: Judgement,
  config: VerifyConfig,
  progress: RunProgress,
): VerifyResult {
  const { tally, checks, verdict, exitCode, warnings } = judgement;
  const listed = [...tally.unscheduled, ...tally.settling];
  const events = eventsOfPods(snapshot, listed);
  const printed = eventsToPrint(listed, events);
  const show = (pod: Pod): UnscheduledPod => {
    const { uid } = pod.metadata;
    return unscheduledPod(snapshot, pod, { all: events.get(uid) ?? [], printed: printed.get(uid) ?? [] });
  };
  const [unscheduled, settling] = [tally.unscheduled.map(show), tally.settling.map(show)];
  return {
    verdict,
    exitCode,
    ...progress,
    snapshot: snapshotShown(snapshot),
    counts: tally.counts,
    distribution: sortedDistribution(tally.distribution),
    unscheduled,
    settling,
    failed: tally.failed.map(failedPod),
    ignoredJobs: tally.ignoredJobs.map(podKey),
    excusedFailures: tally.excusedFailures.map(podKey),
    notRunning: config.requireRunning ? tally.starting.map(podKey) : [],
    eventsOmitted: [...unscheduled, ...settling].reduce((sum, pod) => sum + pod.eventsOmitted, 0),
    checks,
    warnings,
    config: configShown(config),
  };
}

/** The step at which a run ended without a verdict. */
function failedStep(error: VerifyError): { id: ExtraId; title: string } {
  if (error.class === "setup") return { id: "setup", title: "the run can start" };
  if (error.class === "interrupted" || error.class === "internal")
    return { id: "verdict", title: "the run reaches a verdict" };
  return { id: "snapshot", title: "a snapshot of the cluster can be taken" };
}

/** A run that ended without a snapshot, or before its verdict. */
export function resultWithout(
  error: VerifyError,
  exitCode: number,
  config: VerifyConfig,
  progress: RunProgress,
): VerifyResult {
  const { id, title } = failedStep(error);
  return {
    verdict: "error",
    exitCode: compatCode(exitCode, config.compat),
    ...progress,
    unscheduled: [],
    settling: [],
    failed: [],
    ignoredJobs: [],
    excusedFailures: [],
    notRunning: [],
    eventsOmitted: 0,
    checks: [{ id, title, status: "other", message: error.message, details: [] }],
    warnings: [],
    config: configShown(config),
    error,
  };
}

export function configShown(config: VerifyConfig): ConfigShown {
  const { profile, gitopsRoot, compat, checks, ...rest } = config;
  return {
    ...rest,
    checks,
    profile: profile?.name ?? null,
    gitopsRoot: gitopsRoot ?? null,
    compat: compat ?? null,
  };
}

export function snapshotShown(snapshot: ClusterSnapshot): SnapshotShown {
  const versions: Record<string, string> = {};
  const counts: Record<string, number | null> = {};
  for (const [name, kind] of snapshot.kinds) {
    if (kind.served) versions[name] = kind.revision;
    counts[name] = kind.served ? kind.objects.length : null;
  }
  const { revision, coherent, incoherent, takenAtMs } = snapshot;
  return { resourceVersion: revision, coherent, incoherent, versions, takenAt: formatTime(takenAtMs), counts };
}

function sortedDistribution(distribution: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...distribution].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function unscheduledPod(
  snapshot: ClusterSnapshot,
  pod: Pod,
  events: { readonly all: readonly PodEvent[]; readonly printed: readonly PodEvent[] },
): UnscheduledPod {
  const { class: name, why, reasons } = classify(snapshot, pod, events.all);
  const requests: Record<string, string> = {};
  for (const [resource, nano] of [...podRequests(pod)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    requests[resource] = formatQuantity({ nano, format: resource === "memory" ? "binarySI" : "decimalSI" });
  }
  const claims = (pod.spec?.resourceClaims ?? []).map((entry) => {
    const claim = claimOfPod(pod, entry);
    return claim.type === "named" ? claim.name : `${entry.name} (${claim.type})`;
  });
  return {
    namespace: pod.metadata.namespace ?? "",
    name: pod.metadata.name,
    uid: pod.metadata.uid,
    phase: pod.status?.phase ?? "Pending",
    age: humanAge(pod.metadata.creationTimestamp, snapshot.takenAtMs),
    class: name,
    why,
    reasons,
    scheduler: pod.spec?.schedulerName ?? "",
    requests,
    gang: gangOfPod(snapshot, pod)?.name ?? null,
    claims,
    events: events.printed,
    eventsOmitted: events.all.length - events.printed.length,
    hasRefusalEvent: events.all.some(isRefusal),
  };
}

function failedPod({ metadata, spec, status }: Pod): FailedPod {
  const containers = [
    ...(status?.initContainerStatuses ?? []).flatMap((each) => failedContainer(each, true)),
    ...(status?.containerStatuses ?? []).flatMap((each) => failedContainer(each, false)),
  ];
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    node: spec?.nodeName === undefined || spec.nodeName === "" ? null : spec.nodeName,
    reason: status?.reason ?? containers.find(({ reason }) => reason !== "")?.reason ?? "Unknown",
    message: status?.message ?? "",
    containers,
  };
}

/** Every container that failed, init containers included. */
function failedContainer({ name, state, lastState }: ContainerStatus, init: boolean): FailedContainer[] {
  const ended = state?.terminated ?? lastState?.terminated;
  if (ended !== undefined) {
    if (ended.exitCode === 0) return [];
    return [{ name, init, reason: ended.reason ?? "", exitCode: ended.exitCode, message: ended.message ?? "" }];
  }
  const waiting = state?.waiting;
  if (waiting === undefined) return [];
  return [{ name, init, reason: waiting.reason ?? "", exitCode: null, message: waiting.message ?? "" }];
}
