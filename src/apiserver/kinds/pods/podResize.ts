/** `/resize`: changes cpu and memory of running containers, and nothing else of the pod. */

import type { Container, Pod, PodSpec, ResourceRequirements } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { podQosOf } from "./podQos.ts";
import { checkPodSpec } from "./validation/podSpecValidation.ts";

const mirrorAnnotation = "kubernetes.io/config.mirror";

/** Keeps only the changes that a resize may make. */
export function preparePodResize(next: Pod, old: Pod): void {
  if (next.spec === undefined || old.spec === undefined) return;
  const asked = next.spec;
  const spec: PodSpec = { ...old.spec };
  spec.containers = takeResources(asked.containers, old.spec.containers);
  if (old.spec.initContainers !== undefined) {
    spec.initContainers = takeResources(asked.initContainers ?? [], old.spec.initContainers);
  }
  if (asked.resources !== undefined) spec.resources = asked.resources;
  next.spec = spec;
  if (old.status === undefined) delete next.status;
  else next.status = old.status;
  next.metadata = { ...old.metadata, resourceVersion: next.metadata.resourceVersion };
}

/** A list of another length or order is kept as sent, so that validation rejects it. */
function takeResources(asked: readonly Container[], old: readonly Container[]): Container[] {
  const isAligned = asked.length === old.length && asked.every(({ name }, i) => name === old[i]?.name);
  if (!isAligned) return [...asked];
  return old.map((container, i) => {
    const { resources, resizePolicy } = asked[i] ?? {};
    const taken: Container = { ...container };
    if (resources !== undefined) taken.resources = resources;
    if (resizePolicy !== undefined) taken.resizePolicy = resizePolicy;
    return taken;
  });
}

export function validatePodResize(next: Pod, old: Pod): FieldError[] {
  const errors: FieldError[] = [];
  if (next.spec === undefined || old.spec === undefined) return errors;
  if (old.metadata.annotations?.[mirrorAnnotation] !== undefined) {
    return [forbidden("", "static pods cannot be resized")];
  }
  if (old.spec.os?.name === "windows") return [forbidden("", "windows pods cannot be resized")];
  checkPodSpec(next.spec, "spec", errors, next.metadata.name);
  const oldQos = old.status?.qosClass ?? podQosOf(old.spec);
  if (podQosOf(next.spec) !== oldQos) {
    errors.push(invalid("spec", oldQos, "Pod QOS Class may not change as a result of resizing"));
  }
  const isReordered = checkOrder(next.spec, old.spec, errors);
  if (isReordered) return errors;
  checkEach(next.spec.containers, old.spec.containers, "containers", errors);
  checkEach(next.spec.initContainers ?? [], old.spec.initContainers ?? [], "initContainers", errors);
  return errors;
}

function checkOrder(next: PodSpec, old: PodSpec, errors: FieldError[]): boolean {
  const before = errors.length;
  for (const field of ["containers", "initContainers"] as const) {
    const now = next[field] ?? [];
    const was = old[field] ?? [];
    const path = `spec.${field}`;
    if (now.length !== was.length) {
      errors.push(forbidden(path, `${field} may not be added or removed on resize`));
      continue;
    }
    for (const [i, container] of now.entries()) {
      if (container.name === was[i]?.name) continue;
      errors.push(forbidden(`${path}[${i}].name`, `${field} may not be renamed or reordered on resize`));
    }
  }
  return errors.length > before;
}

function checkEach(
  next: readonly Container[],
  old: readonly Container[],
  field: "containers" | "initContainers",
  errors: FieldError[],
): void {
  for (const [i, container] of next.entries()) {
    const before = old[i];
    if (before === undefined || equalJson(container, before)) continue;
    const path = `spec.${field}[${i}].resources`;
    if (field === "initContainers" && before.restartPolicy !== "Always") {
      errors.push(forbidden("spec", "resources for non-sidecar init containers are immutable"));
      continue;
    }
    if (isAnyRemoved(container.resources?.requests, before.resources?.requests)) {
      errors.push(forbidden(`${path}.requests`, "resource requests cannot be removed"));
    }
    if (isAnyRemoved(container.resources?.limits, before.resources?.limits)) {
      errors.push(forbidden(`${path}.limits`, "resource limits cannot be removed"));
    }
    if (!equalJson(withoutCompute(container.resources), withoutCompute(before.resources))) {
      errors.push(forbidden("spec", "only cpu and memory resources are mutable"));
    }
  }
}

function isAnyRemoved(next: Record<string, string> | undefined, old: Record<string, string> | undefined): boolean {
  return Object.keys(old ?? {}).some((name) => next?.[name] === undefined);
}

function withoutCompute(resources: ResourceRequirements | undefined): unknown {
  const strip = (list: Record<string, string> | undefined): Record<string, string> => {
    const { cpu: _cpu, memory: _memory, ...others } = list ?? {};
    return others;
  };
  return { claims: resources?.claims ?? [], requests: strip(resources?.requests), limits: strip(resources?.limits) };
}
