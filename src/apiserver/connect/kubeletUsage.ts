/** What the nodes' kubelets measure, for `kubectl top`. */
import { Buffer } from "node:buffer";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { Clock } from "../../ports/clock.ts";
import type { PodUsage, Usage } from "../../ports/podAgent.ts";
import { kubeletBackend } from "./backend.ts";
import type { BackendClient } from "./backendClient.ts";

/** Kubelets measure about this often. */
const freshMs = 10_000;
const summaryBytesMax = 32 << 20;

export interface NodeMeasurements {
  readonly node: Usage | undefined;
  /** By UID. */
  readonly pods: ReadonlyMap<string, PodUsage>;
}

interface Measured {
  readonly cpu?: { readonly usageNanoCores?: number };
  readonly memory?: { readonly workingSetBytes?: number };
}

interface Summary {
  readonly node?: Measured;
  readonly pods?: readonly {
    readonly podRef?: { readonly uid?: string };
    readonly containers?: readonly (Measured & { readonly name?: string })[];
  }[];
}

export class KubeletUsage {
  private readonly client: BackendClient;
  private readonly clock: Clock;
  private readonly asked = new Map<string, { readonly atMs: number; readonly answer: Promise<NodeMeasurements> }>();

  constructor(client: BackendClient, clock: Clock) {
    this.client = client;
    this.clock = clock;
  }

  /** The last measurements of a node. A kubelet that does not answer has none: its usage is unknown, not zero. */
  of(node: Node): Promise<NodeMeasurements> {
    const nowMs = this.clock.nowMs();
    for (const [uid, { atMs }] of this.asked) if (nowMs - atMs > freshMs) this.asked.delete(uid);
    const uid = node.metadata.uid ?? node.metadata.name;
    const known = this.asked.get(uid);
    if (known !== undefined) return known.answer;
    const answer = this.read(node).then(measurementsOf, () => unknown);
    this.asked.set(uid, { atMs: nowMs, answer });
    return answer;
  }

  private async read(node: Node): Promise<Summary> {
    const path = "/stats/summary?only_cpu_and_memory=true";
    const answer = await this.client.send(kubeletBackend(node), { method: "GET", path });
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of answer) {
      bytes += (part as Buffer).length;
      if (bytes > summaryBytesMax) throw new Error("the summary is too long");
      parts.push(part as Buffer);
    }
    if (answer.statusCode !== 200) throw new Error(`HTTP ${answer.statusCode}`);
    return JSON.parse(Buffer.concat(parts).toString("utf8")) as Summary;
  }
}

const unknown: NodeMeasurements = { node: undefined, pods: new Map() };

function measurementsOf({ node, pods }: Summary): NodeMeasurements {
  const found = new Map<string, PodUsage>();
  for (const { podRef, containers } of pods ?? []) {
    const measured = (containers ?? []).flatMap((each) => {
      const usage = usageOf(each);
      return usage === undefined || each.name === undefined ? [] : { name: each.name, usage };
    });
    if (podRef?.uid !== undefined && measured.length > 0) found.set(podRef.uid, { containers: measured });
  }
  return { node: node === undefined ? undefined : usageOf(node), pods: found };
}

function usageOf({ cpu, memory }: Measured): Usage | undefined {
  const nanoCores = cpu?.usageNanoCores;
  const bytes = memory?.workingSetBytes;
  if (nanoCores === undefined || bytes === undefined) return undefined;
  return { cpu: `${nanoCores}n`, memory: `${Math.ceil(bytes / 1024)}Ki` };
}
