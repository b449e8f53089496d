import { deallocate, nextBindStep, unreserve } from "../../decide/devices/claims/bindClaim.ts";
import { concernedBy } from "../../decide/devices/claims/claimHints.ts";
import { isNotCreatedYet } from "../../decide/devices/claims/extendedClaim.ts";
import { mappedResources } from "../../decide/devices/claims/extendedResources.ts";
import { type GiveBack, type StuckPod, whatToGiveBack } from "../../decide/devices/claims/giveBack.ts";
import {
  claimsOfPod,
  deleteProtection,
  isFinished,
  isReservedFor,
  type PodClaim,
} from "../../decide/devices/claims/podClaims.ts";
import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import { nodeProblem } from "../../decide/devices/nodeRoom.ts";
import {
  askNode,
  bindingOf,
  type ClaimNeeds,
  defaultBindingTimeoutMs,
  isSpared,
  prepareClaims,
} from "../../decide/devices/placeClaims.ts";
import type { RefusalReason } from "../../decide/devices/refusalReason.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { expectedOf, type Intent } from "../../model/intent.ts";
import type {
  AllocationResult,
  Node,
  Pod,
  PodCondition,
  PodGroup,
  ResourceClaim,
} from "../../model/kubernetes.generated.ts";
import { equalFields, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome, Refusal } from "../../model/outcome.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { resolveUnknown } from "../runtime/commit.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { Channel, kindSource, type Source } from "../runtime/sources.ts";
import { ClaimWrites } from "./claimWrites.ts";
import { asKube, type DeviceCaches, deviceKinds, podKeyOf } from "./deviceCaches.ts";
import { ExtendedClaims } from "./extendedClaims.ts";
import { Takeover } from "./takeover.ts";

export interface ClaimSchedulerOptions {
  readonly schedulerName: string;
  readonly bindingTimeoutMs: number;
}

export const claimSchedulerDefaults: ClaimSchedulerOptions = {
  schedulerName: "default-scheduler",
  bindingTimeoutMs: defaultBindingTimeoutMs,
};

/** Places pods that have claims, one decision at a time and many bindings at once. Pods without claims are somebody else's. */
export function addClaimScheduler(
  world: DeviceCaches,
  recorder: EventRecorder,
  given: Partial<ClaimSchedulerOptions> = {},
): void {
  world.hasClaimScheduler = true;
  const scheduler = new ClaimScheduler(world, recorder, { ...claimSchedulerDefaults, ...given });
  world.controllers.add({
    name: "claim-scheduler",
    sources: scheduler.sources(),
    concurrency: 64,
    reconcile: (key, turn) => scheduler.reconcile(key, turn),
  });
}

/** Whether a pod is for who places claims: it names some, or asks for resources that classes stand for. */
export function isForClaims(pod: Pod, world: DeviceCaches): boolean {
  if ((pod.spec?.resourceClaims?.length ?? 0) > 0) return true;
  const extended = world.extendedResources();
  return mappedResources(pod, (resource) => extended.classFor(resource)).length > 0;
}

/** For so long a new pod may wait for its claims without saying so: a burst of pods takes its time. */
const freshMs = 10_000;
const unknownPrefix = "doubt ";
interface Waits {
  readonly why: string;
  /** Nothing will happen by itself that changes it. */
  readonly isMistake: boolean;
  /** Its claims are not ready; for a pod that was just made that says nothing. */
  readonly isEarly?: boolean;
}

interface Decision {
  readonly needs: ClaimNeeds;
  readonly node: string;
  readonly allocations: ReadonlyMap<string, AllocationResult>;
}

class ClaimScheduler {
  private readonly world: DeviceCaches;
  private readonly recorder: EventRecorder;
  private readonly options: ClaimSchedulerOptions;
  private readonly extended: ExtendedClaims;
  /** Pods for which nothing was found; anything that frees or adds devices wakes them. */
  private readonly waiting = new Set<string>();
  private readonly wake = new Channel();
  /** Pods whose binds the watch has not shown yet: UID to node, and the same by node. */
  private readonly placed = new Map<string, string>();
  private readonly coming = new Map<string, Map<string, Pod>>();
  private readonly writes: ClaimWrites;
  /** Where the search for a node begins; nodes take turns. */
  private nextNode = 0;
  private readonly takeover: Takeover;

