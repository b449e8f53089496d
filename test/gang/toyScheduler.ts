/**
 * A scheduler small enough to read, for tests: a node has room for one pod. Gangs of `kai-scheduler` are placed by
 * their PodGroups, the minimum of every subgroup at once or nothing, base gangs first, extras last; pods of
 * `default-scheduler` are placed one by one.
 */
import { labels } from "../../src/model/gang/keys.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { PodGroup, SubGroup, TopologyConstraint } from "../../src/model/scheduling/podGroup.ts";
import type { Topology } from "../../src/model/scheduling/topology.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

const pods = builtin.Pod;

export interface SchedulerView {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly podGroups: readonly PodGroup[];
  readonly topologies: readonly Topology[];
  readonly podsPerNode: number;
}

const isDone = ({ status }: Pod): boolean => status?.phase === "Succeeded" || status?.phase === "Failed";
const isWaiting = (pod: Pod): boolean =>
  (pod.spec?.nodeName ?? "") === "" &&
  (pod.spec?.schedulingGates ?? []).length === 0 &&
  pod.metadata.deletionTimestamp === undefined &&
  !isDone(pod);
const byName = (a: { metadata: { name: string } }, b: { metadata: { name: string } }): number =>
  a.metadata.name < b.metadata.name ? -1 : 1;

/** One cycle; returns the number of bound pods. */
export async function schedulePods(kube: KubeApi, view: SchedulerView): Promise<number> {
  const room = new Map<string, number>();
  const nodes = view.nodes.filter(isUsable).sort(byName);
  for (const { metadata } of nodes) {
    const used = view.pods.filter(
      ({ spec, ...pod }) => spec?.nodeName === metadata.name && !isDone({ spec, ...pod } as Pod),
    );
    room.set(metadata.name, view.podsPerNode - used.length);
  }
  const placed: [Pod, string][] = [];
  const groups = [...view.podGroups].sort((a, b) => gangRank(a, view) - gangRank(b, view) || byName(a, b));
  const extras: [Pod, PodGroup][] = [];
  for (const group of groups) {
    const { minimum, rest } = pending(group, view.pods);
    if (minimum === undefined) continue;
    const where = place(minimum, group, nodes, room, view);
    if (where === undefined) continue;
    for (const [pod, node] of where) {
      room.set(node, (room.get(node) ?? 0) - 1);
      placed.push([pod, node]);
    }
    for (const pod of rest) extras.push([pod, group]);
  }
  for (const [pod, group] of extras) {
    const where = place([pod], group, nodes, room, view)?.[0];
    if (where === undefined) continue;
    room.set(where[1], (room.get(where[1]) ?? 0) - 1);
    placed.push(where);
  }
  const plain = view.pods.filter((pod) => isWaiting(pod) && pod.spec?.schedulerName === "default-scheduler");
  for (const pod of [...plain].sort(byName)) {
    const node = nodes.find(({ metadata }) => (room.get(metadata.name) ?? 0) > 0);
    if (node === undefined) break;
    room.set(node.metadata.name, (room.get(node.metadata.name) ?? 0) - 1);
    placed.push([pod, node.metadata.name]);
  }
  let bound = 0;
  for (const [pod, node] of placed) {
    const { namespace = "default", name, uid, resourceVersion } = pod.metadata;
    const outcome = await kube.bind({ ...pods, namespace, name }, { node, uid, resourceVersion });
    if (outcome.ok) bound++;
  }
  return bound;
}

function isUsable({ spec, status }: Node): boolean {
  const ready = status?.conditions?.find(({ type }) => type === "Ready")?.status;
  return spec?.unschedulable !== true && ready !== "False" && ready !== "Unknown";
}

/** Base gangs before those beyond the minimum. */
function gangRank({ metadata }: PodGroup, { pods: all }: SchedulerView): number {
  const member = all.find((pod) => pod.metadata.labels?.[labels.podGang] === metadata.name);
  return member?.metadata.labels?.[labels.basePodGang] === undefined ? 0 : 1;
}

const leavesOf = ({ spec }: PodGroup): SubGroup[] =>
  (spec?.subGroups ?? []).filter(({ minMember }) => minMember != null);

/** The pending pods up to every minimum, or none if some of them do not exist; and those beyond. */
function pending(group: PodGroup, all: readonly Pod[]): { minimum: Pod[] | undefined; rest: Pod[] } {
  const minimum: Pod[] = [];
  const rest: Pod[] = [];
  for (const { name, minMember } of leavesOf(group)) {
    const own = all.filter(
      (pod) =>
        pod.metadata.annotations?.["pod-group-name"] === group.metadata.name &&
        pod.metadata.labels?.["kai.scheduler/subgroup-name"] === name,
    );
    const bound = own.filter(
      (pod) => (pod.spec?.nodeName ?? "") !== "" && pod.metadata.deletionTimestamp === undefined && !isDone(pod),
    );
    const waiting = own.filter(isWaiting).sort(byName);
    const needed = Math.max(0, (minMember ?? 1) - bound.length);
    if (waiting.length < needed) return { minimum: undefined, rest: [] };
    minimum.push(...waiting.slice(0, needed));
    rest.push(...waiting.slice(needed));
  }
  return { minimum, rest };
}

