/** EC2's query protocol (2016-11-15): form parameters in, XML out. */
import type { ScalingGroup, VolumeModification } from "../model/inventory/cloud.ts";
import type { ListQuery, Page, StandInCloud, StandInSnapshot, StandInVolume } from "./cloud.ts";
import { CloudError } from "./cloudError.ts";
import type { Filter } from "./filters.ts";
import { element, list, xmlHead } from "./xml.ts";

const namespace = "http://ec2.amazonaws.com/doc/2016-11-15/";

export function answerEc2(cloud: StandInCloud, params: URLSearchParams): string {
  const action = params.get("Action") ?? "";
  switch (action) {
    case "DescribeVolumes":
      return answer(action, "volumeSet", cloud.describeVolumes(queryOf(params, "VolumeId")), volumeXml);
    case "DescribeSnapshots": {
      const owners = membersOf(params, "Owner");
      if (owners.some((owner) => owner !== "self" && owner !== cloud.account))
        return answer(action, "snapshotSet", none, snapshotXml(""));
      return answer(
        action,
        "snapshotSet",
        cloud.describeSnapshots(queryOf(params, "SnapshotId")),
        snapshotXml(cloud.account),
      );
    }
    case "DescribeVolumesModifications": {
      const query = queryOf(params, "VolumeId");
      return answer(action, "volumeModificationSet", cloud.describeModifications(query), modificationXml);
    }
    case "DescribeInstances":
      return instances(cloud, membersOf(params, "InstanceId"));
    case "DescribeAvailabilityZones": {
      const zones = ["a", "b", "c"].map((letter) =>
        [
          element("zoneName", `${cloud.region}${letter}`),
          element("zoneState", "available"),
          element("regionName", cloud.region),
        ].join(""),
      );
      return wrap(action, list("availabilityZoneInfo", "item", zones));
    }
    default:
      // Whoever tries to change something through here is remembered; the inventory never does.
      cloud.mutations.push(action);
      throw new CloudError("InvalidAction", 400, `The action ${action} is not valid for this web service.`);
  }
}

const none: Page<never> = { items: [], token: undefined };

function queryOf(params: URLSearchParams, idName: string): ListQuery {
  const filters: Filter[] = [];
  for (let n = 1; params.has(`Filter.${n}.Name`); n++) {
    filters.push({ name: params.get(`Filter.${n}.Name`) ?? "", values: membersOf(params, `Filter.${n}.Value`) });
  }
  const size = params.get("MaxResults");
  const token = params.get("NextToken");
  return {
    filters,
    ids: membersOf(params, idName),
    ...(size === null ? {} : { pageSize: Number(size) }),
    ...(token === null || token === "" ? {} : { token }),
  };
}

/** `Name.1`, `Name.2` and so on. */
function membersOf(params: URLSearchParams, name: string): string[] {
  const found: string[] = [];
  for (let n = 1; params.has(`${name}.${n}`); n++) found.push(params.get(`${name}.${n}`) ?? "");
  return found;
}

function answer<T>(action: string, set: string, { items, token }: Page<T>, xml: (item: T) => string): string {
  return wrap(action, list(set, "item", items.map(xml)) + (token === undefined ? "" : element("nextToken", token)));
}

function wrap(action: string, body: string): string {
  return `${xmlHead}<${action}Response xmlns="${namespace}"><requestId>standin</requestId>${body}</${action}Response>`;
}

function volumeXml(volume: StandInVolume): string {
  const attachments = volume.attachments.map(({ instanceId, state }) =>
    [
      element("volumeId", volume.id),
      element("instanceId", instanceId),
      element("device", "/dev/sdf"),
      element("status", state),
      element("attachTime", isoOf(volume.createdMs)),
      element("deleteOnTermination", false),
    ].join(""),
  );
  return [
    element("volumeId", volume.id),
    element("size", volume.sizeGb),
    element("snapshotId", volume.snapshotId),
    element("availabilityZone", volume.zone),
    element("status", volume.state),
    element("createTime", isoOf(volume.createdMs)),
    list("attachmentSet", "item", attachments),
    tagSet(volume.tags),
    element("volumeType", "gp3"),
    element("iops", 3000),
    element("throughput", 125),
    element("encrypted", true),
    element("multiAttachEnabled", volume.attachments.length > 1),
  ].join("");
}

function snapshotXml(account: string): (snapshot: StandInSnapshot) => string {
  return (snapshot) => {
    const done = snapshot.state === "completed";
    return [
      element("snapshotId", snapshot.id),
      element("volumeId", snapshot.volumeId),
      element("status", snapshot.state),
      element("startTime", isoOf(snapshot.startedMs)),
      ...(done ? [element("completionTime", isoOf(snapshot.startedMs + 60_000))] : []),
      element("progress", done ? "100%" : "5%"),
      element("ownerId", account),
      element("volumeSize", snapshot.sizeGb),
      element("description", snapshot.description),
      element("storageTier", "standard"),
      tagSet(snapshot.tags),
    ].join("");
  };
}

function modificationXml({ volumeId, state, targetSizeGb }: VolumeModification): string {
  return [
    element("volumeId", volumeId),
    element("modificationState", state),
    element("targetSize", targetSizeGb),
    element("progress", state === "completed" ? 100 : 10),
  ].join("");
}

function instances(cloud: StandInCloud, ids: readonly string[]): string {
  const found: string[] = [];
  const byGroup = [...cloud.groups.values()].flatMap((group: ScalingGroup) => group.instances);
  for (const { id, type, lifecycleState } of byGroup) {
    if (ids.length > 0 && !ids.includes(id)) continue;
    const state = lifecycleState.startsWith("Terminat") ? "shutting-down" : "running";
    found.push(
      [
        element("instanceId", id),
        `<instanceState>${element("name", state)}</instanceState>`,
        element("instanceType", type),
        `<placement>${element("availabilityZone", `${cloud.region}a`)}</placement>`,
      ].join(""),
    );
  }
  const reservations = found.map(
    (each) => `${element("reservationId", "r-standin")}<instancesSet><item>${each}</item></instancesSet>`,
  );
  return wrap("DescribeInstances", list("reservationSet", "item", reservations));
}

function tagSet(tags: Readonly<Record<string, string>>): string {
  const items = Object.entries(tags).map(([key, value]) => element("key", key) + element("value", value));
  return list("tagSet", "item", items);
}

function isoOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

export function ec2Error({ code, message }: CloudError): string {
  const error = element("Code", code) + element("Message", message);
  return `${xmlHead}<Response><Errors><Error>${error}</Error></Errors><RequestID>standin</RequestID></Response>`;
}
