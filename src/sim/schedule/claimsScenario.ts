import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { binderComponent } from "../../control/bind/binderComponent.ts";
import { addDevices } from "../../control/devices/devicesComponent.ts";
import type { Component } from "../../control/runtime/component.ts";
import { addScheduler, schedulerComponent } from "../../control/schedule/schedulerComponent.ts";
import { defaultSettings } from "../../decide/schedule/settings.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { annotationKeys, defaultSchedulerName, kaiSchedulerName } from "../../model/scheduling/keys.ts";
import { podGroupApiVersion, podGroupRef } from "../../model/scheduling/podGroup.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { controllersProcess } from "../controllersProcess.ts";
import {
  allAreServedBut,
  allocatedIsProtected,
  countsAreTrue,
  deviceGivenOnce,
  devicePreparedOnce,
  gpuHasOneHolder,
} from "../devices/invariants.ts";
import { extendedDevice, kubelet, type NodeMemory } from "../devices/kubelet.ts";
import { gpuPodSpec, plain, podsRef, removePod, setUp } from "../devices/scenario.ts";
import { foldedOnce, observeCycles } from "../invariants/foldedOnce.ts";
import { cachesAreComplete, neverGoesBack, writesChangeSomething } from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Scenario } from "../scenario.ts";
import { bindsTheSamePod, gangsStartWhole, isInIncompleteGang, placementEnds } from "./invariants.ts";
import { placementPace } from "./pace.ts";

const leaders = ["ann", "bob"];
const held = (actor: string): boolean => leaders.includes(actor);
const lease = { namespace: "default", name: "scheduler" };
const retryLimits = { jobsMax: 1, pauseMs: 25 };
const settings = { ...defaultSettings, allocatesDevices: true, stalenessGraceMs: 3_000, retryLimits };
const scheduler = schedulerComponent(settings);
/** The scheduler already brings the CRD of BindRequests. */
const binder: Component = { ...binderComponent(), definitions: [] };
const nodes = 2;
const devices = 3;
const turns = 24;

/**
 * Pods with claims of both schedulers, alone and in gangs, while two processes that place both compete for the lease.
 */
export const claimsScenario = scenarioOf(
  "schedule/claims",
  "pods of both schedulers and gangs that claim devices are placed and deleted, under all faults",
  claimed,
  true,
);

/** The same with pods that ask for an extended resource, for which claims are made when a node is chosen. */
export const extendedScenario = scenarioOf(
  "schedule/extended",
  "pods of both schedulers and gangs that ask for a resource that devices serve are placed and deleted, under all faults",
  extended,
  false,
);

type PodSpecOf = () => object;

function claimed(): object {
  return {
    containers: [{ name: "main", image: "i", resources: { claims: [{ name: "gpu" }] } }],
    resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "one" }],
  };
}

function extended(): object {
  const amounts = { [extendedDevice]: "1" };
  return { containers: [{ name: "main", image: "i", resources: { requests: amounts, limits: amounts } }] };
}

function scenarioOf(name: string, about: string, specOf: PodSpecOf, hasPlugin: boolean): Scenario {
  return {
    name,
    about,
    components: [scheduler, binder],
    serverLoops: true,
    setUp: (kube) => setUp(kube, { nodes, devices, plugin: hasPlugin }),
    actors: () => {
      const memory: NodeMemory = { prepared: new Map(), running: new Map(), plugged: new Map() };
      return [
        ...leaders.map((name) =>
          controllersProcess(
            name,
            (controllers, ports) => {
              observeCycles(ports, addScheduler(controllers, settings).model);
              const { tracker } = addDevices(controllers);
              ports.observe("given", () => tracker.listAllAllocatedDevices());
            },
            { lease },
          ),
        ),
        controllersProcess("binder", (controllers) => binder.add(controllers)),
        kubelet("kubelets", memory, { stopMs: 400 }),
        user(specOf, hasPlugin),
      ];
    },
    invariants: [
      deviceGivenOnce,
      gpuHasOneHolder(),
      devicePreparedOnce,
      allocatedIsProtected,
      countsAreTrue(),
      foldedOnce,
      allAreServedBut(waitsForOthers),
      gangsStartWhole,
      bindsTheSamePod((actor) => held(actor) || actor === "binder"),
      placementEnds,
      oneEpochWrites(held, lease.name),
      neverGoesBack,
      writesChangeSomething((actor) => held(actor) || actor === "binder"),
      cachesAreComplete,
    ],
    ...placementPace,
  };
}

