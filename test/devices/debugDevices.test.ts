/** `/debug/devices` of the status server: the devices that the process counts as allocated. */
import { expect, test } from "vitest";
import { startStatusServer } from "../../src/cli/cluster/statusServer.ts";
import { Health } from "../../src/control/runtime/health.ts";
import type { DevicesDescription } from "../../src/decide/devices/describeDevices.ts";
import { DevicesCluster } from "./devicesCluster.ts";

async function ask(devices: () => object | undefined, path: string): Promise<{ status: number; text: string }> {
  const metrics = { contentType: "text/plain", text: async () => "" };
  const pages = { health: new Health(), readiness: new Health(), metrics, devices };
  const server = await startStatusServer(pages, { host: "127.0.0.1", port: 0 });
  try {
    const response = await fetch(`${server.url}${path}`);
    return { status: response.status, text: await response.text() };
  } finally {
    await server.stop();
  }
}

test("claims, devices and the revision are shown as one JSON object", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.template("one");
  for (const name of ["a", "b"]) await cluster.pod(name, { template: "one" });
  await cluster.run(10);
  const { status, text } = await ask(() => cluster.describe(), "/debug/devices");
  expect(status).toBe(200);
  const shown = JSON.parse(text) as DevicesDescription;
  expect(shown.devices).toEqual(["gpu.nvidia.com/h100-0/gpu-0", "gpu.nvidia.com/h100-0/gpu-1"]);
  expect(shown.claims.flatMap(({ devices }) => devices).sort()).toEqual(shown.devices);
  expect(shown.claims[0]).toMatchObject({ node: "h100-0", isInFlight: false });
  expect(shown.revision).toBeGreaterThan(0);
});

test("a process without devices reports that", async () => {
  expect(await ask(() => undefined, "/debug/devices")).toMatchObject({ status: 404 });
  expect((await ask(() => undefined, "/nothing")).text).toContain("/debug/devices");
});
