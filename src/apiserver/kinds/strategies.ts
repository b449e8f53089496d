/** Which kind has which strategy. Kinds that are not listed have nothing special about them. */
import type { Strategy } from "../strategy.ts";
import { configMapStrategy } from "./configMap.ts";
import { deviceClassStrategy, deviceTaintRuleStrategy } from "./devices/deviceClass.ts";
import { resourceClaimStrategy, resourceClaimTemplateStrategy } from "./devices/resourceClaim.ts";
import { resourceSliceStrategy } from "./devices/resourceSlice.ts";
import { eventStrategy } from "./event.ts";
import { leaseStrategy } from "./lease.ts";
import { namespaceStrategy } from "./namespace.ts";
import { nodeStrategy } from "./node.ts";
import { persistentVolumeClaimStrategy } from "./persistentVolumeClaim.ts";
import { podDisruptionBudgetStrategy } from "./podDisruptionBudget.ts";
import { podGroupStrategy, workloadStrategy } from "./podGroup.ts";
import { podStrategy } from "./pods/podStrategy.ts";
import { priorityClassStrategy } from "./priorityClass.ts";
import { secretStrategy } from "./secret.ts";
import { serviceStrategy } from "./service.ts";
import { controllerRevisionStrategy, podTemplateStrategy, serviceAccountStrategy } from "./simpleKinds.ts";
import { cronJobStrategy } from "./workloads/cronJob.ts";
import { daemonSetStrategy } from "./workloads/daemonSet.ts";
import { deploymentStrategy } from "./workloads/deployment.ts";
import { jobStrategy } from "./workloads/job.ts";
import { replicaSetStrategy, replicationControllerStrategy } from "./workloads/replicaSet.ts";
import { statefulSetStrategy } from "./workloads/statefulSet.ts";

const strategies = new Map<string, Strategy>([
  ["/configmaps", configMapStrategy],
  ["/events", eventStrategy],
  ["/namespaces", namespaceStrategy],
  ["/nodes", nodeStrategy],
  ["/persistentvolumeclaims", persistentVolumeClaimStrategy],
  ["/pods", podStrategy],
  ["/podtemplates", podTemplateStrategy],
  ["/replicationcontrollers", replicationControllerStrategy],
  ["/secrets", secretStrategy],
  ["/serviceaccounts", serviceAccountStrategy],
  ["/services", serviceStrategy],
  ["apps/controllerrevisions", controllerRevisionStrategy],
  ["apps/daemonsets", daemonSetStrategy],
  ["apps/deployments", deploymentStrategy],
  ["apps/replicasets", replicaSetStrategy],
  ["apps/statefulsets", statefulSetStrategy],
  ["batch/cronjobs", cronJobStrategy],
  ["batch/jobs", jobStrategy],
  ["coordination.k8s.io/leases", leaseStrategy],
  ["policy/poddisruptionbudgets", podDisruptionBudgetStrategy],
  ["resource.k8s.io/deviceclasses", deviceClassStrategy],
  ["resource.k8s.io/devicetaintrules", deviceTaintRuleStrategy],
  ["resource.k8s.io/resourceclaims", resourceClaimStrategy],
  ["resource.k8s.io/resourceclaimtemplates", resourceClaimTemplateStrategy],
  ["resource.k8s.io/resourceslices", resourceSliceStrategy],
  ["scheduling.k8s.io/podgroups", podGroupStrategy],
  ["scheduling.k8s.io/priorityclasses", priorityClassStrategy],
  ["scheduling.k8s.io/workloads", workloadStrategy],
]);

const plainStrategy: Strategy = { generation: "none" };

/** `storageKey` is group and plural: `/pods`, `apps/deployments`. */
export function strategyFor(storageKey: string): Strategy {
  return strategies.get(storageKey) ?? plainStrategy;
}
