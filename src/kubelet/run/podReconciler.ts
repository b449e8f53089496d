import { keyOfObject } from "../../model/intent.ts";
import type { Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { isLeaving } from "../../model/objects/podFacts.ts";
import type { Refusal } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { gpusOfClaims } from "../devices/bothWays.ts";
import type { Fault } from "../node/faults.ts";
import { holdsLease } from "../node/nodeLease.ts";
import { earliest, eventTarget, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import { isAdmitted } from "../pods/admission.ts";
import { claimLifeDefaults, claimNamesOf, claimsPrepared, hasClaims } from "../pods/claimLife.ts";
import type { PodInput, PodLifeOptions, PodNext } from "../pods/podInput.ts";
import { admitOnly, nextForPod } from "../pods/podLife.ts";
import { isReservationPod, nextForReservation } from "../pods/reservationAgent.ts";
import { mayBeAllocatedByPredecessor, touchPending } from "../pods/touchPending.ts";
import { type KubeletContext, kinds, recordEvent, retryDelayMs } from "./kubeletContext.ts";
import type { NodeAgent } from "./nodeAgent.ts";
import type { PodRecord } from "./podRecord.ts";
import { type ApiWrite, sendWrite } from "./sendWrite.ts";
import { podStages, stagePod } from "./stageReconciler.ts";

/** Counts the pods that a node refused. Scheduler tests expect zero. */
export const admissionFailures = "muster_node_admission_failures_total";

/** The largest number of steps of a pod in one reconcile: the rest follows in the next. */
const stepsMax = 8;

/**
 * Reconciles the due pods of a node. Each decision includes the decisions about all other pods so far, so no two get
 * one device; their writes are then in flight in parallel.
 */
export async function reconcilePods(
  context: KubeletContext,
  agent: NodeAgent,
  node: Node,
  cancel: Cancel,
): Promise<void> {
  const nowMs = context.ports.clock.nowMs();
  const due: PodRecord[] = [];
  for (const record of agent.pods.values()) {
    if (record.isDirty || (record.wakeAtMs !== undefined && record.wakeAtMs <= nowMs)) due.push(record);
  }
  if (due.length === 0) return;
  if (!holdsNode(context, agent)) {
    // A lease is collected with the node object that it was created for, though another node of that name exists by
    // now; the answer to a renewal may arrive after that.
    agent.isHeld = false;
    agent.leaseWakeMs = nowMs;
    return;
  }
  if (due.length > 1) due.sort((a, b) => (a.key < b.key ? -1 : 1));
  const mayGive = await touchPendingPods(context, agent, cancel);
  const { faults } = context.faults.of(node);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let record = due[next++]; record !== undefined; record = due[next++]) {
      // The lease may have expired during the call: another process may write these pods by now.
      if (cancel.cancelled || !holdsNode(context, agent)) return;
      if (isWaiting(record.pod) && (!mayGive || mayLackClaimedGpus(context, agent, record))) {
        record.isDirty = false;
        record.wakeAtMs = context.ports.clock.nowMs() + againMs;
        continue;
      }
      await reconcilePod(context, agent, record, { node, faults, cancel });
    }
  };
  const workers = Math.min(due.length, context.options.writesPerNode);
  if (workers === 1) await work();
  else await Promise.all(Array.from({ length: workers }, work));
}

const againMs = 100;
/** How long the watch of claims may lag behind that of pods. A claim that is never allocated delays no longer. */
const claimLagMs = 5_000;

/**
 * Whether a pod of this node may have a claim whose GPU is not known yet: it would look free to the device plugin. The
 * scheduler binds a pod with device-plugin GPUs only after it has observed that the pods whose claims have GPUs of the
 * node are bound, so the watch of pods delivers those first.
 */
function mayLackClaimedGpus({ dra, ports }: KubeletContext, agent: NodeAgent, { pod, key }: PodRecord): boolean {
  if (dra === undefined || !usesDevicePlugin(pod)) return false;
  // Slices say which GPU a device is; this node publishes them.
  if (dra.claimsOf(agent.name).length > 0 && dra.slicesOf(agent.name).length === 0) return true;
  const nowMs = ports.clock.nowMs();
  for (const other of agent.pods.values()) {
    if (other.key === key || !hasClaims(other.pod) || nowMs - other.sinceMs > claimLagMs) continue;
    const { namespace = "" } = other.pod.metadata;
    const isKnown = (name: string): boolean => dra.claims.get(`${namespace}/${name}`)?.status?.allocation !== undefined;
    if (claimNamesOf(other.pod)?.every(isKnown) !== true) return true;
  }
  return false;
}

