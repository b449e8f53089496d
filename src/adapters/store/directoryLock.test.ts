import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { lockDirectory } from "./directoryLock.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "lock-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

describe("the lock of a data folder", () => {
  test("keeps a second holder out, names the first, and is free again after the release", () => {
    const release = lockDirectory(directory);
    expect(() => lockDirectory(directory)).toThrow(`in use by process ${process.pid}`);
    release();
    expect(readdirSync(directory)).toEqual([]);
    lockDirectory(directory)();
  });

  test.each([
    { name: "a process that is gone", holder: { pid: 4_194_304, started: "1" } },
    { name: "another process that got the same id later", holder: { pid: process.pid, started: "1" } },
    { name: "an earlier boot", holder: { pid: process.pid, boot: "earlier" } },
  ])("of $name is stale", ({ holder }) => {
    const release = lockDirectory(directory);
    const own = JSON.parse(readFileSync(join(directory, "lock"), "utf8")) as object;
    release();
    writeFileSync(join(directory, "lock"), JSON.stringify({ ...own, ...holder }));
    lockDirectory(directory)();
    expect(readdirSync(directory)).toEqual([]);
  });

  test("that cannot be read as one is stale", () => {
    writeFileSync(join(directory, "lock"), "");
    lockDirectory(directory)();
  });

  test("is not removed by a late release", () => {
    const release = lockDirectory(directory);
    writeFileSync(join(directory, "lock"), "another process's by now");
    release();
    expect(existsSync(join(directory, "lock"))).toBe(true);
  });

  test.skipIf(!existsSync("/proc/self/stat"))("of a zombie is stale", async () => {
    // What a shell was exec'ed over reaps no child: one that ends after that, and not before, stays a zombie as long as
    // it lives.
    const child = "sh -c 'until grep -q sleep /proc/$PPID/comm; do :; done'";
    const parent = spawn("sh", ["-c", `${child} & echo $!; exec sleep 60`], { stdio: ["ignore", "pipe", "ignore"] });
    try {
      const [chunk] = (await once(parent.stdout, "data")) as [Buffer];
      const pid = Number(chunk.toString());
      let stat = "";
      const deadline = performance.now() + 5000;
      while (!stat.includes(") Z ") && performance.now() < deadline) {
        stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        await new Promise(setImmediate);
      }
      expect(stat).toContain(") Z ");
      const release = lockDirectory(directory);
      const own = JSON.parse(readFileSync(join(directory, "lock"), "utf8")) as object;
      release();
      const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
      writeFileSync(join(directory, "lock"), JSON.stringify({ ...own, pid, started }));
      lockDirectory(directory)();
    } finally {
      parent.kill("SIGKILL");
    }
  });
});
