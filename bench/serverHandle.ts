import { type ChildProcess, fork } from "node:child_process";
import { childProgram } from "./childProgram.ts";
import type { Peer } from "./rawHttp.ts";
import type { Command } from "./serverProcess.ts";

export interface Started {
  readonly port: number;
  readonly startMs: number;
  readonly processMs: number;
  readonly rssBytes: number;
  readonly kubeconfig: string;
  readonly tls: { ca: string; cert: string; key: string };
}

export interface Usage {
  readonly cpuMs: number;
  readonly rssBytes: number;
  readonly revision: number;
}

/** A server in a process of its own. */
export class ServerHandle {
  private readonly child: ChildProcess;
  private started: Started | undefined;
  private tls = false;

  constructor() {
    this.child = fork(childProgram("serverProcess"), {
      stdio: "inherit",
    });
  }

  async start(options: { dataDir?: string; tls: boolean }): Promise<Started> {
    this.tls = options.tls;
    this.started = (await this.send({ do: "start", ...options })) as Started;
    return this.started;
  }

  send(command: Command): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`the server of the benchmark ended with code ${code}`));
      this.child.once("message", (message: { ok: boolean; answer: unknown; error?: string }) => {
        this.child.off("exit", onExit);
        if (message.ok) resolve(message.answer);
        else reject(new Error(message.error));
      });
      this.child.once("exit", onExit);
      this.child.send(command);
    });
  }

  async usage(): Promise<Usage> {
    return (await this.send({ do: "usage" })) as Usage;
  }

  peer(): Peer {
    if (this.started === undefined) throw new Error("the server was not started");
    const { port, tls } = this.started;
    return this.tls ? { host: "127.0.0.1", port, tls } : { host: "127.0.0.1", port, tls: undefined, token: "bench" };
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }
}
