import { describe, expect, test } from "vitest";
import type { CoreEvent, Pod } from "../../../model/kubernetes.generated.ts";
import { whyNotStarted } from "./whyNotStarted.ts";

function pod(status: Pod["status"], nodeName: string | undefined = "n1"): Pod {
  const metadata = { name: "a", namespace: "lab", uid: "u", resourceVersion: "1" };
  const spec = { containers: [{ name: "c", image: "i" }], ...(nodeName === "" ? {} : { nodeName }) };
  return { apiVersion: "v1", kind: "Pod", metadata, spec, status } as Pod;
}

const container = (reason: string, message = ""): Pod["status"] => ({
  phase: "Pending",
  containerStatuses: [
    { name: "c", image: "i", imageID: "", ready: false, restartCount: 0, state: { waiting: { reason, message } } },
  ],
});

function event(reason: string, message: string, lastTimestamp: string, more: Partial<CoreEvent> = {}): CoreEvent {
  const involvedObject = { kind: "Pod", namespace: "lab", name: "a", uid: "u" };
  const metadata = {
    name: reason,
    namespace: "lab",
    uid: reason,
    resourceVersion: "1",
    creationTimestamp: lastTimestamp,
  };
  const by = { source: { component: "kubelet" }, type: "Warning" };
  return { apiVersion: "v1", kind: "Event", metadata, involvedObject, reason, message, lastTimestamp, ...by, ...more };
}

describe("a pod on a node that does not run", () => {
  test("is explained by the container that waits, in the words of its node", () => {
    expect(whyNotStarted(pod(container("ErrImagePull", "no such image")), [])).toEqual({
      reason: "ErrImagePull",
      message: "container c does not start on n1: no such image",
      cure: "look at what n1 reports: kubectl describe pod -n lab a",
    });
  });

  test("is explained by the last warning of its node, and by no other", () => {
    const creating = pod(container("ContainerCreating"));
    const taken = event("FailedPrepareDynamicResources", "gpu-1 is prepared for another claim", "2026-01-01T00:02:00Z");
    const events = [
      taken,
      event("FailedMount", "earlier", "2026-01-01T00:01:00Z"),
      event("Pulled", "no warning", "2026-01-01T00:03:00Z", { type: "Normal" }),
      event("FailedScheduling", "not the node", "2026-01-01T00:03:00Z", { source: { component: "kai-scheduler" } }),
      event("Failed", "another pod", "2026-01-01T00:03:00Z", {
        involvedObject: { kind: "Pod", namespace: "lab", name: "a", uid: "before" },
      }),
    ];
    expect(whyNotStarted(creating, events)).toMatchObject({
      reason: "FailedPrepareDynamicResources",
      message: "n1 cannot start it: gpu-1 is prepared for another claim",
    });
    expect(whyNotStarted(creating, [])).toBeUndefined();
  });

  test("that its node refused has the node's reason", () => {
    const status = { phase: "Failed", reason: "UnexpectedAdmissionError", message: "no GPU is left" };
    expect(whyNotStarted(pod(status), [])).toMatchObject({
      reason: "UnexpectedAdmissionError",
      message: "it ended on n1: no GPU is left",
    });
  });

  test.each([
    ["has no node", pod({ phase: "Pending" }, "")],
    ["runs", pod({ phase: "Running" })],
    ["has ended well", pod({ phase: "Succeeded" })],
  ])("is not there when the pod %s", (_, each) => {
    expect(whyNotStarted(each, [event("Failed", "earlier", "2026-01-01T00:00:00Z")])).toBeUndefined();
  });
});
