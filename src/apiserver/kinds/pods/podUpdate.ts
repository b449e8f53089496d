/**
 * Nearly all fields of a pod are immutable: only images, shorter deadlines, additional tolerations and removed
 * scheduling gates are allowed. While a gate is left, no node runs the pod, and its node selection may still be
 * narrowed.
 */

import type {
  Container,
  NodeAffinity,
  NodeSelectorTerm,
  PodSchedulingGate,
  PodSpec,
  Toleration,
} from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";

const mutableFields = [
  "`spec.containers[*].image`",
  "`spec.initContainers[*].image`",
  "`spec.activeDeadlineSeconds`",
  "`spec.tolerations` (only additions to existing tolerations)",
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
].join(",");

const secondsMax = 2 ** 31 - 1;

/** Checks the changes; the new spec itself is validated elsewhere. */
export function checkPodSpecUpdate(next: PodSpec, old: PodSpec, errors: FieldError[]): void {
  if (equalJson(next, old)) return;
  if (!checkContainerImages(next.containers, old.containers, "spec.containers", errors)) return;
  if (!checkContainerImages(next.initContainers ?? [], old.initContainers ?? [], "spec.initContainers", errors)) return;
  if (!checkDeadline(next.activeDeadlineSeconds, old.activeDeadlineSeconds, errors)) return;
  checkTolerationsOnlyGrow(next.tolerations ?? [], old.tolerations ?? [], errors);
  checkGatesOnlyShrink(next.schedulingGates ?? [], old.schedulingGates ?? [], errors);

  const masked: PodSpec = { ...next, containers: withOldImages(next.containers, old.containers) };
  if (next.initContainers !== undefined) {
    masked.initContainers = withOldImages(next.initContainers, old.initContainers ?? []);
  }
  takeOld(masked, old, "activeDeadlineSeconds");
  takeOld(masked, old, "schedulingGates");
  takeOld(masked, old, "tolerations");
  if ((old.terminationGracePeriodSeconds ?? 0) < 0 && next.terminationGracePeriodSeconds === 1) {
    takeOld(masked, old, "terminationGracePeriodSeconds");
  }
  if ((old.schedulingGates ?? []).length > 0) {
    if (!equalJson(masked.nodeSelector, old.nodeSelector)) {
      checkNodeSelectorOnlyGrows(masked, old, errors);
      takeOld(masked, old, "nodeSelector");
    }
    if (!equalJson(masked.affinity?.nodeAffinity, old.affinity?.nodeAffinity)) {
      checkNodeAffinityOnlyNarrows(masked.affinity?.nodeAffinity, old.affinity?.nodeAffinity, errors);
      maskNodeAffinity(masked, old);
    }
  }
  if (!equalJson(masked, old)) {
    const detail = `pod updates may not change fields other than ${mutableFields}\n${describeDifference(masked, old)}`;
    errors.push(forbidden("spec", detail));
  }
}

function takeOld<K extends keyof PodSpec>(masked: PodSpec, old: PodSpec, field: K): void {
  if (old[field] === undefined) delete masked[field];
  else masked[field] = old[field];
}

function withOldImages(next: readonly Container[], old: readonly Container[]): Container[] {
  return next.map((container, i) => {
    const image = old[i]?.image;
    if (image === undefined || image === container.image) return container;
    return { ...container, image };
  });
}

function checkContainerImages(
  next: readonly Container[],
  old: readonly Container[],
  path: string,
  errors: FieldError[],
): boolean {
  if (next.length !== old.length) {
    errors.push(forbidden(path, "pod updates may not add or remove containers"));
    return false;
  }
  for (const [i, { image }] of next.entries()) {
    if (!image) errors.push(required(`${path}[${i}].image`));
  }
  return true;
}

function checkDeadline(next: number | undefined, old: number | undefined, errors: FieldError[]): boolean {
  const path = "spec.activeDeadlineSeconds";
  if (next === undefined) {
    if (old !== undefined) errors.push(invalid(path, null, "must not update from a positive integer to nil value"));
    return true;
  }
  if (next < 0 || next > secondsMax) {
    errors.push(invalid(path, next, `must be between 0 and ${secondsMax}, inclusive`));
    return false;
  }
  if (old !== undefined && old < next) {
    errors.push(invalid(path, next, "must be less than or equal to previous value"));
    return false;
  }
  return true;
}

