import { claimKeysOf } from "../../decide/devices/deviceModel.ts";
import {
  type Eviction,
  evictionOfPod,
  ruleCondition,
  type TaintView,
} from "../../decide/devices/taints/taintEviction.ts";
import { selectsDevice } from "../../model/deviceTaints.ts";
import { expectedOf, type Intent } from "../../model/intent.ts";
import type {
  DeviceTaintRule,
  Pod,
  PodCondition,
  ResourceClaim,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { laterOf } from "../../model/revision.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { kindSource, type Source } from "../runtime/sources.ts";
import { asKube, type DeviceCaches, deviceKinds, podKeyOf } from "./deviceCaches.ts";

/** Evicts pods from devices with a NoExecute taint, and reports the progress in the status of each rule. */
export function addTaintController(world: DeviceCaches, recorder: EventRecorder): void {
  const controller = new TaintController(world, recorder);
  world.controllers.add({
    name: "device-taints",
    sources: controller.sources(),
    concurrency: 8,
    reconcile: (key, turn) =>
      key.startsWith(rulePrefix) ? controller.rule(key.slice(rulePrefix.length), turn) : controller.pod(key, turn),
  });
}

const rulePrefix = "rule ";
/** A rule's status is written no more often than this. */
const statusEveryMs = 10_000;
const evictedMax = 500;

class TaintController {
  private readonly world: DeviceCaches;
  private readonly recorder: EventRecorder;
  private readonly slicesByPool: ObjectIndex<ResourceSlice>;
  private readonly claimsByPool: ObjectIndex<ResourceClaim>;
  /** Evicted pods by UID, with the rule. The oldest entries are dropped. */
  private readonly evicted = new Map<string, string | undefined>();
  private readonly announced = new Set<string>();
  private readonly statusAtMs = new Map<string, number>();

  constructor(world: DeviceCaches, recorder: EventRecorder) {
    this.world = world;
    this.recorder = recorder;
    this.claimsByPool = world.claims.index(({ status }) => {
      const results = status?.allocation?.devices?.results ?? [];
      return [...new Set(results.map(({ driver, pool }) => `${driver}/${pool}`))];
    });
    this.slicesByPool = world.slices.index(({ spec }) => [`${spec.driver}/${spec.pool.name}`]);
  }

  sources(): Source[] {
    const { pods, claims, slices, rules } = this.world;
    const { podsByClaim } = this.world.model;
    return [
      { start: () => () => this.recorder.stop() },
      kindSource(pods, (event) => {
        const hasClaims =
          (event.object.spec?.resourceClaims?.length ?? 0) > 0 ||
          event.object.status?.extendedResourceClaimStatus !== undefined;
        return hasClaims ? [event.key, ...this.evictingRules()] : [];
      }),
      kindSource(claims, (event) => [...podsByClaim.get(event.key).map(podKeyOf), ...this.evictingRules()]),
      kindSource(slices, (event) => {
        const { driver, pool } = event.object.spec;
        return this.podsUsing(this.claimsByPool.get(`${driver}/${pool.name}`));
      }),
      kindSource(rules, (event) => {
        const selectors = [event.object.spec.deviceSelector];
        if (event.type === "updated") selectors.push(event.before.spec.deviceSelector);
        const users = this.usersOf((each) => selectors.some((selector) => selectsDevice(selector, each)));
        return [rulePrefix + event.key, ...users];
      }),
    ];
  }

  async pod(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { pods, controllers } = this.world;
    const pod = pods.get(key);
    const nowMs = controllers.ports.clock.nowMs();
    const eviction = pod === undefined ? undefined : evictionOfPod(pod, this.claimsOf(pod), this.view(nowMs));
    if (pod === undefined || eviction === undefined) {
      if (pod !== undefined && this.announced.delete(pod.metadata.uid)) {
        const note = "Cancelling deletion of the pod";
        this.recorder.record(asKube(pod), {
          type: "Normal",
          reason: "DeviceTaintManagerEviction",
          action: "Cancelling",
          note,
        });
      }
      return undefined;
    }
    if (eviction.atMs > nowMs) {
      this.announced.add(pod.metadata.uid);
      return { requeueAfterMs: eviction.atMs - nowMs };
    }
    return this.evict(pod, eviction, cancel);
  }

  private async evict(pod: Pod, eviction: Eviction, cancel: Cancel): Promise<ReconcileResult> {
    const { controllers, pods, claims } = this.world;
    const { namespace = "", name } = pod.metadata;
    const target = { ...deviceKinds.pods, namespace, name };
    const nowMs = controllers.ports.clock.nowMs();
    if (
      !pod.status?.conditions?.some(({ type, reason }) => type === "DisruptionTarget" && reason === disruptionReason)
    ) {
      const condition: PodCondition = {
        type: "DisruptionTarget",
        status: "True",
        reason: disruptionReason,
        message: `Device Taint manager: deleting due to NoExecute taint: ${eviction.why}`,
        lastTransitionTime: formatTime(nowMs),
      };
      const conditions = [
        ...(pod.status?.conditions ?? []).filter(({ type }) => type !== "DisruptionTarget"),
        condition,
      ];
      const patch = { status: { conditions } };
      const marked: Intent = {
        type: "patch",
        target,
        expected: expectedOf(asKube(pod)),
        patch,
        subresource: "status",
        why: eviction.why,
      };
      const outcome = await controllers.writer.apply(marked, { cancel });
      if (!outcome.ok) return reconcileResultOf(outcome);
      // The event of this write enqueues the pod again; then it is deleted.
      return undefined;
    }
    const atLeast = laterOf(pods.revision, claims.revision);
    const intent = { type: "delete" as const, target, expected: expectedOf(asKube(pod)), why: eviction.why };
    const outcome = await controllers.writer.remove(
      intent,
      ({ object }) => {
        if (object === undefined) return { noLongerDue: "it is gone" };
        const fresh = object;
        const again = evictionOfPod(fresh, this.claimsOf(fresh), this.view(controllers.ports.clock.nowMs()));
        if (again === undefined) return { noLongerDue: "the taint is gone" };
        return { still: { ...intent, expected: expectedOf(object) } };
      },
      { atLeast, cancel },
    );
    if (!outcome.ok) return reconcileResultOf(outcome);
    if ("noLongerDue" in outcome.value) return undefined;
    this.announced.delete(pod.metadata.uid);
    this.evicted.set(pod.metadata.uid, eviction.rule);
    for (const oldest of this.evicted.keys()) {
      if (this.evicted.size <= evictedMax) break;
      this.evicted.delete(oldest);
    }
    const note = `Marking for deletion: ${eviction.why}`;
    this.recorder.record(asKube(pod), {
      type: "Warning",
      reason: "DeviceTaintManagerEviction",
      action: "Evicting",
      note,
    });
    return undefined;
  }

  async rule(name: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { rules, controllers } = this.world;
    const rule = rules.get(name);
    if (rule === undefined) {
      this.statusAtMs.delete(name);
      return undefined;
    }
    const nowMs = controllers.ports.clock.nowMs();
    const waitMs = (this.statusAtMs.get(name) ?? Number.NEGATIVE_INFINITY) + statusEveryMs - nowMs;
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    // Enqueued by every event of a pod, and each reconcile reads all claims.
    this.statusAtMs.set(name, nowMs);
    // The pods that a rule with effect None would evict.
    const isTrial = rule.spec.taint.effect === "None";
    const asked = isTrial
      ? { ...rule, spec: { ...rule.spec, taint: { ...rule.spec.taint, effect: "NoExecute" } } }
      : rule;
    const namespaces = new Set<string>();
    let pending = 0;
    for (const pod of this.podsOf(asked)) {
      const view: TaintView = { ...this.view(nowMs), slicesOfPool: () => [], rules: [asked] };
      if (evictionOfPod(pod, this.claimsOf(pod), view) === undefined) continue;
      pending++;
      namespaces.add(pod.metadata.namespace ?? "");
    }
    let evicted = 0;
    for (const by of this.evicted.values()) if (by === name) evicted++;
    const counts = { pending: isTrial ? 0 : pending, evicted, wouldEvict: pending, namespaces: namespaces.size };
    const condition = ruleCondition(rule, counts, nowMs);
    const before = rule.status?.conditions?.find(({ type }) => type === condition.type);
    if (before !== undefined && equalFields(before, condition)) return undefined;
    const others = (rule.status?.conditions ?? []).filter(({ type }) => type !== condition.type);
    const object = { ...rule, status: { ...rule.status, conditions: [...others, condition] } };
    const target = { ...deviceKinds.rules, namespace: "", name };
    const intent: Intent = {
      type: "status",
      target,
      expected: expectedOf(asKube(rule)),
      object: asKube(object),
      why: condition.message,
    };
    const outcome = await controllers.writer.apply(intent, { cancel });
    if (outcome.ok) return undefined;
    this.statusAtMs.delete(name);
    return reconcileResultOf(outcome);
  }

  private view(nowMs: number): TaintView {
    return {
      slicesOfPool: (driver, pool) => this.slicesByPool.get(`${driver}/${pool}`),
      rules: [...this.world.rules.view().objects.values()] as DeviceTaintRule[],
      nowMs,
      groupUidOf: (pod) => this.groupUidOf(pod),
    };
  }

  private groupUidOf(pod: Pod): string | undefined {
    const group = this.world.model.groupOf(pod);
    return typeof group === "string" ? undefined : group.metadata.uid;
  }

  private claimsOf(pod: Pod): ResourceClaim[] {
    return claimKeysOf(pod).flatMap((key) => this.world.claims.get(key) ?? []);
  }

  private usersOf(isMeant: (device: { driver: string; pool: string; device: string }) => boolean): string[] {
    const meant: ResourceClaim[] = [];
    for (const claim of this.world.claims.view().objects.values()) {
      if (claim.status?.allocation?.devices?.results?.some(isMeant) === true) meant.push(claim);
    }
    return this.podsUsing(meant);
  }

  private podsUsing(claims: readonly ResourceClaim[]): string[] {
    const keys = new Set<string>();
    for (const { metadata } of claims) {
      for (const pod of this.world.model.podsByClaim.get(`${metadata.namespace ?? ""}/${metadata.name}`))
        keys.add(podKeyOf(pod));
    }
    return [...keys].sort();
  }

  private podsOf(rule: DeviceTaintRule): Pod[] {
    const keys = this.usersOf((each) => selectsDevice(rule.spec.deviceSelector, each));
    return keys.flatMap((key) => this.world.pods.get(key) ?? []);
  }

  private evictingRules(): string[] {
    return [...this.world.rules.view().objects.keys()].map((name) => rulePrefix + name);
  }
}

const disruptionReason = "DeletionByDeviceTaintManager";
