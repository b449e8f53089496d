import type { KubeObject } from "../../src/model/objects/object.ts";
import { annotationKeys, kaiSchedulerName, labelKeys } from "../../src/model/scheduling/keys.ts";
import { controllersProcess, runControllers } from "../../src/sim/controllersProcess.ts";
import { delegateKube } from "../../src/sim/delegateKube.ts";
import { at, insist, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import { noEvictionForDeletedOwners } from "../../src/sim/schedule/invariants.ts";
import { ownersMayBeThere } from "../../src/sim/schedule/mistakes.ts";
import type { Exhibit } from "../exhibit.ts";
import { binder, gpuPod, makeNode, nodeOf, placementScene, reaper, scheduler } from "./schedulerScene.ts";

const jobs = { group: "batch", version: "v1", plural: "jobs" };
const running = 4;
const members = 6;

function podOf(name: string, more: { metadata?: object; spec?: object } = {}): KubeObject {
  const made = gpuPod(name, { schedulerName: kaiSchedulerName, spec: more.spec ?? {} });
  const labels = { [labelKeys.queue]: "default-queue" };
  return { ...made, metadata: { ...made.metadata, labels, ...more.metadata } } as KubeObject;
}

const play = (variant: string, isBuggy: boolean) => ({
  ...placementScene({
    slug: "deleted-job",
    variant,
    about: "a Job whose gang never fitted is deleted, and its pods wait for the garbage collector",
    faults: [],
    invariants: [noEvictionForDeletedOwners((actor) => actor === "scheduler", 15)],
    setUp: (kube) => makeNode(kube, "n1", running),
    actors: () => [
      reaper(),
      person("user", async (ports) => {
        for (let each = 0; each < running; each++) {
          await insist(ports, () => ports.kube.create(kinds.pods, podOf(`train-${each}`)));
        }
        const areBound = async (): Promise<{ ok: boolean }> => {
          const listed = await ports.kube.list(kinds.pods);
          return { ok: listed.ok && listed.value.items.every((pod) => nodeOf(pod) !== "") };
        };
        await insist(ports, areBound);
        const annotations = { [annotationKeys.batchMinMember]: String(members) };
        const template = { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "i" }] } };
        const job = plain("batch/v1", "Job", "default", "big", {
          metadata: { annotations },
          spec: { suspend: true, template },
        });
        await insist(ports, () => ports.kube.create(jobs, job));
        const made = await ports.kube.get(at(jobs, "big"));
        if (!made.ok) return;
        const { uid } = made.value.metadata;
        const ownerReferences = [{ apiVersion: "batch/v1", kind: "Job", name: "big", uid, controller: true }];
        for (let each = 0; each < members; each++) {
          const pod = podOf(`big-${each}`, {
            metadata: { ownerReferences },
            spec: { priorityClassName: "build-preemptible" },
          });
          await insist(ports, () => ports.kube.create(kinds.pods, pod));
        }
        await ports.sleep(ports.choose("pause", (dice) => dice.between(500, 1_500)));
        await insist(ports, () => ports.kube.delete(at(jobs, "big"), { propagationPolicy: "Background" }));
      }),
      {
        name: "scheduler",
        run: (ports) => {
          const kube = delegateKube(ports.kube);
          const mistaken = isBuggy ? { ...ports, kube: { ...kube, get: ownersMayBeThere(ports.kube) } } : ports;
          return runControllers(mistaken, (controllers) => scheduler.add(controllers));
        },
      },
      controllersProcess("binder", (controllers) => binder.add(controllers)),
    ],
  }),
  serverLoops: true,
  collectMsMax: 8_000,
});

export const deletedJob: Exhibit = {
  number: 58,
  slug: "deleted-job",
  title: "A pending Job is deleted, and running pods are evicted for its remaining pods",
  source:
    "seen on Kubernetes 1.36 with a Job of 100 pods; kai-scheduler/KAI-Scheduler pkg/podgrouper handleGetOwnerError",
  invariant: "I16",
  story: `
  user           garbage collector            pod grouper               scheduler
  delete Job
                 delete its PodGroup (min 6)
                                              big-3 has no group
                                              Job: not found, so alone
                                              make the group (min 1)
                                                                        big-3 fits if train-0 goes
                                                                        evict train-0
                 delete big-3
  An owner that is gone takes its pods along: they are not grouped anew, and before anything is evicted for a pod
  its group and its owners are read once more.`,
  fixed: { name: "fixed", about: "the product's pod grouper and scheduler", scenario: play("fixed", false) },
  buggy: [
    {
      name: "owner-may-be-there",
      about: "an owner that is not found is treated as one that must not be read",
      scenario: play("owner-may-be-there", true),
      firstSeeds: 5,
      schedule: [{ key: "user|pause#1", value: 600 }],
    },
  ],
};
