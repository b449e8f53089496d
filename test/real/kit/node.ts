import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { network } from "./controlPlane.ts";
import { peer, peers } from "./peers.ts";
import { Processes, ran, until } from "./processes.ts";

export interface NodeOptions {
  readonly number: number;
  readonly gpus: number;
  /** Archives of images, beside those of the peers. */
  readonly images: readonly string[];
  /** How the node joins; with the kubeconfig of the administrator when left out. */
  readonly join?: (name: string) => Promise<Join>;
}

/** What `muster node join` says about a machine. */
export interface Join {
  /** A kubeconfig with a bootstrap token. */
  readonly bootstrap: string;
  readonly authority: string;
  /** Fields of the KubeletConfiguration: who may connect to the kubelet. */
  readonly access: object;
}

/** The cluster of a node. */
export interface Home {
  /** The kubeconfig of its administrator. */
  readonly kubeconfig: string;
}

/**
 * A real node in a network namespace of its own: containerd, kubelet, kube-proxy, and a device plugin that plays GPUs.
 * Kubelets look for device plugins and link logs at fixed paths, so each has its own view of those.
 */
export class RealNode {
  readonly name: string;
  readonly folder: string;
  readonly processes: Processes;
  private readonly options: NodeOptions;
  private readonly plane: Home;
  private joined: Join | undefined;

  constructor(plane: Home, folder: string, options: NodeOptions) {
    this.plane = plane;
    this.options = options;
    this.name = `real-${options.number}`;
    this.folder = folder;
    for (const each of ["cni", "hosts", "kubelet", "device-plugins", "logs", "pki"]) {
      mkdirSync(join(folder, each), { recursive: true });
    }
    this.processes = new Processes(folder);
  }

  get address(): string {
    return `${network.nodes}.${this.options.number}`;
  }

  private get namespace(): string {
    return `muster-${this.name}`;
  }

  private get link(): string {
    return `mreal${this.options.number}`;
  }

