/** Auto Scaling's query protocol (2011-01-01): form parameters in, XML out. */
import type { ScalingGroup } from "../model/inventory/cloud.ts";
import type { StandInCloud } from "./cloud.ts";
import { CloudError } from "./cloudError.ts";
import type { Filter } from "./filters.ts";
import { element, list, xmlHead } from "./xml.ts";

const namespace = "http://autoscaling.amazonaws.com/doc/2011-01-01/";

export function answerAutoScaling(cloud: StandInCloud, params: URLSearchParams): string {
  const action = params.get("Action") ?? "";
  if (action !== "DescribeAutoScalingGroups") {
    cloud.mutations.push(action);
    throw new CloudError("InvalidAction", 400, `Could not find operation ${action}`);
  }
  const filters: Filter[] = [];
  for (let n = 1; params.has(`Filters.member.${n}.Name`); n++) {
    const values = membersOf(params, `Filters.member.${n}.Values.member`);
    filters.push({ name: params.get(`Filters.member.${n}.Name`) ?? "", values });
  }
  const names = membersOf(params, "AutoScalingGroupNames.member");
  const size = params.get("MaxRecords");
  // A larger page takes more names as well.
  const namesMax = Math.min(100, Math.max(50, Number(size ?? 50)));
  if (names.length > namesMax) throw new CloudError("ValidationError", 400, `at most ${namesMax} names`);
  const token = params.get("NextToken");
  const { items, token: next } = cloud.describeGroups({
    filters,
    ...(names.length === 0 ? {} : { ids: names }),
    ...(size === null ? {} : { pageSize: Number(size) }),
    ...(token === null || token === "" ? {} : { token }),
  });
  const zone = `${cloud.region}a`;
  const withInstances = params.get("IncludeInstances") !== "false";
  const groups = items.map((group) =>
    groupXml(withInstances ? group : { ...group, instances: [] }, zone, cloud.account),
  );
  const result = list("AutoScalingGroups", "member", groups) + (next === undefined ? "" : element("NextToken", next));
  return `${xmlHead}<${action}Response xmlns="${namespace}"><${action}Result>${result}</${action}Result><ResponseMetadata><RequestId>standin</RequestId></ResponseMetadata></${action}Response>`;
}

function groupXml(group: ScalingGroup, zone: string, account: string): string {
  const instances = group.instances.map(({ id, type, lifecycleState, healthStatus }) =>
    [
      element("InstanceId", id),
      element("InstanceType", type),
      element("AvailabilityZone", zone),
      element("LifecycleState", lifecycleState),
      element("HealthStatus", healthStatus),
      element("ProtectedFromScaleIn", false),
    ].join(""),
  );
  const tags = Object.entries(group.tags).map(([key, value]) =>
    [
      element("ResourceId", group.name),
      element("ResourceType", "auto-scaling-group"),
      element("Key", key),
      element("Value", value),
      element("PropagateAtLaunch", true),
    ].join(""),
  );
  return [
    element("AutoScalingGroupName", group.name),
    element(
      "AutoScalingGroupARN",
      `arn:aws:autoscaling:${zone.slice(0, -1)}:${account}:autoScalingGroup:x:autoScalingGroupName/${group.name}`,
    ),
    element("MinSize", 0),
    element("MaxSize", Math.max(group.desiredCapacity, instances.length)),
    element("DesiredCapacity", group.desiredCapacity),
    element("DefaultCooldown", 300),
    list("AvailabilityZones", "member", [zone]),
    element("HealthCheckType", "EC2"),
    element("HealthCheckGracePeriod", 0),
    element("CreatedTime", "2026-01-01T00:00:00Z"),
    list("Instances", "member", instances),
    list("Tags", "member", tags),
  ].join("");
}

function membersOf(params: URLSearchParams, name: string): string[] {
  const found: string[] = [];
  for (let n = 1; params.has(`${name}.${n}`); n++) found.push(params.get(`${name}.${n}`) ?? "");
  return found;
}

export function queryError({ code, message, status }: CloudError, namespaceOf = namespace): string {
  const type = status < 500 ? "Sender" : "Receiver";
  const error = element("Type", type) + element("Code", code) + element("Message", message);
  return `${xmlHead}<ErrorResponse xmlns="${namespaceOf}"><Error>${error}</Error><RequestId>standin</RequestId></ErrorResponse>`;
}
