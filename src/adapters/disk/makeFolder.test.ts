import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeFolder } from "./makeFolder.ts";

let home = "";

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "muster-folder-"));
});

afterEach(async () => {
  await rm(home, { recursive: true });
});

test("folders above are made too, with the same mode", async () => {
  await makeFolder(join(home, "a", "b", "c"), 0o700);
  expect((await stat(join(home, "a"))).mode & 0o777).toBe(0o700);
  expect((await stat(join(home, "a", "b", "c"))).isDirectory()).toBe(true);
});

test("one that is there already is left as it is", async () => {
  await makeFolder(join(home, "a"), 0o750);
  await makeFolder(join(home, "a"), 0o700);
  expect((await stat(join(home, "a"))).mode & 0o777).toBe(0o750);
});

test.each([
  ["a file of its name", "file", "EEXIST"],
  ["a file above it", "file/folder", "ENOTDIR"],
])("%s is an error", async (_, path, code) => {
  await writeFile(join(home, "file"), "");
  await expect(makeFolder(join(home, path))).rejects.toMatchObject({ code });
});

test.runIf(process.platform === "linux")("where the system makes no folders it ends, with an error", async () => {
  await expect(makeFolder("/proc/x/y")).rejects.toMatchObject({ code: "ENOENT" });
});
