import { access, constants, readdir, readFile, rmdir } from "node:fs/promises";
import { createServer, isIP } from "node:net";
import { join, resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { diskKeyFiles } from "../../adapters/disk/diskKeyFiles.ts";
import { FileStore } from "../../adapters/disk/fileStore.ts";
import { makeFolder } from "../../adapters/disk/makeFolder.ts";
import { writePrivateFile } from "../../adapters/disk/privateFile.ts";
import { heapMemory } from "../../adapters/heapMemory.ts";
import { type MergedKubeconfig, mergeKubeconfig } from "../../adapters/kubeconfig/mergeKubeconfig.ts";
import { lockDirectory } from "../../adapters/store/directoryLock.ts";
import { makeMark } from "../../adapters/store/highWaterMark.ts";
import { nodeDisk } from "../../adapters/store/nodeDisk.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../../apiserver/startApiServer.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { parsePort } from "./parsePort.ts";
import { processOf, runningCluster } from "./runningCluster.ts";

export interface EmbeddedServerFlags {
  /** Undefined: the usual port, or a free one if that is in use. */
  readonly port?: string;
  readonly host: string;
  /** The address under which nodes reach the server. */
  readonly advertiseAddress?: string;
  /** More names for its certificate. */
  readonly tlsSan?: readonly string[];
  readonly dataDir: string;
  readonly memory?: boolean;
  /** The serving certificate and its key, in place of generated ones. */
  readonly tlsCertFile?: string;
  readonly tlsPrivateKeyFile?: string;
  /** Another authority of client certificates. */
  readonly clientCaFile?: string;
  /** False: without the controllers of kube-controller-manager. */
  readonly controllers?: boolean;
  readonly disableAdmissionPlugins?: readonly string[];
  /** Start although acknowledged changes are gone. */
  readonly acceptLoss?: boolean;
  readonly kubeconfig?: string;
}

/** The API server of this process, with its data folder and its kubeconfig. */
export interface EmbeddedServer {
  readonly server: ApiServer;
  /** The folder, as an absolute path. */
  readonly dataDir: string;
  /** The kubeconfig that the context of the server was merged into. */
  readonly kubeconfig: string;
  readonly context: string;
  /** Resolves when the disk has failed: the server can only be read from then on. */
  readonly diskFailure: Promise<Error>;
  stop(): Promise<void>;
}

/** Starts the API server on a data folder and writes its kubeconfig. A problem that the user can fix is a UserError. */
export async function startEmbeddedServer(
  flags: EmbeddedServerFlags,
  ports: { readonly clock: Clock; readonly random: Random },
  options: Pick<ApiServerOptions, "hooks" | "agent"> = {},
): Promise<EmbeddedServer> {
  const dataDir = resolve(flags.dataDir);
  const kubeconfig = resolve(flags.kubeconfig ?? join(dataDir, "kubeconfig"));
  const memory = flags.memory === true;
  const storeDir = join(dataDir, "apiserver");
  if (!memory || flags.kubeconfig === undefined) refuseRunning(dataDir);
  const port = flags.port === undefined ? await usualPort(flags.host) : parsePort(flags.port);
  const acceptLoss = flags.acceptLoss === true;
  const store = memory ? undefined : new FileStore({ directory: storeDir, clock: ports.clock, acceptLoss });
  const isLocked = memory && flags.kubeconfig === undefined;
  if (!memory || isLocked) await makeDataFolder(memory ? storeDir : dataDir, memory);
  if (!memory) await refuseKeysWithoutObjects(dataDir, storeDir, acceptLoss);
  // With --memory the kubeconfig is still written here; it must not replace that of a server that is running.
  const unlock = isLocked ? lockDirectory(storeDir) : () => {};
  let storeFailed = (_: Error): void => {};
  const diskFailure = new Promise<Error>((resolve) => {
    storeFailed = resolve;
  });
  const server = await startApiServer({
    ...ports,
    ...options,
    memory: heapMemory(),
    store,
    ...(memory ? {} : { keyFiles: diskKeyFiles(join(dataDir, "pki")) }),
    listen: { host: flags.host, port },
    ...(await givenCertificates(flags)),
    ...(flags.controllers === false && { controllers: "server" as const }),
    ignoresServiceAccounts: areServiceAccountsIgnored(flags.disableAdmissionPlugins ?? []),
    names: (flags.tlsSan ?? []).map((name) => certificateName(name, "--tls-san")),
    ...(flags.advertiseAddress !== undefined && { advertise: advertisableAddress(flags.advertiseAddress) }),
    onStoreFailure: (error) => storeFailed(error),
    log: ({ error, method, path }) => {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.stderr.write(`${JSON.stringify({ level: "error", method, path, error: text, msg: "request failed" })}\n`);
    },
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    unlock();
    // Only if it is empty: it was made for the lock.
    if (isLocked) await rmdir(storeDir).catch(() => {});
  };
  let context = "muster";
  try {
    context = await writeKubeconfig(kubeconfig, server.kubeconfig, flags.kubeconfig === undefined);
  } catch (cause) {
    await stop();
    if (cause instanceof UserError) throw cause;
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
  const { lost } = server.opened;
  if (lost !== undefined) {
    process.stderr.write(
      `muster: the changes after revision ${lost.after} up to revision ${lost.upTo} are gone; objects are as they were at revision ${lost.after}\n`,
    );
  }
  return { server, dataDir, kubeconfig, context, diskFailure, stop };
}

/** The certificates that flags name. */
async function givenCertificates({
  tlsCertFile,
  tlsPrivateKeyFile,
  clientCaFile,
}: EmbeddedServerFlags): Promise<Pick<ApiServerOptions, "serving" | "clientAuthority">> {
  const clients =
    clientCaFile === undefined ? {} : { clientAuthority: await readPem("--client-ca-file", clientCaFile) };
  if (tlsCertFile === undefined && tlsPrivateKeyFile === undefined) return clients;
  if (tlsCertFile === undefined || tlsPrivateKeyFile === undefined) {
    throw new UsageError(
      "certificate-incomplete",
      "a certificate needs its key, and a key its certificate",
      "pass both --tls-cert-file and --tls-private-key-file, or neither",
    );
  }
  const certificate = await readPem("--tls-cert-file", tlsCertFile);
  const key = await readPem("--tls-private-key-file", tlsPrivateKeyFile);
  try {
    createSecureContext({ cert: certificate, key });
  } catch (cause) {
    const why = `${tlsCertFile} and ${tlsPrivateKeyFile} are no certificate and its key: ${reasonOf(cause)}`;
    const cure = "pass a PEM certificate and the PEM key that belongs to it";
    throw new UserError("certificate-unusable", why, cure, { cause });
  }
  return { ...clients, serving: { certificate, key } };
}

async function readPem(flag: string, file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    const cure = `pass ${flag} with a file that this user may read`;
    throw new UserError("certificate-unreadable", `cannot read ${file}: ${reasonOf(cause)}`, cure, { cause });
  }
  if (text.includes("-----BEGIN ")) return text;
  throw new UserError("certificate-unusable", `${file} is not PEM`, `pass ${flag} with a PEM file`);
}

function areServiceAccountsIgnored(plugins: readonly string[]): boolean {
  const names = plugins.flatMap((text) => text.split(",")).filter((name) => name !== "");
  const unknown = names.find((name) => name !== "ServiceAccount");
  if (unknown === undefined) return names.length > 0;
  throw new UsageError(
    "plugin-unknown",
    `admission plugin ${JSON.stringify(unknown)} cannot be disabled`,
    "only --disable-admission-plugins ServiceAccount is possible",
  );
}

function advertisableAddress(text: string): string {
  if (isIP(text) !== 0 && text !== "0.0.0.0" && text !== "::") return text;
  throw new UsageError(
    "address-malformed",
    `--advertise-address ${JSON.stringify(text)} is no IP address that a node can connect to`,
    "pass an address of this machine, such as --advertise-address 192.0.2.10",
  );
}

function certificateName(text: string, flag: string): string {
  if (isIP(text) !== 0 || (text.length <= 253 && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(text))) return text;
  const cure = `pass an IP address or a lower-case DNS name, such as ${flag} gpus.example.com`;
  throw new UsageError("name-malformed", `${flag} ${JSON.stringify(text)} is neither an address nor a DNS name`, cure);
}

/** Refuses a data folder that another process has open, before anything else fails because of it. */
export function refuseRunning(dataDir: string): void {
  const pid = processOf(dataDir);
  if (pid === undefined) return;
  const running = runningCluster(dataDir);
  const where = running === undefined ? "" : ` at ${running.api}`;
  throw new UserError(
    "store-locked",
    `the data folder ${dataDir} is in use: Muster already runs there${where}, process ${pid}`,
    "use that cluster, stop it with `muster down`, or choose another --data-dir",
  );
}

const usualPortNumber = 6443;

/** The usual port; 0 for a free one where another program listens on it. */
async function usualPort(host: string): Promise<number> {
  const probe = createServer();
  const isFree = await new Promise<boolean>((done) => {
    probe.once("error", (error: NodeJS.ErrnoException) => done(error.code !== "EADDRINUSE"));
    probe.listen(usualPortNumber, host, () => done(true));
  });
  await new Promise<void>((done) => probe.close(() => done()));
  return isFree ? usualPortNumber : 0;
}

/**
 * Merges the context of the server into the kubeconfig, and returns its name. A file that another program wrote is
 * never replaced; the one in the data folder is, if it cannot be parsed.
 */
async function writeKubeconfig(path: string, own: string, isOwnFile: boolean): Promise<string> {
  const existing = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  let merged: MergedKubeconfig;
  try {
    merged = mergeKubeconfig(existing, own, path, isOwnFile ? "muster" : undefined);
  } catch (error) {
    if (!isOwnFile) throw error;
    merged = { text: own, context: "muster" };
  }
  if (merged.text !== existing) await writePrivateFile(path, merged.text);
  return merged.context;
}

/**
 * A folder with the keys of a cluster and without any file of its objects is not a new one. The high-water mark is made
 * before the keys, so a first start that was killed does not look like it.
 */
async function refuseKeysWithoutObjects(dataDir: string, storeDir: string, acceptLoss: boolean): Promise<void> {
  const hasKeys = (await namesIn(join(dataDir, "pki"))).length > 0;
  const hasObjects = (await namesIn(storeDir)).some((name) => /^(log-|snapshot-|mark$)/.test(name));
  if (hasKeys && !hasObjects && !acceptLoss) {
    throw new UserError(
      "store-missing",
      `${dataDir} has the keys of a cluster, but ${storeDir} with its objects is missing or empty`,
      "put the folder back from a backup, or pass --accept-loss to start without objects; nothing was changed",
    );
  }
  if (hasKeys && !hasObjects) process.stderr.write(`muster: every object of ${dataDir} is gone; it starts empty\n`);
  const disk = nodeDisk();
  await disk.makeDirectory(storeDir);
  await makeMark(disk, storeDir);
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
}

async function makeDataFolder(dataDir: string, memory: boolean): Promise<void> {
  try {
    // Others may pass through it, as the user that PostgreSQL runs as does, and not list it.
    await makeFolder(dataDir, 0o711);
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new UserError(
      "data-dir-unusable",
      `cannot use the data folder ${dataDir}: ${reasonOf(cause)}`,
      `pass --data-dir with a folder that this user may write${memory ? "" : ", or --memory to keep nothing"}`,
      { cause },
    );
  }
}

/** The system's error text, without its call and path. */
function reasonOf(cause: unknown): string {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const known: Readonly<Record<string, string>> = {
    EACCES: "permission denied",
    EEXIST: "a file of this name exists",
    ENOSPC: "the disk is full",
    ENOTDIR: "a component of the path is a file",
    ENOENT: "no folder can be created there",
    EROFS: "the file system is read-only",
  };
  return known[code] ?? message;
}
