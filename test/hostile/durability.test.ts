/**
 * Nothing that was acknowledged is lost, or is lost in silence, whatever happens to the process, its files and its
 * disk. An independent client keeps its own record of what it was promised.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { BoundedUp } from "./boundedUp.ts";
import { ClientRecord } from "./clientRecord.ts";

const rounds = process.env["MUSTER_LONG"] === "1" ? 50 : 4;

let up: BoundedUp;
const cleanUps: (() => void)[] = [];
afterEach(async () => {
  await up.stop("SIGKILL");
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
  rmSync(up.folder, { recursive: true, force: true });
});

let state = 20_261_118;
function below(bound: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * bound);
}

const store = (): string => join(up.folder, "apiserver");
const logs = (): string[] =>
  readdirSync(store())
    .filter((name) => name.startsWith("log-"))
    .map((name) => join(store(), name));
const files = (): string[] =>
  readdirSync(store())
    .filter((name) => name !== "lock" && statSync(join(store(), name)).size > 0)
    .map((name) => join(store(), name));

/** A folder with acknowledged writes whose server was killed. */
async function killedFolder(record: ClientRecord): Promise<void> {
  up = new BoundedUp();
  await up.run("apiserver");
  await record.write(up, 120);
  await up.stop("SIGKILL");
}

/** The start is refused with one of the codes, and the folder is as it was. */
async function expectRefusal(...codes: string[]): Promise<void> {
  const before = new Map(files().map((path) => [path, readFileSync(path, "latin1")]));
  await expect(up.run("apiserver")).rejects.toThrow("it ended with 1");
  expect(codes.find((code) => up.complaints.includes(`(${code})`)) ?? up.complaints).toBeOneOf(codes);
  expect(up.complaints).toContain("try: ");
  for (const [path, content] of before) expect(readFileSync(path, "latin1") === content, path).toBe(true);
}

test(`a server killed ${rounds} times under load keeps every acknowledged write`, async () => {
  const record = new ClientRecord();
  up = new BoundedUp();
  for (let round = 0; round < rounds; round++) {
    await up.run("apiserver");
    expect(await record.broken(up), `round ${round}`).toEqual([]);
    const killed = record.write(up, Number.POSITIVE_INFINITY);
    const due = record.acknowledged + 30 + below(100);
    await up.until(async () => record.acknowledged >= due);
    await up.stop("SIGKILL");
    await killed;
  }
  await up.run("apiserver");
  expect(await record.broken(up)).toEqual([]);
});

/** After a start that was not refused everything is there; after one that was, the undamaged files still have it. */
async function staysOrIsRefused(record: ClientRecord, where: string): Promise<"refused" | "kept"> {
  try {
    await up.run("apiserver");
  } catch {
    expect(up.complaints, where).toMatch(/\(store-(corrupt|lost|incomplete|version)\)\n {2}try: /);
    return "refused";
  }
  expect(await record.broken(up), where).toEqual([]);
  await up.stop("SIGKILL");
  return "kept";
}

test.each([
  {
    name: "one bit flipped",
    damage(path: string): string {
      const at = below(statSync(path).size);
      const file = openSync(path, "r+");
      writeSync(file, Buffer.from([(readFileSync(path)[at] as number) ^ (1 << below(8))]), 0, 1, at);
      return `bit of byte ${at}`;
    },
  },
  {
    name: "a file cut off",
    damage(path: string): string {
      const size = below(statSync(path).size);
      truncateSync(path, size);
      return `cut to ${size}`;
    },
  },
])(`${rounds} folders with $name are refused or keep every acknowledged write`, async ({ damage }) => {
  const record = new ClientRecord();
  await killedFolder(record);
  const whole = mkdtempSync(join(tmpdir(), "muster-whole-"));
  cleanUps.push(() => rmSync(whole, { recursive: true, force: true }));
  cpSync(store(), whole, { recursive: true });
  let refused = 0;
  for (let round = 0; round < rounds; round++) {
    const candidates = files();
    const path = candidates[below(candidates.length)] as string;
    const what = damage(path);
    if ((await staysOrIsRefused(record, `${path}: ${what}`)) === "refused") refused++;
    rmSync(store(), { recursive: true });
    cpSync(whole, store(), { recursive: true });
  }
  expect(refused).toBeGreaterThan(0);
  await up.run("apiserver");
  expect(await record.broken(up)).toEqual([]);
});

