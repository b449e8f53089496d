import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { MemoryMetrics } from "../../control/runtime/memoryMetrics.ts";
import { labelGpuNodes } from "./labelGpuNodes.ts";

test("the controller of the documentation works, and the documentation shows it as it is", async () => {
  const api = await TestApi.start({ controllers: "none" });
  const user = { username: "example", groups: ["system:masters"] };
  const kube = inProcessKube(api.core, { user, fieldManager: "example" });
  const log = new KeptLog();
  const ports = { kube, clock: api.clock, random: seededRandom(1), log, metrics: new MemoryMetrics() };
  const controllers = new Controllers(ports, { fieldManager: "example", freeze: true });
  labelGpuNodes(controllers);
  const node = (name: string, capacity: object) => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    status: { capacity },
  });
  await api.create("/nodes", node("old", { "nvidia.com/gpu": "8" }));
  await controllers.start();
  await api.create("/nodes", node("new", { "nvidia.com/gpu": "4" }));
  await api.create("/nodes", node("plain", { cpu: "4" }));
  await settle();
  await api.edit(
    "/nodes",
    "new",
    (object) => {
      object["status"] = { capacity: { "nvidia.com/gpu": "3" } };
    },
    "status",
  );
  await settle();
  const labels = (name: string) => api.get("/nodes", name)?.metadata.labels?.["muster.dev/gpus"];
  expect([labels("old"), labels("new"), labels("plain")]).toEqual(["8", "3", undefined]);
  expect(log.errors).toEqual([]);
  await controllers.stop();

  const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
  const source = read("./labelGpuNodes.ts");
  const shown = source.slice(source.indexOf("/** Every node says"));
  expect(read("../../../docs/controllers.md")).toContain(shown.trimEnd());
});
