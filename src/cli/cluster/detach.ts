import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { makeFolder } from "../../adapters/disk/makeFolder.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { UserError } from "../../model/userError.ts";
import { refuseRunning } from "./embeddedServer.ts";
import { type RunningCluster, runningCluster } from "./runningCluster.ts";

const pollMs = 50;

/** Starts `muster up` in the background with the same flags, and waits until it is ready. Its output goes to a file. */
export async function startDetached(
  dataDir: string,
  args: readonly string[],
): Promise<RunningCluster & { log: string }> {
  const folder = resolve(dataDir);
  refuseRunning(folder);
  await makeFolder(folder, 0o711);
  const log = join(folder, "up.log");
  const file = openSync(log, "w", 0o600);
  const program = process.argv[1] ?? "";
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    detached: true,
    stdio: ["ignore", file, file],
  });
  let exitCode: number | null | undefined;
  child.once("exit", (code) => {
    exitCode = code;
  });
  child.unref();
  const clock = systemClock();
  for (;;) {
    const running = runningCluster(folder);
    if (running !== undefined && running.pid === child.pid) return { ...running, log };
    if (exitCode !== undefined) {
      const said = (await readFile(log, "utf8")).trim();
      throw new UserError(
        "cluster-not-started",
        `the cluster did not start (exit code ${exitCode})${said === "" ? "" : `: ${said}`}`,
        `fix the problem that ${log} names, and run \`muster up --detach\` again`,
      );
    }
    await new Promise<void>((done) => clock.after(pollMs, done));
  }
}
