import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { faultKinds } from "../../src/kubelet/node/faults.ts";

test("the page about simulated nodes lists every fault with its parameters", () => {
  const page = readFileSync(new URL("../../docs/simulated-nodes.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| (node|pod|api) \| .* \| (.*) \|$/gm)].map((match) =>
    match.slice(1),
  );
  const expected = Object.entries(faultKinds).map(([kind, { target, params }]) => {
    const names = Object.keys(params).map((name) => `\`${name}\``);
    return [kind, target, names.join(", ") || "-"];
  });
  expect(rows).toEqual(expected);
});
