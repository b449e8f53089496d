/** The strategy of each kind. Kinds that are not listed have the plain one. */
import type { Strategy } from "../strategy.ts";
import {
  mutatingPolicyBindingStrategy,
  mutatingPolicyStrategy,
  validatingPolicyBindingStrategy,
  validatingPolicyStrategy,
} from "./admission/admissionPolicy.ts";
import { mutatingWebhookStrategy, validatingWebhookStrategy } from "./admission/webhookConfiguration.ts";
import { certificateSigningRequestStrategy } from "./certificateSigningRequest.ts";
import { configMapStrategy } from "./configMap.ts";
import { deviceClassStrategy, deviceTaintRuleStrategy } from "./devices/deviceClass.ts";
import { resourceClaimStrategy, resourceClaimTemplateStrategy } from "./devices/resourceClaim.ts";
import { resourceSliceStrategy } from "./devices/resourceSlice.ts";
import { eventStrategy } from "./event.ts";
import { leaseStrategy } from "./lease.ts";
import { namespaceStrategy } from "./namespace.ts";
import { endpointSliceStrategy, endpointsStrategy } from "./network/endpoints.ts";
import { ingressClassStrategy, ingressStrategy } from "./network/ingress.ts";
import { networkPolicyStrategy } from "./network/networkPolicy.ts";
import { serviceStrategy } from "./network/service.ts";
import { ipAddressStrategy, serviceCidrStrategy } from "./network/serviceCidr.ts";
import { nodeStrategy } from "./node.ts";
import { podGroupStrategy, workloadStrategy } from "./podGroup.ts";
import { podStrategy } from "./pods/podStrategy.ts";
import { limitRangeStrategy } from "./policy/limitRange.ts";
import { podDisruptionBudgetStrategy } from "./policy/podDisruptionBudget.ts";
import { resourceQuotaStrategy } from "./policy/resourceQuota.ts";
import { priorityClassStrategy } from "./priorityClass.ts";
import { runtimeClassStrategy } from "./runtimeClass.ts";
import { secretStrategy } from "./secret.ts";
import { controllerRevisionStrategy, podTemplateStrategy, serviceAccountStrategy } from "./simpleKinds.ts";
import { persistentVolumeStrategy } from "./storage/persistentVolume.ts";
import { persistentVolumeClaimStrategy } from "./storage/persistentVolumeClaim.ts";
import {
  csiDriverStrategy,
  csiNodeStrategy,
  csiStorageCapacityStrategy,
  storageClassStrategy,
  volumeAttachmentStrategy,
  volumeAttributesClassStrategy,
} from "./storage/storageKinds.ts";
import { cronJobStrategy } from "./workloads/cronJob.ts";
import { daemonSetStrategy } from "./workloads/daemonSet.ts";
import { deploymentStrategy } from "./workloads/deployment.ts";
import { horizontalPodAutoscalerStrategy } from "./workloads/horizontalPodAutoscaler.ts";
import { jobStrategy } from "./workloads/job.ts";
import { replicaSetStrategy, replicationControllerStrategy } from "./workloads/replicaSet.ts";
import { statefulSetStrategy } from "./workloads/statefulSet.ts";

const strategies = new Map<string, Strategy>([
  ["/configmaps", configMapStrategy],
  ["/endpoints", endpointsStrategy],
  ["/events", eventStrategy],
  ["/limitranges", limitRangeStrategy],
  ["/namespaces", namespaceStrategy],
  ["/nodes", nodeStrategy],
  ["/persistentvolumeclaims", persistentVolumeClaimStrategy],
  ["/persistentvolumes", persistentVolumeStrategy],
  ["/pods", podStrategy],
  ["/podtemplates", podTemplateStrategy],
  ["/replicationcontrollers", replicationControllerStrategy],
  ["/resourcequotas", resourceQuotaStrategy],
  ["/secrets", secretStrategy],
  ["/serviceaccounts", serviceAccountStrategy],
  ["/services", serviceStrategy],
  ["admissionregistration.k8s.io/mutatingadmissionpolicies", mutatingPolicyStrategy],
  ["admissionregistration.k8s.io/mutatingadmissionpolicybindings", mutatingPolicyBindingStrategy],
  ["admissionregistration.k8s.io/mutatingwebhookconfigurations", mutatingWebhookStrategy],
  ["admissionregistration.k8s.io/validatingadmissionpolicies", validatingPolicyStrategy],
  ["admissionregistration.k8s.io/validatingadmissionpolicybindings", validatingPolicyBindingStrategy],
  ["admissionregistration.k8s.io/validatingwebhookconfigurations", validatingWebhookStrategy],
  ["apps/controllerrevisions", controllerRevisionStrategy],
  ["apps/daemonsets", daemonSetStrategy],
  ["apps/deployments", deploymentStrategy],
  ["apps/replicasets", replicaSetStrategy],
  ["apps/statefulsets", statefulSetStrategy],
  ["autoscaling/horizontalpodautoscalers", horizontalPodAutoscalerStrategy],
  ["batch/cronjobs", cronJobStrategy],
  ["batch/jobs", jobStrategy],
  ["certificates.k8s.io/certificatesigningrequests", certificateSigningRequestStrategy],
  ["coordination.k8s.io/leases", leaseStrategy],
  ["discovery.k8s.io/endpointslices", endpointSliceStrategy],
  ["networking.k8s.io/ingressclasses", ingressClassStrategy],
  ["networking.k8s.io/ingresses", ingressStrategy],
  ["networking.k8s.io/ipaddresses", ipAddressStrategy],
  ["networking.k8s.io/networkpolicies", networkPolicyStrategy],
  ["networking.k8s.io/servicecidrs", serviceCidrStrategy],
  ["node.k8s.io/runtimeclasses", runtimeClassStrategy],
  ["policy/poddisruptionbudgets", podDisruptionBudgetStrategy],
  ["resource.k8s.io/deviceclasses", deviceClassStrategy],
  ["resource.k8s.io/devicetaintrules", deviceTaintRuleStrategy],
  ["resource.k8s.io/resourceclaims", resourceClaimStrategy],
  ["resource.k8s.io/resourceclaimtemplates", resourceClaimTemplateStrategy],
  ["resource.k8s.io/resourceslices", resourceSliceStrategy],
  ["scheduling.k8s.io/podgroups", podGroupStrategy],
  ["scheduling.k8s.io/priorityclasses", priorityClassStrategy],
  ["scheduling.k8s.io/workloads", workloadStrategy],
  ["storage.k8s.io/csidrivers", csiDriverStrategy],
  ["storage.k8s.io/csinodes", csiNodeStrategy],
  ["storage.k8s.io/csistoragecapacities", csiStorageCapacityStrategy],
  ["storage.k8s.io/storageclasses", storageClassStrategy],
  ["storage.k8s.io/volumeattachments", volumeAttachmentStrategy],
  ["storage.k8s.io/volumeattributesclasses", volumeAttributesClassStrategy],
]);

const plainStrategy: Strategy = { generation: "none" };

/** `storageKey` is group and plural: `/pods`, `apps/deployments`. */
export function strategyFor(storageKey: string): Strategy {
  return strategies.get(storageKey) ?? plainStrategy;
}
