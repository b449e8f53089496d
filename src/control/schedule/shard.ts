import type { Settings } from "../../decide/schedule/settings.ts";
import type { PodSpec } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { poolName } from "../../model/scheduling/podGroup.ts";
import { kaiConfigRef } from "../../model/scheduling/schedulingShard.ts";
import type { Controller, ControllerOptions } from "../runtime/controller.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { schedulerSource } from "../runtime/eventSources.ts";
import { Channel, forMapped, forObject, type KeysOf, kindSource } from "../runtime/sources.ts";
import { AccountReconciler } from "./accountReconciler.ts";
import { ClaimReleaseReconciler } from "./claimReleaseReconciler.ts";
import { confirmClaims } from "./confirmClaims.ts";
import { forStaleGroups, GroupMarks } from "./groupMarks.ts";
import { schedulerOf } from "./measures.ts";
import { PendingReasons } from "./pendingReasons.ts";
import { PlainGroupReconciler } from "./plainGroupReconciler.ts";
import { SchedulerCaches } from "./schedulerCaches.ts";
import { SchedulerPools } from "./schedulerPools.ts";
import { SchedulingCycles } from "./schedulingCycles.ts";
import { StatusReconciler } from "./statusReconciler.ts";
import { UnconfirmedShareReconciler } from "./unconfirmedShareReconciler.ts";
import { type FindUsageDatabase, UsageReconciler } from "./usageReconciler.ts";
import { WaitingPods } from "./waitingPods.ts";

/** One cycle decides on all pods, so it has one key; so does the status of all queues. */
const cycleKey = "cycle";
const queuesKey = "queues";
const pastKey = "past";

/** Inputs of a shard from outside of the cluster. */
export interface ShardOptions {
  readonly usageDatabase?: FindUsageDatabase;
  /** Environment variables of the process, for settings that name one. */
  readonly environment?: (name: string) => string | undefined;
}

/** The scheduler of one node pool. */
export interface Shard {
  readonly caches: SchedulerCaches;
  readonly recorder: EventRecorder;
  /** Starts a cycle after a change that no watch shows. */
  wake(): void;
  /** Stops deciding. Its caches stay up to date, for a shard of the same pool that comes back. */
  remove(): Promise<void>;
}

/** Adds the controllers of one node pool. `known`: the caches of an earlier shard of the pool. */
export function addShard(
  controllers: Controllers,
  settings: Settings,
  options: ShardOptions,
  known?: SchedulerCaches,
): Shard {
  const { ports } = controllers;
  const { nodePool } = settings;
  const added: Controller[] = [];
  const add = (options: ControllerOptions): void => {
    const name = nodePool === "" ? options.name : `${options.name}-${nodePool}`;
    added.push(controllers.add({ ...options, name }));
  };
  const caches = known ?? new SchedulerCaches(controllers, settings);
  const recorder = new EventRecorder({
    ...ports,
    controller: "muster.dev/scheduler",
    instance: nodePool === "" ? "scheduler" : `scheduler-${nodePool}`,
    sourceOf: schedulerSource,
  });
  const changedReasons = new Channel();
  const plainReasons = new Channel();
  const stuckWithClaims = new Channel();
  const reasons = new PendingReasons(
    (key) => {
      changedReasons.push(key);
      plainReasons.push(key.split(" ", 1)[0] as string);
    },
    (id, refusal) => {
      const [task] = caches.cluster.jobs.get(id)?.tasks ?? [];
      if (task !== undefined) caches.devices?.report.refused(schedulerOf(task), refusal);
    },
  );
  const pools = controllers.share(SchedulerPools, () => new SchedulerPools());
  const pool = { caches, reasons };
  pools.add(pool);
  const marked = new Channel();
  const marks = new GroupMarks(controllers, caches, recorder, (key) => marked.push(key));
  const cycles = new SchedulingCycles(controllers, caches, recorder, marks, {
    onBroken: (broken) => reasons.noteBroken(broken),
    onOutcome: ({ revision, found, released, claimsFitNowhere }) => {
      const { jobs, waitingJobs } = caches.cluster;
      reasons.note(revision, found, { released, isHeld: (id) => waitingJobs.isRemembered(jobs.get(id)) });
      for (const uid of claimsFitNowhere) stuckWithClaims.push(uid);
      marks.noteStale();
    },
  });
  const again = new Channel();
  const past = new Channel();
  const usage = new UsageReconciler(controllers, caches, options.usageDatabase);
  if (settings.readsShards || settings.usage !== undefined) {
    add({
      name: "usage",
      sources: [past],
      reconcile: async (_, { cancel }) => {
        const result = await usage.reconcile(cancel);
        again.push(cycleKey);
        return result;
      },
    });
    past.push(pastKey);
  }
  const unconfirmedShares = new Channel();
  const shareReconciler = new UnconfirmedShareReconciler(controllers, caches, () => again.push(cycleKey));
  const { pendingClaims } = caches.model;
  const { devices } = caches;
  const unconfirmedClaims = new Channel();
  if (pendingClaims !== undefined && devices !== undefined) {
    const claimRelease = new ClaimReleaseReconciler(controllers, caches, devices);
    add({
      name: "give-back-claims",
      concurrency: 4,
      sources: [stuckWithClaims],
      reconcile: (uid, { cancel }) => claimRelease.reconcile(uid, cancel),
    });
    add({
      name: "unconfirmed-claims",
      concurrency: 16,
      sources: [unconfirmedClaims],
      reconcile: (uid, { cancel }) =>
        confirmClaims(devices, pendingClaims, uid, { requestsRevision: caches.requests.revision, cancel }),
    });
  }
  add({
    name: "unconfirmed-shares",
    concurrency: 4,
    sources: [unconfirmedShares],
    reconcile: (uid, { cancel }) => shareReconciler.reconcile(uid, cancel),
  });
  add({
    name: "scheduler",
    sources: [
      again,
      ...caches.all.map((cache) => kindSource(cache, () => [cycleKey])),
      { start: () => () => recorder.stop() },
    ],
    reconcile: (_, { cancel }) => {
      const untilMs = usage.waitsUntilMs;
      return untilMs === undefined ? cycles.reconcile(cancel) : { requeueAfterMs: untilMs - ports.clock.nowMs() };
    },
  });
  const status = new StatusReconciler(controllers, caches, recorder, reasons);
  add({
    name: "scheduler-status",
    // Few at once: a bind waits for the writes that began before it.
    concurrency: 4,
    sources: [changedReasons],
    reconcile: (key, { cancel }) => status.reconcile(key, cancel),
  });
  add({
    name: "group-marks",
    concurrency: 64,
    sources: [marked, kindSource(caches.groups, forStaleGroups)],
    reconcile: (key, { cancel }) => marks.reconcile(key, cancel),
  });
  const onMoved = addAccounts(controllers, caches, add);
  caches.model.listener = {
    onMoved,
    onUnconfirmedShare: (uid) => unconfirmedShares.push(uid),
    onUnconfirmedClaims: (uid) => unconfirmedClaims.push(uid),
    onClaimsEnded: (uid, endedAt) => {
      void devices?.claims.waitForRevision(endedAt).then(() => pendingClaims?.releaseObserved(uid));
    },
    onFreed: () => again.push(cycleKey),
  };
  const { plainGroups } = caches;
  if (plainGroups !== undefined && settings.placesPlainPods) {
    const plain = new PlainGroupReconciler(controllers, caches, plainGroups, reasons);
    add({
      name: "plain-groups",
      concurrency: 16,
      sources: [
        plainReasons,
        kindSource(plainGroups, forObject()),
        kindSource(
          caches.pods,
          forMapped(({ metadata, spec }) => {
            const name = (spec as PodSpec | undefined)?.schedulingGroup?.podGroupName;
            return name === undefined ? [] : [`${metadata.namespace}/${name}`];
          }),
        ),
      ],
      reconcile: (key, { cancel }) => plain.reconcile(key, cancel),
    });
  }
  const waiting = new WaitingPods(ports.metrics, poolName(nodePool));
  const stopMeasuring = controllers.onMeasure((isLeading) => {
    if (isLeading) waiting.measure(caches.cluster, reasons, ports.clock.nowMs());
    else waiting.clear();
  });
  return {
    caches,
    recorder,
    wake: () => {
      past.push(pastKey);
      again.push(cycleKey);
    },
    remove: async () => {
      pools.remove(pool);
      stopMeasuring();
      waiting.clear();
      for (const controller of added.reverse()) await controllers.remove(controller);
    },
  };
}

