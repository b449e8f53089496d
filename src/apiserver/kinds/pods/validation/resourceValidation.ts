/** Validation of resources: known names, valid amounts, requests within limits. */

import type { ResourceRequirements } from "../../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../../../model/objects/fieldError.ts";
import { compareAmounts, isMultipleOf, isNegativeAmount, isWholeAmount } from "../../checks/amounts.ts";
import { checkDnsLabel, checkQualifiedName, isQualifiedName } from "../../checks/nameChecks.ts";
import { isPodLevelResource } from "../podResources.ts";

export type ClaimNames = ReadonlySet<string>;

const noClaims: ClaimNames = new Set();

export function checkContainerResources(
  resources: ResourceRequirements,
  path: string,
  errors: FieldError[],
  claimNames: ClaimNames = noClaims,
): void {
  checkRequirements(resources, path, errors, checkContainerResourceName);
  if (resources.claims !== undefined) checkClaimReferences(resources, claimNames, path, errors);
}

/** `spec.resources`: only cpu, memory and huge pages are allowed. */
export function checkPodLevelResources(resources: ResourceRequirements, path: string, errors: FieldError[]): void {
  checkRequirements(resources, path, errors, (name, at, found) => {
    if (!isPodLevelResource(name)) found.push(notSupported(at, name, ["cpu", "hugepages-", "memory"]));
  });
  if (resources.claims !== undefined) {
    errors.push(forbidden(`${path}.claims`, "claims cannot be set for Resources at pod-level"));
  }
}

function checkRequirements(
  { limits, requests }: ResourceRequirements,
  path: string,
  errors: FieldError[],
  checkName: (name: string, path: string, errors: FieldError[]) => void,
): void {
  let hasCompute = false;
  let hasHugePages = false;
  if (limits !== undefined) {
    for (const name in limits) {
      const limit = limits[name];
      if (limit === undefined) continue;
      if (name === "cpu" || name === "memory") hasCompute = true;
      else checkName(name, `${path}.limits[${name}]`, errors);
      if (name.startsWith("hugepages-")) hasHugePages = true;
      checkAmount(name, limit, path, "limits", errors);
    }
  }
  if (requests !== undefined) {
    for (const name in requests) {
      const request = requests[name];
      if (request === undefined) continue;
      if (name === "cpu" || name === "memory") hasCompute = true;
      else checkName(name, `${path}.requests[${name}]`, errors);
      if (name.startsWith("hugepages-")) hasHugePages = true;
      checkAmount(name, request, path, "requests", errors);
      const limit = limits?.[name];
      if (limit === undefined) {
        if (!mayOvercommit(name)) {
          errors.push(required(`${path}.limits`, "Limit must be set for non overcommitable resources"));
        }
      } else if (request !== limit) {
        const order = compareAmounts(request, limit);
        if (order !== 0 && !mayOvercommit(name)) {
          errors.push(invalid(`${path}.requests`, request, `must be equal to ${name} limit of ${limit}`));
        } else if (order > 0) {
          errors.push(invalid(`${path}.requests`, request, `must be less than or equal to ${name} limit of ${limit}`));
        }
      }
    }
  }
  if (hasHugePages && !hasCompute) errors.push(forbidden(path, "HugePages require cpu or memory"));
}

function checkAmount(name: string, amount: string, path: string, field: string, errors: FieldError[]): void {
  if (isNegativeAmount(amount)) {
    errors.push(invalid(`${path}.${field}[${name}]`, amount, "must be greater than or equal to 0"));
  }
  if (isIntegerResource(name) && !isWholeAmount(amount)) {
    errors.push(invalid(`${path}.${field}[${name}]`, amount, "must be an integer"));
  }
  if (name.startsWith("hugepages-")) {
    const pageSize = name.slice("hugepages-".length);
    if (!isMultipleOf(amount, pageSize)) {
      errors.push(
        invalid(`${path}.${field}[${name}]`, amount, `${amount} is not positive integer multiple of ${name}`),
      );
    }
  }
}

