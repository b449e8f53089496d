import type { Component } from "../runtime/component.ts";
import { addCronJobs } from "./cronJobs.ts";
import { addDaemonSets } from "./daemonSets.ts";
import { addDeployments } from "./deployments.ts";
import { addEphemeralVolumes } from "./ephemeralVolumes.ts";
import { addJobs } from "./jobs.ts";
import { addNodeLifecycle, type NodeLifecycleTimes } from "./nodeLifecycle.ts";
import { addPodGc } from "./podGc.ts";
import { addReplicaSets, addReplicationControllers } from "./replicaSets.ts";
import { addServiceEndpoints } from "./serviceEndpoints.ts";
import { addStatefulSets } from "./statefulSets.ts";
import { addVolumes } from "./volumes.ts";
import { WorkloadCaches } from "./workloadCaches.ts";

export interface WorkloadsOptions {
  /** When a silent node is not Ready any more, and its pods are evicted. */
  readonly nodeLifecycle?: NodeLifecycleTimes;
}

/**
 * The controllers of kube-controller-manager that workloads need. Those that the API server runs itself (disruption
 * budgets, garbage collection, service accounts) are not here.
 */
export function workloadsComponent({ nodeLifecycle }: WorkloadsOptions = {}): Component {
  return {
    name: "workloads",
    about:
      "Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, endpoints, node lifecycle, pod garbage collection and volumes",
    isProvidedByCluster: true,
    add: (controllers) => {
      const caches = new WorkloadCaches(controllers);
      const podsByNode = caches.pods.cache.index((object) => {
        const { nodeName = "" } = object.spec ?? {};
        return nodeName === "" ? [] : [nodeName];
      });
      addDeployments(controllers, caches);
      addReplicaSets(controllers, caches);
      addReplicationControllers(controllers, caches);
      addStatefulSets(controllers, caches);
      addDaemonSets(controllers, caches);
      addJobs(controllers, caches);
      addCronJobs(controllers, caches);
      addServiceEndpoints(controllers, caches, podsByNode);
      addNodeLifecycle(controllers, caches, podsByNode, nodeLifecycle);
      addPodGc(controllers, caches, podsByNode);
      addVolumes(controllers, caches);
      addEphemeralVolumes(controllers, caches);
    },
  };
}

export const workloads: Component = workloadsComponent();
