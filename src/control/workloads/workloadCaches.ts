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
  serviceKind,
  statefulSetKind,
  volumeClaimKind,
} from "./kinds.ts";
import { OwnedObjects } from "./ownedObjects.ts";

/** What the cluster's own controllers share: in-flight writes, and one cache per kind. */
export class WorkloadCaches {
  readonly desk: InFlightWrites;
  readonly pods: OwnedObjects<Pod>;
  readonly nodes: OwnedObjects<Node>;
  readonly deployments: OwnedObjects<Deployment>;
  readonly replicaSets: OwnedObjects<ReplicaSet>;
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
    const desk = new InFlightWrites(controllers, kinds);
    this.desk = desk;
    this.pods = new OwnedObjects(desk, podKind);
    this.nodes = new OwnedObjects(desk, nodeKind);
    this.deployments = new OwnedObjects(desk, deploymentKind);
    this.replicaSets = new OwnedObjects(desk, replicaSetKind);
    this.statefulSets = new OwnedObjects(desk, statefulSetKind);
    this.daemonSets = new OwnedObjects(desk, daemonSetKind);
    this.revisions = new OwnedObjects(desk, controllerRevisionKind);
    this.jobs = new OwnedObjects(desk, jobKind);
    this.cronJobs = new OwnedObjects(desk, cronJobKind);
    this.volumeClaims = new OwnedObjects(desk, volumeClaimKind);
    this.services = new OwnedObjects(desk, serviceKind);
    this.slices = new OwnedObjects(desk, endpointSliceKind);
    this.endpoints = new OwnedObjects(desk, endpointsKind);
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