  constructor(world: DeviceCaches, recorder: EventRecorder, options: ClaimSchedulerOptions) {
    this.world = world;
    this.recorder = recorder;
    this.options = options;
    this.extended = new ExtendedClaims(world);
    this.takeover = new Takeover(world);
    this.writes = new ClaimWrites(world, (key) => this.wake.push(unknownPrefix + key));
    world.onFreed(() => {
      for (const key of [...this.waiting].sort()) this.wake.push(key);
    });
  }

  sources(): Source[] {
    const { pods, claims, slices, rules, classes, nodes, groups, podsByClaim, podsByGroup } = this.world;
    const all = (): string[] => [...this.waiting].sort();
    return [
      this.wake,
      kindSource(pods, (event) => {
        if (event.type === "deleted" || event.object.spec?.nodeName) this.unplace(event.object.metadata.uid);
        // Whoever leaves a node makes room on it.
        if (event.type === "deleted" || isFinished(event.object)) return [event.key, ...all()];
        return this.isOurs(event.object) ? [event.key] : [];
      }),
      kindSource(claims, (event) => {
        const before = event.type === "added" ? undefined : event.before;
        const after = event.type === "deleted" ? undefined : event.object;
        const isFinalStateUnknown = event.type === "deleted" && event.isFinalStateUnknown;
        const concerned = concernedBy({ before, after, isFinalStateUnknown }, (key) =>
          podsByClaim.get(key).map(podKeyOf),
        );
        return concerned === "all" ? all() : concerned;
      }),
      // Which of a pod's claims are its group's is not known before the group is.
      ...(groups === undefined ? [] : [kindSource(groups, ({ key }) => podsByGroup.get(key).map(podKeyOf))]),
      kindSource(slices, all),
      kindSource(rules, all),
      kindSource(classes, all),
      kindSource(nodes, (event) => (event.type === "updated" && isHeartbeat(event.before, event.object) ? [] : all())),
    ];
  }

  async reconcile(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const swept = await this.takeover.done(cancel);
    if (!swept.ok) return reconcileResultOf(swept) ?? { again: swept.message };
    if (key.startsWith(unknownPrefix)) return this.writes.settle(key.slice(unknownPrefix.length), cancel);
    const pod = this.world.pods.get(key);
    if (pod === undefined || !this.isOurs(pod) || this.placed.has(pod.metadata.uid)) {
      this.waiting.delete(key);
      return undefined;
    }
    const decision = this.decide(pod);
    if ("leftover" in decision) return this.removeLeftover(decision.leftover, cancel);
    if ("giveBack" in decision) return this.giveBack(decision.giveBack, pod, cancel);
    if ("why" in decision) {
      this.waiting.add(key);
      if (decision.isEarly === true && this.isFresh(pod)) return { requeueAfterMs: freshMs };
      await this.say(pod, decision.why, cancel);
      return decision.isMistake ? { again: decision.why } : undefined;
    }
    this.waiting.delete(key);
    return this.carryOut(pod, decision, cancel);
  }

  /** Claims from templates are made in the same moment as the pod; two writes about their absence would be for nothing. */
  private isFresh(pod: Pod): boolean {
    const ageMs = this.world.controllers.ports.clock.nowMs() - (timeToMs(pod.metadata.creationTimestamp) ?? 0);
    return ageMs >= 0 && ageMs < freshMs;
  }

  private isOurs(pod: Pod): boolean {
    if (pod.spec?.schedulerName !== undefined && pod.spec.schedulerName !== this.options.schedulerName) return false;
    if (pod.spec?.nodeName || pod.metadata.deletionTimestamp !== undefined || isFinished(pod)) return false;
    if ((pod.spec?.schedulingGates?.length ?? 0) > 0) return false;
    return isForClaims(pod, this.world);
  }

