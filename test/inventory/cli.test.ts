import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inventoryApi } from "../../src/cli/inventory/api.ts";
import { schemas } from "../../src/cli/inventory/schemas.ts";
import { availabilityTable } from "../../src/cli/inventory/show.ts";
import type { AvailabilityView } from "../../src/ports/database.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** The program itself, against PostgreSQL and the stand-in over the wire. */
const world = new InventoryWorld();
const folder = mkdtempSync(join(tmpdir(), "muster-cli-"));
beforeAll(async () => {
  chmodSync(folder, 0o755);
  await world.start();
  await world.fresh();
  world.pool("h100", 2);
  world.cloud.createVolume({ id: "v1", sizeGb: 50, tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  world.cloud.createVolume({ id: "v2", tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  world.cloud.putSnapshot({ id: "s1", volumeId: "v1", tags: { "gpu-dev-user": "ada", disk_name: "data" } });
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true, force: true });
});

const main = join(import.meta.dirname, "../../dist/bundle/program/main.js");

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function muster(args: string[], env: Record<string, string> = {}): Promise<Ended> {
  return new Promise((done) => {
    const child = spawn(process.execPath, [main, ...args], {
      cwd: folder,
      env: {
        PATH: process.env["PATH"] ?? "",
        DATABASE_URL: world.database.url,
        AWS_ENDPOINT_URL: world.aws.url,
        AWS_REGION: "us-east-2",
        AWS_ACCESS_KEY_ID: "a",
        AWS_SECRET_ACCESS_KEY: "b",
        KUBECONFIG: "/nonexistent",
        HOSTNAME: "updater-1",
        ...env,
      },
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.once("close", (code) => done({ code, stdout, stderr }));
  });
}

test("without an inventory the commands show no zeros, and create nothing", async () => {
  const empty = mkdtempSync(join(tmpdir(), "muster-empty-"));
  try {
    for (const command of [["avail"], ["disks"], ["inventory", "runs"], ["inventory", "pause"]]) {
      const { code, stdout, stderr } = await muster([...command, "--data-dir", empty], { DATABASE_URL: "" });
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("(database-none)");
    }
    expect(readdirSync(empty)).toEqual([]);
  } finally {
    rmSync(empty, { recursive: true, force: true });
  }
});

test("a type that was never reconciled has no numbers to show", () => {
  const unseen = { lastUpdateMs: null, queued: 0, inUse: 0, parent: null, maxPerNode: 8, gpuType: "h100" };
  const numbers = { availableGpus: 0, maxReservable: 0, fullNodesAvailable: 0, totalClusterGpus: 16, sizeEtas: {} };
  const view = { readMs: 0, types: [{ ...unseen, numbers: { ...numbers, state: "unknown", error: "" } }] };
  const [, row] = availabilityTable(view as unknown as AvailabilityView, false).split("\n");
  expect(row?.split(/ +/).slice(0, 7)).toEqual(["h100", "-", "-", "-", "-", "0", "never"]);
});

describe("muster inventory", () => {
  test("run --once prints the document's counters, logs one JSON object a line, and says partial without a cluster", async () => {
    const { code, stdout, stderr } = await muster(["inventory", "run", "--once"]);
    expect(stdout).toContain("aws_volumes: 2");
    expect(stdout).toContain("created: 1");
    expect(stdout).toContain("orphaned_db_active: 0");
    const lines = stderr.split("\n").filter((line) => line.startsWith("{"));
    const levels = lines.map((line) => (JSON.parse(line) as { level: string }).level);
    expect(levels).toContain("ERROR");
    expect(stderr).toContain("Failed to setup Kubernetes client");
    expect(code).toBe(2);
  });

  test("run --dry-run answers one JSON object with the plan, and writes nothing", async () => {
    const before = await world.state();
    const { stdout, code } = await muster([
      "inventory",
      "run",
      "--once",
      "--dry-run",
      "--phase",
      "disks",
      "-o",
      "json",
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ dryRun: true, status: "ok", plan: { disks: [] } });
    expect(await world.state()).toEqual(before);
  });

  test("avail TYPE shows one type; one that is not there names those that are", async () => {
    const one = await muster(["avail", "H100", "-o", "json"]);
    expect(JSON.parse(one.stdout).types.map(({ type }: { type: string }) => type)).toEqual(["h100"]);
    const none = await muster(["avail", "h1000"]);
    expect(none.code).toBe(1);
    expect(none.stderr).toMatch(/gpu-type-unknown[\s\S]*h100, h200/);
  });

  test("runs, drift, avail and disks show it; pause holds it and resume lets it go", async () => {
    const [runs, drift, avail, disks] = await Promise.all([
      muster(["inventory", "runs"]),
      muster(["inventory", "drift", "--open"]),
      muster(["avail"]),
      muster(["disks", "-o", "json"]),
    ]);
    expect(runs.stdout).toContain("partial");
    expect(drift.stdout).toContain("duplicates");
    expect(avail.stdout).toMatch(/h100 .*STALE/);
    expect(JSON.parse(disks.stdout)).toMatchObject({ disks: [{ userId: "ada", diskName: "data" }] });
    const marked = await muster(["disks"]);
    expect(marked.stdout).toMatch(/data .*conflict .*is another volume of this disk/);
    expect((await muster(["inventory", "pause", "--reason", "moving"])).code).toBe(0);
    const held = await muster(["inventory", "run", "--once", "-o", "json"]);
    expect(held.code).toBe(0);
    expect(JSON.parse(held.stdout)).toMatchObject({ status: "skipped" });
    expect((await muster(["inventory", "resume"])).code).toBe(0);
  });

  test.each([
    { fact: "neither --once nor --every", args: ["inventory", "run"], env: {}, code: 64 },
    { fact: "an unknown flag", args: ["inventory", "run", "--onec"], env: {}, code: 64 },
    { fact: "an unknown phase", args: ["inventory", "run", "--once", "--phase", "cpu"], env: {}, code: 64 },
    { fact: "half a set of POSTGRES_*", args: ["avail"], env: { DATABASE_URL: "", POSTGRES_HOST: "x" }, code: 64 },
    {
      fact: "a database that is down",
      args: ["inventory", "run", "--once"],
      env: { DATABASE_URL: "postgresql://u:p@127.0.0.1:1/x" },
      code: 1,
    },
  ])("$fact: exit $code, with what to do", async ({ args, env, code }) => {
    const ended = await muster(args, env);
    expect(ended.code).toBe(code);
    expect(ended.stderr).toMatch(/try:|add --help/);
  });

  test("a run that the drop guard refuses exits with 5; the flag lets it through", async () => {
    world.cloud.volumes.clear();
    expect((await muster(["inventory", "run", "--once", "--phase", "disks"])).code).toBe(5);
    expect((await muster(["inventory", "run", "--once", "--phase", "disks", "--accept-drop"])).code).toBe(0);
  });

  test("a file that should hold the token and does not: exit 64", async () => {
    writeFileSync(join(folder, "empty"), "");
    const ended = await muster(["inventory", "serve", "--token-file", join(folder, "empty"), "--port", "0"]);
    expect(ended.code).toBe(64);
  });
});

describe("the HTTP API", () => {
  const api = () =>
    inventoryApi({
      reader: world.database.reader,
      token: "secret",
      run: ({ dryRun }) => world.run({ dryRun }),
      cluster: world.readCluster,
      nowMs: () => Date.now(),
    });
  const get = (path: string, token = "secret") =>
    api().request(path, { headers: { authorization: `Bearer ${token}` } });

  test("wants the token, except for health", async () => {
    expect((await get("/v1/gpu/availability", "wrong")).status).toBe(401);
    expect((await api().request("/v1/disks")).status).toBe(401);
    expect((await api().request("/health")).status).toBe(200);
  });

  test.each([
    ["/v1/gpu/availability", "availability"],
    ["/v1/gpu/availability/h100", "availabilityOfType"],
    ["/v1/cluster/status", "clusterStatus"],
    ["/v1/disks", "disks"],
    ["/v1/disks/data", "disk"],
    ["/v1/inventory/runs", "runs"],
    ["/v1/inventory/drift", "drift"],
    ["/v1/inventory/conflicts", "drift"],
    ["/v1/inventory/nodes", "nodes"],
  ])("%s answers as its schema says", async (path, name) => {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(mistakes(await answer.json(), schemas[name] as Schema, name)).toEqual([]);
  });

  test("answers about one type, however its name is written", async () => {
    const answer = await get("/v1/gpu/availability/H100");
    expect(await answer.json()).toMatchObject({ type: "h100", max_per_node: 8 });
  });

  test("shows one run by its id, and refuses an unknown id", async () => {
    const { runs } = (await (await get("/v1/inventory/runs?limit=1")).json()) as { runs: { run_id: string }[] };
    const one = await get(`/v1/inventory/runs/${runs[0]?.run_id}`);
    expect(mistakes(await one.json(), schemas["run"] as Schema, "run")).toEqual([]);
    for (const [path, status] of [
      ["/v1/inventory/runs/nope", 404],
      ["/v1/disks/nope", 404],
      ["/v1/gpu/availability/nope", 404],
      ["/v1/nothing", 404],
      ["/v1/inventory/runs?limit=x", 400],
    ] as const) {
      const answer = await get(path);
      expect(answer.status, path).toBe(status);
      expect(mistakes(await answer.json(), schemas["error"] as Schema, "error")).toEqual([]);
    }
  });

  test("starts a run, dry or not, and refuses nonsense", async () => {
    const post = (body: string) =>
      api().request("/v1/inventory/runs", { method: "POST", headers: { authorization: "Bearer secret" }, body });
    expect(await (await post('{"dryRun":true}')).json()).toMatchObject({ dryRun: true });
    // Half a question for a dry run must not become a real one.
    for (const body of ['{"dryRun":"yes"}', '{"dryRun":true', "null", "[]", '"dry"']) {
      expect((await post(body)).status, body).toBe(400);
    }
    expect((await get("/v1/disks?user=%00")).status).toBe(400);
  });
});

type Schema = {
  type?: string;
  enum?: unknown[];
  anyOf?: Schema[];
  required?: string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: boolean | Schema;
  minimum?: number;
};

/** As much of JSON Schema as the schemas use. */
function mistakes(value: unknown, schema: Schema, at: string): string[] {
  if (schema.anyOf !== undefined)
    return schema.anyOf.some((each) => mistakes(value, each, at).length === 0) ? [] : [`${at}: none of the shapes`];
  if (schema.enum !== undefined) return schema.enum.includes(value) ? [] : [`${at}: ${String(value)}`];
  const is =
    value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  if (is !== schema.type) return [`${at}: is ${is}, not ${schema.type}`];
  if (schema.minimum !== undefined && (value as number) < schema.minimum) return [`${at}: below ${schema.minimum}`];
  if (is === "array")
    return (value as unknown[]).flatMap((item, n) => mistakes(item, schema.items ?? {}, `${at}[${n}]`));
  if (is !== "object" || schema.properties === undefined) return [];
  const known = schema.properties;
  const found = Object.entries(value as object).flatMap(([name, item]) =>
    known[name] === undefined
      ? schema.additionalProperties === false
        ? [`${at}.${name} is unknown`]
        : []
      : mistakes(item, known[name], `${at}.${name}`),
  );
  return [
    ...found,
    ...(schema.required ?? []).filter((name) => !(name in (value as object))).map((name) => `${at}.${name} is missing`),
  ];
}
