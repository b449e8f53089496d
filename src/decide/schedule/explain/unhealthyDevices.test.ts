import { describe, expect, test } from "vitest";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { whyUnhealthy } from "./unhealthyDevices.ts";

interface Given {
  readonly devices?: Readonly<Record<string, string>>;
  readonly message?: string;
  readonly phase?: string;
  readonly metadata?: object;
  readonly node?: string;
}

function pod({ devices = {}, message, phase = "Running", metadata = {}, node = "n1" }: Given): Pod {
  const resources = Object.entries(devices).map(([resourceID, health]) => ({
    resourceID,
    health,
    ...(health === "Unhealthy" && message !== undefined && { message }),
  }));
  const container = { name: "c", image: "i", imageID: "", ready: true, restartCount: 0 };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "lab", uid: "u", resourceVersion: "1", creationTimestamp: "", ...metadata },
    spec: { containers: [{ name: "c" }], nodeName: node },
    status: {
      phase,
      containerStatuses: [{ ...container, allocatedResourcesStatus: [{ name: "nvidia.com/gpu", resources }] }],
    },
  };
}

const broken = { "GPU-0": "Healthy", "GPU-1": "Unhealthy" };
const reservation = {
  name: "gpu-reservation-1",
  namespace: "kai-resource-reservation",
  labels: { app: "kai-resource-reservation", "runai-gpu-group": "g" },
};

describe("a device that fails under a pod", () => {
  test("is named with its node and what the node reports about it", () => {
    expect(whyUnhealthy(pod({ devices: broken, message: "GPU 1 reported XID 79" }), [])).toEqual({
      reason: "DeviceUnhealthy",
      message: "nvidia.com/gpu GPU-1 (GPU 1 reported XID 79) is unhealthy on n1",
      cure: "delete the pod and create it again, which gets healthy devices: kubectl delete pod -n lab a",
    });
  });

  test("is replaced by the controller of the pod", () => {
    const ownerReferences = [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: "j", controller: true }];
    expect(whyUnhealthy(pod({ devices: broken, metadata: { ownerReferences } }), [])?.cure).toContain(
      "so that its controller creates a new one",
    );
  });

  test("is one of many: three are named and the others counted", () => {
    const devices = Object.fromEntries([0, 1, 2, 3, 4].map((at) => [`GPU-${at}`, "Unhealthy"]));
    expect(whyUnhealthy(pod({ devices }), [])?.message).toBe(
      "nvidia.com/gpu GPU-0, nvidia.com/gpu GPU-1, nvidia.com/gpu GPU-2, 2 more are unhealthy on n1",
    );
  });

  test("is that of the reservation pod for a pod that shares it, and for no other", () => {
    const holder = pod({ devices: broken, metadata: reservation });
    const share = (group: string) => pod({ metadata: { labels: { "runai-gpu-group": group } } });
    expect(whyUnhealthy(share("g"), [holder])?.message).toBe("nvidia.com/gpu GPU-1 is unhealthy on n1");
    expect(whyUnhealthy(share("other"), [holder])).toBeUndefined();
    expect(whyUnhealthy(pod({}), [holder])).toBeUndefined();
  });

  test.each([
    ["has healthy devices", pod({ devices: { "GPU-0": "Healthy", "GPU-1": "Unknown" } })],
    ["has ended", pod({ devices: broken, phase: "Failed" })],
    ["is terminating", pod({ devices: broken, metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })],
    ["has no node", pod({ devices: broken, node: "" })],
  ])("is not reported when the pod %s", (_, each) => {
    expect(whyUnhealthy(each, [])).toBeUndefined();
  });
});
