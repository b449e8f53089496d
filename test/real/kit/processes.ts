import { type ChildProcess, execFile, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { peers } from "./peers.ts";

const env = { ...process.env, PATH: `${join(peers, "bin")}:${process.env["PATH"]}` };

/** Runs a program to its end. Its output, or an error with what it said. */
export function ran(
  program: string,
  args: readonly string[],
  options: { input?: string; cwd?: string } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const { input, ...rest } = options;
    const child = execFile(program, args, { env, maxBuffer: 1 << 28, ...rest }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(" ")}: ${stderr || error.message}`));
    });
    // Most programs read nothing and may have ended before.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input ?? "");
  });
}

/** Programs that run beside the tests, each with its log. */
export class Processes {
  readonly folder: string;
  private readonly running = new Map<string, ChildProcess>();

  constructor(folder: string) {
    this.folder = folder;
  }

  start(name: string, program: string, args: readonly string[]): ChildProcess {
    const log = openSync(join(this.folder, `${name}.log`), "a");
    const child = spawn(program, args, { env, stdio: ["ignore", log, log], detached: true });
    closeSync(log);
    // For the runner, which ends what a killed test leaves behind.
    writeFileSync(join(this.folder, `${name}.pid`), String(child.pid));
    this.running.set(name, child);
    return child;
  }

  pid(name: string): number {
    const pid = this.running.get(name)?.pid;
    if (pid === undefined) throw new Error(`${name} was not started`);
    return pid;
  }

  log(name: string): string {
    return readFileSync(join(this.folder, `${name}.log`), "utf8");
  }

  /** Ends a program, and waits until it has ended. */
  async stop(name: string, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.running.get(name);
    if (child === undefined) return;
    this.running.delete(name);
    rmSync(join(this.folder, `${name}.pid`), { force: true });
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(signal);
    const patience = setTimeout(() => child.kill("SIGKILL"), 15_000);
    await ended;
    clearTimeout(patience);
  }

  async stopAll(): Promise<void> {
    for (const name of [...this.running.keys()].reverse()) await this.stop(name);
  }
}

/** Processes in the containers of a pod, by its UID; the one that holds its namespaces is none of them. */
export function pidsOfPod(uid: string): number[] {
  const marks = [uid, uid.replaceAll("-", "_")];
  const isOfPod = (pid: string): boolean => {
    try {
      const cgroup = readFileSync(`/proc/${pid}/cgroup`, "utf8");
      if (!marks.some((mark) => cgroup.includes(mark))) return false;
      return !readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("/pause");
    } catch {
      return false;
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && isOfPod(name))
    .map(Number);
}

/** Ports that nothing listens on now. */
export async function freePorts(count: number, host = "127.0.0.1"): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
          const server = createServer();
          server.once("error", reject);
          server.listen(0, host, () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Waits on the world; what it still lacks is in the error of a test that runs into its time-out. */
export async function until(
  holds: () => Promise<unknown>,
  withinMs = 120_000,
  what: () => unknown = () => "",
): Promise<void> {
  const lastMs = Date.now() + withinMs;
  for (;;) {
    let problem: unknown = "";
    const held = await holds().catch((error: unknown) => {
      problem = error;
      return false;
    });
    if (held) return;
    if (Date.now() > lastMs)
      throw new Error(`not within ${withinMs / 1000} s: ${String(await what())} ${String(problem)}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
