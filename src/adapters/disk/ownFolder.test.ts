import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { requireOwnFolder } from "./ownFolder.ts";

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "own-folder-"));
});
afterEach(() => rmSync(base, { recursive: true }));

function folder(mode: number): string {
  const path = join(base, "folder");
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

test.each([0o700, 0o711, 0o755])("a folder of this user with mode %o is trusted", (mode) => {
  expect(() => requireOwnFolder(folder(mode))).not.toThrow();
});

test.each([0o770, 0o707, 0o1777])("a folder that other users can write, with mode %o, is refused", (mode) => {
  expect(() => requireOwnFolder(folder(mode))).toThrow("can be written by other users");
});

test("a link to a folder of this user is refused", () => {
  const link = join(base, "link");
  symlinkSync(folder(0o700), link);
  expect(() => requireOwnFolder(link)).toThrow("is not a directory");
});

test("a file is refused", () => {
  writeFileSync(join(base, "file"), "");
  expect(() => requireOwnFolder(join(base, "file"))).toThrow("is not a directory");
});

test.skipIf(process.getuid?.() !== 0)("a folder of another user is refused, also by root", () => {
  const path = folder(0o700);
  chownSync(path, 65534, 65534);
  expect(() => requireOwnFolder(path)).toThrow("belongs to user 65534");
});
