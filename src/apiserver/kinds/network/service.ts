import type { Service, ServiceSpec } from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { parseIp } from "../../../model/values/ipAddress.ts";
import { checkCidr, checkIpAddress, checkReachableIp } from "../checks/addressChecks.ts";
import { checkOneOf, checkPortNumber, checkRange } from "../checks/fieldChecks.ts";
import { checkLabels } from "../checks/labelChecks.ts";
import { checkDnsLabel, checkDnsSubdomain, checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkPort } from "../pods/validation/handlerValidation.ts";
import {
  allocateServiceAddresses,
  carryServiceAddresses,
  checkClusterIpChange,
  hasClusterIp,
  isHeadless,
} from "./serviceAddresses.ts";

/** Three hours. */
const affinitySecondsDefault = 10800;
const affinitySecondsMax = 86400;
const types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

export const serviceStrategy = strategyOfKind<Service>({
  takesAlong: "/endpoints",
  name: "dnsLabel",
  generation: "none",
  createOnUpdate: true,
  returnsDeleted: true,
  setDefaults(service) {
    service.spec ??= {};
    setSpecDefaults(service.spec);
  },
  prepareForCreate(service, context) {
    alignAddresses(service);
    allocateServiceAddresses(service, context);
    setFamilies(service);
  },
  validate: (service) => [...serviceErrors(service), ...familyErrors(service)],
  prepareForUpdate(next, old, context) {
    alignAddresses(next);
    dropOutgrown(next, old);
    carryServiceAddresses(next, old);
    allocateServiceAddresses(next, context);
    setFamilies(next);
  },
  validateStatusUpdate(next) {
    const ingress = next.status?.loadBalancer?.ingress ?? [];
    if (ingress.length === 0 || next.spec?.type === "LoadBalancer") return [];
    return [forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")];
  },
  validateUpdate(next, old) {
    const errors = serviceErrors(next);
    checkClusterIpChange(next, old, errors);
    const oldClass = old.spec?.loadBalancerClass;
    const isStillBalanced = next.spec?.type === "LoadBalancer" && old.spec?.type === "LoadBalancer";
    if (isStillBalanced && oldClass !== undefined && next.spec?.loadBalancerClass !== oldClass) {
      const detail = "may not change once set";
      errors.push(invalid("spec.loadBalancerClass", next.spec?.loadBalancerClass ?? null, detail));
    }
    return errors;
  },
  selectFields: (service) => [service.spec?.clusterIP ?? "", service.spec?.type ?? ""],
});

function setSpecDefaults(spec: ServiceSpec): void {
  spec.sessionAffinity ||= "None";
  if (spec.sessionAffinity === "None") delete spec.sessionAffinityConfig;
  if (spec.sessionAffinity === "ClientIP" && spec.sessionAffinityConfig?.clientIP?.timeoutSeconds === undefined) {
    spec.sessionAffinityConfig = { clientIP: { timeoutSeconds: affinitySecondsDefault } };
  }
  spec.type ||= "ClusterIP";
  for (const port of spec.ports ?? []) {
    port.protocol ||= "TCP";
    if (port.targetPort === undefined || port.targetPort === 0 || port.targetPort === "") port.targetPort = port.port;
  }
  if (isReachableFromOutside(spec)) spec.externalTrafficPolicy ||= "Cluster";
  if (spec.type !== "ExternalName") spec.internalTrafficPolicy ??= "Cluster";
  if (spec.type === "LoadBalancer") spec.allocateLoadBalancerNodePorts ??= true;
}

function isReachableFromOutside(spec: ServiceSpec): boolean {
  if (spec.type === "LoadBalancer" || spec.type === "NodePort") return true;
  return spec.type === "ClusterIP" && (spec.externalIPs ?? []).length > 0;
}

/**
 * Fields of a type that the Service no longer has are dropped, unless the caller changed them: most of them were set by
 * the server, and a caller that only sends the new type would be rejected for fields that it never set.
 */
function dropOutgrown(next: Service, old: Service): void {
  const { spec } = next;
  const before = old.spec;
  if (spec === undefined || before === undefined) return;
  if (!isReachableFromOutside(spec) && spec.externalTrafficPolicy === before.externalTrafficPolicy) {
    delete spec.externalTrafficPolicy;
  }
  if (spec.type === "LoadBalancer" || before.type !== "LoadBalancer") return;
  if (spec.allocateLoadBalancerNodePorts === before.allocateLoadBalancerNodePorts) {
    delete spec.allocateLoadBalancerNodePorts;
  }
  if (spec.loadBalancerClass === before.loadBalancerClass) delete spec.loadBalancerClass;
  if (next.status !== undefined) next.status = { ...next.status, loadBalancer: {} };
}

/** clusterIP is the older field and equals the first of clusterIPs. */
function alignAddresses(service: Service): void {
  const spec = service.spec;
  if (spec === undefined || !hasClusterIp(service)) return;
  if (spec.clusterIP && spec.clusterIPs === undefined) spec.clusterIPs = [spec.clusterIP];
  else if (!spec.clusterIP && spec.clusterIPs?.[0]) spec.clusterIP = spec.clusterIPs[0];
}

function setFamilies(service: Service): void {
  const spec = service.spec;
  if (spec === undefined || !hasClusterIp(service)) return;
  // Without a selector the server allocates no addresses, so either family is possible.
  const isOpen = isHeadless(service) && Object.keys(spec.selector ?? {}).length === 0;
  const asked = spec.ipFamilyPolicy;
  spec.ipFamilyPolicy ??= isOpen && spec.ipFamilies === undefined ? "RequireDualStack" : "SingleStack";
  if (spec.ipFamilies !== undefined) return;
  spec.ipFamilies = [parseIp(spec.clusterIP ?? "")?.family ?? "IPv4"];
  if (isOpen && asked !== "SingleStack") spec.ipFamilies = ["IPv4", "IPv6"];
}

/** Services have one address family here, as in every single-stack cluster. */
function familyErrors(service: Service): FieldError[] {
  const { spec } = service;
  if (spec === undefined || !hasClusterIp(service)) return [];
  if (isHeadless(service) && Object.keys(spec.selector ?? {}).length === 0) return [];
  const families = spec.ipFamilies ?? [];
  if (families.length > 1 && spec.ipFamilyPolicy === "SingleStack") {
    const why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
    return [invalid("spec.ipFamilyPolicy", spec.ipFamilyPolicy, why)];
  }
  if (spec.ipFamilyPolicy === "RequireDualStack") {
    const why = "this cluster is not configured for dual-stack services";
    return [invalid("spec.ipFamilyPolicy", spec.ipFamilyPolicy, why)];
  }
  const at = families.indexOf("IPv6");
  return at < 0 ? [] : [invalid(`spec.ipFamilies[${at}]`, "IPv6", "not configured on this cluster")];
}

function serviceErrors(service: Service): FieldError[] {
  const errors: FieldError[] = [];
  const spec = service.spec ?? {};
  const ports = spec.ports ?? [];
  if (ports.length === 0 && !isHeadless(service) && spec.type !== "ExternalName") errors.push(required("spec.ports"));
  if (isHeadless(service) && (spec.type === "LoadBalancer" || spec.type === "NodePort")) {
    const detail = `may not be set to 'None' for ${spec.type} services`;
    errors.push(invalid("spec.clusterIPs[0]", "None", detail));
  }
  if (spec.type === "ExternalName") checkExternalName(spec, errors);
  checkPorts(spec, errors);
  checkLabels(spec.selector, "spec.selector", errors);
  checkOneOf(spec.sessionAffinity, ["ClientIP", "None"], "spec.sessionAffinity", errors, true);
  if (spec.sessionAffinity === "ClientIP") {
    const seconds = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds;
    const path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    checkRange(seconds, { min: 1, max: affinitySecondsMax }, path, errors);
  }
  checkAddresses(service, errors);
  checkOneOf(spec.type, types, "spec.type", errors, true);
  for (const [i, range] of (spec.loadBalancerSourceRanges ?? []).entries()) {
    checkCidr(range.trim(), `spec.LoadBalancerSourceRanges[${i}]`, errors);
  }
  for (const field of ["loadBalancerClass", "allocateLoadBalancerNodePorts"] as const) {
    if (spec.type !== "LoadBalancer" && spec[field] !== undefined) {
      errors.push(forbidden(`spec.${field}`, "may only be used when `type` is 'LoadBalancer'"));
    }
  }
  if (spec.type !== "LoadBalancer" && (spec.loadBalancerSourceRanges ?? []).length > 0) {
    errors.push(forbidden("spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'"));
  }
  if (isReachableFromOutside(spec)) {
    checkOneOf(spec.externalTrafficPolicy, ["Cluster", "Local"], "spec.externalTrafficPolicy", errors, true);
  } else if (spec.externalTrafficPolicy) {
    const detail = "may only be set for externally-accessible services";
    errors.push(invalid("spec.externalTrafficPolicy", spec.externalTrafficPolicy, detail));
  }
  if (spec.healthCheckNodePort && !(spec.type === "LoadBalancer" && spec.externalTrafficPolicy === "Local")) {
    const detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
    errors.push(invalid("spec.healthCheckNodePort", spec.healthCheckNodePort, detail));
  }
  checkOneOf(spec.internalTrafficPolicy, ["Cluster", "Local"], "spec.internalTrafficPolicy", errors);
  const distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
  checkOneOf(spec.trafficDistribution, distributions, "spec.trafficDistribution", errors);
  return errors;
}

function checkExternalName(spec: ServiceSpec, errors: FieldError[]): void {
  for (const field of ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] as const) {
    const value = spec[field];
    if (value !== undefined && value.length > 0) {
      errors.push(forbidden(`spec.${field}`, "may not be set for ExternalName services"));
    }
  }
  const name = (spec.externalName ?? "").replace(/\.$/, "");
  if (name === "") errors.push(required("spec.externalName"));
  else checkDnsSubdomain(name, "spec.externalName", errors);
}

