/**
 * Reads a simulated cloud and its faults from a file. An invalid field is refused with its path and the expected value.
 */
import { parseDuration } from "../cel/time.ts";
import { UsageError, type UserError } from "../model/userError.ts";
import type { StandInCloud } from "./cloud.ts";
import type { CloudFaults, FailKind, FailRule } from "./faults.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Adds the objects of a scenario to the cloud. `age` is relative to now. */
export function applyScenario(cloud: StandInCloud, scenario: unknown): void {
  const top = new Reader(scenario, "scenario");
  top.only(["account", "region", "groups", "volumes", "snapshots", "modifications", "clusters", "faults"]);
  cloud.account = top.text("account", cloud.account);
  cloud.region = top.text("region", cloud.region);
  for (const group of top.list("groups")) {
    group.only(["name", "tags", "desired", "instances"]);
    const instances = group.values("instances").map((value, index) => {
      if (typeof value === "string")
        return { id: value, type: "", lifecycleState: "InService", healthStatus: "Healthy" };
      const instance = new Reader(value, `${group.path}.instances[${index}]`);
      instance.only(["id", "type", "state", "health"]);
      return {
        id: instance.text("id"),
        type: instance.text("type", ""),
        lifecycleState: instance.text("state", "InService"),
        healthStatus: instance.text("health", "Healthy"),
      };
    });
    const name = group.text("name");
    cloud.groups.set(name, {
      name,
      desiredCapacity: group.count("desired", instances.length),
      instances,
      tags: group.tags(),
    });
  }
  for (const volume of top.list("volumes")) {
    volume.only(["id", "size", "state", "user", "disk", "tags", "age", "snapshot", "attached", "attachment"]);
    const id = volume.text("id");
    const instance = volume.text("attached", "");
    cloud.createVolume({
      id,
      sizeGb: volume.count("size", 100),
      state: volume.text("state", instance === "" ? "available" : "in-use"),
      createdMs: cloud.nowMs - volume.duration("age"),
      snapshotId: volume.text("snapshot", ""),
      attachments: instance === "" ? [] : [{ instanceId: instance, state: volume.text("attachment", "attached") }],
      tags: volume.diskTags(),
    });
  }
  for (const snapshot of top.list("snapshots")) {
    snapshot.only(["id", "volume", "state", "user", "disk", "tags", "age", "description"]);
    cloud.putSnapshot({
      id: snapshot.text("id"),
      volumeId: snapshot.text("volume"),
      state: snapshot.text("state", "completed"),
      startedMs: cloud.nowMs - snapshot.duration("age"),
      description: snapshot.text("description", ""),
      tags: snapshot.diskTags(),
    });
  }
  for (const modification of top.list("modifications")) {
    modification.only(["volume", "state", "size"]);
    const volumeId = modification.text("volume");
    const state = modification.text("state");
    cloud.modifications.set(volumeId, { volumeId, state, targetSizeGb: modification.count("size", 0) });
  }
  for (const cluster of top.list("clusters")) {
    cluster.only(["name", "endpoint", "certificateAuthority"]);
    const name = cluster.text("name");
    const certificateAuthority = cluster.text("certificateAuthority", "");
    cloud.clusters.set(name, { name, endpoint: cluster.text("endpoint"), certificateAuthority });
  }
  const faults = top.value("faults");
  if (faults !== undefined) cloud.setFaults(readFaults(faults));
}

const failKinds: readonly FailKind[] = [
  "throttle",
  "internal",
  "unavailable",
  "denied",
  "notSigned",
  "expiredCredentials",
  "expiredToken",
  "truncated",
  "unrelated",
  "hangUp",
];

