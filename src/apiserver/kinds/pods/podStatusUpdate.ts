/** Rules for updates of a pod's status by kubelets and controllers. */

import type { ContainerStatus, Pod, PodSpec, PodStatus } from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid } from "../../../model/objects/fieldError.ts";
import { checkIpAddress } from "../checks/addressChecks.ts";
import { checkImmutable, checkRange } from "../checks/fieldChecks.ts";
import { checkDnsSubdomain, checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";

/** Older clients drop fields that they do not know; these are restored. */
export function keepUnsentStatus(next: PodStatus, old: PodStatus): void {
  if (!next.qosClass && old.qosClass !== undefined) next.qosClass = old.qosClass;
  if (!next.observedGeneration && old.observedGeneration !== undefined) {
    next.observedGeneration = old.observedGeneration;
  }
  if (next.resourceClaimStatuses === undefined && old.resourceClaimStatuses !== undefined) {
    next.resourceClaimStatuses = old.resourceClaimStatuses;
  }
  for (const condition of next.conditions ?? []) {
    if (condition.observedGeneration) continue;
    const before = old.conditions?.find(({ type }) => type === condition.type)?.observedGeneration;
    if (before !== undefined) condition.observedGeneration = before;
  }
}

const systemConditions = new Set(["PodScheduled", "Ready", "Initialized"]);

export function checkPodStatusUpdate(next: Pod, old: Pod, errors: FieldError[]): void {
  const status = next.status ?? {};
  const oldStatus = old.status ?? {};
  const spec = old.spec ?? { containers: [] };
  for (const [i, condition] of (status.conditions ?? []).entries()) {
    if ((condition.observedGeneration ?? 0) < 0) {
      const path = `status.conditions[${i}].observedGeneration`;
      errors.push(invalid(path, condition.observedGeneration, "must be a non-negative integer"));
    }
    if (!systemConditions.has(condition.type)) {
      checkQualifiedName(condition.type ?? "", `status.conditions[${i}].Type`, errors);
    }
  }
  if ((next.spec?.nodeName ?? "") !== (spec.nodeName ?? "")) {
    errors.push(forbidden("status.nodeName", "may not be changed directly"));
  }
  const nominated = status.nominatedNodeName;
  if (nominated && nominated !== oldStatus.nominatedNodeName) {
    checkDnsSubdomain(nominated, "status.nominatedNodeName", errors);
    if (spec.nodeName) {
      const detail = "may not be set on pods that are already bound to a node";
      errors.push(forbidden("status.nominatedNodeName", detail));
    }
  }
  if ((status.observedGeneration ?? 0) < 0) {
    const detail = "must be a non-negative integer";
    errors.push(invalid("status.observedGeneration", status.observedGeneration, detail));
  }
  for (const field of ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] as const) {
    for (const [i, { user, allocatedResourcesStatus }] of (status[field] ?? []).entries()) {
      const path = `status.${field}[${i}]`;
      for (const id of ["uid", "gid"] as const) {
        checkRange(user?.linux?.[id], { min: 0, max: 2 ** 31 - 1 }, `${path}.user.linux.${id}`, errors);
      }
      if (field === "ephemeralContainerStatuses" && (allocatedResourcesStatus ?? []).length > 0) {
        const detail = "must not be specified in container status";
        errors.push(forbidden(`${path}.allocatedResourcesStatus`, detail));
      }
    }
  }
  const [hostIp] = status.hostIPs ?? [];
  if (hostIp !== undefined) {
    if (hostIp.ip !== status.hostIP) {
      errors.push(invalid("status.hostIPs[0].ip", hostIp.ip ?? "", "must be equal to `hostIP`"));
    }
    for (const [i, { ip }] of (status.hostIPs ?? []).entries()) checkIpAddress(ip, `status.hostIPs[${i}]`, errors);
  }
  checkImmutable(status.qosClass, oldStatus.qosClass, "status.qosClass", errors);
  checkContainersStayTerminated(status.containerStatuses, oldStatus.containerStatuses, spec, errors);
  checkInitContainersStayTerminated(status.initContainerStatuses, oldStatus.initContainerStatuses, spec, errors);
  checkStayTerminated(
    status.ephemeralContainerStatuses,
    oldStatus.ephemeralContainerStatuses,
    "status.ephemeralContainerStatuses",
    () => false,
    errors,
  );
  checkClaimStatuses(status, spec, errors);
  const isRepeated = repeats();
  for (const [i, address] of (status.podIPs ?? []).entries()) {
    checkIpAddress(address.ip, `status.podIPs[${i}]`, errors);
    if (isRepeated(address.ip)) {
      errors.push(duplicate(`status.podIPs[${i}]`, address));
    }
  }
}

