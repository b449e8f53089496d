/** The status of a claim: allocation, consumers, and device status from drivers. */

import type {
  AllocatedDeviceStatus,
  AllocationResult,
  ResourceClaim,
  ResourceClaimConsumerReference,
} from "../../../model/kubernetes.generated.ts";
import {
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
  tooLong,
} from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { cidrErrors } from "../../../model/values/ipAddress.ts";
import { utf8Bytes } from "../checks/contentSize.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { checkNodeSelector } from "../pods/validation/affinityValidation.ts";
import { hasRequest } from "./claimSpec.ts";
import { checkDriverName, checkPoolName, checkRequiredDnsLabel } from "./deviceNames.ts";
import { checkBindingConditions, checkCount, checkOpaque, checkRawObject, checkUnique } from "./deviceParts.ts";

const resultsMax = 32;
const configsMax = 64;
const reservedForMax = 256;
const conditionsMax = 8;
const addressesMax = 16;
const normalUid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

type DeviceId = { driver: string; pool: string; device: string; shareID?: string };

function idOf({ driver, pool, device, shareID }: DeviceId): string {
  return shareID === undefined ? `${driver}/${pool}/${device}` : `${driver}/${pool}/${device}/${shareID}`;
}

/** Drops the driver's status of devices that are no longer allocated. */
export function dropStaleDeviceStatus(next: ResourceClaim, old: ResourceClaim): void {
  const status = next.status;
  if (status?.devices === undefined || old.status?.allocation === undefined) return;
  const held = new Set((status.allocation?.devices?.results ?? []).map(idOf));
  const formerly = new Set((old.status.allocation.devices?.results ?? []).map(idOf));
  const kept = status.devices.filter((device) => held.has(idOf(device)) || !formerly.has(idOf(device)));
  if (kept.length === 0) delete status.devices;
  else status.devices = kept;
}

export function checkClaimStatusChange(next: ResourceClaim, old: ResourceClaim, errors: FieldError[]): void {
  const status = next.status ?? {};
  const before = old.status ?? {};
  const { allocation } = status;
  if (allocation !== undefined) {
    if (before.allocation !== undefined) {
      checkImmutable(allocation, before.allocation, "status.allocation", errors);
    } else {
      checkAllocation(allocation, next, errors);
    }
  }
  checkConsumers(next, old, errors);
  const held = new Set((allocation?.devices?.results ?? []).map(idOf));
  const devices = status.devices ?? [];
  checkUnique(devices.map(idOf), (i) => `status.devices[${i}]`, errors);
  for (const [i, device] of devices.entries()) checkDeviceStatus(device, held, `status.devices[${i}]`, errors);
}

function checkConsumers(next: ResourceClaim, old: ResourceClaim, errors: FieldError[]): void {
  const consumers = next.status?.reservedFor ?? [];
  if (consumers.length === 0) return;
  checkCount(consumers, reservedForMax, "status.reservedFor", errors);
  checkUnique(
    consumers.map(({ uid }) => uid),
    (i) => `status.reservedFor[${i}].uid`,
    errors,
  );
  for (const [i, consumer] of consumers.entries()) {
    for (const field of ["resource", "name", "uid"] as const) {
      if (!consumer[field]) errors.push(required(`status.reservedFor[${i}].${field}`));
    }
  }
  if (next.status?.allocation === undefined) {
    errors.push(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"));
  } else if (next.metadata.deletionTimestamp !== undefined) {
    const known = old.status?.reservedFor ?? [];
    const isKnown = (consumer: ResourceClaimConsumerReference): boolean =>
      known.some((other) => equalJson(other, consumer));
    if (!consumers.every(isKnown)) {
      const detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
      errors.push(forbidden("status.reservedFor", detail));
    }
  }
}

function checkAllocation(allocation: AllocationResult, claim: ResourceClaim, errors: FieldError[]): void {
  const path = "status.allocation";
  const results = allocation.devices?.results ?? [];
  checkCount(results, resultsMax, `${path}.devices.results`, errors);
  for (const [i, result] of results.entries()) {
    const at = `${path}.devices.results[${i}]`;
    if (!hasRequest(claim.spec?.devices, result.request ?? "")) {
      const detail =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
      errors.push(invalid(`${at}.request`, result.request ?? "", detail));
    }
    checkDriverName(result.driver, `${at}.driver`, errors);
    checkPoolName(result.pool, `${at}.pool`, errors);
    checkRequiredDnsLabel(result.device, `${at}.device`, errors);
    checkBindingConditions(result, at, errors);
    if (result.shareID !== undefined && !normalUid.test(result.shareID)) {
      const form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`";
      const detail = `uid must be in RFC 4122 normalized form, ${form} with lowercase hexadecimal characters`;
      errors.push(invalid(`${at}.shareID`, result.shareID, detail));
    }
  }
  const configs = allocation.devices?.config ?? [];
  checkCount(configs, configsMax, `${path}.devices.config`, errors);
  for (const [i, config] of configs.entries()) {
    const at = `${path}.devices.config[${i}]`;
    const sources = ["FromClaim", "FromClass"];
    if (!config.source) errors.push(required(`${at}.source`));
    else if (!sources.includes(config.source)) errors.push(notSupported(`${at}.source`, config.source, sources));
    checkCount(config.requests, resultsMax, `${at}.requests`, errors);
    checkOpaque(config.opaque, `${at}.opaque`, errors);
  }
  if (allocation.nodeSelector !== undefined) {
    checkNodeSelector(allocation.nodeSelector, `${path}.nodeSelector`, errors);
    const terms = allocation.nodeSelector.nodeSelectorTerms ?? [];
    if (terms.length !== 1) {
      const detail = "must have exactly one node selector term";
      errors.push(invalid(`${path}.nodeSelector.nodeSelectorTerms`, terms, detail));
    }
  }
}

function checkDeviceStatus(
  device: AllocatedDeviceStatus,
  held: ReadonlySet<string>,
  path: string,
  errors: FieldError[],
): void {
  checkDriverName(device.driver, `${path}.driver`, errors);
  checkPoolName(device.pool, `${path}.pool`, errors);
  checkRequiredDnsLabel(device.device, `${path}.device`, errors);
  if (!held.has(idOf(device))) errors.push(invalid(path, idOf(device), "must be an allocated device in the claim"));
  checkCount(device.conditions, conditionsMax, `${path}.conditions`, errors);
  if (device.data !== undefined && device.data !== null) checkRawObject(device.data, `${path}.data`, errors);
  const network = device.networkData;
  if (network === undefined) return;
  if (utf8Bytes(network.interfaceName ?? "") > 256) errors.push(tooLong(`${path}.networkData.interfaceName`, 256));
  if (utf8Bytes(network.hardwareAddress ?? "") > 128) errors.push(tooLong(`${path}.networkData.hardwareAddress`, 128));
  const addresses = network.ips ?? [];
  checkCount(addresses, addressesMax, `${path}.networkData.ips`, errors);
  checkUnique(addresses, (i) => `${path}.networkData.ips[${i}]`, errors);
  for (const [i, address] of addresses.entries()) {
    // An address with its prefix length; host bits are allowed here, unlike in a network.
    for (const problem of cidrErrors(address, "legacy")) {
      errors.push(invalid(`${path}.networkData.ips[${i}]`, address, problem));
    }
  }
}
