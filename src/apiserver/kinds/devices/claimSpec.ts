/** The spec of a claim: requests, constraints between them, and configuration for drivers. */

import type {
  DeviceClaim,
  DeviceRequest,
  DeviceSubRequest,
  ExactDeviceRequest,
  ResourceClaimSpec,
} from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { isNegativeAmount } from "../checks/amounts.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { checkFullyQualifiedIdentifier, checkQualifiedIdentifier, checkRequiredDnsLabel } from "./deviceNames.ts";
import { checkCount, checkDeviceTolerations, checkOpaque, checkSelectors, checkUnique } from "./deviceParts.ts";

const listMax = 32;
const subRequestsMax = 8;

export function setClaimSpecDefaults(spec: ResourceClaimSpec | undefined): void {
  for (const request of spec?.devices?.requests ?? []) {
    if (request.exactly !== undefined) setRequestDefaults(request.exactly);
    for (const option of request.firstAvailable ?? []) setRequestDefaults(option);
  }
}

function setRequestDefaults(request: ExactDeviceRequest | DeviceSubRequest): void {
  request.allocationMode ||= "ExactCount";
  if (request.allocationMode === "ExactCount") request.count ||= 1;
  for (const toleration of request.tolerations ?? []) toleration.operator ||= "Equal";
}

export function checkClaimSpec(spec: ResourceClaimSpec | undefined, path: string, errors: FieldError[]): void {
  const devices = spec?.devices;
  if (devices === undefined) return;
  const base = `${path}.devices`;
  const requests = devices.requests ?? [];
  checkCount(requests, listMax, `${base}.requests`, errors);
  checkUnique(
    requests.map(({ name }) => name),
    (i) => `${base}.requests[${i}].name`,
    errors,
  );
  for (const [i, request] of requests.entries()) checkRequest(request, `${base}.requests[${i}]`, errors);
  checkConstraints(devices, `${base}.constraints`, errors);
  checkCount(devices.config, listMax, `${base}.config`, errors);
  for (const [i, config] of (devices.config ?? []).entries()) {
    const at = `${base}.config[${i}]`;
    checkRequestReferences(config.requests, devices, `${at}.requests`, errors);
    checkOpaque(config.opaque, `${at}.opaque`, errors);
  }
}

function checkRequest(request: DeviceRequest, path: string, errors: FieldError[]): void {
  checkRequiredDnsLabel(request.name, `${path}.name`, errors);
  const { exactly, firstAvailable } = request;
  const hasOptions = firstAvailable !== undefined && firstAvailable.length > 0;
  const detail = "exactly one of `exactly` or `firstAvailable` is required";
  if (exactly === undefined && !hasOptions) errors.push(required(path, detail));
  else if (exactly !== undefined && hasOptions) {
    errors.push(invalid(path, null, `${detail}, but multiple fields are set`));
  }
  if (exactly !== undefined) checkOption(exactly, `${path}.exactly`, errors);
  if (hasOptions) {
    checkCount(firstAvailable, subRequestsMax, `${path}.firstAvailable`, errors);
    checkUnique(
      firstAvailable.map(({ name }) => name),
      (i) => `${path}.firstAvailable[${i}].name`,
      errors,
    );
    for (const [i, option] of firstAvailable.entries()) {
      checkRequiredDnsLabel(option.name, `${path}.firstAvailable[${i}].name`, errors);
      checkOption(option, `${path}.firstAvailable[${i}]`, errors);
    }
  }
}

function checkOption(option: ExactDeviceRequest | DeviceSubRequest, path: string, errors: FieldError[]): void {
  if (!option.deviceClassName) errors.push(required(`${path}.deviceClassName`));
  else checkDnsSubdomain(option.deviceClassName, `${path}.deviceClassName`, errors);
  checkSelectors(option.selectors, `${path}.selectors`, errors);
  const count = option.count ?? 0;
  switch (option.allocationMode) {
    case "All":
      if (count !== 0) {
        errors.push(invalid(`${path}.count`, count, "must not be specified when allocationMode is 'All'"));
      }
      break;
    case "ExactCount":
      if (count <= 0) errors.push(invalid(`${path}.count`, count, "must be greater than zero"));
      break;
    default:
      errors.push(notSupported(`${path}.allocationMode`, option.allocationMode ?? "", ["All", "ExactCount"]));
  }
  checkDeviceTolerations(option.tolerations, `${path}.tolerations`, errors);
  for (const [name, amount] of Object.entries(option.capacity?.requests ?? {})) {
    const at = `${path}.capacity.requests[${name}]`;
    checkQualifiedIdentifier(name, at, errors);
    if (isNegativeAmount(amount)) errors.push(invalid(at, amount, "must be greater than or equal to 0"));
  }
}

function checkConstraints(devices: DeviceClaim, path: string, errors: FieldError[]): void {
  checkCount(devices.constraints, listMax, path, errors);
  for (const [i, constraint] of (devices.constraints ?? []).entries()) {
    const at = `${path}[${i}]`;
    checkRequestReferences(constraint.requests, devices, `${at}.requests`, errors);
    const { matchAttribute, distinctAttribute } = constraint;
    if (matchAttribute !== undefined && distinctAttribute !== undefined) {
      const detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set';
      errors.push(required(at, detail));
    } else if (matchAttribute === undefined && distinctAttribute === undefined) {
      errors.push(required(`${at}.matchAttribute`));
    }
    if (matchAttribute !== undefined) checkFullyQualifiedIdentifier(matchAttribute, `${at}.matchAttribute`, errors);
    if (distinctAttribute !== undefined) {
      checkFullyQualifiedIdentifier(distinctAttribute, `${at}.distinctAttribute`, errors);
    }
  }
}

function checkRequestReferences(
  references: readonly string[] | undefined,
  devices: DeviceClaim,
  path: string,
  errors: FieldError[],
): void {
  checkCount(references, listMax, path, errors);
  checkUnique(references ?? [], (i) => `${path}[${i}]`, errors);
  for (const [i, reference] of (references ?? []).entries()) {
    if (hasRequest(devices, reference)) continue;
    const detail =
      "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    errors.push(invalid(`${path}[${i}]`, reference, detail));
  }
}

/** `request`, or `request/option`. */
export function hasRequest(devices: DeviceClaim | undefined, reference: string): boolean {
  const [name, option, ...more] = reference.split("/");
  if (more.length > 0) return false;
  const request = devices?.requests?.find((candidate) => candidate.name === name);
  if (request === undefined) return false;
  return option === undefined || (request.firstAvailable ?? []).some((candidate) => candidate.name === option);
}

/** The fields with which a spec requests admin access, which its namespace must permit. */
export function adminAccessPaths(spec: ResourceClaimSpec | undefined, path: string): string[] {
  const paths: string[] = [];
  for (const [i, request] of (spec?.devices?.requests ?? []).entries()) {
    if (request.exactly?.adminAccess === true) paths.push(`${path}.devices.requests[${i}].exactly.adminAccess`);
  }
  return paths;
}
