import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { diskKeyFiles } from "./diskKeyFiles.ts";
import { writePrivateFile } from "./privateFile.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-keys-"));
});
afterEach(() => rm(folder, { recursive: true }));

const rights = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

test("a key can be read by its owner only, and so can its folder, even if it was there before", async () => {
  const pki = join(folder, "pki");
  await mkdir(pki, { mode: 0o755 });
  const files = diskKeyFiles(pki);
  await files.write("ca.key", "secret");
  expect(await files.read("ca.key")).toBe("secret");
  expect(await rights(pki)).toBe("700");
  expect(await rights(join(pki, "ca.key"))).toBe("600");
});

test("a second write replaces the first and leaves nothing beside it", async () => {
  const files = diskKeyFiles(folder);
  await files.write("ca.key", "one");
  await files.write("ca.key", "two");
  expect(await files.read("ca.key")).toBe("two");
  expect(await readdir(folder)).toEqual(["ca.key"]);
});

test("a missing file is undefined, not an error", async () => {
  expect(await diskKeyFiles(join(folder, "nowhere")).read("ca.key")).toBeUndefined();
});

test("a name cannot lead out of the folder", async () => {
  await expect(diskKeyFiles(folder).read("../x")).rejects.toThrow("not a plain file name");
  await expect(diskKeyFiles(folder).write("..", "x")).rejects.toThrow("not a plain file name");
});

test("a kubeconfig lands in folders that did not exist, readable by its owner only", async () => {
  const path = join(folder, "a", "b", "config");
  await writePrivateFile(path, "apiVersion: v1\n");
  expect(await rights(path)).toBe("600");
});
