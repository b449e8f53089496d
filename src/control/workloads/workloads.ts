import type { Component } from "../runtime/component.ts";
import { addCronJobs } from "./cronJobs.ts";
import { addDaemonSets } from "./daemonSets.ts";
import { addDeployments } from "./deployments.ts";
import { addJobs } from "./jobs.ts";
import { addNodeLives } from "./nodeLives.ts";
import { addPodClearing } from "./podClearing.ts";
import { addReplicaSets, addReplicationControllers } from "./replicaSets.ts";
import { addServiceEndpoints } from "./serviceEndpoints.ts";
import { addStatefulSets } from "./statefulSets.ts";
import { WorkloadCaches } from "./workloadCaches.ts";

/**
 * The controllers that a cluster has anyway. Those that the API server runs itself (budgets, clean-up, accounts) are
 * not here.
 */
export const workloads: Component = {
  name: "workloads",
  about: "Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, endpoints, and what becomes of silent nodes",
  isProvidedByCluster: true,
  add(controllers) {
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
    addNodeLives(controllers, caches, podsByNode);
    addPodClearing(controllers, caches, podsByNode);
  },
};
