import { assignmentOf } from "../devices/devices.ts";
import { numberParam, podFaultsAt } from "../node/faults.ts";
import { isAdmitted } from "./admission.ts";
import { claimNamesOf } from "./claimLife.ts";
import type { OrphanedPod, PodInput } from "./podInput.ts";
import { planContainer } from "./podPlan.ts";
import { isRunning, viewPod } from "./podStatus.ts";

/**
 * Called when a pod object was deleted. If its containers were still running (a forced delete, or a grace of zero), the
 * devices of its claims stay prepared until they have stopped. Devices of a plugin do not: a kubelet counts the devices
 * of a deleted pod as free at once, even while a container is still being killed. Only a node with the fault
 * `slow-release` keeps them.
 */
export function orphanedPodOf(
  input: Pick<PodInput, "pod" | "sim" | "faults" | "options" | "nowMs">,
): OrphanedPod | undefined {
  const { pod, sim, faults, options, nowMs } = input;
  const [slow] = podFaultsAt(faults, ["slow-release"], { node: sim.name, pod: pod.metadata, nowMs });
  const given = Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each).flat());
  const devices = slow === undefined ? [] : given;
  const hasClaims = (claimNamesOf(pod) ?? []).length > 0;
  if ((devices.length === 0 && !hasClaims) || !isAdmitted(pod)) return undefined;
  const view = viewPod(pod, {});
  const running = [...view.inits, ...view.mains].filter(isRunning);
  const extraMs = slow === undefined ? 0 : numberParam(slow, "delay");
  const stops = running.map(({ container, role, status }) => {
    const { clusterSeed, delays } = options;
    return planContainer({
      pod,
      node: sim.name,
      container,
      role,
      restarts: status.restartCount,
      faults,
      clusterSeed,
      delays,
      nowMs,
    }).stopMs;
  });
  const untilMs = nowMs + extraMs + Math.max(0, ...stops);
  return untilMs > nowMs ? { podUid: pod.metadata.uid, pod, devices: [...new Set(devices)], untilMs } : undefined;
}
