/** Validation of containers: common rules, and those of init and ephemeral containers. */

import type { Container, ContainerPort, EphemeralContainer, PodSpec } from "../../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  fieldNotFound,
  forbidden,
  invalid,
  notSupported,
  required,
  tooMany,
} from "../../../../model/objects/fieldError.ts";
import { checkPortNumber } from "../../checks/fieldChecks.ts";
import { checkDnsLabel, checkPortName } from "../../checks/nameChecks.ts";
import { repeats } from "../../checks/repeats.ts";
import { checkEnvironment, checkEnvironmentFrom } from "./environmentValidation.ts";
import { checkLifecycle, checkProbe } from "./handlerValidation.ts";
import { type ClaimNames, checkContainerResources } from "./resourceValidation.ts";
import { checkContainerSecurity } from "./securityContextValidation.ts";
import { checkVolumeMounts, type VolumesByName } from "./volumeMountValidation.ts";

/** The fields of the pod that its containers refer to. */
export interface ContainerSurroundings {
  readonly spec: PodSpec;
  readonly volumes: VolumesByName;
  readonly claimNames: ClaimNames;
}

export function checkContainers(around: ContainerSurroundings, path: string, errors: FieldError[]): void {
  const { containers, initContainers, ephemeralContainers } = around.spec;
  if (containers === undefined || containers.length === 0) {
    errors.push(required(`${path}.containers`));
  } else {
    for (let i = 0; i < containers.length; i++) {
      const container = containers[i];
      if (container !== undefined) checkMainContainer(container, i, around, `${path}.containers[${i}]`, errors);
    }
    checkHostPorts(containers, `${path}.containers`, errors);
  }
  if (initContainers !== undefined) {
    for (const [i, container] of initContainers.entries()) {
      checkInitContainer(container, i, around, `${path}.initContainers[${i}]`, errors);
      checkHostPorts([container], `${path}.initContainers`, errors);
    }
  }
  if (ephemeralContainers !== undefined) {
    for (const [i, container] of ephemeralContainers.entries()) {
      checkEphemeralContainer(container, i, around, `${path}.ephemeralContainers[${i}]`, errors);
    }
  }
}

function checkMainContainer(
  container: Container,
  index: number,
  around: ContainerSurroundings,
  path: string,
  errors: FieldError[],
): void {
  checkAnyContainer(container, around, path, errors);
  if (hasName(around, around.spec.containers, container.name, index))
    errors.push(duplicate(`${path}.name`, container.name));
  checkRunningParts(container, around, path, errors);
  if (container.restartPolicy !== undefined) checkRestartPolicy(container, path, errors);
  else if (container.restartPolicyRules !== undefined) {
    errors.push(required(`${path}.restartPolicy`, "must specify restartPolicy when restart rules are used"));
  }
}

function checkInitContainer(
  container: Container,
  index: number,
  around: ContainerSurroundings,
  path: string,
  errors: FieldError[],
): void {
  checkAnyContainer(container, around, path, errors);
  if (
    hasName(around, around.spec.containers, container.name) ||
    hasName(around, around.spec.initContainers, container.name, index)
  ) {
    errors.push(duplicate(`${path}.name`, container.name));
  }
  const isSidecar = container.restartPolicy === "Always";
  if (isSidecar) {
    checkRunningParts(container, around, path, errors);
  } else {
    const detail = "may not be set for init containers without restartPolicy=Always";
    for (const field of ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] as const) {
      if (container[field] !== undefined) errors.push(forbidden(`${path}.${field}`, detail));
    }
  }
  if (container.restartPolicy !== undefined) checkRestartPolicy(container, path, errors);
  else if (container.restartPolicyRules !== undefined) {
    errors.push(required(`${path}.restartPolicy`, "must specify restartPolicy when restart rules are used"));
  }
}

const ephemeralFields = new Set([
  "name",
  "image",
  "command",
  "args",
  "workingDir",
  "envFrom",
  "env",
  "volumeMounts",
  "volumeDevices",
  "terminationMessagePath",
  "terminationMessagePolicy",
  "imagePullPolicy",
  "securityContext",
  "stdin",
  "stdinOnce",
  "tty",
  "targetContainerName",
]);

