import { access, constants, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { diskKeyFiles } from "../adapters/diskKeyFiles.ts";
import { FileStore } from "../adapters/fileStore.ts";
import { writePrivateFile } from "../adapters/privateFile.ts";
import { lockDirectory } from "../adapters/store/directoryLock.ts";
import { systemClock } from "../adapters/systemClock.ts";
import { systemRandom } from "../adapters/systemRandom.ts";
import { startApiServer } from "../apiserver/startApiServer.ts";
import { UserError } from "../model/userError.ts";

interface ApiServerFlags {
  port: string;
  host: string;
  dataDir: string;
  memory?: boolean;
  kubeconfig?: string;
  output: "text" | "json";
}

/** Runs the API server until a signal. */
export async function runApiServer(flags: ApiServerFlags): Promise<void> {
  const dataDir = resolve(flags.dataDir);
  const kubeconfig = resolve(flags.kubeconfig ?? join(dataDir, "kubeconfig"));
  const port = parsePort(flags.port);
  const clock = systemClock();
  const memory = flags.memory === true;
  const storeDir = join(dataDir, "apiserver");
  const store = memory ? undefined : new FileStore({ directory: storeDir, clock });
  await makeDataFolder(memory ? storeDir : dataDir);
  // A server that keeps nothing still writes its kubeconfig here; it must not take the place of one that runs.
  const unlock = memory && flags.kubeconfig === undefined ? lockDirectory(storeDir) : () => {};
  let storeFailed = (_: Error): void => {};
  const diskFailure = new Promise<Error>((resolve) => {
    storeFailed = resolve;
  });
  const server = await startApiServer({
    clock,
    random: systemRandom(),
    store,
    ...(memory ? {} : { keyFiles: diskKeyFiles(join(dataDir, "pki")) }),
    listen: { host: flags.host, port },
    onStoreFailure: (error) => storeFailed(error),
    log: ({ error, method, path }) => {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.stderr.write(`${JSON.stringify({ level: "error", method, path, error: text, msg: "request failed" })}\n`);
    },
  });
  try {
    await writePrivateFile(kubeconfig, server.kubeconfig);
  } catch (cause) {
    await server.stop();
    throw new UserError(
      "kubeconfig-unwritable",
      `cannot write ${kubeconfig}: ${reasonOf(cause)}`,
      "pass --kubeconfig with a path that this user may write",
      { cause },
    );
  }
  if (server.opened.cutBytes > 0) {
    process.stderr.write(`muster: cut ${server.opened.cutBytes} bytes of an unfinished write off the end of the log\n`);
  }
  if (flags.output === "json") {
    process.stdout.write(`${JSON.stringify({ ready: true, api: server.url, kubeconfig, dashboard: null })}\n`);
  } else {
    process.stdout.write(`ready: api ${server.url}, kubeconfig ${kubeconfig}\n`);
    process.stdout.write(`try: kubectl --kubeconfig ${kubeconfig} get namespaces\n`);
  }
  const problem = await Promise.race([untilSignal(), diskFailure]);
  await server.stop().catch(() => {});
  unlock();
  if (problem !== undefined) throw problem;
}

/** Resolves when somebody asks the program to stop. */
function untilSignal(): Promise<undefined> {
  return new Promise((done) => {
    const stop = (): void => {
      process.off("SIGINT", stop);
      process.off("SIGTERM", stop);
      done(undefined);
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
}

async function makeDataFolder(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new UserError(
      "data-dir-unusable",
      `cannot use the data directory ${dataDir}: ${reasonOf(cause)}`,
      "pass --data-dir with a folder that this user may write, or --memory to keep nothing",
      { cause },
    );
  }
}

/** What the system said, without its call and path. */
function reasonOf(cause: unknown): string {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const known: Readonly<Record<string, string>> = {
    EACCES: "permission denied",
    EEXIST: "there is a file of this name",
    ENOSPC: "the disk is full",
    ENOTDIR: "a part of the path is a file",
    EROFS: "the file system is read-only",
  };
  return known[code] ?? message;
}

function parsePort(text: string): number {
  const port = Number(text);
  if (/^[0-9]+$/.test(text) && port <= 65_535) return port;
  throw new UserError(
    "port-invalid",
    `--port ${text} is not a port`,
    "pass a whole number from 0 to 65535; 0 picks a free port",
  );
}
