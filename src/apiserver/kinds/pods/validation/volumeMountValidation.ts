import type { Container, EphemeralContainer, Volume, VolumeDevice } from "../../../../model/kubernetes.generated.ts";
import {
  type FieldError,
  fieldNotFound,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../../../model/objects/fieldError.ts";
import { repeats } from "../../checks/repeats.ts";

export type VolumesByName = ReadonlyMap<string, Volume>;

/** Checks that mounts and raw devices of a container name volumes of the pod, and that their paths are unique. */
export function checkVolumeMounts(
  container: Container | EphemeralContainer,
  volumes: VolumesByName,
  path: string,
  errors: FieldError[],
): void {
  const { volumeMounts: mounts = [], volumeDevices: devices } = container;
  const isRepeatedMount = repeats();
  const deviceNames = devices && new Set(devices.map(({ name }) => name));
  const devicePaths = devices && new Set(devices.map(({ devicePath }) => devicePath));
  for (let i = 0; i < mounts.length; i++) {
    const mount = mounts[i];
    if (mount === undefined) continue;
    if (!mount.name) errors.push(required(`${path}.volumeMounts[${i}].name`));
    if (!volumes.has(mount.name)) errors.push(fieldNotFound(`${path}.volumeMounts[${i}].name`, mount.name ?? ""));
    if (!mount.mountPath) errors.push(required(`${path}.volumeMounts[${i}].mountPath`));
    if (isRepeatedMount(mount.mountPath)) {
      errors.push(invalid(`${path}.volumeMounts[${i}].mountPath`, mount.mountPath, "must be unique"));
    }
    if (deviceNames?.has(mount.name)) {
      const detail = "must not already exist in volumeDevices";
      errors.push(invalid(`${path}.volumeMounts[${i}].name`, mount.name, detail));
    }
    if (devicePaths?.has(mount.mountPath)) {
      const detail = "must not already exist as a path in volumeDevices";
      errors.push(invalid(`${path}.volumeMounts[${i}].mountPath`, mount.mountPath, detail));
    }
    // Upstream omits the index in these paths, and clients match on them.
    if (mount.subPath) checkDescendingPath(mount.subPath, `${path}.volumeMounts.subPath`, errors);
    if (mount.subPathExpr) {
      if (mount.subPath) {
        const detail = "subPathExpr and subPath are mutually exclusive";
        errors.push(invalid(`${path}.volumeMounts[${i}].subPathExpr`, mount.subPathExpr, detail));
      }
      checkDescendingPath(mount.subPathExpr, `${path}.volumeMounts.subPathExpr`, errors);
    }
    if (mount.mountPropagation !== undefined) {
      const known = ["Bidirectional", "HostToContainer", "None"];
      if (!known.includes(mount.mountPropagation)) {
        errors.push(notSupported(`${path}.volumeMounts.mountPropagation`, mount.mountPropagation, known));
      } else if (mount.mountPropagation === "Bidirectional" && container.securityContext?.privileged !== true) {
        const detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(forbidden(`${path}.volumeMounts.mountPropagation`, detail));
      }
    }
    if (mount.recursiveReadOnly !== undefined && mount.recursiveReadOnly !== "Disabled" && mount.readOnly !== true) {
      errors.push(forbidden(`${path}.volumeMounts.recursiveReadOnly`, "may only be specified when readOnly is true"));
    }
  }
  if (devices !== undefined) checkVolumeDevices(devices, volumes, path, errors);
}

function checkVolumeDevices(
  devices: readonly VolumeDevice[],
  volumes: VolumesByName,
  path: string,
  errors: FieldError[],
): void {
  const [isRepeatedName, isRepeatedPath] = [repeats(), repeats()];
  for (const [i, device] of devices.entries()) {
    const at = `${path}.volumeDevices[${i}]`;
    const volume = volumes.get(device.name);
    if (!device.name) errors.push(required(`${at}.name`));
    if (!device.devicePath) errors.push(required(`${at}.devicePath`));
    if (isRepeatedName(device.name)) {
      errors.push(invalid(`${at}.name`, device.name, "must be unique"));
    }
    if (volume === undefined) errors.push(fieldNotFound(`${at}.name`, device.name ?? ""));
    else if (volume.persistentVolumeClaim === undefined && volume.ephemeral === undefined) {
      errors.push(
        invalid(
          `${at}.name`,
          device.name,
          "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        ),
      );
    }
    if (device.devicePath) {
      if (isRepeatedPath(device.devicePath)) {
        errors.push(invalid(`${at}.devicePath`, device.devicePath, "must be unique"));
      }
      checkNoBacksteps(device.devicePath, `${at}.devicePath`, errors);
    }
  }
}

/** A relative path without `..`. */
export function checkDescendingPath(path: string, at: string, errors: FieldError[]): void {
  if (path.startsWith("/")) errors.push(invalid(at, path, "must be a relative path"));
  checkNoBacksteps(path, at, errors);
}

export function checkNoBacksteps(path: string, at: string, errors: FieldError[]): void {
  if (path.includes("..") && path.split("/").includes("..")) errors.push(invalid(at, path, "must not contain '..'"));
}

/** A relative path without the names that the kubelet's atomic writer uses. */
export function checkFilePath(path: string, at: string, errors: FieldError[]): void {
  checkDescendingPath(path, at, errors);
  if (path.startsWith("..") && !path.startsWith("../")) errors.push(invalid(at, path, "must not start with '..'"));
}
