/** Objects as a cluster has them, with everything defaulted that a test does not speak of. */
import type { KubeObject, OwnerReference } from "../../src/model/objects/object.ts";

export const startMs = Date.UTC(2026, 4, 28, 12, 0, 0);
/** Pods are an hour old unless a test says otherwise. */
export const anHourAgo = "2026-05-28T11:00:00Z";

export interface TestPodOptions {
  readonly node?: string;
  readonly phase?: string;
  readonly owner?: OwnerReference;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly created?: string;
  readonly requests?: Record<string, string>;
  readonly spec?: object;
  readonly status?: object;
  readonly deleted?: string;
}

/** `team/name`: Running on n1 unless it has no node, then Pending. */
export function pod(key: string, wish: TestPodOptions = {}): KubeObject {
  const [namespace = "", name = ""] = key.split("/");
  const { node = "n1" } = wish;
  const phase = wish.phase ?? (node === "" ? "Pending" : "Running");
  const resources = wish.requests === undefined ? {} : { resources: { requests: wish.requests } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      uid: `uid-${key}`,
      resourceVersion: "90",
      creationTimestamp: wish.created ?? anHourAgo,
      ...(wish.labels === undefined ? {} : { labels: wish.labels }),
      ...(wish.annotations === undefined ? {} : { annotations: wish.annotations }),
      ...(wish.owner === undefined ? {} : { ownerReferences: [wish.owner] }),
      ...(wish.deleted === undefined ? {} : { deletionTimestamp: wish.deleted }),
    },
    spec: {
      ...(node === "" ? {} : { nodeName: node }),
      schedulerName: "default-scheduler",
      containers: [{ name: "main", image: "registry.example/app:1", ...resources }],
      ...wish.spec,
    },
    status: { phase, ...wish.status },
  };
}

export function pods(count: number, namespace = "team"): KubeObject[] {
  return Array.from({ length: count }, (_, at) => pod(`${namespace}/pod-${String(at).padStart(3, "0")}`));
}

/** What a scheduler writes on a pod that it could not place. */
export function refusedBy(message: string): object {
  return { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }] };
}

export function owner(kind: string, name: string, apiVersion = "batch/v1"): OwnerReference {
  return { apiVersion, kind, name, uid: `uid-${kind}-${name}`, controller: true };
}

export function job(key: string, fields: { annotations?: Record<string, string>; status?: object } = {}): KubeObject {
  const [namespace = "", name = ""] = key.split("/");
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name,
      namespace,
      uid: `uid-Job-${name}`,
      resourceVersion: "80",
      creationTimestamp: anHourAgo,
      ...(fields.annotations === undefined ? {} : { annotations: fields.annotations }),
    },
    status: fields.status ?? { active: 1 },
  };
}

export interface NodeWish {
  readonly allocatable?: Record<string, string>;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly spec?: object;
  readonly ready?: string;
  readonly deleted?: string;
}

export function node(name: string, wish: NodeWish = {}): KubeObject {
  const allocatable = { cpu: "64", memory: "256Gi", pods: "250", ...wish.allocatable };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      uid: `uid-node-${name}`,
      resourceVersion: "70",
      creationTimestamp: anHourAgo,
      labels: { "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", ...wish.labels },
      ...(wish.annotations === undefined ? {} : { annotations: wish.annotations }),
      ...(wish.deleted === undefined ? {} : { deletionTimestamp: wish.deleted }),
    },
    spec: { ...wish.spec },
    status: {
      capacity: allocatable,
      allocatable,
      conditions: [{ type: "Ready", status: wish.ready ?? "True", reason: "KubeletReady" }],
    },
  };
}

export function event(
  of: KubeObject,
  reason: string,
  message: string,
  at: string,
  name = `${reason}-${at}`,
): KubeObject {
  const { namespace = "", name: podName, uid } = of.metadata;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: {
      name: `${podName}.${name}`,
      namespace,
      uid: `uid-event-${podName}-${name}`,
      resourceVersion: "95",
      creationTimestamp: at,
    },
    involvedObject: { kind: "Pod", namespace, name: podName, uid },
    reason,
    message,
    type: "Warning",
    count: 1,
    firstTimestamp: at,
    lastTimestamp: at,
  };
}

/** A custom object with what every object has. */
export function custom(apiVersion: string, kind: string, key: string, fields: object = {}): KubeObject {
  const [first = "", second] = key.split("/");
  const { metadata, ...rest } = fields as { metadata?: object };
  return {
    apiVersion,
    kind,
    metadata: {
      name: second ?? first,
      ...(second === undefined ? {} : { namespace: first }),
      uid: `uid-${kind}-${key}`,
      resourceVersion: "60",
      creationTimestamp: anHourAgo,
      ...metadata,
    },
    ...rest,
  };
}
