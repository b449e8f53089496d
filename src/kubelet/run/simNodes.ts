import type { CacheEvent } from "../../control/cache/objectCache.ts";
import type { ReconcileContext } from "../../control/runtime/loop.ts";
import { Channel } from "../../control/runtime/sources.ts";
import type { Lease, Node, Pod } from "../../model/kubernetes.generated.ts";
import { compareRevisions } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Fault } from "../node/faults.ts";
import { nextForLease } from "../node/nodeLease.ts";
import { type NodeLifeOptions, nextForNode } from "../node/nodeLife.ts";
import { nodeStateAt } from "../node/nodeState.ts";
import { earliest, eventTarget, leaseRef, type NodeWrite } from "../node/nodeWrite.ts";
import { isSimulated, simNodeOf } from "../node/simNode.ts";
import { hasClaims } from "../pods/claimLife.ts";
import { orphanedPodOf } from "../pods/orphanedPod.ts";
import { reconcileClaims, reconcileSlices } from "./deviceReconciler.ts";
import { type KubeletContext, placeOf, recordEvent, retryDelayMs } from "./kubeletContext.ts";
import { NodeAgent } from "./nodeAgent.ts";
import { reconcilePods } from "./podReconciler.ts";
import { PodRecord } from "./podRecord.ts";
import { type ApiWrite, sendWrite } from "./sendWrite.ts";
import { nodeStages, stageNode } from "./stageReconciler.ts";
import { Wakes } from "./wakes.ts";

/** A reconcile continues while there is work, but yields to other nodes. */
const roundsMax = 6;
const renewalPriority = 1;

/**
 * Simulates every node that has KWOK's annotation and whose lease this process holds. A node has one reconcile at a
 * time, which covers the node, its slices, its claims and its due pods: the devices of one pod are known before the
 * next one is admitted.
 */
export class SimNodes {
  readonly channel = new Channel();
  readonly wakes: Wakes;
  /**
   * A node whose lease is due has priority over all others: when thousands of nodes start tens of thousands of pods, a
   * renewal that waits in line would lose its node.
   */
  readonly renewals: Wakes;
  private readonly context: KubeletContext;
  private readonly agents = new Map<string, NodeAgent>();
  private readonly pods = new Map<string, Map<string, PodRecord>>();

  constructor(context: KubeletContext) {
    const { clock } = context.ports;
    this.context = context;
    this.wakes = new Wakes(clock);
    this.renewals = new Wakes(clock, renewalPriority);
  }

  get size(): number {
    return this.agents.size;
  }

  agent(node: string): NodeAgent | undefined {
    return this.agents.get(node);
  }

  // --- events

  nodeChanged(event: CacheEvent<Node>): void {
    const { name } = event.object.metadata;
    const agent = this.agents.get(name);
    if (agent === undefined && event.type !== "deleted" && !isSimulated(event.object)) return;
    if (agent !== undefined) agent.nodeIsDirty = true;
    this.stir(name, agent);
  }

  leaseChanged({ type, object }: CacheEvent<Lease>): void {
    const { name, namespace } = object.metadata;
    if (namespace !== "kube-node-lease") return;
    const agent = this.agents.get(name);
    if (agent === undefined) return;
    const isOwn = agent.isHeld && object.spec?.holderIdentity === this.context.options.holder;
    // Own renewals enqueue nothing.
    if (isOwn && type !== "deleted") return;
    agent.leaseWakeMs = 0;
    this.stir(name, agent);
  }

  podChanged(event: CacheEvent<Pod>): void {
    const { key } = event;
    const before = event.type === "added" ? undefined : event.before.spec?.nodeName;
    const after = event.type === "deleted" ? undefined : event.object.spec?.nodeName;
    if (before && before !== after) this.podLeft(before, key, event.object);
    if (!after) return;
    let records = this.pods.get(after);
    if (records === undefined) {
      records = new Map();
      this.pods.set(after, records);
    }
    const record = records.get(key);
    if (record === undefined) records.set(key, new PodRecord(key, event.object, this.context.ports.clock.nowMs()));
    else record.observe(event.object);
    this.podStirs(after, event.object);
  }