function checkContainersStayTerminated(
  next: readonly ContainerStatus[] | undefined,
  old: readonly ContainerStatus[] | undefined,
  spec: PodSpec,
  errors: FieldError[],
): void {
  const containers = new Map(spec.containers.map((each) => [each.name, each]));
  const mayRestart = (status: ContainerStatus): boolean => {
    const container = containers.get(status.name);
    if ((container?.restartPolicyRules ?? []).length > 0) return true;
    const policy = container?.restartPolicy ?? spec.restartPolicy;
    if (policy === "Always") return true;
    return policy === "OnFailure" && status.state?.terminated?.exitCode !== 0;
  };
  checkStayTerminated(next, old, "status.containerStatuses", mayRestart, errors);
}

function checkInitContainersStayTerminated(
  next: readonly ContainerStatus[] | undefined,
  old: readonly ContainerStatus[] | undefined,
  spec: PodSpec,
  errors: FieldError[],
): void {
  if (spec.restartPolicy === "Always") return;
  const containers = new Map((spec.initContainers ?? []).map((each) => [each.name, each]));
  const mayRestart = (status: ContainerStatus): boolean => {
    const container = containers.get(status.name);
    if (container?.restartPolicy === "Always" || (container?.restartPolicyRules ?? []).length > 0) return true;
    return spec.restartPolicy === "OnFailure" && status.state?.terminated?.exitCode !== 0;
  };
  checkStayTerminated(next, old, "status.initContainerStatuses", mayRestart, errors);
}

function checkStayTerminated(
  next: readonly ContainerStatus[] | undefined,
  old: readonly ContainerStatus[] | undefined,
  path: string,
  mayRestart: (status: ContainerStatus) => boolean,
  errors: FieldError[],
): void {
  if (old === undefined || next === undefined) return;
  const nextByName = new Map(next.map((each) => [each.name, each]));
  for (const [i, before] of old.entries()) {
    if (before.state?.terminated === undefined || mayRestart(before)) continue;
    const after = nextByName.get(before.name);
    if (after === undefined || after.state?.terminated !== undefined) continue;
    errors.push(forbidden(`${path}[${i}].state`, "may not be transitioned to non-terminated state"));
  }
}

function checkClaimStatuses(status: PodStatus, spec: PodSpec, errors: FieldError[]): void {
  const statuses = status.resourceClaimStatuses ?? [];
  const known = new Set((spec.resourceClaims ?? []).map(({ name }) => name));
  const isRepeated = repeats();
  for (const [i, claim] of statuses.entries()) {
    const path = `status.resourceClaimStatuses[${i}]`;
    if (!known.has(claim.name)) {
      errors.push(invalid(`${path}.name`, claim.name, "must match the name of an entry in `spec.resourceClaims`"));
    }
    if (isRepeated(claim.name)) {
      errors.push(duplicate(`${path}.name`, claim.name));
    }
    if (claim.resourceClaimName !== undefined) {
      checkDnsSubdomain(claim.resourceClaimName, `${path}.resourceClaimName`, errors);
    }
  }
  const extended = status.extendedResourceClaimStatus;
  if (extended === undefined) return;
  const path = "status.extendedResourceClaimStatus";
  if ((extended.requestMappings ?? []).length === 0) {
    errors.push({
      type: "Required",
      field: `${path}.requestMappings`,
      body: "Required value: at least one request mapping is required",
    });
  }
  for (const [i, mapping] of (extended.requestMappings ?? []).entries()) {
    const containers = [...(spec.initContainers ?? []), ...spec.containers];
    const container = containers.find(({ name }) => name === mapping.containerName);
    if (container === undefined) {
      const detail = "must match the name of an entry in spec.initContainers or spec.containers";
      errors.push(invalid(`${path}.requestMappings[${i}].containerName`, mapping.containerName, detail));
    }
  }
  checkDnsSubdomain(extended.resourceClaimName, `${path}.resourceClaimName`, errors);
}
