/** Validation of a pod spec, for pods and for templates. All errors are collected. */

import type { PodSpec } from "../../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  required,
  tooLong,
} from "../../../../model/objects/fieldError.ts";
import { checkIpAddress } from "../../checks/addressChecks.ts";
import { compareAmounts } from "../../checks/amounts.ts";
import { checkOneOf, checkRange } from "../../checks/fieldChecks.ts";
import { checkLabels } from "../../checks/labelChecks.ts";
import { checkDnsLabel, checkDnsSubdomain, checkQualifiedName } from "../../checks/nameChecks.ts";
import { repeats } from "../../checks/repeats.ts";
import { aggregate } from "../podResources.ts";
import { checkAffinity } from "./affinityValidation.ts";
import { checkContainers } from "./containerValidation.ts";
import { type ClaimNames, checkContainerResources, checkPodLevelResources } from "./resourceValidation.ts";
import { checkPodSecurity } from "./securityContextValidation.ts";
import { checkTolerations } from "./tolerationValidation.ts";
import { checkTopologySpread } from "./topologySpreadValidation.ts";
import { checkVolumes } from "./volumeValidation.ts";

const restartPolicies = ["Always", "Never", "OnFailure"];
const dnsPolicies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const secondsMax = 2 ** 31 - 1;

const noClaims: ClaimNames = new Set();

/** `podName` is empty for templates: names derived from it are not known yet. */
export function checkPodSpec(spec: PodSpec, path: string, errors: FieldError[], podName = ""): void {
  const volumes = checkVolumes(spec.volumes, podName, `${path}.volumes`, errors);
  const claimNames = spec.resourceClaims === undefined ? noClaims : checkResourceClaims(spec, path, errors);
  checkContainers({ spec, volumes, claimNames }, path, errors);
  if (spec.resources !== undefined) {
    checkPodLevelResources(spec.resources, `${path}.resources`, errors);
    checkPodCoversContainers(spec, `${path}.resources`, errors);
  }
  if (spec.hostNetwork === true) checkHostNetworkPorts(spec, path, errors, podName !== "");

  checkOneOf(spec.restartPolicy, restartPolicies, `${path}.restartPolicy`, errors, true);
  checkOneOf(spec.dnsPolicy, dnsPolicies, `${path}.dnsPolicy`, errors, true);
  if (spec.nodeSelector !== undefined) checkLabels(spec.nodeSelector, `${path}.nodeSelector`, errors);
  checkPodSecurity(spec, `${path}.securityContext`, errors);
  if (spec.shareProcessNamespace === true && spec.hostPID === true) {
    const detail = "ShareProcessNamespace and HostPID cannot both be enabled";
    errors.push(invalid(`${path}.shareProcessNamespace`, true, detail));
  }
  if (spec.affinity !== undefined) checkAffinity(spec.affinity, `${path}.affinity`, errors);
  if (spec.dnsConfig !== undefined) checkDnsConfig(spec, `${path}.dnsConfig`, errors);
  else if (spec.dnsPolicy === "None") {
    errors.push(required(`${path}.dnsConfig`, "must provide `dnsConfig` when `dnsPolicy` is None"));
  }
  if (spec.readinessGates !== undefined) {
    for (const [i, gate] of spec.readinessGates.entries()) {
      checkQualifiedName(gate.conditionType, `${path}.readinessGates[${i}].conditionType`, errors);
    }
  }
  if (spec.schedulingGates !== undefined) checkSchedulingGates(spec, path, errors);
  if (spec.topologySpreadConstraints !== undefined) {
    checkTopologySpread(spec.topologySpreadConstraints, `${path}.topologySpreadConstraints`, errors);
  }
  if (spec.hostUsers === false) checkUserNamespace(spec, path, errors);
  if (spec.hostnameOverride !== undefined) checkHostnameOverride(spec, `${path}.hostnameOverride`, errors);
  if (spec.serviceAccountName) checkDnsSubdomain(spec.serviceAccountName, `${path}.serviceAccountName`, errors);
  if (spec.nodeName) checkDnsSubdomain(spec.nodeName, `${path}.nodeName`, errors);
  checkRange(spec.activeDeadlineSeconds, { min: 1, max: secondsMax }, `${path}.activeDeadlineSeconds`, errors);
  if (spec.hostname) checkDnsLabel(spec.hostname, `${path}.hostname`, errors);
  if (spec.subdomain) checkDnsLabel(spec.subdomain, `${path}.subdomain`, errors);
  if (spec.tolerations !== undefined) checkTolerations(spec.tolerations, `${path}.tolerations`, errors);
  if (spec.hostAliases !== undefined) {
    for (const [i, alias] of spec.hostAliases.entries()) {
      checkIpAddress(alias.ip, `${path}.hostAliases[${i}].ip`, errors);
      for (const host of alias.hostnames ?? []) checkDnsSubdomain(host, `${path}.hostAliases[${i}].hostnames`, errors);
    }
  }
  if (spec.priorityClassName) checkDnsSubdomain(spec.priorityClassName, `${path}.priorityClassName`, errors);
  if (spec.runtimeClassName !== undefined) checkDnsSubdomain(spec.runtimeClassName, `${path}.runtimeClassName`, errors);
  if (spec.preemptionPolicy !== undefined) {
    const policies = ["Never", "PreemptLowerPriority"];
    checkOneOf(spec.preemptionPolicy, policies, `${path}.preemptionPolicy`, errors, true);
  }
  if (spec.overhead !== undefined) {
    checkContainerResources({ limits: spec.overhead }, `${path}.overhead`, errors);
  }
  if (spec.os !== undefined) {
    if (!spec.os.name) errors.push(required(`${path}.os.name`, "cannot be empty"));
    else checkOneOf(spec.os.name, ["linux", "windows"], `${path}.os`, errors);
  }
  if (spec.schedulingGroup !== undefined) {
    const name = spec.schedulingGroup.podGroupName;
    if (!name) errors.push(required(`${path}.schedulingGroup.podGroupName`));
    else checkDnsSubdomain(name, `${path}.schedulingGroup.podGroupName`, errors);
  }
}

