import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { startInventoryDemo } from "../../src/cli/inventory/demo.ts";
import { availabilityRows, availabilityTable } from "../../src/cli/inventory/show.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { serverForClients } from "../clientNode/serverForClients.ts";
import { silentLog } from "./databases.ts";

test("the demo shows ten types, machines with and without nodes, disks and drift", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-demo-"));
  chmodSync(folder, 0o755);
  const { server } = await serverForClients();
  const kube = inProcessKube(server.core, {
    user: { username: "test", groups: ["system:masters"] },
    fieldManager: "test",
  });
  const amounts = { "nvidia.com/gpu": "8", cpu: "192" };
  for (const name of ["h100-1", "h100-2"]) {
    const made = await kube.create(builtin.Node, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: { "node.kubernetes.io/instance-type": "p5.48xlarge" } },
      spec: { providerID: `kwok://${name}` },
      status: { allocatable: amounts, capacity: amounts, conditions: [{ type: "Ready", status: "True" }] },
    });
    expect(made.ok ? "" : made.message).toBe("");
  }
  const ports = { kube, clock: systemClock(), random: systemRandom(), log: silentLog, metrics: new MemoryMetrics() };
  const demo = await startInventoryDemo({ dataDir: folder, ...ports });
  try {
    const view = await demo.database.reader.availability();
    if (!view.ok) throw new Error(view.why);
    const rows = availabilityRows(view.value);
    expect(rows).toHaveLength(10);
    expect(rows.find(({ type }) => type === "h100")).toMatchObject({
      total: 16,
      free: 16,
      full_nodes: 2,
      max_reservable: 16,
      stale: false,
    });
    expect(rows.find(({ type }) => type === "b200")).toMatchObject({ total: 16, free: 0, stale: false });
    expect(availabilityTable(view.value, false)).toContain("h100");
    const conflicts = await demo.database.reader.drift({ open: true, limit: 50 });
    const reasons = conflicts.ok ? conflicts.value.map(({ reason }) => reason.split(":")[0]) : [];
    expect(reasons).toContain("duplicates");
    expect(reasons).toContain("tag_drift");
    expect(reasons).toContain("asgs_unassigned");
  } finally {
    await demo.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
