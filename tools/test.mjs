// Runs every test, and ends with one line that says how many passed, failed and were skipped, and why.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const long = process.argv.includes("--long");
const rest = process.argv.slice(2).filter((word) => word !== "--long");
const folder = mkdtempSync(join(tmpdir(), "muster-test-"));
const report = join(folder, "report.json");
const startedMs = Date.now();

step("lint", [join(root, "node_modules/@biomejs/biome/bin/biome"), "check", "."]);
step("types", [join(root, "node_modules/typescript/bin/tsc"), "-b"]);
const { status } = spawnSync(
  process.execPath,
  [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...rest,
  ],
  { cwd: root, stdio: "inherit", env: { ...process.env, ...(long ? { MUSTER_LONG: "1" } : {}) } },
);
summarise();
rmSync(folder, { recursive: true, force: true });
process.exit(status ?? 1);

function step(name, args) {
  const result = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (result.status === 0) return;
  process.stderr.write(`muster: ${name} failed\n`);
  process.exit(1);
}

function summarise() {
  let found;
  try {
    found = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    return;
  }
  const skipped = found.testResults.flatMap((file) =>
    file.assertionResults.filter(({ status: outcome }) => outcome === "pending" || outcome === "skipped"),
  );
  for (const { fullName } of skipped) process.stdout.write(`skipped: ${fullName}\n`);
  process.stdout.write(`${Math.round((Date.now() - startedMs) / 1000)} s\n`);
  process.stdout.write(`${found.numPassedTests} passed, ${found.numFailedTests} failed, ${skipped.length} skipped\n`);
}