/**
 * Whether a claim still has a GPU of this node though its pods are gone: it may be deallocated already, which is not
 * observed yet.
 */
function awaitsClaimedGpus({ dra, ports }: KubeletContext, agent: NodeAgent, { pod, sinceMs }: PodRecord): boolean {
  if (dra === undefined || !usesDevicePlugin(pod) || ports.clock.nowMs() - sinceMs > claimLagMs) return false;
  const uids = new Set([...agent.pods.values()].map((record) => record.pod.metadata.uid));
  const isUnused = ({ status }: ResourceClaim): boolean =>
    !(status?.reservedFor ?? []).some(({ uid }) => uids.has(uid));
  const isUnpreparing = [...agent.prepared.values()].some(({ state }) => state === "unpreparing");
  return isUnpreparing || dra.claimsOf(agent.name).some(isUnused);
}

function usesDevicePlugin({ spec }: Pod): boolean {
  return (spec?.containers ?? []).some(({ resources }) =>
    Object.keys(resources?.limits ?? {}).some((name) => name.includes("/")),
  );
}

function isWaiting(pod: Pod): boolean {
  return !isAdmitted(pod) && pod.status?.phase !== "Succeeded" && pod.status?.phase !== "Failed";
}

function holdsNode({ options, leases, ports }: KubeletContext, { name, isHeld }: NodeAgent): boolean {
  if (!options.leases) return isHeld;
  return isHeld && holdsLease(leases.get(`kube-node-lease/${name}`), options.holder, ports.clock.nowMs());
}

/** Whether no write of the predecessor can allocate devices any more; see touchPending. */
async function touchPendingPods(context: KubeletContext, agent: NodeAgent, cancel: Cancel): Promise<boolean> {
  const { tookOverAt } = agent;
  if (tookOverAt === undefined || ![...agent.pods.values()].some(({ pod }) => isWaiting(pod))) return true;
  if (!agent.hasListedPods && !(await listPods(context, agent, cancel))) return false;
  let isDone = true;
  for (const record of [...agent.pods.values()].sort((a, b) => (a.key < b.key ? -1 : 1))) {
    if (!mayBeAllocatedByPredecessor(record.pod, tookOverAt)) continue;
    if (!holdsNode(context, agent) || agent.tookOverAt !== tookOverAt) return false;
    const write = touchPending(record.pod, tookOverAt);
    if (write.kind === "event") continue;
    const run = { cancel };
    if (!(await send(context, agent, record, write, { run, refusals: 0 }))) isDone = false;
    // A pod that was added while the others were written is not reconciled yet.
    record.isDirty = true;
  }
  return isDone;
}

/** A consistent read of the pods of the node: the watch may lag behind what the predecessor knew. */
async function listPods({ ports }: KubeletContext, agent: NodeAgent, cancel: Cancel): Promise<boolean> {
  const listed = await ports.kube.list(kinds.pods, { fieldSelector: `spec.nodeName=${agent.name}`, cancel });
  if (!listed.ok) return false;
  for (const item of listed.value.items) {
    const pod = item;
    const record = agent.pods.get(keyOfObject(item));
    // A pod that is not observed yet will be.
    if (record?.pod.metadata.uid !== pod.metadata.uid) return false;
    record.read(pod);
  }
  agent.hasListedPods = true;
  return true;
}

interface PodReconcile {
  readonly node: Node;
  readonly faults: readonly Fault[];
  readonly cancel: Cancel;
}

