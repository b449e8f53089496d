/** Data sets for the inventory's benchmark: like production, and fifty times that, with everything odd in its share. */
import type { CloudSnapshot, ScalingGroup } from "../src/model/inventory/cloud.ts";
import type { Node, Pod } from "../src/model/kubernetes.generated.ts";
import type { StandInCloud } from "../src/standin/cloud.ts";

export interface SetSize {
  readonly name: "S" | "L";
  readonly types: number;
  readonly groups: number;
  readonly nodes: number;
  readonly pods: number;
  readonly volumes: number;
  readonly snapshots: number;
  readonly rows: number;
}

export const setSizes: readonly SetSize[] = [
  { name: "S", types: 16, groups: 25, nodes: 45, pods: 400, volumes: 300, snapshots: 6_600, rows: 600 },
  { name: "L", types: 40, groups: 200, nodes: 5_000, pods: 50_000, volumes: 20_000, snapshots: 200_000, rows: 40_000 },
];

export const prefix = "pytorch-gpu-dev";
const baseMs = Date.parse("2026-11-01T00:00:00Z");
const usersOf = ({ volumes }: SetSize): number => Math.max(20, volumes / 10);

const diskOf = (index: number): string => `disk-${index}`;
const userOf = (size: SetSize, index: number): string => `user-${index % usersOf(size)}`;

/** Everything that the cloud has. */
export function fillCloud(cloud: StandInCloud, size: SetSize): void {
  for (const group of groupsOf(size)) cloud.groups.set(group.name, group);
  for (let n = 0; n < size.volumes; n++) {
    const tags: Record<string, string> = { "gpu-dev-user": userOf(size, n), disk_name: diskOf(n) };
    // One in a hundred has no name, one is a twin of its neighbour; some carry another name, state or owner.
    if (n % 100 === 17) delete tags["disk_name"];
    if (n % 100 === 23) tags["disk_name"] = diskOf(n - 1);
    if (n % 100 === 23) tags["gpu-dev-user"] = userOf(size, n - 1);
    if (n % 50 === 31) tags["disk_name"] = `renamed-${n}`;
    if (n % 1000 === 500) tags["gpu-dev-user"] = "another-user";
    const isHeld = n % 4 === 0;
    const state = n % 200 === 99 ? "creating" : isHeld ? "in-use" : "available";
    cloud.createVolume({
      id: volumeId(n),
      sizeGb: 100 + (n % 900),
      createdMs: baseMs + n * 1000,
      state,
      attachments: isHeld && state === "in-use" ? [{ instanceId: `i-${n % size.nodes}`, state: "attached" }] : [],
      tags,
    });
  }
  for (let n = 0; n < size.snapshots; n++) {
    const disk = n % (size.rows * 0.9);
    const snapshot: CloudSnapshot & { sizeGb: number } = {
      id: `snap-${String(n).padStart(17, "0")}`,
      volumeId: n % 400 === 7 ? "vol-ffffffff" : disk < size.volumes ? volumeId(disk) : `vol-old-${n}`,
      state: n % 5_000 === 3 ? "pending" : "completed",
      startedMs: baseMs - (size.snapshots - n) * 120_000,
      description: "taken when the session ended",
      tags: { "gpu-dev-user": userOf(size, disk), disk_name: diskOf(disk), type: "shutdown" },
      sizeGb: 100,
    };
    cloud.snapshots.set(snapshot.id, snapshot);
  }
}

export function typeNames({ types }: SetSize): string[] {
  return Array.from({ length: types }, (_, n) => (n % 10 === 9 ? `cpu-${n}` : `gpu-${n}`));
}

function groupsOf(size: SetSize): ScalingGroup[] {
  const types = typeNames(size);
  const own = Math.floor(size.groups * 0.85);
  const groups: ScalingGroup[] = [];
  for (let n = 0; n < size.groups; n++) {
    const type = types[n % types.length] ?? "";
    const isForeign = n >= own && n < own + size.groups * 0.1;
    const name = isForeign
      ? `other-team-${n}`
      : n >= own
        ? `${prefix}-gpu-nodes-${type}x-${n}`
        : `${prefix}-gpu-nodes-${type}-cr${n}`;
    const instances = [];
    for (let node = n; node < size.nodes && n < own; node += own) {
      const lifecycleState = node % 97 === 5 ? "Terminating:Wait" : "InService";
      instances.push({ id: `i-${node}`, type: "p5.48xlarge", lifecycleState, healthStatus: "Healthy" });
    }
    groups.push({ name, desiredCapacity: instances.length, instances, tags: {} });
  }
  return groups;
}

/** The cluster's objects, as a watch cache holds them. */
export function clusterOf(size: SetSize): { nodes: Node[]; pods: Pod[] } {
  const types = typeNames(size);
  const own = Math.floor(size.groups * 0.85);
  const meta = (name: string) => ({ name, uid: name, resourceVersion: "1", creationTimestamp: "2026-11-01T00:00:00Z" });
  const nodes = Array.from({ length: size.nodes }, (_, n) => {
    const type = types[(n % own) % types.length] ?? "";
    return {
      apiVersion: "v1",
      kind: "Node",
      metadata: { ...meta(`node-${n}`), labels: { GpuType: type } },
      spec: {
        providerID: `aws:///us-east-2a/i-${n}`,
        ...(n % 61 === 0 ? { unschedulable: true } : {}),
        ...(n % 67 === 0 ? { taints: [{ key: "gpu-health", effect: "NoSchedule" }] } : {}),
      },
      status: {
        allocatable: { "nvidia.com/gpu": n % 89 === 0 ? "7" : "8" },
        capacity: { "nvidia.com/gpu": "8" },
        conditions: [{ type: "Ready", status: n % 71 === 0 ? "False" : "True" }],
      },
    } as unknown as Node;
  });
  const pods = Array.from({ length: size.pods }, (_, n) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...meta(`pod-${n}`), namespace: "default" },
    spec: {
      nodeName: `node-${n % size.nodes}`,
      containers: [{ name: "main", resources: { requests: n % 5 === 0 ? { "nvidia.com/gpu": "1" } : { cpu: "1" } } }],
      ...(n % 50 === 0 ? { initContainers: [{ name: "i", resources: { requests: { "nvidia.com/gpu": "2" } } }] } : {}),
    },
    status: { phase: n % 20 === 3 ? "Succeeded" : "Running" },
  })) as unknown as Pod[];
  return { nodes, pods };
}

/** The rows of `disks`: half of them at rest without a volume, one in twenty deleted. */
export function rowsOf(size: SetSize): object[] {
  const rows: object[] = [];
  for (let n = 0; n < size.rows; n++) {
    const isLive = n < size.volumes;
    if (n % 100 === 23 && isLive) continue;
    rows.push({
      user_id: userOf(size, n),
      disk_name: diskOf(n),
      // Every tenth is new to the database: its volume has to be linked.
      ebs_volume_id: isLive ? (n % 10 === 1 ? null : volumeId(n)) : `vol-gone-${n}`,
      is_deleted: n % 20 === 13,
      in_use: false,
    });
  }
  return rows;
}

function volumeId(n: number): string {
  return `vol-${String(n).padStart(17, "0")}`;
}
