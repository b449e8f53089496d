import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { ControlPorts } from "../../control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../control/runtime/loop.ts";
import { Channel, type Source } from "../../control/runtime/sources.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { isSimulated } from "../node/simNode.ts";
import { kinds } from "./kubeletContext.ts";

const taint = { key: marks.kwokNode, value: marks.kwokNodeValue, effect: "NoSchedule" } as const;

/**
 * Taints the simulated nodes of a cluster that real ones have joined, so that no pod that has work to do is bound to a
 * node that only plays. Pods that are there stay; a pod that tolerates the taint is still bound.
 */
export class TaintBesideReal {
  private readonly ports: ControlPorts;
  private readonly nodes: ObjectCache<Node>;
  private readonly channel = new Channel();
  private hasReal = false;

  constructor(ports: ControlPorts, nodes: ObjectCache<Node>) {
    this.ports = ports;
    this.nodes = nodes;
  }

  sources(): Source[] {
    const follow: Source = {
      cache: this.nodes,
      start: () =>
        this.nodes.onEvent(({ type, object }) => {
          if (type === "deleted") return;
          if (isSimulated(object)) this.channel.push(object.metadata.name);
          else if (!this.hasReal) this.found();
        }),
    };
    return [this.channel, follow];
  }

  async reconcile(name: string): Promise<ReconcileResult> {
    const node = this.nodes.get(name);
    const taints = node?.spec?.taints ?? [];
    if (node === undefined || !this.hasReal || !isSimulated(node)) return undefined;
    if (taints.some(({ key, effect }) => key === taint.key && effect === taint.effect)) return undefined;
    const tainted: Node = { ...node, spec: { ...node.spec, taints: [...taints, taint] } };
    const outcome = await this.ports.kube.update({ ...kinds.nodes, namespace: "", name }, tainted);
    // A node that has changed since comes back with its event.
    return outcome.ok || outcome.reason === "Conflict" ? undefined : reconcileResultOf(outcome);
  }

  private found(): void {
    this.hasReal = true;
    for (const [, node] of this.nodes.view().objects) if (isSimulated(node)) this.channel.push(node.metadata.name);
  }
}
