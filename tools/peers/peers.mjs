// Builds the programs that `npm run test:real` starts beside Muster: a Kubernetes control plane, kubelet, container
// runtime and network plugins, all from Go modules, and two small images. What is there already is not built again.
import { spawnSync } from "node:child_process";
import {
  accessSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeImage } from "./ociImage.mjs";

const versions = { kubernetes: "v1.36.4", etcd: "v3.6.6", containerd: "v2.2.0", cni: "v1.8.0" };
const here = dirname(fileURLToPath(import.meta.url));
const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
const out = process.env["MUSTER_PEERS"] || join(cache, "muster/peers");
const bin = join(out, "bin");
const cni = join(out, "cni");
const images = join(out, "images");
const work = mkdtempSync(join(tmpdir(), "muster-peers-"));
const startedMs = Date.now();

const kubernetesCommands = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kube-proxy",
  "kubectl",
];
const containerdCommands = ["containerd", "containerd-shim-runc-v2", "ctr"];
const cniPlugins = { bridge: "main", loopback: "main", "host-local": "ipam", portmap: "meta" };

const steps = [
  ...kubernetesCommands.map((name) => ({ file: join(bin, name), make: () => buildKubernetes(name) })),
  { file: join(bin, "etcd"), make: buildEtcd },
  ...containerdCommands.map((name) => ({ file: join(bin, name), make: () => buildContainerd(name) })),
  ...Object.keys(cniPlugins).map((name) => ({ file: join(cni, name), make: () => buildPlugin(name) })),
  { file: join(bin, "gpus"), make: buildGpus },
  { file: join(images, "pause.tar"), make: buildPause },
  { file: join(images, "busybox.tar"), make: buildBusybox },
];

try {
  for (const folder of [bin, cni, images]) mkdirSync(folder, { recursive: true });
  const missing = steps.filter(({ file }) => !isThere(file));
  if (missing.length > 0) requireGo();
  for (const [at, { file, make }] of missing.entries()) {
    const seconds = Math.round((Date.now() - startedMs) / 1000);
    say(`${at + 1}/${missing.length} ${basename(file)} (${seconds} s)`);
    make();
  }
  const seconds = Math.round((Date.now() - startedMs) / 1000);
  say(`${steps.length} files in ${out}, ${missing.length} of them built in ${seconds} s`);
  for (const tool of ["runc", "iptables", "ip", "nsenter", "unshare", "openssl"]) {
    if (!isOnPath(tool))
      say(
        `${tool} is missing on this machine: install it with your package manager (Debian: runc, iptables, iproute2, util-linux, openssl)`,
      );
  }
} finally {
  // Go marks the files of its module cache read-only; there are none of them in here.
  rmSync(work, { recursive: true, force: true });
}

/** The staging modules of Kubernetes are published under their own names, with v0 instead of v1. */
function buildKubernetes(name) {
  const folder = join(work, "kubernetes");
  if (!existsSync(folder)) {
    mkdirSync(folder);
    const { kubernetes } = versions;
    const described = JSON.parse(go(work, ["mod", "download", "-json", `k8s.io/kubernetes@${kubernetes}`], "quiet"));
    const upstream = readFileSync(described.GoMod, "utf8");
    const staging = [
      ...new Set([...upstream.matchAll(/(k8s\.io\/[a-z0-9-]+) v0\.0\.0(?=\s)/g)].map(([, module]) => module)),
    ];
    const published = kubernetes.replace(/^v1\./, "v0.");
    const lines = [
      "module peers",
      ...upstream.split("\n").filter((line) => /^(go|godebug) /.test(line)),
      `require k8s.io/kubernetes ${kubernetes}`,
      ...staging.map((module) => `replace ${module} => ${module} ${published}`),
    ];
    writeFileSync(join(folder, "go.mod"), `${lines.join("\n")}\n`);
  }
  const [major, minor] = versions.kubernetes.slice(1).split(".");
  const at = "k8s.io/component-base/version";
  const said = { gitVersion: versions.kubernetes, gitMajor: major, gitMinor: minor };
  const flags = Object.entries(said).map(([field, value]) => `-X ${at}.${field}=${value}`);
  build(folder, `k8s.io/kubernetes/cmd/${name}`, join(bin, name), flags.join(" "));
}

