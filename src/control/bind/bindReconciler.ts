import { attemptOf } from "../../decide/bind/attemptMark.ts";
import { enforcedText } from "../../decide/bind/mpsLimits.ts";
import { type BindOptions, type BindStep, type BindView, nextBindStep } from "../../decide/bind/nextBindStep.ts";
import { isBound, podsRef } from "../../decide/bind/reservation.ts";
import {
  findRival,
  intendedClaims,
  isOfAnother,
  mayClaimAtMs,
  rivalDelays,
  rivalWhy,
} from "../../decide/bind/rivalClaims.ts";
import { type BindingVerdict, defaultBindingTimeoutMs } from "../../decide/devices/placeClaims.ts";
import { lookAgain, lookAgainAtAll } from "../../intents/lookAgain.ts";
import type { IntentTarget } from "../../model/intent.ts";
import { type BindIntent, type Expected, expectedOf, type Intent, keyOf } from "../../model/intent.ts";
import type { Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, refused } from "../../model/outcome.ts";
import { firstRevision, laterOf, type Revision } from "../../model/revision.ts";
import {
  type BindRequest,
  bindRequestFinalizer,
  bindRequestRef,
  isFinallyFailed,
} from "../../model/scheduling/bindRequest.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { NewestOf } from "../cache/newestOf.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { type BindCall, releaseClaims, writeClaims, writeConfigMaps } from "./bindClaims.ts";
import { type BinderCaches, groupsOf, isFor, nodesRef } from "./binderCaches.ts";
import { bindVolumes } from "./bindVolumes.ts";
import { FreshClaims } from "./freshClaims.ts";
import { type PodBound, writePodBound } from "./podBound.ts";
import { takeBack } from "./takeBack.ts";

export interface BinderOptions extends BindOptions {
  /** The timeout for the volumes of a pod to be bound. */
  readonly volumeTimeoutMs: number;
  /** The number of binds, and of GPU groups, that are reconciled at once. */
  readonly workers: number;
  /**
   * The schedulers whose pods get devices from this control plane, where another one allocates devices for its own;
   * undefined where there is no other one.
   */
  readonly servedSchedulers?: ReadonlySet<string>;
}

/** A bind takes a few steps for each GPU group; more than this is an endless loop. */
const stepsMax = 400;
const volumesFirstMs = 20;
const volumesEveryMs = 1_000;
const devicesEveryMs = 5_000;
const othersEveryMs = 100;
const aheadMs = 1_000;
const waitingKey = "waits";
/** How long a bind without an answer may still be in flight. */
const lateCallMsMax = 60_000;

/** In-memory state of a BindRequest between reconciles. Losing it only retries sooner. */
interface RetryTimers {
  readonly uid: string;
  deviceSinceMs?: number;
  volumesSinceMs?: number;
  /** Since when its claims may get their devices, and since when they have them. */
  claimsSinceMs?: number;
  claimsWrittenMs?: number;
  retryAtMs?: number;
  /** The node that its pod is bound to while the status is not written yet. */
  boundTo?: string;
}

/** An object that an attempt needs to read from the API. */
interface Look<T extends KubeObject> {
  readonly attempt: Attempt;
  readonly what: "pod" | "node";
  readonly since: Revision;
  readonly target: IntentTarget<T>;
  readonly kind: NewestOf<T>;
}

/** Carries out BindRequests step by step. Each step is decided from the observed objects. */
export class BindReconciler {
  private readonly controllers: Controllers;
  private readonly caches: BinderCaches;
  private readonly recorder: EventRecorder;
  private readonly options: BinderOptions;
  private readonly timers = new Map<string, RetryTimers>();
  /** The nodes that were read since the last break of their watch. */
  private nodesRead = { breaks: 0, names: new Set<string>() };
  private readonly freshClaims: FreshClaims;
  /** Pods of other schedulers that have claims: the time of the last event, and those without a node. */
  private readonly others: { readonly lastMs: number; readonly waiting: ObjectIndex<Pod> } | undefined;

