import type { KeyToPath, Volume, VolumeProjection } from "../../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../../../model/objects/fieldError.ts";
import { isNegativeAmount } from "../../checks/amounts.ts";
import { checkOneOf, checkRange } from "../../checks/fieldChecks.ts";
import { checkDnsLabel, checkDnsSubdomain } from "../../checks/nameChecks.ts";
import { checkClaimSpec } from "../../storage/persistentVolumeClaim.ts";
import { checkFieldRef, checkResourceFieldRef } from "./environmentValidation.ts";
import { checkFilePath, checkNoBacksteps, type VolumesByName } from "./volumeMountValidation.ts";

const noVolumes: VolumesByName = new Map();

/** Validates the volumes of a pod and returns the valid ones by name, for the validation of mounts. */
export function checkVolumes(
  volumes: readonly Volume[] | undefined,
  podName: string | undefined,
  path: string,
  errors: FieldError[],
): VolumesByName {
  if (volumes === undefined || volumes.length === 0) return noVolumes;
  const byName = new Map<string, Volume>();
  const ephemeral = volumes.filter((volume) => volume?.ephemeral);
  const made = ephemeral.length > 0 ? new Set(ephemeral.map(({ name }) => `${podName}-${name}`)) : undefined;
  for (let i = 0; i < volumes.length; i++) {
    const volume = volumes[i];
    if (volume === undefined) continue;
    const before = errors.length;
    checkSource(volume, path, i, errors);
    if (!volume.name) errors.push(required(`${path}[${i}].name`));
    else checkDnsLabel(volume.name, `${path}[${i}].name`, errors);
    if (byName.has(volume.name)) errors.push(duplicate(`${path}[${i}].name`, volume.name));
    if (errors.length === before) byName.set(volume.name, volume);
    const claim = volume.persistentVolumeClaim?.claimName;
    if (claim !== undefined && podName && made?.has(claim)) {
      errors.push(
        invalid(
          `${path}[${i}].persistentVolumeClaim.claimName`,
          claim,
          "must not reference a PVC that gets created for an ephemeral volume",
        ),
      );
    }
  }
  return byName;
}

/**
 * The order in which sources are validated: the first is accepted, further ones are errors, whatever their order in the
 * object.
 */
const sourceOrder =
  "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc azureFile configMap vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image".split(
    " ",
  );

function sourcesOf(volume: Volume): string[] {
  const sources = Object.keys(volume).filter((key) => key !== "name");
  return sources.length < 2 ? sources : sources.sort((a, b) => sourceOrder.indexOf(a) - sourceOrder.indexOf(b));
}

function checkSource(volume: Volume, base: string, index: number, errors: FieldError[]): void {
  let count = 0;
  for (const source of sourcesOf(volume)) {
    count++;
    const path = `${base}[${index}].${source}`;
    if (count > 1) {
      errors.push(forbidden(path, "may not specify more than 1 volume type"));
      continue;
    }
    checkOneSource(volume, source, path, errors);
  }
  if (count === 0) errors.push(required(`${base}[${index}]`, "must specify a volume type"));
}

