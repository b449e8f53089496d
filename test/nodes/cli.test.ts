/** `muster nodes sim` and `muster fault` as programs of their own, against a server that they reach over TLS. */
import { type ChildProcess, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Lease, Node } from "../../src/model/kubernetes.generated.ts";
import { type LiveCluster, liveCluster, run } from "./liveCluster.ts";

const program = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), "dist/bundle/program/main.js");

let cluster: LiveCluster;
beforeAll(async () => {
  // The component in this process has nodes of its own; the program adds others.
  cluster = await liveCluster({ pools: ["t4=1"] });
  await cluster.until(() => get<Node>("/nodes", "", "t4-0") !== undefined);
});
afterAll(() => cluster.stop());

function get<T>(key: string, namespace: string, name: string): T | undefined {
  return cluster.server.core.store.get(key, namespace, name)?.object() as unknown as T | undefined;
}

const muster = (...args: string[]) => run(process.execPath, [program, ...args, "--kubeconfig", cluster.kubeconfig]);
const allocatable = () => get<Node>("/nodes", "", "t4-0")?.status?.allocatable?.["nvidia.com/gpu"];

test("a fault is injected, listed and cleared", async () => {
  const whole = allocatable();
  const made = await muster("fault", "gpu-unhealthy", "--node", "t4-0", "--device", "0", "--for", "10m", "-o", "json");
  expect(made.stderr).toBe("");
  const { faults } = JSON.parse(made.stdout) as { faults: { id: string; state: string; target: string }[] };
  expect(faults).toMatchObject([{ state: "active", target: "node t4-0" }]);
  await cluster.until(() => allocatable() !== whole);
  const id = faults[0]?.id ?? "";
  expect((await muster("fault", "list")).stdout).toContain(id);
  expect((await muster("fault", "clear", id)).stdout).toBe(`${id} cleared\n`);
  await cluster.until(() => allocatable() === whole);
});

test.each([
  [["fault", "nope", "--node", "t4-0"], 2, "fault-unknown"],
  [["fault", "gpu-unhealthy", "--node", "t4-0"], 2, "device: is required"],
  [["fault", "gpu-unhealthy", "--node", "t4-0", "--devise", "1"], 2, "use one of: --device"],
  [["fault", "gpu-unhealthy", "--node", "t4-0", "--device", "8"], 2, "fault-device-missing"],
  [["fault", "cordon", "--node", "nowhere"], 1, "fault-node-missing"],
  [["fault", "clear", "no-such"], 1, "fault-missing"],
  [["fault", "clear"], 2, "fault-unnamed"],
  [["nodes", "sim", "--pool", "h900=1"], 2, "use one of"],
  [["nodes", "sim", "--pool", "a:h100=1", "--pool", "a:t4=1"], 2, "pool-repeated"],
  [["nodes", "sim", "--profile-file", "/no/such"], 1, "profile-file-unreadable"],
  [["up", "--port", "0", "--profile-file", "/no/such"], 1, "profile-file-unreadable"],
])("%j exits with %d and says what to do", async (args, code, text) => {
  const said = await muster(...args);
  expect([said.code, said.stderr]).toEqual([code, expect.stringContaining(text)]);
});

test("a closed pipe ends the program without an error", async () => {
  const script = '"$1" "$2" fault kinds | head -c 1 >/dev/null';
  const said = await run("/bin/bash", ["-o", "pipefail", "-c", script, "sh", process.execPath, program]);
  expect([0, 141]).toContain(said.code);
  expect(said.stderr).toBe("");
});

test("nodes join a cluster from outside, and their leases are released at the end", async () => {
  const args = [
    "nodes",
    "sim",
    "--pool",
    "cpu=2",
    "--holder",
    "outside",
    "-o",
    "json",
    "--kubeconfig",
    cluster.kubeconfig,
  ];
  const child: ChildProcess = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout?.on("data", (bytes: Buffer) => {
    said += bytes.toString();
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const lease = (name: string) => get<Lease>("coordination.k8s.io/leases", "kube-node-lease", name)?.spec;
  await cluster.until(() => said.includes("ready") && lease("cpu-0") !== undefined && lease("cpu-1") !== undefined);
  expect(JSON.parse(said)).toMatchObject({ ready: true, nodes: 2, holder: "outside", dra: true, stages: true });
  child.kill("SIGINT");
  expect(await ended).toBe(0);
  expect([lease("t4-0")?.holderIdentity, lease("cpu-0")?.leaseTransitions]).toEqual(["muster", expect.any(Number)]);
  expect(lease("cpu-0")?.holderIdentity).not.toBe("outside");
});