function checkResourceClaims(spec: PodSpec, path: string, errors: FieldError[]): ClaimNames {
  const names = new Set<string>();
  for (const [i, claim] of (spec.resourceClaims ?? []).entries()) {
    const at = `${path}.resourceClaims[${i}]`;
    if (!claim.name) errors.push(required(`${at}.name`));
    else if (names.has(claim.name)) errors.push(duplicate(`${at}.name`, claim.name));
    else {
      checkDnsLabel(claim.name, `${at}.name`, errors);
      names.add(claim.name);
    }
    const { resourceClaimName, resourceClaimTemplateName } = claim;
    if (resourceClaimName !== undefined && resourceClaimTemplateName !== undefined) {
      const detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
      errors.push(invalid(at, claim, detail));
    }
    if (resourceClaimName === undefined && resourceClaimTemplateName === undefined) {
      const detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
      errors.push(invalid(at, claim, detail));
    }
    if (resourceClaimName !== undefined) checkDnsSubdomain(resourceClaimName, `${at}.resourceClaimName`, errors);
    if (resourceClaimTemplateName !== undefined) {
      checkDnsSubdomain(resourceClaimTemplateName, `${at}.resourceClaimTemplateName`, errors);
    }
  }
  return names;
}

function checkSchedulingGates(spec: PodSpec, path: string, errors: FieldError[]): void {
  const gates = spec.schedulingGates ?? [];
  const isRepeated = repeats();
  for (const [i, gate] of gates.entries()) {
    checkQualifiedName(gate.name, `${path}.schedulingGates[${i}]`, errors);
    if (isRepeated(gate.name)) {
      errors.push(duplicate(`${path}.schedulingGates[${i}]`, gate.name));
    }
  }
}

