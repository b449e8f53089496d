import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { loadKubeconfig } from "../../../src/adapters/kubernetes/kubeconfig.ts";
import { type KubeHttp, kubeHttp } from "../../../src/adapters/kubernetes/kubeHttp.ts";
import { systemClock } from "../../../src/adapters/systemClock.ts";
import type { Node, Pod } from "../../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../../src/model/objects/object.ts";
import type { Resource } from "../../../src/model/objects/resource.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { silentLog } from "../../contract/contractClusters.ts";
import { type AuditLine, AuditLog } from "./auditLog.ts";
import { ControlPlane } from "./controlPlane.ts";
import { buildMusterImage } from "./musterImage.ts";
import { RealNode } from "./node.ts";
import { peer } from "./peers.ts";
import { Processes, ran, until } from "./processes.ts";

export const root = fileURLToPath(new URL("../../../", import.meta.url));
const program = join(root, "dist/bundle/program/main.js");
export const gpusOfNode = 4;

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A real control plane with real nodes of four played GPUs each, or with none. */
export class RealCluster {
  readonly folder: string;
  readonly plane: ControlPlane;
  readonly nodes: readonly RealNode[];
  /** Programs of tests, such as `muster run` on this machine. */
  readonly processes: Processes;
  private client: KubeHttp | undefined;

  constructor(folder: string, { nodes = 2 } = {}) {
    this.folder = folder;
    mkdirSync(join(folder, "programs"), { recursive: true });
    this.processes = new Processes(join(folder, "programs"));
    this.plane = new ControlPlane(join(folder, "plane"), nodes > 0 ? "nodes" : "local");
    const images = [join(folder, "muster.tar")];
    this.nodes = Array.from({ length: nodes }, (_, at) => {
      const number = at + 1;
      return new RealNode(this.plane, join(folder, `node-${number}`), { number, gpus: gpusOfNode, images });
    });
  }

  async start(): Promise<void> {
    if (this.nodes.length > 0) buildMusterImage(join(this.folder, "muster.tar"));
    await this.plane.start();
    this.client = await clientOf(this.plane.kubeconfig);
    await Promise.all(this.nodes.map((node) => node.start()));
    await until(
      async () => (await this.readyNodes()).length === this.nodes.length,
      120_000,
      () => this.kubectl("get", "nodes"),
    );
  }

  /** Nodes that are ready and have their GPUs. */
  async readyNodes(): Promise<Node[]> {
    return (await this.list<Node>(builtin.Node)).filter(
      ({ status }) =>
        status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true &&
        Number(status.allocatable?.["nvidia.com/gpu"] ?? 0) >= gpusOfNode,
    );
  }

  get kube(): KubeHttp {
    if (this.client === undefined) throw new Error("the cluster was not started");
    return this.client;
  }

  async list<T extends KubeObject>(
    kind: Resource<T>,
    options: { namespace?: string; labelSelector?: string } = {},
  ): Promise<T[]> {
    const answer = await this.kube.list(kind, options);
    if (!answer.ok) throw new Error(`${kind.plural}: ${answer.message}`);
    return [...answer.value.items];
  }

  pods(namespace: string, labelSelector?: string): Promise<Pod[]> {
    return this.list<Pod>(builtin.Pod, { namespace, ...(labelSelector !== undefined && { labelSelector }) });
  }

  kubectl(...args: string[]): Promise<string> {
    return this.plane.kubectl(...args);
  }

  /** Applies objects as `kubectl apply` does. */
  async apply(namespace: string, ...objects: readonly object[]): Promise<void> {
    const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
    await ran(peer("kubectl"), ["--kubeconfig", this.plane.kubeconfig, "-n", namespace, "apply", "-f", "-"], { input });
  }

