import type {
  ControllerRevision,
  CronJob,
  DaemonSet,
  Deployment,
  EndpointSlice,
  Endpoints,
  Job,
  Node,
  PersistentVolumeClaim,
  Pod,
  ReplicaSet,
  ReplicationController,
  Service,
  StatefulSet,
} from "../../model/kubernetes.generated.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import type { Source } from "../runtime/sources.ts";
import { InFlightWrites } from "./inFlightWrites.ts";
import {
  controllerRevisionKind,
  cronJobKind,
  daemonSetKind,
  deploymentKind,
  endpointSliceKind,
  endpointsKind,
  jobKind,
  nodeKind,
  podKind,
  replicaSetKind,
  replicationControllerKind,
  serviceKind,
  statefulSetKind,
  volumeClaimKind,
} from "./kinds.ts";
import { OwnedObjects } from "./ownedObjects.ts";
import { UsedNames } from "./usedNames.ts";

/** What the cluster's own controllers share: in-flight writes, and one cache per kind. */
export class WorkloadCaches {
  readonly inFlight: InFlightWrites;
  readonly pods: OwnedObjects<Pod>;
  readonly podNames: UsedNames<Pod>;
  readonly nodes: OwnedObjects<Node>;
  readonly deployments: OwnedObjects<Deployment>;
  readonly replicaSets: OwnedObjects<ReplicaSet>;
  readonly replicationControllers: OwnedObjects<ReplicationController>;
  readonly statefulSets: OwnedObjects<StatefulSet>;
  readonly daemonSets: OwnedObjects<DaemonSet>;
  readonly revisions: OwnedObjects<ControllerRevision>;
  readonly jobs: OwnedObjects<Job>;
  readonly cronJobs: OwnedObjects<CronJob>;
  readonly volumeClaims: OwnedObjects<PersistentVolumeClaim>;
  readonly services: OwnedObjects<Service>;
  readonly slices: OwnedObjects<EndpointSlice>;
  readonly endpoints: OwnedObjects<Endpoints>;
  private readonly controllers: Controllers;
  private readonly recorders: EventRecorder[] = [];

  constructor(controllers: Controllers) {
    this.controllers = controllers;
    const kinds = [
      podKind,
      nodeKind,
      deploymentKind,
      replicaSetKind,
      replicationControllerKind,
      statefulSetKind,
      daemonSetKind,
      controllerRevisionKind,
      jobKind,
      cronJobKind,
      volumeClaimKind,
      serviceKind,
      endpointSliceKind,
      endpointsKind,
    ];
    const inFlight = new InFlightWrites(controllers, kinds);
    this.inFlight = inFlight;
    this.pods = new OwnedObjects(inFlight, podKind);
    this.podNames = new UsedNames(this.pods.cache);
    this.nodes = new OwnedObjects(inFlight, nodeKind);
    this.deployments = new OwnedObjects(inFlight, deploymentKind);
    this.replicaSets = new OwnedObjects(inFlight, replicaSetKind);
    this.replicationControllers = new OwnedObjects(inFlight, replicationControllerKind);
    this.statefulSets = new OwnedObjects(inFlight, statefulSetKind);
    this.daemonSets = new OwnedObjects(inFlight, daemonSetKind);
    this.revisions = new OwnedObjects(inFlight, controllerRevisionKind);
    this.jobs = new OwnedObjects(inFlight, jobKind);
    this.cronJobs = new OwnedObjects(inFlight, cronJobKind);
    this.volumeClaims = new OwnedObjects(inFlight, volumeClaimKind);
    this.services = new OwnedObjects(inFlight, serviceKind);
    this.slices = new OwnedObjects(inFlight, endpointSliceKind);
    this.endpoints = new OwnedObjects(inFlight, endpointsKind);
  }

  /** Events in the name of a controller. */
  recorder(controller: string): EventRecorder {
    const recorder = new EventRecorder({ ...this.controllers.ports, controller, instance: controller });
    this.recorders.push(recorder);
    return recorder;
  }

  /** Brings no keys; ends the recorders when everything stops. */
  readonly recordersEnd: Source = {
    start: () => () => {
      for (const recorder of this.recorders) recorder.stop();
    },
  };
}
