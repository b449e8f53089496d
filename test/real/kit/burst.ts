import type { Pod } from "../../../src/model/kubernetes.generated.ts";
import type { Unstored } from "../../../src/model/objects/object.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { type AuditLine, type Bound, bindsIn } from "./auditLog.ts";
import type { RealCluster } from "./cluster.ts";
import { podObject } from "./objects.ts";
import { until } from "./processes.ts";

const groups = { group: "scheduling.run.ai", version: "v2alpha2", plural: "podgroups" };
const writers = 10;

/** Many pods of one GPU each at once, in a namespace of their own, and what became of them. */
export class Burst {
  readonly cluster: RealCluster;
  private readonly namespace: string;
  private readonly spec: object;
  private names: string[] = [];
  /** What the API server has answered since the burst began. */
  lines: AuditLine[] = [];
  /** Creates that were refused; each was sent again. */
  refusals: string[] = [];

  constructor(cluster: RealCluster, namespace: string, spec: object = {}) {
    this.cluster = cluster;
    this.namespace = namespace;
    this.spec = spec;
  }

  /** Through whatever happens to the API server. `pause`: so many pods are created only after that. */
  async create(prefix: string, count: number, pause?: { last: number; until: Promise<void> }): Promise<void> {
    const { cluster, namespace, spec } = this;
    cluster.plane.audit.read();
    this.lines = [];
    this.refusals = [];
    this.names = Array.from({ length: count }, (_, at) => `${prefix}-${at}`);
    const left = [...this.names];
    const writer = async (): Promise<void> => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) {
        if (left.length < (pause?.last ?? 0)) await pause?.until;
        const pod = podObject(name, { gpus: 1, spec }) as Unstored<Pod>;
        const object = { ...pod, metadata: { ...pod.metadata, namespace } };
        await until(async () => {
          const made = await cluster.kube.create<Pod>(builtin.Pod, object);
          if (made.ok || made.reason === "AlreadyExists") return true;
          this.refusals.push(made.message);
          return false;
        }, 300_000);
      }
    };
    await Promise.all(Array.from({ length: writers }, writer));
  }

  /** In the order in which the API server received them. */
  binds(): Bound[] {
    this.lines.push(...this.cluster.plane.audit.read());
    const names = new Set(this.names);
    const binds = bindsIn(this.lines).filter(({ pod }) => names.has(pod));
    return binds.sort((one, other) => one.atMs - other.atMs);
  }

  /** Pods that were bound twice. */
  twice(): string[] {
    const seen = new Set<string>();
    return this.binds()
      .filter(({ pod }) => seen.has(pod) || seen.add(pod) === undefined)
      .map(({ pod }) => pod);
  }

  async untilBound(count: number): Promise<void> {
    const bound = async (): Promise<number> =>
      (await this.cluster.pods(this.namespace)).filter(({ spec }) => spec?.nodeName !== undefined).length;
    await until(async () => (await bound()) === count, 300_000, bound);
    this.binds();
  }

  /** Pods that a node refused, as more was bound to it than it has. */
  async refused(): Promise<string[]> {
    return (await this.cluster.pods(this.namespace))
      .filter(({ status }) => status?.phase === "Failed")
      .map(({ metadata, status }) => `${metadata.name} ${status?.reason}`);
  }

  /** No pod, and no group of one. */
  async empty(): Promise<void> {
    const { cluster, namespace } = this;
    await cluster.kubectl("-n", namespace, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false");
    const left = async (): Promise<number> =>
      (await cluster.pods(namespace)).length + (await cluster.list(groups, { namespace })).length;
    await until(async () => (await left()) === 0, 180_000, left);
  }
}
