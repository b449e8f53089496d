/** The frame of a command whose exit code is a verdict: signals, output, errors. */
import type { VerifyError } from "../../decide/verify/verifyResult.ts";
import { UserError } from "../../model/userError.ts";
import { CancelSource } from "../../ports/cancelSource.ts";

/** A reader that closes the pipe must not change the verdict. */
export function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Where the reports of this process go. */
export const processOutput = {
  env: process.env,
  out: (text: string): void => void process.stdout.write(text),
  err: (text: string): void => void process.stderr.write(text),
};

/** Writes the reports and ends the process with the exit code of the run. */
export async function endRun(
  { exitCode, error }: { readonly exitCode: number; readonly error?: VerifyError },
  signals: Signals,
  deliver: () => void,
): Promise<never> {
  process.exitCode = exitCode;
  deliver();
  if (error !== undefined) process.stderr.write(`muster: ${error.message}\n`);
  signals.stop();
  await flushed();
  // A cancelled request may still be running: a credential plug-in can keep the process alive for a minute.
  process.exit();
}

/** Waits until all output has been flushed, unless the reader has closed the pipe. */
async function flushed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((resolve) => {
      if (!stream.writable) resolve();
      else stream.write("", () => resolve());
    });
  }
}

/** Compression costs more than it saves when the server is on this machine. */
export function isLocal(server: string): boolean {
  const { hostname } = new URL(server);
  return hostname === "localhost" || hostname === "127.0.0.1" || hostname === "[::1]";
}

export function errorText({ message, code, cure }: UserError): string {
  return `muster: ${message} (${code})\n  try: ${cure}\n`;
}

/** A run that throws has no verdict: a bug of Muster must not look like a failure of the cluster. */
export function errorOfRun(error: unknown, command: string): VerifyError {
  if (error instanceof UserError) {
    return { class: "setup", message: `${error.message} (${error.code}); try: ${error.cure}` };
  }
  process.stderr.write(`muster: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  const why = error instanceof Error ? error.message : String(error);
  return { class: "internal", message: `${command} itself failed: ${why}` };
}

const signalNumbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
type SignalName = keyof typeof signalNumbers;

/** The first signal ends the wait and prints the report, the second one ends the process. */
export class Signals {
  private readonly source = new CancelSource();
  private received: SignalName | undefined;

  constructor() {
    for (const name of Object.keys(signalNumbers) as SignalName[]) process.on(name, this.receive);
  }

  get cancel(): CancelSource {
    return this.source;
  }

  interrupted(): { message: string; exitCode: number } {
    const name = this.received ?? "SIGINT";
    return { message: `interrupted by ${name}`, exitCode: 128 + signalNumbers[name] };
  }

  stop(): void {
    for (const name of Object.keys(signalNumbers) as SignalName[]) process.off(name, this.receive);
  }

  private readonly receive = (name: SignalName): void => {
    if (this.received !== undefined) process.exit(128 + signalNumbers[name]);
    this.received = name;
    this.source.cancel();
  };
}
