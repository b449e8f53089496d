import type { KubeObject, OwnerReference } from "../../model/objects/object.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { collectDecision, type OwnerState, type Propagation, waitMode } from "./collectDecision.ts";
import { type Controller, changeMetadata, type Place, targetAt, unlessRefused } from "./controller.ts";
import { type Dependent, OwnerGraph, sameOwners } from "./ownerGraph.ts";
import { recordEvent } from "./recordEvent.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "garbage-collector";

/** A terminating owner that waits for its dependents. */
interface Waiting {
  readonly place: Place;
  mode: "orphan" | "foreground";
  /** Dependents that block it, by UID. All of them at first: each is checked in a reconcile of its own. */
  readonly holders: Set<string>;
}

/**
 * Deletes objects whose owners are gone. The graph says which objects an event concerns; decisions are taken from the
 * store when a key is reconciled, and every delete has the UID as precondition.
 */
export class GarbageCollector implements Controller {
  private readonly core: Core;
  private readonly graph = new OwnerGraph();
  private readonly queue: WorkQueue<Place>;
  private readonly waiting = new Map<string, Waiting>();
  /** Dependents of owners whose kind is not served: reconciled again when kinds are added. */
  private readonly unresolved = new Set<Dependent>();
  /** Dependents whose misplaced owner has been reported, so that each is reported once. */
  private readonly reported = new Set<string>();
  private startScan: (() => void) | undefined;
  private readonly delayMs: (dependent: Place, isNew: boolean) => number;

  constructor(
    core: Core,
    turns: Turns,
    failed: (what: string, error: unknown) => void,
    delayMs: (dependent: Place, isNew: boolean) => number = () => 0,
  ) {
    this.core = core;
    this.delayMs = delayMs;
    this.queue = turns.queue<Place>({
      work: (place) => this.work(place),
      failed: (place, error) =>
        failed(`garbage collection of ${place.resource} ${place.namespace}/${place.name}`, error),
    });
    core.registry.onChange(() => {
      for (const dependent of this.unresolved) this.queue.add(dependent);
      this.unresolved.clear();
    });
  }

  start(): void {
    const { store } = this.core;
    const uids = new Set<string>();
    const versions: Version[] = [];
    for (const resource of store.resources()) {
      for (const version of store.collection(resource).all()) {
        uids.add(version.side.uid);
        this.graph.put(version);
        versions.push(version);
      }
    }
    // An owner whose UID is nowhere is absent; the others are assumed to exist.
    for (const dependent of this.graph.all()) {
      if (dependent.owners.some((uid) => !uids.has(uid))) this.queue.add(dependent);
    }
    this.scanForWaiting(versions);
  }

  stop(): void {
    this.startScan?.();
  }

  observe(event: StoreEvent): void {
    const { current, previous } = event;
    const { uid, owners } = current.side;
    if (current.deleted && this.unresolved.size > 0) {
      const dependent = this.graph.dependent(uid);
      if (dependent !== undefined) this.unresolved.delete(dependent);
    }
    this.graph.apply(event);
    if (current.deleted) {
      for (const dependent of this.graph.dependentsOf(uid)) this.addLater(dependent, false);
      this.waiting.delete(uid);
      this.reported.delete(uid);
      for (const owner of owners ?? []) this.release(owner, uid);
      return;
    }
    const { metadata } = current.object();
    const mode = waitMode(metadata);
    if (mode !== undefined) this.wait(current, mode);
    else if (metadata.deletionTimestamp !== undefined) this.waiting.delete(uid);
    const before = previous?.side.owners ?? null;
    if (owners === null && before === null) return;
    for (const owner of before ?? []) if (owners === null || !owners.includes(owner)) this.release(owner, uid);
    if (this.waiting.size > 0) this.updateHolds(current);
    if (owners === null) return;
    const dependent = this.graph.dependent(uid);
    if (dependent === undefined || sameOwners(before, owners)) return;
    const allSolid = (metadata.ownerReferences ?? []).every((owner) => this.stateOf(current, owner) === "solid");
    if (!allSolid) this.addLater(dependent, true);
  }

  private addLater(dependent: Dependent, isNew: boolean): void {
    const delayMs = this.delayMs(dependent, isNew);
    if (delayMs === 0) this.queue.add(dependent);
    else this.core.clock.after(delayMs, () => this.queue.add(dependent));
  }

