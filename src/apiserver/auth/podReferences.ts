import type { Container, EphemeralContainer, PersistentVolume, Pod, Volume } from "../../model/kubernetes.generated.ts";

/** The objects of its namespace that a pod refers to: what a node may read for it. */
export interface PodReferences {
  readonly secrets: ReadonlySet<string>;
  readonly configMaps: ReadonlySet<string>;
  readonly volumeClaims: ReadonlySet<string>;
  readonly resourceClaims: ReadonlySet<string>;
  /** Empty when the pod names none. */
  readonly serviceAccount: string;
}

/** A mirror pod, which a kubelet creates for a static pod. It gives its node no rights. */
export const mirrorAnnotation = "kubernetes.io/config.mirror";

export function isMirrorPod(pod: Pod): boolean {
  return pod.metadata.annotations?.[mirrorAnnotation] !== undefined;
}

export function podReferences(pod: Pod): PodReferences {
  const secrets = new Set<string>();
  const configMaps = new Set<string>();
  const volumeClaims = new Set<string>();
  const { spec } = pod;
  for (const secret of spec?.imagePullSecrets ?? []) add(secrets, secret.name);
  const containers: readonly (Container | EphemeralContainer)[] = [
    ...(spec?.initContainers ?? []),
    ...(spec?.containers ?? []),
    ...(spec?.ephemeralContainers ?? []),
  ];
  for (const { env, envFrom } of containers) {
    for (const source of envFrom ?? []) {
      add(secrets, source.secretRef?.name);
      add(configMaps, source.configMapRef?.name);
    }
    for (const { valueFrom } of env ?? []) {
      add(secrets, valueFrom?.secretKeyRef?.name);
      add(configMaps, valueFrom?.configMapKeyRef?.name);
    }
  }
  for (const volume of spec?.volumes ?? []) {
    for (const name of secretsOfVolume(volume)) add(secrets, name);
    add(configMaps, volume.configMap?.name);
    for (const source of volume.projected?.sources ?? []) add(configMaps, source.configMap?.name);
    if (volume.persistentVolumeClaim !== undefined) add(volumeClaims, volume.persistentVolumeClaim.claimName);
    else if (volume.ephemeral !== undefined) add(volumeClaims, `${pod.metadata.name}-${volume.name}`);
  }
  return {
    secrets,
    configMaps,
    volumeClaims,
    resourceClaims: resourceClaimsOf(pod),
    serviceAccount: spec?.serviceAccountName ?? "",
  };
}

function secretsOfVolume(volume: Volume): (string | undefined)[] {
  return [
    volume.secret?.secretName,
    volume.azureFile?.secretName,
    volume.cephfs?.secretRef?.name,
    volume.cinder?.secretRef?.name,
    volume.flexVolume?.secretRef?.name,
    volume.rbd?.secretRef?.name,
    volume.scaleIO?.secretRef?.name,
    volume.iscsi?.secretRef?.name,
    volume.storageos?.secretRef?.name,
    volume.csi?.nodePublishSecretRef?.name,
    ...(volume.projected?.sources ?? []).map((source) => source.secret?.name),
  ];
}

function resourceClaimsOf(pod: Pod): Set<string> {
  const names = new Set<string>();
  const made = new Map((pod.status?.resourceClaimStatuses ?? []).map((one) => [one.name, one.resourceClaimName]));
  for (const claim of pod.spec?.resourceClaims ?? []) add(names, claim.resourceClaimName ?? made.get(claim.name));
  add(names, pod.status?.extendedResourceClaimStatus?.resourceClaimName);
  return names;
}

/** `namespace/name` of the secrets that a node needs to mount a volume, not those of its controller. */
export function secretsOfPersistentVolume(volume: PersistentVolume): Set<string> {
  const { spec } = volume;
  const home = spec?.claimRef?.namespace ?? "";
  const csi = spec?.csi;
  const azure = spec?.azureFile;
  const found = new Set<string>();
  const references = [
    azure === undefined ? undefined : { name: azure.secretName, namespace: azure.secretNamespace },
    spec?.cephfs?.secretRef,
    spec?.cinder?.secretRef,
    spec?.flexVolume?.secretRef,
    spec?.rbd?.secretRef,
    spec?.scaleIO?.secretRef,
    spec?.iscsi?.secretRef,
    spec?.storageos?.secretRef,
    csi?.nodePublishSecretRef,
    csi?.nodeStageSecretRef,
    csi?.nodeExpandSecretRef,
  ];
  for (const reference of references) {
    if (reference?.name) found.add(`${reference.namespace || home}/${reference.name}`);
  }
  return found;
}

function add(names: Set<string>, name: string | undefined): void {
  if (name !== undefined && name !== "") names.add(name);
}
