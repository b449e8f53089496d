/** Tables of storage: volumes, claims, classes and drivers. */

import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from "../../model/kubernetes.generated.ts";
import type { ObjectMeta } from "../../model/objects/object.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf, wideColumn } from "./tableKind.ts";

const volumeModeColumn = wideColumn("VolumeMode", "Whether the volume holds files or is a raw device.");
const attributesClassColumn = column("VolumeAttributesClass", "The class of its changeable settings.");

export const persistentVolumeTable = tableOf<PersistentVolume>(
  [
    nameColumn,
    column("Capacity", "Its size."),
    column("Access Modes", "How it may be mounted."),
    column("Reclaim Policy", "What becomes of it when the claim is gone."),
    column("Status", "Whether it is free, bound or released."),
    column("Claim", "The claim that holds it."),
    column("StorageClass", "The class it belongs to."),
    attributesClassColumn,
    column("Reason", "Why it failed."),
    ageColumn,
    volumeModeColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    spec?.capacity?.["storage"] ?? "0",
    accessModes(spec?.accessModes),
    spec?.persistentVolumeReclaimPolicy ?? "",
    metadata.deletionTimestamp === undefined ? (status?.phase ?? "") : "Terminating",
    spec?.claimRef === undefined ? "" : `${spec.claimRef.namespace ?? ""}/${spec.claimRef.name ?? ""}`,
    storageClassOf(metadata, spec?.storageClassName),
    spec?.volumeAttributesClassName ?? unset,
    status?.reason ?? "",
    humanAge(metadata.creationTimestamp, nowMs),
    spec?.volumeMode ?? unset,
  ],
);

export const persistentVolumeClaimTable = tableOf<PersistentVolumeClaim>(
  [
    nameColumn,
    column("Status", "Whether the claim has a volume."),
    column("Volume", "The volume it got."),
    column("Capacity", "The size it got."),
    column("Access Modes", "How the volume may be mounted."),
    column("StorageClass", "The class it asks for."),
    attributesClassColumn,
    ageColumn,
    volumeModeColumn,
  ],
  ({ metadata, spec, status }, nowMs) => {
    const volume = spec?.volumeName ?? "";
    return [
      metadata.name,
      metadata.deletionTimestamp === undefined ? (status?.phase ?? "") : "Terminating",
      volume,
      volume === "" ? "" : (status?.capacity?.["storage"] ?? "0"),
      volume === "" ? "" : accessModes(status?.accessModes),
      storageClassOf(metadata, spec?.storageClassName),
      spec?.volumeAttributesClassName ?? unset,
      humanAge(metadata.creationTimestamp, nowMs),
      spec?.volumeMode ?? unset,
    ];
  },
);

/** Each mode once, the narrow ones first, whatever their order in the object. */
const modeTexts = [
  ["ReadWriteOnce", "RWO"],
  ["ReadOnlyMany", "ROX"],
  ["ReadWriteMany", "RWX"],
  ["ReadWriteOncePod", "RWOP"],
] as const;

function accessModes(modes: readonly string[] | undefined): string {
  if (modes === undefined) return "";
  return modeTexts.flatMap(([mode, text]) => (modes.includes(mode) ? [text] : [])).join(",");
}

/** The annotation is older than the field and still wins. */
function storageClassOf({ annotations }: ObjectMeta, field: string | undefined): string {
  return annotations?.["volume.beta.kubernetes.io/storage-class"] ?? field ?? "";
}

const defaultClassAnnotations = [
  "storageclass.kubernetes.io/is-default-class",
  "storageclass.beta.kubernetes.io/is-default-class",
];

export const storageClassTable = tableOf<StorageClass>(
  [
    nameColumn,
    column("Provisioner", "Who makes the volumes."),
    column("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
    column("VolumeBindingMode", "When a volume is made."),
    column("AllowVolumeExpansion", "Whether volumes may grow.", "boolean"),
    ageColumn,
  ],
  (object, nowMs) => {
    const { metadata } = object;
    const isDefault = defaultClassAnnotations.some((key) => metadata.annotations?.[key] === "true");
    return [
      isDefault ? `${metadata.name} (default)` : metadata.name,
      object.provisioner,
      object.reclaimPolicy ?? "Delete",
      object.volumeBindingMode ?? "Immediate",
      object.allowVolumeExpansion ?? false,
      humanAge(metadata.creationTimestamp, nowMs),
    ];
  },
);

export const csiNodeTable = tableOf<CSINode>(
  [nameColumn, column("Drivers", "How many drivers the node has.", "integer"), ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec.drivers?.length ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const csiDriverTable = tableOf<CSIDriver>(
  [
    nameColumn,
    column("AttachRequired", "Whether volumes must be attached to a node first.", "boolean"),
    column("PodInfoOnMount", "Whether the driver is told about the pod.", "boolean"),
    column("StorageCapacity", "Whether free capacity is published.", "boolean"),
    column("TokenRequests", "Audiences of the tokens the driver gets."),
    column("RequiresRepublish", "Whether volumes are published again and again.", "boolean"),
    column("Modes", "Kinds of volumes."),
    ageColumn,
  ],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec.attachRequired ?? true,
    spec.podInfoOnMount ?? false,
    spec.storageCapacity ?? false,
    (spec.tokenRequests ?? []).map(({ audience }) => audience).join(",") || unset,
    spec.requiresRepublish ?? false,
    (spec.volumeLifecycleModes ?? []).join(",") || "<none>",
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const csiStorageCapacityTable = tableOf<CSIStorageCapacity>(
  [nameColumn, column("StorageClassName", "The class it is about."), column("Capacity", "What is free.")],
  ({ metadata, storageClassName, capacity }) => [metadata.name, storageClassName, capacity ?? unset],
);

export const volumeAttachmentTable = tableOf<VolumeAttachment>(
  [
    nameColumn,
    column("Attacher", "The driver that attaches."),
    column("PV", "The volume."),
    column("Node", "The node."),
    column("Attached", "Whether it is done.", "boolean"),
    ageColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    spec.attacher,
    spec.source.persistentVolumeName ?? "",
    spec.nodeName,
    status?.attached ?? false,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const volumeAttributesClassTable = tableOf<VolumeAttributesClass>(
  [nameColumn, column("DriverName", "The driver that knows the settings."), ageColumn],
  ({ metadata, driverName }, nowMs) => [metadata.name, driverName, humanAge(metadata.creationTimestamp, nowMs)],
);
