/** Defaults and checks of writes, served by the pods of Muster and asked by a real API server. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Job, Pod } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import type { RealCluster } from "../kit/cluster.ts";
import { isRunning, jobObject, podObject } from "../kit/objects.ts";
import { pidsOfPod, until } from "../kit/processes.ts";
import { isRolledOut, own } from "./install.ts";

/** SIGKILL to every process of Muster's pods at once. */
export async function killAll(cluster: RealCluster): Promise<void> {
  const pods = await cluster.pods(own);
  const pids = new Set(pods.flatMap(({ metadata }) => pidsOfPod(metadata.uid)));
  expect(pids.size).toBeGreaterThan(0);
  for (const pid of pids) process.kill(pid, "SIGKILL");
}

export function webhooksSuite(cluster: RealCluster): void {
  describe("webhooks", () => {
    const namespace = "webhooks";
    const refusal = (...objects: object[]): Promise<string> =>
      cluster.apply(namespace, ...objects).then(
        () => "accepted",
        (error: Error) => error.message,
      );
    beforeAll(() => cluster.namespace(namespace));
    afterAll(() => cluster.clean(namespace));

    test("C3, 13: a share that makes no sense is refused with the kind, and with the field once", async () => {
      const text = await refusal(podObject("bad", { annotations: { "gpu-fraction": "1.5" } }));
      expect(text).toContain('Pod "bad" is invalid: metadata.annotations[gpu-fraction]: Invalid value');
      expect(text.match(/metadata\.annotations\[gpu-fraction\]/g)).toHaveLength(1);
    });

    test("a queue without resources is refused", async () => {
      const queue = { apiVersion: "scheduling.run.ai/v2", kind: "Queue", metadata: { name: "empty" }, spec: {} };
      expect(await refusal(queue)).toContain('Queue "empty" is invalid: spec.resources: Required value');
    });

    test("B2, 7: while Muster is away Jobs complete, pods are labelled and deleted; only what it judges is refused", async () => {
      const script = "while [ ! -e /go/now ]; do sleep 0.2; done";
      const volumes = [{ name: "go", configMap: { name: "go", optional: true } }];
      const container = { name: "c", image: "busybox", imagePullPolicy: "IfNotPresent", command: ["sh", "-c", script] };
      const spec = { volumes, containers: [{ ...container, volumeMounts: [{ name: "go", mountPath: "/go" }] }] };
      await cluster.apply(namespace, jobObject("ends", 3, { spec }), podObject("stays"), podObject("goes"));
      const running = async (): Promise<Pod[]> => (await cluster.pods(namespace)).filter(isRunning);
      await until(async () => (await running()).length === 5);
      await cluster.kubectl("-n", own, "scale", "deployment/muster", "--replicas=0");
      await until(async () => (await cluster.pods(own)).length === 0);
      await cluster.apply(namespace, {
        ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "go" }, data: { now: "yes" } },
      });
      await until(async () => {
        const [job] = await cluster.list<Job>(builtin.Job, { namespace });
        return job?.status?.conditions?.some(({ type, status }) => type === "Complete" && status === "True");
      });
      await cluster.kubectl("-n", namespace, "label", "pod", "stays", "team=a");
      await cluster.kubectl("-n", namespace, "delete", "pod", "goes", "--wait=true");
      expect(await refusal(podObject("later"))).toMatch(/failed calling webhook "shares\.[a-z]+\.bind\.muster\.dev"/);
      expect(await refusal(podObject("plain", { scheduler: "default-scheduler" }))).toBe("accepted");
      await cluster.kubectl("-n", own, "scale", "deployment/muster", "--replicas=2");
      await until(() => isRolledOut(cluster));
      await until(async () => (await refusal(podObject("later"))) === "accepted");
    });

    test("A3: when all processes were killed at once they come back by themselves", async () => {
      await killAll(cluster);
      await until(async () => !(await isRolledOut(cluster)));
      await until(() => isRolledOut(cluster));
      await until(async () => (await refusal(podObject("after"))) === "accepted");
      await until(async () =>
        (await cluster.pods(namespace)).some((pod) => pod.metadata.name === "after" && isRunning(pod)),
      );
    });
  });
}