/** A node for each pod that satisfies the topology constraints; undefined when there is none. */
function place(
  wanted: readonly Pod[],
  group: PodGroup,
  nodes: readonly Node[],
  room: ReadonlyMap<string, number>,
  view: SchedulerView,
): [Pod, string][] | undefined {
  if (wanted.length === 0) return [];
  const constraints = constraintTree(group);
  const tries = domainsFor(constraints.whole, nodes, view, group, undefined);
  for (const inWhole of tries) {
    const left = new Map(room);
    const result = placeParts(wanted, constraints, inWhole, left, view, group);
    if (result !== undefined) return result;
  }
  return undefined;
}

interface Tree {
  readonly whole: TopologyConstraint | undefined;
  readonly components: ReadonlyMap<
    string,
    { readonly constraint: TopologyConstraint | undefined; readonly leaves: readonly SubGroup[] }
  >;
}

function constraintTree(group: PodGroup): Tree {
  const components = new Map<string, { constraint: TopologyConstraint | undefined; leaves: SubGroup[] }>();
  for (const leaf of leavesOf(group)) {
    const parent = leaf.parent ?? `leaf ${leaf.name}`;
    const constraint =
      (group.spec?.subGroups ?? []).find(({ name }) => name === leaf.parent)?.topologyConstraint ?? undefined;
    const part = components.get(parent) ?? { constraint, leaves: [] };
    part.leaves.push(leaf);
    components.set(parent, part);
  }
  return { whole: group.spec?.topologyConstraint, components };
}

function placeParts(
  wanted: readonly Pod[],
  tree: Tree,
  nodes: readonly Node[],
  room: Map<string, number>,
  view: SchedulerView,
  group: PodGroup,
): [Pod, string][] | undefined {
  const placed: [Pod, string][] = [];
  for (const { constraint, leaves } of tree.components.values()) {
    const mine = wanted.filter((pod) =>
      leaves.some(({ name }) => pod.metadata.labels?.["kai.scheduler/subgroup-name"] === name),
    );
    if (mine.length === 0) continue;
    let done: [Pod, string][] | undefined;
    for (const inPart of domainsFor(constraint, nodes, view, group, leaves)) {
      const left = new Map(room);
      done = placeLeaves(mine, leaves, inPart, left, view, group);
      if (done === undefined) continue;
      for (const [node, free] of left) room.set(node, free);
      break;
    }
    if (done === undefined) return undefined;
    placed.push(...done);
  }
  return placed;
}

function placeLeaves(
  wanted: readonly Pod[],
  leaves: readonly SubGroup[],
  nodes: readonly Node[],
  room: Map<string, number>,
  view: SchedulerView,
  group: PodGroup,
): [Pod, string][] | undefined {
  const placed: [Pod, string][] = [];
  for (const leaf of leaves) {
    const mine = wanted.filter((pod) => pod.metadata.labels?.["kai.scheduler/subgroup-name"] === leaf.name);
    if (mine.length === 0) continue;
    let done: [Pod, string][] | undefined;
    for (const inLeaf of domainsFor(leaf.topologyConstraint ?? undefined, nodes, view, group, [leaf])) {
      done = [];
      const left = new Map(room);
      for (const pod of mine) {
        const node = inLeaf.find(({ metadata }) => (left.get(metadata.name) ?? 0) > 0);
        if (node === undefined) {
          done = undefined;
          break;
        }
        left.set(node.metadata.name, (left.get(node.metadata.name) ?? 0) - 1);
        done.push([pod, node.metadata.name]);
      }
      if (done === undefined) continue;
      for (const [node, free] of left) room.set(node, free);
      break;
    }
    if (done === undefined) return undefined;
    placed.push(...done);
  }
  return placed;
}

/** The domains that satisfy a constraint; where some pods are bound already, only their domain. */
function domainsFor(
  constraint: TopologyConstraint | undefined,
  nodes: readonly Node[],
  { pods: all }: SchedulerView,
  group: PodGroup,
  leaves: readonly SubGroup[] | undefined,
): (readonly Node[])[] {
  const key = constraint?.requiredTopologyLevel;
  if (key === undefined) return [nodes];
  const names = leaves?.map(({ name }) => name);
  const boundTo = new Set(
    all
      .filter(({ metadata, spec }) => {
        const isOurs = metadata.annotations?.["pod-group-name"] === group.metadata.name;
        const subGroup = metadata.labels?.["kai.scheduler/subgroup-name"] ?? "";
        return isOurs && (spec?.nodeName ?? "") !== "" && (names === undefined || names.includes(subGroup));
      })
      .map(({ spec }) => spec?.nodeName),
  );
  const byDomain = new Map<string, Node[]>();
  for (const node of nodes) {
    const value = node.metadata.labels?.[key];
    if (value !== undefined) byDomain.set(value, [...(byDomain.get(value) ?? []), node]);
  }
  const domains = [...byDomain.values()];
  if (boundTo.size === 0) return domains;
  return domains.filter((domain) => domain.some(({ metadata }) => boundTo.has(metadata.name)));
}
