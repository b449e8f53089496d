/** Objects of storage for tests, with defaults for everything. */

export function storageClass(name: string, more: object = {}): object {
  const provisioner = "kubernetes.io/no-provisioner";
  return { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name }, provisioner, ...more };
}

export const waiting = { volumeBindingMode: "WaitForFirstConsumer" };

export function claim(name: string, spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default", ...metadata },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
  };
}

export function volume(name: string, spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, ...metadata },
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
      persistentVolumeReclaimPolicy: "Retain",
      hostPath: { path: `/data/${name}` },
      ...spec,
    },
  };
}

export function onNodes(...values: string[]): object {
  const expression = { key: "kubernetes.io/hostname", operator: "In", values };
  return { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } } };
}

export function podWith(name: string, claims: readonly string[], spec: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: {
      containers: [{ name: "c", image: "i" }],
      volumes: claims.map((claimName, at) => ({ name: `v${at}`, persistentVolumeClaim: { claimName } })),
      ...spec,
    },
  };
}
