import type { ResourceRef } from "../../ports/kubeApi.ts";

/** The kinds that the cluster's own controllers follow. */
export const podKind: ResourceRef = { group: "", version: "v1", plural: "pods" };
export const nodeKind: ResourceRef = { group: "", version: "v1", plural: "nodes" };
export const serviceKind: ResourceRef = { group: "", version: "v1", plural: "services" };
export const endpointsKind: ResourceRef = { group: "", version: "v1", plural: "endpoints" };
export const volumeClaimKind: ResourceRef = { group: "", version: "v1", plural: "persistentvolumeclaims" };
export const deploymentKind: ResourceRef = { group: "apps", version: "v1", plural: "deployments" };
export const replicaSetKind: ResourceRef = { group: "apps", version: "v1", plural: "replicasets" };
export const statefulSetKind: ResourceRef = { group: "apps", version: "v1", plural: "statefulsets" };
export const daemonSetKind: ResourceRef = { group: "apps", version: "v1", plural: "daemonsets" };
export const controllerRevisionKind: ResourceRef = { group: "apps", version: "v1", plural: "controllerrevisions" };
export const jobKind: ResourceRef = { group: "batch", version: "v1", plural: "jobs" };
export const cronJobKind: ResourceRef = { group: "batch", version: "v1", plural: "cronjobs" };
export const endpointSliceKind: ResourceRef = { group: "discovery.k8s.io", version: "v1", plural: "endpointslices" };
export const leaseKind: ResourceRef = { group: "coordination.k8s.io", version: "v1", plural: "leases" };