  /**
   * After a restart some owners may be waiting for dependents. Their bodies are not parsed yet, so the finalizers are
   * searched in the bytes, in slices.
   */
  private scanForWaiting(versions: readonly Version[]): void {
    let at = 0;
    const slice = (): void => {
      this.startScan = undefined;
      for (const end = Math.min(versions.length, at + 500); at < end; at++) {
        const version = versions[at] as Version;
        if (!version.bytes().includes('"deletionTimestamp"')) continue;
        const head = this.core.store.get(version.resource, version.namespace, version.name);
        const mode = head === version ? waitMode(version.object().metadata) : undefined;
        if (mode !== undefined) this.wait(version, mode);
      }
      if (at < versions.length) this.startScan = this.core.clock.after(0, slice);
    };
    if (versions.length > 0) this.startScan = this.core.clock.after(0, slice);
  }

  private wait(version: Version, mode: "orphan" | "foreground"): void {
    const { resource, namespace, name } = version;
    const { uid } = version.side;
    const known = this.waiting.get(uid);
    if (known?.mode === mode) return;
    const dependents = this.graph.dependentsOf(uid);
    const place = this.graph.dependent(uid) ?? { resource, namespace, name, uid };
    const holders = new Set<string>();
    for (const dependent of dependents) {
      holders.add(dependent.uid);
      this.queue.add(dependent);
    }
    this.waiting.set(uid, { place, mode, holders });
    this.queue.add(place);
  }

  private release(ownerUid: string, dependentUid: string): void {
    const waiting = this.waiting.get(ownerUid);
    if (waiting?.holders.delete(dependentUid) && waiting.holders.size === 0) this.queue.add(waiting.place);
  }

  /** Records whether the object blocks any of its terminating owners. */
  private updateHolds(version: Version): void {
    for (const owner of version.object().metadata.ownerReferences ?? []) {
      const waiting = this.waiting.get(owner.uid);
      if (waiting === undefined) continue;
      // An orphaning owner waits until no dependent refers to it, a foreground one for dependents with
      // blockOwnerDeletion.
      if (waiting.mode === "orphan" || owner.blockOwnerDeletion === true) waiting.holders.add(version.side.uid);
      else this.release(owner.uid, version.side.uid);
    }
  }

  private work(place: Place): Promise<void> | undefined {
    const version = this.core.store.get(place.resource, place.namespace, place.name);
    if (version === undefined || version.side.uid !== place.uid) return undefined;
    const waiting = this.waiting.get(place.uid);
    if (waiting !== undefined && waiting.holders.size === 0) return this.letGo(waiting);
    const { metadata } = version.object();
    if (metadata.ownerReferences === undefined) return undefined;
    this.updateHolds(version);
    return this.collect(place, version, metadata);
  }

  private letGo({ place, mode }: Waiting): Promise<void> | undefined {
    const finalizer = mode === "orphan" ? "orphan" : "foregroundDeletion";
    const change = changeMetadata(this.core, place, manager, (metadata) => ({
      ...metadata,
      finalizers: (metadata.finalizers ?? []).filter((name) => name !== finalizer),
    }));
    return unlessRefused(change, "NotFound");
  }

  private collect(place: Place, version: Version, metadata: KubeObject["metadata"]): Promise<void> | undefined {
    const owners = (metadata.ownerReferences ?? []).map((owner) => ({
      uid: owner.uid,
      state: this.stateOf(version, owner),
    }));
    const dependents = this.graph.dependentsOf(place.uid);
    const verdict = collectDecision({
      owners,
      isTerminating: metadata.deletionTimestamp !== undefined,
      finalizers: metadata.finalizers ?? [],
      hasDependents: dependents.size > 0,
      isInCycle: this.anyWaitsInForeground(dependents),
    });
    if (owners.some(({ state }) => state === "unknown")) {
      const dependent = this.graph.dependent(place.uid);
      if (dependent !== undefined) this.unresolved.add(dependent);
    }
    const report = this.reportMisplaced(version, owners);
    const action = this.carryOut(place, version, verdict);
    return report === undefined ? action : Promise.all([report, action]).then(() => undefined);
  }

  private carryOut(
    place: Place,
    version: Version,
    verdict: ReturnType<typeof collectDecision>,
  ): Promise<void> | undefined {
    switch (verdict.kind) {
      case "keep":
        return undefined;
      case "dropReferences":
        return this.changeOwners(place, (owners) => owners.filter(({ uid }) => !verdict.uids.includes(uid)));
      case "delete":
        if (!verdict.unblockFirst) return this.remove(place, version.revision, verdict.policy);
        return this.unblockAndRemove(place, verdict.policy);
    }
  }

