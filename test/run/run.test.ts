/** The program itself, as a process of its own, against a server that it knows only by a kubeconfig, over TLS. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import type { Unstored } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const deployments = builtin.Deployment;
const pods = builtin.Pod;

let server: ApiServer;
let kube: KubeApi;
let folder: string;
let children: ChildProcess[];

beforeEach(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  kube = inProcessKube(server.core, { user: { username: "admin", groups: ["system:masters"] }, fieldManager: "test" });
  folder = mkdtempSync(join(tmpdir(), "muster-run-"));
  writeFileSync(join(folder, "kubeconfig"), server.kubeconfig);
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill("SIGKILL");
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Ready {
  readonly status: string;
  readonly api: string;
  readonly controllers: string[];
}

async function run(...flags: string[]): Promise<{ child: ChildProcess; ready: Ready; ended: Promise<number | null> }> {
  const all = [
    "run",
    "--kubeconfig",
    join(folder, "kubeconfig"),
    "--status-address",
    "127.0.0.1:0",
    "-o",
    "json",
    ...flags,
  ];
  const child = spawn(process.execPath, [program, ...all], { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  const ended = once(child, "exit").then(([code]) => code as number | null);
  const [line] = (await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), "line")) as [string];
  return { child, ready: JSON.parse(line) as Ready, ended };
}

/** Waits on the world, not on the clock: the server's own events decide. */
function until(holds: () => Promise<boolean>): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      holds().then((does) => (does ? resolve() : setTimeout(look, 50)), reject);
    };
    look();
  });
}

const podCount = async (): Promise<number> => {
  const listed = await kube.list(pods, { namespace: "default" });
  return listed.ok ? listed.value.items.length : -1;
};

function deployment(replicas: number): Unstored {
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", namespace: "default" },
    spec: { replicas, selector: { matchLabels: labels }, template },
  };
}

describe("muster run", () => {
  test("creates the pods of a workload, reports healthy, serves metrics, and ends on a signal", async () => {
    const { child, ready, ended } = await run("--controllers", "workloads");
    expect(ready).toMatchObject({ api: server.url, controllers: ["workloads"] });
    expect(server.url.startsWith("https://")).toBe(true);
    expect(await kube.create(deployments, deployment(3))).toMatchObject({ ok: true });
    await until(async () => (await podCount()) === 3);
    const page = async (path: string) => {
      const response = await fetch(`${ready.status}${path}`);
      return { code: response.status, text: await response.text() };
    };
    expect(await page("/healthz")).toEqual({ code: 200, text: "ok" });
    expect(await page("/readyz")).toEqual({ code: 200, text: "ok" });
    expect((await page("/readyz?verbose")).text).toContain("[+]caches ok");
    expect((await page("/metrics")).text).toContain("process_resident_memory_bytes");
    expect((await page("/metrics")).text).toMatch(/^muster_\w+/m);
    expect((await page("/elsewhere")).code).toBe(404);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  });

  test("of two processes with leader election one acts, and when it ends the other one takes over", async () => {
    const flags = ["--controllers", "workloads", "--leader-elect"];
    const first = await run(...flags, "--identity", "first");
    await kube.create(deployments, deployment(2));
    await until(async () => (await podCount()) === 2);
    const second = await run(...flags, "--identity", "second");
    const lease = {
      group: "coordination.k8s.io",
      version: "v1",
      plural: "leases",
      namespace: "kube-system",
      name: "muster",
    };
    const holder = async (): Promise<unknown> => {
      const found = await kube.get(lease);
      return found.ok ? (found.value["spec"] as { holderIdentity?: string }).holderIdentity : undefined;
    };
    expect(await holder()).toBe("first");
    first.child.kill("SIGTERM");
    expect(await first.ended).toBe(0);
    const ref = { ...deployments, namespace: "default", name: "web" };
    await kube.patch(ref, { type: "merge", body: { spec: { replicas: 5 } } });
    await until(async () => (await podCount()) === 5);
    expect(await holder()).toBe("second");
    second.child.kill("SIGINT");
    expect(await second.ended).toBe(0);
  });

  test.each([
    ["an unknown controller", ["--controllers", "nonsense"], 2, "controller-unknown"],
    ["a kubeconfig that is not there", ["--kubeconfig", "/nowhere/kubeconfig"], 1, "kubeconfig-missing"],
    ["kinds that the cluster does not serve", ["--controllers", "binder"], 1, "definitions-missing"],
    ["two ways to the webhooks", ["--webhook-host", "a", "--webhook-service", "b/c"], 2, "flags-conflict"],
    ["a Service without a namespace", ["--webhook-service", "c"], 2, "service-malformed"],
    ["an address that is none", ["--status-address", "here:there"], 2, "port-invalid"],
  ])("%s is refused with a cure", (_, flags, code, problem) => {
    const all = ["run", "--kubeconfig", join(folder, "kubeconfig"), "--status-address", "127.0.0.1:0", ...flags];
    const kubeconfigGiven = flags.includes("--kubeconfig");
    const env = { ...process.env, NODE_NO_WARNINGS: "1" };
    // The server runs in this process, so it must be let to answer: a child that asks it is waited for without
    // blocking.
    if (problem !== "definitions-missing") {
      const { status, stderr } = spawnSync(process.execPath, [program, ...all], { encoding: "utf8", env });
      expect(stderr).toContain(`(${problem})`);
      expect(stderr).toContain("try: ");
      expect(status).toBe(code);
      return undefined;
    }
    expect(kubeconfigGiven).toBe(false);
    const child = spawn(process.execPath, [program, ...all], { stdio: ["ignore", "ignore", "pipe"], env });
    let text = "";
    child.stderr.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    return once(child, "exit").then(([status]) => {
      expect(text).toContain(`(${problem})`);
      expect(status).toBe(code);
    });
  });
});