function checkPorts(spec: ServiceSpec, errors: FieldError[]): void {
  const ports = spec.ports ?? [];
  const [isRepeatedName, isRepeatedNodePort, isRepeatedPort] = [repeats(), repeats(), repeats()];
  for (const [i, port] of ports.entries()) {
    const path = `spec.ports[${i}]`;
    if (port.name) {
      checkDnsLabel(port.name, `${path}.name`, errors);
      if (isRepeatedName(port.name)) errors.push(duplicate(`${path}.name`, port.name));
    } else if (ports.length > 1) errors.push(required(`${path}.name`));
    checkPortNumber(port.port ?? 0, `${path}.port`, errors);
    checkOneOf(port.protocol, ["SCTP", "TCP", "UDP"], `${path}.protocol`, errors, true);
    checkPort(port.targetPort, `${path}.targetPort`, errors);
    if (port.appProtocol !== undefined) checkQualifiedName(port.appProtocol, `${path}.appProtocol`, errors);
    if (port.nodePort && spec.type === "ClusterIP") {
      errors.push(forbidden(`${path}.nodePort`, "may not be used when `type` is 'ClusterIP'"));
    }
    if (port.nodePort && isRepeatedNodePort(port.protocol, port.nodePort)) {
      errors.push(duplicate(`${path}.nodePort`, port.nodePort));
    }
    if (isRepeatedPort(port.protocol, port.port)) {
      errors.push(duplicate(path, { port: port.port, protocol: port.protocol }));
    }
  }
}

