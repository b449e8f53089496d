/** The table of each kind, for requests with `as=Table`. */
import {
  certificateSigningRequestTable,
  mutatingPolicyTable,
  policyBindingTable,
  roleBindingTable,
  validatingPolicyTable,
  webhookConfigurationTable,
} from "./access.ts";
import { configMapTable, resourceQuotaTable, secretTable } from "./configuration.ts";
import { deviceTaintRuleTable, resourceClaimTable, resourceSliceTable } from "./devices.ts";
import { eventTable } from "./eventRows.ts";
import { cronJobTable, jobTable } from "./jobs.ts";
import { namespaceTable, nodeTable } from "./nodes.ts";
import { agedTable, datedTable } from "./plain.ts";
import { podTable } from "./pods.ts";
import { horizontalPodAutoscalerTable, podDisruptionBudgetTable } from "./scaling.ts";
import { leaseTable, podGroupTable, priorityClassTable, runtimeClassTable } from "./scheduling.ts";
import {
  endpointSliceTable,
  endpointsTable,
  ingressClassTable,
  ingressTable,
  ipAddressTable,
  networkPolicyTable,
  serviceCidrTable,
  serviceTable,
} from "./services.ts";
import type { TableKind } from "./tableKind.ts";
import {
  csiDriverTable,
  csiNodeTable,
  csiStorageCapacityTable,
  persistentVolumeClaimTable,
  persistentVolumeTable,
  storageClassTable,
  volumeAttachmentTable,
  volumeAttributesClassTable,
} from "./volumes.ts";
import {
  controllerRevisionTable,
  daemonSetTable,
  deploymentTable,
  podTemplateTable,
  replicaSetTable,
  replicationControllerTable,
  statefulSetTable,
} from "./workloads.ts";

export type { Cell, ColumnDefinition, RowCondition, TableKind } from "./tableKind.ts";

const tables: ReadonlyMap<string, TableKind> = new Map([
  ["/pods", podTable],
  ["/nodes", nodeTable],
  ["/namespaces", namespaceTable],
  ["/services", serviceTable],
  ["/endpoints", endpointsTable],
  ["/configmaps", configMapTable],
  ["/secrets", secretTable],
  ["/serviceaccounts", agedTable],
  ["/events", eventTable],
  ["/persistentvolumes", persistentVolumeTable],
  ["/persistentvolumeclaims", persistentVolumeClaimTable],
  ["/resourcequotas", resourceQuotaTable],
  ["/replicationcontrollers", replicationControllerTable],
  ["/podtemplates", podTemplateTable],
  ["apps/deployments", deploymentTable],
  ["apps/replicasets", replicaSetTable],
  ["apps/statefulsets", statefulSetTable],
  ["apps/daemonsets", daemonSetTable],
  ["apps/controllerrevisions", controllerRevisionTable],
  ["batch/jobs", jobTable],
  ["batch/cronjobs", cronJobTable],
  ["policy/poddisruptionbudgets", podDisruptionBudgetTable],
  ["autoscaling/horizontalpodautoscalers", horizontalPodAutoscalerTable],
  ["scheduling.k8s.io/priorityclasses", priorityClassTable],
  ["scheduling.k8s.io/workloads", agedTable],
  ["scheduling.k8s.io/podgroups", podGroupTable],
  ["coordination.k8s.io/leases", leaseTable],
  ["resource.k8s.io/resourceclaims", resourceClaimTable],
  ["resource.k8s.io/resourceclaimtemplates", agedTable],
  ["resource.k8s.io/deviceclasses", agedTable],
  ["resource.k8s.io/resourceslices", resourceSliceTable],
  ["resource.k8s.io/devicetaintrules", deviceTaintRuleTable],
  ["rbac.authorization.k8s.io/rolebindings", roleBindingTable],
  ["rbac.authorization.k8s.io/clusterrolebindings", roleBindingTable],
  ["storage.k8s.io/storageclasses", storageClassTable],
  ["storage.k8s.io/csinodes", csiNodeTable],
  ["storage.k8s.io/csidrivers", csiDriverTable],
  ["storage.k8s.io/csistoragecapacities", csiStorageCapacityTable],
  ["storage.k8s.io/volumeattachments", volumeAttachmentTable],
  ["storage.k8s.io/volumeattributesclasses", volumeAttributesClassTable],
  ["admissionregistration.k8s.io/mutatingwebhookconfigurations", webhookConfigurationTable],
  ["admissionregistration.k8s.io/validatingwebhookconfigurations", webhookConfigurationTable],
  ["admissionregistration.k8s.io/validatingadmissionpolicies", validatingPolicyTable],
  ["admissionregistration.k8s.io/validatingadmissionpolicybindings", policyBindingTable],
  ["admissionregistration.k8s.io/mutatingadmissionpolicies", mutatingPolicyTable],
  ["admissionregistration.k8s.io/mutatingadmissionpolicybindings", policyBindingTable],
  ["certificates.k8s.io/certificatesigningrequests", certificateSigningRequestTable],
  ["node.k8s.io/runtimeclasses", runtimeClassTable],
  ["discovery.k8s.io/endpointslices", endpointSliceTable],
  ["networking.k8s.io/ingresses", ingressTable],
  ["networking.k8s.io/ingressclasses", ingressClassTable],
  ["networking.k8s.io/networkpolicies", networkPolicyTable],
  ["networking.k8s.io/ipaddresses", ipAddressTable],
  ["networking.k8s.io/servicecidrs", serviceCidrTable],
]);

/** By group and plural of the stored form: `/pods`, `apps/deployments`. */
export function tableFor(storageKey: string): TableKind {
  return tables.get(storageKey) ?? datedTable;
}