test("a log that was removed, emptied or cut at a record is refused with the cure, and started where the loss is accepted", async () => {
  const record = new ClientRecord();
  await killedFolder(record);
  const [log = ""] = logs();
  const content = readFileSync(log);
  rmSync(log);
  await expectRefusal("store-lost");
  writeFileSync(log, "");
  await expectRefusal("store-lost");
  // At the beginning of a record: nothing in the log itself shows that more stood there.
  const marker = Buffer.from([0xf5, 0x4d, 0x46, 0xf8]);
  const cutAt = content.indexOf(marker, content.length >> 1);
  writeFileSync(log, content.subarray(0, cutAt));
  await expectRefusal("store-lost");

  await up.run("apiserver", "--accept-loss");
  const report = /after revision (\d+) up to revision (\d+) are gone/.exec(up.complaints);
  const [after, upTo] = [Number(report?.[1]), Number(report?.[2])];
  expect(upTo).toBeGreaterThanOrEqual(record.newest);
  expect(after).toBeLessThan(upTo);
  expect(await record.broken(up, after)).toEqual([]);
  const watch = await up.call("GET", `/api/v1/configmaps?watch=1&resourceVersion=${record.newest}&timeoutSeconds=1`);
  expect(watch.body).toMatchObject({ type: "ERROR", object: { code: 410 } });
  record.forgetAfter(after);
  await record.write(up, 20);
  await up.stop("SIGTERM");
  await up.run("apiserver");
  expect(await record.broken(up)).toEqual([]);
});

test("a folder with keys and without the store is refused, and starts empty where the loss is accepted", async () => {
  await killedFolder(new ClientRecord());
  rmSync(store(), { recursive: true });
  await expect(up.run("apiserver")).rejects.toThrow("it ended with 1");
  expect(up.complaints).toContain("(store-missing)");
  await up.run("apiserver", "--accept-loss");
  expect(up.complaints).toContain("every object of");
});

test("a folder that vanishes ends the server with the reason; no write is acknowledged after it", async () => {
  const record = new ClientRecord();
  up = new BoundedUp();
  await up.run("apiserver");
  await record.write(up, 20);
  rmSync(store(), { recursive: true });
  const before = record.acknowledged;
  await record.write(up, 1);
  expect({ more: record.acknowledged - before, codes: new Set(record.refusals) }).toEqual({
    more: 0,
    codes: new Set([503]),
  });
  await up.whenEnded();
  expect(up.complaints).toContain("the file was removed, moved or replaced (store-failed)");
});

test("a folder that vanishes while nothing is written ends the server too", async () => {
  up = new BoundedUp();
  await up.run("apiserver");
  rmSync(store(), { recursive: true });
  await up.whenEnded();
  expect(up.complaints).toContain("(store-failed)");
});

/** Only root may mount. */
const mounts = process.platform === "linux" && process.getuid?.() === 0 && canMount();

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "muster-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test.skipIf(!mounts)("a full disk is 503, and everything acknowledged is there when there is room again", async () => {
  const record = new ClientRecord();
  const folder = mkdtempSync(join(tmpdir(), "muster-full-"));
  up = new BoundedUp(folder);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]);
  cleanUps.push(() => execFileSync("umount", ["-l", folder]));
  await up.run("apiserver");
  await record.write(up, Number.POSITIVE_INFINITY, 4000);
  expect(record.acknowledged).toBeGreaterThan(50);
  expect(new Set(record.refusals)).toEqual(new Set([503]));
  await up.whenEnded();
  expect(up.complaints).toContain("ENOSPC");
  expect(up.complaints).toContain("(store-failed)");
  execFileSync("mount", ["-o", "remount,size=8m", folder]);
  await up.run("apiserver");
  expect(await record.broken(up)).toEqual([]);
});

test.skipIf(!mounts || process.env["MUSTER_LONG"] === undefined)(
  "a folder that becomes read-only ends the server with the reason and loses nothing",
  async () => {
    const record = new ClientRecord();
    up = new BoundedUp();
    await up.run("apiserver");
    await record.write(up, 20);
    // Over the open files: the kernel keeps them writable, and refuses every new one.
    execFileSync("mount", ["--bind", up.folder, up.folder]);
    execFileSync("mount", ["-o", "remount,bind,ro", up.folder]);
    const writing = record.write(up, Number.POSITIVE_INFINITY);
    await up.whenEnded();
    await writing;
    expect(up.complaints).toMatch(/EROFS.*\(store-failed\)/);
    expect(new Set(record.refusals)).toEqual(new Set([503]));
    execFileSync("umount", [up.folder]);
    await up.run("apiserver");
    expect(await record.broken(up)).toEqual([]);
  },
);
