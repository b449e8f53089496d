import { type Amounts, nanoOf, podRequests } from "../decide/nodes/podRequests.ts";
import { nodeNameOf } from "../decide/workloads/daemonPod.ts";
import { type BindIntent, expectedOf, kindOf, type PatchIntent } from "../model/intent.ts";
import { equalJson, type JsonObject } from "../model/json.ts";
import type { Node, Pod, PodCondition, Taint } from "../model/kubernetes.generated.ts";
import { matchesNode } from "../model/nodeMatch.ts";
import type { KubeObject } from "../model/object.ts";
import { isTolerated } from "../model/taints.ts";
import { formatTime } from "../model/time.ts";
import type { ResourceRef } from "../ports/kubeApi.ts";
import { Picture } from "../snapshot/picture.ts";
import { commit, resolveUnknown } from "./commit.ts";
import type { Controllers } from "./controllers.ts";
import { EventRecorder } from "./eventRecorder.ts";
import { type Turn, type TurnResult, turnResultOf } from "./loop.ts";
import type { CacheEvent } from "./objectCache.ts";
import type { Part } from "./part.ts";
import { Channel, kindSource } from "./sources.ts";

/**
 * A scheduler of one pod at a time and the first node that fits, which keeps an ordinary cluster moving. It knows what a
 * pod asks for, labels, taints, ports and the number of pods on a node; it prefers nothing, and it neither preempts nor
 * reads affinities between pods, and pods with claims are not its own. The search for a pod begins behind the node that the last pod of the same shape got, and
 * what did not fit is not searched for again before there is more room somewhere.
 */
export const defaultScheduler: Part = {
  name: "default-scheduler",
  about: "binds pods of schedulerName default-scheduler, one at a time, to the first node that fits",
  isOfEveryCluster: true,
  add(controllers) {
    new DefaultScheduler(controllers);
  },
};

const name = "default-scheduler";
const pods: ResourceRef = { group: "", version: "v1", plural: "pods" };
const nodes: ResourceRef = { group: "", version: "v1", plural: "nodes" };
const podsKind = kindOf(pods);
/** Pods that found no room look again at most this often, however much happens. */
const lookAgainMs = 200;
const shapesMax = 10_000;

/** Where a pod is, or may be because its bind is not over, and what it takes there. */
interface Placement {
  readonly node: string;
  readonly takes: Takes;
}

/** What counts of a pod; the pod itself would be kept twice. */
interface Takes {
  readonly amounts: Amounts;
  readonly ports: readonly string[];
}

/** What a node holds. Recounted from its pods when they have changed, never counted up and down. */
interface Room {
  /** By UID. */
  readonly pods: Map<string, Takes>;
  counted: { readonly used: Amounts; readonly ports: ReadonlySet<string> } | undefined;
}

/** What pods of the same wishes share: where the last one was put, and that there was no room for one. */
interface Shape {
  after: number;
  /** As of this much growth of the cluster nothing fits; what was said then. */
  refused: { readonly growth: number; readonly why: string } | undefined;
}

class DefaultScheduler {
  private readonly controllers: Controllers;
  private readonly picture: Picture<Placement>;
  private readonly recorder: EventRecorder;
  private readonly rooms = new Map<string, Room>();
  private readonly placed = new Map<string, readonly Placement[]>();
  /** Binds whose answers were lost, by UID. */
  private readonly inDoubt = new Map<string, BindIntent>();
  private readonly shapes = new Map<string, Shape>();
  /** In order of name; made anew when nodes come or go. */
  private order: readonly string[] | undefined;
  private readonly nodeByName = new Map<string, Node>();
  /** Goes up whenever something may fit that did not before. */
  private growth = 0;
  private readonly waiting = new Set<string>();
  private readonly again = new Channel();
  private isAwaited = false;

