/** Shares of GPUs, with the reservation agent in real containers and a device plugin behind it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Pod } from "../../../src/model/kubernetes.generated.ts";
import { reservationNamespace } from "../../../src/model/scheduling/keys.ts";
import { gpusOfNode, type RealCluster } from "../kit/cluster.ts";
import { until } from "../kit/processes.ts";

const isRunning = ({ status }: Pod): boolean => status?.phase === "Running";
const deviceKey = "run.ai/reserve_for_gpu_index";

function half(name: string): object {
  const command = [
    "sh",
    "-c",
    "echo \"$NVIDIA_VISIBLE_DEVICES $GPU_PORTION\"; trap 'exit 0' TERM; while true; do sleep 1; done",
  ];
  return {
    ...{ apiVersion: "v1", kind: "Pod" },
    metadata: {
      name,
      labels: { app: "half", "kai.scheduler/queue": "default-queue" },
      annotations: { "gpu-fraction": "0.5" },
    },
    spec: {
      schedulerName: "kai-scheduler",
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "c", image: "busybox", imagePullPolicy: "IfNotPresent", command }],
    },
  };
}

export function sharesSuite(cluster: RealCluster): void {
  describe("shares of GPUs", () => {
    const namespace = "shares";
    const total = 2 * gpusOfNode;
    beforeAll(() => cluster.namespace(namespace));
    afterAll(() => cluster.clean(namespace));

    test(`A5, 8: ${2 * total} halves run on ${total} GPUs, each container sees the GPU that its reservation reports`, async () => {
      await cluster.apply(namespace, ...Array.from({ length: 2 * total }, (_, at) => half(`half-${at}`)));
      await until(
        async () => (await cluster.pods(namespace)).filter(isRunning).length === 2 * total,
        180_000,
        () => cluster.kubectl("get", "pods", "-A", "-o", "wide"),
      );
      await expectTrue(cluster, namespace, total);
    });
  });
}

/** Every device once as a reservation and in two containers, of the same node and no other. */
async function expectTrue(cluster: RealCluster, namespace: string, total: number): Promise<void> {
  const reservations = await cluster.pods(reservationNamespace);
  const reported = new Map(reservations.map((pod) => [pod.metadata.annotations?.[deviceKey] ?? "", pod]));
  expect(reported.size).toBe(total);
  expect(reservations).toHaveLength(total);
  const users = new Map<string, number>();
  for (const pod of await cluster.pods(namespace)) {
    const [device = "", portion] = (await cluster.logs(namespace, pod.metadata.name)).trim().split(" ");
    expect(portion).toBe("0.50");
    const reservation = reported.get(device);
    expect(reservation?.spec?.nodeName, `${pod.metadata.name} sees ${device}`).toBe(pod.spec?.nodeName);
    expect(reservation?.metadata.labels?.["runai-gpu-group"]).toBe(pod.metadata.labels?.["runai-gpu-group"]);
    users.set(device, (users.get(device) ?? 0) + 1);
  }
  expect([...users.values()]).toEqual(Array.from({ length: total }, () => 2));
}
