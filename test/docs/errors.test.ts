import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Codes of errors in TypeScript, and of the two scripts that run before anything is compiled. */
function codesInSource(): Set<string> {
  const codes = new Set<string>();
  const sources = ["src", "bench"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)),
  );
  for (const path of sources.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))) {
    const text = readFileSync(join(root, path), "utf8");
    for (const match of text.matchAll(/new (?:User|Usage)Error\(\s*([^\s,]+)/g)) {
      // A code that is not written out where it is thrown could not be found by who looks for it.
      expect(match[1], path).toMatch(/^"[a-z-]+"$/);
      codes.add((match[1] as string).slice(1, -1));
    }
  }
  for (const path of ["muster", "tools/ready.mjs"]) {
    const text = readFileSync(join(root, path), "utf8");
    for (const match of text.matchAll(/muster: .*\(([a-z]+(?:-[a-z]+)+)\)/g)) codes.add(match[1] as string);
  }
  return codes;
}

test("docs/errors.md lists every error code of the source, in order, and no other", () => {
  const page = readFileSync(join(root, "docs/errors.md"), "utf8");
  const listed = [...page.matchAll(/^\| `([a-z-]+)` \| .+ \| .+ \|$/gm)].map((match) => match[1]);
  expect(listed).toEqual([...codesInSource()].sort());
});
