/**
 * Conversion of resource.k8s.io, which is stored as v1. v1beta2 has the same fields; v1beta1 has a request's fields
 * beside its name instead of under `exactly`, and a device's under `basic`.
 */
import type { DeviceRequest, ExactDeviceRequest, V1beta1DeviceRequest } from "./kubernetes.generated.ts";
import type { Unstored } from "./objects/object.ts";

/** Converts between an API version and the storage version. */
export interface DeviceConversion {
  toStorage<T extends Unstored>(object: T): T;
  fromStorage<T extends Unstored>(object: T): T;
}

const storageVersion = "resource.k8s.io/v1";

export const sameFields: DeviceConversion = {
  toStorage: (object) => ({ ...object, apiVersion: storageVersion }),
  fromStorage: (object) => ({ ...object, apiVersion: "resource.k8s.io/v1beta2" }),
};

const beta1 = "resource.k8s.io/v1beta1";

export const beta1Class: DeviceConversion = {
  toStorage: (object) => ({ ...object, apiVersion: storageVersion }),
  fromStorage: (object) => ({ ...object, apiVersion: beta1 }),
};

/** v1alpha3 of DeviceTaintRule has the same fields as v1. */
export const alpha3Rule: DeviceConversion = {
  toStorage: (object) => ({ ...object, apiVersion: storageVersion }),
  fromStorage: (object) => ({ ...object, apiVersion: "resource.k8s.io/v1alpha3" }),
};

export const beta1Claim: DeviceConversion = {
  toStorage: (object) => withSpec(object, storageVersion, (spec) => claimSpec(spec, requestToStorage)),
  fromStorage: (object) => withSpec(object, beta1, (spec) => claimSpec(spec, requestFromStorage)),
};

export const beta1ClaimTemplate: DeviceConversion = {
  toStorage: (object) =>
    withSpec(object, storageVersion, (spec) => ({ ...spec, spec: claimSpec(asSpec(spec["spec"]), requestToStorage) })),
  fromStorage: (object) =>
    withSpec(object, beta1, (spec) => ({ ...spec, spec: claimSpec(asSpec(spec["spec"]), requestFromStorage) })),
};

export const beta1Slice: DeviceConversion = {
  toStorage: (object) => withSpec(object, storageVersion, (spec) => withDevices(spec, deviceToStorage)),
  fromStorage: (object) => withSpec(object, beta1, (spec) => withDevices(spec, deviceFromStorage)),
};

type Spec = Record<string, unknown>;

function asSpec(value: unknown): Spec {
  return (value ?? {}) as Spec;
}

function withSpec<T extends Unstored>(object: T, apiVersion: string, change: (spec: Spec) => Spec): T {
  const { spec } = object;
  return spec === undefined ? { ...object, apiVersion } : { ...object, apiVersion, spec: change(asSpec(spec)) };
}

function claimSpec<From, To>(spec: Spec, convert: (request: From) => To): Spec {
  const { devices } = spec as { devices?: { requests?: From[] | null } };
  if (!devices?.requests) return spec;
  return { ...spec, devices: { ...devices, requests: devices.requests.map(convert) } };
}

function requestToStorage(request: V1beta1DeviceRequest): DeviceRequest {
  const { name, firstAvailable, ...details } = request;
  const next: DeviceRequest = { name };
  if (firstAvailable !== undefined) next.firstAvailable = firstAvailable;
  if (Object.keys(details).length > 0) next.exactly = details as ExactDeviceRequest;
  return next;
}

function requestFromStorage(request: DeviceRequest): V1beta1DeviceRequest {
  const { name, firstAvailable, exactly } = request;
  const next: V1beta1DeviceRequest = { name, ...exactly };
  if (firstAvailable !== undefined) next.firstAvailable = firstAvailable;
  return next;
}

function withDevices(spec: Spec, convert: (device: Spec) => Spec): Spec {
  const devices = spec["devices"];
  return Array.isArray(devices) ? { ...spec, devices: devices.map((device) => convert(asSpec(device))) } : spec;
}

function deviceToStorage(device: Spec): Spec {
  const { basic, ...rest } = device;
  return { ...rest, ...asSpec(basic) };
}

function deviceFromStorage(device: Spec): Spec {
  const { name, ...basic } = device;
  return { name, basic };
}