async function reconcilePod(
  context: KubeletContext,
  agent: NodeAgent,
  record: PodRecord,
  run: PodReconcile,
): Promise<void> {
  if (record.unknown !== undefined) {
    const { write, refusals } = record.unknown;
    if (!(await send(context, agent, record, write, { run, refusals }))) return;
  }
  const stages = podStages(context);
  for (let step = 0; step < stepsMax; step++) {
    // Deleted, or replaced by a pod of the same name on another node.
    if (agent.pods.get(record.key) !== record) return;
    record.isDirty = false;
    // The node admits pods also where stages handle the rest of their life.
    const isAdmittedOnly = stages !== undefined && isWaiting(record.pod) && !isLeaving(record.pod);
    if (stages !== undefined && !isAdmittedOnly) {
      if (!(await stagePod(context, agent, record, { ...run, stages }))) return;
      continue;
    }
    const next = decideOrWait(context, agent, record, run, isAdmittedOnly);
    if (next === undefined) return;
    if (next.refusals > 0 && awaitsClaimedGpus(context, agent, record)) {
      record.wakeAtMs = context.ports.clock.nowMs() + againMs;
      return;
    }
    record.wakeAtMs = next.wakeAtMs;
    const writes = next.writes.filter(isApiWrite);
    if (writes.length === 0) record.memory = next.memory;
    for (const write of writes) {
      if (!(await send(context, agent, record, write, { run, refusals: next.refusals }))) return;
      // The memory is that of the state that was just written.
      record.memory = next.memory;
    }
    for (const write of next.writes) if (write.kind === "event") recordEvent(context, write);
    if (isAdmittedOnly) continue;
    const isDueAgain = next.wakeAtMs !== undefined && next.wakeAtMs <= context.ports.clock.nowMs();
    if (writes.length === 0 || (!isDueAgain && !record.isDirty)) return;
  }
  record.isDirty = true;
}

function isApiWrite(write: NodeWrite): write is ApiWrite {
  return write.kind !== "event";
}

/** An exception for one pod affects only that pod: the others of the node continue, and it is retried later. */
function decideOrWait(...about: Parameters<typeof decide>): PodNext | undefined {
  try {
    return decide(...about);
  } catch (error) {
    const [context, agent, record] = about;
    const { ports } = context;
    record.failures++;
    record.wakeAtMs = ports.clock.nowMs() + retryDelayMs(record.failures);
    ports.log.error({ node: agent.name, pod: record.key, error }, "reconciling a pod threw an exception");
    if (record.failures === 1) {
      const message = `the node failed to sync this pod and tries again with back-off: ${error instanceof Error ? error.message : String(error)}`;
      recordEvent(context, {
        kind: "event",
        regarding: eventTarget(record.pod),
        type: "Warning",
        reason: "FailedSync",
        message,
      });
    }
    return undefined;
  }
}

function decide(
  context: KubeletContext,
  agent: NodeAgent,
  record: PodRecord,
  { node, faults }: PodReconcile,
  isAdmittedOnly: boolean,
): PodNext {
  const { options, ports } = context;
  const { pod, memory } = record;
  const { sim, state, orphans } = agent;
  if (state === undefined) throw new Error("a pod is reconciled before its node");
  const nowMs = ports.clock.nowMs();
  const life: PodLifeOptions = {
    clusterSeed: options.seed,
    delays: options.delays,
    gates: options.gates,
    events: options.events,
  };
  const input: PodInput = {
    pod,
    node,
    sim,
    state,
    faults,
    pods: () => agent.podsNow(),
    orphans,
    claimedGpus: () => claimedGpus(context, agent, node),
    claimsPrepared: areClaimsPrepared(context, agent, pod),
    memory,
    options: life,
    nowMs,
  };
  if (isAdmittedOnly) return admitOnly(input);
  const next = nextForPod(input);
  if (!isReservationPod(pod, options.reservation)) return next;
  // The reservation agent reads the state after these writes.
  if (next.writes.some(isApiWrite)) return { ...next, wakeAtMs: nowMs };
  const agentNext = nextForReservation({ pod, sim, state, faults, memory, options: options.reservation, nowMs });
  const wakeAtMs = agentNext.writes.length > 0 ? nowMs : earliest(next.wakeAtMs, agentNext.wakeAtMs);
  return { ...next, writes: agentNext.writes, wakeAtMs };
}

function claimedGpus({ dra, options }: KubeletContext, agent: NodeAgent, node: Node): ReadonlyMap<string, string> {
  if (dra === undefined || options.dra === undefined) return new Map();
  const claims = dra.claimsOf(agent.name);
  if (claims.length === 0 && agent.prepared.size === 0) return new Map();
  const prepared = [...agent.prepared.values()].flatMap(({ devices }) => devices);
  const view = { node, slices: dra.slicesOf(agent.name), driver: options.dra.driver };
  return gpusOfClaims(view, claims, prepared);
}

