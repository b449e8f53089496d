/** Reconciles a node's DRA driver: its slices, and the claims that are prepared on it. */

import type { Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { devicesOfPlugin } from "../devices/bothWays.ts";
import { nextForSlices } from "../devices/draDriver.ts";
import { earliest, type NodeWrite } from "../node/nodeWrite.ts";
import {
  hasClaims,
  mayUse,
  nextForClaim,
  type PreparedClaim,
  rememberPrepared,
  unreleasedDevices,
} from "../pods/claimLife.ts";
import { type DraContext, type KubeletContext, recordEvent } from "./kubeletContext.ts";
import type { NodeAgent } from "./nodeAgent.ts";
import { sendWrite } from "./sendWrite.ts";

const retryMs = 500;

export async function reconcileSlices(
  context: KubeletContext,
  agent: NodeAgent,
  node: Node,
  cancel: Cancel,
): Promise<void> {
  const { dra, ports, options } = context;
  const { state, sim } = agent;
  agent.slicesAreDirty = false;
  if (dra === undefined || options.dra === undefined || state === undefined) return;
  const { driver } = options.dra;
  const unreleased = unreleasedDevices(agent.prepared.values(), (uid) => dra.claimByUid(uid), {
    name: agent.name,
    driver,
  });
  const slices = dra.slicesOf(agent.name);
  const next = nextForSlices({ node, sim, state, slices, unreleased, options: options.dra });
  agent.slicesWakeMs = next.wakeAtMs;
  for (const write of next.writes) {
    const isDone = await sendDevice<ResourceSlice>(context, write, (object) => dra.slices.learn(object), cancel);
    if (isDone) continue;
    agent.slicesWakeMs = earliest(next.wakeAtMs, ports.clock.nowMs() + retryMs);
    return;
  }
}

export async function reconcileClaims(
  context: KubeletContext,
  agent: NodeAgent,
  node: Node,
  cancel: Cancel,
): Promise<void> {
  const { dra } = context;
  agent.claimsAreDirty = false;
  if (dra === undefined) return;
  const known = new Map<string, ResourceClaim | undefined>();
  for (const { claimUid } of agent.prepared.values()) known.set(claimUid, dra.claimByUid(claimUid));
  for (const claim of dra.claimsOf(agent.name)) known.set(claim.metadata.uid, claim);
  if (known.size === 0) {
    agent.hasRemembered = true;
    agent.claimsWakeMs = undefined;
    return;
  }
  if (!agent.hasRemembered) remember(context, dra, agent);
  let wakeAtMs: number | undefined;
  const before = preparedText(agent);
  for (const uid of [...known.keys()].sort()) {
    wakeAtMs = earliest(
      wakeAtMs,
      await reconcileClaim(context, dra, agent, { uid, claim: known.get(uid), node, cancel }),
    );
  }
  agent.claimsWakeMs = wakeAtMs;
  if (before === preparedText(agent)) return;
  // A pod may wait for the claim, and an unreleased device is tainted in the slices.
  agent.slicesAreDirty = true;
  for (const record of agent.pods.values()) {
    if (hasClaims(record.pod)) record.isDirty = true;
  }
}

function preparedText({ prepared }: NodeAgent): string {
  return [...prepared.values()].map(({ claimUid, state }) => `${claimUid}=${state}`).join();
}

/** The first reconcile of this process: restores what was prepared here from the claims. */
function remember(context: KubeletContext, dra: DraContext, agent: NodeAgent): void {
  const { options, ports } = context;
  agent.hasRemembered = true;
  const driver = options.dra?.driver ?? "";
  for (const claim of dra.claimsOf(agent.name)) {
    const users = usersOf(agent, claim.metadata, ports.clock.nowMs());
    const prepared = rememberPrepared(claim, users, { name: agent.name, driver });
    if (prepared !== undefined) setPrepared(context, agent, prepared.claimUid, prepared);
  }
}

/** Pods whose containers may use the claim, including deleted pods that still run. */
function usersOf(
  agent: NodeAgent,
  { namespace = "", name }: { namespace?: string; name: string },
  nowMs: number,
): Pod[] {
  const users: Pod[] = [];
  for (const { pod } of agent.pods.values()) if (mayUse(pod, { namespace, name })) users.push(pod);
  for (const { pod, untilMs } of agent.orphans) {
    if (untilMs > nowMs && mayUse(pod, { namespace, name })) users.push(pod);
  }
  return users;
}

async function reconcileClaim(
  context: KubeletContext,
  dra: DraContext,
  agent: NodeAgent,
  { uid, claim, node, cancel }: { uid: string; claim: ResourceClaim | undefined; node: Node; cancel: Cancel },
): Promise<number | undefined> {
  const { options, ports } = context;
  const { state, sim } = agent;
  if (state === undefined) return undefined;
  let latest = claim;
  for (let step = 0; ; step++) {
    const nowMs = ports.clock.nowMs();
    const prepared = agent.prepared.get(uid);
    const place = latest?.metadata ?? prepared;
    if (place === undefined) return undefined;
    const next = nextForClaim({
      claim: latest,
      prepared,
      others: othersOf(agent, uid),
      users: usersOf(agent, place, nowMs),
      plugged: pluggedDevices(context, dra, agent, node),
      sim,
      state,
      faults: context.faults.of(node).faults,
      options: { driver: options.dra?.driver ?? "", prepareMs: options.prepareMs, unprepareMs: options.unprepareMs },
      nowMs,
    });
    let hasWritten = false;
    for (const write of next.writes) {
      const isDone = await sendDevice<ResourceClaim>(
        context,
        write,
        (object) => {
          dra.claims.learn(object);
          latest = object;
          hasWritten = true;
        },
        cancel,
      );
      // After a failed write the record is not changed, except that a device is never released by a failure.
      if (!isDone) return earliest(next.wakeAtMs, nowMs + retryMs);
    }
    setPrepared(context, agent, uid, next.prepared);
    if (!hasWritten || step >= 4) return next.wakeAtMs;
  }
}

function pluggedDevices(
  { options, ports }: KubeletContext,
  dra: DraContext,
  agent: NodeAgent,
  node: Node,
): ReadonlyMap<string, string> {
  const pods = [...agent.podsNow()];
  for (const { pod, devices, untilMs } of agent.orphans) {
    if (devices.length > 0 && untilMs > ports.clock.nowMs()) pods.push(pod);
  }
  return devicesOfPlugin({ node, slices: dra.slicesOf(agent.name), driver: options.dra?.driver ?? "" }, pods);
}

function setPrepared(
  { preparedOn }: KubeletContext,
  agent: NodeAgent,
  uid: string,
  prepared: PreparedClaim | undefined,
): void {
  const others = (preparedOn.get(uid) ?? []).filter((name) => name !== agent.name);
  if (prepared === undefined) {
    agent.prepared.delete(uid);
    if (others.length === 0) preparedOn.delete(uid);
    else preparedOn.set(uid, others);
    return;
  }
  agent.prepared.set(uid, prepared);
  preparedOn.set(uid, [...others, agent.name]);
}

function othersOf({ prepared }: NodeAgent, uid: string): PreparedClaim[] {
  return [...prepared.values()].filter(({ claimUid }) => claimUid !== uid);
}

/**
 * Returns whether the write succeeded. After a refusal the object is read again, so that the next reconcile does not
 * use the stale version.
 */
async function sendDevice<T extends KubeObject>(
  context: KubeletContext,
  write: NodeWrite<T>,
  answered: (object: T) => void,
  cancel: Cancel,
): Promise<boolean> {
  if (write.kind === "event") {
    recordEvent(context, write);
    return true;
  }
  const { kube } = context.ports;
  const outcome = await sendWrite(kube, write, { absentAtRevision: "0", why: "the driver reports", cancel });
  if (outcome.ok) {
    if (outcome.value.object !== undefined && write.kind !== "delete") answered(outcome.value.object);
    return true;
  }
  if (outcome.reason === "NotFound" && write.kind === "delete") return true;
  const { subresource: _part, ...ref } = write.ref;
  const fresh = await kube.get(ref, { cancel });
  if (fresh.ok) answered(fresh.value);
  return false;
}
