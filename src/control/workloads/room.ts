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
import type { Controllers } from "../controllers.ts";
import { EventRecorder } from "../eventRecorder.ts";
import type { Source } from "../sources.ts";
import { Desk } from "./desk.ts";
import { Following } from "./following.ts";
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

/** What the cluster's own controllers share: one desk, and each kind followed once. */
export class Room {
  readonly desk: Desk;
  readonly pods: Following<Pod>;
  readonly nodes: Following<Node>;
  readonly deployments: Following<Deployment>;
  readonly replicaSets: Following<ReplicaSet>;
  readonly statefulSets: Following<StatefulSet>;
  readonly daemonSets: Following<DaemonSet>;
  readonly revisions: Following<ControllerRevision>;
  readonly jobs: Following<Job>;
  readonly cronJobs: Following<CronJob>;
  readonly volumeClaims: Following<PersistentVolumeClaim>;
  readonly services: Following<Service>;
  readonly slices: Following<EndpointSlice>;
  readonly endpoints: Following<Endpoints>;
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
    const desk = new Desk(controllers, kinds);
    this.desk = desk;
    this.pods = new Following(desk, podKind);
    this.nodes = new Following(desk, nodeKind);
    this.deployments = new Following(desk, deploymentKind);
    this.replicaSets = new Following(desk, replicaSetKind);
    this.statefulSets = new Following(desk, statefulSetKind);
    this.daemonSets = new Following(desk, daemonSetKind);
    this.revisions = new Following(desk, controllerRevisionKind);
    this.jobs = new Following(desk, jobKind);
    this.cronJobs = new Following(desk, cronJobKind);
    this.volumeClaims = new Following(desk, volumeClaimKind);
    this.services = new Following(desk, serviceKind);
    this.slices = new Following(desk, endpointSliceKind);
    this.endpoints = new Following(desk, endpointsKind);
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
