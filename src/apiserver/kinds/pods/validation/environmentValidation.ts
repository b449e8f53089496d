import type {
  EnvFromSource,
  EnvVar,
  ObjectFieldSelector,
  ResourceFieldSelector,
} from "../../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported, required } from "../../../../model/objects/fieldError.ts";
import {
  checkConfigKey,
  checkDnsSubdomain,
  checkEnvironmentName,
  checkQualifiedName,
} from "../../checks/nameChecks.ts";

const environmentFields = [
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "spec.nodeName",
  "spec.serviceAccountName",
  "status.hostIP",
  "status.hostIPs",
  "status.podIP",
  "status.podIPs",
];

const volumeFields = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const containerResources = [
  "limits.cpu",
  "limits.ephemeral-storage",
  "limits.memory",
  "requests.cpu",
  "requests.ephemeral-storage",
  "requests.memory",
];

const sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] as const;

export function checkEnvironment(variables: readonly EnvVar[], path: string, errors: FieldError[]): void {
  for (let i = 0; i < variables.length; i++) {
    const variable = variables[i];
    if (variable === undefined) continue;
    if (!variable.name) errors.push(required(`${path}[${i}].name`));
    else checkEnvironmentName(variable.name, path, i, errors);
    if (variable.valueFrom !== undefined) checkValueFrom(variable, `${path}[${i}].valueFrom`, errors);
  }
}

function checkValueFrom(variable: EnvVar, path: string, errors: FieldError[]): void {
  const from = variable.valueFrom ?? {};
  if (from.fieldRef !== undefined) checkFieldRef(from.fieldRef, "environment", `${path}.fieldRef`, errors);
  if (from.resourceFieldRef !== undefined) {
    checkResourceFieldRef(from.resourceFieldRef, "environment", `${path}.resourceFieldRef`, errors);
  }
  for (const field of ["configMapKeyRef", "secretKeyRef"] as const) {
    const reference = from[field];
    if (reference === undefined) continue;
    if (!reference.name) errors.push(required(`${path}.${field}.name`));
    if (!reference.key) errors.push(required(`${path}.${field}.key`));
    else checkConfigKey(reference.key, `${path}.${field}.key`, errors);
  }
  const count = sources.filter((field) => from[field] !== undefined).length;
  if (count === 0) {
    const known = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
    errors.push(invalid(path, "", `must specify one of: ${known}`));
  } else if (variable.value) {
    errors.push(invalid(path, "", "may not be specified when `value` is not empty"));
  } else if (count > 1) {
    errors.push(invalid(path, "", "may not have more than one field specified at a time"));
  }
}

export function checkFieldRef(
  reference: ObjectFieldSelector,
  where: "environment" | "volume",
  path: string,
  errors: FieldError[],
): void {
  const field = reference.fieldPath;
  if (!field) {
    errors.push(required(`${path}.fieldPath`));
    return;
  }
  const bracket = field.indexOf("['");
  if (bracket > 0 && field.endsWith("']")) {
    const parent = field.slice(0, bracket);
    const key = field.slice(bracket + 2, -2);
    if (parent === "metadata.annotations") checkQualifiedName(key.toLowerCase(), path, errors);
    else if (parent === "metadata.labels") checkQualifiedName(key, path, errors);
    else errors.push(invalid(path, parent, "does not support subscript"));
    return;
  }
  const known = where === "environment" ? environmentFields : volumeFields;
  if (!known.includes(field)) errors.push(notSupported(`${path}.fieldPath`, field, known));
}

export function checkResourceFieldRef(
  reference: ResourceFieldSelector,
  where: "environment" | "volume",
  path: string,
  errors: FieldError[],
): void {
  const { resource } = reference;
  if (where === "volume" && !reference.containerName) errors.push(required(`${path}.containerName`));
  else if (!resource) errors.push(required(`${path}.resource`));
  else if (
    !containerResources.includes(resource) &&
    !resource.startsWith("requests.hugepages-") &&
    !resource.startsWith("limits.hugepages-")
  ) {
    errors.push(notSupported(`${path}.resource`, resource, containerResources));
  }
}

export function checkEnvironmentFrom(from: readonly EnvFromSource[], path: string, errors: FieldError[]): void {
  for (const [i, source] of from.entries()) {
    const at = `${path}[${i}]`;
    if (source.prefix) checkEnvironmentName(source.prefix, path, i, errors, "prefix");
    const count = Number(source.configMapRef !== undefined) + Number(source.secretRef !== undefined);
    for (const field of ["configMapRef", "secretRef"] as const) {
      const reference = source[field];
      if (reference === undefined) continue;
      if (!reference.name) errors.push(required(`${at}.${field}.name`));
      else checkDnsSubdomain(reference.name, `${at}.${field}.name`, errors);
    }
    if (count === 0) errors.push(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"));
    else if (count > 1) errors.push(invalid(path, "", "may not have more than one field specified at a time"));
  }
}