function checkTolerationsOnlyGrow(next: readonly Toleration[], old: readonly Toleration[], errors: FieldError[]): void {
  const isKept = (before: Toleration): boolean =>
    next.some(
      (after) =>
        (after.key ?? "") === (before.key ?? "") &&
        (after.operator ?? "") === (before.operator ?? "") &&
        (after.value ?? "") === (before.value ?? "") &&
        (after.effect ?? "") === (before.effect ?? ""),
    );
  if (!old.every(isKept)) {
    errors.push(forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"));
  }
}

function checkGatesOnlyShrink(
  next: readonly PodSchedulingGate[],
  old: readonly PodSchedulingGate[],
  errors: FieldError[],
): void {
  for (const [i, { name }] of next.entries()) {
    if (old.some((gate) => gate.name === name)) continue;
    const detail = `only deletion is allowed, but found new scheduling gate '${name}'`;
    errors.push(forbidden(`spec.schedulingGates[${i}].name`, detail));
  }
}

function checkNodeSelectorOnlyGrows(next: PodSpec, old: PodSpec, errors: FieldError[]): void {
  for (const [key, value] of Object.entries(old.nodeSelector ?? {})) {
    if (next.nodeSelector?.[key] === value) continue;
    const detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    errors.push(invalid("spec.nodeSelector", next.nodeSelector ?? null, detail));
    return;
  }
}

function checkNodeAffinityOnlyNarrows(
  next: NodeAffinity | undefined,
  old: NodeAffinity | undefined,
  errors: FieldError[],
): void {
  const path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
  const oldTerms = old?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const nextTerms = next?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  if (oldTerms.length === 0) return;
  if (nextTerms.length !== oldTerms.length) {
    const detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
    errors.push(invalid(path, nextTerms, detail));
    return;
  }
  for (const [i, oldTerm] of oldTerms.entries()) {
    const nextTerm = nextTerms[i] ?? {};
    if (hasOnlyAdditions(nextTerm, oldTerm)) continue;
    errors.push(invalid(`${path}[${i}]`, nextTerm, "only additions are allowed (no mutations or deletions)"));
  }
}

function hasOnlyAdditions(next: NodeSelectorTerm, old: NodeSelectorTerm): boolean {
  const oldExpressions = old.matchExpressions ?? [];
  const oldFields = old.matchFields ?? [];
  const nextExpressions = next.matchExpressions ?? [];
  const nextFields = next.matchFields ?? [];
  // An empty term matches nothing, so any expression would widen it.
  if (oldExpressions.length === 0 && oldFields.length === 0) {
    return nextExpressions.length === 0 && nextFields.length === 0;
  }
  return (
    equalJson(nextExpressions.slice(0, oldExpressions.length), oldExpressions) &&
    equalJson(nextFields.slice(0, oldFields.length), oldFields)
  );
}

function maskNodeAffinity(masked: PodSpec, old: PodSpec): void {
  const { nodeAffinity: _, ...others } = masked.affinity ?? {};
  const oldNodeAffinity = old.affinity?.nodeAffinity;
  if (oldNodeAffinity !== undefined) masked.affinity = { ...others, nodeAffinity: oldNodeAffinity };
  else if (old.affinity === undefined && Object.keys(others).length === 0) delete masked.affinity;
  else masked.affinity = others;
}

/** The fields that differ, old value first, so that a reader finds the immutable one. */
export function describeDifference<T extends object>(next: T, old: T): string {
  const lines: string[] = [];
  for (const key of [...new Set([...Object.keys(old), ...Object.keys(next)])].sort()) {
    const before = (old as Record<string, unknown>)[key];
    const after = (next as Record<string, unknown>)[key];
    if (equalJson(before, after)) continue;
    if (before !== undefined) lines.push(`-  ${key}: ${JSON.stringify(before)}`);
    if (after !== undefined) lines.push(`+  ${key}: ${JSON.stringify(after)}`);
  }
  return lines.join("\n");
}
