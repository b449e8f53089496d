/**
 * Built-in admission of a new pod: priority from its class, default tolerations for not-ready and unreachable nodes,
 * and overhead and scheduling of its runtime class. A rejection is a 403, as upstream.
 */

import type { Pod, PodSpec, PriorityClass, RuntimeClass, Toleration } from "../../../model/kubernetes.generated.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { forbiddenError } from "../../../model/objects/status.ts";
import type { WriteContext } from "../../strategy.ts";
import { admitServiceAccount } from "./serviceAccountAdmission.ts";
import { topologyLabelsOf } from "./topologyLabels.ts";

const podsResource = { group: "", resource: "pods" };
const failingNodeTolerationSeconds = 300;

export function admitPod(pod: Pod, context: WriteContext): void {
  const spec = pod.spec;
  if (spec === undefined) return;
  if (context.ignoresServiceAccounts !== true) admitServiceAccount(pod, spec, context);
  applyRuntimeClass(pod, spec, context);
  applyPriority(pod, spec, context);
  addFailingNodeTolerations(spec);
  if (spec.nodeName) {
    const node = context.get("/nodes", "", spec.nodeName);
    const labels = topologyLabelsOf(node);
    if (Object.keys(labels).length > 0) pod.metadata.labels = { ...pod.metadata.labels, ...labels };
  }
}

/**
 * Admission of an updated pod: fields that admission set at creation are kept when the manifest does not have them.
 */
export function admitPodUpdate(next: Pod, old: Pod): void {
  const { spec } = next;
  if (spec === undefined) return;
  if (spec.priority === undefined && old.spec?.priority !== undefined) spec.priority = old.spec.priority;
  if (!spec.preemptionPolicy && old.spec?.preemptionPolicy !== undefined) {
    spec.preemptionPolicy = old.spec.preemptionPolicy;
  }
  addFailingNodeTolerations(spec);
}

function refuse(pod: Pod, why: string): never {
  throw forbiddenError(podsResource, pod.metadata?.name ?? "", why);
}

function applyPriority(pod: Pod, spec: PodSpec, context: WriteContext): void {
  let priorityClass: PriorityClass | undefined;
  if (spec.priorityClassName) {
    const found = context.get("scheduling.k8s.io/priorityclasses", "", spec.priorityClassName);
    if (found === undefined) refuse(pod, `no PriorityClass with name ${spec.priorityClassName} was found`);
    priorityClass = found;
  } else {
    priorityClass = defaultPriorityClass(context);
    if (priorityClass?.metadata?.name !== undefined) spec.priorityClassName = priorityClass.metadata.name;
  }
  const priority = priorityClass?.value ?? 0;
  if (spec.priority !== undefined && spec.priority !== priority) {
    refuse(
      pod,
      `the integer value of priority (${spec.priority}) must not be provided in pod spec; priority admission controller computed ${priority} from the given PriorityClass name`,
    );
  }
  spec.priority = priority;
  const policy = priorityClass?.preemptionPolicy ?? "PreemptLowerPriority";
  if (spec.preemptionPolicy && spec.preemptionPolicy !== policy) {
    refuse(
      pod,
      `the string value of PreemptionPolicy (${spec.preemptionPolicy}) must not be provided in pod spec; priority admission controller computed ${policy} from the given PriorityClass name`,
    );
  }
  spec.preemptionPolicy = policy;
}

/** Of several default classes the one with the lowest value is used, so that a mistake raises no priority. */
function defaultPriorityClass(context: WriteContext): PriorityClass | undefined {
  let lowest: PriorityClass | undefined;
  for (const object of context.list("scheduling.k8s.io/priorityclasses", "")) {
    const candidate = object as PriorityClass;
    if (candidate.globalDefault !== true) continue;
    if (lowest === undefined || (candidate.value ?? 0) < (lowest.value ?? 0)) lowest = candidate;
  }
  return lowest;
}

function addFailingNodeTolerations(spec: PodSpec): void {
  for (const key of ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]) {
    if (spec.tolerations?.some((toleration) => coversNoExecute(toleration, key))) continue;
    const added = { key, operator: "Exists", effect: "NoExecute", tolerationSeconds: failingNodeTolerationSeconds };
    spec.tolerations = [...(spec.tolerations ?? []), added];
  }
}

function coversNoExecute(toleration: Toleration, key: string): boolean {
  return (!toleration.key || toleration.key === key) && (!toleration.effect || toleration.effect === "NoExecute");
}

function applyRuntimeClass(pod: Pod, spec: PodSpec, context: WriteContext): void {
  if (spec.runtimeClassName === undefined) {
    if (hasOverhead(spec)) {
      refuse(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
    }
    return;
  }
  const found = context.get("node.k8s.io/runtimeclasses", "", spec.runtimeClassName);
  if (found === undefined) refuse(pod, `pod rejected: RuntimeClass ${JSON.stringify(spec.runtimeClassName)} not found`);
  const runtimeClass = found as RuntimeClass;
  const fixed = runtimeClass.overhead?.podFixed;
  if (fixed === undefined) {
    if (hasOverhead(spec)) {
      refuse(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
    }
  } else {
    if (hasOverhead(spec) && !equalJson(spec.overhead, fixed)) {
      refuse(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    }
    spec.overhead = { ...fixed };
  }
  const scheduling = runtimeClass.scheduling;
  for (const [key, value] of Object.entries(scheduling?.nodeSelector ?? {})) {
    const own = spec.nodeSelector?.[key];
    if (own !== undefined && own !== value) {
      refuse(
        pod,
        `conflict: runtimeClass.scheduling.nodeSelector[${key}] = ${value}; pod.spec.nodeSelector[${key}] = ${own}`,
      );
    }
    spec.nodeSelector ??= {};
    spec.nodeSelector[key] = value;
  }
  for (const toleration of scheduling?.tolerations ?? []) {
    if (spec.tolerations?.some((own) => equalJson(own, toleration))) continue;
    spec.tolerations ??= [];
    spec.tolerations.push({ ...toleration });
  }
}

function hasOverhead(spec: PodSpec): boolean {
  return spec.overhead !== undefined && Object.keys(spec.overhead).length > 0;
}
