/** A server in a process of its own with little memory, and a client that asks it whether it still answers. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), "dist/bundle/program/main.js");

/** Enough for an ordinary cluster of a few nodes; an array of two thousand million entries is not ordinary. */
const ordinaryHeapMiB = 512;

export interface Reply {
  readonly code: number;
  // biome-ignore lint/suspicious/noExplicitAny: assertions walk into objects of every kind.
  readonly body: any;
}

export class BoundedUp {
  readonly folder: string;
  private child: ChildProcess | undefined;
  private agent: Agent | undefined;
  private url = "";
  private isWatching = false;
  private watching: Promise<void> | undefined;
  /** How the process ended by itself, if it did. */
  ended: string | undefined;
  /** How often the server said that it is ready. */
  readyCount = 0;
  /** What the process wrote to standard error since its start. */
  complaints = "";

  private readonly heapMiB: number;

  constructor(folder = mkdtempSync(join(tmpdir(), "muster-hostile-")), heapMiB = ordinaryHeapMiB) {
    this.folder = folder;
    this.heapMiB = heapMiB;
  }

  /** `muster up` with two simulated nodes. */
  start(...flags: string[]): Promise<void> {
    return this.run("up", "--log-level", "error", "--pool", "h100=2", ...flags);
  }

  async run(command: "up" | "apiserver", ...flags: string[]): Promise<void> {
    const args = [command, "--port", "0", "--data-dir", this.folder, ...flags];
    const child = spawn(process.execPath, [`--max-old-space-size=${this.heapMiB}`, program, ...args, "-o", "json"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    this.ended = undefined;
    this.complaints = "";
    child.stderr.on("data", (data: Buffer) => {
      this.complaints += data.toString("utf8");
    });
    child.once("exit", (code, signal) => {
      this.ended = `it ended with ${code ?? signal}`;
    });
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const first = await Promise.race([once(lines, "line"), once(child, "close").then(() => undefined)]);
    if (first === undefined) throw new Error(this.ended);
    const config = readFileSync(join(this.folder, "kubeconfig"), "utf8");
    const part = (key: string): Buffer =>
      Buffer.from(new RegExp(`${key}: (\\S+)`).exec(config)?.[1]?.replaceAll('"', "") ?? "", "base64");
    this.url = (JSON.parse(String(first[0])) as { api: string }).api;
    this.agent = new Agent({
      keepAlive: true,
      ca: part("certificate-authority-data"),
      cert: part("client-certificate-data"),
      key: part("client-key-data"),
    });
    this.isWatching = true;
    this.watching = this.watchReadiness();
  }

  /** Asks all the time; an answer that does not come is a test that does not end. */
  private async watchReadiness(): Promise<void> {
    while (this.isWatching && this.ended === undefined) {
      const { code } = await this.call("GET", "/readyz").catch(() => ({ code: 0 }));
      if (code === 200) this.readyCount++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** The next answer of /readyz to a question asked from now on. */
  async stillReady(): Promise<void> {
    const seen = this.readyCount;
    await this.until(async () => this.readyCount > seen + 1);
  }

  async until(holds: () => Promise<boolean>): Promise<void> {
    while (!(await holds())) {
      if (this.ended !== undefined) throw new Error(this.ended);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  call(method: string, path: string, body?: object): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
      const asked = request(
        `${this.url}${path}`,
        { method, agent: this.agent, headers: { "content-type": type } },
        (answer) => {
          const parts: Buffer[] = [];
          answer.on("data", (data: Buffer) => parts.push(data));
          answer.on("error", reject);
          answer.on("end", () => {
            const text = Buffer.concat(parts).toString("utf8");
            try {
              resolve({ code: answer.statusCode ?? 0, body: text.startsWith("{") ? JSON.parse(text) : text });
            } catch (error) {
              reject(error as Error);
            }
          });
        },
      );
      asked.on("error", (error) => reject(new Error(this.ended ?? error.message)));
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** Whether there are so many objects of a kind that a selector picks. */
  async has(path: string, labelSelector: string, atLeast: number): Promise<boolean> {
    const { body } = await this.call(
      "GET",
      `${path}?limit=${atLeast}&labelSelector=${encodeURIComponent(labelSelector)}`,
    );
    return (body.items?.length ?? 0) >= atLeast;
  }

  get pid(): number {
    return this.child?.pid ?? 0;
  }

  /** Resolves when the process has ended by itself. */
  async whenEnded(): Promise<void> {
    if (this.child !== undefined && this.ended === undefined) await once(this.child, "exit");
  }

  async stop(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.isWatching = false;
    const { child } = this;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const gone = once(child, "exit");
      child.kill(signal);
      await gone;
    }
    await this.watching;
    this.agent?.destroy();
  }

  async end(): Promise<void> {
    await this.stop("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}