  /** Nothing is awaited here: what is decided counts before anybody else decides. */
  private decide(
    pod: Pod,
  ): Decision | Waits | { readonly giveBack: readonly GiveBack[] } | { readonly leftover: ResourceClaim } {
    const { world } = this;
    const { tracker, selectors, features } = world;
    const group = world.groupOf(pod);
    const own = claimsOfPod(pod, (namespace, name) => tracker.get(namespace, name), group);
    const { schedulerName } = this.options;
    if (!own.ok) {
      world.report.refused(schedulerName, "NotReady");
      return { why: own.why, isMistake: false, isEarly: true };
    }
    const leftover = this.extended.leftoverOf(pod);
    if (leftover !== undefined && leftover.status?.allocation === undefined) return { leftover };
    const book = world.sliceBook();
    const full = world.fullNodes();
    const { clock } = world.controllers.ports;
    const nowMs = clock.nowMs();
    const reasons = new Map<string, number>();
    const refusals = new Map<RefusalReason, number>();
    const unavailable = new Set<string>();
    let best: { decision: Decision; score: number; at: number } | undefined;
    const nodes = world.nodeList();
    const prepared = new Map<string, ReturnType<typeof prepareClaims>>();
    for (let i = 0; i < nodes.length; i++) {
      const at = (this.nextNode + i) % nodes.length;
      const node = nodes[at] as Node;
      const name = node.metadata.name;
      const split = this.extended.on(pod, node);
      const special = this.extended.variant(pod, split, leftover);
      const claims: readonly PodClaim[] = special === undefined ? own.claims : [...own.claims, special];
      let ready = prepared.get(split.key);
      if (ready === undefined) {
        const pendingAllocation = (uid: string) => tracker.pendingAllocation(uid);
        const classOf = (each: string) => world.classOf(each);
        ready = prepareClaims({ pod, claims, pendingAllocation, classOf, selectors, features });
        prepared.set(split.key, ready);
      }
      // The node's device plugin has all that the pod asks for: without claims it is a pod like any other there.
      if (ready.kind === "skip") ready = { kind: "ready", needs: withoutClaims(pod) };
      if (ready.kind !== "ready") {
        world.report.refused(schedulerName, ready.kind === "error" ? "Error" : ready.reason);
        return { why: ready.why, isMistake: ready.kind === "error" };
      }
      // A full node costs one look: the others on it need not be counted.
      if (isSpared(ready.needs, node, full)) {
        count(reasons, "cannot allocate all claims");
        count(refusals, "NoDevices");
        continue;
      }
      const problem = nodeProblem(pod, node, this.podsOn(name), split.byClaims);
      if (problem !== undefined) {
        count(reasons, problem);
        continue;
      }
      const { bindingTimeoutMs } = this.options;
      const startedMs = clock.monotonicMs();
      const verdict = askNode(ready.needs, node, { book, full, state: tracker, features, nowMs, bindingTimeoutMs });
      world.report.searched(schedulerName, clock.monotonicMs() - startedMs);
      if (verdict.kind === "error") {
        world.report.refused(schedulerName, "Error");
        return { why: verdict.why, isMistake: true };
      }
      if (verdict.kind === "unschedulable") {
        count(reasons, verdict.why);
        count(refusals, verdict.reason);
        for (const uid of verdict.unavailable) unavailable.add(uid);
        continue;
      }
      const decision = { needs: ready.needs, node: name, allocations: verdict.allocations };
      if (best === undefined || verdict.score > best.score) best = { decision, score: verdict.score, at };
      // Without alternatives every node that fits is as good as any other.
      if (!hasAlternatives(claims)) break;
    }
    for (const [reason, times] of refusals) world.report.refused(schedulerName, reason, times);
    if (best === undefined) {
      const claims = own.claims;
      const stuck = { pod, claims, unavailable, ...(leftover !== undefined && { leftover }) };
      return this.nothingFits(stuck, typeof group === "string" ? undefined : group, reasons, nodes.length);
    }
    this.nextNode = (best.at + 1) % nodes.length;
    return this.reserve(pod, best.decision);
  }

  /** Claims that keep their only user from every node are given back. */
  private nothingFits(
    stuck: StuckPod,
    group: PodGroup | undefined,
    reasons: ReadonlyMap<string, number>,
    nodes: number,
  ): Waits | { giveBack: readonly GiveBack[] } {
    const isGroupActive = group !== undefined && this.membersOf(group).some((pod) => this.isPlaced(pod));
    const steps = whatToGiveBack({ pods: [stuck], isGroupActive, ...(group !== undefined && { group }) });
    if (steps.length > 0) return { giveBack: steps };
    const components = [...reasons].sort(([a], [b]) => (a < b ? -1 : 1)).map(([reason, n]) => `${n} ${reason}`);
    const why = nodes === 0 ? "there are no nodes" : `0/${nodes} nodes are available: ${components.join(", ")}.`;
    return { why, isMistake: false };
  }

