/**
 * Why a pod with a GPU share does not start, for causes that the scheduler does not know: GPU sharing is disabled, or a
 * node has not reported the device. Each has its evidence and its cure.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { isShared, readGpuRequest } from "../../model/scheduling/gpuRequest.ts";
import { annotationKeys, isReservationPod, reservationNamespace } from "../../model/scheduling/keys.ts";
import { sharingOff } from "./admitFraction.ts";
import { deviceNotReported } from "./nextBindStep.ts";
import { containerProblem, deviceOf, hasEnded, reservationName } from "./reservation.ts";

export type ShareCause = "SharingOff" | "DeviceNotReported" | "ReservationNotRunning";

export interface ShareAnswer {
  readonly cause: ShareCause;
  readonly message: string;
  readonly cure: string;
}

/** The input, of one revision. */
export interface ShareView {
  readonly pods: readonly Pod[];
  readonly requests: readonly BindRequest[];
}

const gpu = "nvidia.com/gpu";

/** Undefined when the pod requests no share, is bound, or waits for another reason. */
export function whyShare(pod: Pod, view: ShareView): ShareAnswer | undefined {
  if (!asksForShare(pod) || pod.spec?.nodeName !== undefined || hasEnded(pod)) return undefined;
  return notReported(pod, view);
}

/** For pods that could not be created: the refusal of admission is in an Event. */
export function whyRefused(events: readonly { readonly message: string }[]): ShareAnswer | undefined {
  const refusal = events.find(({ message }) => message.includes(sharingOff));
  if (refusal === undefined) return undefined;
  return {
    cause: "SharingOff",
    message: `its pods are refused: ${refusal.message}`,
    cure: `request whole GPUs with a limit of ${gpu}, or start the binder without --no-gpu-sharing`,
  };
}

function notReported(pod: Pod, { pods, requests }: ShareView): ShareAnswer | undefined {
  const active = requests.find((each) => podUidOf(each) === pod.metadata.uid && !isFinallyFailed(each));
  const { selectedNode = "", selectedGPUGroups = [] } = active?.spec ?? {};
  for (const group of selectedGPUGroups) {
    const name = reservationName(selectedNode, group);
    const reservation = pods.find((each) => isReservationPod(each) && each.metadata.name === name);
    if (reservation === undefined || deviceOf(reservation) !== undefined) continue;
    const problem = containerProblem(reservation);
    if (problem !== undefined) return notRunning({ node: selectedNode, group, problem });
    const does = reservation.status?.phase === "Running" ? "runs" : "starts";
    return silentNode({ node: selectedNode, group, does, is: "and has not reported yet" });
  }
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodBound");
  const [, node, group, seconds, problem] =
    condition?.status === "False" ? (deviceNotReported.pattern.exec(condition.message ?? "") ?? []) : [];
  if (node === undefined || group === undefined) return undefined;
  if (problem !== undefined) return notRunning({ node, group, problem });
  return silentNode({ node, group, is: `and did not report within ${seconds} s` });
}

function silentNode(about: { node: string; group: string; does?: string; is: string }): ShareAnswer {
  const { node, group, does = "runs", is } = about;
  const name = reservationName(node, group);
  return {
    cause: "DeviceNotReported",
    message: `node ${node} ${does} the reservation ${name} of GPU group ${group}, ${is} which device it holds`,
    cure: `check the logs of pod ${name} in namespace ${reservationNamespace} and the device plugin of ${node}; its container has to write ${annotationKeys.reservedGpu} on its own pod`,
  };
}

function notRunning({ node, group, problem }: { node: string; group: string; problem: string }): ShareAnswer {
  const name = reservationName(node, group);
  const isImage = /ErrImage|ImagePull|InvalidImageName/.test(problem);
  return {
    cause: "ReservationNotRunning",
    message: `the reservation ${name} of GPU group ${group} does not run on node ${node}: ${problem}`,
    cure: isImage
      ? "set --image or --reservation-image (reservations.image of the chart) to an image that the node can pull"
      : `check the logs of pod ${name} in namespace ${reservationNamespace} and the driver and device plugin of ${node}`,
  };
}

function asksForShare(pod: Pod): boolean {
  const read = readGpuRequest(pod, 0);
  return "gpu" in read && isShared(read.gpu);
}
