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

describe("why a share does not start where it was placed", () => {
  const half = asking({ "gpu-fraction": "0.5" });
  const silent = reserved({ device: "" });
  const named = { ...silent, metadata: { ...silent.metadata, name: reservationName("n1", "X") } };

  test("a reservation that runs and has no device is the reason while its bind waits", () => {
    expect(causeOf(half, { pods: [named], requests: [request()] })?.cause).toBe("DeviceNotReported");
  });

  test.each([
    ["a reservation that has its device", half, { pods: [reserved()], requests: [request()] }],
    ["a place that was not decided yet is the scheduler's to explain", half, { pods: [named] }],
    ["who asks for no share is not meant", asking({}), { pods: [named], requests: [request()] }],
    ["nor who has a node", user("f", "0.5"), { pods: [named], requests: [request()] }],
  ])("%s", (_, pod, view) => {
    expect(causeOf(pod, view)).toBeUndefined();
  });
});