function areClaimsPrepared({ dra, options }: KubeletContext, agent: NodeAgent, pod: Pod): boolean {
  if (!hasClaims(pod)) return true;
  if (dra === undefined) return false;
  const driver = options.dra?.driver ?? claimLifeDefaults.driver;
  const lookUp = (namespace: string, name: string) => dra.claims.get(`${namespace}/${name}`);
  return claimsPrepared(pod, lookUp, agent.prepared, { name: agent.name, driver });
}

/** Returns whether the write succeeded. The decision counts from before the write is sent. */
async function send(
  context: KubeletContext,
  agent: NodeAgent,
  record: PodRecord,
  write: ApiWrite,
  { run, refusals }: { run: Pick<PodReconcile, "cancel">; refusals: number },
): Promise<boolean> {
  const { ports } = context;
  if (write.kind === "update") record.decided(write.object);
  const absentAtRevision = context.podCache.revision;
  const outcome = await sendWrite(ports.kube, write, {
    absentAtRevision,
    why: "the node reports",
    cancel: run.cancel,
  });
  if (outcome.ok) {
    record.unknown = undefined;
    record.failures = 0;
    const { object } = outcome.value;
    if (object !== undefined && write.kind !== "delete") record.answered(object);
    if (refusals > 0) countRefusal(context, agent, object);
    if (hasClaims(record.pod)) agent.claimsAreDirty = true;
    return true;
  }
  await refused(context, record, write, { outcome, refusals, cancel: run.cancel });
  return false;
}

function countRefusal({ ports }: KubeletContext, { name }: NodeAgent, pod: Pod | undefined): void {
  const reason = pod?.status?.reason ?? "";
  ports.metrics.count(admissionFailures, { reason });
  const { namespace, name: podName } = pod?.metadata ?? {};
  ports.log.warn({ node: name, namespace, pod: podName, reason }, "a node refused a pod");
}

async function refused(
  context: KubeletContext,
  record: PodRecord,
  write: ApiWrite,
  { outcome, refusals, cancel }: { outcome: Refusal; refusals: number; cancel: Cancel },
): Promise<void> {
  const { ports } = context;
  record.failures++;
  const waitMs = Math.max(outcome.retryAfterMs ?? 0, retryDelayMs(record.failures));
  record.wakeAtMs = ports.clock.nowMs() + waitMs;
  switch (outcome.reason) {
    case "Unknown":
      // The write may still land: its devices count as allocated until the outcome is known.
      if (write.kind === "update") record.unknown = { write, refusals };
      return;
    case "TooManyRequests":
    case "Unavailable":
    case "Fenced":
      // This attempt had no effect, but an earlier one of unknown outcome may still land.
      if (record.unknown === undefined) record.undecide();
      return;
    case "Conflict":
    case "Expired":
    case "AlreadyExists":
    case "NotFound": {
      // The object has changed, perhaps by our own write of unknown outcome: its state counts before other pods are
      // decided.
      const { metadata } = record.pod;
      const fresh = await ports.kube.get(podRef(metadata), { cancel });
      if (!fresh.ok && fresh.reason !== "NotFound") {
        // This attempt had no effect; an earlier one of unknown outcome still counts.
        if (record.unknown === undefined) record.undecide();
        return;
      }
      record.unknown = undefined;
      record.undecide();
      if (fresh.ok && fresh.value.metadata.uid === metadata.uid) {
        record.answered(fresh.value);
        record.isDirty = true;
      }
      return;
    }
    case "Invalid":
    case "Forbidden":
    case "Unauthorized":
      record.unknown = undefined;
      record.undecide();
      ports.log.error(
        { pod: record.key, write: write.kind, reason: outcome.reason, why: outcome.message },
        "a write of a node was refused and is not retried",
      );
      if (record.failures === 1) {
        const message = `the node cannot report the status of this pod: ${outcome.message}`;
        recordEvent(context, {
          kind: "event",
          regarding: eventTarget(record.pod),
          type: "Warning",
          reason: "FailedSync",
          message,
        });
      }
  }
}