  /** The objects of a manifest of the repository, with images that the nodes have. */
  manifest(path: string): KubeObject[] {
    const text = readFileSync(join(root, path), "utf8");
    const objects = parseAllDocuments(text).map((document) => document.toJS() as unknown);
    return objects
      .filter((object) => object !== null)
      .map((object) => {
        const { metadata, ...rest } = withImages(object) as KubeObject;
        const { namespace: _, ...named } = metadata;
        return { ...rest, metadata: named } as KubeObject;
      });
  }

  async namespace(name: string): Promise<string> {
    await this.kubectl("create", "namespace", name).catch(() => "");
    // Pods are refused until its ServiceAccount is there.
    await until(async () => (await this.list(builtin.ServiceAccount, { namespace: name })).length > 0, 30_000);
    return name;
  }

  /** Deletes everything of a namespace, and waits until it is gone. */
  async clean(namespace: string): Promise<void> {
    await this.kubectl("delete", "namespace", namespace, "--wait=false").catch(() => "");
    await until(
      async () => !(await this.kube.get({ ...builtin.Namespace, namespace: "", name: namespace })).ok,
      180_000,
      () => this.kubectl("get", "pods", "-n", namespace),
    );
  }

  logs(namespace: string, pod: string, ...more: string[]): Promise<string> {
    return this.kubectl("logs", "-n", namespace, pod, ...more);
  }

  /** A command of Muster's, run to its end. */
  muster(...args: string[]): Promise<CliResult> {
    const flags = [...args, "--kubeconfig", this.plane.kubeconfig];
    return new Promise((resolve) => {
      execFile(process.execPath, [program, ...flags], { cwd: this.folder, maxBuffer: 1 << 28 }, (error, out, err) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
        resolve({ code, out, err });
      });
    });
  }

  /** A command of Muster's that runs until it is stopped. */
  startMuster(name: string, ...args: string[]): void {
    const whose = args.includes("--kubeconfig") ? [] : ["--kubeconfig", this.plane.kubeconfig];
    this.processes.start(name, process.execPath, [program, ...args, ...whose]);
  }

  /** Requests of an account that it has no right to, as the API server's audit log has them. */
  forbidden(user: string): { readonly verb: string; readonly path: string }[] {
    return (
      new AuditLog(this.plane.file("audit.log"))
        .read(user)
        // A namespace that is being deleted answers 403, too, and that is no right that is missing.
        .filter(({ user: by, annotations }) => by.username === user && annotations?.[decision] === "forbid")
        .map(({ verb, requestURI }) => ({ verb, path: requestURI }))
    );
  }

  /** Updates and patches of Muster's accounts, as the API server's audit log has them. */
  changes(): AuditLine[] {
    return new AuditLog(this.plane.file("audit.log")).read('"level":"RequestResponse"');
  }

  async stop(): Promise<void> {
    await this.processes.stopAll();
    await Promise.all(this.nodes.map((node) => node.stop()));
    this.client?.close();
    await this.plane.stop();
  }

  /** For the person who looks at a failure. */
  async describe(file: string): Promise<void> {
    const pods = await this.kubectl("get", "pods", "-A", "-o", "wide").catch(String);
    const events = await this.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp").catch(String);
    writeFileSync(join(this.folder, file), `${pods}\n${events}`);
  }
}

export async function clientOf(kubeconfig: string, fieldManager = "real-test"): Promise<KubeHttp> {
  const connection = await loadKubeconfig({ path: kubeconfig });
  return kubeHttp(connection, { clock: systemClock(), log: silentLog }, { fieldManager });
}

const decision = "authorization.k8s.io/decision";

/** The nodes have one image of a shell, so every container runs that and waits. */
function withImages(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withImages);
  if (typeof value !== "object" || value === null) return value;
  const { image, ...rest } = value as { image?: unknown; [field: string]: unknown };
  const others = Object.fromEntries(Object.entries(rest).map(([key, field]) => [key, withImages(field)]));
  if (typeof image !== "string" || !("name" in rest)) return { ...others, ...(image !== undefined && { image }) };
  const command = ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"];
  return { ...others, image: "busybox", imagePullPolicy: "IfNotPresent", command, args: [] };
}
