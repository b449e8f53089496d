/** Objects of a usual size: a pod of about two kilobytes as it is stored, one GPU, a few variables and a volume. */
export function benchPod(at: number, namespace = "default") {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `pod-${at}`,
      namespace,
      labels: { app: "bench", shard: String(at % 100) },
    },
    spec: {
      containers: [
        {
          name: "main",
          image: "registry.example/train:1.2",
          command: ["python", "train.py"],
          env: [{ name: "RANK", value: String(at) }],
          resources: {
            requests: { cpu: "500m", memory: "1Gi", "nvidia.com/gpu": "1" },
            limits: { "nvidia.com/gpu": "1" },
          },
        },
      ],
      nodeSelector: { pool: "h100" },
    },
  };
}

export function benchNode(at: number) {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: `node-${String(at).padStart(5, "0")}`,
      labels: { pool: "h100", "kubernetes.io/hostname": `node-${at}`, "topology.kubernetes.io/zone": `zone-${at % 3}` },
    },
    spec: {},
    status: {
      capacity: { cpu: "192", memory: "2Ti", pods: "110", "nvidia.com/gpu": "8" },
      allocatable: { cpu: "190", memory: "2000Gi", pods: "110", "nvidia.com/gpu": "8" },
      conditions: [
        { type: "Ready", status: "True", reason: "KubeletReady", lastHeartbeatTime: "2026-01-01T00:00:00Z" },
      ],
    },
  };
}
