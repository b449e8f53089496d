import { builtin } from "../../model/resources.generated.ts";

/** The kinds that the workload controllers watch. */
export const podKind = builtin.Pod;
export const nodeKind = builtin.Node;
export const serviceKind = builtin.Service;
export const endpointsKind = builtin.Endpoints;
export const volumeClaimKind = builtin.PersistentVolumeClaim;
export const volumeKind = builtin.PersistentVolume;
export const storageClassKind = builtin.StorageClass;
export const deploymentKind = builtin.Deployment;
export const replicaSetKind = builtin.ReplicaSet;
export const replicationControllerKind = builtin.ReplicationController;
export const statefulSetKind = builtin.StatefulSet;
export const daemonSetKind = builtin.DaemonSet;
export const controllerRevisionKind = builtin.ControllerRevision;
export const jobKind = builtin.Job;
export const cronJobKind = builtin.CronJob;
export const endpointSliceKind = builtin.EndpointSlice;
export const leaseKind = builtin.Lease;
