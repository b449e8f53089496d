import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { auditChecks } from "../../src/decide/audit/auditChecks.ts";

test("docs/audit.md has a row for each check, in order, in the words of the report", () => {
  const page = readFileSync(fileURLToPath(new URL("../../docs/audit.md", import.meta.url)), "utf8");
  const rows = page.split("\n").filter((line) => /^\| `[a-z-]+` \| .+ \| .+ \| .+ \|$/.test(line));
  expect(rows).toEqual(
    auditChecks.map(({ name, meaning, cause, cure }) => `| \`${name}\` | ${meaning} | ${cause} | ${cure} |`),
  );
});
