import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const below = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name));
const pages = ["README.md", "CHANGELOG.md", ...below("docs"), ...below("examples")].filter((path) =>
  path.endsWith(".md"),
);

test.each(pages)("%s links only to what exists", (page) => {
  const text = readFileSync(join(root, page), "utf8");
  const targets = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map((match) => match[1] as string);
  const broken = targets.filter((to) => !to.startsWith("http") && !existsSync(join(root, dirname(page), to)));
  expect(broken).toEqual([]);
});

test.each(pages)("%s names only source paths that exist", (page) => {
  const text = readFileSync(join(root, page), "utf8");
  const paths = [...text.matchAll(/`((?:src|test|tools|docs|examples)\/[A-Za-z0-9_./-]+)`/g)].map(
    (m) => m[1] as string,
  );
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