  constructor(controllers: Controllers) {
    this.controllers = controllers;
    this.recorder = new EventRecorder({ ...controllers.ports, controller: name, instance: name });
    const podCache = controllers.cache(pods);
    const nodeCache = controllers.cache(nodes);
    nodeCache.onChanges((changes) => {
      for (const { type, object } of changes) this.nodeChanged(type, object as unknown as Node);
    });
    this.picture = new Picture<Placement>(
      { [podsKind]: { table: podCache.table, effects: placementsOf } },
      { isSame, onEffect: (uid) => this.moved(uid) },
    );
    podCache.onChanges((changes, isNewList) => this.picture.observed(podsKind, changes, isNewList));
    podCache.onEvent(({ type, key, object }) => {
      if (type !== "deleted") return;
      this.waiting.delete(key);
      this.inDoubt.delete(object.metadata.uid);
    });
    controllers.add({
      name,
      sources: [
        kindSource(podCache, ({ key }) => [key], isOurs),
        this.again,
        { start: () => () => this.recorder.stop() },
      ],
      // Decisions are taken one after the other, between two awaits; only their writes overlap.
      concurrency: 32,
      reconcile: (key, turn) => this.turn(key, turn),
    });
  }

  private async turn(key: string, turn: Turn): Promise<TurnResult> {
    this.waiting.delete(key);
    const object = this.picture.snapshot().kind(podsKind).objects.get(key);
    if (object === undefined || !isPending(object)) return undefined;
    const pod = object as unknown as Pod;
    // A bind that is on its way, done and not yet shown, or in doubt: it counts, so there is nothing to decide.
    if (this.picture.values(pod.metadata.uid).length > 0) return this.settle(object, turn);
    const found = this.find(pod);
    if (!("node" in found)) return this.refuse(object, found.why, turn);
    return this.bind(object, found.node, turn);
  }

  private async bind(object: KubeObject, node: string, turn: Turn): Promise<TurnResult> {
    const { namespace = "", name: podName, uid } = object.metadata;
    const intent: BindIntent = {
      type: "bind",
      target: { ...pods, namespace, name: podName },
      expected: expectedOf(object),
      node,
      why: `node ${node} is the first that fits`,
    };
    const effects = [{ key: uid, value: { node, takes: takesOf(object as unknown as Pod) } }];
    const { kube } = this.controllers;
    const [committed] = await commit(this.picture, kube, [{ intent, effects }], { cancel: turn.cancel });
    if (committed === undefined) return undefined;
    const { outcome } = committed;
    // Also a refusal leaves it in doubt, if it was sent again: it says nothing about the first attempt.
    if (this.picture.stateOf(intent) === "unknown") this.inDoubt.set(uid, intent);
    else this.inDoubt.delete(uid);
    if (!outcome.ok) return turnResultOf(outcome) ?? { again: outcome.message };
    const note = `Successfully assigned ${namespace}/${podName} to ${node}`;
    this.recorder.record(object, { type: "Normal", reason: "Scheduled", action: "Binding", note });
    return undefined;
  }

  /** What came of a bind whose answer was lost is found out; if nothing did it is sent again, since it may still land. */
  private async settle(object: KubeObject, turn: Turn): Promise<TurnResult> {
    const intent = this.inDoubt.get(object.metadata.uid);
    if (intent === undefined || this.picture.stateOf(intent) !== "unknown") return undefined;
    const { cancel } = turn;
    const resolved = await resolveUnknown(this.picture, this.controllers.kube, intent, { cancel });
    if (!resolved.ok) return turnResultOf(resolved) ?? { again: resolved.message };
    return resolved.value ? undefined : this.bind(object, intent.node, turn);
  }

  private async refuse(object: KubeObject, why: string, { cancel }: Turn): Promise<TurnResult> {
    const pod = object as unknown as Pod;
    const key = `${pod.metadata.namespace}/${pod.metadata.name}`;
    this.waiting.add(key);
    const before = pod.status?.conditions ?? [];
    const said = { type: "PodScheduled", status: "False", reason: "Unschedulable", message: why };
    const old = before.find(({ type }) => type === "PodScheduled");
    if (old !== undefined && equalJson({ ...said }, pick(old))) return undefined;
    this.recorder.record(object, { type: "Warning", reason: "FailedScheduling", action: "Scheduling", note: why });
    const isSame = old?.status === "False";
    const lastTransitionTime =
      (isSame ? old.lastTransitionTime : undefined) ?? formatTime(this.controllers.ports.clock.nowMs());
    const conditions = [...before.filter(({ type }) => type !== "PodScheduled"), { ...said, lastTransitionTime }];
    const { namespace = "", name: podName } = pod.metadata;
    const intent: PatchIntent = {
      type: "patch",
      target: { ...pods, namespace, name: podName },
      expected: expectedOf(object),
      subresource: "status",
      patch: { status: { conditions } } as unknown as JsonObject,
      why,
    };
    const [committed] = await commit(this.picture, this.controllers.kube, [{ intent, effects: [] }], { cancel });
    const outcome = committed?.outcome;
    return outcome === undefined || outcome.ok ? undefined : turnResultOf(outcome);
  }

