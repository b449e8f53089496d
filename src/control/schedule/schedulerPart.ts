import { defaultSettings, type Settings } from "../../decide/schedule/settings.ts";
import type { KubeObject } from "../../model/object.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { schedulingHooks } from "../../model/scheduling/hooks.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import { quickStartQueues } from "../../model/scheduling/queue.ts";
import type { Controllers } from "../controllers.ts";
import { EventRecorder } from "../eventRecorder.ts";
import type { NewObject, Part } from "../part.ts";
import { Channel, forMapped, forObject, kindSource } from "../sources.ts";
import { AccountTurns } from "./accountTurns.ts";
import { GroupMarks } from "./groupMarks.ts";
import { GroupTurns } from "./groupTurns.ts";
import { LingeringTurns } from "./lingeringTurns.ts";
import { ReasonBook } from "./reasonBook.ts";
import { RequestTurns } from "./requestTurns.ts";
import { SchedulerTurns } from "./schedulerTurns.ts";
import { ScheduleWorld } from "./scheduleWorld.ts";
import { StatusTurns } from "./statusTurns.ts";

/** Turns that write for each pod: enough at once that one sync of the disk carries many of them. */
const writesAtOnce = 256;

/** All pods are decided on together, so there is one key. */
const cycleKey = "cycle";

/** Queues, gangs and shares of GPUs for pods of `kai-scheduler`; Kubernetes' own rules for those of `default-scheduler`. */
export function schedulerPart(given: Partial<Settings> = {}): Part {
  const settings: Settings = { ...defaultSettings, ...given };
  return {
    name: "scheduler",
    about: "places pods: queues, gangs, shares of GPUs, and plain pods",
    definitions: schedulingDefinitions as unknown as NewObject[],
    startObjects: [
      ...shippedPriorityClasses.map(({ name, value }) => ({
        apiVersion: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        metadata: { name },
        value,
      })),
      ...(quickStartQueues() as unknown as NewObject[]),
    ],
    hooks: schedulingHooks,
    add: (controllers) => addScheduler(controllers, settings),
  };
}

export function addScheduler(controllers: Controllers, settings: Settings): ScheduleWorld {
  const { ports } = controllers;
  const world = new ScheduleWorld(controllers, settings);
  const recorder = new EventRecorder({
    ...ports,
    kube: controllers.kube,
    controller: "muster.dev/scheduler",
    instance: settings.nodePool === "" ? "scheduler" : `scheduler-${settings.nodePool}`,
  });
  const told = new Channel();
  const book = new ReasonBook((key) => told.push(key));
  const marked = new Channel();
  const marks = new GroupMarks(controllers, world, recorder, (key) => marked.push(key));
  const turns = new SchedulerTurns(controllers, world, recorder, marks, ({ revision, found, promised }) => {
    book.note(revision, found, promised);
    marks.noteUnwell();
  });
  const again = new Channel();
  const lingers = new Channel();
  world.onLingering = (uid) => lingers.push(uid);
  const lingering = new LingeringTurns(controllers, world, () => again.push(cycleKey));
  controllers.add({
    name: "lingering-shares",
    concurrency: 4,
    sources: [lingers],
    reconcile: (uid, { cancel }) => lingering.turn(uid, cancel),
  });
  controllers.add({
    name: "scheduler",
    sources: [
      again,
      ...world.caches.map((cache) => kindSource(cache, () => [cycleKey])),
      { start: () => () => recorder.stop() },
    ],
    reconcile: (_, { cancel }) => turns.turn(cancel),
  });
  const status = new StatusTurns(controllers, world, recorder, book);
  controllers.add({
    name: "scheduler-status",
    concurrency: 16,
    sources: [told],
    reconcile: (key, { cancel }) => status.turn(key, cancel),
  });
  controllers.add({
    name: "group-marks",
    concurrency: 64,
    sources: [marked],
    reconcile: (key, { cancel }) => marks.turn(key, cancel),
  });
  addAccounts(controllers, world);
  const groups = new GroupTurns(controllers, recorder);
  controllers.add({
    name: "pod-grouper",
    concurrency: writesAtOnce,
    sources: [kindSource(world.pods, forObject())],
    reconcile: (key, { cancel }) => groups.turn(key, cancel),
  });
  const requests = new RequestTurns(controllers, world);
  controllers.add({
    name: "bind-requests",
    concurrency: 4,
    sources: [
      kindSource(
        world.requests,
        forMapped((object) => requests.sameSet(object)),
      ),
      kindSource(
        world.pods,
        forMapped(({ metadata }) => {
          const request = world.requests.get(`${metadata.namespace}/${metadata.name}`);
          return request === undefined ? [] : requests.sameSet(request);
        }),
      ),
      kindSource(world.nodes, (event) => {
        if (event.type !== "deleted") return [];
        const gone: string[] = [];
        for (const [key, object] of world.requests.table.view().objects) {
          const spec = object["spec"] as { selectedNode?: string } | undefined;
          if (spec?.selectedNode === event.key) gone.push(key);
        }
        return gone;
      }),
    ],
    reconcile: (key, { cancel }) => requests.turn(key, cancel),
  });
  return world;
}

/** What groups and queues have, on their status. */
function addAccounts(controllers: Controllers, world: ScheduleWorld): void {
  const accounts = new AccountTurns(controllers, world);
  const groupOf = ({ metadata }: KubeObject): string[] => {
    const name = metadata.annotations?.[annotationKeys.podGroup];
    return name === undefined ? [] : [`${metadata.namespace}/${name}`];
  };
  // A request that comes or is taken back changes what its pod's group has, and touches neither of them.
  const groupOfRequest = ({ metadata }: KubeObject): string[] => {
    const pod = world.pods.get(`${metadata.namespace}/${metadata.name}`);
    return pod === undefined ? [] : groupOf(pod);
  };
  controllers.add({
    name: "podgroup-accounts",
    concurrency: 64,
    sources: [
      kindSource(world.pods, forMapped(groupOf)),
      kindSource(world.groups, forObject()),
      kindSource(world.requests, forMapped(groupOfRequest)),
    ],
    reconcile: (id, { cancel }) => accounts.groupTurn(id, cancel),
  });
  const queuesOf = (id: string): string[] => {
    const queue = world.cluster.jobs.get(id)?.queue;
    return queue === undefined ? [] : [...queue.path()].map(({ name }) => name);
  };
  const withParent = (object: KubeObject): string[] => {
    const parent = (object["spec"] as { parentQueue?: string } | undefined)?.parentQueue ?? "";
    return parent === "" ? [object.metadata.name] : [object.metadata.name, parent];
  };
  controllers.add({
    name: "queue-accounts",
    sources: [
      kindSource(world.queues, forMapped(withParent)),
      kindSource(
        world.pods,
        forMapped((pod) => groupOf(pod).flatMap(queuesOf)),
      ),
      kindSource(
        world.requests,
        forMapped((request) => groupOfRequest(request).flatMap(queuesOf)),
      ),
      kindSource(
        world.groups,
        forMapped(({ metadata }) => queuesOf(`${metadata.namespace}/${metadata.name}`)),
      ),
    ],
    reconcile: (name, { cancel }) => accounts.queueTurn(name, cancel),
  });
}
