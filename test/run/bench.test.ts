import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const programs = new URL("../../dist/bundle/program/", import.meta.url);

test.each(["serverProcess", "cloudProcess", "nodesProcess"])("the benchmarks' program %s is bundled", (name) => {
  expect(existsSync(new URL(`${name}.js`, programs))).toBe(true);
});

test("a benchmark measures a process of its own, up to its first figure", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-bench-test-"));
  const main = fileURLToPath(new URL("main.js", programs));
  const bench = spawn(process.execPath, [main, "bench", "apiserver"], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, TMPDIR: folder },
  });
  const ended = once(bench, "exit");
  let text = "";
  const reached = new Promise<void>((done) => {
    bench.stderr.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      if (text.includes("reads of one object")) done();
    });
  });
  await Promise.race([reached, ended]);
  bench.kill("SIGTERM");
  await ended;
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  expect(text).toContain("start to ready, empty, process start included: ");
});
