/** A cluster in the middle of a roll-out: pods are created, bound and started. */
import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { runControllers } from "../controllersProcess.ts";
import { at, every, kinds, person, plain, pod, process } from "../sceneKit.ts";
import { refuseTooLarge } from "./tooLargePods.ts";

export interface Rollout {
  readonly pods: number;
  /** Pause between two pods. */
  readonly everyMs: number;
  /** The interval of the scheduler and the nodes. */
  readonly paceMs: number;
}

export function busyCluster({ pods, everyMs, paceMs }: Rollout): ActorSpec[] {
  return [
    person("owner", async (ports) => {
      for (let index = 0; index < pods; index++) {
        // A create with unknown outcome is sent again: if it took effect, the name is taken.
        for (;;) {
          const made = await ports.kube.create(kinds.pods, pod(podName(index)));
          if (made.ok || made.reason === "AlreadyExists") break;
          await ports.sleep(20);
        }
        await ports.sleep(everyMs + (ports.random.uint32() % everyMs));
      }
    }),
    process("scheduler", async (ports) => {
      const { pods: cache, following } = followPods(ports);
      const bindAll = async (): Promise<void> => {
        for (const [, found] of cache.view().objects) {
          if (nodeOf(found) !== "") continue;
          if (await refuseTooLarge(ports, found)) continue;
          const { uid, resourceVersion, name } = found.metadata;
          await ports.kube.bind(at(kinds.pods, name), { node: "n1", uid, resourceVersion });
        }
      };
      await Promise.all([following, every(ports, paceMs, bindAll)]);
    }),
    process("kubelet", async (ports) => {
      const { pods: cache, following } = followPods(ports);
      const startAll = async (): Promise<void> => {
        for (const [, found] of cache.view().objects) {
          if (nodeOf(found) === "" || phaseOf(found) !== "Pending") continue;
          const running = { ...found, status: { ...(found["status"] as object), phase: "Running" } };
          await ports.kube.update({ ...at(kinds.pods, found.metadata.name), subresource: "status" }, running);
        }
      };
      await Promise.all([following, every(ports, paceMs, startAll)]);
    }),
  ];
}

/** A cache of all pods, which a watch updates until the process is stopped. */
function followPods(ports: ActorPorts): { pods: ObjectCache; following: Promise<void> } {
  let pods: ObjectCache | undefined;
  const following = runControllers(ports, (controllers) => {
    pods = controllers.cache(kinds.pods);
  });
  return { pods: pods as ObjectCache, following };
}

/** The node that everything runs on. */
export function busyNode(): KubeObject {
  const allocatable = { cpu: "64", memory: "256Gi", pods: "1000" };
  const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady" }];
  return plain("v1", "Node", "", "n1", { status: { capacity: allocatable, allocatable, conditions } });
}

function podName(index: number): string {
  return `p${String(index).padStart(4, "0")}`;
}

function nodeOf(found: KubeObject): string {
  return (found["spec"] as { nodeName?: string }).nodeName ?? "";
}

function phaseOf(found: KubeObject): string {
  return (found["status"] as { phase?: string } | undefined)?.phase ?? "Pending";
}
