/**
 * Nodes that stop reporting. Their kubelet renews no lease and does nothing; the cluster's own controllers mark the
 * node unreachable, taint it and evict its pods, with times that fit the length of the scenario.
 */
import type { Controllers } from "../../control/runtime/controllers.ts";
import { addNodeLifecycle, type NodeLifecycleTimes } from "../../control/workloads/nodeLifecycle.ts";
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
const times: NodeLifecycleTimes = { graceMs: 3_000, startupGraceMs: 3_000, tickMs: 500 };
/** How long pods tolerate a node that is not ready. */
export const tolerationSeconds = 1;

/** The nodes that are partitioned from the API in one run. */
export class Machines {
  private readonly partitioned = new Set<string>();

  silence(name: string): void {
    this.partitioned.add(name);
  }

  restore(name: string): void {
    this.partitioned.delete(name);
  }

  isSilent = (name: string): boolean => this.partitioned.has(name);
}

/** The scheduler, the kubelets and the node lifecycle controller. */
export const addCluster =
  (machines: Machines) =>
  (controllers: Controllers): void => {
    tinyScheduler(controllers);
    tinyKubelet(controllers, undefined, machines.isSilent);
    const caches = new WorkloadCaches(controllers);
    const podsByNode = caches.pods.cache.index((object) => {
      const { nodeName = "" } = object.spec ?? {};
      return nodeName === "" ? [] : [nodeName];
    });
    addNodeLifecycle(controllers, caches, podsByNode, times);
  };

/** Kubelets that are not partitioned renew their leases, and set Ready where it is not True. */
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

/** Registers a node, or sets its Ready condition. */
export async function register(kube: KubeApi, name: string, nowMs: number): Promise<void> {
  const caches = { cpu: "8", memory: "64Gi", pods: "24" };
  const now = formatTime(nowMs);
  const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "" };
  const conditions = [{ ...ready, lastHeartbeatTime: now, lastTransitionTime: now }];
  const status = { allocatable: caches, capacity: caches, conditions };
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