  private podLeft(node: string, key: string, pod: Pod): void {
    const records = this.pods.get(node);
    const record = records?.get(key);
    if (records === undefined || record === undefined) return;
    records.delete(key);
    const agent = this.agents.get(node);
    if (agent === undefined) {
      if (records.size === 0) this.pods.delete(node);
      return;
    }
    const { options, ports } = this.context;
    const orphan = orphanedPodOf({
      // A missed deletion has the last delivered state; own writes may be newer.
      pod: newerOf(record.podForOthers, pod),
      sim: agent.sim,
      faults: this.faultsOf(agent),
      options: { clusterSeed: options.seed, delays: options.delays, gates: options.gates, events: options.events },
      nowMs: ports.clock.nowMs(),
    });
    if (orphan !== undefined) agent.orphans.push(orphan);
    this.podStirs(node, pod);
  }

  private podStirs(node: string, pod: Pod): void {
    const agent = this.agents.get(node);
    if (agent === undefined) return;
    if (hasClaims(pod)) agent.claimsAreDirty = true;
    // Some faults depend on the pods of the node: partitions are not changed under one, a drain waits for them.
    if (this.faultsOf(agent).length > 0) agent.nodeIsDirty = true;
    this.stir(node, agent);
  }

  /** A claim or a slice that concerns the node has changed. */
  devicesChanged(node: string, what: "claims" | "slices"): void {
    const agent = this.agents.get(node);
    if (agent === undefined) return;
    if (what === "slices") agent.slicesAreDirty = true;
    else {
      agent.claimsAreDirty = true;
      for (const record of agent.pods.values()) {
        if (hasClaims(record.pod)) record.isDirty = true;
      }
      // A device that is in use although its claim was deallocated is tainted in the slices.
      if (agent.prepared.size > 0) agent.slicesAreDirty = true;
    }
    this.stir(node, agent);
  }

  /** The cluster's faults or the stages have changed. */
  everythingChanged(): void {
    for (const name of [...this.agents.keys()].sort()) {
      const agent = this.agents.get(name);
      if (agent === undefined) continue;
      agent.nodeIsDirty = true;
      agent.stirAll();
      this.stir(name, agent);
    }
  }