  private get socket(): string {
    return this.file("containerd.sock");
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  async start(): Promise<void> {
    await this.makeNetwork();
    this.joined = await this.options.join?.(this.name);
    this.writeFiles();
    this.startInside("containerd", peer("containerd"), ["-c", this.file("containerd.toml")]);
    await until(async () => existsSync(this.socket) && (await this.ctr("version")) !== "", 120_000);
    const shipped = readdirSync(join(peers, "images")).map((name) => join(peers, "images", name));
    for (const image of [...shipped, ...this.options.images]) await this.ctr("images", "import", image);
    makeCgroup(this.namespace);
    await ran("mount", ["--bind", this.file("kubelet"), this.file("kubelet")]);
    await ran("mount", ["--make-shared", this.file("kubelet")]);
    this.startKubelet();
    this.startInside("proxy", peer("kube-proxy"), ["--config", this.file("proxy.yaml")]);
    if (this.options.gpus > 0) {
      const flags = ["-folder", this.file("device-plugins"), "-node", this.name, "-count", String(this.options.gpus)];
      this.processes.start("gpus", peer("gpus"), flags);
    }
  }

  /** Also starts it again after it was killed. */
  startKubelet(): void {
    const script = [
      "mount --make-private /",
      'mount --bind "$0/device-plugins" /var/lib/kubelet/device-plugins',
      'mount --bind "$0/logs" /var/log/containers',
      'exec "$@"',
    ].join(" && ");
    const own = ["--bootstrap-kubeconfig", this.file("bootstrap.conf"), "--kubeconfig", this.file("kubelet.conf")];
    const flags = [
      ...["--config", this.file("kubelet.yaml")],
      ...(this.joined === undefined ? ["--kubeconfig", this.plane.kubeconfig] : own),
      ...["--root-dir", this.file("kubelet"), "--cert-dir", this.file("pki")],
      ...["--hostname-override", this.name, "--node-ip", this.address],
    ];
    const view = ["-m", "--propagation", "unchanged", "sh", "-c", script, this.folder, peer("kubelet"), ...flags];
    this.startInside("kubelet", "unshare", view);
  }

  /** As a machine that lost its power: nothing is said to the API server. */
  async killKubelet(): Promise<void> {
    await this.processes.stop("kubelet", "SIGKILL");
  }

  ctr(...args: string[]): Promise<string> {
    return ran(peer("ctr"), ["-a", this.socket, "-n", "k8s.io", ...args]);
  }

  async stop(): Promise<void> {
    for (const name of ["gpus", "proxy", "kubelet"]) await this.processes.stop(name);
    const networks = await this.podNetworks();
    for (const task of linesOf(await this.ctr("tasks", "ls", "-q").catch(() => ""))) {
      await this.ctr("tasks", "rm", "--force", task).catch(() => "");
    }
    await this.processes.stopAll();
    endProcessesThatName(this.socket);
    for (const name of networks) await ran("ip", ["netns", "del", name]).catch(() => "");
    const mounts = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" ")[1] ?? "")
      .filter((path) => path.startsWith(`${this.folder}/`));
    for (const path of mounts.reverse()) await ran("umount", ["-l", path]).catch(() => "");
    await ran("ip", ["link", "del", this.link]).catch(() => "");
    await ran("ip", ["netns", "del", this.namespace]).catch(() => "");
    removeCgroup(this.namespace);
  }

  /** Names of the network namespaces of this node's pods. */
  private async podNetworks(): Promise<string[]> {
    const names = new Set<string>();
    for (const id of linesOf(await this.ctr("containers", "ls", "-q").catch(() => ""))) {
      const info = await this.ctr("containers", "info", id).catch(() => "");
      for (const [, name = ""] of info.matchAll(/"\/(?:var\/)?run\/netns\/(cni-[0-9a-f-]+)"/g)) names.add(name);
    }
    return [...names];
  }

  private startInside(name: string, program: string, args: readonly string[]): void {
    this.processes.start(name, "nsenter", [`--net=/run/netns/${this.namespace}`, program, ...args]);
  }

  private async makeNetwork(): Promise<void> {
    const { number } = this.options;
    const { link } = this;
    const ip = (...args: string[]): Promise<string> => ran("ip", args);
    const inside = (...args: string[]): Promise<string> => ip("-n", this.namespace, ...args);
    await ip("netns", "del", this.namespace).catch(() => "");
    await ip("netns", "add", this.namespace);
    await ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", this.namespace);
    await ip("link", "set", link, "master", network.bridge, "up");
    await inside("link", "set", "lo", "up");
    await inside("addr", "add", `${this.address}/24`, "dev", "eth0");
    await inside("link", "set", "eth0", "up");
    await inside("route", "add", "default", "via", network.host);
    await ip("route", "replace", `${network.pods}.${number}.0/24`, "via", this.address, "dev", network.bridge);
    for (let other = 1; other <= 9; other++) {
      if (other === number) continue;
      await inside("route", "add", `${network.pods}.${other}.0/24`, "via", `${network.nodes}.${other}`);
    }
    const settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.route_localnet=1"];
    await ran("nsenter", [`--net=/run/netns/${this.namespace}`, "sysctl", "-qw", ...settings]);
    // Without it, calls of a pod to a Service of its own node are not translated back. Not every kernel has it.
    const bridged = ["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"];
    await ran("nsenter", [`--net=/run/netns/${this.namespace}`, ...bridged]).catch(() => "");
  }

  private writeFiles(): void {
    const { number } = this.options;
    const ipam = {
      ...{ type: "host-local", dataDir: this.file("ipam"), routes: [{ dst: "0.0.0.0/0" }] },
      ranges: [[{ subnet: `${network.pods}.${number}.0/24` }]],
    };
    const bridge = { type: "bridge", bridge: `mpods${number}`, isGateway: true, hairpinMode: true, ipam };
    const plugins = [bridge, { type: "portmap", capabilities: { portMappings: true } }];
    writeFileSync(this.file("cni/10-pods.conflist"), JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins }));
    writeFileSync(this.file("containerd.toml"), this.containerdSettings());
    const kubelet = {
      ...{ apiVersion: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" },
      ...{ cgroupDriver: "cgroupfs", cgroupRoot: `/${this.namespace}`, failCgroupV1: false },
      containerRuntimeEndpoint: `unix://${this.socket}`,
      authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
      authorization: { mode: "AlwaysAllow" },
      ...{ enforceNodeAllocatable: [], localStorageCapacityIsolation: false, evictionHard: {} },
      ...{ address: this.address, port: 10250, healthzPort: 0, resolvConf: "", podLogsDir: this.file("podlogs") },
      ...{ nodeStatusUpdateFrequency: "5s", syncFrequency: "10s" },
      ...this.joined?.access,
    };
    if (this.joined !== undefined) {
      writeFileSync(this.file("ca.crt"), this.joined.authority);
      writeFileSync(this.file("bootstrap.conf"), this.joined.bootstrap);
    }
    writeFileSync(this.file("kubelet.yaml"), JSON.stringify(kubelet));
    const proxy = {
      ...{ apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration", mode: "iptables" },
      clientConnection: { kubeconfig: this.plane.kubeconfig },
      ...{ hostnameOverride: this.name, clusterCIDR: `${network.pods}.0.0/16` },
      // The machine's own limits are left alone.
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
      iptables: { syncPeriod: "30s", minSyncPeriod: "0.1s" },
    };
    writeFileSync(this.file("proxy.yaml"), JSON.stringify(proxy));
    for (const path of ["/var/lib/kubelet/device-plugins", "/var/log/containers"]) mkdirSync(path, { recursive: true });
  }

  private containerdSettings(): string {
    const runtime = 'plugins."io.containerd.cri.v1.runtime"';
    const images = 'plugins."io.containerd.cri.v1.images"';
    return `version = 3
root = "${this.file("containerd")}"
state = "${this.file("run")}"
[grpc]
  address = "${this.socket}"
[${images}.pinned_images]
  sandbox = "registry.k8s.io/pause:3.10"
[${images}.registry]
  config_path = "${this.file("hosts")}"
[${runtime}]
  restrict_oom_score_adj = true
[${runtime}.cni]
  bin_dirs = ["${join(peers, "cni")}"]
  conf_dir = "${this.file("cni")}"
[${runtime}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [${runtime}.containerd.runtimes.runc.options]
    SystemdCgroup = false
`;
  }
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

/** The shims of containers outlive containerd. */
function endProcessesThatName(path: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(path)) process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}

function removeCgroup(name: string): void {
  const remove = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) remove(join(folder, entry.name));
    }
    rmdirSync(folder);
  };
  for (const hierarchy of ["", ...readdirSync("/sys/fs/cgroup")]) {
    const folder = join("/sys/fs/cgroup", hierarchy, name);
    try {
      if (existsSync(folder)) remove(folder);
    } catch {
      // A process in it has not ended yet; an empty group costs nothing.
    }
  }
}

/** The cgroup that a node's pods are in, in every hierarchy of version 1 or in the one of version 2. */
function makeCgroup(name: string): void {
  const root = "/sys/fs/cgroup";
  const isOne = existsSync(join(root, "cgroup.controllers"));
  const hierarchies = isOne ? [root] : readdirSync(root).map((each) => join(root, each));
  for (const hierarchy of hierarchies) {
    try {
      mkdirSync(join(hierarchy, name), { recursive: true });
    } catch {
      // A file, or a hierarchy that takes no groups.
    }
  }
  for (const field of ["cpuset.cpus", "cpuset.mems"]) {
    const from = join(root, "cpuset", field);
    if (existsSync(from)) writeFileSync(join(root, "cpuset", name, field), readFileSync(from));
  }
}
