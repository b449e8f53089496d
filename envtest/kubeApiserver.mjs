/** Starts `muster apiserver` with the flags of kube-apiserver that envtest sets. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseFlags } from "./flags.mjs";

const muster = join(dirname(dirname(fileURLToPath(import.meta.url))), "muster");

/** Flags that are passed on under another name. */
const renamed = { "secure-port": "port", "bind-address": "host" };
const passed = [
  "tls-cert-file",
  "tls-private-key-file",
  "client-ca-file",
  "disable-admission-plugins",
  "advertise-address",
];
/** What these set does not exist here, or is always so: no etcd, RBAC, one service network, own keys of tokens. */
const without = [
  "allow-privileged",
  "authorization-mode",
  "cert-dir",
  "enable-aggregator-routing",
  "enable-priority-and-fairness",
  "etcd-cafile",
  "etcd-certfile",
  "etcd-keyfile",
  "etcd-prefix",
  "etcd-servers",
  "feature-gates",
  "runtime-config",
  "service-account-issuer",
  "service-account-key-file",
  "service-account-signing-key-file",
  "service-cluster-ip-range",
  "storage-backend",
  "v",
];
const known = [...Object.keys(renamed), ...passed, ...without].sort();

const words = process.argv.slice(2);
if (words.includes("--help") || words.includes("-h")) {
  // envtest looks here for flags that newer versions no longer have.
  process.stdout.write(
    `kube-apiserver of Muster, for envtest\n\n${known.map((name) => `      --${name} string\n`).join("")}`,
  );
  process.exit(0);
}
if (words.includes("--version")) {
  process.stdout.write("Kubernetes v1.36.4\n");
  process.exit(0);
}

const flags = parseFlags(words);
const unknown = [...flags.keys()].filter((name) => !known.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`kube-apiserver: Muster has no --${unknown.join(", --")}: ignored\n`);
}

const certDir = flags.get("cert-dir")?.at(-1);
const given =
  certDir === undefined ? undefined : { cert: join(certDir, "apiserver.crt"), key: join(certDir, "apiserver.key") };
if (given !== undefined && !flags.has("tls-cert-file") && existsSync(given.cert) && existsSync(given.key)) {
  flags.set("tls-cert-file", [given.cert]);
  flags.set("tls-private-key-file", [given.key]);
}

const folder = await mkdtemp(join(tmpdir(), "muster-envtest-"));
const options = ["apiserver", "--memory", "--no-controllers", "--data-dir", folder];
for (const [name, to] of Object.entries(renamed)) {
  const value = flags.get(name)?.at(-1);
  if (value !== undefined) options.push(`--${to}`, value);
}
for (const name of passed) for (const value of flags.get(name) ?? []) options.push(`--${name}`, value);

const child = spawn(muster, options, { stdio: ["ignore", "inherit", "inherit"] });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  process.stderr.write(`kube-apiserver: ${error.message}\n`);
  process.exitCode = 1;
});
child.on("exit", async (code, signal) => {
  await rm(folder, { recursive: true, force: true });
  process.exit(code ?? (signal === null ? 1 : 0));
});