export function readFaults(value: unknown): CloudFaults {
  const faults = new Reader(value, "faults");
  faults.only(["bucket", "latencyMs", "fail", "staleMs", "emptyPageEvery", "repeatItems", "shuffle", "clockSkewMs"]);
  const bucket = faults.value("bucket");
  const size = bucket === undefined ? undefined : new Reader(bucket, "faults.bucket");
  const fail = faults.list("fail").map((rule): FailRule => {
    rule.only(["operation", "call", "times", "how"]);
    const how = failKinds.find((kind) => kind === rule.text("how"));
    if (how === undefined) throw invalidField(`${rule.path}.how`, rule.value("how"), failKinds.join(", "));
    return {
      how,
      ...(rule.value("operation") === undefined ? {} : { operation: rule.text("operation") }),
      ...(rule.value("call") === undefined ? {} : { call: rule.count("call", 1) }),
      ...(rule.value("times") === undefined ? {} : { times: rule.count("times", 1) }),
    };
  });
  return {
    ...(size === undefined
      ? {}
      : { bucket: { size: size.count("size", 100), perSecond: size.count("perSecond", 20) } }),
    ...(fail.length === 0 ? {} : { fail }),
    latencyMs: faults.count("latencyMs", 0),
    staleMs: faults.count("staleMs", 0),
    emptyPageEvery: faults.count("emptyPageEvery", 0),
    repeatItems: faults.flag("repeatItems"),
    shuffle: faults.flag("shuffle"),
    clockSkewMs: faults.count("clockSkewMs", 0),
  };
}

class Reader {
  readonly path: string;
  private readonly fields: Fields;

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw invalidField(path, value, "an object");
    this.fields = value as Fields;
    this.path = path;
  }

  only(known: readonly string[]): void {
    for (const name of Object.keys(this.fields)) {
      if (!known.includes(name))
        throw invalidField(`${this.path}.${name}`, this.fields[name], `one of ${known.join(", ")}`);
    }
  }

  value(name: string): unknown {
    return Object.hasOwn(this.fields, name) ? this.fields[name] : undefined;
  }

  text(name: string, fallback?: string): string {
    const value = this.value(name) ?? fallback;
    if (typeof value !== "string" || (fallback === undefined && value === ""))
      throw invalidField(`${this.path}.${name}`, value, "a string");
    return value;
  }

  count(name: string, fallback: number): number {
    const value = this.value(name) ?? fallback;
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
      throw invalidField(`${this.path}.${name}`, value, "a non-negative integer");
    }
    return value;
  }

  flag(name: string): boolean {
    const value = this.value(name) ?? false;
    if (typeof value !== "boolean") throw invalidField(`${this.path}.${name}`, value, "true or false");
    return value;
  }

  /** A duration in milliseconds; 0 when the field is missing. */
  duration(name: string): number {
    const value = this.value(name) ?? "0s";
    const nanos = typeof value === "string" ? parseDuration(value) : undefined;
    if (nanos === undefined || nanos < 0n) throw invalidField(`${this.path}.${name}`, value, "a duration such as 36h");
    return Number(nanos / 1_000_000n);
  }

  values(name: string): readonly unknown[] {
    const value = this.value(name) ?? [];
    if (!Array.isArray(value)) throw invalidField(`${this.path}.${name}`, value, "a list");
    return value;
  }

  list(name: string): Reader[] {
    return this.values(name).map((value, index) => new Reader(value, `${this.path}.${name}[${index}]`));
  }

  tags(): Record<string, string> {
    const value = this.value("tags") ?? {};
    const tags = new Reader(value, `${this.path}.tags`);
    return Object.fromEntries(Object.keys(value as object).map((name) => [name, tags.text(name, "")]));
  }

  /** `user` and `disk` are shorthand for the tags of a user's disk. */
  diskTags(): Record<string, string> {
    const user = this.text("user", "");
    const disk = this.text("disk", "");
    return {
      ...(user === "" ? {} : { "gpu-dev-user": user }),
      ...(disk === "" ? {} : { disk_name: disk }),
      ...this.tags(),
    };
  }
}

function invalidField(path: string, value: unknown, expected: string): UserError {
  const shown = JSON.stringify(value) ?? "nothing";
  return new UsageError(
    "cloud-scenario-invalid",
    `${path} is ${shown}, which is not valid`,
    `set ${path} to ${expected}`,
  );
}
