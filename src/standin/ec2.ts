/** EC2's query protocol (2016-11-15): form parameters in, XML out. */
import type { VolumeModification } from "../model/inventory/cloud.ts";
import type { ListQuery, Page, StandInCloud, StandInSnapshot, StandInVolume } from "./cloud.ts";
import { CloudError } from "./cloudError.ts";
import { isoOf, progressOf, type StandInInstance, stateOf, volumeKind, zoneIdOf } from "./fields.ts";
import { type Filter, matcher } from "./filters.ts";
import { element, list, xmlHead } from "./xml.ts";

const namespace = "http://ec2.amazonaws.com/doc/2016-11-15/";

export function answerEc2(cloud: StandInCloud, params: URLSearchParams): string {
  const action = params.get("Action") ?? "";
  if (described.has(action) && params.get("DryRun") === "true") {
    throw new CloudError("DryRunOperation", 412, "Request would have succeeded, but DryRun flag is set.");
  }
  switch (action) {
    case "DescribeVolumes":
      return answer(action, "volumeSet", cloud.describeVolumes(queryOf(params, "VolumeId")), volumeXml);
    case "DescribeSnapshots": {
      const owners = membersOf(params, "Owner");
      // One matching owner is enough. All simulated snapshots belong to the account.
      const isOurs = owners.length === 0 || owners.some((owner) => owner === "self" || owner === cloud.account);
      if (!isOurs) return answer(action, "snapshotSet", none, snapshotXml(""));
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
      return answer(action, "reservationSet", cloud.describeInstances(queryOf(params, "InstanceId")), instanceXml);
    case "DescribeAvailabilityZones":
      return wrap(action, list("availabilityZoneInfo", "item", zones(cloud, params)));
    default:
      // Attempts to change the cloud are recorded; the inventory makes none.
      cloud.mutations.push(action);
      throw new CloudError("InvalidAction", 400, `The action ${action} is not valid for this web service.`);
  }
}

const described = new Set([
  "DescribeVolumes",
  "DescribeSnapshots",
  "DescribeVolumesModifications",
  "DescribeInstances",
  "DescribeAvailabilityZones",
]);

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
      element("device", volumeKind.device),
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
    element("volumeType", volumeKind.type),
    element("iops", volumeKind.iops),
    element("throughput", volumeKind.throughput),
    element("encrypted", volumeKind.encrypted),
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
      element("progress", progressOf(snapshot)),
      element("encrypted", volumeKind.encrypted),
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

function instanceXml(instance: StandInInstance): string {
  const item = [
    element("instanceId", instance.id),
    `<instanceState>${element("name", stateOf(instance))}</instanceState>`,
    element("instanceType", instance.type),
    `<placement>${element("availabilityZone", instance.zone)}</placement>`,
    tagSet(instance.tags),
  ].join("");
  return `${element("reservationId", "r-standin")}<instancesSet><item>${item}</item></instancesSet>`;
}

function zones(cloud: StandInCloud, params: URLSearchParams): string[] {
  const all = ["a", "b", "c"].map((letter) => `${cloud.region}${letter}`);
  const names = membersOf(params, "ZoneName");
  const ids = membersOf(params, "ZoneId");
  const unknown = names.find((name) => !all.includes(name)) ?? ids.find((id) => !all.map(zoneIdOf).includes(id));
  if (unknown !== undefined) {
    throw new CloudError("InvalidParameterValue", 400, `Invalid availability zone: [${unknown}]`);
  }
  const { filters } = queryOf(params, "ZoneName");
  const fields: Readonly<Record<string, (zone: string) => string>> = {
    "zone-name": (zone) => zone,
    "zone-id": zoneIdOf,
    "region-name": () => cloud.region,
    state: () => "available",
    "zone-type": () => "availability-zone",
    "opt-in-status": () => "opt-in-not-required",
  };
  const unknownFilter = filters.find(({ name }) => fields[name] === undefined);
  if (unknownFilter !== undefined) {
    throw new CloudError("InvalidParameterValue", 400, `the filter '${unknownFilter.name}' is invalid`);
  }
  const test = matcher(filters);
  return all
    .filter((zone) => names.length === 0 || names.includes(zone))
    .filter((zone) => ids.length === 0 || ids.includes(zoneIdOf(zone)))
    .filter((zone) => test((name) => [fields[name]?.(zone) ?? ""]))
    .map((zone) =>
      [
        element("zoneName", zone),
        element("zoneId", zoneIdOf(zone)),
        element("zoneState", "available"),
        element("zoneType", "availability-zone"),
        element("optInStatus", "opt-in-not-required"),
        element("regionName", cloud.region),
      ].join(""),
    );
}

function tagSet(tags: Readonly<Record<string, string>>): string {
  const items = Object.entries(tags).map(([key, value]) => element("key", key) + element("value", value));
  return list("tagSet", "item", items);
}

export function ec2Error({ code, message }: CloudError): string {
  const error = element("Code", code) + element("Message", message);
  return `${xmlHead}<Response><Errors><Error>${error}</Error></Errors><RequestID>standin</RequestID></Response>`;
}
