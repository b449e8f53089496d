/**
 * Why a pod that asks for a share of a GPU does not start, as far as the share is the cause: sharing is off, no GPU has room, a node never
 * said which device it gave, or the GPU has room and its node has not. Each with what shows it and what would cure it.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { annotationKeys, isReservationPod, reservationNamespace } from "../../model/scheduling/keys.ts";
import { sharingOff } from "./admitFraction.ts";
import { deviceNotSaid } from "./nextBindStep.ts";
import { deviceOf, hasEnded, reservationName } from "./reservation.ts";
import { mayRun, roomOn, type Share, type ShareView, shareOf } from "./shareRoom.ts";

export type ShareCause = "SharingOff" | "NoGpuWithRoom" | "DeviceNotReported" | "NodeFull";

export interface ShareAnswer {
  readonly cause: ShareCause;
  readonly message: string;
  readonly cure: string;
}

const gpu = "nvidia.com/gpu";

/** Undefined when the pod asks for no share, has its place, or waits for another reason. */
export function whyShare(pod: Pod, view: ShareView): ShareAnswer | undefined {
  const asked = shareOf(pod);
  if (asked === undefined || pod.spec?.nodeName !== undefined || hasEnded(pod)) return undefined;
  return notReported(pod, view) ?? noRoom(pod, asked, view);
}

/** For what could not even be created: the words of admission are its event. */
export function whyRefused(events: readonly { readonly message: string }[]): ShareAnswer | undefined {
  const said = events.find(({ message }) => message.includes(sharingOff));
  if (said === undefined) return undefined;
  return {
    cause: "SharingOff",
    message: `its pods are refused: ${said.message}`,
    cure: `ask for whole GPUs with a limit of ${gpu}, or start the binder without --no-gpu-sharing`,
  };
}

function notReported(pod: Pod, { pods, requests }: ShareView): ShareAnswer | undefined {
  const active = requests.find((each) => podUidOf(each) === pod.metadata.uid && !isFinallyFailed(each));
  const { selectedNode = "", selectedGPUGroups = [] } = active?.spec ?? {};
  for (const group of selectedGPUGroups) {
    const name = reservationName(selectedNode, group);
    const reservation = pods.find((each) => isReservationPod(each) && each.metadata.name === name);
    if (reservation?.status?.phase !== "Running" || deviceOf(reservation) !== undefined) continue;
    return silentNode({ node: selectedNode, group, is: "and has not said yet" });
  }
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodBound");
  const [, node, seconds, group] =
    condition?.status === "False" ? (deviceNotSaid.pattern.exec(condition.message ?? "") ?? []) : [];
  if (node === undefined || group === undefined) return undefined;
  return silentNode({ node, group, is: `and did not say within ${seconds} s` });
}

function silentNode({ node, group, is }: { node: string; group: string; is: string }): ShareAnswer {
  const name = reservationName(node, group);
  return {
    cause: "DeviceNotReported",
    message: `node ${node} runs the reservation ${name} of group ${group}, ${is} which device that is`,
    cure: `look at the logs of pod ${name} in ${reservationNamespace} and at the device plugin of ${node}; its container has to write ${annotationKeys.reservedGpu} on its own pod`,
  };
}

function noRoom(pod: Pod, asked: Share, view: ShareView): ShareAnswer | undefined {
  const rooms = view.nodes.filter((node) => mayRun(pod, node)).map((node) => roomOn(node, pod, asked, view));
  const withGpus = rooms.filter(({ gpus }) => gpus > 0);
  // More memory than any GPU has is not a matter of room, and the scheduler says so.
  if (withGpus.every(({ wanted }) => wanted > 1000)) return undefined;
  const [first] = withGpus;
  if (first === undefined || withGpus.some(({ fits, lacks }) => fits && lacks.length === 0)) return undefined;
  const asks = `${asked.devices > 1 ? `${asked.devices} times ` : ""}${parts(first.wanted)} of a GPU`;
  const full = withGpus.filter(({ fits }) => fits);
  const [fullest] = full;
  if (fullest !== undefined) {
    const shown = full.slice(0, 3).map(({ node, lacks }) => `${node} lacks ${lacks.join(" and ")}`);
    return {
      cause: "NodeFull",
      message: `it asks for ${asks}, for which ${countOf(full.length)} room on a GPU, but ${shown.join("; ")}${more(full.length)}`,
      cure: `free ${fullest.lacks.join(" and ")} on ${fullest.node}, or add a node`,
    };
  }
  const byRoom = [...withGpus].sort((a, b) => (b.most?.free ?? 0) - (a.most?.free ?? 0) || (a.node < b.node ? -1 : 1));
  const shown = byRoom.slice(0, 3).map(({ node, gpus, idle, most }) => {
    const rest =
      most === undefined ? "none of them shared" : `the most that a shared one has left is ${parts(most.free)}`;
    return `${node} has ${gpus} GPUs, ${idle > 0 ? idle : "none"} of them free, and ${rest}`;
  });
  const [best] = byRoom;
  const most = best?.most;
  const cure =
    most === undefined || best === undefined
      ? "wait until a GPU is free, or add a node"
      : `${most.free > 0 ? `ask for ${parts(most.free)} or less, ` : ""}wait until ${parts(best.wanted - most.free)} of the GPU that ${most.users.slice(0, 4).join(", ")} share on ${best.node} is free, or add a node`;
  return {
    cause: "NoGpuWithRoom",
    message: `it asks for ${asks}, and no GPU has that: ${shown.join("; ")}${more(byRoom.length)}`,
    cure,
  };
}

function parts(amount: number): string {
  return (amount / 1000).toFixed(2);
}

function countOf(nodes: number): string {
  return nodes === 1 ? "one node has" : `${nodes} nodes have`;
}

function more(nodes: number): string {
  return nodes > 3 ? `; and ${nodes - 3} more` : "";
}
