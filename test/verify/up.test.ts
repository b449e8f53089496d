/** Verify against a whole cluster as `muster up` runs it. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { VerifyResult } from "../../src/decide/verify/verifyResult.ts";

const program = fileURLToPath(new URL("../../dist/bundle/program/main.js", import.meta.url));
let folder: string;
let up: ChildProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "muster-verify-up-"));
  up = spawn(process.execPath, [program, "up", "--memory", "--port", "0", "-o", "json"], { cwd: folder });
  await new Promise<void>((resolve, reject) => {
    up.stdout?.once("data", () => resolve());
    up.once("exit", (code) => reject(new Error(`muster up ended with ${code}`)));
  });
});
afterAll(async () => {
  const gone = new Promise((resolve) => up.once("exit", resolve));
  up.kill("SIGTERM");
  await gone;
  rmSync(folder, { recursive: true, force: true });
});

async function verify(...args: string[]): Promise<VerifyResult> {
  const run = promisify(execFile)(process.execPath, [program, "verify", "-o", "json", ...args], { cwd: folder });
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  return JSON.parse(stdout) as VerifyResult;
}

test("a gang waits until all of it fits, and then all of it is bound", async () => {
  const { checks, verdict } = await verify("--check", "gang-barrier");
  expect(checks).toMatchObject([{ id: "gang-barrier", status: "passed" }]);
  expect(verdict).toBe("pass");
});

test("the nodes have the shape that their profile declares, and not another one", async () => {
  const own = await verify("--check", "S10", "S11");
  expect(own.checks).toMatchObject([
    { id: "S10", status: "passed", message: "4 nodes with GPUs" },
    { id: "S11", status: "passed", message: "4 nodes" },
  ]);
  const other = await verify("--check", "S11", "--profile", "gb300");
  expect(other).toMatchObject({ verdict: "fail", exitCode: 1 });
  expect(other.checks[0]?.details).toHaveLength(16);
});
