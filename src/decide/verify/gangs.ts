/** Gangs from KAI's PodGroups and Grove's PodGangs, read from the raw objects. */

import type { Pod } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { annotationKeys, labelKeys } from "../../model/scheduling/keys.ts";
import { levelIndex, type TopologyLevel } from "../../model/scheduling/topology.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";
import { placementOf } from "./placement.ts";

export interface Gang {
  /** `podgroups/team-a/train`. */
  readonly name: string;
  readonly members: readonly Pod[];
  readonly need: GangNeed;
  /** Node labels whose value all bound members must share. */
  readonly domains: readonly DomainRule[];
}

/** A group of pods with a minimum, or a group of subgroups of which a minimum must be met. */
export type GangNeed =
  | { readonly type: "pods"; readonly name: string; readonly pods: readonly Pod[]; readonly min: number }
  | { readonly type: "groups"; readonly name: string; readonly groups: readonly GangNeed[]; readonly min: number };

export interface DomainRule {
  readonly label: string;
  readonly members: readonly Pod[];
}

/** The maximum depth of subgroups, which also ends a cycle. */
const depthMax = 16;

const cache = new WeakMap<ClusterSnapshot, readonly Gang[]>();

export function gangsOf(snapshot: ClusterSnapshot): readonly Gang[] {
  const cached = cache.get(snapshot);
  if (cached !== undefined) return cached;
  const groups = objectsOf(snapshot, "podgroups");
  const gangs = [
    ...(groups.length === 0 ? [] : podGroupGangs(snapshot, groups)),
    ...objectsOf(snapshot, "podgangs").map((gang) => podGangGang(snapshot, gang)),
  ];
  cache.set(snapshot, gangs);
  return gangs;
}

const byPod = new WeakMap<ClusterSnapshot, ReadonlyMap<Pod, Gang>>();

export function gangOfPod(snapshot: ClusterSnapshot, pod: Pod): Gang | undefined {
  let index = byPod.get(snapshot);
  if (index === undefined) {
    index = new Map(gangsOf(snapshot).flatMap((gang) => gang.members.map((member) => [member, gang] as const)));
    byPod.set(snapshot, index);
  }
  return index.get(pod);
}

/** Whether the minimum is met by the pods for which `counts` is true. */
export function isMet(need: GangNeed, counts: (pod: Pod) => boolean): boolean {
  if (need.type === "pods") return need.pods.filter(counts).length >= need.min;
  return need.groups.filter((group) => isMet(group, counts)).length >= need.min;
}

/** The unmet minimums as text: `worker has 1 of 4`. */
export function shortfall(need: GangNeed, counts: (pod: Pod) => boolean): string {
  if (need.type === "pods") return `${need.name} has ${need.pods.filter(counts).length} of ${need.min}`;
  const short = need.groups.filter((group) => !isMet(group, counts)).map((group) => shortfall(group, counts));
  return short.join(", ");
}

function podGroupGangs(snapshot: ClusterSnapshot, groups: readonly KubeObject[]): Gang[] {
  const members = new Map<string, Pod[]>();
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    const group = pod.metadata.annotations?.[annotationKeys.podGroup];
    if (group === undefined) continue;
    const key = `${pod.metadata.namespace ?? ""}/${group}`;
    const there = members.get(key);
    if (there === undefined) members.set(key, [pod]);
    else there.push(pod);
  }
  return groups.map((group) => {
    const key = `${group.metadata.namespace ?? ""}/${group.metadata.name}`;
    return podGroupGang(snapshot, group, key, members.get(key) ?? []);
  });
}

function podGroupGang(snapshot: ClusterSnapshot, group: KubeObject, key: string, members: readonly Pod[]): Gang {
  const spec = record(group["spec"]);
  const subGroups = list(spec["subGroups"]).map(record);
  const domains: DomainRule[] = domainRules(snapshot, spec["topologyConstraint"], members);
  for (const sub of subGroups) {
    domains.push(...domainRules(snapshot, sub["topologyConstraint"], inSubtree(subGroups, text(sub["name"]), members)));
  }
  const need: GangNeed =
    subGroups.length === 0
      ? { type: "pods", name: "the gang", pods: members, min: whole(spec["minMember"]) ?? 1 }
      : subTree(subGroups, undefined, whole(spec["minSubGroup"]), members, 0);
  return { name: `podgroups/${key}`, members, need, domains };
}

