/**
 * The two servers that are compared: a real kube-apiserver with etcd and kube-controller-manager, from binaries that are
 * found on this machine, and `muster up` without nodes. Both live in one folder that is removed at the end.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { freePort } from "../freePort.ts";
import { ApiUnderTest } from "./apiUnderTest.ts";

const needed = ["etcd", "kube-apiserver", "kube-controller-manager"] as const;
const program = fileURLToPath(new URL("../../dist/bundle/program/main.js", import.meta.url));

export interface Peers {
  readonly real: ApiUnderTest;
  readonly ours: ApiUnderTest;
  stop(): Promise<void>;
}

/** The folder with the binaries of `npm run peers`, or a sentence that says what is missing. */
export function findPeers(): { folder: string } | { missing: string } {
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  const folder = join(process.env["MUSTER_PEERS"] || join(cache, "muster/peers"), "bin");
  const absent = needed.filter((name) => !existsSync(join(folder, name)));
  if (absent.length === 0) return { folder };
  return {
    missing: `no ${absent.join(", ")} in ${folder}: run \`npm run peers\`, with the same MUSTER_PEERS if it is set`,
  };
}

export async function startPeers(binaries: string): Promise<Peers> {
  const folder = mkdtempSync(join(tmpdir(), "muster-differential-"));
  const children: ChildProcess[] = [];
  const stop = async () => {
    // The last one first: a controller manager that outlives its server only fills the log.
    for (const child of children.reverse()) await ended(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const real = await startReal(binaries, folder, children);
    const ours = await startOurs(folder, children);
    return { real, ours, stop };
  } catch (cause) {
    await stop();
    throw cause;
  }
}

async function startReal(binaries: string, folder: string, children: ChildProcess[]): Promise<ApiUnderTest> {
  const [port, etcd, peer, manager] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const at = (name: string) => join(folder, name);
  const keys = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  });
  writeFileSync(at("sa.pub"), keys.publicKey);
  writeFileSync(at("sa.key"), keys.privateKey);
  writeFileSync(at("tokens.csv"), "admin,admin,admin,system:masters\n");
  const start = (name: string, flags: Record<string, string | number | boolean>) => {
    const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
    children.push(launch(join(binaries, name), args, at(`${name}.log`)));
  };
  const store = `http://127.0.0.1:${etcd}`;
  start("etcd", {
    "data-dir": at("etcd"),
    "listen-client-urls": store,
    "advertise-client-urls": store,
    "listen-peer-urls": `http://127.0.0.1:${peer}`,
    "initial-advertise-peer-urls": `http://127.0.0.1:${peer}`,
    "initial-cluster": `default=http://127.0.0.1:${peer}`,
    "log-level": "error",
    "unsafe-no-fsync": true,
  });
  start("kube-apiserver", {
    "etcd-servers": store,
    "secure-port": port,
    "bind-address": "127.0.0.1",
    "cert-dir": at("certificates"),
    "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
    "service-account-key-file": at("sa.pub"),
    "service-account-signing-key-file": at("sa.key"),
    "token-auth-file": at("tokens.csv"),
    "authorization-mode": "Node,RBAC",
    "enable-admission-plugins": "NodeRestriction",
    "service-cluster-ip-range": "10.96.0.0/16",
    "allow-privileged": true,
    "endpoint-reconciler-type": "none",
  });
  const api = new ApiUnderTest(port, { token: "admin" });
  await ready(api, children);
  writeFileSync(at("kubeconfig"), JSON.stringify(kubeconfig(port)));
  start("kube-controller-manager", {
    kubeconfig: at("kubeconfig"),
    "service-account-private-key-file": at("sa.key"),
    "root-ca-file": at("certificates/apiserver.crt"),
    "use-service-account-credentials": true,
    "leader-elect": false,
    "secure-port": manager,
    "cert-dir": at("certificates"),
  });
  return api;
}

async function startOurs(folder: string, children: ChildProcess[]): Promise<ApiUnderTest> {
  const port = await freePort();
  const file = join(folder, "muster.kubeconfig");
  const data = join(folder, "muster");
  mkdirSync(data);
  const flags = ["up", "--pool", "h100=0", "--memory", "--port", `${port}`, "--data-dir", data, "--kubeconfig", file];
  children.push(launch(process.execPath, [program, ...flags], join(folder, "muster.log")));
  const waiting = new ApiUnderTest(port, {});
  // The kubeconfig is written when all controllers have started, after the server is ready.
  await ready(waiting, children, () => existsSync(file));
  const user = parse(readFileSync(file, "utf8")).users[0].user as Record<string, string>;
  const decode = (field: string) => Buffer.from(user[field] ?? "", "base64");
  const credentials = { cert: decode("client-certificate-data"), key: decode("client-key-data") };
  return new ApiUnderTest(port, credentials, [["muster-admin", "admin"]]);
}

function launch(file: string, args: string[], log: string): ChildProcess {
  const out = openSync(log, "a");
  return spawn(file, args, { stdio: ["ignore", out, out] });
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const hard = setTimeout(() => child.kill("SIGKILL"), 5000);
    child.once("exit", () => {
      clearTimeout(hard);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

async function ready(api: ApiUnderTest, children: ChildProcess[], holds = () => true): Promise<void> {
  for (let attempt = 0; attempt < 240; attempt++) {
    const gone = children.find(({ exitCode }) => exitCode !== null);
    if (gone !== undefined) throw new Error(`${gone.spawnfile} ended with ${gone.exitCode}`);
    if ((await api.send("GET", "/readyz")).status === 200 && holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error("a server is not ready after a minute");
}

function kubeconfig(port: number): unknown {
  const cluster = { server: `https://127.0.0.1:${port}`, "insecure-skip-tls-verify": true };
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "real", cluster }],
    users: [{ name: "admin", user: { token: "admin" } }],
    contexts: [{ name: "real", context: { cluster: "real", user: "admin" } }],
    "current-context": "real",
  };
}
