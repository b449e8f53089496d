/**
 * Node shapes by name: those that come with the program and those a user adds as YAML. An unknown name is an error that
 * lists the known ones, because a silent default would test the wrong hardware and pass.
 */
import { parseAllDocuments } from "yaml";
import type { Taint } from "../kubernetes.generated.ts";
import { isObject, type JsonObject } from "../objects/json.ts";
import { labelValueErrors, qualifiedNameErrors } from "../objects/names.ts";
import { UsageError, UserError } from "../userError.ts";
import { quantityError } from "../values/quantity.ts";
import { builtinProfiles } from "./builtin.ts";
import { migPartitionError } from "./mig.ts";
import type { GpuSpec, MigSpec, Profile, ProfileMatch } from "./profile.ts";
import { type TopologyScheme, type TopologySpec, topologySchemes } from "./topology.ts";

export type Profiles = ReadonlyMap<string, Profile>;

/** The built-in profiles and the given ones; a later one replaces an earlier one of its name. */
export function profilesWith(more: readonly Profile[] = []): Profiles {
  return new Map([...builtinProfiles, ...more].map((profile) => [profile.name, profile]));
}

export function findProfile(profiles: Profiles, name: string): Profile {
  const found = profiles.get(name) ?? profiles.get(name.toLowerCase());
  if (found !== undefined) return found;
  const known = [...profiles.keys()].join(", ");
  throw new UsageError("profile-unknown", `no node profile is named ${JSON.stringify(name)}`, `use one of: ${known}`);
}

/** The one profile for a role of a recipe. Zero and two matches are errors: a guess would run on the wrong shape. */
export function selectProfile(profiles: Profiles, wanted: ProfileMatch): Profile {
  const matches = [...profiles.values()].filter(
    ({ match }) =>
      match !== undefined &&
      match.service === wanted.service &&
      match.nodeType === wanted.nodeType &&
      (wanted.nodeType === "system" || match.accelerator === wanted.accelerator),
  );
  const asked = `service ${wanted.service}, ${wanted.nodeType}${wanted.accelerator ? `, ${wanted.accelerator}` : ""}`;
  const [first, second] = matches;
  if (first === undefined) {
    const known = [...profiles.values()].filter(({ match }) => match !== undefined).map(({ name }) => name);
    throw new UserError("profile-none-matches", `no node profile for ${asked}`, `add one; known: ${known.join(", ")}`);
  }
  if (second !== undefined) {
    const names = matches.map(({ name }) => name).join(", ");
    throw new UserError("profile-ambiguous", `several node profiles for ${asked}: ${names}`, "name the profile itself");
  }
  return first;
}

/** A pool of a cluster: `count` nodes of one profile, named `<name>-0` and so on. */
export interface Pool {
  readonly name: string;
  readonly profile: Profile;
  readonly count: number;
}

const poolShape = /^(?:([a-z0-9](?:[a-z0-9-]*[a-z0-9])?):)?([^=:]+)=([0-9]+)$/;
/** The number of nodes that a pool may have. */
const poolNodesMax = 999_999;

/** Reads `h100=400`, or `gpu:eks/p5-h100=4` for a pool with a name of its own. */
export function parsePool(text: string, profiles: Profiles): Pool {
  const match = poolShape.exec(text);
  const cure =
    "write --pool <profile>=<count> or --pool <name>:<profile>=<count>, such as --pool h100=4, or --pool none alone";
  if (match === null) throw new UsageError("pool-malformed", `cannot read the pool ${JSON.stringify(text)}`, cure);
  if (Number(match[3]) > poolNodesMax) {
    throw new UsageError(
      "pool-too-large",
      `the pool ${JSON.stringify(text)} has more than ${poolNodesMax} nodes`,
      `pass a count of at most ${poolNodesMax}`,
    );
  }
  const profile = findProfile(profiles, match[2] ?? "");
  const name = match[1] ?? profile.name.replace(/[^a-z0-9]+/g, "-");
  return { name, profile, count: Number(match[3]) };
}

/** Pools are distinguished by name: two of one name would be the same nodes. `none` alone is no pool at all. */
export function parsePools(texts: readonly string[], profiles: Profiles): Pool[] {
  if (texts.length === 1 && texts[0] === "none") return [];
  const pools = texts.map((text) => parsePool(text, profiles));
  const twice = pools.find(({ name }, at) => pools.some((other, before) => before < at && other.name === name));
  if (twice === undefined) return pools;
  throw new UsageError(
    "pool-repeated",
    `two pools are named ${JSON.stringify(twice.name)}`,
    `add up their counts, or name them apart: --pool other:${twice.profile.name}=${twice.count}`,
  );
}

