/**
 * The volumes of claims that wait for the node of their first pod (`WaitForFirstConsumer`). A pod may go to a node
 * where each such claim finds a volume that no other claim was given, or where its class can provision one. What a pod
 * is given counts as long as the pod holds the node and is not bound: within a trial, while its BindRequest is carried
 * out, and no longer when the trial is rolled back.
 */
import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import {
  classOfClaim,
  classOfVolume,
  compareVolumes,
  isProvisionable,
  mayTake,
  reaches,
  volumeAnnotations,
  volumeFor,
} from "../../../model/storage/volumes.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";

/** Claim to volume, by name; a claim that is not in it gets a volume that is provisioned on the node. */
export type ChosenVolumes = Readonly<Record<string, string>>;

/** Why a node is refused: a volume or its class excludes it, or no volume is left. */
export type ChoiceRefusal = "volume zone" | "volume binding";

/** What the choices are made from. */
export interface VolumeObjects {
  readonly volumeClaims: ReadonlyMap<string, PersistentVolumeClaim>;
  readonly volumes: ReadonlyMap<string, PersistentVolume>;
  readonly classes: ReadonlyMap<string, StorageClass>;
  /** Changes with every change of a volume. */
  readonly volumesVersion: () => number;
}

/** What a pod was given for one claim; without a volume one is provisioned on the node. */
interface Given {
  readonly node: string;
  readonly volume: string | undefined;
}

/** The volumes that a claim may take, best first: those of one host, and all others. */
interface Matches {
  readonly version: number;
  readonly byHost: ReadonlyMap<string, readonly PersistentVolume[]>;
  readonly anywhere: readonly PersistentVolume[];
}

const hostname = "kubernetes.io/hostname";

export class VolumeChoices {
  private readonly objects: VolumeObjects;
  /** By `namespace/name` of the claim. */
  private readonly givenTo = new Map<string, Map<Task, Given>>();
  /** By volume: the pods that were given it, and for which claim. */
  private readonly takenFor = new Map<string, Map<Task, string>>();
  private readonly matches = new WeakMap<PersistentVolumeClaim, Matches>();
  /** Free volumes by class, and volumes by the claim that they name. */
  private index = {
    version: -1,
    free: new Map<string, PersistentVolume[]>(),
    named: new Map<string, PersistentVolume[]>(),
  };

  constructor(objects: VolumeObjects) {
    this.objects = objects;
  }

  /** The volumes of these claims on the node, or why it is refused. */
  choose(
    task: Task,
    open: readonly PersistentVolumeClaim[],
    node: NodeState,
  ): Map<string, string | undefined> | ChoiceRefusal {
    const chosen = new Map<string, string | undefined>();
    if (open.length === 0) return chosen;
    if (node.node === undefined) return "volume zone";
    const used = new Set<string>();
    // The smallest first, as upstream: a large claim does not take the volume that is large enough for a small one.
    for (const claim of [...open].sort(bySize)) {
      const volume = this.volumeOf(task, claim, node, node.node, used);
      if (typeof volume === "string") return volume;
      chosen.set(claim.metadata.name, volume?.metadata.name);
      if (volume !== undefined) used.add(volume.metadata.name);
    }
    return chosen;
  }

  /** The pod holds the node from now on. */
  took(task: Task, node: NodeState, chosen: ReadonlyMap<string, string | undefined>): void {
    for (const [name, volume] of chosen) {
      const key = `${task.namespace}/${name}`;
      put(this.givenTo, key, task, { node: node.name, volume });
      if (volume !== undefined) put(this.takenFor, volume, task, key);
    }
  }

  left(task: Task): void {
    for (const name of task.shape.volumeClaims) {
      const key = `${task.namespace}/${name}`;
      const given = this.givenTo.get(key)?.get(task);
      if (given === undefined) continue;
      drop(this.givenTo, key, task);
      if (given.volume !== undefined) drop(this.takenFor, given.volume, task);
    }
  }

  /** The volumes that the pod was given; undefined if none of its claims needs one that exists. */
  chosenBy(task: Task): ChosenVolumes | undefined {
    const chosen: Record<string, string> = {};
    for (const name of task.shape.volumeClaims) {
      const volume = this.givenTo.get(`${task.namespace}/${name}`)?.get(task)?.volume;
      if (volume !== undefined) chosen[name] = volume;
    }
    return Object.keys(chosen).length === 0 ? undefined : chosen;
  }

