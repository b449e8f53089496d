/**
 * Defaults of pods. They are set on every decoded object, so each rule only sets absent fields. Templates of workloads
 * share `setPodSpecDefaults`; the others are for pods only, because upstream added them later and a changed template
 * would roll out every workload again.
 */
import type { Container, Pod, PodSpec, PodStatus, Volume } from "../../../model/kubernetes.generated.ts";
import { setContainerDefaults } from "./containerDefaults.ts";
import { imagePullPolicyOf } from "./imagePullPolicy.ts";
import { setPodLevelRequests } from "./podLevelResources.ts";

const fileModeDefault = 0o644;
const tokenExpirationSecondsDefault = 3600;

export function setPodDefaults(pod: Pod): void {
  const spec = pod.spec;
  if (spec !== undefined) {
    setPodSpecDefaults(spec);
    if (spec.terminationGracePeriodSeconds !== undefined && spec.terminationGracePeriodSeconds < 0) {
      spec.terminationGracePeriodSeconds = 1;
    }
    spec.enableServiceLinks ??= true;
    const hostNetwork = spec.hostNetwork === true;
    for (const container of spec.containers) setPodOnlyContainerDefaults(container, hostNetwork);
    if (spec.initContainers !== undefined) {
      for (const container of spec.initContainers) setPodOnlyContainerDefaults(container, hostNetwork);
    }
    if (spec.resources !== undefined) setPodLevelRequests(spec);
  }
  if (pod.status !== undefined) keepAddressesInStep(pod.status);
}

export function setPodSpecDefaults(spec: PodSpec): void {
  // serviceAccount is the deprecated name of serviceAccountName.
  if (spec.serviceAccountName) spec.serviceAccount = spec.serviceAccountName;
  else if (spec.serviceAccount) spec.serviceAccountName = spec.serviceAccount;
  spec.dnsPolicy ||= "ClusterFirst";
  spec.restartPolicy ||= "Always";
  spec.securityContext ??= {};
  spec.terminationGracePeriodSeconds ??= 30;
  spec.schedulerName ||= "default-scheduler";
  spec.containers ??= [];
  for (const container of spec.containers) setContainerDefaults(container);
  if (spec.initContainers !== undefined) for (const container of spec.initContainers) setContainerDefaults(container);
  if (spec.ephemeralContainers !== undefined) {
    for (const container of spec.ephemeralContainers) setContainerDefaults(container);
  }
  if (spec.volumes !== undefined) for (const volume of spec.volumes) setVolumeDefaults(volume);
}

function setPodOnlyContainerDefaults(container: Container, hostNetwork: boolean): void {
  const limits = container.resources?.limits;
  if (container.resources !== undefined && limits !== undefined) {
    container.resources.requests ??= {};
    const requests = container.resources.requests;
    for (const name in limits) {
      const limit = limits[name];
      if (requests[name] === undefined && limit !== undefined) requests[name] = limit;
    }
  }
  if (hostNetwork && container.ports !== undefined) {
    for (const port of container.ports) if (!port.hostPort) port.hostPort = port.containerPort;
  }
}

export function setVolumeDefaults(volume: Volume): void {
  if (!hasSource(volume)) volume.emptyDir = {};
  if (volume.secret !== undefined) volume.secret.defaultMode ??= fileModeDefault;
  else if (volume.configMap !== undefined) volume.configMap.defaultMode ??= fileModeDefault;
  else if (volume.downwardAPI !== undefined) {
    volume.downwardAPI.defaultMode ??= fileModeDefault;
    for (const item of volume.downwardAPI.items ?? []) if (item.fieldRef) item.fieldRef.apiVersion ||= "v1";
  } else if (volume.hostPath !== undefined) volume.hostPath.type ??= "";
  else if (volume.projected !== undefined) {
    volume.projected.defaultMode ??= fileModeDefault;
    for (const source of volume.projected.sources ?? []) {
      if (source.serviceAccountToken) source.serviceAccountToken.expirationSeconds ??= tokenExpirationSecondsDefault;
      for (const item of source.downwardAPI?.items ?? []) if (item.fieldRef) item.fieldRef.apiVersion ||= "v1";
    }
  } else if (volume.ephemeral?.volumeClaimTemplate?.spec !== undefined) {
    volume.ephemeral.volumeClaimTemplate.spec.volumeMode ??= "Filesystem";
  } else if (volume.iscsi !== undefined) volume.iscsi.iscsiInterface ||= "default";
  else if (volume.rbd !== undefined) {
    volume.rbd.pool ||= "rbd";
    volume.rbd.user ||= "admin";
    volume.rbd.keyring ||= "/etc/ceph/keyring";
  } else if (volume.azureDisk !== undefined) {
    volume.azureDisk.cachingMode ??= "ReadWrite";
    volume.azureDisk.kind ??= "Shared";
    volume.azureDisk.fsType ??= "ext4";
    volume.azureDisk.readOnly ??= false;
  } else if (volume.scaleIO !== undefined) {
    volume.scaleIO.storageMode ||= "ThinProvisioned";
    volume.scaleIO.fsType ||= "xfs";
  } else if (volume.image !== undefined) volume.image.pullPolicy ||= imagePullPolicyOf(volume.image.reference ?? "");
}

function hasSource(volume: Volume): boolean {
  for (const key in volume) if (key !== "name") return true;
  return false;
}

/** podIP and hostIP are the older fields; they win where they differ from the lists. */
function keepAddressesInStep(status: PodStatus): void {
  const first = status.podIPs?.[0]?.ip;
  if (status.podIP) {
    if (first !== status.podIP) status.podIPs = [{ ip: status.podIP }];
  } else if (first) {
    status.podIP = first;
  }
}