  // --- the search

  private find(pod: Pod): { node: string } | { why: string } {
    const pinned = nodeNameOf(pod);
    if (pinned !== undefined) {
      const refusal = this.misfit(pod, pinned);
      return refusal === undefined ? { node: pinned } : { why: sentence(1, new Map([[refusal, 1]])) };
    }
    const order = this.nodeOrder();
    const shape = this.shapeOf(pod);
    if (shape.refused?.growth === this.growth) return { why: shape.refused.why };
    const refusals = new Map<string, number>();
    for (let i = 0; i < order.length; i++) {
      const at = (shape.after + i) % order.length;
      const node = order[at] as string;
      const refusal = this.misfit(pod, node);
      if (refusal === undefined) {
        shape.after = at + 1;
        shape.refused = undefined;
        return { node };
      }
      refusals.set(refusal, (refusals.get(refusal) ?? 0) + 1);
    }
    const why = sentence(order.length, refusals);
    shape.refused = { growth: this.growth, why };
    return { why };
  }

  /** Why the pod cannot be there, in the words that users of kubectl know; undefined if it can. */
  private misfit(pod: Pod, nodeName: string): string | undefined {
    const node = this.nodeByName.get(nodeName);
    if (node === undefined) return "node(s) didn't match Pod's node affinity/selector";
    const { spec } = pod;
    if (node.spec?.unschedulable === true && !isTolerated(unschedulable, spec?.tolerations)) {
      return "node(s) were unschedulable";
    }
    for (const taint of node.spec?.taints ?? []) {
      if (taint.effect === "PreferNoSchedule" || isTolerated(taint, spec?.tolerations)) continue;
      return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
    }
    if (!matchesNode(spec, node)) return "node(s) didn't match Pod's node affinity/selector";
    const { used, ports } = this.countedRoom(nodeName);
    for (const port of hostPorts(pod)) {
      if (ports.has(port)) return "node(s) didn't have free ports for the requested pod ports";
    }
    const allocatable = node.status?.allocatable ?? {};
    if ((used.get("pods") ?? 0n) >= nanoOf(allocatable["pods"] ?? "0")) return "Too many pods";
    for (const [resource, amount] of podRequests(pod)) {
      if (amount === 0n) continue;
      if (amount + (used.get(resource) ?? 0n) > nanoOf(allocatable[resource] ?? "0")) return `Insufficient ${resource}`;
    }
    return undefined;
  }

  private countedRoom(node: string): NonNullable<Room["counted"]> {
    const room = this.roomOf(node);
    if (room.counted === undefined) {
      const used: Amounts = new Map([["pods", nanoOf(String(room.pods.size))]]);
      const ports = new Set<string>();
      for (const takes of room.pods.values()) {
        for (const [resource, amount] of takes.amounts) used.set(resource, (used.get(resource) ?? 0n) + amount);
        for (const port of takes.ports) ports.add(port);
      }
      room.counted = { used, ports };
    }
    return room.counted;
  }

  private roomOf(node: string): Room {
    let room = this.rooms.get(node);
    if (room === undefined) {
      room = { pods: new Map(), counted: undefined };
      this.rooms.set(node, room);
    }
    return room;
  }

  private nodeOrder(): readonly string[] {
    this.order ??= [...this.nodeByName.keys()].sort();
    return this.order;
  }

  private shapeOf({ spec }: Pod): Shape {
    const wishes = [spec?.containers.map(({ resources, ports }) => [resources?.requests, ports])];
    const rest = [spec?.initContainers, spec?.resources, spec?.overhead, spec?.nodeSelector];
    const key = JSON.stringify([wishes, rest, spec?.affinity?.nodeAffinity, spec?.tolerations, spec?.hostNetwork]);
    let shape = this.shapes.get(key);
    if (shape === undefined) {
      if (this.shapes.size >= shapesMax) this.shapes.clear();
      shape = { after: 0, refused: undefined };
      this.shapes.set(key, shape);
    }
    return shape;
  }

  // --- what happens meanwhile

