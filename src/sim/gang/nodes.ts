/**
 * Nodes that fail as nodes fail. A silent kubelet renews no lease and does nothing; its node is marked unreachable and
 * tainted, and its pods are evicted, by the cluster's own controllers, with times that are as short as the scenario.
 */
import type { Controllers } from "../../control/runtime/controllers.ts";
import { addNodeLives, type NodeLivesTimes } from "../../control/workloads/nodeLives.ts";
import { WorkloadCaches } from "../../control/workloads/workloadCaches.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorSpec } from "../actor.ts";
import { beat } from "../workloads/cast.ts";
import { tinyKubelet } from "../workloads/tinyKubelet.ts";
import { tinyScheduler } from "../workloads/tinyScheduler.ts";

export const nodes = builtin.Node;
export const nodeNames = ["n0", "n1", "n2"];

const beatMs = 1_000;
const times: NodeLivesTimes = { graceMs: 3_000, startupGraceMs: 3_000, tickMs: 500 };
/** How long a pod suffers a node that is not ready. */
export const tolerationSeconds = 1;

/** Which machines are cut off. It belongs to one run. */
export class Machines {
  private readonly silent = new Set<string>();

  silence(name: string): void {
    this.silent.add(name);
  }

  restore(name: string): void {
    this.silent.delete(name);
  }

  isSilent = (name: string): boolean => this.silent.has(name);
}

/** What places pods, what runs them, and what gives silent nodes up. */
export const addCluster =
  (machines: Machines) =>
  (controllers: Controllers): void => {
    tinyScheduler(controllers);
    tinyKubelet(controllers, undefined, machines.isSilent);
    const room = new WorkloadCaches(controllers);
    const podsByNode = room.pods.cache.index((object) => {
      const { nodeName = "" } = object.spec ?? {};
      return nodeName === "" ? [] : [nodeName];
    });
    addNodeLives(controllers, room, podsByNode, times);
  };

/** The kubelets that are not cut off renew their leases, and say that they are ready where that is in doubt. */
export const heart = (machines: Machines): ActorSpec => ({
  name: "heart",
  isExemptFromFaults: true,
  run: async ({ kube, clock, cancel, sleep }) => {
    while (!cancel.cancelled) {
      for (const name of nodeNames) {
        if (machines.isSilent(name)) continue;
        await beat(kube, name, clock.nowMs());
        if (!machines.isSilent(name)) await register(kube, name, clock.nowMs());
      }
      await sleep(beatMs);
    }
  },
});

/** A node enters the cluster, or says that it is well. */
export async function register(kube: KubeApi, name: string, nowMs: number): Promise<void> {
  const room = { cpu: "8", memory: "64Gi", pods: "24" };
  const now = formatTime(nowMs);
  const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "" };
  const conditions = [{ ...ready, lastHeartbeatTime: now, lastTransitionTime: now }];
  const status = { allocatable: room, capacity: room, conditions };
  const node: Unstored = { apiVersion: "v1", kind: "Node", metadata: { name }, status };
  const found = await kube.get({ ...nodes, namespace: "", name });
  if (!found.ok && found.reason !== "NotFound") return;
  const there = found.ok ? found : await kube.create(nodes, node);
  if (!there.ok || readyOf(there.value) === "True") return;
  await kube.update({ ...nodes, namespace: "", name, subresource: "status" }, { ...there.value, status });
}

export function readyOf(object: Node | undefined): string | undefined {
  return object?.status?.conditions?.find(({ type }) => type === "Ready")?.status;
}
