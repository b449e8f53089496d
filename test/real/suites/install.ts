/** The installation as docs/own-cluster.md describes it: processes in pods, with the shipped roles and webhooks. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Deployment } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import type { RealCluster } from "../kit/cluster.ts";
import { musterImage } from "../kit/musterImage.ts";
import { until } from "../kit/processes.ts";

export const own = "muster-system";

export async function isRolledOut(cluster: RealCluster): Promise<boolean> {
  const [deployment] = await cluster.list<Deployment>(builtin.Deployment, { namespace: own });
  const { readyReplicas = 0, updatedReplicas = 0, replicas = 0 } = deployment?.status ?? {};
  const wanted = deployment?.spec?.replicas ?? -1;
  // Its counts are without pods that are being deleted, which may still lead.
  const { length: pods } = await cluster.pods(own);
  return [readyReplicas, updatedReplicas, replicas, pods].every((count) => count === wanted);
}

export function installSuite(cluster: RealCluster): void {
  describe("install", () => {
    test("A1, 1: `muster install` is accepted whole, and the processes become ready in pods", async () => {
      const values = join(cluster.folder, "values.json");
      writeFileSync(values, JSON.stringify({ resources: { requests: { cpu: "50m", memory: "128Mi" }, limits: {} } }));
      const done = await cluster.muster("install", "--image", musterImage, "--values", values);
      expect(done, done.err).toMatchObject({ code: 0 });
      await until(
        () => isRolledOut(cluster),
        180_000,
        () => cluster.kubectl("get", "pods", "-A", "-o", "wide"),
      );
      await until(async () => (await cluster.kubectl("get", "queues", "-o", "name")).includes("default-queue"), 60_000);
    });
  });
}
