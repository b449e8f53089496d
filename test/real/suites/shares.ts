/** Shares of GPUs, with the reservation agent in real containers and a device plugin behind it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Deployment } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { reservationNamespace } from "../../../src/model/scheduling/keys.ts";
import { gpusOfNode, type RealCluster } from "../kit/cluster.ts";
import { isRunning, podObject, waits } from "../kit/objects.ts";
import { until } from "../kit/processes.ts";
import { isRolledOut, own } from "./install.ts";
import { killAll } from "./webhooks.ts";

const deviceKey = "run.ai/reserve_for_gpu_index";

const sees = `echo "$NVIDIA_VISIBLE_DEVICES $GPU_PORTION"; ${waits}`;
const half = (name: string): object => podObject(name, { script: sees, annotations: { "gpu-fraction": "0.5" } });

export function sharesSuite(cluster: RealCluster): void {
  describe("shares of GPUs", () => {
    const namespace = "shares";
    const total = 2 * gpusOfNode;
    beforeAll(() => cluster.namespace(namespace));
    afterAll(() => cluster.clean(namespace));

    test(`A5, 8: ${2 * total} halves run on ${total} GPUs, each container sees the GPU that its reservation reports`, async () => {
      await cluster.apply(namespace, ...halves());
      await until(
        async () => (await cluster.pods(namespace)).filter(isRunning).length === 2 * total,
        180_000,
        () => cluster.kubectl("get", "pods", "-A", "-o", "wide"),
      );
      await expectTrue(cluster, namespace, total);
    });

    test("a share that cannot start says why: its reservation's image cannot be pulled", async () => {
      await emptied();
      const flags = ["--reservation-image=muster.invalid/other:1", "--reservation-pull-policy=Never"];
      await withArguments(cluster, flags, async () => {
        await cluster.apply(namespace, half("stuck"));
        const why = async (): Promise<string> => (await cluster.muster("why", `${namespace}/stuck`)).out;
        await until(async () => /ErrImageNeverPull/.test(await why()), 60_000, why);
        const { out } = await cluster.muster("why", `${namespace}/stuck`);
        expect(out).toContain("ReservationNotRunning");
        expect(out).toContain("--reservation-image");
      });
    });

    test(`${rounds} rounds with kill -9 of all processes while shares are bound: none is lost or doubled`, async () => {
      for (let round = 0; round < rounds; round++) {
        await emptied();
        await cluster.apply(namespace, ...halves());
        // Spread over the bind: from the first reservation on, a little later every round.
        await until(async () => (await cluster.pods(reservationNamespace)).length > 0);
        await new Promise((resolve) => setTimeout(resolve, (round % 10) * 300));
        await killAll(cluster);
        // New pods: the kubelet would start killed ones later and later.
        await cluster.kubectl("-n", own, "delete", "pods", "--all", "--force", "--grace-period=0");
        await until(
          async () => (await cluster.pods(namespace)).filter(isRunning).length === 2 * total,
          240_000,
          () => cluster.kubectl("get", "pods", "-A", "-o", "wide"),
        );
        await expectTrue(cluster, namespace, total);
      }
      await emptied();
    });

    const halves = (): object[] => Array.from({ length: 2 * total }, (_, at) => half(`half-${at}`));

    /** No share, and nothing left of those that were. */
    async function emptied(): Promise<void> {
      await cluster.kubectl("-n", namespace, "delete", "pods", "--all", "--wait=false");
      await until(
        async () => (await cluster.pods(namespace)).length + (await cluster.pods(reservationNamespace)).length === 0,
        120_000,
        () => cluster.kubectl("get", "pods", "-A", "-o", "wide"),
      );
      const requests = await cluster.kubectl("-n", namespace, "get", "bindrequests", "-o", "name");
      expect(requests).toBe("");
    }
  });
}

const rounds = process.env["MUSTER_LONG"] === "1" ? 20 : 2;

/** Muster's processes with more flags, for as long as it takes. */
async function withArguments(cluster: RealCluster, flags: readonly string[], act: () => Promise<void>): Promise<void> {
  const path = "/spec/template/spec/containers/0/args/-";
  const add = flags.map((value) => ({ op: "add", path, value }));
  const [before] = await cluster.list<Deployment>(builtin.Deployment, { namespace: own });
  const args = before?.spec?.template.spec?.containers[0]?.args ?? [];
  const patch = async (operations: object[]): Promise<void> => {
    await cluster.kubectl("-n", own, "patch", "deployment", "muster", "--type=json", "-p", JSON.stringify(operations));
    await cluster.kubectl("-n", own, "rollout", "status", "deployment/muster", "--timeout=120s");
    await until(() => isRolledOut(cluster));
  };
  await patch(add);
  try {
    await act();
  } finally {
    await patch([{ op: "replace", path: "/spec/template/spec/containers/0/args", value: args }]);
  }
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
