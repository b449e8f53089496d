import type { TopologyConstraint } from "../../../model/scheduling/podGroup.ts";
import { levelIndex, type TopologyLevel } from "../../../model/scheduling/topology.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodProblem } from "../cluster/podProblem.ts";
import { gpuAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { type Candidates, closenessUnit } from "./placeTask.ts";

/** The topology domains in which a gang may be placed, the narrowest that can hold it first. */
type DomainChoice =
  | { readonly ok: true; readonly sets: readonly Candidates[] }
  | { readonly ok: false; readonly why: TopologyProblem };

/** Why no domain is possible. Without a cure of its own, free resources in a domain would be enough. */
export interface TopologyProblem {
  readonly message: string;
  readonly cure: string | undefined;
}

interface Domain {
  readonly name: string;
  readonly nodes: readonly number[];
}

/**
 * The node sets to try for a (sub)group, in order. Pods of the group that run already pin the required domain: further
 * pods join it.
 */
export function candidateSets(
  cluster: Cluster,
  constraint: TopologyConstraint | undefined,
  within: Candidates,
  tasks: readonly Task[],
  running: readonly Task[],
): DomainChoice {
  const required = constraint?.requiredTopologyLevel ?? "";
  const preferred = constraint?.preferredTopologyLevel ?? "";
  if (constraint === undefined || (required === "" && preferred === "")) return { ok: true, sets: [within] };
  const problem = constraintProblem(cluster, constraint);
  if (problem !== undefined) return { ok: false, why: problem };
  const levels = cluster.topologies.get(constraint.topology ?? "")?.spec?.levels ?? [];
  const requiredAt = required === "" ? -1 : levelIndex(levels, required);
  const preferredAt = preferred === "" ? -1 : levelIndex(levels, preferred);
  const labels = levels.map(({ nodeLabel }) => nodeLabel);
  const all = within.nodes ?? cluster.table.nodes.map((_, at) => at);
  const inside = insideOf(cluster, labels, all);
  const pinned = requiredAt < 0 ? undefined : pinnedDomain(cluster, labels.slice(0, requiredAt + 1), running);
  const sets: Candidates[] = [];
  const from = Math.max(preferredAt, requiredAt);
  const rooms = from < 0 ? [] : labels.slice(0, from + 1).map((_, at) => roomsAt(cluster, labels, at, inside, tasks));
  for (let depth = from; depth >= Math.max(0, requiredAt); depth--) {
    for (const domain of fitting(rooms.slice(0, depth + 1), tasks)) {
      if (pinned !== undefined && !domain.name.startsWith(pinned)) continue;
      sets.push({ nodes: domain.nodes, bonus: closeness(cluster, labels, preferredAt, tasks, within.bonus) });
    }
  }
  // Without a required level all candidate nodes are the widest domain.
  if (requiredAt < 0) sets.push({ nodes: inside, bonus: closeness(cluster, labels, preferredAt, tasks, within.bonus) });
  if (sets.length > 0) return { ok: true, sets };
  return { ok: false, why: lackOf(cluster, labels.slice(0, requiredAt + 1), inside, tasks, required, pinned) };
}

/** Why a constraint cannot be met whatever is free: the constraint or the Topology has to change. */
function constraintProblem(cluster: Cluster, constraint: TopologyConstraint): PodProblem | undefined {
  const {
    topology: name = "",
    requiredTopologyLevel: required = "",
    preferredTopologyLevel: preferred = "",
  } = constraint;
  if (required === "" && preferred === "") return undefined;
  const topology = cluster.topologies.get(name);
  if (topology === undefined) {
    return {
      message: `Topology ${name} does not exist`,
      cure: name === "" ? "name a Topology in topologyConstraint" : `create Topology ${name}, or name another`,
    };
  }
  const levels = topology.spec?.levels ?? [];
  const named = (from: number): string => levels.slice(from).map(levelName).join(", ");
  for (const [field, level] of [
    ["requiredTopologyLevel", required],
    ["preferredTopologyLevel", preferred],
  ] as const) {
    if (level === "" || levelIndex(levels, level) >= 0) continue;
    return {
      message: `Topology ${name} has no level ${level}; it has ${named(0)}`,
      cure: `set ${field} to one of ${named(0)}, or add level ${level} to Topology ${name}`,
    };
  }
  const requiredAt = levelIndex(levels, required);
  if (required === "" || preferred === "" || levelIndex(levels, preferred) >= requiredAt) return undefined;
  return {
    message: `the preferred level ${preferred} is wider than the required level ${required}`,
    cure: `set preferredTopologyLevel to one of ${named(requiredAt)}, or remove it`,
  };
}

/** The domains of the level that a constraint requires, as indexes of nodes; undefined if it requires none. */
export function requiredDomains(
  cluster: Cluster,
  constraint: TopologyConstraint | undefined,
): readonly (readonly number[])[] | undefined {
  const levels = cluster.topologies.get(constraint?.topology ?? "")?.spec?.levels ?? [];
  const at = levelIndex(levels, constraint?.requiredTopologyLevel ?? "");
  if (at < 0) return undefined;
  const labels = levels.map(({ nodeLabel }) => nodeLabel);
  const inside = insideOf(cluster, labels, [...cluster.table.nodes.keys()]);
  return domainsOf(cluster, labels.slice(0, at + 1), inside).map(({ nodes }) => nodes);
}

/** Levels that are wider than the required one, the nearest first. */
export function widerLevels(cluster: Cluster, constraint: TopologyConstraint): readonly string[] {
  const levels = cluster.topologies.get(constraint.topology ?? "")?.spec?.levels ?? [];
  const at = levelIndex(levels, constraint.requiredTopologyLevel ?? "");
  return levels.slice(0, Math.max(0, at)).reverse().map(levelName);
}

function levelName({ nodeLabel, alias }: TopologyLevel): string {
  return alias ?? nodeLabel;
}

/** The nodes that have the labels of all levels. */
function insideOf({ table }: Cluster, labels: readonly string[], nodes: readonly number[]): number[] {
  return nodes.filter((at) => labels.every((label) => table.nodes[at]?.labels[label] !== undefined));
}

/** A domain and the number of pods that fit it. */
interface RatedDomain {
  readonly domain: Domain;
  readonly room: number;
}

/** The domains of one level, by name. */
type Rooms = ReadonlyMap<string, RatedDomain>;

function roomsAt(
  cluster: Cluster,
  labels: readonly string[],
  depth: number,
  nodes: readonly number[],
  tasks: readonly Task[],
): Rooms {
  const domains = domainsOf(cluster, labels.slice(0, depth + 1), nodes);
  return new Map(domains.map((domain) => [domain.name, { domain, room: roomIn(cluster, domain, tasks) }]));
}

/**
 * Domains of the last of these levels that can hold all tasks by a rough count. The domain with the least left over is
 * first, compared at the widest level in which two differ: a zone that is in use is filled before another one.
 */
function fitting(levels: readonly Rooms[], tasks: readonly Task[]): Domain[] {
  const pathOf = (name: string): number[] => {
    const parts = name.split("/").slice(0, -1);
    return levels.map((rooms, at) => rooms.get(`${parts.slice(0, at + 1).join("/")}/`)?.room ?? 0);
  };
  const rated = [...(levels.at(-1)?.values() ?? [])].filter(({ room }) => room >= tasks.length);
  return rated
    .map(({ domain }) => ({ domain, path: pathOf(domain.name) }))
    .sort((a, b) => comparePaths(a.path, b.path) || (a.domain.name < b.domain.name ? -1 : 1))
    .map(({ domain }) => domain);
}

function comparePaths(a: readonly number[], b: readonly number[]): number {
  for (const [at, room] of a.entries()) if (room !== b[at]) return room - (b[at] ?? 0);
  return 0;
}

function domainsOf(cluster: Cluster, labels: readonly string[], nodes: readonly number[]): Domain[] {
  const byName = new Map<string, number[]>();
  for (const at of nodes) {
    const name = domainName(cluster.table.nodes[at] as NodeState, labels);
    const known = byName.get(name);
    if (known === undefined) byName.set(name, [at]);
    else known.push(at);
  }
  return [...byName].map(([name, inside]) => ({ name, nodes: inside }));
}

/** The label values from the widest level on: racks of the same name in two zones are different domains. */
function domainName({ labels: values }: NodeState, labels: readonly string[]): string {
  return labels.map((label) => `${values[label] ?? ""}/`).join("");
}

/**
 * The number of copies of the largest task that fit; if the tasks differ, an estimate by their sums. An estimate that
 * is too high is harmless, because placement checks each node.
 */
function roomIn(cluster: Cluster, { nodes }: Domain, tasks: readonly Task[]): number {
  const { later } = cluster.table;
  const kinds = new Set(tasks.map(({ shape }) => shape.places.join()));
  if (kinds.size > 1) {
    const wanted = new Map<number, number>();
    for (const { shape } of tasks) {
      for (const [k, place] of shape.places.entries())
        wanted.set(place, (wanted.get(place) ?? 0) + (shape.amounts[k] ?? 0));
    }
    let part = Number.POSITIVE_INFINITY;
    for (const [place, amount] of wanted) {
      let has = 0;
      for (const at of nodes) has += later[place]?.[at] ?? 0;
      part = Math.min(part, has / amount);
    }
    return Math.floor(part * tasks.length + 1e-9);
  }
  const largest = new Map<number, number>();
  for (const { shape } of tasks) {
    for (const [k, place] of shape.places.entries()) {
      largest.set(place, Math.max(largest.get(place) ?? 0, shape.amounts[k] ?? 0));
    }
  }
  const [first] = tasks;
  const sharers = first?.shape.gpu.type === "fraction" ? Math.floor(1000 / first.shape.gpu.shareMilli) : 0;
  let room = 0;
  for (const at of nodes) {
    if (first !== undefined && !cluster.fit.accepts(first.shape, at)) continue;
    let copies = Number.POSITIVE_INFINITY;
    for (const [place, amount] of largest) copies = Math.min(copies, Math.floor((later[place]?.[at] ?? 0) / amount));
    if (sharers > 0) {
      const node = cluster.table.nodes[at] as NodeState;
      copies = Math.min(copies, ((later[gpuAt]?.[at] ?? 0) + node.groups.size) * sharers);
    }
    room += Math.max(0, copies);
  }
  return room;
}

/** A higher score for nodes of the preferred domain that has most of the gang, so that pods use few domains. */
function closeness(
  cluster: Cluster,
  labels: readonly string[],
  preferredAt: number,
  tasks: readonly Task[],
  outer: ((at: number) => number) | undefined,
): ((at: number) => number) | undefined {
  if (preferredAt < 0) return outer;
  const prefix = labels.slice(0, preferredAt + 1);
  const names = cluster.table.nodes.map((node) => domainName(node, prefix));
  const job = tasks[0]?.job;
  const near = new Map<string, number>();
  const room = new Map<string, number>();
  let mostRoom = 1;
  for (const domain of domainsOf(cluster, prefix, [...names.keys()])) {
    const here = roomIn(cluster, domain, tasks);
    room.set(domain.name, here);
    mostRoom = Math.max(mostRoom, here);
  }
  let countedAt = -1;
  return (at) => {
    // Every placement changes the log, so the gang is counted once for each pod, and not for each node.
    if (countedAt !== cluster.table.log.end) {
      countedAt = cluster.table.log.end;
      near.clear();
      for (const task of job?.tasks ?? []) {
        const name = names[task.holdings.at(-1)?.node.index ?? -1];
        if (name !== undefined) near.set(name, (near.get(name) ?? 0) + 1);
      }
    }
    const name = names[at] ?? "";
    // The domain of the other pods; the first pod of a new domain prefers the one with the most resources.
    const worth = (near.get(name) ?? 0) > 0 ? 10 : Math.floor((9 * (room.get(name) ?? 0)) / mostRoom);
    return worth * closenessUnit + (outer?.(at) ?? 0);
  };
}

function pinnedDomain(cluster: Cluster, labels: readonly string[], running: readonly Task[]): string | undefined {
  for (const task of running) {
    const node = task.holdings[0]?.node;
    if (node !== undefined && cluster.table.get(node.name) !== undefined) return domainName(node, labels);
  }
  return undefined;
}

function lackOf(
  cluster: Cluster,
  labels: readonly string[],
  nodes: readonly number[],
  tasks: readonly Task[],
  level: string,
  pinned: string | undefined,
): TopologyProblem {
  const domains = domainsOf(cluster, labels, nodes);
  if (domains.length === 0)
    return {
      message: `no node has the labels of all levels of the topology down to ${level}`,
      cure: "label nodes with all levels of the topology",
    };
  let best = domains[0] as Domain;
  let bestRoom = -1;
  for (const domain of domains) {
    if (pinned !== undefined && domain.name !== pinned) continue;
    const room = roomIn(cluster, domain, tasks);
    if (room > bestRoom) [best, bestRoom] = [domain, room];
  }
  const name = best.name.replace(/\/$/, "");
  const where =
    pinned === undefined ? `the ${level} with the most, ${name},` : `${level} ${name}, where the group runs already,`;
  const message = `not enough resources for the workload in one ${level}: ${where} has resources for ${Math.max(0, bestRoom)} of ${tasks.length} pods`;
  return { message, cure: undefined };
}