function subTree(
  all: readonly Fields[],
  parent: string | undefined,
  minSubGroup: number | undefined,
  members: readonly Pod[],
  depth: number,
): GangNeed {
  const children = all.filter(({ parent: of }) => (text(of) || undefined) === parent);
  const groups = children.map((child): GangNeed => {
    const name = text(child["name"]);
    const isInner = depth < depthMax && all.some(({ parent: of }) => text(of) === name);
    if (isInner) return subTree(all, name, whole(child["minSubGroup"]), members, depth + 1);
    return { type: "pods", name, pods: membersNamed(members, name), min: whole(child["minMember"]) ?? 1 };
  });
  return { type: "groups", name: parent ?? "the gang", groups, min: minSubGroup ?? groups.length };
}

function inSubtree(all: readonly Fields[], name: string, members: readonly Pod[], depth = 0): readonly Pod[] {
  const children = all.filter(({ parent: of }) => text(of) === name && name !== "");
  if (children.length === 0 || depth >= depthMax) return membersNamed(members, name);
  return children.flatMap((child) => inSubtree(all, text(child["name"]), members, depth + 1));
}

function membersNamed(members: readonly Pod[], name: string): readonly Pod[] {
  return members.filter(({ metadata }) => metadata.labels?.[labelKeys.subGroup] === name);
}

/** Two nodes are in one domain when they agree on its level and on every level above it. */
function domainRules(snapshot: ClusterSnapshot, constraint: unknown, members: readonly Pod[]): DomainRule[] {
  const required = text(record(constraint)["requiredTopologyLevel"]);
  if (required === "") return [];
  const topologyName = text(record(constraint)["topology"]);
  const topology = objectsOf(snapshot, "topologies").find(({ metadata }) => metadata.name === topologyName);
  const levels = list(record(topology?.["spec"])["levels"]).flatMap((level): TopologyLevel[] => {
    const { nodeLabel, alias } = record(level);
    return text(nodeLabel) === "" ? [] : [{ nodeLabel: text(nodeLabel), alias: text(alias) }];
  });
  const at = levelIndex(levels, required);
  const labels = at < 0 ? [required] : levels.slice(0, at + 1).map(({ nodeLabel }) => nodeLabel);
  return labels.map((label) => ({ label, members }));
}

function podGangGang(snapshot: ClusterSnapshot, gang: KubeObject): Gang {
  const { podsByKey } = placementOf(snapshot);
  const spec = record(gang["spec"]);
  const domains: DomainRule[] = [];
  const all: Pod[] = [];
  const byGroup = new Map<string, readonly Pod[]>();
  const groups = list(spec["podgroups"]).map(record);
  const needs = groups.map((group): GangNeed => {
    const pods = list(group["podReferences"]).flatMap((reference) => {
      const { namespace, name } = record(reference);
      return podsByKey.get(`${text(namespace) || (gang.metadata.namespace ?? "")}/${text(name)}`) ?? [];
    });
    all.push(...pods);
    byGroup.set(text(group["name"]), pods);
    domains.push(...packRules(group["topologyConstraint"], pods));
    return { type: "pods", name: text(group["name"]), pods, min: whole(group["minReplicas"]) ?? 1 };
  });
  domains.push(...packRules(spec["topologyConstraint"], all));
  for (const config of list(spec["topologyConstraintGroupConfigs"]).map(record)) {
    const pods = list(config["podGroupNames"]).flatMap((name) => byGroup.get(text(name)) ?? []);
    domains.push(...packRules(config["topologyConstraint"], pods));
  }
  const name = `podgangs/${gang.metadata.namespace ?? ""}/${gang.metadata.name}`;
  const need: GangNeed = { type: "groups", name: "the gang", groups: needs, min: needs.length };
  return { name, members: all, need, domains };
}

function packRules(constraint: unknown, members: readonly Pod[]): DomainRule[] {
  const label = text(record(record(constraint)["packConstraint"])["required"]);
  return label === "" ? [] : [{ label, members }];
}

// Custom resources are not validated here: a field of the wrong type counts as absent.

type Fields = { readonly [field: string]: unknown };

export function record(value: unknown): Fields {
  return isObject(value) ? value : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}