  /** The volume of the claim there; undefined: one is provisioned. */
  private volumeOf(
    task: Task,
    claim: PersistentVolumeClaim,
    { name, labels }: NodeState,
    node: Node,
    used: ReadonlySet<string>,
  ): PersistentVolume | undefined | ChoiceRefusal {
    const key = `${claim.metadata.namespace ?? ""}/${claim.metadata.name}`;
    const named = volumeFor(claim, this.indexed().named.get(key) ?? [], { onlyReserved: true });
    if (named !== undefined) return reaches(named, node) ? named : "volume zone";
    const shared = this.givenToOther(task, key);
    if (shared !== undefined) {
      const volume = shared.volume === undefined ? undefined : this.objects.volumes.get(shared.volume);
      const isReachable = volume === undefined ? shared.node === name : reaches(volume, node);
      return isReachable ? volume : "volume zone";
    }
    const selected = claim.metadata.annotations?.[volumeAnnotations.selectedNode];
    if (selected !== undefined && selected !== name) return "volume zone";
    const isFree = (volume: PersistentVolume): boolean =>
      !used.has(volume.metadata.name) && !this.isTaken(volume.metadata.name, task, key) && reaches(volume, node);
    if (selected === undefined) {
      const { byHost, anywhere } = this.matchesOf(claim);
      const here = (byHost.get(labels[hostname] ?? "") ?? []).find(isFree);
      const elsewhere = anywhere.find(isFree);
      const best = [here, elsewhere].filter((each) => each !== undefined).sort(compareVolumes)[0];
      if (best !== undefined) return best;
    }
    const storageClass = this.objects.classes.get(classOfClaim(claim));
    if (storageClass === undefined || !isProvisionable(storageClass)) return "volume binding";
    return allows(storageClass, labels) ? undefined : "volume zone";
  }

  /** What another pod that is not bound yet was given for the claim. */
  private givenToOther(task: Task, key: string): Given | undefined {
    for (const [other, given] of this.givenTo.get(key) ?? []) if (other !== task && isOpen(other)) return given;
    return undefined;
  }

  private isTaken(volume: string, task: Task, key: string): boolean {
    for (const [other, claim] of this.takenFor.get(volume) ?? []) {
      if (other !== task && claim !== key && isOpen(other)) return true;
    }
    return false;
  }

  private matchesOf(claim: PersistentVolumeClaim): Matches {
    const { free, version } = this.indexed();
    const known = this.matches.get(claim);
    if (known?.version === version) return known;
    const byHost = new Map<string, PersistentVolume[]>();
    const anywhere: PersistentVolume[] = [];
    const all = (free.get(classOfClaim(claim)) ?? []).filter((volume) => mayTake(claim, volume)).sort(compareVolumes);
    for (const volume of all) {
      const hosts = hostsOf(volume);
      if (hosts === undefined) anywhere.push(volume);
      else for (const host of hosts) append(byHost, host, volume);
    }
    const found = { version, byHost, anywhere };
    this.matches.set(claim, found);
    return found;
  }

  private indexed(): VolumeChoices["index"] {
    const version = this.objects.volumesVersion();
    if (this.index.version === version) return this.index;
    const free = new Map<string, PersistentVolume[]>();
    const named = new Map<string, PersistentVolume[]>();
    for (const volume of this.objects.volumes.values()) {
      const claimRef = volume.spec?.claimRef;
      if (claimRef === undefined) append(free, classOfVolume(volume), volume);
      else append(named, `${claimRef.namespace ?? ""}/${claimRef.name ?? ""}`, volume);
    }
    this.index = { version, free, named };
    return this.index;
  }
}

/** Whether volumes of the class can be provisioned for a node with these labels. */
export function allows({ allowedTopologies = [] }: StorageClass, labels: Readonly<Record<string, string>>): boolean {
  if (allowedTopologies.length === 0) return true;
  return allowedTopologies.some(({ matchLabelExpressions = [] }) =>
    matchLabelExpressions.every(({ key, values }) => values.includes(labels[key] ?? "")),
  );
}

/** A pod that is bound has bound claims, and what it was given is theirs. */
function isOpen({ pod }: Task): boolean {
  return (pod.spec?.nodeName ?? "") === "";
}

/** The hosts of a volume that is on these hosts only, such as a local one; undefined for all others. */
function hostsOf({ spec }: PersistentVolume): ReadonlySet<string> | undefined {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms;
  if (terms === undefined || terms.length === 0) return undefined;
  const hosts = new Set<string>();
  for (const { matchExpressions = [] } of terms) {
    const one = matchExpressions.find(({ key, operator }) => key === hostname && operator === "In");
    if (one === undefined) return undefined;
    for (const host of one.values ?? []) hosts.add(host);
  }
  return hosts;
}

function bySize(a: PersistentVolumeClaim, b: PersistentVolumeClaim): number {
  const [left, right] = [a, b].map(({ spec }) => nanoOf(spec?.resources?.requests?.["storage"] ?? "0"));
  if (left !== right) return (left ?? 0n) < (right ?? 0n) ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}

function append<V>(map: Map<string, V[]>, key: string, value: V): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}

function put<V>(map: Map<string, Map<Task, V>>, key: string, task: Task, value: V): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, new Map([[task, value]]));
  else known.set(task, value);
}

function drop<V>(map: Map<string, Map<Task, V>>, key: string, task: Task): void {
  const known = map.get(key);
  known?.delete(task);
  if (known?.size === 0) map.delete(key);
}
