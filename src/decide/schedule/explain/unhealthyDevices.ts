/**
 * Devices that fail under a pod that has them. The kubelet reports their health in the status of containers, and no
 * Kubernetes controller reacts to it: the pod stays Running and Ready.
 */
import type { ContainerStatus, Pod } from "../../../model/kubernetes.generated.ts";
import { gpuGroupsOfLabels, isReservationPod } from "../../../model/scheduling/keys.ts";

/** The reason of the Event on the pod, and in the answer of `muster why`. */
export const deviceUnhealthy = "DeviceUnhealthy";

export interface UnhealthyCause {
  readonly reason: typeof deviceUnhealthy;
  readonly message: string;
  readonly cure: string;
}

const listedMax = 3;

/** The unhealthy devices of a pod that has not ended, in words; empty for most pods. */
export function unhealthyDevices({ status }: Pod): string[] {
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return [];
  const found = new Set<string>();
  for (const each of status?.containerStatuses ?? []) addUnhealthy(each, found);
  for (const each of status?.initContainerStatuses ?? []) addUnhealthy(each, found);
  return [...found];
}

function addUnhealthy({ allocatedResourcesStatus = [] }: ContainerStatus, found: Set<string>): void {
  for (const { name, resources = [] } of allocatedResourcesStatus) {
    for (const { resourceID, health, message = "" } of resources) {
      if (health === "Unhealthy") found.add(`${name} ${resourceID}${message === "" ? "" : ` (${message})`}`);
    }
  }
}

/** Whether the pod shares the GPU of the reservation pod. */
export function isShareOf(reservation: Pod, pod: Pod): boolean {
  if (!isReservationPod(reservation) || isReservationPod(pod)) return false;
  if (pod.spec?.nodeName !== reservation.spec?.nodeName) return false;
  const groups = gpuGroupsOfLabels(reservation.metadata.labels);
  return gpuGroupsOfLabels(pod.metadata.labels).some((group) => groups.includes(group));
}

/**
 * Undefined if all devices of the pod are healthy. `others`: the pods among which are the reservation pods of its GPUs.
 */
export function whyUnhealthy(pod: Pod, others: Iterable<Pod>): UnhealthyCause | undefined {
  const { metadata, spec, status } = pod;
  const node = spec?.nodeName ?? "";
  if (node === "" || metadata.deletionTimestamp !== undefined) return undefined;
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return undefined;
  const devices = unhealthyDevices(pod);
  if (gpuGroupsOfLabels(metadata.labels).length > 0) {
    for (const other of others) if (isShareOf(other, pod)) devices.push(...unhealthyDevices(other));
  }
  if (devices.length === 0) return undefined;
  const more = devices.length - listedMax;
  const listed = [...devices.slice(0, listedMax), ...(more > 0 ? [`${more} more`] : [])];
  const isOwned = metadata.ownerReferences?.some(({ controller }) => controller === true) === true;
  return {
    reason: deviceUnhealthy,
    message: `${listed.join(", ")} ${devices.length === 1 ? "is" : "are"} unhealthy on ${node}`,
    cure: `${isOwned ? "delete the pod, so that its controller creates a new one" : "delete the pod and create it again"}, which gets healthy devices: kubectl delete pod -n ${metadata.namespace} ${metadata.name}`,
  };
}
