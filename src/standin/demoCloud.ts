/** The cloud of the demo: instances of ten GPU types, volumes, snapshots, and every usual kind of drift. */
import type { StandInCloud } from "./cloud.ts";

export interface DemoMachine {
  readonly id: string;
  readonly gpuType: string;
}

const prefix = "pytorch-gpu-dev";
/** The number of instances of each type, if the cluster has none. */
const defaultCounts: Readonly<Record<string, number>> = {
  a100: 2,
  a10g: 1,
  b200: 2,
  "cpu-arm": 1,
  "cpu-x86": 2,
  h100: 2,
  h200: 2,
  l4: 1,
  t4: 2,
  "t4-small": 1,
};

/** Creates groups for the instances of the cluster, and for the types without a node: those run and have not joined. */
export function addDemoGroups(cloud: StandInCloud, machines: readonly DemoMachine[]): void {
  for (const [type, count] of Object.entries(defaultCounts)) {
    const own = machines.filter(({ gpuType }) => gpuType === type).map(({ id }) => id);
    const ids = own.length > 0 ? own : Array.from({ length: count }, (_, n) => `i-${type}-${n + 1}`);
    const name = `${prefix}-gpu-nodes-${type}`;
    const instances = ids.map((id) => ({ id, type: "", lifecycleState: "InService", healthStatus: "Healthy" }));
    cloud.groups.set(name, { name, desiredCapacity: ids.length, instances, tags: { GpuType: type } });
  }
  const management = { id: "i-management-1", type: "m7i.large", lifecycleState: "InService", healthStatus: "Healthy" };
  cloud.groups.set(`${prefix}-cpu-nodes`, {
    name: `${prefix}-cpu-nodes`,
    desiredCapacity: 1,
    instances: [management],
    tags: {},
  });
}

/** Creates disks of three users, some of them with drift. */
export function addDemoVolumes(cloud: StandInCloud): void {
  const dayMs = 86_400_000;
  const { nowMs } = cloud;
  const volume = (id: string, user: string, disk: string, more: object = {}): void => {
    cloud.createVolume({
      id,
      sizeGb: 1024,
      createdMs: nowMs - dayMs,
      tags: { "gpu-dev-user": user, disk_name: disk },
      ...more,
    });
    for (let n = 1; n <= 3; n++) {
      const tags = { "gpu-dev-user": user, disk_name: disk };
      cloud.putSnapshot({ id: `snap-${id}-${n}`, volumeId: id, startedMs: nowMs - n * dayMs, tags });
    }
  };
  volume("vol-ada-data", "ada", "data");
  volume("vol-ada-models", "ada", "models");
  volume("vol-bob-default", "bob", "default");
  volume("vol-cyn-scratch", "cyn", "scratch");
  cloud.attach("vol-ada-data", "i-h100-1");
  // Drift: a duplicate, a volume without its tag, a renamed disk with its old tags, a volume that is being created.
  volume("vol-bob-twin", "bob", "default", { createdMs: nowMs - 2 * dayMs });
  cloud.createVolume({ id: "vol-untagged", tags: { "gpu-dev-user": "bob", Name: "gpu-dev-persistent-bob" } });
  volume("vol-cyn-old", "cyn", "old-name");
  cloud.createVolume({ id: "vol-new", state: "creating", tags: { "gpu-dev-user": "ada", disk_name: "fresh" } });
  cloud.putSnapshot({
    id: "snap-scanner",
    volumeId: "vol-ffffffff",
    tags: { "gpu-dev-user": "ada", disk_name: "data", WizScan: "1" },
  });
}
