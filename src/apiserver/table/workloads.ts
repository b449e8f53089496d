/** Tables of workloads: desired and current replicas. */

import type {
  ControllerRevision,
  DaemonSet,
  Deployment,
  PodTemplate,
  ReplicaSet,
  ReplicationController,
  StatefulSet,
} from "../../model/kubernetes.generated.ts";
import { splitApiVersion } from "../../model/objects/object.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { containerCells, labelsText, none, selectorText, selectorTextOrNone } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf, wideColumn } from "./tableKind.ts";

export const containerColumns = [
  wideColumn("Containers", "Names of the containers."),
  wideColumn("Images", "Images of the containers."),
];
export const selectorColumn = wideColumn("Selector", "Selector of the pods.");
const readyColumn = column("Ready", "Ready pods, of the desired ones.");

export const deploymentTable = tableOf<Deployment>(
  [
    nameColumn,
    readyColumn,
    column("Up-to-date", "Pods of the newest template."),
    column("Available", "Pods that are available."),
    ageColumn,
    ...containerColumns,
    selectorColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    `${status?.readyReplicas ?? 0}/${spec?.replicas ?? 0}`,
    status?.updatedReplicas ?? 0,
    status?.availableReplicas ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
    ...containerCells(spec?.template.spec?.containers),
    selectorText(spec?.selector),
  ],
);

const replicaColumns = [
  nameColumn,
  column("Desired", "Desired number of pods.", "integer"),
  column("Current", "Current number of pods.", "integer"),
  column("Ready", "Number of ready pods.", "integer"),
  ageColumn,
  ...containerColumns,
  selectorColumn,
];

export const replicaSetTable = tableOf<ReplicaSet>(replicaColumns, ({ metadata, spec, status }, nowMs) => [
  metadata.name,
  spec?.replicas ?? 0,
  status?.replicas ?? 0,
  status?.readyReplicas ?? 0,
  humanAge(metadata.creationTimestamp, nowMs),
  ...containerCells(spec?.template?.spec?.containers),
  selectorTextOrNone(spec?.selector),
]);

export const replicationControllerTable = tableOf<ReplicationController>(
  replicaColumns,
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    spec?.replicas ?? 0,
    status?.replicas ?? 0,
    status?.readyReplicas ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
    ...containerCells(spec?.template?.spec?.containers),
    labelsText(spec?.selector),
  ],
);

export const statefulSetTable = tableOf<StatefulSet>(
  [nameColumn, readyColumn, ageColumn, ...containerColumns],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    `${status?.readyReplicas ?? 0}/${spec?.replicas ?? 0}`,
    humanAge(metadata.creationTimestamp, nowMs),
    ...containerCells(spec?.template.spec?.containers),
  ],
);

export const daemonSetTable = tableOf<DaemonSet>(
  [
    nameColumn,
    column("Desired", "Nodes that should run the pod.", "integer"),
    column("Current", "Nodes that run the pod.", "integer"),
    column("Ready", "Nodes where the pod is ready.", "integer"),
    column("Up-to-date", "Nodes with the newest template.", "integer"),
    column("Available", "Nodes where the pod is available.", "integer"),
    column("Node Selector", "Labels of the nodes."),
    ageColumn,
    ...containerColumns,
    selectorColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    status?.desiredNumberScheduled ?? 0,
    status?.currentNumberScheduled ?? 0,
    status?.numberReady ?? 0,
    status?.updatedNumberScheduled ?? 0,
    status?.numberAvailable ?? 0,
    labelsText(spec?.template.spec?.nodeSelector),
    humanAge(metadata.creationTimestamp, nowMs),
    ...containerCells(spec?.template.spec?.containers),
    selectorTextOrNone(spec?.selector),
  ],
);

export const controllerRevisionTable = tableOf<ControllerRevision>(
  [
    nameColumn,
    column("Controller", "The owner of the revision."),
    column("Revision", "Number of the revision."),
    ageColumn,
  ],
  ({ metadata, revision }, nowMs) => {
    const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
    let controller = none;
    if (owner !== undefined) {
      const { group } = splitApiVersion(owner.apiVersion);
      const kind = (group === "" ? owner.kind : `${owner.kind}.${group}`).toLowerCase();
      controller = `${kind}/${owner.name}`;
    }
    return [metadata.name, controller, revision, humanAge(metadata.creationTimestamp, nowMs)];
  },
);

export const podTemplateTable = tableOf<PodTemplate>(
  [
    nameColumn,
    column("Containers", "Names of the containers."),
    column("Images", "Images of the containers."),
    column("Pod Labels", "Labels of the pods."),
  ],
  ({ metadata, template }) => [
    metadata.name,
    ...containerCells(template?.spec?.containers),
    labelsText(template?.metadata?.labels),
  ],
);
