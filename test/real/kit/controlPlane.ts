import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AuditLog } from "./auditLog.ts";
import { peer } from "./peers.ts";
import { freePorts, Processes, ran, until } from "./processes.ts";

/** The bridge that nodes, pods and the API server meet on. It is away from networks that machines commonly have. */
export const network = { bridge: "muster-real", host: "10.251.0.254", nodes: "10.251.0", pods: "10.252" } as const;

/** The groups of the accounts that Muster's processes have. */
const musterAccounts = ["muster-system", "kai-resource-reservation"].map((name) => `system:serviceaccounts:${name}`);

/**
 * etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as processes of this machine. To a local one no real
 * node connects. A bare one is local, and an API server and its store alone: nothing but the test acts on its objects.
 */
export class ControlPlane {
  readonly folder: string;
  readonly processes: Processes;
  readonly audit: AuditLog;
  private readonly reach: "nodes" | "local" | "bare";
  private readonly host: string;
  private port = 0;
  private etcdPort = 0;

  constructor(folder: string, reach: ControlPlane["reach"] = "nodes") {
    this.folder = folder;
    this.reach = reach;
    this.host = reach === "nodes" ? network.host : "127.0.0.1";
    mkdirSync(folder, { recursive: true });
    this.audit = new AuditLog(this.file("audit.log"));
    this.processes = new Processes(folder);
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  get kubeconfig(): string {
    return this.file("kubeconfig");
  }

  get server(): string {
    return `https://${this.host}:${this.port}`;
  }

  async start(): Promise<void> {
    if (this.reach === "nodes") await makeBridge();
    await this.makeKeys();
    const [etcd = 0, etcdPeer = 0, manager = 0, scheduler = 0] = await freePorts(4);
    [this.port = 0] = await freePorts(1, this.host);
    this.etcdPort = etcd;
    const url = (port: number): string => `http://127.0.0.1:${port}`;
    this.processes.start("etcd", peer("etcd"), [
      ...["--data-dir", this.file("etcd"), "--log-level", "warn", "--unsafe-no-fsync"],
      ...["--listen-client-urls", url(etcd), "--advertise-client-urls", url(etcd)],
      ...["--listen-peer-urls", url(etcdPeer), "--initial-advertise-peer-urls", url(etcdPeer)],
      ...["--initial-cluster", `default=${url(etcdPeer)}`],
    ]);
    this.startApiServer();
    writeFileSync(this.kubeconfig, this.kubeconfigOf("admin"));
    await this.untilReady();
    if (this.reach === "bare") return;
    const common = ["--kubeconfig", this.kubeconfig, "--leader-elect=false"];
    this.processes.start("manager", peer("kube-controller-manager"), [
      ...common,
      ...[`--service-account-private-key-file=${this.file("sa.key")}`, `--root-ca-file=${this.file("ca.crt")}`],
      ...["--use-service-account-credentials=true", `--secure-port=${manager}`, "--bind-address=127.0.0.1"],
      // A node that died is noticed within seconds instead of minutes.
      ...(this.reach === "nodes" ? ["--node-monitor-grace-period=20s", "--node-monitor-period=2s"] : []),
    ]);
    const own = ["--bind-address=127.0.0.1", `--secure-port=${scheduler}`];
    this.processes.start("scheduler", peer("kube-scheduler"), [...common, ...own]);
  }

  /** Also starts it again after it was killed. */
  startApiServer(): void {
    const at = (name: string): string => this.file(name);
    this.processes.start("apiserver", peer("kube-apiserver"), [
      `--etcd-servers=http://127.0.0.1:${this.etcdPort}`,
      ...[`--secure-port=${this.port}`, `--bind-address=${this.host}`],
      ...(this.reach === "nodes" ? [`--advertise-address=${this.host}`] : ["--endpoint-reconciler-type=none"]),
      ...(this.reach === "bare" ? ["--disable-admission-plugins=ServiceAccount"] : []),
      ...[`--tls-cert-file=${at("server.crt")}`, `--tls-private-key-file=${at("server.key")}`],
      ...[`--client-ca-file=${at("ca.crt")}`, `--token-auth-file=${at("tokens.csv")}`],
      "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
      ...[`--service-account-key-file=${at("sa.pub")}`, `--service-account-signing-key-file=${at("sa.key")}`],
      ...["--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"],
      // Webhooks are called at the addresses of pods: this machine knows no cluster IPs.
      "--enable-aggregator-routing=true",
      ...["--kubelet-preferred-address-types=InternalIP", `--kubelet-client-certificate=${at("admin.crt")}`],
      `--kubelet-client-key=${at("admin.key")}`,
      ...[`--audit-policy-file=${at("audit.yaml")}`, `--audit-log-path=${at("audit.log")}`],
    ]);
  }

  /** Deletes a stored object without the API server, which may be away: `minions/h100-3` is a node. */
  async deleteStored(path: string): Promise<void> {
    const key = Buffer.from(`/registry/${path}`).toString("base64");
    const url = `http://127.0.0.1:${this.etcdPort}/v3/kv/deleterange`;
    const answer = await fetch(url, { method: "POST", body: JSON.stringify({ key }) });
    const { deleted } = (await answer.json()) as { deleted?: string };
    if (deleted !== "1") throw new Error(`etcd deleted ${deleted ?? "nothing"} for ${path}`);
  }

  async untilReady(): Promise<void> {
    await until(async () => (await this.kubectl("get", "--raw", "/readyz")) === "ok", 60_000);
  }

  kubectl(...args: string[]): Promise<string> {
    return ran(peer("kubectl"), ["--kubeconfig", this.kubeconfig, ...args]);
  }

  /** A kubeconfig with a token: `admin`, or one that the server gave out. */
  kubeconfigOf(token: string): string {
    const authority = readFileSync(this.file("ca.crt")).toString("base64");
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "real", cluster: { server: this.server, "certificate-authority-data": authority } }],
      users: [{ name: "user", user: { token } }],
      contexts: [{ name: "real", context: { cluster: "real", user: "user" } }],
      "current-context": "real",
    });
  }

  async stop(): Promise<void> {
    await this.processes.stopAll();
    if (this.reach === "nodes") await ran("ip", ["link", "del", network.bridge]).catch(() => "");
  }

  private async makeKeys(): Promise<void> {
    const openssl = (...args: string[]): Promise<string> => ran("openssl", args, { cwd: this.folder });
    await openssl("genrsa", "-out", "sa.key", "2048");
    await openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub");
    const ca = ["-days", "30", "-subj", "/CN=muster-real"];
    await openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", ...ca);
    const sign = async (name: string, subject: string, names = ""): Promise<void> => {
      await openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        `${name}.key`,
        "-out",
        `${name}.csr`,
        "-subj",
        subject,
      );
      writeFileSync(this.file(`${name}.ext`), names === "" ? "" : `subjectAltName=${names}\n`);
      const signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", `${name}.ext`];
      await openssl("x509", "-req", "-in", `${name}.csr`, ...signed, "-out", `${name}.crt`);
    };
    await sign("admin", "/O=system:masters/CN=admin");
    const names = [
      "kubernetes",
      "kubernetes.default",
      "kubernetes.default.svc",
      "kubernetes.default.svc.cluster.local",
    ];
    const alternatives = [...names.map((name) => `DNS:${name}`), "IP:10.96.0.1", `IP:${this.host}`];
    await sign("server", "/CN=kube-apiserver", alternatives.join(","));
    writeFileSync(
      this.file("tokens.csv"),
      "admin,admin,admin,system:masters\nrobot,robot,robot,robots\nstranger,stranger,stranger,\n",
    );
    const policy = { apiVersion: "audit.k8s.io/v1", kind: "Policy", omitStages: ["RequestReceived"] };
    const binds = { level: "Request", resources: [{ group: "", resources: ["pods/binding"] }] };
    const changes = { level: "RequestResponse", userGroups: musterAccounts, verbs: ["update", "patch"] };
    writeFileSync(
      this.file("audit.yaml"),
      JSON.stringify({ ...policy, rules: [binds, changes, { level: "Metadata" }] }),
    );
  }
}

export async function makeBridge(): Promise<void> {
  await ran("ip", ["link", "del", network.bridge]).catch(() => "");
  await ran("ip", ["link", "add", network.bridge, "type", "bridge"]);
  await ran("ip", ["addr", "add", `${network.host}/24`, "dev", network.bridge]);
  await ran("ip", ["link", "set", network.bridge, "up"]);
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
}
