/**
 * The program of a reservation pod, played by the node: it writes the UUID of the pod's only GPU on the pod, once,
 * after a delay and with the faults that a binder must survive.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { seededUuid } from "../../model/values/seeded.ts";
import { timeToMs } from "../../model/values/time.ts";
import { assignmentOf } from "../devices/devices.ts";
import { type Fault, nextFaultMs, numberParam, podFaultsAt, textParam } from "../node/faults.ts";
import type { NodeState } from "../node/nodeState.ts";
import { earliest, identityOf, type Next, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import type { SimNode } from "../node/simNode.ts";
import { type PodMemory, precise } from "./podStatus.ts";

export const reservationNames = {
  namespace: "kai-resource-reservation",
  appLabel: "kai-resource-reservation",
  groupLabel: "runai-gpu-group",
  device: "run.ai/reserve_for_gpu_index",
  heartbeat: "run.ai/test-annotator-heartbeat",
} as const;

export interface ReservationOptions {
  readonly namespace: string;
  readonly appLabel: string;
  /** From Running to the annotation. */
  readonly delayMs: number;
  /** 0 means none. Heartbeats exist only to keep update traffic high in race tests. */
  readonly heartbeatMs: number;
}

export const reservationDefaults: ReservationOptions = {
  namespace: reservationNames.namespace,
  appLabel: reservationNames.appLabel,
  delayMs: 200,
  heartbeatMs: 0,
};

export interface ReservationInput {
  readonly pod: Pod;
  readonly sim: SimNode;
  readonly state: NodeState;
  readonly faults: readonly Fault[];
  readonly memory?: PodMemory;
  readonly options: ReservationOptions;
  readonly nowMs: number;
}

/** Both the namespace and the label: a user's pod in that namespace is not a reservation. */
export function isReservationPod(pod: Pod, { namespace, appLabel }: ReservationOptions): boolean {
  return pod.metadata.namespace === namespace && pod.metadata.labels?.["app"] === appLabel;
}

export function nextForReservation(input: ReservationInput): Next {
  const { pod, sim, state, faults, options, nowMs } = input;
  const idle = { writes: [], wakeAtMs: undefined };
  if (!state.alive || !isReservationPod(pod, options)) return idle;
  if (pod.status?.phase !== "Running" || pod.metadata.deletionTimestamp !== undefined) return idle;
  const [container] = pod.status.containerStatuses ?? [];
  const runningMs = precise(container?.state?.running?.startedAt, input.memory?.[`start/${container?.name}`]);
  if (runningMs === undefined) return idle;
  const kinds = ["reservation-never", "reservation-late", "reservation-wrong", "reservation-lost"] as const;
  const [fault] = podFaultsAt(faults, kinds, { node: sim.name, pod: pod.metadata, nowMs });
  const changeMs = nextFaultMs(faults, nowMs);
  const written = pod.metadata.annotations?.[reservationNames.device];
  if (written !== undefined && written !== "") return afterWriting(input, fault, runningMs, changeMs);
  if (fault?.kind === "reservation-never") return { writes: [], wakeAtMs: changeMs };
  const delayMs = fault?.kind === "reservation-late" ? numberParam(fault, "delay") : options.delayMs;
  const dueMs = runningMs + delayMs;
  if (nowMs < dueMs) return { writes: [], wakeAtMs: earliest(dueMs, changeMs) };
  const device = deviceToWrite(input, fault);
  // Without exactly one device the program gives up.
  if (device === undefined) return { writes: [], wakeAtMs: changeMs };
  return { writes: [annotate(pod, { [reservationNames.device]: device })], wakeAtMs: changeMs };
}

function deviceToWrite({ pod, sim }: ReservationInput, fault: Fault | undefined): string | undefined {
  const ids = Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each).flat());
  const [own] = ids;
  if (own === undefined || ids.length !== 1) return undefined;
  const uuid = own.split("::")[0] ?? own;
  if (fault?.kind !== "reservation-wrong") return uuid;
  if (textParam(fault, "how") === "unknown")
    return `GPU-${seededUuid(sim.clusterSeed, "no such device", pod.metadata.uid)}`;
  return sim.devices.find((device) => device.uuid !== uuid)?.uuid ?? uuid;
}

function afterWriting(
  { pod, options, nowMs }: ReservationInput,
  fault: Fault | undefined,
  runningMs: number,
  changeMs: number | undefined,
): Next {
  if (fault?.kind === "reservation-lost") {
    const lostMs = runningMs + options.delayMs + numberParam(fault, "delay");
    if (nowMs < lostMs) return { writes: [], wakeAtMs: earliest(lostMs, changeMs) };
    const write: NodeWrite<Pod> = {
      kind: "delete",
      ref: podRef(pod.metadata),
      expected: identityOf(pod.metadata),
      graceSeconds: 0,
    };
    return { writes: [write], wakeAtMs: undefined };
  }
  if (options.heartbeatMs <= 0) return { writes: [], wakeAtMs: changeMs };
  const lastMs = timeToMs(pod.metadata.annotations?.[reservationNames.heartbeat]);
  const dueMs = lastMs === undefined ? nowMs : lastMs + options.heartbeatMs;
  if (nowMs < dueMs) return { writes: [], wakeAtMs: earliest(dueMs, changeMs) };
  const write = annotate(pod, { [reservationNames.heartbeat]: new Date(nowMs).toISOString() });
  return { writes: [write], wakeAtMs: earliest(nowMs + options.heartbeatMs, changeMs) };
}

/** With the UID and version that were read: the annotation is written once and never replaces another one. */
function annotate({ metadata }: Pod, annotations: Record<string, string>): NodeWrite<Pod> {
  const patch = { type: "merge", body: { metadata: { annotations } } } as const;
  return { kind: "patch", ref: podRef(metadata), expected: identityOf(metadata), patch };
}
