import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { builtinResources } from "../../src/apiserver/builtinResources.ts";

test("docs/kubernetes.md lists every served kind under its group and version, and no other", () => {
  const page = readFileSync(new URL("../../docs/kubernetes.md", import.meta.url), "utf8");
  const section = page.slice(page.indexOf("## Kinds"), page.indexOf("## Known differences"));
  const listed = [...section.matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)].map((match) => `${match[1]}: ${match[2]}`);
  const served = new Map<string, string[]>();
  for (const { group, version, kind } of builtinResources()) {
    const name = group === "" ? version : `${group}/${version}`;
    served.set(name, [...(served.get(name) ?? []), kind]);
  }
  expect(listed).toEqual([...served].map(([name, kinds]) => `${name}: ${kinds.join(", ")}`));
});