  constructor(controllers: Controllers, caches: BinderCaches, recorder: EventRecorder, options: BinderOptions) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.options = options;
    this.freshClaims = new FreshClaims(controllers.kube);
    const { servedSchedulers } = options;
    if (servedSchedulers === undefined) return;
    const others = { lastMs: 0 };
    const waiting = caches.pods.cache.index((pod) => {
      if (!isOfAnother(pod, servedSchedulers)) return [];
      // Called for every event of such a pod.
      others.lastMs = this.nowMs;
      return isBound(pod) ? [] : [waitingKey];
    });
    this.others = Object.assign(others, { waiting });
  }

  async reconcile(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const found = this.caches.requests.get(key);
    if (found === undefined) {
      this.timers.delete(key);
      return undefined;
    }
    if (found.metadata.deletionTimestamp !== undefined) return this.release(found, cancel);
    const { nowMs } = this;
    const timers = this.timersOf(key, found.metadata.uid);
    if (found.status?.phase === "Failed" && timers.retryAtMs !== undefined && nowMs < timers.retryAtMs) {
      return { requeueAfterMs: timers.retryAtMs - nowMs };
    }
    const attempt = new Attempt(key, found, timers);
    try {
      return await this.attempt(attempt, cancel);
    } catch (error) {
      // A bug of the binder. The BindRequest must not hang: it fails, and the scheduler decides again.
      this.controllers.ports.log.error({ bindRequest: key, error }, "the bind threw an exception");
      return this.fail(attempt, `internal error: ${error instanceof Error ? error.message : String(error)}`, cancel);
    }
  }

  /**
   * A request has one reconcile at a time, so no write of it is sent any more: once a bind of unknown outcome conflicts
   * too, the request may be deleted.
   */
  private async release(request: BindRequest, cancel: Cancel): Promise<ReconcileResult> {
    const { finalizers = [], namespace = "", name } = request.metadata;
    if (!finalizers.includes(bindRequestFinalizer)) return undefined;
    const unfenced = await this.fencePod(request, cancel);
    if (unfenced !== undefined) return unfenced;
    const others = finalizers.filter((each) => each !== bindRequestFinalizer);
    const outcome = await this.caches.writer.apply(
      {
        type: "patch",
        target: { ...bindRequestRef, namespace, name },
        expected: expectedOf(request),
        patch: { metadata: { finalizers: others.length > 0 ? others : null } },
        why: "it is complete",
      },
      { cancel },
    );
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  /** Writes the pod of a request that is withdrawn; returns why a bind of it can still land. */
  private async fencePod(request: BindRequest, cancel: Cancel): Promise<ReconcileResult> {
    if (request.status?.phase === "Succeeded" || isFinallyFailed(request)) return undefined;
    const target = { ...podsRef, namespace: request.metadata.namespace ?? "", name: request.spec?.podName ?? "" };
    const { resourceVersion } = request.metadata;
    const atLeast = laterOf(this.caches.pods.cache.revision, resourceVersion);
    const fresh = await lookAgain(this.controllers.kube, target, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const pod = fresh.value.object;
    if (pod === undefined || !isFor(request, pod) || pod.spec?.nodeName !== undefined) return undefined;
    // No bind of the request is sent once its deletion has been observed, which was before this annotation.
    if (pod.metadata.annotations?.[annotationKeys.withdrawn] === request.metadata.uid) {
      return this.takeBackWithdrawn(request, pod, cancel);
    }
    const outcome = await this.caches.writer.apply(
      {
        type: "patch",
        target,
        expected: expectedOf(pod),
        patch: { metadata: { annotations: { [annotationKeys.withdrawn]: request.metadata.uid } } },
        why: "its BindRequest is withdrawn: a bind in flight must conflict",
      },
      { cancel },
    );
    if (outcome.ok) return this.takeBackWithdrawn(request, outcome.value.object ?? pod, cancel);
    return outcome.reason === "NotFound" ? undefined : this.unfenced(request, outcome);
  }

  /** An earlier binder may have died between the marks of the pod and its bind. */
  private async takeBackWithdrawn(request: BindRequest, pod: Pod, cancel: Cancel): Promise<undefined> {
    const problems = await takeBack(
      this.callOf(cancel),
      { request, pod, why: "its BindRequest was withdrawn" },
      this.caches,
    );
    const { log } = this.controllers.ports;
    if (problems.length > 0)
      log.warn(
        { pod: keyOf(pod.metadata.namespace, pod.metadata.name), problems },
        "a bind could not be undone completely",
      );
    return undefined;
  }

  /** A pod that may not be written is fenced by time: no call is in flight for longer. */
  private unfenced(request: BindRequest, refusal: Refusal): ReconcileResult {
    if (refusal.reason !== "Invalid" && refusal.reason !== "Forbidden") return reconcileResultOf(refusal);
    const sinceMs = timeToMs(request.metadata.deletionTimestamp) ?? this.nowMs;
    const leftMs = sinceMs + lateCallMsMax - this.nowMs;
    return leftMs > 0 ? { requeueAfterMs: leftMs } : undefined;
  }

  private async attempt(attempt: Attempt, cancel: Cancel): Promise<ReconcileResult> {
    const { boundTo } = attempt.timers;
    if (boundTo !== undefined && attempt.request.status?.phase !== "Succeeded") {
      return this.succeed(attempt, boundTo, cancel);
    }
    for (let steps = 0; steps < stepsMax; steps++) {
      const step = nextBindStep(this.view(attempt), this.options);
      const result = await this.take(attempt, step, cancel);
      if (result !== "next") return result;
    }
    return this.fail(attempt, `internal error: the bind did not end after ${stepsMax} steps`, cancel);
  }

  /** Takes one step; returns "next" when another one follows. */
  private async take(attempt: Attempt, step: BindStep, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const { request, timers } = attempt;
    switch (step.type) {
      case "done":
        return undefined;
      case "wait":
        if (step.forDevice === true) timers.deviceSinceMs ??= this.nowMs;
        this.controllers.ports.log.debug({ bindRequest: attempt.key, why: step.why }, "a bind waits");
        if (step.untilMs !== undefined) return { requeueAfterMs: Math.max(0, step.untilMs - this.nowMs) };
        // An object that is known from an answer alone may be deleted before the watch shows it, and then no event
        // wakes the bind.
        return groupsOf(request).some((group) => this.caches.isAhead(group)) ? { requeueAfterMs: aheadMs } : undefined;
      case "look":
        return step.what === "gpus" ? this.count(attempt, cancel) : this.look(attempt, step.what, cancel);
      case "confirm":
        return this.confirm(attempt, step.since, cancel);
      case "write":
        return this.write(attempt, step.intent, cancel);
      case "place":
        return this.place(attempt, step.intent, cancel);
      case "configure":
        return this.configure(attempt, step, cancel);
      case "claim": {
        const { pod, node } = this.view(attempt);
        const mayAllocate = () => this.mayAllocate(attempt, pod as Pod);
        const about = { request, pod: pod as Pod, node: node as Node, nowMs: this.nowMs, mayAllocate };
        const early = this.beforeClaims(attempt);
        if (early !== "next") return early;
        const outcome = await writeClaims(this.callOf(cancel), about);
        if (!outcome.ok) return this.refused(attempt, outcome, cancel);
        attempt.wrote(outcome.value.pod);
        const late = await this.afterClaims(attempt, outcome.value.claims, cancel);
        return late === "next" ? this.devicesReady(attempt, outcome.value.binding, cancel) : late;
      }
      case "volumes":
        return this.volumes(attempt, cancel);
      case "succeeded":
        return this.succeed(attempt, step.node, cancel);
      case "failed":
        return this.fail(attempt, step.why, cancel);
      case "discard": {
        const { target, expected } = this.on(request);
        const intent = { type: "delete", target, expected, why: step.why } as const;
        const outcome = await this.caches.writer.apply(intent, { cancel });
        return outcome.ok || outcome.reason === "NotFound" ? undefined : reconcileResultOf(outcome);
      }
    }
  }

  /** Counts the free GPUs of the node by a consistent read. */
  private async count(attempt: Attempt, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const { request, node } = { request: attempt.request, node: this.view(attempt).node };
    const selection = { fieldSelector: `spec.nodeName=${request.spec?.selectedNode ?? ""}` };
    const atLeast = laterOf(this.caches.pods.cache.revision, request.metadata.resourceVersion);
    const fresh = await lookAgainAtAll(this.controllers.kube, podsRef, selection, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    attempt.looked.add("gpus");
    const reserved = this.caches.onTheirWay(request.spec?.selectedNode ?? "");
    attempt.freeGpus = node === undefined ? 0 : this.caches.freeGpus(node, [...fresh.value.items, ...reserved]);
    return "next";
  }

  /** Whether request and pod are unchanged, by a read that is not older than the reservation. */
  private async confirm(attempt: Attempt, since: Revision, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const { request } = attempt;
    const atLeast = laterOf(this.caches.requests.cache.revision, since);
    const fresh = await lookAgain(this.controllers.kube, this.on(request).target, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const { object, revision } = fresh.value;
    if (object === undefined) return undefined;
    if (object.metadata.resourceVersion !== request.metadata.resourceVersion) {
      this.caches.requests.learn(object);
      return { again: "the request has changed" };
    }
    attempt.confirmedAt = revision;
    return this.look(attempt, "pod", cancel, revision);
  }

  /** The answer to a bind does not contain the pod, so the reservation is read. */
  private async place(attempt: Attempt, intent: BindIntent, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const { kube } = this.controllers;
    const outcome = await this.caches.writer.apply(intent, { cancel });
    if (!outcome.ok)
      return outcome.reason === "NotFound" ? { again: outcome.message } : this.refused(attempt, outcome, cancel);
    const bound = await kube.get(intent.target, { cancel });
    if (!bound.ok) return reconcileResultOf(bound);
    this.caches.pods.learn(bound.value);
    return "next";
  }

  private look(
    attempt: Attempt,
    what: "pod" | "node",
    cancel: Cancel,
    since: Revision = firstRevision,
  ): Promise<ReconcileResult | "next"> {
    const { podName = "", selectedNode = "" } = attempt.request.spec ?? {};
    const namespace = attempt.request.metadata.namespace ?? "";
    const { pods, nodes } = this.caches;
    if (what === "pod") {
      const target = { ...podsRef, namespace, name: podName };
      return this.lookAt({ attempt, what, since, target, kind: pods }, cancel, (pod) => {
        attempt.pod = pod;
      });
    }
    const target = { ...nodesRef, namespace: "", name: selectedNode };
    const { breaks } = nodes.cache;
    return this.lookAt({ attempt, what, since, target, kind: nodes }, cancel, (node) => {
      attempt.node = node;
      if (this.nodesRead.breaks !== breaks) this.nodesRead = { breaks, names: new Set() };
      this.nodesRead.names.add(selectedNode);
    });
  }

  private async lookAt<T extends KubeObject>(
    { attempt, what, since, target, kind }: Look<T>,
    cancel: Cancel,
    keep: (object: T) => void,
  ): Promise<ReconcileResult | "next"> {
    // The author of the request had seen the object: a cache older than the request proves nothing.
    const atLeast = laterOf(laterOf(kind.cache.revision, attempt.request.metadata.resourceVersion), since);
    const fresh = await lookAgain(this.controllers.kube, target, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const { object } = fresh.value;
    if (object === undefined) return this.fail(attempt, `there is no ${what} ${target.name}`, cancel);
    kind.learn(object);
    attempt.looked.add(what);
    keep(object);
    return "next";
  }

  private async write(attempt: Attempt, intent: Intent, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const outcome = await this.caches.writer.apply(intent, { cancel });
    if (outcome.ok) {
      if (intent.type === "bind") {
        // A gang runs when its last pod is bound, so all binds of the gang are sent before the first status is written.
        attempt.timers.boundTo = intent.node;
        return { requeueAfterMs: 0 };
      }
      if (outcome.value.object !== undefined) attempt.wrote(outcome.value.object);
      return "next";
    }
    // A reservation of that name exists and will be observed: another client created it, or an earlier attempt landed.
    if (intent.type === "create" && outcome.reason === "AlreadyExists") return { again: outcome.message };
    return this.refused(attempt, outcome, cancel);
  }

  private async volumes(attempt: Attempt, cancel: Cancel): Promise<ReconcileResult | "next"> {
    const { request, timers } = attempt;
    const pod = this.podOf(request, attempt) as Pod;
    const node = this.view(attempt).node as Node;
    const outcome = await bindVolumes(this.callOf(cancel), { request, pod, node });
    if (!outcome.ok) return this.refused(attempt, outcome, cancel);
    const { waiting } = outcome.value;
    if (waiting === undefined) {
      attempt.done.add("volumes");
      return "next";
    }
    timers.volumesSinceMs ??= this.nowMs;
    const { volumeTimeoutMs } = this.options;
    if (this.nowMs >= timers.volumesSinceMs + volumeTimeoutMs) {
      return this.fail(attempt, `timed out after ${volumeTimeoutMs / 1000} s: ${waiting}`, cancel);
    }
    // Most volumes are bound within milliseconds; provisioning a disk takes a minute.
    const waitedMs = this.nowMs - timers.volumesSinceMs;
    return { requeueAfterMs: Math.min(volumesEveryMs, Math.max(volumesFirstMs, waitedMs)) };
  }

  private async configure(
    attempt: Attempt,
    { maps, devices }: Extract<BindStep, { type: "configure" }>,
    cancel: Cancel,
  ): Promise<ReconcileResult | "next"> {
    const { kube } = this.controllers;
    const { request } = attempt;
    const stillCounts = async (): Promise<Outcome<undefined>> => {
      const found = await kube.get(this.on(request).target, { cancel });
      if (!found.ok && found.reason !== "NotFound") return found;
      const now = found.ok ? found.value : undefined;
      const isOurs = now !== undefined && now.status?.phase !== "Succeeded" && attemptOf(now) === attemptOf(request);
      return isOurs ? { ok: true, value: undefined } : refused("Conflict", "a later attempt has started");
    };
    const written = await writeConfigMaps(this.callOf(cancel), maps, stillCounts);
    if (!written.ok) return this.refused(attempt, written, cancel);
    attempt.configured = devices;
    return "next";
  }

  /** Another scheduler that allocates devices has precedence. */
  private beforeClaims({ timers }: Attempt): ReconcileResult | "next" {
    if (this.others === undefined || timers.claimsWrittenMs !== undefined) return "next";
    const { nowMs } = this;
    timers.claimsSinceMs ??= nowMs;
    const areWaiting = this.others.waiting.get(waitingKey).length > 0;
    const atMs = mayClaimAtMs(timers.claimsSinceMs, { lastMs: this.others.lastMs, areWaiting });
    return nowMs < atMs ? { requeueAfterMs: Math.min(othersEveryMs, atMs - nowMs) } : "next";
  }

  /** Devices that its claims got meanwhile are not used. */
  private async mayAllocate({ request }: Attempt, pod: Pod): Promise<Outcome<undefined>> {
    if (this.others === undefined) return { ok: true, value: undefined };
    const fresh = await this.freshClaims.list();
    if (!fresh.ok) return fresh;
    const rival = findRival(intendedClaims(request, pod, fresh.value.items), fresh.value.items);
    if (rival === undefined) return { ok: true, value: undefined };
    this.controllers.ports.metrics.count("muster_claims_contested_total", {});
    return refused("Invalid", rivalWhy(rival));
  }

  /**
   * Decisions that the other scheduler took before it could observe this write have landed by now: its claims keep
   * their devices.
   */
  private async afterClaims(
    attempt: Attempt,
    claims: readonly ResourceClaim[],
    cancel: Cancel,
  ): Promise<ReconcileResult | "next"> {
    if (this.others === undefined || claims.length === 0) return "next";
    attempt.timers.claimsWrittenMs ??= this.nowMs;
    const untilMs = attempt.timers.claimsWrittenMs + rivalDelays.quietMs;
    if (this.nowMs < untilMs) return { requeueAfterMs: untilMs - this.nowMs };
    const fresh = await this.freshClaims.list();
    if (!fresh.ok) return reconcileResultOf(fresh);
    const rival = findRival(claims, fresh.value.items);
    if (rival === undefined) return "next";
    this.controllers.ports.metrics.count("muster_claims_contested_total", {});
    return this.fail(attempt, rivalWhy(rival), cancel, claims);
  }

  /**
   * A driver may have to attach devices first; the claim's status says when they are ready, or that they never will be.
   */
  private async devicesReady(
    attempt: Attempt,
    binding: BindingVerdict,
    cancel: Cancel,
  ): Promise<ReconcileResult | "next"> {
    switch (binding.kind) {
      case "ready":
        attempt.done.add("claimed");
        return "next";
      case "waiting": {
        const pod = this.podOf(attempt.request, attempt) as KubeObject;
        const note = `waiting for binding conditions: ${binding.why}`;
        this.recorder.record(pod, { type: "Normal", reason: "BindingConditionsPending", action: "Binding", note });
        return { requeueAfterMs: Math.max(1, Math.min(devicesEveryMs, binding.untilMs - this.nowMs)) };
      }
      // The scheduler finds that the claim is unusable and deallocates it.
      case "failed":
        return this.fail(attempt, `a device could not be made ready: ${binding.why}`, cancel);
      case "timedOut":
        return this.fail(
          attempt,
          `a device was not ready within ${defaultBindingTimeoutMs / 1000} s: ${binding.why}`,
          cancel,
        );
    }
  }

  /** A permanent refusal ends the attempt; everything else is retried from the state then. */
  private refused(attempt: Attempt, refusal: Refusal, cancel: Cancel): Promise<ReconcileResult> | ReconcileResult {
    switch (refusal.reason) {
      case "Invalid":
      case "Forbidden":
      case "NotFound":
        return this.fail(attempt, refusal.message, cancel);
      default:
        return reconcileResultOf(refusal);
    }
  }

  private async succeed(attempt: Attempt, node: string, cancel: Cancel): Promise<ReconcileResult> {
    const { request } = attempt;
    const { selectedNode = "" } = request.spec ?? {};
    const isElsewhere = node !== selectedNode;
    const why = isElsewhere ? `bound to ${node} by another scheduler, not to ${selectedNode}` : `bound to ${node}`;
    const { reason: _, ...before } = request.status ?? {};
    const status = { ...before, phase: "Succeeded" as const, ...(isElsewhere ? { reason: why } : {}) };
    const outcome = await this.writeStatus(attempt, status, cancel);
    if (!outcome.ok) return outcome.reason === "NotFound" ? undefined : reconcileResultOf(outcome);
    this.controllers.ports.log.info({ bindRequest: attempt.key, node, why }, "bound");
    this.controllers.ports.metrics.count("muster_binds_total", { result: "succeeded" });
    const pod = this.podOf(request, attempt);
    const isShare = request.spec?.receivedResourceType === "Fraction" && pod !== undefined;
    const note = `Pod ${attempt.key} was ${why}${isShare ? `; ${enforcedText(pod)}` : ""}`;
    await this.reportOutcome(attempt, { status: "True", reason: "Bound", message: note }, cancel);
    return undefined;
  }

  /**
   * Records the failure first, which is durable, and then takes back what the attempt wrote. After a crash the next
   * binder finds the rest.
   */
  private async fail(
    attempt: Attempt,
    why: string,
    cancel: Cancel,
    contested: readonly ResourceClaim[] = [],
  ): Promise<ReconcileResult> {
    const { request, timers } = attempt;
    const before = request.status?.failedAttempts ?? 0;
    // Without a limit attempts are not counted, as in KAI.
    const failedAttempts = (request.spec?.backoffLimit ?? null) === null ? before : before + 1;
    const status = { ...request.status, phase: "Failed" as const, reason: why, failedAttempts };
    const outcome = await this.writeStatus(attempt, status, cancel);
    if (!outcome.ok) return outcome.reason === "NotFound" ? undefined : reconcileResultOf(outcome);
    const { log, metrics } = this.controllers.ports;
    log.warn({ bindRequest: attempt.key, node: request.spec?.selectedNode, failedAttempts, why }, "a bind failed");
    metrics.count("muster_binds_total", { result: "failed" });
    const message = `Failed to bind pod ${attempt.key} to node ${request.spec?.selectedNode ?? ""}: ${why}`;
    await this.reportOutcome(attempt, { status: "False", reason: "BindingError", message }, cancel);
    const pod = this.podOf(request, attempt);
    if (pod !== undefined && isFor(request, pod) && pod.spec?.nodeName === undefined) {
      const call = this.callOf(cancel);
      const problems = await takeBack(call, { request, pod, why }, this.caches);
      // The pod has been written since, so that a bind that is still in flight conflicts.
      const released = await releaseClaims(call, pod, { claims: contested, why });
      if (!released.ok) problems.push(released.message);
      if (problems.length > 0)
        log.warn({ bindRequest: attempt.key, problems }, "a failed bind could not be undone completely");
    }
    delete timers.deviceSinceMs;
    delete timers.volumesSinceMs;
    delete timers.claimsSinceMs;
    delete timers.claimsWrittenMs;
    if (isFinallyFailed({ ...request, status })) return undefined;
    const delayMs = 1000 * 2 ** before;
    timers.retryAtMs = this.nowMs + delayMs;
    return { requeueAfterMs: delayMs };
  }

  private writeStatus(attempt: Attempt, status: BindRequest["status"], cancel: Cancel): Promise<Outcome<unknown>> {
    const { request } = attempt;
    const { target, expected } = this.on(request);
    const object = { ...request, status } as KubeObject;
    const why = status?.reason ?? status?.phase ?? "";
    return this.caches.writer.apply({ type: "status", target, expected, object, why }, { cancel });
  }

  /** Reports the outcome as a condition and as an Event. A failure to report does not affect the bind. */
  private async reportOutcome(attempt: Attempt, condition: PodBound, cancel: Cancel): Promise<void> {
    const pod = this.podOf(attempt.request, attempt);
    if (pod === undefined || !isFor(attempt.request, pod)) return;
    const type = condition.status === "True" ? "Normal" : "Warning";
    const regarding = pod;
    this.recorder.record(regarding, { type, reason: condition.reason, action: "Binding", note: condition.message });
    await writePodBound(this.callOf(cancel), pod, condition, this.nowMs);
  }

  private callOf(cancel: Cancel): BindCall {
    return { kube: this.controllers.kube, writer: this.caches.writer, cancel };
  }

  private view(attempt: Attempt): BindView {
    const { request, key } = attempt;
    const { caches } = this;
    const { selectedNode = "" } = request.spec ?? {};
    const node = attempt.node ?? (this.isWatched(selectedNode) ? caches.nodes.get(keyOf("", selectedNode)) : undefined);
    const otherDevices = caches.devices(selectedNode);
    return {
      request,
      pod: this.podOf(request, attempt),
      node,
      commitSize: caches.commitSize(request),
      reservations: (group) => caches.reservations(group),
      sharers: (group, on) => caches.sharers(group, on, request),
      freeGpus: attempt.freeGpus ?? (node === undefined ? 0 : caches.freeGpus(node)),
      isScalingUp: caches.isScalingUp,
      otherDevices,
      done: attempt.done,
      configured: attempt.configured,
      hasLooked: attempt.looked.has("pod"),
      confirmedAt: attempt.confirmedAt,
      hasCounted: attempt.looked.has("gpus"),
      waitingSinceMs: this.timers.get(key)?.deviceSinceMs,
      podsRevision: caches.pods.cache.revision,
      nowMs: this.nowMs,
    };
  }

  /**
   * Whether a deletion of the node would have been observed. After each break of the watch the node is read once: the
   * cached one may have been deleted meanwhile.
   */
  private isWatched(node: string): boolean {
    const { isFollowed, breaks } = this.caches.nodes.cache;
    const { nodesRead } = this;
    return isFollowed && (breaks === 0 || (breaks === nodesRead.breaks && nodesRead.names.has(node)));
  }

  /** The pod from the cache or from the answers to own writes, else from the last read. */
  private podOf({ metadata, spec }: BindRequest, attempt?: Attempt): Pod | undefined {
    const found = this.caches.pods.get(keyOf(metadata.namespace, spec?.podName ?? ""));
    return found === undefined ? attempt?.pod : found;
  }

  private timersOf(key: string, uid: string): RetryTimers {
    const known = this.timers.get(key);
    if (known?.uid === uid) return known;
    const fresh: RetryTimers = { uid };
    this.timers.set(key, fresh);
    return fresh;
  }

  private on({ metadata }: BindRequest): { target: IntentTarget<BindRequest>; expected: Expected } {
    const { namespace = "", name, uid, resourceVersion } = metadata;
    return { target: { ...bindRequestRef, namespace, name }, expected: { uid, resourceVersion } };
  }

  private get nowMs(): number {
    return this.controllers.ports.clock.nowMs();
  }
}

/** One reconcile of one BindRequest. */
class Attempt {
  readonly key: string;
  readonly request: BindRequest;
  readonly timers: RetryTimers;
  readonly done = new Set<"claimed" | "volumes">();
  /** The devices that its ConfigMaps have. */
  configured: readonly string[] | undefined;
  readonly looked = new Set<"pod" | "node" | "gpus">();
  /** Read from the API because the cache did not have it. */
  pod: Pod | undefined;
  node: Node | undefined;
  /** The revision at which request and pod were last confirmed. */
  confirmedAt: Revision | undefined;
  /** The free GPUs of the node by a consistent read. */
  freeGpus: number | undefined;

  constructor(key: string, request: BindRequest, timers: RetryTimers) {
    this.key = key;
    this.request = request;
    this.timers = timers;
  }

  wrote(object: KubeObject): void {
    if (object.metadata.uid === this.pod?.metadata.uid) this.pod = object;
  }
}
