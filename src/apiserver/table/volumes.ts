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

const volumeModeColumn = wideColumn("VolumeMode", "Whether the volume is a file system or a raw device.");
const attributesClassColumn = column("VolumeAttributesClass", "The volume attributes class.");

export const persistentVolumeTable = tableOf<PersistentVolume>(
  [
    nameColumn,
    column("Capacity", "Capacity of the volume."),
    column("Access Modes", "Access modes of the claim."),
    column("Reclaim Policy", "What happens to the volume when its claim is deleted."),
    column("Status", "Phase of the volume."),
    column("Claim", "The claim that is bound to the volume."),
    column("StorageClass", "The storage class."),
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
    column("Status", "Phase of the claim."),
    column("Volume", "The bound volume."),
    column("Capacity", "Capacity of the bound volume."),
    column("Access Modes", "Access modes of the volume."),
    column("StorageClass", "The requested storage class."),
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

/** Each mode once, in a fixed order. */
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

/** The annotation is older than the field and takes precedence. */
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
    column("Provisioner", "The provisioner of the volumes."),
    column("ReclaimPolicy", "What happens to a volume when its claim is deleted."),
    column("VolumeBindingMode", "When a volume is provisioned and bound."),
    column("AllowVolumeExpansion", "Whether volumes can be expanded.", "boolean"),
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
  [nameColumn, column("Drivers", "Number of drivers on the node.", "integer"), ageColumn],
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
    column("PodInfoOnMount", "Whether the driver gets pod information.", "boolean"),
    column("StorageCapacity", "Whether the driver publishes storage capacity.", "boolean"),
    column("TokenRequests", "Audiences of the driver's tokens."),
    column("RequiresRepublish", "Whether volumes are republished periodically.", "boolean"),
    column("Modes", "Volume lifecycle modes."),
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
  [nameColumn, column("StorageClassName", "The storage class."), column("Capacity", "Free capacity.")],
  ({ metadata, storageClassName, capacity }) => [metadata.name, storageClassName, capacity ?? unset],
);

export const volumeAttachmentTable = tableOf<VolumeAttachment>(
  [
    nameColumn,
    column("Attacher", "The driver that attaches the volume."),
    column("PV", "The volume."),
    column("Node", "The node."),
    column("Attached", "Whether the volume is attached.", "boolean"),
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
  [nameColumn, column("DriverName", "The CSI driver."), ageColumn],
  ({ metadata, driverName }, nowMs) => [metadata.name, driverName, humanAge(metadata.creationTimestamp, nowMs)],
);