/** Reads a stream of YAML documents: our own form, or AICR's `KWOKNodeProfile`. */
export function parseProfiles(text: string, source: string): Profile[] {
  const profiles: Profile[] = [];
  for (const [i, document] of parseAllDocuments(text).entries()) {
    const where = `${source}, document ${i + 1}`;
    const [syntax] = document.errors;
    if (syntax !== undefined) throw badProfile(where, [syntax.message]);
    const value: unknown = document.toJS();
    if (value === null || value === undefined) continue;
    if (!isObject(value)) throw badProfile(where, ["a profile is a mapping"]);
    profiles.push(value["kind"] === "KWOKNodeProfile" ? readAicrProfile(value, where) : readProfile(value, where));
  }
  return profiles;
}

function badProfile(where: string, errors: readonly string[]): UserError {
  const message = `the node profile in ${where} is not usable: ${errors.join("; ")}`;
  return new UserError(
    "profile-invalid",
    message,
    "correct the fields that are named; see the profiles under examples/",
  );
}

/** Collects all errors instead of stopping at the first one. */
class Fields {
  readonly errors: string[] = [];

  text(from: JsonObject, key: string, path: string, fallback?: string): string {
    const value = from[key];
    if (value === undefined && fallback !== undefined) return fallback;
    if (typeof value === "string" && value !== "") return value;
    this.errors.push(`${path}${key}: ${value === undefined ? "is required" : "must be a text"}`);
    return "";
  }

  optionalText(from: JsonObject, key: string, path: string): string | undefined {
    const value = from[key];
    if (value === undefined) return undefined;
    if (typeof value === "string") return value;
    this.errors.push(`${path}${key}: must be a text`);
    return undefined;
  }

  quantity(from: JsonObject, key: string, path: string): string {
    const value = from[key];
    const text = typeof value === "number" ? String(value) : value;
    if (typeof text !== "string")
      this.errors.push(`${path}${key}: ${value === undefined ? "is required" : "must be a quantity"}`);
    else if (quantityError(text) !== undefined || text.startsWith("-"))
      this.errors.push(`${path}${key}: ${JSON.stringify(text)} is not a quantity`);
    else return text;
    return "0";
  }

  count(
    from: JsonObject,
    key: string,
    path: string,
    { min, max, fallback }: { min: number; max: number; fallback?: number },
  ): number {
    const value = from[key];
    if (value === undefined && fallback !== undefined) return fallback;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    this.errors.push(`${path}${key}: must be a whole number from ${min} to ${max}`);
    return min;
  }

  oneOf<T extends string>(from: JsonObject, key: string, path: string, words: readonly T[], fallback: T): T {
    const value = from[key] ?? fallback;
    const found = words.find((word) => word === value);
    if (found === undefined) this.errors.push(`${path}${key}: must be one of ${words.join(", ")}`);
    return found ?? fallback;
  }

  flag(from: JsonObject, key: string, path: string): boolean | undefined {
    const value = from[key];
    if (value === undefined || typeof value === "boolean") return value;
    this.errors.push(`${path}${key}: must be true or false`);
    return undefined;
  }

  texts(from: JsonObject, key: string, path: string, isLabels: boolean): Record<string, string> | undefined {
    const value = from[key];
    if (value === undefined) return undefined;
    if (!isObject(value)) {
      this.errors.push(`${path}${key}: must be a mapping of texts`);
      return undefined;
    }
    const result: Record<string, string> = {};
    for (const [name, entry] of Object.entries(value)) {
      const text = String(entry);
      const wrong = [...qualifiedNameErrors(name), ...(isLabels ? labelValueErrors(text) : [])];
      if (wrong[0] !== undefined) this.errors.push(`${path}${key}[${name}]: ${wrong[0]}`);
      result[name] = text;
    }
    return result;
  }

  known(from: JsonObject, path: string, keys: readonly string[]): void {
    for (const key of Object.keys(from)) {
      if (!keys.includes(key)) this.errors.push(`${path}${key}: is not a field (known: ${keys.join(", ")})`);
    }
  }
}

const profileKeys = [
  "name",
  "arch",
  "osImage",
  "cpu",
  "memory",
  "storage",
  "maxPods",
  "instanceType",
  "kubeletVersion",
  "region",
  "zones",
  "labels",
  "annotations",
  "taints",
  "gpu",
  "topology",
  "match",
];