function checkAddresses(service: Service, errors: FieldError[]): void {
  const spec = service.spec ?? {};
  const addresses = spec.clusterIPs ?? [];
  for (const [i, address] of addresses.entries()) {
    if (address === "None") {
      if (i > 0 || addresses.length > 1) {
        errors.push(invalid(`spec.clusterIPs[${i}]`, address, "'None' must be the first and only value"));
      }
    } else checkIpAddress(address, `spec.clusterIPs[${i}]`, errors);
  }
  if (addresses.length > 2) {
    const detail = "may only hold up to 2 values";
    errors.push(invalid("spec.clusterIPs", addresses, detail));
  }
  if (hasClusterIp(service) && addresses[0] !== undefined && addresses[0] !== spec.clusterIP) {
    errors.push(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"));
  }
  const policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
  checkOneOf(spec.ipFamilyPolicy, policies, "spec.ipFamilyPolicy", errors);
  for (const [i, family] of (spec.ipFamilies ?? []).entries()) {
    checkOneOf(family, ["IPv4", "IPv6"], `spec.ipFamilies[${i}]`, errors, true);
    if (spec.ipFamilies?.slice(0, i).includes(family)) errors.push(duplicate(`spec.ipFamilies[${i}]`, family));
  }
  for (const [i, address] of (spec.externalIPs ?? []).entries()) {
    if (checkIpAddress(address, `spec.externalIPs[${i}]`, errors)) {
      checkReachableIp(address, `spec.externalIPs[${i}]`, errors);
    }
  }
}
