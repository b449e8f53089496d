import type { Manifest } from "../changeCluster.ts";

/** A pod with one container, and additional fields. */
export function pod(
  name: string,
  more: { labels?: Record<string, string>; nodeName?: string; image?: string; spec?: object; status?: object } = {},
): Manifest {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...(more.labels === undefined ? {} : { labels: more.labels }) },
    spec: {
      containers: [{ name: "main", image: more.image ?? "nginx:1.29" }],
      ...(more.nodeName === undefined ? {} : { nodeName: more.nodeName }),
      ...more.spec,
    },
    ...(more.status === undefined ? {} : { status: more.status }),
  };
}

/** The status that a kubelet writes for a running pod. */
export const running = {
  phase: "Running",
  podIP: "192.168.0.7",
  podIPs: [{ ip: "192.168.0.7" }],
  startTime: "2026-01-01T00:00:00Z",
  conditions: [
    { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
    { type: "ContainersReady", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
  ],
  containerStatuses: [
    {
      name: "main",
      image: "nginx:1.29",
      imageID: "sha256:1",
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt: "2026-01-01T00:00:00Z" } },
    },
  ],
};

/** A ready node. */
export function node(name: string, more: { labels?: Record<string, string>; taints?: object[] } = {}): Manifest {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, ...(more.labels === undefined ? {} : { labels: more.labels }) },
    spec: { ...(more.taints === undefined ? {} : { taints: more.taints }) },
    status: {
      capacity: { cpu: "8", memory: "32Gi", pods: "110", "nvidia.com/gpu": "4" },
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "KubeletReady",
          message: "kubelet is posting ready status",
          lastHeartbeatTime: "2026-01-01T00:00:00Z",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
      addresses: [{ type: "InternalIP", address: "172.16.0.9" }],
      nodeInfo: {
        machineID: "m",
        systemUUID: "u",
        bootID: "b",
        kernelVersion: "6.12.0",
        osImage: "Muster OS",
        containerRuntimeVersion: "containerd://2.1.0",
        kubeletVersion: "v1.36.4",
        kubeProxyVersion: "",
        operatingSystem: "linux",
        architecture: "amd64",
      },
    },
  };
}

/** A Deployment with one container, as `kubectl create deployment` creates it. */
export function deployment(name: string, more: { replicas?: number; image?: string; status?: object } = {}): Manifest {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels: { app: name } },
    spec: {
      replicas: more.replicas ?? 1,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { containers: [{ name: "main", image: more.image ?? "nginx:1.29" }] },
      },
    },
    ...(more.status === undefined ? {} : { status: more.status }),
  };
}

/** A ConfigMap. */
export function configMap(name: string, data: Record<string, string>, labels?: Record<string, string>): Manifest {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    data,
  };
}
