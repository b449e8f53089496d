import { readFault } from "../../kubelet/node/faults.ts";
import { addFaults, faultId } from "../../kubelet/run/clusterFaults.ts";
import type { NewObject } from "../../model/intent.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { builtin } from "../../model/resources.generated.ts";
import { registerFault } from "../faults.ts";
import type { Simulation } from "../simulation.ts";

/** Faults of nodes, in addition to those of the API and of processes. */
const kinds = [
  ["node-flap", "a node falls silent for a while and comes back as it was"],
  ["node-loss", "a node is gone with what ran on it, and comes back as another one of its name"],
  ["slow-release", "a device stays in use after the API has forgotten its pod"],
  ["gpu-fault", "a GPU is broken for a while: tainted or withdrawn, perhaps with what runs on it"],
] as const;
for (const [name, about] of kinds) registerFault({ concerns: "nodes", name, about });

type FaultOfNodes = (typeof kinds)[number][0];

/** Nodes that can be lost. */
export interface LosableNodes {
  readonly names: readonly string[];
  /** The object of a node that comes back. */
  nodeObject(name: string, nowMs: number): NewObject<Node>;
}

export interface FaultyNodes extends LosableNodes {
  readonly gpus: number;
}

/** The number of faults of each kind per node. */
const timesMax = 2;
const lengthMsMax = 6_000;
/** A node that is lost with an outage stays away for longer than watches are late. */
const afterOutageMsMax = 25_000;

export function planNodeFaults(simulation: Simulation, nodes: FaultyNodes): void {
  for (const node of nodes.names)
    for (const [kind] of kinds)
      planTimes(simulation, node, kind, (lengthMs) => strike(simulation, nodes, { kind, node, lengthMs }));
}

/** Nodes are lost at random times, and in the moment at which the API server is back after an outage. */
export function planNodeLosses(simulation: Simulation, nodes: LosableNodes): void {
  const strikeNode = (node: string, lengthMs: number): void => {
    simulation.fault(node, `node-loss for ${lengthMs} ms`);
    void lose(simulation, nodes, node, lengthMs);
  };
  for (const node of nodes.names) planTimes(simulation, node, "node-loss", (lengthMs) => strikeNode(node, lengthMs));
  simulation.outages.onReturn(() => {
    for (const node of nodes.names) {
      const lengthMs = simulation.decide("outage", simulation.chance.nth(`${node}|lost`), (dice) =>
        dice.below(2) === 0 ? dice.between(500, afterOutageMsMax) : 0,
      );
      if (lengthMs > 0) strikeNode(node, lengthMs);
    }
  });
}

/** Time and length are two decisions, so that shrinking can remove each. */
function planTimes(simulation: Simulation, node: string, kind: FaultOfNodes, run: (lengthMs: number) => void): void {
  for (let time = 1; time <= timesMax; time++) {
    const atMs = simulation.decide(kind, `${node}|${time}`, (dice, strength) =>
      dice.perMille(200 * strength) ? dice.between(1, simulation.scenario.faultPhaseMs) : 0,
    );
    if (atMs === 0) continue;
    const drawnMs = simulation.decide(kind, `${node}|${time}|length`, (dice) => dice.between(500, lengthMsMax));
    const lengthMs = Math.max(500, drawnMs);
    simulation.later(atMs * 1000, time, () => {
      if (!simulation.chance.calm) run(lengthMs);
    });
  }
}

function strike(
  simulation: Simulation,
  nodes: FaultyNodes,
  { kind, node, lengthMs }: { kind: FaultOfNodes; node: string; lengthMs: number },
): void {
  simulation.fault(node, `${kind} for ${lengthMs} ms`);
  switch (kind) {
    case "node-flap":
      inject(simulation, { kind: "heartbeat-stop", node }, lengthMs);
      return;
    case "slow-release":
      inject(simulation, { kind: "slow-release", node, delay: lengthMs }, lengthMs);
      return;
    case "gpu-fault": {
      const dra = ["NoSchedule", "NoExecute", "remove"][lengthMs % 3] ?? "NoSchedule";
      inject(
        simulation,
        { kind: "gpu-unhealthy", node, device: lengthMs % nodes.gpus, dra, kill: lengthMs % 2 === 0 },
        lengthMs,
      );
      return;
    }
    case "node-loss":
      void lose(simulation, nodes, node, lengthMs);
  }
}

/** Injects a fault as `muster fault` does. */
function inject(simulation: Simulation, given: JsonObject, lengthMs: number): void {
  const nowMs = simulation.nowMs;
  const about = `${String(given["node"])}-${simulation.nowUs}`;
  const fault = readFault(
    { ...given, fromMs: nowMs, untilMs: nowMs + lengthMs },
    { nowMs, id: faultId(String(given["kind"]), nowMs, about) },
  );
  void addFaults(simulation.kube, [fault], nowMs);
}

const nodesKind = builtin.Node;
const podsKind = builtin.Pod;

/** Deletes the Node object and its pods, and registers another node of the same name later. */
async function lose(simulation: Simulation, nodes: LosableNodes, name: string, lengthMs: number): Promise<void> {
  await simulation.kube.delete({ ...nodesKind, namespace: "", name });
  simulation.later(Math.floor(lengthMs / 2) * 1000, 0, () => void clearPods(simulation, name));
  simulation.later(
    lengthMs * 1000,
    0,
    () => void simulation.kube.create(nodesKind, nodes.nodeObject(name, simulation.nowMs)),
  );
}

async function clearPods({ kube }: Simulation, node: string): Promise<void> {
  const listed = await kube.list(podsKind, { fieldSelector: `spec.nodeName=${node}` });
  if (!listed.ok) return;
  for (const { metadata } of listed.value.items) {
    const { namespace = "", name, uid } = metadata;
    await kube.delete({ ...podsKind, namespace, name }, { preconditions: { uid }, gracePeriodSeconds: 0 });
  }
}