function readProfile(from: JsonObject, where: string): Profile {
  const fields = new Fields();
  fields.known(from, "", profileKeys);
  const gpu = from["gpu"] === undefined ? undefined : readGpu(fields, from["gpu"], "gpu.");
  const topology = from["topology"] === undefined ? undefined : readTopology(fields, from["topology"]);
  const zones = readZones(fields, from["zones"]);
  const profile: Profile = {
    name: fields.text(from, "name", ""),
    arch: fields.oneOf(from, "arch", "", ["amd64", "arm64"], "amd64"),
    osImage: fields.text(from, "osImage", "", "Ubuntu 22.04.5 LTS"),
    cpu: fields.quantity(from, "cpu", ""),
    memory: fields.quantity(from, "memory", ""),
    storage: fields.quantity({ storage: "100Gi", ...from }, "storage", ""),
    maxPods: fields.count(from, "maxPods", "", { min: 1, max: 1_000_000, fallback: gpu === undefined ? 110 : 250 }),
    ...optional("instanceType", fields.optionalText(from, "instanceType", "")),
    ...optional("kubeletVersion", fields.optionalText(from, "kubeletVersion", "")),
    ...optional("region", fields.optionalText(from, "region", "")),
    ...optional("zones", zones),
    ...optional("labels", fields.texts(from, "labels", "", true)),
    ...optional("annotations", fields.texts(from, "annotations", "", false)),
    ...optional("taints", readTaints(fields, from["taints"])),
    ...optional("gpu", gpu),
    ...optional("topology", topology),
  };
  if (fields.errors.length > 0) throw badProfile(where, fields.errors);
  return profile;
}

const gpuKeys = [
  "product",
  "count",
  "memoryMiB",
  "driver",
  "family",
  "computeCapability",
  "cuda",
  "migCapable",
  "mig",
  "replicas",
  "clique",
  "numaNodes",
];

function readGpu(fields: Fields, from: unknown, path: string): GpuSpec | undefined {
  if (!isObject(from)) {
    fields.errors.push("gpu: must be a mapping");
    return undefined;
  }
  fields.known(from, path, gpuKeys);
  const driver = fields.text(from, "driver", path, "570.86.16");
  if (!/^[0-9]+\.[0-9]+(\.[0-9]+)?$/.test(driver)) fields.errors.push(`${path}driver: must look like 570.86.16`);
  const memoryMiB = fields.count(from, "memoryMiB", path, { min: 1, max: 10_000_000 });
  const migCapable = fields.flag(from, "migCapable", path);
  const mig = from["mig"] === undefined ? undefined : readMig(fields, from["mig"], `${path}mig.`, memoryMiB);
  if (mig !== undefined && mig.strategy !== "none" && migCapable === false) {
    fields.errors.push(`${path}mig: this part is not MIG capable`);
  }
  return {
    product: fields.text(from, "product", path),
    count: fields.count(from, "count", path, { min: 1, max: 64 }),
    memoryMiB,
    driver,
    ...optional("family", fields.optionalText(from, "family", path)),
    ...optional("computeCapability", fields.optionalText(from, "computeCapability", path)),
    ...optional("cuda", fields.optionalText(from, "cuda", path)),
    ...optional("migCapable", migCapable ?? (mig === undefined ? undefined : true)),
    ...optional("mig", mig),
    replicas: fields.count(from, "replicas", path, { min: 1, max: 128, fallback: 1 }),
    ...optional("clique", fields.flag(from, "clique", path)),
    numaNodes: fields.count(from, "numaNodes", path, { min: 1, max: 16, fallback: 2 }),
  };
}

function readMig(fields: Fields, from: unknown, path: string, memoryMiB: number): MigSpec | undefined {
  if (!isObject(from)) {
    fields.errors.push("gpu.mig: must be a mapping");
    return undefined;
  }
  fields.known(from, path, ["strategy", "partitions"]);
  const strategy = fields.oneOf(from, "strategy", path, ["none", "single", "mixed"], "mixed");
  const partitions: Record<string, number> = {};
  const given = from["partitions"] ?? {};
  if (!isObject(given)) fields.errors.push(`${path}partitions: must map a partition profile to a count`);
  else
    for (const name of Object.keys(given))
      partitions[name] = fields.count(given, name, `${path}partitions.`, { min: 0, max: 7 });
  const mig = { strategy, partitions };
  const wrong = migPartitionError(mig, memoryMiB);
  if (wrong !== undefined) fields.errors.push(`${path}partitions: ${wrong}`);
  return mig;
}

