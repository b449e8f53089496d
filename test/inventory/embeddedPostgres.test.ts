import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openEmbeddedPostgres, programsKey } from "../../src/adapters/disk/embeddedPostgres.ts";
import { openPostgres } from "../../src/adapters/postgres.ts";
import { bundled } from "../bundled.ts";
import { silentLog } from "./databases.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-embedded-"));
chmodSync(folder, 0o755);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/status`, "utf8").includes("State:\tZ");
  } catch {
    return false;
  }
};
const postmaster = (dataDir: string): number =>
  Number(readFileSync(join(dataDir, "postgres/data/postmaster.pid"), "utf8").split("\n")[0]);

test("an upgrade of the package in its folder gets a copy of its own", () => {
  const native = join(folder, "package/native");
  mkdirSync(join(native, "bin"), { recursive: true });
  const install = (version: string, program: string): string => {
    writeFileSync(join(folder, "package/package.json"), JSON.stringify({ version }));
    writeFileSync(join(native, "bin/postgres"), program);
    // npm gives every file of every package this time.
    utimesSync(join(native, "bin/postgres"), 499_162_500, 499_162_500);
    return programsKey(native);
  };
  const key = install("18.4.0", "one");
  expect(install("18.4.0", "one")).toBe(key);
  expect(install("18.5.0", "two")).not.toBe(key);
  expect(install("18.4.0", "a longer one")).not.toBe(key);
});

describe("the PostgreSQL of the data folder", () => {
  test("starts, keeps what was written across a restart, and is private", async () => {
    const dataDir = join(folder, "kept");
    const first = await openEmbeddedPostgres(dataDir);
    const database = await openPostgres({ url: first.url }, { log: silentLog });
    await database.migrate();
    await database.pool.query("insert into disks (user_id, disk_name) values ('ada', 'd')");
    await database.close();
    await first.stop();
    expect(existsSync(join(dataDir, "postgres/data/postmaster.pid"))).toBe(false);
    const second = await openEmbeddedPostgres(dataDir);
    const again = await openPostgres({ url: second.url }, { log: silentLog });
    expect((await again.pool.query("select disk_name from disks")).rows).toEqual([{ disk_name: "d" }]);
    await again.close();
    // Another command finds the one that runs, and leaves it running.
    const guest = await openEmbeddedPostgres(dataDir);
    expect(guest.url).toBe(second.url);
    await guest.stop();
    expect(alive(postmaster(dataDir))).toBe(true);
    await second.stop();
    for (const secret of ["password", "connection.json"])
      expect(statSync(join(dataDir, "postgres", secret)).mode & 0o077).toBe(0);
  });

  test("is not there at all when making it was given up half way, and is made by the next start", async () => {
    const dataDir = join(folder, "given-up");
    const stopping = new AbortController();
    const opening = openEmbeddedPostgres(dataDir, { signal: stopping.signal });
    const refused = expect(opening).rejects.toMatchObject({ code: "database-embedded-failed" });
    const half = join(dataDir, `postgres/data.${process.pid}`);
    while (!existsSync(join(half, "PG_VERSION"))) await new Promise((done) => setImmediate(done));
    stopping.abort();
    await refused;
    expect([half, join(dataDir, "postgres/data")].filter(existsSync)).toEqual([]);
    await (await openEmbeddedPostgres(dataDir)).stop();
  });

  test("makes nothing in the system's temporary folder, where any user could have put it before", async () => {
    const before = process.env["TMPDIR"];
    const temporary = join(folder, "temporary");
    mkdirSync(temporary);
    process.env["TMPDIR"] = temporary;
    try {
      await (await openEmbeddedPostgres(join(folder, "no-temporary"))).stop();
    } finally {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
    }
    expect(readdirSync(temporary)).toEqual([]);
    expect(statSync(join(folder, "no-temporary/postgres")).mode & 0o077).toBe(0o011);
  });

  test("refuses to run programs from a folder that is a link, or that others can write", async () => {
    const linked = join(folder, "linked");
    mkdirSync(linked);
    mkdirSync(join(folder, "elsewhere"));
    symlinkSync(join(folder, "elsewhere"), join(linked, "postgres"));
    await expect(openEmbeddedPostgres(linked)).rejects.toMatchObject({ code: "folder-untrusted" });
    const open = join(folder, "open");
    mkdirSync(join(open, "postgres"), { recursive: true });
    chmodSync(join(open, "postgres"), 0o777);
    await expect(openEmbeddedPostgres(open)).rejects.toMatchObject({ code: "folder-untrusted" });
  });

  test.skipIf(process.getuid?.() !== 0)("refuses, as root, the folder that another user put in its place", async () => {
    const hidden = join(folder, "hidden");
    mkdirSync(hidden, { mode: 0o700 });
    const home = join(hidden, "postgres");
    const planted = `/var/tmp/muster-postgres-${createHash("sha256").update(home).digest("hex").slice(0, 16)}`;
    try {
      symlinkSync(folder, planted);
      await expect(openEmbeddedPostgres(hidden)).rejects.toMatchObject({ code: "folder-untrusted" });
      rmSync(planted);
      mkdirSync(planted);
      chownSync(planted, 65534, 65534);
      await expect(openEmbeddedPostgres(hidden)).rejects.toMatchObject({ code: "folder-untrusted" });
    } finally {
      rmSync(planted, { recursive: true });
    }
  });

  test.skipIf(process.platform !== "linux")(
    "does not outlive the process that started it, even after kill -9, and starts again",
    async () => {
      const dataDir = join(folder, "killed");
      const source = new URL("../../src/adapters/disk/embeddedPostgres.ts", import.meta.url);
      const program = await bundled(source, "embeddedPostgres.mjs");
      const script = `const { openEmbeddedPostgres } = await import(${JSON.stringify(program)}); await openEmbeddedPostgres(${JSON.stringify(dataDir)}); console.log("up"); setInterval(() => {}, 1000);`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      await new Promise((done) => child.stdout.once("data", done));
      const pid = postmaster(dataDir);
      expect(alive(pid)).toBe(true);
      if (process.getuid?.() === 0) expect(statSync(join(dataDir, "postgres/data")).uid).not.toBe(0);
      child.kill("SIGKILL");
      await new Promise((done) => child.once("close", done));
      const next = await openEmbeddedPostgres(dataDir);
      expect(alive(pid)).toBe(false);
      await next.stop();
    },
  );
});
