import { access, constants } from "node:fs/promises";
import { join, resolve } from "node:path";
import { diskKeyFiles } from "../../adapters/disk/diskKeyFiles.ts";
import { FileStore } from "../../adapters/disk/fileStore.ts";
import { makeFolder } from "../../adapters/disk/makeFolder.ts";
import { writePrivateFile } from "../../adapters/disk/privateFile.ts";
import { lockDirectory } from "../../adapters/store/directoryLock.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../../apiserver/startApiServer.ts";
import { UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { parsePort } from "./parsePort.ts";

export interface EmbeddedServerFlags {
  readonly port: string;
  readonly host: string;
  readonly dataDir: string;
  readonly memory?: boolean;
  readonly kubeconfig?: string;
}

/** The API server of this process, with its data folder and its kubeconfig. */
export interface EmbeddedServer {
  readonly server: ApiServer;
  /** The folder, as an absolute path. */
  readonly dataDir: string;
  /** Where the kubeconfig was written. */
  readonly kubeconfig: string;
  /** Resolves when the disk has failed: the server can only be read from then on. */
  readonly diskFailure: Promise<Error>;
  stop(): Promise<void>;
}

/** Starts the API server on a data folder and writes its kubeconfig. What a person can fix is a UserError. */
export async function startEmbeddedServer(
  flags: EmbeddedServerFlags,
  ports: { readonly clock: Clock; readonly random: Random },
  options: Pick<ApiServerOptions, "hooks" | "agent"> = {},
): Promise<EmbeddedServer> {
  const dataDir = resolve(flags.dataDir);
  const kubeconfig = resolve(flags.kubeconfig ?? join(dataDir, "kubeconfig"));
  const port = parsePort(flags.port);
  const memory = flags.memory === true;
  const storeDir = join(dataDir, "apiserver");
  const store = memory ? undefined : new FileStore({ directory: storeDir, clock: ports.clock });
  await makeDataFolder(memory ? storeDir : dataDir);
  // A server that keeps nothing still writes its kubeconfig here; it must not take the place of one that runs.
  const unlock = memory && flags.kubeconfig === undefined ? lockDirectory(storeDir) : () => {};
  let storeFailed = (_: Error): void => {};
  const diskFailure = new Promise<Error>((resolve) => {
    storeFailed = resolve;
  });
  const server = await startApiServer({
    ...ports,
    ...options,
    store,
    ...(memory ? {} : { keyFiles: diskKeyFiles(join(dataDir, "pki")) }),
    listen: { host: flags.host, port },
    onStoreFailure: (error) => storeFailed(error),
    log: ({ error, method, path }) => {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.stderr.write(`${JSON.stringify({ level: "error", method, path, error: text, msg: "request failed" })}\n`);
    },
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    unlock();
  };
  try {
    await writePrivateFile(kubeconfig, server.kubeconfig);
  } catch (cause) {
    await stop();
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
  return { server, dataDir, kubeconfig, diskFailure, stop };
}

async function makeDataFolder(dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir);
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

/** The system's error text, without its call and path. */
function reasonOf(cause: unknown): string {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const known: Readonly<Record<string, string>> = {
    EACCES: "permission denied",
    EEXIST: "there is a file of this name",
    ENOSPC: "the disk is full",
    ENOTDIR: "a part of the path is a file",
    ENOENT: "the system makes no folder there",
    EROFS: "the file system is read-only",
  };
  return known[code] ?? message;
}
