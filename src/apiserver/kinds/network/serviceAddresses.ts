/** Allocates cluster IPs and node ports of Services. */

import type { Service } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid } from "../../../model/objects/fieldError.ts";
import { internalError, invalidObject } from "../../../model/objects/status.ts";
import { formatIp, networkContains, parseCidr, parseIp } from "../../../model/values/ipAddress.ts";
import type { WriteContext } from "../../strategy.ts";

export const serviceNetworkText = "10.96.0.0/16";
const serviceNetwork = parseCidr(serviceNetworkText);
/** Without the network address and the broadcast address. */
const addressCount = 2 ** 16 - 2;
export const nodePortMin = 30000;
export const nodePortMax = 32767;
const randomTries = 32;

export function hasClusterIp(service: Service): boolean {
  return service.spec?.type !== "ExternalName";
}

export function isHeadless(service: Service): boolean {
  return service.spec?.clusterIP === "None";
}

export function needsNodePorts(service: Service): boolean {
  const { type, allocateLoadBalancerNodePorts } = service.spec ?? {};
  return type === "NodePort" || (type === "LoadBalancer" && allocateLoadBalancerNodePorts !== false);
}

/** Allocates missing `clusterIP` and `nodePort`s; a requested value that is in use or out of range is a 422. */
export function allocateServiceAddresses(service: Service, context: WriteContext): void {
  const spec = service.spec;
  if (spec === undefined) return;
  const errors: FieldError[] = [];
  if (hasClusterIp(service)) {
    if (!spec.clusterIP) {
      spec.clusterIP = pickAddress(takenAddresses(service, context), context);
      spec.clusterIPs = [spec.clusterIP];
    } else if (spec.clusterIP !== "None") {
      checkWantedAddress(spec.clusterIP, takenAddresses(service, context), errors);
    }
  }
  const ports = spec.ports ?? [];
  if (needsNodePorts(service) || ports.some(({ nodePort }) => nodePort)) {
    allocateNodePorts(service, context, errors);
  }
  if (errors.length > 0) throw invalidObject({ group: "", kind: "Service" }, service.metadata.name, errors);
}

function otherServices(service: Service, context: WriteContext): Service[] {
  const all = context.list("/services", "") as Iterable<unknown> as Iterable<Service>;
  const { name, namespace } = service.metadata;
  return [...all].filter(({ metadata }) => metadata.name !== name || metadata.namespace !== namespace);
}

function takenAddresses(service: Service, context: WriteContext): Set<string> {
  const taken = new Set<string>();
  for (const other of otherServices(service, context)) {
    for (const address of other.spec?.clusterIPs ?? [other.spec?.clusterIP ?? ""]) taken.add(address);
  }
  return taken;
}

function addressAt(index: number): string {
  // index 0 is .0.1
  const offset = index + 1;
  return formatIp({ bytes: [10, 96, offset >> 8, offset & 255], family: "IPv4" });
}

function pickAddress(taken: ReadonlySet<string>, context: WriteContext): string {
  for (let i = 0; i < randomTries; i++) {
    const address = addressAt(context.randomBelow(addressCount));
    if (!taken.has(address)) return address;
  }
  for (let i = 0; i < addressCount; i++) if (!taken.has(addressAt(i))) return addressAt(i);
  throw internalError("failed to allocate a serviceIP: range is full");
}

function checkWantedAddress(wanted: string, taken: ReadonlySet<string>, errors: FieldError[]): void {
  const address = parseIp(wanted);
  if (address === undefined || serviceNetwork === undefined) return; // the spelling is judged by validation
  if (!networkContains(serviceNetwork, address)) {
    const detail = `failed to allocate IP ${wanted}: the provided IP (${wanted}) is not in the valid range. The range of valid IPs is ${serviceNetworkText}`;
    errors.push(invalid("spec.clusterIPs", [wanted], detail));
  } else if (taken.has(wanted)) {
    const detail = `failed to allocate IP ${wanted}: provided IP is already allocated`;
    errors.push(invalid("spec.clusterIPs", [wanted], detail));
  }
}