  /** Two objects that wait for each other would wait forever: this one drops blockOwnerDeletion, then it is deleted. */
  private async unblockAndRemove(place: Place, policy: Propagation): Promise<void> {
    await this.changeOwners(place, (owners) => owners.map((owner) => ({ ...owner, blockOwnerDeletion: false })));
    await this.remove(place, undefined, policy);
  }

  private remove(place: Place, revision: number | undefined, policy: Propagation): Promise<void> | undefined {
    const target = targetAt(this.core, place);
    if (target === undefined) return undefined;
    const resourceVersion = revision === undefined ? undefined : String(revision);
    const preconditions = { uid: place.uid, resourceVersion };
    const deletion = deleteObject(this.core, target, { preconditions, propagationPolicy: policy }, systemCall(manager));
    return unlessRefused(deletion, "NotFound");
  }

  private changeOwners(
    place: Place,
    change: (owners: readonly OwnerReference[]) => OwnerReference[],
  ): Promise<void> | undefined {
    const written = changeMetadata(this.core, place, manager, (metadata) => {
      const { ownerReferences, ...rest } = metadata;
      const owners = change(ownerReferences ?? []);
      return owners.length === 0 ? rest : { ...rest, ownerReferences: owners };
    });
    return unlessRefused(written, "NotFound");
  }

  private stateOf(dependent: Version, owner: OwnerReference): OwnerState {
    if (this.graph.hasDeparted(owner.uid)) return "absent";
    const resource = this.core.registry.kind(owner.apiVersion, owner.kind);
    if (resource === undefined) return "unknown";
    const { namespaced, storageKey } = resource.type;
    if (namespaced && dependent.namespace === "") return "misplaced";
    // An owner in another namespace is looked up in the namespace of the dependent, and so is absent.
    const found = this.core.store.get(storageKey, namespaced ? dependent.namespace : "", owner.name);
    if (found === undefined || found.side.uid !== owner.uid) return "absent";
    switch (waitMode(found.object().metadata)) {
      case "orphan":
        return "orphaning";
      case "foreground":
        return "deletingDependents";
      default:
        return "solid";
    }
  }

  private anyWaitsInForeground(dependents: ReadonlySet<Dependent>): boolean {
    if (this.waiting.size === 0) return false;
    for (const { uid } of dependents) if (this.waiting.get(uid)?.mode === "foreground") return true;
    return false;
  }

  /** A reference across namespaces is a mistake of its author; an Event reports it. */
  private reportMisplaced(
    version: Version,
    owners: readonly { uid: string; state: OwnerState }[],
  ): Promise<unknown> | undefined {
    const { uid } = version.side;
    if (this.reported.has(uid)) return undefined;
    const object = version.object();
    const wrong = (object.metadata.ownerReferences ?? []).find((owner, at) => {
      const state = owners[at]?.state;
      if (state === "misplaced") return true;
      return state === "absent" && !this.graph.hasDeparted(owner.uid) && this.livesElsewhere(owner);
    });
    if (wrong === undefined) return undefined;
    this.reported.add(uid);
    const identity = `[${wrong.apiVersion}/${wrong.kind}, namespace: ${version.namespace}, name: ${wrong.name}, uid: ${wrong.uid}]`;
    const event = recordEvent(this.core, {
      about: object,
      type: "Warning",
      reason: "OwnerRefInvalidNamespace",
      message: `ownerRef ${identity} does not exist in namespace ${JSON.stringify(version.namespace)}`,
      component: "garbage-collector-controller",
    });
    // No Event can be created in a terminating namespace.
    return unlessRefused(event, "Forbidden", "NotFound", "AlreadyExists", "Invalid");
  }

  /** Looks into each namespace, and only for an owner whose deletion was not observed. */
  private livesElsewhere(owner: OwnerReference): boolean {
    const { registry, store } = this.core;
    const resource = registry.kind(owner.apiVersion, owner.kind);
    if (resource === undefined || !resource.type.namespaced) return false;
    for (const namespace of store.collection("/namespaces").all()) {
      if (store.get(resource.type.storageKey, namespace.name, owner.name)?.side.uid === owner.uid) return true;
    }
    return false;
  }
}