function checkDnsConfig(spec: PodSpec, path: string, errors: FieldError[]): void {
  const { nameservers = [], searches = [], options = [] } = spec.dnsConfig ?? {};
  if (spec.dnsPolicy === "None" && nameservers.length === 0) {
    errors.push(required(`${path}.nameservers`, "must provide at least one DNS nameserver when `dnsPolicy` is None"));
  }
  if (nameservers.length > 3) {
    errors.push(invalid(`${path}.nameservers`, nameservers, "must not have more than 3 nameservers"));
  }
  for (const [i, server] of nameservers.entries()) checkIpAddress(server, `${path}.nameservers[${i}]`, errors);
  if (searches.length > 32) {
    errors.push(invalid(`${path}.searches`, searches, "must not have more than 32 search paths"));
  }
  for (const [i, search] of searches.entries()) {
    // A trailing dot marks a fully qualified name; a dot alone is the root.
    if (search !== ".") checkDnsSubdomain(search.replace(/\.$/, ""), `${path}.searches[${i}]`, errors);
  }
  if (searches.join(" ").length > 2048) {
    errors.push(
      invalid(
        `${path}.searches`,
        searches,
        "must not have more than 2048 characters (including spaces) in the search list",
      ),
    );
  }
  for (const [i, option] of options.entries()) {
    if (!option.name) errors.push(required(`${path}.options[${i}]`, "must not be empty"));
  }
}

/** With hostNetwork, container ports are ports of the node. Templates get their host ports when pods are created. */
function checkHostNetworkPorts(spec: PodSpec, path: string, errors: FieldError[], isPod: boolean): void {
  for (const [i, container] of (spec.containers ?? []).entries()) {
    for (const [j, port] of (container.ports ?? []).entries()) {
      const hostPort = port.hostPort ?? 0;
      if ((!isPod && hostPort === 0) || hostPort === port.containerPort) continue;
      const detail = "must match `containerPort` when `hostNetwork` is true";
      errors.push(invalid(`${path}.containers[${i}].ports[${j}].hostPort`, hostPort, detail));
    }
  }
}

/** The pod-level requests must be at least the sum of the containers' requests. */
function checkPodCoversContainers(spec: PodSpec, path: string, errors: FieldError[]): void {
  const { requests = {}, limits = {} } = spec.resources ?? {};
  const asked = aggregate(spec, (container) => container.resources?.requests);
  for (const [name, amount] of Object.entries(requests)) {
    const sum = asked[name];
    if (sum === undefined || compareAmounts(sum, amount) <= 0) continue;
    const detail = `must be greater than or equal to aggregate container requests of ${sum}`;
    errors.push(invalid(`${path}.requests[${name}]`, amount, detail));
  }
  for (const [i, container] of (spec.containers ?? []).entries()) {
    for (const [name, amount] of Object.entries(container.resources?.limits ?? {})) {
      const whole = limits[name];
      if (whole === undefined || compareAmounts(amount, whole) <= 0) continue;
      const detail = `must be less than or equal to pod limits of ${whole}`;
      errors.push(invalid(`${path}.containers[${i}][${name}].limits`, amount, detail));
    }
  }
}

function checkHostnameOverride(spec: PodSpec, path: string, errors: FieldError[]): void {
  const name = spec.hostnameOverride ?? "";
  if (spec.setHostnameAsFQDN === true) {
    errors.push(forbidden(path, "may not be specified when setHostnameAsFQDN is true"));
  }
  if (spec.hostNetwork === true) errors.push(forbidden(path, "may not be specified when hostNetwork is true"));
  if (name.length > 64) errors.push(tooLong(path, 64));
  checkDnsSubdomain(name, path, errors);
}

function checkUserNamespace(spec: PodSpec, path: string, errors: FieldError[]): void {
  const detail = "when `hostUsers` is false";
  if (spec.hostNetwork === true) errors.push(forbidden(`${path}.hostNetwork`, detail));
  // Upstream spells these two in upper case.
  if (spec.hostPID === true) errors.push(forbidden(`${path}.HostPID`, detail));
  if (spec.hostIPC === true) errors.push(forbidden(`${path}.HostIPC`, detail));
  for (const [i, container] of (spec.containers ?? []).entries()) {
    if (container.volumeDevices !== undefined) {
      errors.push(forbidden(`${path}.containers[${i}].volumeDevices`, detail));
    }
  }
}
