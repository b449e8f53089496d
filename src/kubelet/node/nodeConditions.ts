/** The conditions that a kubelet reports about its node. lastTransitionTime changes only with the status. */
import type { NodeCondition } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";

interface ConditionRow {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

const healthy: readonly ConditionRow[] = [
  {
    type: "MemoryPressure",
    status: "False",
    reason: "KubeletHasSufficientMemory",
    message: "kubelet has sufficient memory available",
  },
  {
    type: "DiskPressure",
    status: "False",
    reason: "KubeletHasNoDiskPressure",
    message: "kubelet has no disk pressure",
  },
  {
    type: "PIDPressure",
    status: "False",
    reason: "KubeletHasSufficientPID",
    message: "kubelet has sufficient PID available",
  },
  { type: "NetworkUnavailable", status: "False", reason: "RouteCreated", message: "the simulated network is up" },
  { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" },
];

/** Why a node is not ready, or its GPUs are unhealthy. */
export interface NodeProblem {
  readonly reason: string;
  readonly message: string;
}

export function healthyConditions(nowMs: number): NodeCondition[] {
  return nodeConditions([], { nowMs });
}

/** The current conditions. Types of other writers are kept; lastTransitionTime changes only with the status. */
export function nodeConditions(
  current: readonly NodeCondition[],
  now: { nowMs: number; notReady?: NodeProblem | undefined; gpuTrouble?: NodeProblem | undefined },
): NodeCondition[] {
  const time = formatTime(now.nowMs);
  const rows: ConditionRow[] = healthy.map((row) =>
    row.type === "Ready" && now.notReady !== undefined ? { type: "Ready", status: "False", ...now.notReady } : row,
  );
  // The condition about GPUs is added with the first fault and kept, so that the recovery is visible.
  if (now.gpuTrouble !== undefined) rows.push({ type: "GpuHealthy", status: "False", ...now.gpuTrouble });
  else if (current.some(({ type }) => type === "GpuHealthy")) {
    rows.push({ type: "GpuHealthy", status: "True", reason: "AllDevicesHealthy", message: "all GPUs are healthy" });
  }
  const next = current.map((condition): NodeCondition => {
    const row = rows.find(({ type }) => type === condition.type);
    return row === undefined ? condition : stamped(row, condition, time);
  });
  for (const row of rows) {
    if (!current.some(({ type }) => type === row.type)) next.push(stamped(row, undefined, time));
  }
  return next;
}

function stamped(row: ConditionRow, before: NodeCondition | undefined, time: string): NodeCondition {
  const moved = before === undefined || before.status !== row.status;
  return { ...row, lastHeartbeatTime: time, lastTransitionTime: moved ? time : (before.lastTransitionTime ?? time) };
}
