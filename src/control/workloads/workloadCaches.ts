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
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { firstRevision, isLater, type Revision } from "../../model/revision.ts";
import { assumeCacheOf } from "../runtime/assumeCacheOf.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { InFlightWrites } from "../runtime/inFlightWrites.ts";
import type { Source } from "../runtime/sources.ts";
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

/** Shared by the workload controllers: in-flight writes, and one cache per kind. */
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
    const caches = kinds.map((kind) => controllers.cache<KubeObject>(kind));
    this.inFlight = new InFlightWrites(controllers, assumeCacheOf(caches));
    this.pods = new OwnedObjects(controllers, podKind);
    this.podNames = new UsedNames(this.pods.cache);
    this.nodes = new OwnedObjects(controllers, nodeKind);
    this.deployments = new OwnedObjects(controllers, deploymentKind);
    this.replicaSets = new OwnedObjects(controllers, replicaSetKind);
    this.replicationControllers = new OwnedObjects(controllers, replicationControllerKind);
    this.statefulSets = new OwnedObjects(controllers, statefulSetKind);
    this.daemonSets = new OwnedObjects(controllers, daemonSetKind);
    this.revisions = new OwnedObjects(controllers, controllerRevisionKind);
    this.jobs = new OwnedObjects(controllers, jobKind);
    this.cronJobs = new OwnedObjects(controllers, cronJobKind);
    this.volumeClaims = new OwnedObjects(controllers, volumeClaimKind);
    this.services = new OwnedObjects(controllers, serviceKind);
    this.slices = new OwnedObjects(controllers, endpointSliceKind);
    this.endpoints = new OwnedObjects(controllers, endpointsKind);
  }

  /** The revision up to which these kinds are observed. */
  revisionOf(kinds: readonly Resource[]): Revision {
    let oldest: Revision | undefined;
    for (const kind of kinds) {
      const { revision } = this.controllers.cache(kind);
      if (oldest === undefined || isLater(oldest, revision)) oldest = revision;
    }
    return oldest ?? firstRevision;
  }

  /** The recorder of a controller's Events. */
  recorder(controller: string): EventRecorder {
    const recorder = new EventRecorder({ ...this.controllers.ports, controller, instance: controller });
    this.recorders.push(recorder);
    return recorder;
  }

  /** A source without keys; it stops the recorders. */
  readonly recordersEnd: Source = {
    start: () => () => {
      for (const recorder of this.recorders) recorder.stop();
    },
  };
}