  /** A pod has come to a node, or gone, or its bind has been decided or refused. */
  private moved(uid: string): void {
    const before = this.placed.get(uid) ?? [];
    const after = this.picture.values(uid);
    for (const placement of before) {
      if (after.some((each) => isSame(each, placement))) continue;
      const room = this.roomOf(placement.node);
      room.pods.delete(uid);
      room.counted = undefined;
      this.grown();
    }
    for (const placement of after) {
      if (before.some((each) => isSame(each, placement))) continue;
      const room = this.roomOf(placement.node);
      room.pods.set(uid, placement.takes);
      room.counted = undefined;
    }
    if (after.length === 0) this.placed.delete(uid);
    else this.placed.set(uid, after);
  }

  private nodeChanged(type: "added" | "updated" | "deleted", node: Node): void {
    const before = this.nodeByName.get(node.metadata.name);
    if (type === "deleted") this.nodeByName.delete(node.metadata.name);
    else this.nodeByName.set(node.metadata.name, node);
    if (before === undefined || type === "deleted") this.order = undefined;
    if (before === undefined || type === "deleted" || !equalJson(offer(before), offer(node))) this.grown();
  }

  /** All that wait look again, soon and together: of each shape the first one searches for all. */
  private grown(): void {
    this.growth++;
    if (this.waiting.size === 0 || this.isAwaited) return;
    this.isAwaited = true;
    this.controllers.ports.clock.after(lookAgainMs, () => {
      this.isAwaited = false;
      for (const key of [...this.waiting].sort()) this.again.push(key);
    });
  }
}

const unschedulable: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

function placementsOf(object: KubeObject): readonly { key: string; value: Placement }[] {
  const pod = object as unknown as Pod;
  const node = pod.spec?.nodeName ?? "";
  const hasEnded = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
  return node === "" || hasEnded ? [] : [{ key: pod.metadata.uid, value: { node, takes: takesOf(pod) } }];
}

function takesOf(pod: Pod): Takes {
  return { amounts: podRequests(pod), ports: hostPorts(pod) };
}

function isSame(a: Placement, b: Placement): boolean {
  if (a.node !== b.node || a.takes.amounts.size !== b.takes.amounts.size) return false;
  for (const [resource, amount] of a.takes.amounts) if (b.takes.amounts.get(resource) !== amount) return false;
  return a.takes.ports.length === b.takes.ports.length && a.takes.ports.every((port, i) => port === b.takes.ports[i]);
}

function isOurs({ type, object }: CacheEvent): boolean {
  return type !== "deleted" && isPending(object);
}

function isPending(object: KubeObject): boolean {
  const { spec, metadata, status } = object as unknown as Pod;
  if ((spec?.nodeName ?? "") !== "" || metadata.deletionTimestamp !== undefined) return false;
  if ((spec?.schedulingGates ?? []).length > 0 || (status?.phase ?? "Pending") !== "Pending") return false;
  // Who has claims is placed by who allocates devices, and nobody else says why it waits.
  if ((spec?.resourceClaims ?? []).length > 0) return false;
  return (spec?.schedulerName ?? name) === name;
}

/** What of a node decides whether a pod fits; heartbeats do not. */
function offer({ metadata, spec, status }: Node): unknown[] {
  return [metadata.labels ?? {}, spec?.taints ?? [], spec?.unschedulable ?? false, status?.allocatable ?? {}];
}

const noPorts: readonly string[] = [];

/** A port on every address and one on a single address are in each other's way, so the address does not count. */
function hostPorts({ spec }: Pod): readonly string[] {
  let found: string[] | undefined;
  for (const { ports } of spec?.containers ?? []) {
    for (const { hostPort = 0, protocol = "TCP" } of ports ?? []) {
      if (hostPort === 0) continue;
      found ??= [];
      found.push(`${protocol} ${hostPort}`);
    }
  }
  return found ?? noPorts;
}

function pick({ type, status, reason, message }: PodCondition): object {
  return { type, status, reason, message };
}

/** `0/3 nodes are available: 1 Too many pods, 2 Insufficient nvidia.com/gpu.` */
function sentence(total: number, refusals: ReadonlyMap<string, number>): string {
  if (total === 0) return "no nodes available to schedule pods";
  const parts = [...refusals].map(([refusal, count]) => `${count} ${refusal}`).sort();
  return `0/${total} nodes are available: ${parts.join(", ")}.`;
}
