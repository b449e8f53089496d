import { readFault } from "../../kubelet/node/faults.ts";
import { addFaults, faultId } from "../../kubelet/run/clusterFaults.ts";
import type { NewObject } from "../../model/intent.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { builtin } from "../../model/resources.generated.ts";
import { registerFault } from "../faults.ts";
import type { World } from "../world.ts";

/** What can go wrong with a node, beside what can go wrong with the API and with processes. */
const kinds = [
  ["node-flap", "a node falls silent for a while and comes back as it was"],
  ["node-loss", "a node is gone with what ran on it, and comes back as another one of its name"],
  ["slow-release", "a device stays in use after the API has forgotten its pod"],
  ["gpu-fault", "a GPU is broken for a while: tainted or withdrawn, perhaps with what runs on it"],
] as const;
for (const [name, about] of kinds) registerFault({ concerns: "nodes", name, about });

export interface FaultyNodes {
  readonly names: readonly string[];
  readonly gpus: number;
  /** The object of a node that comes back. */
  nodeObject(name: string, nowMs: number): NewObject<Node>;
}

/** A node may be struck this often by each kind. */
const timesMax = 2;
const lengthMsMax = 6_000;

/** When and for how long are two decisions, so that shrinking can take each away. */
export function planNodeFaults(world: World, nodes: FaultyNodes): void {
  for (const node of nodes.names) {
    for (const [kind] of kinds) {
      for (let time = 1; time <= timesMax; time++) {
        const atMs = world.decide(kind, `${node}|${time}`, (dice, strength) =>
          dice.perMille(200 * strength) ? dice.between(1, world.scenario.faultPhaseMs) : 0,
        );
        if (atMs === 0) continue;
        const drawnMs = world.decide(kind, `${node}|${time}|length`, (dice) => dice.between(500, lengthMsMax));
        const lengthMs = Math.max(500, drawnMs);
        world.later(atMs * 1000, time, () => {
          if (!world.chance.calm) strike(world, nodes, { kind, node, lengthMs });
        });
      }
    }
  }
}

function strike(
  world: World,
  nodes: FaultyNodes,
  { kind, node, lengthMs }: { kind: (typeof kinds)[number][0]; node: string; lengthMs: number },
): void {
  world.fault(node, `${kind} for ${lengthMs} ms`);
  switch (kind) {
    case "node-flap":
      inject(world, { kind: "heartbeat-stop", node }, lengthMs);
      return;
    case "slow-release":
      inject(world, { kind: "slow-release", node, delay: lengthMs }, lengthMs);
      return;
    case "gpu-fault": {
      const dra = ["NoSchedule", "NoExecute", "remove"][lengthMs % 3] ?? "NoSchedule";
      inject(
        world,
        { kind: "gpu-unhealthy", node, device: lengthMs % nodes.gpus, dra, kill: lengthMs % 2 === 0 },
        lengthMs,
      );
      return;
    }
    case "node-loss":
      void lose(world, nodes, node, lengthMs);
  }
}

/** As `muster fault` does it. */
function inject(world: World, given: JsonObject, lengthMs: number): void {
  const nowMs = world.nowMs;
  const about = `${String(given["node"])}-${world.nowUs}`;
  const fault = readFault(
    { ...given, fromMs: nowMs, untilMs: nowMs + lengthMs },
    { nowMs, id: faultId(String(given["kind"]), nowMs, about) },
  );
  void addFaults(world.kube, [fault], nowMs);
}

const nodesKind = builtin.Node;
const podsKind = builtin.Pod;

/** The Node object is deleted, the cluster cleans up after it, and a machine of the same name registers. */
async function lose(world: World, nodes: FaultyNodes, name: string, lengthMs: number): Promise<void> {
  await world.kube.delete({ ...nodesKind, namespace: "", name });
  world.later(Math.floor(lengthMs / 2) * 1000, 0, () => void clearPods(world, name));
  world.later(lengthMs * 1000, 0, () => void world.kube.create(nodesKind, nodes.nodeObject(name, world.nowMs)));
}

async function clearPods({ kube }: World, node: string): Promise<void> {
  const listed = await kube.list(podsKind, { fieldSelector: `spec.nodeName=${node}` });
  if (!listed.ok) return;
  for (const { metadata } of listed.value.items) {
    const { namespace = "", name, uid } = metadata;
    await kube.delete({ ...podsKind, namespace, name }, { preconditions: { uid }, gracePeriodSeconds: 0 });
  }
}