function checkOneSource(volume: Volume, source: string, path: string, errors: FieldError[]): void {
  switch (source) {
    case "emptyDir": {
      const limit = volume.emptyDir?.sizeLimit;
      if (limit !== undefined && isNegativeAmount(limit)) {
        errors.push(forbidden(`${path}.sizeLimit`, "SizeLimit field must be a valid resource quantity"));
      }
      break;
    }
    case "hostPath": {
      const { hostPath } = volume;
      if (!hostPath?.path) errors.push(required(`${path}.path`));
      else checkNoBacksteps(hostPath.path, `${path}.path`, errors);
      const types = ["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
      // The default type is empty: nothing is checked before the mount.
      checkOneOf(hostPath?.type || undefined, types, `${path}.type`, errors);
      break;
    }
    case "secret":
      if (!volume.secret?.secretName) errors.push(required(`${path}.secretName`));
      checkMode(volume.secret?.defaultMode, `${path}.defaultMode`, errors);
      checkItems(volume.secret?.items, `${path}.items`, errors);
      break;
    case "configMap":
      if (!volume.configMap?.name) errors.push(required(`${path}.name`));
      checkMode(volume.configMap?.defaultMode, `${path}.defaultMode`, errors);
      checkItems(volume.configMap?.items, `${path}.items`, errors);
      break;
    case "persistentVolumeClaim":
      if (!volume.persistentVolumeClaim?.claimName) errors.push(required(`${path}.claimName`));
      break;
    case "downwardAPI":
      checkMode(volume.downwardAPI?.defaultMode, `${path}.defaultMode`, errors);
      checkDownwardFiles(volume.downwardAPI?.items, path, errors);
      break;
    case "projected":
      checkMode(volume.projected?.defaultMode, `${path}.defaultMode`, errors);
      for (const [i, projection] of (volume.projected?.sources ?? []).entries()) {
        checkProjection(projection, `${path}.sources[${i}]`, errors);
      }
      break;
    case "csi":
      if (!volume.csi?.driver) errors.push(required(`${path}.driver`));
      else checkDnsSubdomain(volume.csi.driver.toLowerCase(), `${path}.driver`, errors);
      if (volume.csi?.nodePublishSecretRef !== undefined && !volume.csi.nodePublishSecretRef.name) {
        errors.push(required(`${path}.nodePublishSecretRef.name`));
      }
      break;
    case "nfs":
      if (!volume.nfs?.server) errors.push(required(`${path}.server`));
      if (!volume.nfs?.path) errors.push(required(`${path}.path`));
      else if (!volume.nfs.path.startsWith("/")) {
        errors.push(invalid(`${path}.path`, volume.nfs.path, "must be an absolute path"));
      }
      break;
    case "ephemeral": {
      const template = volume.ephemeral?.volumeClaimTemplate;
      if (template === undefined) errors.push(required(`${path}.volumeClaimTemplate`));
      else if (template.spec !== undefined) {
        checkClaimSpec(template.spec, `${path}.volumeClaimTemplate.spec`, errors);
      }
      break;
    }
    case "image":
      if (!volume.image?.reference) errors.push(required(`${path}.reference`));
      checkOneOf(volume.image?.pullPolicy, ["Always", "IfNotPresent", "Never"], `${path}.pullPolicy`, errors);
      break;
    default:
      // The other sources are in-tree drivers that were migrated to CSI; the kubelet validates them.
      break;
  }
}

function checkMode(mode: number | undefined, path: string, errors: FieldError[]): void {
  if (mode !== undefined && (mode < 0 || mode > 0o777)) {
    errors.push(invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive"));
  }
}

function checkItems(items: readonly KeyToPath[] | undefined, path: string, errors: FieldError[]): void {
  if (items === undefined) return;
  for (const [i, item] of items.entries()) {
    if (!item.key) errors.push(required(`${path}[${i}].key`));
    if (!item.path) errors.push(required(`${path}[${i}].path`));
    else checkFilePath(item.path, `${path}[${i}].path`, errors);
    checkMode(item.mode, `${path}[${i}].mode`, errors);
  }
}

type DownwardFile = NonNullable<NonNullable<Volume["downwardAPI"]>["items"]>[number];

function checkDownwardFiles(files: readonly DownwardFile[] | undefined, path: string, errors: FieldError[]): void {
  for (const file of files ?? []) {
    if (!file.path) errors.push(required(`${path}.path`));
    else checkFilePath(file.path, `${path}.path`, errors);
    if (file.fieldRef !== undefined) {
      checkFieldRef(file.fieldRef, "volume", `${path}.fieldRef`, errors);
      if (file.resourceFieldRef !== undefined) {
        errors.push(invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"));
      }
    } else if (file.resourceFieldRef !== undefined) {
      checkResourceFieldRef(file.resourceFieldRef, "volume", `${path}.resourceFieldRef`, errors);
    } else {
      errors.push(required(path, "one of fieldRef and resourceFieldRef is required"));
    }
    checkMode(file.mode, `${path}.mode`, errors);
  }
}

function checkProjection(projection: VolumeProjection, path: string, errors: FieldError[]): void {
  const keys = Object.keys(projection);
  if (keys.length === 0) errors.push(required(path, "must specify a volume source"));
  for (const extra of keys.slice(1)) {
    errors.push(forbidden(`${path}.${extra}`, "may not specify more than 1 volume type per source"));
  }
  const { secret, configMap, downwardAPI, serviceAccountToken, clusterTrustBundle } = projection;
  if (secret !== undefined) {
    if (!secret.name) errors.push(required(`${path}.secret.name`));
    checkItems(secret.items, `${path}.secret.items`, errors);
  }
  if (configMap !== undefined) {
    if (!configMap.name) errors.push(required(`${path}.configMap.name`));
    checkItems(configMap.items, `${path}.configMap.items`, errors);
  }
  if (downwardAPI !== undefined) checkDownwardFiles(downwardAPI.items, `${path}.downwardAPI`, errors);
  if (serviceAccountToken !== undefined) {
    const at = `${path}.serviceAccountToken`;
    const seconds = serviceAccountToken.expirationSeconds;
    if (seconds !== undefined && seconds < 600) {
      errors.push(invalid(`${at}.expirationSeconds`, seconds, "may not specify a duration less than 10 minutes"));
    }
    checkRange(seconds, { min: 0, max: 2 ** 32 }, `${at}.expirationSeconds`, errors);
    if (!serviceAccountToken.path) errors.push(required(`${at}.path`));
    else checkFilePath(serviceAccountToken.path, `${at}.path`, errors);
  }
  if (clusterTrustBundle !== undefined) {
    const at = `${path}.clusterTrustBundle`;
    if (clusterTrustBundle.name !== undefined && clusterTrustBundle.signerName !== undefined) {
      errors.push(invalid(at, clusterTrustBundle, "only one of name and signerName may be used"));
    } else if (!clusterTrustBundle.name && !clusterTrustBundle.signerName) {
      errors.push(required(at, "either name or signerName must be specified"));
    }
    if (!clusterTrustBundle.path) errors.push(required(`${at}.path`));
  }
  if (keys.length > 0 && !projectionKinds.includes(keys[0] ?? "")) {
    errors.push(notSupported(path, keys[0], projectionKinds));
  }
}

const projectionKinds = [
  "clusterTrustBundle",
  "configMap",
  "downwardAPI",
  "podCertificate",
  "secret",
  "serviceAccountToken",
];
