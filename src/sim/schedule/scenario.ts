import { binderComponent } from "../../control/bind/binderComponent.ts";
import type { Component } from "../../control/runtime/component.ts";
import { addScheduler, schedulerComponent } from "../../control/schedule/schedulerComponent.ts";
import { reservationDefaults } from "../../decide/bind/reservation.ts";
import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import { defaultSettings } from "../../decide/schedule/settings.ts";
import type { Pod, PodSpec } from "../../model/kubernetes.generated.ts";
import type { DeepReadonly, Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { annotationKeys, defaultSchedulerName, kaiSchedulerName, labelKeys } from "../../model/scheduling/keys.ts";
import { podGroupApiVersion, podGroupRef } from "../../model/scheduling/podGroup.ts";
import { queueApiVersion, queueRef } from "../../model/scheduling/queue.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { kubeletNode, kubelets, makeNamespaces } from "../bind/scenario.ts";
import { controllersProcess, runControllers } from "../controllersProcess.ts";
import { foldedOnce, observeCycles } from "../invariants/foldedOnce.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { mistaken } from "../mistake.ts";
import { planNodeLosses } from "../nodes/nodeFaults.ts";
import type { Scenario } from "../scenario.ts";
import { decidingAgainDecidesNothing, nothingStaysInDoubt, sumsClose } from "./clusterInvariants.ts";
import {
  bindsTheSamePod,
  bindsToKnownNodes,
  evictionsServe,
  gangsStartWhole,
  noEvictionForDeletedOwners,
  noGpuTwice,
  placementEnds,
  placesByWatchedNodes,
  queuesAddUp,
  reasonsAreCurrent,
} from "./invariants.ts";
import { mistakenControllers, type ScheduleMistake } from "./mistakes.ts";
import { placementPace } from "./pace.ts";

export const podsRef = builtin.Pod;
const jobsRef = builtin.Job;
const schedulers = ["ann", "bob"];
const held = (actor: string): boolean => schedulers.includes(actor);
const lease = { namespace: "default", name: "scheduler" };

const pool = "l40s=2";
const nodes = kubelets([pool]);
const losable = { names: ["l40s-0", "l40s-1"], nodeObject: kubeletNode(pool) };
// One job of a queue is tried again in each cycle, so that finding out when a job has to be is simulated too.
const settings = { ...defaultSettings, stalenessGraceMs: 3_000, retryLimits: { jobsMax: 1, pauseMs: 25 } };
const scheduler = schedulerComponent(settings);
/** The scheduler already brings the CRD of BindRequests. */
const binder: Component = {
  ...binderComponent({ volumeTimeoutMs: 5_000, reservation: { ...reservationDefaults, allocationTimeoutMs: 4_000 } }),
  definitions: [],
};

/**
 * Jobs of two queues with whole GPUs, shares and gangs are created and deleted while two schedulers compete for the
 * lease.
 */
export const scheduleScenario: Scenario = scheduleWith();

/** `schedule`, or `schedule/<mistake>` with one classic bug; `plant` changes the model of each scheduler. */
export function scheduleWith(
  mistake?: ScheduleMistake,
  by?: ActorSpec,
  plant: (cluster: Cluster) => void = () => {},
): Scenario {
  return {
    name: mistake === undefined ? "schedule" : `schedule/${mistake.name}`,
    about: "plain pods, gangs and shares of two queues are scheduled, evicted and deleted under all faults",
    components: [scheduler, binder, nodes],
    serverLoops: true,
    collectMsMax: 12_000,
    setUp: async (kube) => {
      await makeNamespaces(kube);
      for (const [name, quota, parentQueue] of [
        ["colours", 8, ""],
        ["red", 4, "colours"],
        ["blue", 4, "colours"],
      ] as const) {
        const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
        const resources = { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: open, memory: open };
        const spec = { ...(parentQueue !== "" && { parentQueue }), resources };
        await kube.create(queueRef, { ...plain(queueApiVersion, "Queue", name), spec });
      }
    },
    actors: () => [
      ...schedulers.map((name) => ({
        name,
        run: (ports: ActorPorts) =>
          runControllers(
            mistaken(ports, mistake),
            (controllers) => {
              const caches = addScheduler(mistakenControllers(controllers, ports, mistake), settings);
              mistake?.caches?.(caches);
              plant(caches.cluster);
              ports.observe("caches", caches);
              observeCycles(ports, caches.model);
            },
            { lease },
          ),
      })),
      {
        name: "binder",
        run: (ports: ActorPorts) => runControllers(mistaken(ports, mistake), (controllers) => binder.add(controllers)),
      },
      controllersProcess("kubelets", (controllers) => nodes.add(controllers)),
      by ?? user,
    ],
    planFaults: (simulation) => planNodeLosses(simulation, losable),
    invariants: [
      noGpuTwice(),
      placesByWatchedNodes((actor) => held(actor) || actor === "binder"),
      bindsToKnownNodes(held),
      gangsStartWhole,
      changesWhatItSaw(held),
      sumsClose(held),
      foldedOnce,
      destroysTheSameObject(held),
      bindsTheSamePod((actor) => held(actor) || actor === "binder"),
      queuesAddUp,
      placementEnds,
      nothingStaysInDoubt(lease.name),
      oneEpochWrites(held, lease.name),
      destroysWhatItLookedAt(held),
      evictionsServe(held),
      noEvictionForDeletedOwners(held),
      reasonsAreCurrent,
      decidingAgainDecidesNothing(lease.name),
      neverGoesBack,
      writesChangeSomething((actor) => held(actor) || actor === "binder"),
      cachesAreComplete,
    ],
    ...placementPace,
  };
}

/** Creates workloads of all kinds and deletes some. */
export const user: ActorSpec = {
  name: "user",
  finite: true,
  isExemptFromFaults: true,
  run: async (ports) => {
    for (let turn = 0; turn < 24; turn++) {
      await ports.sleep(500);
      if (ports.choose("job", (dice) => dice.between(0, 9)) === 1) await passingJob(ports, turn);
      // 0: nothing. 1 to 12: submit something; 13 to 16: take something away; 17 to 20: put another one of that name in
      // its stead.
      const what = ports.choose("turn", (dice) => dice.between(1, 20));
      if (what === 0) continue;
      if (what <= 12) await submit(ports, what, turn);
      else if (what <= 16) await removePod(ports, (what - 13) * 5 + (turn % 5));
      else await replace(ports, (what - 17) * 5 + (turn % 5));
    }
  },
};

async function submit(ports: ActorPorts, what: number, turn: number): Promise<void> {
  const queue = what % 2 === 0 ? "red" : "blue";
  const name = `w${turn}`;
  if (what <= 4) {
    await ports.kube.create(podsRef, pod(name, { gpus: 1 + (what % 3), queue }));
  } else if (what <= 7) {
    await ports.kube.create(podsRef, pod(name, { fraction: "0.5", queue }));
  } else if (what <= 9) {
    await ports.kube.create(podsRef, pod(name, { scheduler: defaultSchedulerName }));
  } else {
    const group = { ...plain(podGroupApiVersion, "PodGroup", name), spec: { queue, minMember: 2 } };
    await ports.kube.create(podGroupRef, {
      ...group,
      metadata: { name, namespace: "default" },
    });
    for (const member of [0, 1, 2])
      await ports.kube.create(podsRef, pod(`${name}-${member}`, { gpus: 2, group: name }));
  }
}

/**
 * A Job whose gang never fits, and which is deleted while it waits. The garbage collector takes its PodGroup at once
 * and its pods over seconds.
 */
async function passingJob(ports: ActorPorts, turn: number): Promise<void> {
  const { kube } = ports;
  const name = `j${turn}`;
  const members = 8;
  const annotations = { [annotationKeys.batchMinMember]: String(members) };
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "i" }] } };
  const job = await kube.create(jobsRef, {
    ...plain("batch/v1", "Job", name),
    metadata: { name, namespace: "default", annotations },
    spec: { template, suspend: true },
  });
  if (!job.ok) return;
  const owner = { apiVersion: "batch/v1", kind: "Job", name, uid: job.value.metadata.uid, controller: true };
  for (let member = 0; member < members; member++) {
    const words = { gpus: 2, queue: turn % 2 === 0 ? "red" : "blue" };
    const { metadata, spec, ...rest } = pod(`${name}-${member}`, words);
    await kube.create(podsRef, {
      ...rest,
      metadata: { ...metadata, ownerReferences: [owner] },
      spec: { ...spec, priorityClassName: "build-preemptible" },
    });
  }
  await ports.sleep(1_500);
  const preconditions = { uid: job.value.metadata.uid };
  await kube.delete({ ...jobsRef, namespace: "default", name }, { preconditions, propagationPolicy: "Background" });
}

