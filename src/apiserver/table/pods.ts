/** The table of pods. Users match on the status text, so its rules are exactly those of upstream. */

import type { ContainerStatus, Pod } from "../../model/kubernetes.generated.ts";
import { humanAge, humanDuration } from "../../model/values/humanDuration.ts";
import { timeToMs } from "../../model/values/time.ts";
import { none } from "./cellText.ts";
import { ageColumn, column, nameColumn, type RowCondition, tableOf, wideColumn } from "./tableKind.ts";

export const podTable = tableOf<Pod>(
  [
    nameColumn,
    column("Ready", "Ready containers, of all containers."),
    column("Status", "Phase of the pod, or the reason why it does not run."),
    column("Restarts", "Restarts of containers, and the time since the last one."),
    ageColumn,
    wideColumn("IP", "The first address of the pod."),
    wideColumn("Node", "The node that the pod is bound to."),
    wideColumn("Nominated Node", "The node on which pods are being preempted for the pod."),
    wideColumn("Readiness Gates", "Readiness gates of the pod, and how many are met."),
  ],
  podCells,
  finished,
);

const succeeded: RowCondition[] = [
  {
    type: "Completed",
    status: "True",
    reason: "Succeeded",
    message: "All containers of the pod terminated successfully.",
  },
];
const failed: RowCondition[] = [
  { type: "Completed", status: "True", reason: "Failed", message: "A container of the pod ended in failure." },
];

function finished(pod: Pod): RowCondition[] | undefined {
  const phase = pod.status?.phase;
  return phase === "Succeeded" ? succeeded : phase === "Failed" ? failed : undefined;
}

function podCells(pod: Pod, nowMs: number): (string | number)[] {
  const { metadata, spec, status } = pod;
  const life = podLife(pod);
  const restarts =
    life.restarts !== 0 && life.lastRestartMs > 0
      ? `${life.restarts} (${humanDuration(nowMs - life.lastRestartMs)} ago)`
      : String(life.restarts);
  return [
    metadata.name,
    `${life.ready}/${life.total}`,
    life.status,
    restarts,
    humanAge(metadata.creationTimestamp, nowMs),
    status?.podIPs?.[0]?.ip || status?.podIP || none,
    spec?.nodeName || none,
    status?.nominatedNodeName || none,
    readinessGates(pod),
  ];
}

function readinessGates(pod: Pod): string {
  const gates = pod.spec?.readinessGates;
  if (gates === undefined || gates.length === 0) return none;
  let open = 0;
  for (const { conditionType } of gates) if (isConditionTrue(pod, conditionType)) open++;
  return `${open}/${gates.length}`;
}

interface Life {
  status: string;
  ready: number;
  total: number;
  restarts: number;
  /** 0 when no container has terminated before. */
  lastRestartMs: number;
}

/** The counts and the status text of a pod; later findings overwrite earlier ones. */
function podLife(pod: Pod): Life {
  const { metadata, spec, status } = pod;
  const life: Life = {
    status: status?.reason || status?.phase || "",
    ready: 0,
    total: spec?.containers.length ?? 0,
    restarts: 0,
    lastRestartMs: 0,
  };
  for (const condition of status?.conditions ?? []) {
    if (condition.type === "PodScheduled" && condition.reason === "SchedulingGated") life.status = "SchedulingGated";
  }
  const initializing = addInitContainers(pod, life);
  if (!initializing || isConditionTrue(pod, "Initialized")) addContainers(pod, life);

  if (metadata.deletionTimestamp !== undefined) {
    if (status?.reason === "NodeLost") life.status = "Unknown";
    else if (status?.phase !== "Succeeded" && status?.phase !== "Failed") life.status = "Terminating";
  }
  return life;
}

/** Returns whether an init container is not finished; its state is then the pod's status. */
function addInitContainers(pod: Pod, life: Life): boolean {
  const specs = pod.spec?.initContainers ?? [];
  const statuses = pod.status?.initContainerStatuses ?? [];
  let sidecarRestarts = 0;
  let sidecarRestartMs = 0;
  const sidecars = new Set<string>();
  for (const { name, restartPolicy } of specs) if (restartPolicy === "Always") sidecars.add(name);
  life.total += sidecars.size;

  let initializing = false;
  for (const [index, container] of statuses.entries()) {
    const isSidecar = sidecars.has(container.name);
    const endedMs = lastEndMs(container);
    life.restarts += container.restartCount;
    life.lastRestartMs = Math.max(life.lastRestartMs, endedMs);
    if (isSidecar) {
      sidecarRestarts += container.restartCount;
      sidecarRestartMs = Math.max(sidecarRestartMs, endedMs);
    }
    const { terminated, waiting } = container.state ?? {};
    if (terminated !== undefined && terminated.exitCode === 0) continue;
    if (isSidecar && container.started === true) {
      if (container.ready) life.ready++;
      continue;
    }
    if (terminated !== undefined) life.status = `Init:${endText(terminated)}`;
    else if (waiting?.reason && waiting.reason !== "PodInitializing") life.status = `Init:${waiting.reason}`;
    else life.status = `Init:${index}/${specs.length}`;
    initializing = true;
    break;
  }
  if (!initializing || isConditionTrue(pod, "Initialized")) {
    // Once the containers run, only sidecars of the init containers count.
    life.restarts = sidecarRestarts;
    life.lastRestartMs = sidecarRestartMs;
  }
  return initializing;
}

function addContainers(pod: Pod, life: Life): void {
  const statuses = pod.status?.containerStatuses ?? [];
  let isAnyRunning = false;
  // Backwards, so that the first container's status is used.
  for (let i = statuses.length - 1; i >= 0; i--) {
    const container = statuses[i];
    if (container === undefined) continue;
    life.restarts += container.restartCount;
    life.lastRestartMs = Math.max(life.lastRestartMs, lastEndMs(container));
    const { running, terminated, waiting } = container.state ?? {};
    if (waiting?.reason) life.status = waiting.reason;
    else if (terminated !== undefined) life.status = endText(terminated);
    else if (container.ready && running !== undefined) {
      isAnyRunning = true;
      life.ready++;
    }
  }
  if (life.status === "Completed" && isAnyRunning) {
    life.status = isConditionTrue(pod, "Ready") ? "Running" : "NotReady";
  }
}

function endText(terminated: { reason?: string; signal?: number; exitCode: number }): string {
  if (terminated.reason) return terminated.reason;
  return terminated.signal ? `Signal:${terminated.signal}` : `ExitCode:${terminated.exitCode}`;
}

function lastEndMs(container: ContainerStatus): number {
  return timeToMs(container.lastState?.terminated?.finishedAt) ?? 0;
}

function isConditionTrue(pod: Pod, type: string): boolean {
  for (const condition of pod.status?.conditions ?? []) {
    if (condition.type === type) return condition.status === "True";
  }
  return false;
}