/** Whether its gang is incomplete, or the create of its group failed and was not retried. */
function waitsForOthers(store: ObjectStore, pod: Pod): boolean {
  const { namespace = "", annotations = {} } = pod.metadata;
  const name = annotations[annotationKeys.podGroup];
  if (name === undefined) return false;
  return store.get("scheduling.run.ai/podgroups", namespace, name) === undefined || isInIncompleteGang(store, pod);
}

const user = (specOf: PodSpecOf, hasPlugin: boolean): ActorSpec => ({
  name: "user",
  finite: true,
  isExemptFromFaults: true,
  run: async (ports) => {
    for (let turn = 0; turn < turns; turn++) {
      await ports.sleep(500);
      // 0: nothing. 1 to 4: a pod of kai-scheduler; 5 and 6: one of the cluster's own; 7 and 8: a gang; 9 to 12: take
      // something away.
      const what = ports.choose("turn", (dice) => dice.between(1, 12));
      if (what === 0) continue;
      // With a device plugin every other pod gets its GPU from it.
      const spec = hasPlugin && what % 2 === 0 ? gpuPodSpec() : specOf();
      if (what <= 4) await make(ports, `p${turn}`, { schedulerName: kaiSchedulerName, ...spec });
      else if (what <= 6) await make(ports, `p${turn}`, { schedulerName: defaultSchedulerName, ...spec });
      else if (what <= 8) await makeGang(ports, `g${turn}`, specOf);
      else {
        await removePod(ports, `p${(what - 9) * 6 + (turn % 6)}`, what % 2 === 0);
        await removePod(ports, `g${(what - 9) * 6 + (turn % 6)}-0`, what % 2 === 0);
      }
    }
    // A gang that is larger than the free devices would stay pending for ever, so all gangs are deleted at the end.
    for (let turn = 0; turn < turns; turn++) {
      for (const member of [0, 1]) await removePodWithRetry(ports, `g${turn}-${member}`);
    }
  },
});

/** Retries the delete: a gang of which one pod is left would stay pending for ever. */
async function removePodWithRetry(ports: ActorPorts, name: string): Promise<void> {
  for (;;) {
    const found = await ports.kube.get({ ...podsRef, namespace: "default", name });
    if (!found.ok && found.reason === "NotFound") return;
    if (found.ok && found.value.metadata.deletionTimestamp !== undefined) return;
    await removePod(ports, name, false);
    await ports.sleep(100);
  }
}

async function make(ports: ActorPorts, name: string, spec: object, group?: string): Promise<void> {
  const pod = plain("v1", "Pod", name, { spec });
  const annotations = group === undefined ? {} : { [annotationKeys.podGroup]: group };
  await ports.kube.create(podsRef, { ...pod, metadata: { ...pod.metadata, namespace: "default", annotations } });
}

async function makeGang(ports: ActorPorts, name: string, specOf: PodSpecOf): Promise<void> {
  const spec = { queue: "default-queue", minMember: 2 };
  await ports.kube.create(podGroupRef, {
    ...plain(podGroupApiVersion, "PodGroup", name, { spec }),
    metadata: { name, namespace: "default" },
  });
  for (const member of [0, 1]) {
    await make(ports, `${name}-${member}`, { schedulerName: kaiSchedulerName, ...specOf() }, name);
  }
}