/** Native resources have no slash, or contain `kubernetes.io/`; all others are extended. */
export function isNativeResource(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

/** Extended resources seen before: there are few, and each pod has some. */
const extendedResources = new Set<string>();
const extendedResourcesMax = 1024;

export function isExtendedResource(name: string): boolean {
  if (extendedResources.has(name)) return true;
  if (isNativeResource(name) || name.startsWith("requests.")) return false;
  // The name must leave room for the prefix `requests.` of quotas.
  if (!isQualifiedName(`requests.${name}`)) return false;
  if (extendedResources.size >= extendedResourcesMax) extendedResources.clear();
  extendedResources.add(name);
  return true;
}

export function isIntegerResource(name: string): boolean {
  if (name === "cpu" || name === "memory" || name === "ephemeral-storage") return false;
  return (
    isExtendedResource(name) ||
    name === "pods" ||
    name === "services" ||
    name === "replicationcontrollers" ||
    name === "resourcequotas" ||
    name === "secrets" ||
    name === "configmaps" ||
    name === "persistentvolumeclaims" ||
    name === "services.nodeports" ||
    name === "services.loadbalancers"
  );
}

function mayOvercommit(name: string): boolean {
  return isNativeResource(name) && !name.startsWith("hugepages-");
}

function checkContainerResourceName(name: string, path: string, errors: FieldError[]): void {
  if (name === "ephemeral-storage" || name.startsWith("hugepages-")) return;
  if (!isQualifiedName(name)) {
    checkQualifiedName(name, path, errors);
  } else if (!name.includes("/")) {
    if (!isStandardResource(name)) {
      errors.push(invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    errors.push(invalid(path, name, "must be a standard resource for containers"));
  } else if (!isNativeResource(name) && !isExtendedResource(name)) {
    errors.push(invalid(path, name, "doesn't follow extended resource name standard"));
  }
}

const standardResources = new Set([
  "cpu",
  "memory",
  "ephemeral-storage",
  "requests.cpu",
  "requests.memory",
  "requests.ephemeral-storage",
  "limits.cpu",
  "limits.memory",
  "limits.ephemeral-storage",
  "pods",
  "resourcequotas",
  "services",
  "replicationcontrollers",
  "secrets",
  "configmaps",
  "persistentvolumeclaims",
  "storage",
  "requests.storage",
  "services.nodeports",
  "services.loadbalancers",
]);

export function isStandardResource(name: string): boolean {
  return standardResources.has(name) || name.startsWith("hugepages-") || name.startsWith("requests.hugepages-");
}

function checkClaimReferences(
  resources: ResourceRequirements,
  claimNames: ClaimNames,
  path: string,
  errors: FieldError[],
): void {
  const whole = new Set<string>();
  const parts = new Set<string>();
  for (const [i, claim] of (resources.claims ?? []).entries()) {
    const at = `${path}.claims[${i}]`;
    const { name, request } = claim;
    if (!name) {
      errors.push(required(at));
      continue;
    }
    if (request) {
      checkDnsLabel(request, `${at}.request`, errors);
      if (whole.has(name)) errors.push(duplicate(at, name));
      else if (parts.has(`${name}/${request}`)) errors.push(duplicate(at, `${name}/${request}`));
      parts.add(`${name}/${request}`);
    } else {
      // A reference to the complete claim overlaps with every earlier reference to one of its requests.
      const overlaps = whole.has(name) || [...parts].some((part) => part.startsWith(`${name}/`));
      if (overlaps) errors.push(duplicate(at, name));
      whole.add(name);
    }
    if (!claimNames.has(name)) {
      const known = claimNames.size === 0 ? " which is empty" : `: ${[...claimNames].sort().join(", ")}`;
      errors.push({
        type: "NotFound",
        field: at,
        body: `Not found: ${JSON.stringify(name)}: must be one of the names in pod.spec.resourceClaims${known}`,
      });
    }
  }
}
