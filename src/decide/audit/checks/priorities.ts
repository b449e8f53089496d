import type { Node, Pod, PodTemplateSpec, PriorityClass } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { isLeaving } from "../../../model/objects/podFacts.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { defaultSchedulerName } from "../../../model/scheduling/keys.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Evidence } from "../../verify/check.ts";
import { inversionsOf } from "../../verify/checks/noPriorityInversion.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { list, record, text } from "../../verify/gangs.ts";
import { isBound, isFinished } from "../../verify/placement.ts";
import type { KindName } from "../../verify/readKinds.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";

const workloads = ["deployments", "statefulsets", "daemonsets", "jobs"] as const satisfies readonly KindName[];

export const priorityChecks: readonly AuditCheck[] = [
  {
    name: "priority-class",
    meaning: "a priority has no effect: its PriorityClass does not exist, or several classes are the default",
    cause: "the PriorityClass was deleted or misspelt, or two classes were made the default at the same time",
    cure: "create the PriorityClass or correct priorityClassName; set globalDefault in one class only",
    settleMs: settle.controller,
    needs: ["priorityclasses", "podgroups", ...workloads],
    find: (snapshot) => {
      const classes = objectsOf<PriorityClass>(snapshot, "priorityclasses");
      const known = new Set(classes.map(({ metadata }) => metadata.name));
      return [...missingClasses(snapshot, known), ...severalDefaults(classes)];
    },
  },
  {
    name: "priority-inversion",
    meaning: "a pod has waited for 15 minutes while pods of lower priority hold what it needs",
    cause: "preemption is off, or fails: a disruption budget, or a scheduler that does not see the other pods",
    cure: "read the events of the pod; delete pods of lower priority, or correct the disruption budgets",
    settleMs: settle.chain,
    needs: ["pods", "nodes"],
    find: inversions,
  },
];

function missingClasses(snapshot: ClusterSnapshot, known: ReadonlySet<string>): Evidence[] {
  const evidence: Evidence[] = [];
  const check = (plural: string, { metadata }: KubeObject, name: string | undefined): void => {
    if (name === undefined || name === "" || known.has(name) || metadata.deletionTimestamp !== undefined) return;
    const object = `${plural}/${metadata.namespace ?? ""}/${metadata.name}`;
    evidence.push({ object, problem: `its PriorityClass ${name} does not exist` });
  };
  for (const plural of workloads) {
    for (const workload of objectsOf(snapshot, plural)) {
      const spec = record(workload["spec"]);
      // A Job that has ended, or a workload without replicas, creates no pods.
      if (spec["replicas"] === 0 || hasEnded(workload)) continue;
      const template = spec["template"] as PodTemplateSpec | undefined;
      check(plural, workload, template?.spec?.priorityClassName);
    }
  }
  for (const group of objectsOf(snapshot, "podgroups")) {
    check("podgroups", group, text(record(group["spec"])["priorityClassName"]));
  }
  return evidence;
}

function hasEnded({ status }: KubeObject): boolean {
  return list(record(status)["conditions"])
    .map(record)
    .some(({ type, status: holds }) => (type === "Complete" || type === "Failed") && holds === "True");
}

function severalDefaults(classes: readonly PriorityClass[]): Evidence[] {
  const defaults = classes.filter(({ globalDefault }) => globalDefault === true);
  if (defaults.length < 2) return [];
  const lowest = [...defaults].sort((a, b) => (a.value ?? 0) - (b.value ?? 0))[0];
  return defaults.flatMap((each) => {
    if (each === lowest) return [];
    const object = `priorityclasses/${each.metadata.name}`;
    return [{ object, problem: `is a default without effect: ${lowest?.metadata.name} is one too, and is lower` }];
  });
}

/** Pods of kube-scheduler for which only requests, labels and taints count: what else decides is not looked at. */
function inversions(snapshot: ClusterSnapshot): Evidence[] {
  const waiting = objectsOf<Pod>(snapshot, "pods").filter((pod) => canPreempt(pod, snapshot.takenAtMs));
  return inversionsOf(snapshot, waiting, isOpenTo);
}

function canPreempt(pod: Pod, nowMs: number): boolean {
  const { spec, status, metadata } = pod;
  if (isBound(pod) || isFinished(pod) || isLeaving(pod)) return false;
  if (nowMs - (timeToMs(metadata.creationTimestamp) ?? nowMs) < stuck.unscheduledMs) return false;
  if ((spec?.schedulerName ?? defaultSchedulerName) !== defaultSchedulerName) return false;
  if (spec?.preemptionPolicy === "Never" || (status?.nominatedNodeName ?? "") !== "") return false;
  const { podAffinity, podAntiAffinity } = spec?.affinity ?? {};
  const others = [spec?.schedulingGates, spec?.resourceClaims, spec?.topologySpreadConstraints];
  if (podAffinity !== undefined || podAntiAffinity !== undefined || others.some((list) => (list ?? []).length > 0))
    return false;
  const hasVolume = (spec?.volumes ?? []).some(
    (each) => each.persistentVolumeClaim !== undefined || each.ephemeral !== undefined,
  );
  const hasPort = (spec?.containers ?? []).some(({ ports }) =>
    (ports ?? []).some(({ hostPort }) => (hostPort ?? 0) > 0),
  );
  return !hasVolume && !hasPort;
}

/** Without a taint that keeps the pod away now, however it came about. */
function isOpenTo(pod: Pod, { spec, metadata }: Node): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return (spec?.taints ?? []).every(
    (taint) => taint.effect === "PreferNoSchedule" || isTolerated(taint, pod.spec?.tolerations),
  );
}
