import type { Settings } from "../../decide/schedule/settings.ts";
import type { PodSpec } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { poolName } from "../../model/scheduling/podGroup.ts";
import { kaiConfigRef } from "../../model/scheduling/schedulingShard.ts";
import type { Controller, ControllerOptions } from "../runtime/controller.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { Channel, forMapped, forObject, type KeysOf, kindSource } from "../runtime/sources.ts";
import { AccountReconciler } from "./accountReconciler.ts";
import { GiveBackReconciler } from "./giveBackReconciler.ts";
import { forStaleGroups, GroupMarks } from "./groupMarks.ts";
import { settleLingeringClaims } from "./lingeringClaims.ts";
import { LingeringReconciler } from "./lingeringReconciler.ts";
import { PlainGroupReconciler } from "./plainGroupReconciler.ts";
import { ReasonBook } from "./reasonBook.ts";
import { SchedulerCaches } from "./schedulerCaches.ts";
import { SchedulingCycles } from "./schedulingCycles.ts";
import { StatusReconciler } from "./statusReconciler.ts";
import { type FindUsageDatabase, UsageReconciler } from "./usageReconciler.ts";
import { WaitingPods } from "./waitingPods.ts";

/** One cycle decides on all pods, so there is one key; the status of all queues is written together. */
const cycleKey = "cycle";
const queuesKey = "queues";
const pastKey = "past";

/** What a shard needs from outside of the cluster. */
export interface ShardOptions {
  readonly usageDatabase?: FindUsageDatabase;
  /** Variables of the process, for settings that name one. */
  readonly environment?: (name: string) => string | undefined;
}

/** The scheduler of one node pool. */
export interface Shard {
  readonly caches: SchedulerCaches;
  readonly recorder: EventRecorder;
  /** Something that no watch shows has changed. */
  wake(): void;
  /** Stops deciding. Its caches stay up to date, for a shard of the same pool that comes back. */
  remove(): Promise<void>;
}

/** Adds what decides for one pool and reports it. `known` is the caches of a shard that was there before. */
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
  });
  const told = new Channel();
  const plainTold = new Channel();
  const stuckWithClaims = new Channel();
  const book = new ReasonBook((key) => {
    told.push(key);
    plainTold.push(key.split(" ", 1)[0] as string);
  });
  const marked = new Channel();
  const marks = new GroupMarks(controllers, caches, recorder, (key) => marked.push(key));
  const cycles = new SchedulingCycles(controllers, caches, recorder, marks, {
    onBroken: (broken) => book.noteBroken(broken),
    onOutcome: ({ revision, found, stuck }) => {
      book.note(revision, found);
      for (const uid of stuck) stuckWithClaims.push(uid);
      marks.noteUnwell();
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
  const lingers = new Channel();
  const lingering = new LingeringReconciler(controllers, caches, () => again.push(cycleKey));
  const { pendingClaims } = caches.model;
  const { devices } = caches;
  const lingeringClaims = new Channel();
  if (pendingClaims !== undefined && devices !== undefined) {
    const giveBack = new GiveBackReconciler(controllers, caches, devices);
    add({
      name: "give-back-claims",
      concurrency: 4,
      sources: [stuckWithClaims],
      reconcile: (uid, { cancel }) => giveBack.reconcile(uid, cancel),
    });
    add({
      name: "lingering-claims",
      concurrency: 16,
      sources: [lingeringClaims],
      reconcile: (uid, { cancel }) =>
        settleLingeringClaims(devices, pendingClaims, uid, { requestsRevision: caches.requests.revision, cancel }),
    });
  }
  add({
    name: "lingering-shares",
    concurrency: 4,
    sources: [lingers],
    reconcile: (uid, { cancel }) => lingering.reconcile(uid, cancel),
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
  const status = new StatusReconciler(controllers, caches, recorder, book);
  add({
    name: "scheduler-status",
    concurrency: 16,
    sources: [told],
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
    onLingering: (uid) => lingers.push(uid),
    onLingeringClaims: (uid) => lingeringClaims.push(uid),
    onClaimsEnded: (uid, endedAt) => {
      void devices?.claims.waitForRevision(endedAt).then(() => pendingClaims?.letGoOfShown(uid));
    },
    onFreed: () => again.push(cycleKey),
  };
  const { plainGroups } = caches;
  if (plainGroups !== undefined && settings.placesPlainPods) {
    const plain = new PlainGroupReconciler(controllers, caches, plainGroups, book);
    add({
      name: "plain-groups",
      concurrency: 16,
      sources: [
        plainTold,
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
    if (isLeading) waiting.measure(caches.cluster, book, ports.clock.nowMs());
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
      stopMeasuring();
      waiting.clear();
      for (const controller of added.reverse()) await controllers.remove(controller);
    },
  };
}

/** What groups and queues have, on their status. Answers with what to call when a pod counts somewhere else. */
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
  // A request that comes or is taken back changes what its pod's group has, and touches neither of them.
  const groupOfRequest = ({ metadata }: KubeObject): string[] => {
    const pod = caches.pods.get(`${metadata.namespace}/${metadata.name}`);
    return pod === undefined ? [] : groupOf(pod);
  };
  // Of a burst the first change sets the time of the write; the others need no write of their own.
  const groupKeys =
    (keysOf: KeysOf): KeysOf =>
    (event) =>
      [...keysOf(event)].filter((key) => !accounts.isAwaited(`group ${key}`));
  const queueKeys = (): string[] => (accounts.isAwaited(queuesKey) ? [] : [queuesKey]);
  const movedGroups = new Channel();
  const movedQueues = new Channel();
  add({
    name: "podgroup-accounts",
    concurrency: 64,
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