  private membersOf({ metadata }: PodGroup): readonly Pod[] {
    return this.world.podsByGroup.get(`${metadata.namespace ?? ""}/${metadata.name}`);
  }

  private isPlaced({ metadata, spec }: Pod): boolean {
    return Boolean(spec?.nodeName) || this.placed.has(metadata.uid);
  }

  /** From here on the devices are taken, for everybody who looks. */
  private reserve(pod: Pod, decision: Decision): Decision | Waits {
    const { tracker } = this.world;
    for (const claim of decision.needs.toAllocate) {
      const allocation = decision.allocations.get(claim.metadata.uid) as AllocationResult;
      const finalizers = [...new Set([...(claim.metadata.finalizers ?? []), deleteProtection])];
      const decided = {
        ...claim,
        metadata: { ...claim.metadata, finalizers },
        status: { ...claim.status, allocation },
      };
      const signalled = tracker.signalClaimPendingAllocation(decided, pod.metadata.uid, {
        isNotCreatedYet: isNotCreatedYet(claim),
      });
      if (signalled.ok && signalled.is === "new") continue;
      this.letGo(pod, decision);
      return { why: signalled.ok ? "a claim was allocated meanwhile" : signalled.why, isMistake: true };
    }
    this.place(pod, decision.node);
    return decision;
  }

  private letGo(pod: Pod, { needs }: Decision): void {
    this.unplace(pod.metadata.uid);
    for (const claim of needs.toAllocate) {
      this.world.tracker.removeClaimPendingAllocation(claim.metadata.uid, pod.metadata.uid);
    }
  }

  private async carryOut(pod: Pod, decision: Decision, cancel: Cancel): Promise<ReconcileResult> {
    let refusal: { why: string; outcome: Refusal | undefined } | { waitMs: number } | undefined;
    for (const each of decision.needs.claims) {
      refusal = await this.bindClaim(pod, each, decision, cancel);
      if (refusal !== undefined) break;
    }
    refusal ??= await this.bindPod(pod, decision, cancel);
    // Whatever was written counts by the ledger now, also what nobody knows the end of; only then the decision is dropped.
    if (refusal === undefined) {
      for (const claim of decision.needs.toAllocate) {
        this.world.tracker.removeClaimPendingAllocation(claim.metadata.uid, pod.metadata.uid);
      }
      const note = `Successfully assigned ${podKeyOf(pod)} to ${decision.node}`;
      this.recorder.record(asKube(pod), { type: "Normal", reason: "Scheduled", action: "Binding", note });
      return undefined;
    }
    this.letGo(pod, decision);
    if ("waitMs" in refusal) return { requeueAfterMs: refusal.waitMs };
    const { outcome, why } = refusal;
    // Nothing of ours will change that: a claim with as many users as there may be, a right that is missing. The person can.
    if (outcome?.reason === "Invalid" || outcome?.reason === "Forbidden") {
      this.waiting.add(podKeyOf(pod));
      await this.say(pod, why, cancel);
    }
    // Its claims stay reserved for the pod: it may be bound without our knowing, and if it is not, its next try begins with them.
    const result = outcome === undefined ? undefined : reconcileResultOf(outcome);
    return result ?? { again: why };
  }