function readTopology(fields: Fields, from: unknown): TopologySpec | undefined {
  if (!isObject(from)) {
    fields.errors.push("topology: must be a mapping");
    return undefined;
  }
  const sizes = ["traysPerRack", "nodesPerLeaf", "leavesPerSpine", "spinesPerCore"] as const;
  fields.known(from, "topology.", ["scheme", "holes", ...sizes]);
  const scheme: TopologyScheme = fields.oneOf(from, "scheme", "topology.", topologySchemes, "topograph");
  const result: { -readonly [K in keyof TopologySpec]: TopologySpec[K] } = { scheme };
  for (const size of sizes) {
    if (from[size] !== undefined) result[size] = fields.count(from, size, "topology.", { min: 1, max: 100_000 });
  }
  const holes = from["holes"];
  if (typeof holes === "number" && holes >= 0 && holes <= 0.9) result.holes = holes;
  else if (holes !== undefined) fields.errors.push("topology.holes: must be a number from 0 to 0.9");
  return result;
}

function readZones(fields: Fields, from: unknown): string[] | undefined {
  if (from === undefined) return undefined;
  if (Array.isArray(from) && from.length > 0 && from.every((zone) => typeof zone === "string")) return from;
  fields.errors.push("zones: must be a list of texts");
  return undefined;
}

function readTaints(fields: Fields, from: unknown): Taint[] | undefined {
  if (from === undefined) return undefined;
  if (!Array.isArray(from)) {
    fields.errors.push("taints: must be a list");
    return undefined;
  }
  return from.map((taint: unknown, i) => {
    const path = `taints[${i}].`;
    const given = isObject(taint) ? taint : {};
    fields.known(given, path, ["key", "value", "effect"]);
    const value = fields.optionalText(given, "value", path);
    const effect = fields.oneOf(given, "effect", path, ["NoSchedule", "PreferNoSchedule", "NoExecute"], "NoSchedule");
    return { key: fields.text(given, "key", path), effect, ...optional("value", value) };
  });
}

/** AICR's own files, in either of their two API versions. */
function readAicrProfile(from: JsonObject, where: string): Profile {
  const fields = new Fields();
  const metadata = isObject(from["metadata"]) ? from["metadata"] : {};
  const labels = isObject(metadata["labels"]) ? metadata["labels"] : {};
  const spec = isObject(from["spec"]) ? from["spec"] : {};
  const resources = isObject(spec["resources"]) ? spec["resources"] : {};
  const given = isObject(spec["gpu"]) ? spec["gpu"] : undefined;
  const service = fields.text(labels, "provider", "metadata.labels.");
  const nodeType = fields.oneOf(labels, "nodeType", "metadata.labels.", ["system", "accelerated"], "system");
  const accelerator = fields.optionalText(labels, "accelerator", "metadata.labels.");
  const count = given === undefined ? 0 : fields.count(given, "count", "spec.gpu.", { min: 0, max: 64, fallback: 0 });
  const gpu: GpuSpec | undefined =
    given === undefined || count === 0
      ? undefined
      : {
          product: fields.text(given, "product", "spec.gpu."),
          count,
          memoryMiB: fields.count({ memory: Number(given["memory"]) }, "memory", "spec.gpu.", {
            min: 1,
            max: 10_000_000,
          }),
          driver: fields.text(given, "driver", "spec.gpu."),
        };
  const name = fields.text(metadata, "name", "metadata.");
  const profile: Profile = {
    name: name.includes("/") ? name : `${service}/${name}`,
    arch: fields.oneOf(spec, "arch", "spec.", ["amd64", "arm64"], "amd64"),
    osImage: fields.text(spec, "osImage", "spec.", "Ubuntu 22.04.4 LTS"),
    cpu: fields.quantity(resources, "cpu", "spec.resources."),
    memory: fields.quantity(resources, "memory", "spec.resources."),
    storage: fields.quantity(resources, "storage", "spec.resources."),
    maxPods: gpu === undefined ? 110 : 250,
    kubeletVersion: "v1.33.5",
    region: "us-east-1",
    zones: ["us-east-1a", "us-east-1b"],
    labels: {
      "aicr.nvidia.com/node-type": nodeType,
      ...(nodeType === "system" ? { "node-role.kubernetes.io/control-plane": "" } : {}),
    },
    ...(gpu === undefined ? {} : { gpu, annotations: { "nvidia.com/gpu.driver.version": gpu.driver } }),
    ...optional("instanceType", fields.optionalText(spec, "instanceType", "spec.")),
    match: { service, nodeType, ...optional("accelerator", accelerator) },
  };
  if (fields.errors.length > 0) throw badProfile(where, fields.errors);
  return profile;
}

/** `{ key: value }`, or nothing at all: absent and undefined are different here. */
function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}