function allocateNodePorts(service: Service, context: WriteContext, errors: FieldError[]): void {
  const taken = new Set<string>();
  const key = (protocol: string | undefined, port: number): string => `${protocol ?? "TCP"}/${port}`;
  for (const other of otherServices(service, context)) {
    for (const port of other.spec?.ports ?? []) if (port.nodePort) taken.add(key(port.protocol, port.nodePort));
    const health = other.spec?.healthCheckNodePort;
    if (health) taken.add(key("TCP", health));
  }
  const ports = service.spec?.ports ?? [];
  const count = nodePortMax - nodePortMin + 1;
  for (const [i, port] of ports.entries()) {
    const wanted = port.nodePort;
    if (!wanted) continue;
    if (wanted < nodePortMin || wanted > nodePortMax) {
      const detail = `provided port is not in the valid range. The range of valid ports is ${nodePortMin}-${nodePortMax}`;
      errors.push(invalid(`spec.ports[${i}].nodePort`, wanted, detail));
    } else if (taken.has(key(port.protocol, wanted))) {
      errors.push(invalid(`spec.ports[${i}].nodePort`, wanted, "provided port is already allocated"));
    }
    taken.add(key(port.protocol, wanted));
  }
  if (!needsNodePorts(service)) return;
  const pick = (protocol: string | undefined): number => {
    const first = context.randomBelow(count);
    for (let step = 0; step < count; step++) {
      const candidate = nodePortMin + ((first + step) % count);
      if (taken.has(key(protocol, candidate))) continue;
      taken.add(key(protocol, candidate));
      return candidate;
    }
    throw internalError("failed to allocate a nodePort: range is full");
  };
  for (const port of ports) port.nodePort ||= pick(port.protocol);
  const { type, externalTrafficPolicy, healthCheckNodePort } = service.spec ?? {};
  if (service.spec !== undefined && type === "LoadBalancer" && externalTrafficPolicy === "Local") {
    service.spec.healthCheckNodePort = healthCheckNodePort || pick("TCP");
  }
}

/** Keeps the addresses of the old Service, or releases them when its type changed. */
export function carryServiceAddresses(next: Service, old: Service): void {
  const spec = next.spec;
  const before = old.spec;
  if (spec === undefined || before === undefined) return;
  if (hasClusterIp(next) && hasClusterIp(old) && !spec.clusterIP && before.clusterIP) {
    spec.clusterIP = before.clusterIP;
    if (before.clusterIPs !== undefined) spec.clusterIPs = before.clusterIPs;
  }
  if (!hasClusterIp(next) && hasClusterIp(old) && spec.clusterIP === before.clusterIP) {
    delete spec.clusterIP;
    delete spec.clusterIPs;
    delete spec.ipFamilies;
    delete spec.ipFamilyPolicy;
  }
  if (!needsNodePorts(next) && needsNodePorts(old)) {
    for (const [i, port] of (spec.ports ?? []).entries()) {
      if (port.nodePort === before.ports?.[i]?.nodePort) delete port.nodePort;
    }
    delete spec.healthCheckNodePort;
  }
  if (!needsNodePorts(next) || !needsNodePorts(old)) return;
  for (const port of spec.ports ?? []) {
    if (port.nodePort) continue;
    const same = before.ports?.find((other) => other.port === port.port && other.protocol === port.protocol);
    const isFree = !spec.ports?.some((other) => other.nodePort === same?.nodePort);
    if (same?.nodePort && isFree) port.nodePort = same.nodePort;
  }
  if (before.healthCheckNodePort && spec.externalTrafficPolicy === "Local") {
    spec.healthCheckNodePort ||= before.healthCheckNodePort;
  }
}

export function checkClusterIpChange(next: Service, old: Service, errors: FieldError[]): void {
  if (!hasClusterIp(next) || !hasClusterIp(old)) return;
  const before = old.spec?.clusterIP;
  const after = next.spec?.clusterIP;
  if (before && after !== before) {
    if (!after) errors.push(forbidden("spec.clusterIPs[0]", "primary clusterIP can not be unset"));
    else errors.push(invalid("spec.clusterIPs[0]", after, "may not change once set"));
  }
}
