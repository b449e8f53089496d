import {
  decideNodeLifecycle,
  decideTaintEviction,
  type NodeLifeOptions,
  nodeLifeDefaults,
} from "../../decide/workloads/nodes/nodeLifecycle.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import type { Lease, Node, NodeCondition, Pod } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { Channel, forObject, kindSource, timerSource } from "../runtime/sources.ts";
import { leaseKind, nodeKind } from "./kinds.ts";
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { normal } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const leaseNamespace = "kube-node-lease";

export interface NodeLifecycleTimes extends NodeLifeOptions {
  /** The interval in which silence is measured. */
  readonly tickMs: number;
}

export const nodeLifecycleTimes: NodeLifecycleTimes = { ...nodeLifeDefaults, tickMs: 5_000 };

/** Detects silent nodes, sets their conditions and taints, and evicts pods that do not tolerate them. */
export function addNodeLifecycle(
  controllers: Controllers,
  caches: WorkloadCaches,
  podsByNode: ObjectIndex<Pod>,
  times: NodeLifecycleTimes = nodeLifecycleTimes,
): void {
  const { inFlight, nodes, pods } = caches;
  const { ports, kube } = controllers;
  const recorder = caches.recorder("node-controller");
  const leases = controllers.cache(leaseKind);
  const heartbeats = new NodeHeartbeats(times.tickMs);
  const disruptionChanged = new Channel();
  const ticking = timerSource(ports, times.tickMs, () => {
    heartbeats.tick();
    return [];
  });
  const podsOn = (name: string): readonly Pod[] => podsByNode.get(name);

  nodes.cache.onEvent((event) => {
    const { name } = event.object.metadata;
    const before = heartbeats.isFullDisruption;
    if (event.type === "deleted") heartbeats.forget(name);
    else heartbeats.observe(name, "status", heartbeatOf(event.object));
    if (event.type !== "deleted") heartbeats.setReachable(name, readyOf(event.object) !== "Unknown");
    // When all nodes are unreachable, or the first one reports again, the evictions of all nodes change.
    if (before !== heartbeats.isFullDisruption)
      for (const [key] of nodes.cache.view().objects) disruptionChanged.push(key);
    if (event.type === "added" && !event.isOld) {
      const note = `Node ${name} event: Registered Node ${name} in Controller`;
      recorder.record(event.object, normal("RegisteredNode", "Register", note));
    }
  });
  leases.onEvent(({ type, object }) => {
    if (object.metadata.namespace !== leaseNamespace || type === "deleted") return;
    heartbeats.observe(object.metadata.name, "lease", renewalOf(object));
  });

  const snapshotOf = (node: Node) => {
    const { name } = node.metadata;
    const lease = leases.get(`${leaseNamespace}/${name}`);
    const silentMs = heartbeats.silentMs(name);
    return {
      node,
      lease,
      pods: podsOn(name),
      isFullDisruption: heartbeats.isFullDisruption,
      ...(silentMs !== undefined && { seenMs: ports.clock.nowMs() - silentMs }),
    };
  };

  const decideLife = (node: Node, nowMs: number): ReportedDecision => {
    const decision = decideNodeLifecycle(snapshotOf(node), nowMs, times);
    return { ...decision, onCommitted: (committed) => recordNotReady(node, committed) };
  };

  const recordNotReady = ({ metadata }: Node, committed: readonly Committed[]): void => {
    for (const { intent, outcome } of committed) {
      if (intent.type !== "status" || !outcome.ok) continue;
      const note =
        intent.target.plural === nodeKind.plural
          ? `Node ${metadata.name} status is now: NodeNotReady`
          : "Node is not ready";
      recorder.record(intent.object, normal("NodeNotReady", "Mark", note));
    }
  };

  /** A lagging watch looks like a silent node: before a node is marked Unknown its lease is read again. */
  const rereadLease = async (key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> => {
    const node = nodes.cache.get(key);
    if (node === undefined) return undefined;
    const { intents } = decideNodeLifecycle(snapshotOf(node), ports.clock.nowMs(), times);
    if (!intents.some(({ type, target }) => type === "status" && target.plural === nodeKind.plural)) return undefined;
    const target = { ...leaseKind, namespace: leaseNamespace, name: key };
    const fresh = await lookAgain(kube, target, { atLeast: leases.revision, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
    const { object } = fresh.value;
    if (object !== undefined) heartbeats.observe(key, "lease", renewalOf(object));
    return undefined;
  };

  addOwnerController(controllers, inFlight, {
    name: "node-lifecycle-controller",
    kind: nodeKind,
    sources: [
      kindSource(nodes.cache, forObject(), isMoreThanHeartbeat),
      disruptionChanged,
      ticking,
      caches.recordersEnd,
    ],
    before: rereadLease,
    decide: decideLife,
  });

  const decideEviction = (node: Node, nowMs: number): ReportedDecision => {
    const decision = decideTaintEviction({ node, pods: podsOn(node.metadata.name) }, nowMs);
    const onCommitted = (committed: readonly Committed[]): void => {
      for (const { intent, outcome } of committed) {
        if (intent.type !== "delete" || !outcome.ok) continue;
        const pod = outcome.value.object ?? pods.cache.get(`${intent.target.namespace}/${intent.target.name}`);
        const note = `Marking for deletion Pod ${intent.target.namespace}/${intent.target.name}`;
        if (pod !== undefined) recorder.record(pod, normal("TaintManagerEviction", "Evict", note));
      }
    };
    return { ...decision, onCommitted };
  };

  /** Only pods on a node with NoExecute taints matter. */
  const nodeOfPod = ({ object }: CacheEvent<Pod>): string[] => {
    const { nodeName = "" } = object.spec ?? {};
    return nodeName !== "" && hasNoExecute(nodes.get(undefined, nodeName)) ? [nodeName] : [];
  };
  addOwnerController(controllers, inFlight, {
    name: "taint-eviction-controller",
    kind: nodeKind,
    sources: [kindSource(nodes.cache, forObject(), areTaintsChanged), kindSource(pods.cache, nodeOfPod)],
    decide: decideEviction,
  });
}

/**
 * How long each node has been silent, by local timers: neither a wrong clock of a node nor a step of the local clock
 * makes a node NotReady. Upstream checks its nodes at the same interval.
 */
class NodeHeartbeats {
  private readonly seen = new Map<string, { readonly values: Map<string, string>; tick: number }>();
  private readonly reachable = new Set<string>();
  private readonly unreachable = new Set<string>();
  private readonly tickMs: number;
  private ticks = 0;

  constructor(tickMs: number) {
    this.tickMs = tickMs;
  }

  tick(): void {
    this.ticks++;
  }

  /** A heartbeat counts if it differs from the last one of the same kind: lease or status. */
  observe(name: string, source: "lease" | "status", value: string | undefined): void {
    if (value === undefined) return;
    let known = this.seen.get(name);
    if (known === undefined) {
      known = { values: new Map(), tick: this.ticks };
      this.seen.set(name, known);
    }
    if (known.values.get(source) === value) return;
    known.values.set(source, value);
    known.tick = this.ticks;
  }

  /** Rounded down: the tick in which the heartbeat arrived is not counted. Undefined: there was no heartbeat. */
  silentMs(name: string): number | undefined {
    const known = this.seen.get(name);
    return known === undefined ? undefined : Math.max(0, this.ticks - known.tick - 1) * this.tickMs;
  }

  /** Unreachable: the Ready condition is Unknown. */
  setReachable(name: string, isReachable: boolean): void {
    (isReachable ? this.reachable : this.unreachable).add(name);
    (isReachable ? this.unreachable : this.reachable).delete(name);
  }

  forget(name: string): void {
    this.seen.delete(name);
    this.reachable.delete(name);
    this.unreachable.delete(name);
  }

  get isFullDisruption(): boolean {
    return this.reachable.size === 0 && this.unreachable.size > 0;
  }
}

function conditionsOf(object: Node): readonly NodeCondition[] {
  return object.status?.conditions ?? [];
}

function readyOf(object: KubeObject): string | undefined {
  return conditionsOf(object).find(({ type }) => type === "Ready")?.status;
}

/**
 * Fields that only the node itself writes; conditions that this controller set to Unknown keep the node's last
 * heartbeat time.
 */
function heartbeatOf(object: KubeObject): string | undefined {
  const times = conditionsOf(object).flatMap(({ lastHeartbeatTime }) => lastHeartbeatTime ?? []);
  return times.length === 0 ? undefined : times.join();
}

function renewalOf(lease: Lease): string | undefined {
  return lease.spec?.renewTime;
}

function hasNoExecute(node: Node | undefined): boolean {
  return node?.spec?.taints?.some(({ effect }) => effect === "NoExecute") === true;
}

function areTaintsChanged(event: CacheEvent<Node>): boolean {
  const taintsOf = (object: Node) => object.spec?.taints ?? [];
  if (event.type !== "updated") return hasNoExecute(event.object);
  return !equalFields(taintsOf(event.before), taintsOf(event.object));
}

/** Heartbeats of thousands of nodes enqueue nothing; silence is detected by a timer. */
function isMoreThanHeartbeat(event: CacheEvent<Node>): boolean {
  if (event.type !== "updated") return true;
  const compared = (object: Node) => {
    const { spec, metadata } = object;
    const conditions = conditionsOf(object).map(({ type, status }) => [type, status]);
    return [conditions, spec?.taints ?? [], spec?.unschedulable ?? false, metadata.deletionTimestamp ?? ""];
  };
  return !equalFields(compared(event.before), compared(event.object));
}