  private async bindClaim(
    pod: Pod,
    { claim: decided, group }: PodClaim,
    decision: Decision,
    cancel: Cancel,
  ): Promise<{ why: string; outcome: Refusal | undefined } | { waitMs: number } | undefined> {
    const { world } = this;
    const { tracker, controllers } = world;
    const { uid } = decided.metadata;
    const isNew = decision.needs.toAllocate.some(({ metadata }) => metadata.uid === uid);
    const allocation = isNew ? decision.allocations.get(uid) : undefined;
    let claim: ResourceClaim | undefined = decided;
    if (isNotCreatedYet(decided)) {
      const born = await this.extended.create(decided, cancel);
      if (!born.ok) return { why: born.message, outcome: born };
      claim = born.value;
    } else claim = tracker.get(decided.metadata.namespace ?? "", decided.metadata.name);
    for (let attempt = 0; attempt < 8; attempt++) {
      if (claim === undefined) return { why: `claim ${decided.metadata.name} is gone`, outcome: undefined };
      const nowMs = controllers.ports.clock.nowMs();
      const expectedUid = isNotCreatedYet(decided) ? claim.metadata.uid : uid;
      const step = nextBindStep({
        claim,
        uid: expectedUid,
        allocation,
        pod,
        nowMs,
        ...(group !== undefined && { group }),
      });
      if (step.kind === "failed") return { why: step.why, outcome: undefined };
      if (step.kind === "done") return this.bindingWait(pod, claim, nowMs);
      const outcome: Outcome<{ object?: KubeObject }> = await this.writes.send(step.intent, cancel);
      if (outcome.ok) {
        claim = outcome.value.object as unknown as ResourceClaim | undefined;
        continue;
      }
      if (outcome.reason === "Unknown") {
        const known = await resolveUnknown(tracker.picture, controllers.kube, step.intent, { cancel });
        if (!known.ok || !known.value) {
          // A reservation in doubt takes nothing that the claim does not have already.
          if (claim.status?.allocation === undefined) this.writes.doubt(claim, step.intent);
          return { why: outcome.message, outcome };
        }
      } else if (outcome.reason !== "Conflict") return { why: outcome.message, outcome };
      // Everything is looked at again, from the first step.
      const fresh = await lookAgain(controllers.kube, step.intent.target, { atLeast: world.claims.revision, cancel });
      if (!fresh.ok) return { why: fresh.message, outcome: fresh };
      claim = fresh.value.object as unknown as ResourceClaim | undefined;
      if (claim !== undefined) tracker.assumeClaimAfterApiCall(asKube(claim));
    }
    // Somebody else's write to it is on its way, perhaps our own controller's; without its reservation the pod must not be bound.
    return { why: `claim ${decided.metadata.name} is being written by others`, outcome: undefined };
  }

  private bindingWait(
    pod: Pod,
    claim: ResourceClaim,
    nowMs: number,
  ): { why: string; outcome: Refusal | undefined } | { waitMs: number } | undefined {
    const verdict = bindingOf(claim, nowMs, this.options.bindingTimeoutMs);
    switch (verdict.kind) {
      case "ready":
        return undefined;
      case "waiting": {
        const note = `waiting for binding conditions: ${verdict.why}`;
        this.recorder.record(asKube(pod), {
          type: "Normal",
          reason: "BindingConditionsPending",
          action: "Binding",
          note,
        });
        return { waitMs: Math.max(1, Math.min(5_000, verdict.untilMs - nowMs)) };
      }
      case "failed":
      case "timedOut":
        // The next look finds the claim unavailable and gives it back.
        return { waitMs: 1 };
    }
  }

  private async bindPod(
    pod: Pod,
    { node, needs }: Decision,
    cancel: Cancel,
  ): Promise<{ why: string; outcome: Refusal } | undefined> {
    const mapped = await this.extended.recordOn(pod, needs, cancel);
    if (!mapped.ok) return { why: mapped.message, outcome: mapped };
    const latest = mapped.value ?? pod;
    const { namespace = "", name } = pod.metadata;
    const intent: Intent = {
      type: "bind",
      target: { ...deviceKinds.pods, namespace, name },
      expected: expectedOf(asKube(latest)),
      node,
      why: `its claims are reserved on ${node}`,
    };
    const outcome = await this.writes.send(intent, cancel);
    return outcome.ok ? undefined : { why: outcome.message, outcome };
  }

  private async removeLeftover(claim: ResourceClaim, cancel: Cancel): Promise<ReconcileResult> {
    const isProtected = claim.metadata.finalizers?.includes(deleteProtection) === true;
    const intent = isProtected ? withoutProtection(claim) : this.extended.deletionOf(claim);
    const outcome = await this.writes.send(intent, cancel);
    return outcome.ok || outcome.reason === "NotFound" ? { requeueAfterMs: 1 } : reconcileResultOf(outcome);
  }