async function removePod({ kube }: ActorPorts, turn: number): Promise<void> {
  for (const name of [`w${turn}`, `w${turn}-0`]) {
    const ref = { ...podsRef, namespace: "default", name };
    const found = await kube.get(ref);
    if (!found.ok) continue;
    await kube.delete(ref, { preconditions: { uid: found.value.metadata.uid }, gracePeriodSeconds: 1 });
  }
}

/** Creates another pod of the name as soon as the name is free. */
async function replace({ kube }: ActorPorts, turn: number): Promise<void> {
  for (const name of [`w${turn}`, `w${turn}-1`]) {
    const ref = { ...podsRef, namespace: "default", name };
    const found = await kube.get(ref);
    if (!found.ok) continue;
    const gone = await kube.delete(ref, { preconditions: { uid: found.value.metadata.uid }, gracePeriodSeconds: 0 });
    if (!gone.ok) continue;
    const { labels = {}, annotations = {} } = found.value.metadata;
    const group = name.includes("-") ? annotations[annotationKeys.podGroup] : undefined;
    const fraction = annotations[annotationKeys.gpuFraction];
    const queue = labels[labelKeys.queue];
    const plainPod = found.value as { spec: { schedulerName: string } };
    await kube.create(
      podsRef,
      pod(name, {
        gpus: fraction === undefined && plainPod.spec.schedulerName === kaiSchedulerName ? 2 : 0,
        scheduler: plainPod.spec.schedulerName,
        ...(fraction !== undefined && { fraction }),
        ...(queue !== undefined && { queue }),
        ...(group !== undefined && { group }),
      }),
    );
  }
}

