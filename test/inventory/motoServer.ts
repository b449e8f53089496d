/** moto, an AWS that others wrote: the program on the PATH, or a copy of it in a cache folder of its own. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

const version = "5.2.1";
const cache = join(import.meta.dirname, "../../node_modules/.cache");

export type FoundMoto = { readonly program: string } | { readonly missing: string };

/** Where moto_server is, or why there is none. */
export function findMoto(): FoundMoto {
  if (spawnSync("moto_server", ["--help"], { timeout: 60_000 }).status === 0) return { program: "moto_server" };
  const home = join(cache, `moto-${version}`);
  const program = join(home, "bin/moto_server");
  if (existsSync(program)) return { program };
  if (spawnSync("python3", ["--version"]).status !== 0) return { missing: "python3 is not on the PATH" };
  let isWhole = false;
  mkdirSync(cache, { recursive: true });
  try {
    const made = spawnSync("python3", ["-m", "venv", home], { encoding: "utf8", timeout: 120_000 });
    if (made.status !== 0) return { missing: `no virtual environment: ${lastLine(made.stderr)}` };
    const args = [
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "--retries",
      "1",
      "--timeout",
      "15",
      `moto[server]==${version}`,
    ];
    const installed = spawnSync(join(home, "bin/pip"), args, { encoding: "utf8", timeout: 300_000 });
    isWhole = installed.status === 0 && existsSync(program);
    return isWhole ? { program } : { missing: `moto cannot be installed: ${lastLine(installed.stderr)}` };
  } finally {
    // Half of one would be taken for a whole one next time.
    if (!isWhole) rmSync(home, { recursive: true, force: true });
  }
}

export interface MotoServer {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startMoto(program: string): Promise<MotoServer> {
  const port = await freePort();
  const child: ChildProcess = spawn(program, ["-H", "127.0.0.1", "-p", String(port)], {
    stdio: "ignore",
    env: { ...process.env, MOTO_EC2_LOAD_DEFAULT_AMIS: "true" },
  });
  const ended = new Promise<void>((done) => {
    child.once("exit", () => done());
  });
  const url = `http://127.0.0.1:${port}`;
  while (child.exitCode === null && !(await answers(`${url}/moto-api/`))) {
    await new Promise((done) => setTimeout(done, 100));
  }
  if (child.exitCode !== null) throw new Error(`moto_server ended with ${child.exitCode}`);
  return {
    url,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