function checkEphemeralContainer(
  container: EphemeralContainer,
  index: number,
  around: ContainerSurroundings,
  path: string,
  errors: FieldError[],
): void {
  checkAnyContainer(container, around, path, errors);
  const { containers, initContainers, ephemeralContainers } = around.spec;
  if (
    hasName(around, containers, container.name) ||
    hasName(around, initContainers, container.name) ||
    hasName(around, ephemeralContainers, container.name, index)
  ) {
    errors.push(duplicate(`${path}.name`, container.name));
  }
  const target = container.targetContainerName;
  if (target && !hasName(around, containers, target) && !hasName(around, initContainers, target)) {
    errors.push(fieldNotFound(`${path}.targetContainerName`, target));
  }
  const detail = "cannot be set for an Ephemeral Container";
  for (const [field, value] of Object.entries(container)) {
    if (ephemeralFields.has(field) || isEmptyObject(value)) continue;
    errors.push(forbidden(`${path}.${field}`, detail));
  }
  for (const [i, mount] of (container.volumeMounts ?? []).entries()) {
    if (mount.subPath) errors.push(forbidden(`${path}.volumeMounts[${i}].subPath`, detail));
    if (mount.subPathExpr) errors.push(forbidden(`${path}.volumeMounts[${i}].subPathExpr`, detail));
  }
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

type Named = readonly { readonly name: string }[];

/**
 * The first index of each name in a list, cached for one validation: a pod may have thousands of containers, and each
 * is compared with all others.
 */
const firstPlaces = new WeakMap<ContainerSurroundings, Map<Named, ReadonlyMap<string, number>>>();

function firstPlacesIn(containers: Named, around: ContainerSurroundings): ReadonlyMap<string, number> {
  const known = firstPlaces.get(around) ?? new Map<Named, ReadonlyMap<string, number>>();
  firstPlaces.set(around, known);
  let places = known.get(containers);
  if (places === undefined) {
    // Backwards, so that the first index of a name remains.
    places = new Map(containers.map(({ name }, index) => [name, index] as const).reverse());
    known.set(containers, places);
  }
  return places;
}

/** Whether the list has a container of this name before an index. */
function hasName(
  around: ContainerSurroundings,
  containers: Named | undefined,
  name: string,
  before = containers?.length ?? 0,
): boolean {
  return containers !== undefined && before > 0 && (firstPlacesIn(containers, around).get(name) ?? before) < before;
}

const messagePolicies = ["FallbackToLogsOnError", "File"];
const pullPolicies = ["Always", "IfNotPresent", "Never"];

function checkAnyContainer(
  container: Container | EphemeralContainer,
  around: ContainerSurroundings,
  path: string,
  errors: FieldError[],
): void {
  if (!container.name) errors.push(required(`${path}.name`));
  else checkDnsLabel(container.name, `${path}.name`, errors);
  if (!container.image) errors.push(required(`${path}.image`));
  const messagePolicy = container.terminationMessagePolicy ?? "";
  if (!messagePolicies.includes(messagePolicy)) {
    errors.push(notSupported(`${path}.terminationMessagePolicy`, messagePolicy, messagePolicies));
  }
  const pullPolicy = container.imagePullPolicy ?? "";
  if (!pullPolicies.includes(pullPolicy)) {
    errors.push(notSupported(`${path}.imagePullPolicy`, pullPolicy, pullPolicies));
  }
  if (container.ports !== undefined) checkPorts(container.ports, `${path}.ports`, errors);
  if (container.env !== undefined) checkEnvironment(container.env, `${path}.env`, errors);
  if (container.envFrom !== undefined) checkEnvironmentFrom(container.envFrom, `${path}.envFrom`, errors);
  if (container.volumeMounts !== undefined || container.volumeDevices !== undefined) {
    checkVolumeMounts(container, around.volumes, path, errors);
  }
  if (container.resources !== undefined) {
    checkContainerResources(container.resources, `${path}.resources`, errors, around.claimNames);
  }
  if (container.resizePolicy !== undefined) checkResizePolicy(container.resizePolicy, around.spec, path, errors);
  if (container.securityContext !== undefined) {
    checkContainerSecurity(container.securityContext, `${path}.securityContext`, errors);
  }
}

function checkRunningParts(
  container: Container,
  around: ContainerSurroundings,
  path: string,
  errors: FieldError[],
): void {
  if (container.lifecycle !== undefined) {
    checkLifecycle(container.lifecycle, around.spec.terminationGracePeriodSeconds, `${path}.lifecycle`, errors);
  }
  if (container.livenessProbe) checkProbe(container.livenessProbe, "liveness", `${path}.livenessProbe`, errors);
  if (container.readinessProbe) checkProbe(container.readinessProbe, "readiness", `${path}.readinessProbe`, errors);
  if (container.startupProbe) checkProbe(container.startupProbe, "startup", `${path}.startupProbe`, errors);
}

const protocols = ["SCTP", "TCP", "UDP"];

function checkPorts(ports: readonly ContainerPort[], path: string, errors: FieldError[]): void {
  const isRepeated = repeats();
  for (let i = 0; i < ports.length; i++) {
    const port = ports[i];
    if (port === undefined) continue;
    const at = `${path}[${i}]`;
    if (port.name && checkPortName(port.name, `${at}.name`, errors)) {
      if (isRepeated(port.name)) {
        errors.push(duplicate(`${at}.name`, port.name));
      }
    }
    if (!port.containerPort) errors.push(required(`${at}.containerPort`));
    else checkPortNumber(port.containerPort, `${at}.containerPort`, errors);
    if (port.hostPort) checkPortNumber(port.hostPort, `${at}.hostPort`, errors);
    if (!port.protocol) errors.push(required(`${at}.protocol`));
    else if (!protocols.includes(port.protocol)) errors.push(notSupported(`${at}.protocol`, port.protocol, protocols));
  }
}

function checkHostPorts(containers: readonly Container[], path: string, errors: FieldError[]): void {
  let taken: Set<string> | undefined;
  for (let i = 0; i < containers.length; i++) {
    const ports = containers[i]?.ports;
    if (ports === undefined) continue;
    for (let j = 0; j < ports.length; j++) {
      const port = ports[j];
      if (!port?.hostPort) continue;
      const key = `${port.protocol}/${port.hostIP ?? ""}/${port.hostPort}`;
      taken ??= new Set();
      if (taken.has(key)) errors.push(duplicate(`${path}[${i}].ports[${j}].hostPort`, key));
      taken.add(key);
    }
  }
}

function checkRestartPolicy(container: Container, path: string, errors: FieldError[]): void {
  const policies = ["Always", "Never", "OnFailure"];
  const policy = container.restartPolicy ?? "";
  if (!policies.includes(policy)) errors.push(notSupported(`${path}.restartPolicy`, policy, policies));
  const rules = container.restartPolicyRules ?? [];
  if (rules.length > 20) errors.push(tooMany(`${path}.restartPolicyRules`, rules.length, 20));
  for (const [i, rule] of rules.entries()) {
    const at = `${path}.restartPolicyRules[${i}]`;
    if (rule.action !== "Restart" && rule.action !== "RestartAllContainers") {
      errors.push(notSupported(`${at}.action`, rule.action, ["Restart", "RestartAllContainers"]));
    }
    if (rule.exitCodes === undefined) {
      errors.push(required(`${at}.exitCodes`, "must be specified"));
      continue;
    }
    if (rule.exitCodes.operator !== "In" && rule.exitCodes.operator !== "NotIn") {
      errors.push(notSupported(`${at}.exitCodes.operator`, rule.exitCodes.operator, ["In", "NotIn"]));
    }
    const values = rule.exitCodes.values ?? [];
    if (values.length === 0) errors.push(invalid(`${at}.exitCodes.values`, values, "must have at least one value"));
  }
}

function checkResizePolicy(
  policies: readonly { resourceName: string; restartPolicy: string }[],
  spec: PodSpec,
  path: string,
  errors: FieldError[],
): void {
  const isRepeated = repeats();
  for (const [i, policy] of policies.entries()) {
    const at = `${path}.resizePolicy`;
    if (isRepeated(policy.resourceName)) {
      errors.push(duplicate(`${at}[${i}]`, policy.resourceName));
    }
    if (policy.resourceName !== "cpu" && policy.resourceName !== "memory") {
      errors.push(notSupported(at, policy.resourceName, ["cpu", "memory"]));
    }
    if (policy.restartPolicy !== "NotRequired" && policy.restartPolicy !== "RestartContainer") {
      errors.push(notSupported(at, policy.restartPolicy, ["NotRequired", "RestartContainer"]));
    }
    if (spec.restartPolicy === "Never" && policy.restartPolicy !== "NotRequired") {
      errors.push(invalid(at, policy.restartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'"));
    }
  }
}