  /** Releases the leases of this process, many in parallel. */
  async release(kube: KubeApi): Promise<void> {
    const { holder } = this.context.options;
    const names = [...this.agents.values()].filter(({ isHeld }) => isHeld).map(({ name }) => name);
    const lane = async (): Promise<void> => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        const lease = this.context.leases.get(`kube-node-lease/${name}`);
        if (lease?.spec?.holderIdentity !== holder) continue;
        const { uid, resourceVersion } = lease.metadata;
        const body = { metadata: { uid, resourceVersion }, spec: { holderIdentity: null } };
        await kube.patch(leaseRef(name), { type: "merge", body });
      }
    };
    await Promise.all(Array.from({ length: 16 }, lane));
  }

  private stir(name: string, agent: NodeAgent | undefined): void {
    // A running reconcile checks again before it ends.
    if (agent?.isBusy !== true) this.channel.push(name);
  }

  // --- reconciles

  async reconcile(name: string, { cancel }: ReconcileContext): Promise<undefined> {
    const node = this.context.nodes.get(name);
    if (node === undefined || !isSimulated(node)) {
      this.forget(name);
      return undefined;
    }
    const agent = this.agentOf(node);
    if (this.context.ports.clock.nowMs() < agent.stillUntilMs) {
      this.wakes.set(name, agent.stillUntilMs);
      return undefined;
    }
    agent.isBusy = true;
    try {
      await this.reconcileAgent(agent, cancel);
    } finally {
      agent.isBusy = false;
    }
    if (this.agents.get(name) !== agent) return undefined;
    const nextMs = agent.nextMs(this.context.ports.clock.nowMs());
    const renewMs = agent.leaseWakeMs === undefined ? undefined : Math.max(agent.leaseWakeMs, agent.stillUntilMs);
    this.renewals.set(name, renewMs);
    this.wakes.set(name, nextMs === renewMs ? undefined : nextMs);
    return undefined;
  }

  private agentOf(node: Node): NodeAgent {
    const { name, uid } = node.metadata;
    const known = this.agents.get(name);
    if (known?.uid === uid) return known;
    const records = this.pods.get(name) ?? new Map<string, PodRecord>();
    this.pods.set(name, records);
    const { options } = this.context;
    const agent = new NodeAgent(name, uid, simNodeOf(node, options.seed, options.profiles), records);
    this.agents.set(name, agent);
    agent.stirAll();
    return agent;
  }

  private forget(name: string): void {
    this.agents.delete(name);
    this.context.faults.forget(name);
    this.wakes.set(name, undefined);
    this.renewals.set(name, undefined);
    if (this.pods.get(name)?.size === 0) this.pods.delete(name);
  }

  private faultsOf({ name }: NodeAgent): readonly Fault[] {
    const node = this.context.nodes.get(name);
    return node === undefined ? [] : this.context.faults.of(node).faults;
  }

  private async reconcileAgent(agent: NodeAgent, cancel: Cancel): Promise<void> {
    const { context } = this;
    const { clock } = context.ports;
    for (let round = 0; round < roundsMax && !cancel.cancelled; round++) {
      const node = context.nodes.get(agent.name);
      if (node === undefined || node.metadata.uid !== agent.uid) return;
      const nowMs = clock.nowMs();
      const isRenewal = agent.isHeld && isDue(agent.leaseWakeMs, nowMs);
      if (!(await this.reconcileNode(agent, node, nowMs, cancel))) return;
      // The rest is queued like that of other nodes: reconciles that renew leases must be short.
      if (isRenewal) return;
      const latest = context.nodes.get(agent.name);
      if (!agent.isHeld || latest === undefined) return;
      this.dropOrphans(agent, nowMs);
      if (agent.claimsAreDirty || isDue(agent.claimsWakeMs, nowMs))
        await reconcileClaims(context, agent, latest, cancel);
      if (agent.slicesAreDirty || isDue(agent.slicesWakeMs, nowMs))
        await reconcileSlices(context, agent, latest, cancel);
      await reconcilePods(context, agent, latest, cancel);
      const nextMs = agent.nextMs(clock.nowMs());
      if (nextMs === undefined || nextMs > clock.nowMs()) return;
    }
  }

  private dropOrphans(agent: NodeAgent, nowMs: number): void {
    if (agent.orphans.length === 0) return;
    const left = agent.orphans.filter(({ untilMs }) => untilMs > nowMs);
    if (left.length === agent.orphans.length) return;
    agent.orphans = left;
    agent.claimsAreDirty = true;
  }

  /** Reconciles the lease and the node itself. False when a write was refused: the reconcile ends here. */
  private async reconcileNode(agent: NodeAgent, node: Node, nowMs: number, cancel: Cancel): Promise<boolean> {
    const { options } = this.context;
    const isNodeDue = agent.nodeIsDirty || agent.state === undefined || isDue(agent.nodeWakeMs, nowMs);
    if (!isNodeDue && !(options.leases && isDue(agent.leaseWakeMs, nowMs))) return true;
    const wasHeld = agent.isHeld;
    const isDone = isNodeDue
      ? await this.reconcileWholeNode(agent, node, nowMs, cancel)
      : await this.reconcileLease(agent, nowMs, cancel);
    if (agent.isHeld && !wasHeld) {
      agent.stirAll();
      // The status that the previous holder should have written is written now.
      if (!isNodeDue) agent.nodeIsDirty = true;
    }
    return isDone;
  }

  private lifeOptions(): NodeLifeOptions {
    const { holder, leaseSeconds, seed, heartbeatMs, leases } = this.context.options;
    return { holder, leaseSeconds, clusterSeed: seed, heartbeatMs, leases };
  }

  /** The common case of a quiet cluster: nothing but a renewal. */
  private async reconcileLease(agent: NodeAgent, nowMs: number, cancel: Cancel): Promise<boolean> {
    if (agent.state?.alive === false) {
      agent.leaseWakeMs = undefined;
      agent.isHeld = false;
      return true;
    }
    const lease = this.context.leases.get(`kube-node-lease/${agent.name}`);
    const isTaken = agent.tookOverAt !== undefined;
    const next = nextForLease({ name: agent.name, uid: agent.uid, isTaken }, lease, this.lifeOptions(), nowMs);
    agent.isHeld = next.held;
    agent.leaseWakeMs = next.wakeAtMs;
    for (const write of next.writes) if (!(await this.send(agent, write, cancel))) return false;
    return true;
  }

  private async reconcileWholeNode(agent: NodeAgent, node: Node, nowMs: number, cancel: Cancel): Promise<boolean> {
    const { context } = this;
    const { faults, problems } = context.faults.of(node);
    const stages = nodeStages(context);
    if (stages !== undefined) {
      agent.state = nodeStateAt(faults, agent.name, nowMs);
      agent.nodeIsDirty = false;
      agent.nodeWakeMs = agent.state.nextMs;
      if (context.options.leases && !(await this.reconcileLease(agent, nowMs, cancel))) return false;
      if (!context.options.leases) agent.isHeld = true;
      if (agent.isHeld) await stageNode(context, agent, { node, stages, cancel });
      return true;
    }
    const lease = context.leases.get(`kube-node-lease/${agent.name}`);
    const next = nextForNode({
      node,
      sim: agent.sim,
      lease,
      leaseIsTaken: agent.tookOverAt !== undefined,
      faults,
      pods: () => agent.podsNow(),
      options: this.lifeOptions(),
      nowMs,
    });
    agent.nodeIsDirty = false;
    if (next.state !== agent.state) agent.stirAll();
    agent.state = next.state;
    agent.isHeld = next.held;
    agent.nodeWakeMs = next.lifeWakeMs;
    agent.leaseWakeMs = next.leaseWakeMs;
    this.tellProblems(agent, node, problems);
    let hasWritten = false;
    for (const write of next.writes) {
      if (write.kind === "event") {
        recordEvent(context, write);
        continue;
      }
      if (write.kind === "evict") {
        await this.evict(agent, write, cancel);
        continue;
      }
      if (!(await this.send(agent, write, cancel))) return false;
      hasWritten = true;
    }
    // After the writes the node is decided again: the lease may be held by now, and a patch comes before the status.
    if (hasWritten) agent.nodeIsDirty = true;
    return true;
  }

  private tellProblems(agent: NodeAgent, node: Node, problems: readonly string[]): void {
    const message = problems.join("; ");
    if (message === agent.reportedProblems) return;
    agent.reportedProblems = message;
    const regarding = eventTarget(node);
    if (message !== "")
      recordEvent(this.context, { kind: "event", regarding, type: "Warning", reason: "InvalidFault", message });
  }

  /**
   * A disruption budget may refuse the eviction: it is retried after a while, as by `kubectl drain`, and the node
   * continues.
   */
  private async evict(agent: NodeAgent, write: ApiWrite, cancel: Cancel): Promise<void> {
    const { ports } = this.context;
    const outcome = await sendWrite(ports.kube, write, { absentAtRevision: "0", why: "the node is drained", cancel });
    if (!outcome.ok) agent.nodeWakeMs = earliest(agent.nodeWakeMs, ports.clock.nowMs() + evictAgainMs);
  }

  /** Returns whether the write succeeded. After a refusal the object is read again, and the node backs off. */
  private async send(agent: NodeAgent, write: NodeWrite, cancel: Cancel): Promise<boolean> {
    if (write.kind === "event") return true;
    const { ports, nodes, leases } = this.context;
    const why = write.ref.plural === "leases" ? "the node lives" : "the node reports";
    const key = placeOf(write.ref);
    const holderBefore = write.ref.plural === "leases" ? leases.get(key)?.spec?.holderIdentity : undefined;
    const outcome = await sendWrite(ports.kube, write, { absentAtRevision: "0", why, cancel });
    const learn = (object: unknown): void => {
      if (write.ref.plural === "leases") leases.learn(object as Lease);
      else if (write.ref.plural === "nodes") nodes.learn(object as Node);
    };
    if (outcome.ok) {
      agent.failures = 0;
      const { object } = outcome.value;
      if (write.kind !== "delete" && object !== undefined) learn(object);
      if (write.ref.plural === "leases" && !agent.isHeld) {
        agent.taken(object?.metadata.resourceVersion, { isFromOther: holderBefore !== this.context.options.holder });
      }
      return true;
    }
    agent.failures++;
    const waitMs = Math.max(outcome.retryAfterMs ?? 0, retryDelayMs(agent.failures));
    agent.stillUntilMs = ports.clock.nowMs() + waitMs;
    agent.nodeIsDirty = true;
    const { subresource: _part, ...ref } = write.ref;
    const fresh = await ports.kube.get(ref, { cancel });
    if (fresh.ok) learn(fresh.value);
    return false;
  }
}

const evictAgainMs = 5_000;

function newerOf(a: Pod, b: Pod): Pod {
  if (a.metadata.uid !== b.metadata.uid) return b;
  return compareRevisions(a.metadata.resourceVersion, b.metadata.resourceVersion) > 0 ? a : b;
}

function isDue(wakeMs: number | undefined, nowMs: number): boolean {
  return wakeMs !== undefined && wakeMs <= nowMs;
}
