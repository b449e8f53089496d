import type { DeviceClaims, DeviceFit } from "../../decide/schedule/cluster/deviceClaims.ts";
import type { NodeState } from "../../decide/schedule/cluster/nodeState.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import { defaultSchedulerName } from "../../model/scheduling/keys.ts";
import type { Clock } from "../../ports/clock.ts";
import type { DeviceReport } from "../devices/deviceReport.ts";

/** The same answers about devices, with the time that each search takes as a metric. */
export function measuredDevices(devices: DeviceClaims, report: DeviceReport, clock: Clock): DeviceClaims {
  return {
    begin: (nowMs, releasing) => devices.begin(nowMs, releasing),
    gpusOf: (task) => devices.gpusOf(task),
    gpuClassesOf: (task) => devices.gpuClassesOf(task),
    problemOf: (task) => devices.problemOf(task),
    fit(task: Task, node: NodeState): DeviceFit {
      const startedMs = clock.monotonicMs();
      const fit = devices.fit(task, node);
      report.searched(schedulerOf(task), clock.monotonicMs() - startedMs);
      return fit;
    },
    assume: (task, node, fit) => devices.assume(task, node, fit),
    release: (task) => devices.release(task),
    checkpoint: () => devices.checkpoint(),
    rollback: (checkpoint) => devices.rollback(checkpoint),
    unitsOn: (node) => devices.unitsOn(node),
  };
}

export function schedulerOf({ pod }: Task): string {
  return pod.spec?.schedulerName ?? defaultSchedulerName;
}
