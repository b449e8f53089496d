import type { Endpoint, EndpointAddress, EndpointSlice, Endpoints } from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  invalid,
  notSupported,
  required,
  tooLong,
  tooMany,
} from "../../../model/objects/fieldError.ts";
import { parseIp } from "../../../model/values/ipAddress.ts";
import { systemUser } from "../../systemCall.ts";
import { checkIpAddress, checkReachableIp } from "../checks/addressChecks.ts";
import { checkImmutable, checkOneOf, checkPortNumber } from "../checks/fieldChecks.ts";
import { checkDnsLabel, checkDnsSubdomain, checkLabelValue, checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";

const protocols = ["SCTP", "TCP", "UDP"];

export const endpointsStrategy = strategyOfKind<Endpoints>({
  generation: "none",
  createOnUpdate: true,
  setDefaults(endpoints) {
    for (const subset of endpoints.subsets ?? []) for (const port of subset.ports ?? []) port.protocol ||= "TCP";
  },
  validate: (endpoints, { user }) => endpointsErrors(endpoints, user === systemUser),
  validateUpdate: (next, _, { user }) => endpointsErrors(next, user === systemUser),
});

/** `isOwn`: the endpoints of this server, which may listen on a loopback address. */
function endpointsErrors(endpoints: Endpoints, isOwn: boolean): FieldError[] {
  const errors: FieldError[] = [];
  for (const [i, subset] of (endpoints.subsets ?? []).entries()) {
    const path = `subsets[${i}]`;
    const { addresses = [], notReadyAddresses = [], ports = [] } = subset;
    if (addresses.length === 0 && notReadyAddresses.length === 0) {
      errors.push(required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (const [j, address] of addresses.entries()) checkAddress(address, `${path}.addresses[${j}]`, errors, isOwn);
    for (const [j, address] of notReadyAddresses.entries()) {
      checkAddress(address, `${path}.notReadyAddresses[${j}]`, errors);
    }
    for (const [j, port] of ports.entries()) {
      const at = `${path}.ports[${j}]`;
      if (port.name) checkDnsLabel(port.name, `${at}.name`, errors);
      else if (ports.length > 1) errors.push(required(`${at}.name`));
      checkPortNumber(port.port ?? 0, `${at}.port`, errors);
      checkOneOf(port.protocol, protocols, `${at}.protocol`, errors, true);
      if (port.appProtocol !== undefined) checkQualifiedName(port.appProtocol, `${at}.appProtocol`, errors);
    }
  }
  return errors;
}

function checkAddress(address: EndpointAddress, path: string, errors: FieldError[], isOwn = false): void {
  if (checkIpAddress(address.ip, `${path}.ip`, errors) && !isOwn) checkReachableIp(address.ip, `${path}.ip`, errors);
  if (address.hostname) checkDnsLabel(address.hostname, `${path}.hostname`, errors);
  if (address.nodeName !== undefined) checkDnsSubdomain(address.nodeName, `${path}.nodeName`, errors);
}

const endpointsMax = 1000;
const addressesMax = 100;
const portsMax = 20_000;
const hintsMax = 8;

export const endpointSliceStrategy = strategyOfKind<EndpointSlice>({
  generation: "content",
  setDefaults(slice) {
    for (const port of slice.ports ?? []) {
      port.name ??= "";
      port.protocol ??= "TCP";
    }
  },
  validate: (slice, { user }) => sliceErrors(slice, user === systemUser),
  validateUpdate(next, old, { user }) {
    const errors = sliceErrors(next, user === systemUser);
    checkImmutable(next.addressType, old.addressType, "addressType", errors);
    return errors;
  },
});

function sliceErrors(slice: EndpointSlice, isOwn: boolean): FieldError[] {
  const errors: FieldError[] = [];
  const endpoints = slice.endpoints ?? [];
  const ports = slice.ports ?? [];
  const types = ["FQDN", "IPv4", "IPv6"];
  if (!slice.addressType) errors.push(required("addressType"));
  else if (!types.includes(slice.addressType)) errors.push(notSupported("addressType", slice.addressType, types));
  if (endpoints.length > endpointsMax) errors.push(tooMany("endpoints", endpoints.length, endpointsMax));
  for (const [i, endpoint] of endpoints.entries()) {
    checkEndpoint(endpoint, slice.addressType, `endpoints[${i}]`, errors, isOwn);
  }
  if (ports.length > portsMax) errors.push(tooMany("ports", ports.length, portsMax));
  const names = new Set<string>();
  for (const [i, port] of ports.entries()) {
    const name = port.name ?? "";
    if (name !== "") checkDnsLabel(name, `ports[${i}].name`, errors);
    if (names.has(name)) errors.push(duplicate(`ports[${i}].name`, name));
    names.add(name);
    checkOneOf(port.protocol, protocols, `ports[${i}].protocol`, errors, true);
    if (port.appProtocol !== undefined) checkQualifiedName(port.appProtocol, `ports[${i}].appProtocol`, errors);
  }
  return errors;
}

function checkEndpoint(
  endpoint: Endpoint,
  addressType: string,
  path: string,
  errors: FieldError[],
  isOwn: boolean,
): void {
  const addresses = endpoint.addresses ?? [];
  if (addresses.length === 0) errors.push(required(`${path}.addresses`, "must contain at least 1 address"));
  if (addresses.length > addressesMax) errors.push(tooMany(`${path}.addresses`, addresses.length, addressesMax));
  for (const [i, address] of addresses.entries()) {
    const at = `${path}.addresses[${i}]`;
    if (addressType === "FQDN") checkDnsSubdomain(address, at, errors);
    else if (checkIpAddress(address, at, errors)) {
      if (parseIp(address)?.family !== addressType)
        errors.push(invalid(at, address, `must be an ${addressType} address`));
      if (!isOwn) checkReachableIp(address, at, errors);
    }
  }
  if (endpoint.hostname !== undefined) checkDnsLabel(endpoint.hostname, `${path}.hostname`, errors);
  if (endpoint.nodeName !== undefined) checkDnsSubdomain(endpoint.nodeName, `${path}.nodeName`, errors);
  const zones = endpoint.hints?.forZones ?? [];
  if (zones.length > hintsMax) errors.push(tooMany(`${path}.hints.forZones`, zones.length, hintsMax));
  const isRepeated = repeats();
  for (const [i, zone] of zones.entries()) {
    if (isRepeated(zone.name)) {
      errors.push(duplicate(`${path}.hints.forZones[${i}]`, zone.name));
    }
    checkLabelValue(zone.name, `${path}.hints.forZones[${i}].name`, errors);
  }
  const nodes = endpoint.hints?.forNodes ?? [];
  if (nodes.length > hintsMax) errors.push(tooMany(`${path}.hints.forNodes`, nodes.length, hintsMax));
  const isRepeatedNode = repeats();
  for (const [i, node] of nodes.entries()) {
    if (isRepeatedNode(node?.name)) errors.push(duplicate(`${path}.hints.forNodes[${i}]`, node?.name));
    checkDnsSubdomain(node?.name ?? "", `${path}.hints.forNodes[${i}].name`, errors);
  }
  for (const key of Object.keys(endpoint.deprecatedTopology ?? {})) {
    if (key.length > 253) errors.push(tooLong(`${path}.deprecatedTopology`, 253));
  }
}