/** Adds the status of groups and queues. Returns a callback for pods that count on another node from now on. */
function addAccounts(
  controllers: Controllers,
  caches: SchedulerCaches,
  add: (options: ControllerOptions) => void,
): (uid: string) => void {
  const configs = caches.cluster.settings.readsShards ? controllers.cache(kaiConfigRef) : undefined;
  const accounts = new AccountReconciler(controllers, caches, configs);
  const groupOf = ({ metadata }: KubeObject): string[] => {
    const name = metadata.annotations?.[annotationKeys.podGroup];
    return name === undefined ? [] : [`${metadata.namespace}/${name}`];
  };
  // A BindRequest that is created or deleted changes the usage of its pod's group without an event of either.
  const groupOfRequest = ({ metadata }: KubeObject): string[] => {
    const pod = caches.pods.get(`${metadata.namespace}/${metadata.name}`);
    return pod === undefined ? [] : groupOf(pod);
  };
  // The first change of a burst schedules the write; the others need no write of their own.
  const groupKeys =
    (keysOf: KeysOf): KeysOf =>
    (event) =>
      [...keysOf(event)].filter((key) => !accounts.isAwaited(`group ${key}`));
  const queueKeys = (): string[] => (accounts.isAwaited(queuesKey) ? [] : [queuesKey]);
  const movedGroups = new Channel();
  const movedQueues = new Channel();
  add({
    name: "podgroup-accounts",
    concurrency: 8,
    sources: [
      movedGroups,
      kindSource(caches.pods, groupKeys(forMapped(groupOf))),
      kindSource(caches.groups, groupKeys(forObject())),
      kindSource(caches.requests, groupKeys(forMapped(groupOfRequest))),
    ],
    reconcile: (id, { cancel }) => accounts.reconcileGroup(id, cancel),
  });
  add({
    name: "queue-accounts",
    sources: [
      movedQueues,
      kindSource(caches.queues, queueKeys),
      kindSource(caches.pods, queueKeys),
      kindSource(caches.requests, queueKeys),
      kindSource(caches.groups, queueKeys),
    ],
    reconcile: (_, { cancel }) => accounts.reconcileQueues(cancel),
  });
  return (uid) => {
    for (const key of queueKeys()) movedQueues.push(key);
    const id = caches.cluster.tasks.get(uid)?.job?.id;
    if (id !== undefined && !accounts.isAwaited(`group ${id}`)) movedGroups.push(id);
  };
}
