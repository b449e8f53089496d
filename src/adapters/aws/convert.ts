/** Converts AWS types to the model's types. */
import type { AutoScalingGroup } from "@aws-sdk/client-auto-scaling";
import type { VolumeModification as AwsModification, Snapshot, Volume } from "@aws-sdk/client-ec2";
import type {
  CloudSnapshot,
  CloudVolume,
  ScalingGroup,
  Tags,
  VolumeModification,
} from "../../model/inventory/cloud.ts";

export function volumeOf(volume: Volume): CloudVolume {
  return {
    id: volume.VolumeId ?? "",
    sizeGb: volume.Size ?? 0,
    state: volume.State ?? "",
    createdMs: volume.CreateTime?.getTime() ?? 0,
    snapshotId: volume.SnapshotId ?? "",
    attachments: (volume.Attachments ?? []).map(({ InstanceId = "", State = "" }) => ({
      instanceId: InstanceId,
      state: State,
    })),
    tags: tagsOf(volume.Tags),
  };
}

export function snapshotOf(snapshot: Snapshot): CloudSnapshot {
  return {
    id: snapshot.SnapshotId ?? "",
    volumeId: snapshot.VolumeId ?? "",
    state: snapshot.State ?? "",
    startedMs: snapshot.StartTime?.getTime() ?? 0,
    description: snapshot.Description ?? "",
    tags: tagsOf(snapshot.Tags),
  };
}

export function modificationOf(modification: AwsModification): VolumeModification {
  return {
    volumeId: modification.VolumeId ?? "",
    state: modification.ModificationState ?? "",
    targetSizeGb: modification.TargetSize ?? 0,
  };
}

export function groupOf(group: AutoScalingGroup): ScalingGroup {
  return {
    name: group.AutoScalingGroupName ?? "",
    desiredCapacity: group.DesiredCapacity ?? 0,
    instances: (group.Instances ?? []).map((instance) => ({
      id: instance.InstanceId ?? "",
      type: instance.InstanceType ?? "",
      lifecycleState: instance.LifecycleState ?? "",
      healthStatus: instance.HealthStatus ?? "",
    })),
    tags: tagsOf(group.Tags),
  };
}

function tagsOf(
  list: readonly { readonly Key?: string | undefined; readonly Value?: string | undefined }[] | undefined,
): Tags {
  const tags: Record<string, string> = {};
  for (const { Key = "", Value = "" } of list ?? []) {
    // Users choose tag keys; no tag of the inventory has this key.
    if (Key !== "__proto__") tags[Key] = Value;
  }
  return tags;
}
