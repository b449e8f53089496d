// Runs the suites against a real Kubernetes, or says why it cannot. `--nodes` takes real nodes of `muster up` instead,
// `--long` plays many rounds; other words go to vitest.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const long = process.argv.includes("--long");
const isLab = process.argv.includes("--nodes");
const rest = process.argv.slice(2).filter((word) => word !== "--long" && word !== "--nodes");
const folder = mkdtempSync(join(tmpdir(), "muster-real-"));
const { status } = spawnSync(
  process.execPath,
  [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", join(root, "test/real/vitest.config.ts"), ...rest],
  {
    cwd: root,
    stdio: "inherit",
    env: {
      ...process.env,
      MUSTER_REAL_FOLDER: folder,
      MUSTER_REAL_FILE: isLab ? "nodes" : "real",
      ...(long ? { MUSTER_LONG: "1" } : {}),
    },
  },
);
endLeftovers();
if (status === 0) rmSync(folder, { recursive: true, force: true });
else process.stderr.write(`logs of all processes: ${folder}\n`);
process.exit(status ?? 1);

/** Programs of the cluster outlive a test runner that was killed; each has written its number. */
function endLeftovers() {
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    // Not those that containerd has written deeper down.
    if (!/(^|\/)(bare|plane|programs|node-\d+)\/[^/]+\.pid$/.test(path)) continue;
    const pid = Number(readFileSync(join(folder, path), "utf8"));
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}
