/** Volumes that are folders of one node: what `muster up` provisions when a cluster has no other storage. */
import type { NewObject } from "../intent.ts";
import type { Node, PersistentVolume, PersistentVolumeClaim, StorageClass } from "../kubernetes.generated.ts";
import { volumeAnnotations } from "./volumes.ts";

export const localFolderProvisioner = "muster.dev/local-folder";
export const localFolderClass = "muster-local";
export const localFolderRoot = "/var/lib/muster/volumes";
const hostname = "kubernetes.io/hostname";
const supportedModes: readonly string[] = ["ReadWriteOnce", "ReadWriteOncePod"];

/** The class that `muster up` creates. */
export function localStorageClass({ isDefault }: { readonly isDefault: boolean }): NewObject<StorageClass> {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: {
      name: localFolderClass,
      ...(isDefault && { annotations: { [volumeAnnotations.defaultClass]: "true" } }),
    },
    provisioner: localFolderProvisioner,
    reclaimPolicy: "Delete",
    volumeBindingMode: "WaitForFirstConsumer",
  };
}

/** Why no folder can be provisioned for the claim; undefined if one can. */
export function folderProblem(claim: PersistentVolumeClaim, storageClass: StorageClass): string | undefined {
  if (storageClass.volumeBindingMode !== "WaitForFirstConsumer")
    return `StorageClass ${storageClass.metadata.name} needs volumeBindingMode WaitForFirstConsumer: a local folder is on the node of the first pod`;
  const mode = (claim.spec?.accessModes ?? []).find((each) => !supportedModes.includes(each));
  if (mode !== undefined) return `a local folder is of one node and has no access mode ${mode}`;
  if ((claim.spec?.volumeMode ?? "Filesystem") !== "Filesystem") return "a local folder has no volumeMode Block";
  if (claim.spec?.selector !== undefined) return "a local folder cannot be provisioned for a claim with a selector";
  if (claim.spec?.dataSource !== undefined || claim.spec?.dataSourceRef !== undefined)
    return "a local folder cannot be provisioned from a data source";
  return undefined;
}

/** The name follows from the claim, so that a second attempt creates nothing. */
export function folderVolumeName({ metadata }: PersistentVolumeClaim): string {
  return `pvc-${metadata.uid}`;
}

/** The volume of a claim on a node. It is reserved for the claim by UID, so no other claim gets it. */
export function folderVolume(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  node: Node,
): NewObject<PersistentVolume> {
  const name = folderVolumeName(claim);
  const { namespace, name: claimName, uid, resourceVersion } = claim.metadata;
  const { reclaimPolicy = "Delete", metadata } = storageClass;
  const expression = {
    key: hostname,
    operator: "In",
    values: [node.metadata.labels?.[hostname] ?? node.metadata.name],
  };
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, annotations: { [volumeAnnotations.provisionedBy]: localFolderProvisioner } },
    spec: {
      capacity: { storage: claim.spec?.resources?.requests?.["storage"] ?? "0" },
      accessModes: [...(claim.spec?.accessModes ?? [])],
      persistentVolumeReclaimPolicy: reclaimPolicy,
      storageClassName: metadata.name,
      volumeMode: "Filesystem",
      claimRef: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        ...(namespace !== undefined && { namespace }),
        name: claimName,
        uid,
        resourceVersion,
      },
      hostPath: { path: `${localFolderRoot}/${name}`, type: "DirectoryOrCreate" },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  };
}
