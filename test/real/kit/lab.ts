/** `muster up` as the control plane of real nodes, which join it as `muster node join` says. */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { Pod } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { type CliResult, clientOf, gpusOfNode, root } from "./cluster.ts";
import { makeBridge, network } from "./controlPlane.ts";
import { buildMusterImage, musterImage } from "./musterImage.ts";
import { type Join, RealNode } from "./node.ts";
import { peer } from "./peers.ts";
import { freePorts, Processes, ran, until } from "./processes.ts";

const program = join(root, "dist/bundle/program/main.js");

interface JoinOutput {
  readonly server: string;
  readonly podCidr: string;
  readonly files: readonly { readonly path: string; readonly content: string }[];
  readonly kubeletFlags: readonly string[];
  readonly script: string;
}

export class Lab {
  readonly folder: string;
  readonly nodes: readonly RealNode[];
  readonly processes: Processes;
  private port = 0;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(join(folder, "programs"), { recursive: true });
    this.processes = new Processes(join(folder, "programs"));
    const images = [join(folder, "muster.tar")];
    this.nodes = [1, 2].map(
      (number) =>
        new RealNode({ kubeconfig: this.kubeconfig }, join(folder, `node-${number}`), {
          number,
          images,
          gpus: gpusOfNode,
          join: (name) => this.join(name),
        }),
    );
  }

  get kubeconfig(): string {
    return join(this.folder, "data/kubeconfig");
  }

  async start(): Promise<void> {
    buildMusterImage(join(this.folder, "muster.tar"));
    await makeBridge();
    [this.port = 0] = await freePorts(1, network.host);
    await this.up();
    await Promise.all(this.nodes.map((node) => node.start()));
    await until(
      async () => {
        const ready = await this.nodesReady();
        return ready.length === this.nodes.length && ready.every(({ gpus }) => gpus === gpusOfNode);
      },
      120_000,
      () => this.kubectl("get", "nodes,csr"),
    );
  }

  /** Also starts it again on the same data after it was killed. */
  async up(): Promise<void> {
    this.processes.start("up", process.execPath, [
      ...[program, "up", "--pool", "none", "--host", network.host, "--port", String(this.port)],
      ...["--data-dir", join(this.folder, "data"), "--no-dashboard"],
      ...["--image", musterImage, "--image-pull-policy", "IfNotPresent"],
    ]);
    await until(
      async () => (await this.kubectl("get", "--raw", "/readyz")) === "ok",
      60_000,
      () => this.log(),
    );
  }

  async kill(): Promise<void> {
    await this.processes.stop("up", "SIGKILL");
  }

  log(): string {
    return this.processes.log("up");
  }

  /** What the command prints, for a machine without systemd. */
  async joinOutput(name: string): Promise<JoinOutput> {
    const { code, out, err } = await this.muster("node", "join", name, "-o", "json");
    if (code !== 0) throw new Error(err);
    return JSON.parse(out) as JoinOutput;
  }

  private async join(name: string): Promise<Join> {
    const { files } = await this.joinOutput(name);
    const contentOf = (suffix: string): string => files.find(({ path }) => path.endsWith(suffix))?.content ?? "";
    const authorityPath = join(this.folder, `node-${name.replace("real-", "")}`, "ca.crt");
    const moved = (text: string): string => text.replaceAll("/etc/kubernetes/pki/ca.crt", authorityPath);
    const { authentication, authorization, rotateCertificates } = parse(moved(contentOf("config.yaml"))) as Record<
      string,
      unknown
    >;
    const bootstrap = stringify(parse(moved(contentOf("bootstrap-kubelet.conf"))));
    return { bootstrap, authority: contentOf("ca.crt"), access: { authentication, authorization, rotateCertificates } };
  }

  /** Names and GPUs of the nodes that are ready. */
  async nodesReady(): Promise<{ name: string; gpus: number }[]> {
    const client = await clientOf(this.kubeconfig);
    try {
      const answer = await client.list(builtin.Node);
      if (!answer.ok) throw new Error(answer.message);
      return answer.value.items
        .filter(({ status }) => status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"))
        .map(({ metadata, status }) => ({
          name: metadata.name,
          gpus: Number(status?.allocatable?.["nvidia.com/gpu"] ?? 0),
        }));
    } finally {
      client.close();
    }
  }

  async pods(namespace = "default", labelSelector?: string): Promise<Pod[]> {
    const client = await clientOf(this.kubeconfig);
    try {
      const answer = await client.list(builtin.Pod, {
        namespace,
        ...(labelSelector !== undefined && { labelSelector }),
      });
      if (!answer.ok) throw new Error(answer.message);
      return [...answer.value.items];
    } finally {
      client.close();
    }
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const input = objects.map((object) => JSON.stringify(object)).join("\n---\n");
    await ran(peer("kubectl"), ["--kubeconfig", this.kubeconfig, "apply", "-f", "-"], { input });
  }

  kubectl(...args: string[]): Promise<string> {
    return ran(peer("kubectl"), ["--kubeconfig", this.kubeconfig, ...args]);
  }

  /** kubectl with everything about how it ended. */
  tried(
    args: readonly string[],
    options: { input?: string | Buffer; env?: Record<string, string> } = {},
  ): Promise<CliResult> {
    return tried(peer("kubectl"), ["--kubeconfig", this.kubeconfig, ...args], options);
  }

  muster(...args: string[]): Promise<CliResult> {
    return tried(process.execPath, [program, ...args, "--kubeconfig", this.kubeconfig]);
  }

  /** A kubeconfig with the node's own certificate. */
  credentialsOf(node: RealNode): string {
    return node.file("kubelet.conf");
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.processes.stopAll();
  }

  async describe(file: string): Promise<void> {
    const shown = await this.kubectl("get", "pods,nodes,events", "-A", "-o", "wide").catch(String);
    writeFileSync(join(this.folder, file), shown);
  }

  read(name: string): string {
    return readFileSync(join(this.folder, name), "utf8");
  }
}

function tried(
  command: string,
  args: readonly string[],
  { input, env = {} }: { input?: string | Buffer; env?: Record<string, string> } = {},
): Promise<CliResult> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env }, maxBuffer: 1 << 28 };
    const child = execFile(command, args, options, (error, out, err) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, out, err });
    });
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });
}