export interface PodFields {
  readonly gpus?: number;
  readonly subGroup?: string;
  readonly fraction?: string;
  readonly queue?: string;
  readonly group?: string;
  readonly scheduler?: string;
}

export function pod(
  name: string,
  { gpus = 0, fraction, queue, group, subGroup, scheduler: by = kaiSchedulerName }: PodFields,
): Unstored<Pod> & { readonly spec: DeepReadonly<PodSpec> } {
  const amounts = { "nvidia.com/gpu": String(gpus) };
  return {
    ...plain("v1", "Pod", name),
    metadata: {
      name,
      namespace: "default",
      labels: {
        ...(queue !== undefined && { [labelKeys.queue]: queue }),
        ...(subGroup !== undefined && { [labelKeys.subGroup]: subGroup }),
      },
      annotations: {
        ...(fraction !== undefined && { [annotationKeys.gpuFraction]: fraction }),
        ...(group !== undefined && { [annotationKeys.podGroup]: group }),
      },
    },
    spec: {
      schedulerName: by,
      terminationGracePeriodSeconds: 1,
      containers: [
        { name: "main", image: "i", ...(gpus > 0 && { resources: { requests: amounts, limits: amounts } }) },
      ],
    },
  };
}

export function plain(apiVersion: string, kind: string, name: string): Unstored {
  return { apiVersion, kind, metadata: { name } };
}
