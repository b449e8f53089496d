import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { InventoryWorld } from "./inventoryWorld.ts";

/**
 * The program as an operator runs it: what `grep ERROR` finds, and what a long-lived process does about a bad start.
 */
const world = new InventoryWorld();
const folder = mkdtempSync(join(tmpdir(), "muster-operation-"));
const children = new Set<ChildProcess>();
beforeAll(() => world.start());
beforeEach(async () => {
  await world.fresh();
  world.cloud.createVolume({ id: "v1", tags: { "gpu-dev-user": "ada", disk_name: "data" } });
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true, force: true });
});

const main = join(import.meta.dirname, "../../dist/bundle/program/main.js");

function start(args: string[], env: Record<string, string> = {}): { child: ChildProcess; text: () => string } {
  const child = spawn(process.execPath, [main, "inventory", "run", ...args], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      DATABASE_URL: world.database.url,
      AWS_ENDPOINT_URL: world.aws.url,
      AWS_REGION: "us-east-2",
      AWS_ACCESS_KEY_ID: "a",
      AWS_SECRET_ACCESS_KEY: "b",
      KUBECONFIG: "/nonexistent",
      ...env,
    },
  });
  children.add(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      text += chunk;
    });
  }
  return { child, text: () => text };
}

async function once(
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; errors: string[] }> {
  const { child, text } = start(["--once", ...args], env);
  const code = await new Promise<number | null>((done) => {
    child.once("close", done);
  });
  return { code, errors: errorsOf(text()) };
}

/** What `grep ERROR` prints. */
function errorsOf(text: string): string[] {
  return text.split("\n").filter((line) => line.includes("ERROR"));
}

/** Looks again until it is so. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((done) => setTimeout(done, 50));
}

async function freePort(): Promise<number> {
  const server = await listening(0);
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

function listening(
  port: number,
  onConnection: (socket: import("node:net").Socket) => void = () => {},
): Promise<Server> {
  const server = createServer(onConnection);
  return new Promise((done) => {
    server.listen(port, "127.0.0.1", () => done(server));
  });
}

describe("grep ERROR finds", () => {
  test("a database that is down", async () => {
    const { code, errors } = await once([], { DATABASE_URL: "postgresql://u:p@127.0.0.1:1/x" });
    expect(code).toBe(1);
    expect(errors.join("\n")).toContain("Failed to initialize connection pool");
  });

  test("a database whose tables do not fit", async () => {
    const other = await world.server.database({ migrate: false });
    await other.pool.query("create table disks (serial_number text)");
    const { code, errors } = await once([], { DATABASE_URL: other.url });
    expect(code).toBe(1);
    expect(errors.join("\n")).toContain("database-schema-refused");
  });

  test("a cluster that cannot be reached, and that the run is partial", async () => {
    const { code, errors } = await once([]);
    expect(code).toBe(2);
    expect(errors.join("\n")).toContain("Failed to setup Kubernetes client");
    const partial = errors.find((line) => line.includes("inventory run PARTIAL")) ?? "{}";
    expect(JSON.parse(partial)).toMatchObject({ level: "ERROR" });
  });

  test.each([
    { operation: "DescribeSnapshots", args: ["--phase", "disks"], code: 2 },
    { operation: "DescribeVolumes", args: ["--phase", "disks"], code: 1 },
    { operation: "GetCallerIdentity", args: ["--phase", "disks"], code: 1 },
    { operation: "DescribeAutoScalingGroups", args: ["--phase", "gpu"], code: 1 },
  ])("$operation denied", async ({ operation, args, code }) => {
    world.cloud.setFaults({ fail: [{ operation, how: "denied" }] });
    const ended = await once(args);
    expect(ended.code).toBe(code);
    expect(ended.errors.some((line) => line.includes(operation))).toBe(true);
  });

  test("a setting that makes no sense", async () => {
    const { code, errors } = await once([], { MUSTER_DRY_RUN: "on" });
    expect(code).toBe(64);
    expect(errors.join("\n")).toContain("MUSTER_DRY_RUN: on");
  });

  test("nothing in a run that went well", async () => {
    const { code, errors } = await once(["--phase", "disks"]);
    expect({ code, errors }).toEqual({ code: 0, errors: [] });
  });
});

describe("a long-lived process", () => {
  test("finds the database that was down when it started", async () => {
    const port = await freePort();
    const real = new URL(world.database.url);
    const address = new URL(world.database.url);
    address.port = String(port);
    const { text } = start(["--every", "1s", "--phase", "disks"], { DATABASE_URL: address.href });
    await until(() => text().includes("Failed to initialize connection pool"));
    // The server comes up: from now on the port leads to it.
    const { connect } = await import("node:net");
    const proxy = await listening(port, (socket) => {
      const onward = connect(Number(real.port), "127.0.0.1");
      socket.pipe(onward).pipe(socket);
      for (const each of [socket, onward]) each.on("error", () => {});
    });
    await until(async () => (await world.sql("select from reconcile_runs where status = 'ok'")).length > 0);
    expect((await world.disk("data"))["ebs_volume_id"]).toBe("v1");
    for (const child of children) child.kill("SIGKILL");
    proxy.close();
  });

  test("finds the cluster that was not there when it started", async () => {
    const { text } = start(["--every", "1s", "--phase", "gpu"], { EKS_CLUSTER_NAME: "late" });
    await until(() => text().includes("No cluster found for name: late"));
    world.cloud.clusters.set("late", {
      name: "late",
      endpoint: "http://127.0.0.1:1",
      certificateAuthority: "",
    });
    // It is found now: what is missing is its API.
    await until(async () =>
      (await world.sql<{ error: string }>("select error from reconcile_runs")).some(({ error }) =>
        error.includes("pods could not be listed"),
      ),
    );
    world.cloud.clusters.clear();
  });

  test("finds the kubeconfig that was written after it started", async () => {
    const kubeconfig = join(folder, "kubeconfig");
    const { text } = start(["--every", "1s", "--phase", "gpu"], { KUBECONFIG: kubeconfig });
    await until(() => text().includes("Failed to setup Kubernetes client"));
    const cluster = { name: "c", cluster: { server: "http://127.0.0.1:1" } };
    const context = { name: "c", context: { cluster: "c", user: "u" } };
    const file = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [cluster],
      contexts: [context],
      "current-context": "c",
      users: [{ name: "u", user: { token: "t" } }],
    };
    writeFileSync(kubeconfig, JSON.stringify(file));
    await until(async () =>
      (await world.sql<{ error: string }>("select error from reconcile_runs")).some(({ error }) =>
        error.includes("pods could not be listed"),
      ),
    );
  });

  test("counts its calls by run, not since it started", async () => {
    start(["--every", "1s", "--phase", "disks", "--full-snapshots"]);
    const counters = "select counters -> 'aws' -> 'calls' as calls from reconcile_runs where status = 'ok'";
    await until(async () => (await world.sql(counters)).length >= 3);
    const calls = (await world.sql<{ calls: object }>(counters)).map((row) => row.calls);
    for (const each of calls) expect(each).toEqual(calls[0]);
    expect(calls[0]).toMatchObject({ GetCallerIdentity: 1, DescribeVolumes: 1 });
  });
});