function buildEtcd() {
  const folder = newModule("etcd");
  const program = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`;
  writeFileSync(join(folder, "main.go"), program);
  go(folder, ["get", `go.etcd.io/etcd/server/v3@${versions.etcd}`], "quiet");
  go(folder, ["mod", "tidy"], "quiet");
  build(folder, ".", join(bin, "etcd"));
}

function buildContainerd(name) {
  const commands = "github.com/containerd/containerd/v2/cmd";
  const wanted = containerdCommands.map((each) => `${commands}/${each}@${versions.containerd}`);
  const folder = newModule("containerd", (made) => go(made, ["get", "-tool", ...wanted], "quiet"));
  build(folder, `${commands}/${name}`, join(bin, name));
}

function buildPlugin(name) {
  const path = (each) => `github.com/containernetworking/plugins/plugins/${cniPlugins[each]}/${each}`;
  const wanted = Object.keys(cniPlugins).map((each) => `${path(each)}@${versions.cni}`);
  const folder = newModule("cni", (made) => go(made, ["get", "-tool", ...wanted], "quiet"));
  build(folder, path(name), join(cni, name));
}

function buildGpus() {
  const folder = newModule("gpus");
  copyFileSync(join(here, "gpus/main.go"), join(folder, "main.go"));
  go(folder, ["get", `k8s.io/kubelet@${versions.kubernetes.replace(/^v1\./, "v0.")}`], "quiet");
  build(folder, ".", join(bin, "gpus"));
}

/** The container that holds a pod's namespaces. */
function buildPause() {
  const folder = newModule("pause");
  const program = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
`;
  writeFileSync(join(folder, "main.go"), program);
  const root = join(work, "pause-root");
  mkdirSync(root);
  build(folder, ".", join(root, "pause"), "", { CGO_ENABLED: "0" });
  writeImage({ root, file: join(images, "pause.tar"), name: "registry.k8s.io/pause:3.10", entrypoint: ["/pause"] });
}

function buildBusybox() {
  const busybox = ["/bin/busybox", "/usr/bin/busybox"].find((path) => existsSync(path));
  if (busybox === undefined) fail("no busybox is installed", "install busybox-static with your package manager");
  const root = join(work, "busybox-root");
  for (const folder of ["bin", "tmp", "etc"]) mkdirSync(join(root, folder), { recursive: true });
  cpSync(busybox, join(root, "bin/busybox"));
  const { stdout } = spawnSync(busybox, ["--list"], { encoding: "utf8" });
  for (const applet of stdout.split("\n").filter((name) => name !== "" && name !== "busybox")) {
    symlinkSync("busybox", join(root, "bin", applet));
  }
  writeImage({ root, file: join(images, "busybox.tar"), name: "docker.io/library/busybox:latest" });
}

function newModule(name, fill = () => undefined) {
  const folder = join(work, name);
  if (existsSync(folder)) return folder;
  mkdirSync(folder);
  writeFileSync(join(folder, "go.mod"), `module ${name}\n\ngo 1.26\n`);
  fill(folder);
  return folder;
}

function build(folder, source, file, flags = "", env = {}) {
  go(folder, ["build", "-ldflags", `-s -w ${flags}`, "-o", file, source], "loud", env);
}

function go(folder, args, manner, env = {}) {
  const { status, stdout, stderr, error } = spawnSync("go", args, {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, GOFLAGS: "-mod=mod -buildvcs=false", ...env },
    stdio: ["ignore", "pipe", manner === "loud" ? "inherit" : "pipe"],
    maxBuffer: 1 << 28,
  });
  if (status === 0) return stdout;
  fail(
    `go ${args.slice(0, 2).join(" ")} failed: ${error?.message ?? stderr ?? ""}`,
    "read the lines above; a module proxy must be reachable (GOPROXY)",
  );
}

function requireGo() {
  if (!isOnPath("go"))
    fail("Go is not installed", "install Go 1.26 or newer, or set MUSTER_PEERS to a folder that has the programs");
}

function isThere(file) {
  try {
    accessSync(file, file.endsWith(".tar") ? constants.R_OK : constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function isOnPath(program) {
  return (process.env["PATH"] ?? "").split(":").some((folder) => folder !== "" && isThere(join(folder, program)));
}

function say(text) {
  process.stderr.write(`peers: ${text}\n`);
}

function fail(problem, cure) {
  rmSync(work, { recursive: true, force: true });
  process.stderr.write(`peers: ${problem}\n  try: ${cure}\n`);
  process.exit(1);
}