  private async giveBack(steps: readonly GiveBack[], pod: Pod, cancel: Cancel): Promise<ReconcileResult> {
    for (const step of steps) {
      const { claim } = step;
      // A bind of ours may still be on its way to a user of the claim. Writing to the pod first makes it miss; with the same words as
      // last time it would not be a write.
      const users = this.usersOf(claim, pod);
      for (const user of users) {
        const { name, resourceVersion } = claim.metadata;
        const why = `gives back claim ${name} (revision ${resourceVersion}), with which it fits nowhere`;
        const touched = await this.touch(user, why, cancel);
        if (!touched.ok) return reconcileResultOf(touched);
      }
      const intent =
        step.kind === "unreserve"
          ? unreserve(claim, step.user)
          : deallocate(claim, `pod ${pod.metadata.name} fits nowhere with it`);
      if (intent === undefined) continue;
      const outcome = await this.writes.send(intent, cancel);
      if (!outcome.ok) return reconcileResultOf(outcome);
    }
    // The claims' events lead back here. What an earlier try left behind is found without devices then, and deleted.
    this.waiting.add(podKeyOf(pod));
    return { requeueAfterMs: 1 };
  }

  /** The pods that the claim is reserved for: this one, or those of its group. */
  private usersOf(claim: ResourceClaim, pod: Pod): readonly Pod[] {
    const group = this.world.groupOf(pod);
    if (typeof group !== "string" && isReservedFor(claim, group.metadata.uid)) return this.membersOf(group);
    return isReservedFor(claim, pod.metadata.uid) ? [pod] : [];
  }

  /** The pod says why it waits, once for each reason. */
  private async say(pod: Pod, why: string, cancel: Cancel): Promise<void> {
    const before = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
    if (before?.status === "False" && before.message === why) return;
    await this.touch(pod, why, cancel);
    this.recorder.record(asKube(pod), { type: "Warning", reason: "FailedScheduling", action: "Scheduling", note: why });
  }

  private touch(pod: Pod, why: string, cancel: Cancel): Promise<Outcome<unknown>> {
    const conditions = pod.status?.conditions ?? [];
    const before = conditions.find(({ type }) => type === "PodScheduled");
    const nowMs = this.world.controllers.ports.clock.nowMs();
    const lastTransitionTime = before?.status === "False" ? before.lastTransitionTime : formatTime(nowMs);
    const condition: PodCondition = { type: "PodScheduled", status: "False", reason: "Unschedulable", message: why };
    if (lastTransitionTime !== undefined) condition.lastTransitionTime = lastTransitionTime;
    const next = [...conditions.filter(({ type }) => type !== "PodScheduled"), condition];
    const { namespace = "", name } = pod.metadata;
    const intent: Intent = {
      type: "patch",
      target: { ...deviceKinds.pods, namespace, name },
      expected: expectedOf(asKube(pod)),
      patch: { status: { conditions: next } } as unknown as JsonObject,
      subresource: "status",
      why,
    };
    return this.writes.send(intent, cancel);
  }

  private podsOn(node: string): readonly Pod[] {
    const known = this.world.podsByNode.get(node);
    const coming = this.coming.get(node);
    return coming === undefined ? known : [...known, ...coming.values()];
  }

  private place(pod: Pod, node: string): void {
    const { uid } = pod.metadata;
    this.placed.set(uid, node);
    const coming = this.coming.get(node);
    if (coming === undefined) this.coming.set(node, new Map([[uid, pod]]));
    else coming.set(uid, pod);
  }

  private unplace(uid: string): void {
    const node = this.placed.get(uid);
    if (node === undefined) return;
    this.placed.delete(uid);
    const coming = this.coming.get(node);
    coming?.delete(uid);
    if (coming?.size === 0) this.coming.delete(node);
  }
}

function withoutClaims(pod: Pod): ClaimNeeds {
  return { pod, claims: [], placed: new Map(), toAllocate: [], plan: undefined, isSkippable: false };
}

function hasAlternatives(claims: readonly PodClaim[]): boolean {
  return claims.some(({ claim }) =>
    claim.spec.devices?.requests?.some(({ firstAvailable }) => (firstAvailable?.length ?? 0) > 0),
  );
}

function count<T extends string>(reasons: Map<T, number>, reason: T): void {
  reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
}

/** A heartbeat changes nothing that decides about placing. */
function isHeartbeat(before: Node, after: Node): boolean {
  const ready = (node: Node) => node.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  return (
    ready(before) === ready(after) &&
    equalFields(before.spec ?? {}, after.spec ?? {}) &&
    equalFields(before.metadata.labels ?? {}, after.metadata.labels ?? {}) &&
    equalFields(before.status?.allocatable ?? {}, after.status?.allocatable ?? {})
  );
}
