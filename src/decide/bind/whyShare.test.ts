import { describe, expect, test } from "vitest";
import { request, reserved, userPod } from "../../../testing/decide/bindCluster.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { reservationName } from "./reservation.ts";
import { whyShare } from "./whyShare.ts";

const asking = (annotations: Record<string, string>, spec = {}): Pod =>
  userPod({ name: "f", node: undefined, phase: "Pending", groups: [], annotations, spec });
const user = (name: string, share: string, group = "X"): Pod =>
  userPod({ name, groups: [group], annotations: { "gpu-fraction": share } });
const causeOf = (pod: Pod, view: { pods?: Pod[]; requests?: ReturnType<typeof request>[] }) =>
  whyShare(pod, { pods: [pod, ...(view.pods ?? [])], requests: view.requests ?? [] });

describe("why a pod with a GPU share does not start on its node", () => {
  const half = asking({ "gpu-fraction": "0.5" });
  const silent = reserved({ device: "" });
  const named = { ...silent, metadata: { ...silent.metadata, name: reservationName("n1", "X") } };

  test("a reservation that runs and has no device is the reason while its bind waits", () => {
    expect(causeOf(half, { pods: [named], requests: [request()] })?.cause).toBe("DeviceNotReported");
  });

  const waiting = (reason: string, message: string, last?: object): Pod => ({
    ...named,
    status: {
      phase: "Pending",
      containerStatuses: [
        {
          ...{ name: "resource-reservation", image: "i", imageID: "", ready: false, restartCount: 0 },
          state: { waiting: { reason, message } },
          ...(last !== undefined && { lastState: { terminated: { exitCode: 1, reason: "Error", ...last } } }),
        },
      ],
    },
  });

  test("an image that cannot be pulled is the reason, with the flag that sets it", () => {
    const pulling = waiting("ErrImagePull", 'failed to resolve reference "muster.invalid/muster:not-set"');
    expect(causeOf(half, { pods: [pulling], requests: [request()] })).toMatchObject({
      cause: "ReservationNotRunning",
      message: expect.stringContaining("ErrImagePull: failed to resolve"),
      cure: expect.stringContaining("--reservation-image"),
    });
  });

  test("the last message of the program in the reservation is the reason", () => {
    const message = "no GPU is visible in this container";
    const crashing = waiting("CrashLoopBackOff", "back-off 10s restarting failed container", { message });
    expect(causeOf(half, { pods: [crashing], requests: [request()] })).toMatchObject({
      cause: "ReservationNotRunning",
      message: expect.stringContaining(`CrashLoopBackOff: ${message}`),
    });
  });

  test("a container that is being created is not reported as a problem", () => {
    const starting = waiting("ContainerCreating", "");
    expect(causeOf(half, { pods: [starting], requests: [request()] })).toMatchObject({
      cause: "DeviceNotReported",
      message: expect.stringMatching(/^node n1 starts the reservation/),
    });
  });

  test("between two reservations the condition of the pod has the reason", () => {
    const message =
      "node n1 did not report the device of GPU group X within 40 s; its reservation does not run: ErrImagePull: no such host";
    const failed = { ...half, status: { conditions: [{ type: "PodBound", status: "False", message }] } } as Pod;
    expect(causeOf(failed, {})).toMatchObject({
      cause: "ReservationNotRunning",
      message: expect.stringContaining("does not run on node n1: ErrImagePull: no such host"),
    });
  });

  test.each([
    ["a reservation that has its device", half, { pods: [reserved()], requests: [request()] }],
    ["a pod without a decided node is explained by the scheduler", half, { pods: [named] }],
    ["a pod without a GPU share is not explained here", asking({}), { pods: [named], requests: [request()] }],
    ["nor is a bound pod", user("f", "0.5"), { pods: [named], requests: [request()] }],
  ])("%s", (_, pod, view) => {
    expect(causeOf(pod, view)).toBeUndefined();
  });
});
