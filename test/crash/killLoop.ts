/**
 * Starts a child again and again on one data folder, kills it with SIGKILL at a random moment, and collects what
 * it said before. What the child does is its own business: it takes the directory as its first argument and prints
 * lines; whoever calls decides what a line promised.
 */
import { spawn } from "node:child_process";

export interface KillLoopOptions {
  /** Script and arguments for node, the data folder is appended. */
  script: readonly string[];
  directory: string;
  rounds: number;
  /** A whole number below the bound. */
  below(bound: number): number;
  /** The kill comes this many milliseconds after the first line, at most. */
  killAfterMsMax: number;
  /** Called with every whole line, in order. */
  onLine(line: string, round: number): void;
  /** Called when the child is gone; it may look at the directory. */
  afterKill(round: number): Promise<void>;
}

export async function killLoop(options: KillLoopOptions): Promise<void> {
  for (let round = 0; round < options.rounds; round++) {
    const child = spawn(process.execPath, [...options.script, options.directory], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let complaint = "";
    child.stderr.on("data", (chunk: Buffer) => {
      complaint += chunk.toString();
    });
    let killed = false;
    let timer: NodeJS.Timeout | undefined;
    const delayMs = options.below(options.killAfterMsMax * 1000) / 1000;
    // A line without its end was cut by the kill and promises nothing.
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      timer ??= setTimeout(() => {
        killed = true;
        child.kill("SIGKILL");
      }, delayMs);
    });
    await new Promise<void>((resolve) => child.once("close", () => resolve()));
    clearTimeout(timer);
    if (!killed) throw new Error(`round ${round}: the child ended by itself: ${complaint}`);
    const whole = text.slice(0, text.lastIndexOf("\n") + 1);
    for (const line of whole.split("\n")) if (line !== "") options.onLine(line, round);
    await options.afterKill(round);
  }
}
