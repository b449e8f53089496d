/**
 * Assigns each Auto Scaling group to the GPU type of its machines, or to none. The prefix of a name is ambiguous:
 * `t4-small` begins with `t4`, and a group with no type in its name is the management group. So the tag `GpuType`
 * decides; without it, the longest known key that is followed by a dash or by the end of the name.
 */
import type { ScalingGroup } from "../../model/inventory/cloud.ts";
import type { DriftEvent, GpuTypeRow } from "../../model/inventory/rows.ts";

export interface GroupNames {
  /** The prefix of the names of Muster's groups: `pytorch-gpu-dev`. */
  readonly prefix: string;
  /** Other names of a type: `t4-az2` is `t4`. */
  readonly aliases: Readonly<Record<string, string>>;
}

export interface AssignedGroups {
  /** Groups by GPU type; every physical type has an entry. */
  readonly byType: ReadonlyMap<string, readonly ScalingGroup[]>;
  /** Groups with the prefix or the tag that match no type. Groups of other teams are ignored. */
  readonly unassigned: readonly ScalingGroup[];
}

/** A virtual type (a MIG slice) is a partition of another type's GPUs and has no group of its own. */
export function isVirtual(type: GpuTypeRow, types: readonly GpuTypeRow[]): boolean {
  const physical = labelValueOf(type);
  return physical !== type.gpuType && types.some(({ gpuType }) => gpuType === physical);
}

export function labelValueOf(type: GpuTypeRow): string {
  return type.nodeLabelValue ?? type.gpuType;
}

export function assignGroups(
  groups: readonly ScalingGroup[],
  types: readonly GpuTypeRow[],
  names: GroupNames,
): AssignedGroups {
  const physical = types.filter((type) => !isVirtual(type, types)).map(({ gpuType }) => gpuType);
  const keys = new Map<string, string>(physical.map((gpuType) => [gpuType, gpuType]));
  for (const [alias, gpuType] of Object.entries(names.aliases)) {
    if (keys.has(gpuType) && !keys.has(alias)) keys.set(alias, gpuType);
  }
  const longestFirst = [...keys.keys()].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  const lead = `${names.prefix}-gpu-nodes-`;
  const typeOf = ({ name, tags }: ScalingGroup): string | undefined => {
    const tag = tags["GpuType"];
    if (tag !== undefined && tag !== "" && keys.has(tag)) return keys.get(tag);
    if (!name.startsWith(lead)) return undefined;
    const suffix = name.slice(lead.length);
    const key = longestFirst.find((known) => suffix === known || suffix.startsWith(`${known}-`));
    return key === undefined ? undefined : keys.get(key);
  };
  const byType = new Map<string, ScalingGroup[]>(physical.map((gpuType) => [gpuType, []]));
  const unassigned: ScalingGroup[] = [];
  // Sorted and deduplicated by name: the cloud returns groups in any order, and pages may overlap.
  const once = new Map(groups.map((group) => [group.name, group]));
  for (const group of [...once.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const type = typeOf(group);
    if (type !== undefined) byType.get(type)?.push(group);
    else if (group.name.startsWith(names.prefix) || group.tags["GpuType"] !== undefined) unassigned.push(group);
  }
  return { byType, unassigned };
}

/** Drift events that report the groups without a type. */
export function unassignedDrift(unassigned: readonly ScalingGroup[]): DriftEvent[] {
  return unassigned.map(({ name, tags, instances }) => ({
    entity: "group",
    entityId: name,
    field: "gpu_type",
    old: null,
    new: tags["GpuType"] ?? null,
    action: "reported",
    reason: `asgs_unassigned: no GPU type matches this group; its ${instances.length} instances are not counted`,
  }));
}
