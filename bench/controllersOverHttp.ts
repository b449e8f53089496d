import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Controllers in a process of their own, as on a remote cluster. */
export interface ControllersOverHttp {
  /** Never resolves; rejects when they end on their own, with the last lines of their output. */
  readonly ended: Promise<never>;
  stop(): void;
}

/** Starts `muster run` on a cluster and waits until it is ready. */
export async function startControllersOverHttp(
  kubeconfig: string,
  flags: readonly string[],
): Promise<ControllersOverHttp> {
  // The program that runs this benchmark, bundled or not.
  const program = process.argv[1] ?? "";
  const args = [program, "run", "--kubeconfig", kubeconfig, "--status-address", "127.0.0.1:0", ...flags];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let lastWords = "";
  child.stderr.on("data", (chunk) => {
    lastWords = `${lastWords}${String(chunk)}`.slice(-2_000);
  });
  const ended = new Promise<never>((_, reject) => {
    child.once("exit", (code) => reject(new Error(`muster run ended with code ${code}: ${lastWords}`)));
  });
  // `ended` is awaited by the callers. Without this a stop would be an unhandled rejection.
  ended.catch(() => {});
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith("ready:")) resolve();
    });
  });
  await Promise.race([ready, ended]);
  return { ended, stop: () => void child.kill() };
}
