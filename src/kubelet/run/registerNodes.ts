import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { ControlPorts } from "../../control/runtime/controllers.ts";
import type { ReconcileResult } from "../../control/runtime/loop.ts";
import { reconcileResultOf } from "../../control/runtime/loop.ts";
import { Channel } from "../../control/runtime/sources.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import { nodeObject, ordinalOf, type SimNode, simNode } from "../node/simNode.ts";
import { kinds } from "./kubeletContext.ts";
import type { NodesOptions } from "./nodesOptions.ts";

/**
 * Creates the missing nodes of the pools, once for each process: a node that is deleted stays deleted until the next
 * start, as a real node until its kubelet restarts.
 */
export class RegisterNodes {
  readonly channel = new Channel();
  private readonly wanted = new Map<string, SimNode>();
  private readonly options: NodesOptions;
  private readonly ports: ControlPorts;
  private readonly nodes: ObjectCache<Node>;
  private usedOrdinals: Set<number> | undefined;
  private nextOrdinal = 0;

  constructor(options: NodesOptions, ports: ControlPorts, nodes: ObjectCache<Node>) {
    this.options = options;
    this.ports = ports;
    this.nodes = nodes;
    for (const { name: pool, profile, count } of options.pools) {
      for (let index = 0; index < count; index++) {
        const sim = simNode({ clusterSeed: options.seed, pool, profile, index });
        this.wanted.set(sim.name, sim);
        this.channel.push(sim.name);
      }
    }
  }

  async reconcile(name: string): Promise<ReconcileResult> {
    const sim = this.wanted.get(name);
    if (sim === undefined) return undefined;
    if (this.nodes.get(name) === undefined) {
      const nowMs = this.ports.clock.nowMs();
      const object = nodeObject(sim, { ordinal: this.ordinal(), nowMs, kwokTaint: this.options.kwokTaint });
      const outcome = await this.ports.kube.create(kinds.nodes, object);
      if (!outcome.ok && outcome.reason !== "AlreadyExists") return reconcileResultOf(outcome);
    }
    this.wanted.delete(name);
    return undefined;
  }

  /** Addresses are derived from it, so an ordinal of an existing node is not used again. */
  private ordinal(): number {
    if (this.usedOrdinals === undefined) {
      this.usedOrdinals = new Set();
      for (const [, node] of this.nodes.view().objects) {
        const used = ordinalOf(node);
        if (used !== undefined) this.usedOrdinals.add(used);
      }
    }
    while (this.usedOrdinals.has(this.nextOrdinal)) this.nextOrdinal++;
    return this.nextOrdinal++;
  }
}
