import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { defaultSchedulerName } from "../../src/model/scheduling/keys.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, every, kinds, plain, pod, process } from "../../src/sim/sceneKit.ts";
import { scene } from "../exhibit.ts";

/**
 * The common scenario of races about placement: nodes with GPUs, pods that request them, and the product's own
 * scheduler and binder.
 */

export const gpuName = "nvidia.com/gpu";
export const scheduler: Component = schedulerComponent();
/** The kind of its requests is defined by the scheduler. */
export const binder: Component = { ...binderComponent(), definitions: [] };

export function nodeOf(object: KubeObject): string {
  return (object as unknown as Pod).spec?.nodeName ?? "";
}

export function gpusOf(object: KubeObject): number {
  return Number((object as unknown as Pod).spec?.containers[0]?.resources?.requests?.[gpuName] ?? "0");
}

export function capacityOf(object: KubeObject): number {
  return Number((object as unknown as Node).status?.allocatable?.[gpuName] ?? "0");
}

export interface GpuPodWords {
  readonly gpus?: number;
  readonly schedulerName?: string;
  readonly annotations?: Record<string, string>;
  readonly spec?: object;
}

export function gpuPod(name: string, words: GpuPodWords = {}): KubeObject {
  const { gpus = 1, schedulerName = defaultSchedulerName, annotations = {}, spec = {} } = words;
  const amounts = { [gpuName]: String(gpus) };
  const containers = [{ name: "main", image: "i", resources: { requests: amounts, limits: amounts } }];
  return pod(name, { annotations }, { schedulerName, containers, ...spec });
}

export async function makeNode(kube: KubeApi, name: string, gpus: number): Promise<void> {
  const amounts = { cpu: "8", memory: "16Gi", pods: "20", [gpuName]: String(gpus) };
  const status = { capacity: amounts, allocatable: amounts, conditions: [{ type: "Ready", status: "True" }] };
  const made = await kube.create(kinds.nodes, plain("v1", "Node", "", name));
  if (made.ok) await kube.update({ ...at(kinds.nodes, name), subresource: "status" }, { ...made.value, status });
}

/** Removes terminating pods, as a kubelet does. */
export function reaper(): ActorSpec {
  return process("kubelet", (ports: ActorPorts) =>
    every(ports, 60, async () => {
      const listed = await ports.kube.list(kinds.pods);
      for (const { metadata } of listed.ok ? listed.value.items : []) {
        if (metadata.deletionTimestamp === undefined) continue;
        await ports.kube.delete(at(kinds.pods, metadata.name), {
          gracePeriodSeconds: 0,
          preconditions: { uid: metadata.uid },
        });
      }
    }),
  );
}

/** A pod that is pending at rest while a node has enough free GPUs would be pending for ever. */
export const nothingIsLost = (id: string): Invariant => ({
  id,
  fact: "at rest no pod is pending while a node has enough free GPUs",
  begin: ({ store }) => ({
    atRest: () => {
      const pods = [...store.collection("/pods").all()].map((version) => version.object());
      for (const waiting of pods.filter((each) => nodeOf(each) === "")) {
        for (const version of store.collection("/nodes").all()) {
          const has = capacityOf(version.object());
          let used = 0;
          for (const each of pods) if (nodeOf(each) === version.name) used += gpusOf(each);
          if (has - used >= gpusOf(waiting)) {
            return `${waiting.metadata.name} waits, and ${version.name} gave out ${used} of ${has} GPUs`;
          }
        }
      }
      return undefined;
    },
  }),
});

/** A scene with the definitions of the scheduler. */
export function placementScene(options: Parameters<typeof scene>[0]): Scenario {
  const scenario = scene({ ignoredForQuiescence: ["/events"], ...options });
  return { ...scenario, components: [scheduler, binder] };
}
