import type { CustomResourceDefinition, CustomResourceDefinitionStatus } from "../../model/kubernetes.generated.ts";
import { equalJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { append } from "../../model/values/append.ts";
import { cleanupFinalizer, crdStatus, terminatingCondition } from "../crd/crdNames.ts";
import { crdResource } from "../crd/validateCrd.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { updateObject } from "../verbs/update.ts";
import { type Controller, targetAt, unlessRefused, updateOptions, writeStatus } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "customresourcedefinition-controller";
const deletesPerStep = 64;
const retryMs = 1000;

/** A definition whose instances are being deleted. */
interface CleanUp {
  readonly definition: string;
  /** Instances for which no delete was attempted yet. */
  todo: { readonly namespace: string; readonly name: string }[];
}

/**
 * Maintains CustomResourceDefinitions after they are written: accepts names that became free, and deletes the instances
 * of a deleted definition before the definition itself. Serving is not done here (see `followDefinitions`), because it
 * cannot wait.
 */
export class DefinitionController implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<string>;
  /** By the storage key of the instances. */
  private readonly cleanUps = new Map<string, CleanUp>();

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<string>({
      work: (name) => this.work(name),
      failed: (name, error) => failed(`definition ${name}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection(crdResource).all()) this.queue.add(version.name);
  }

  observe({ current, previous }: StoreEvent): void {
    if (current.resource !== crdResource) {
      if (this.cleanUps.size === 0 || !current.deleted) return;
      const cleanUp = this.cleanUps.get(current.resource);
      if (cleanUp !== undefined && this.core.store.collection(current.resource).size === 0) {
        this.queue.add(cleanUp.definition);
      }
      return;
    }
    if (!current.deleted) this.queue.add(current.name);
    else this.cleanUps.delete(instancesKey(current.object()));
    if (previous !== undefined && namesChanged(previous, current)) this.lookAtGroup(groupOf(current));
  }

  /** Names became free: a definition whose names were in conflict may get them now. */
  private lookAtGroup(group: string): void {
    for (const version of this.core.store.collection(crdResource).all()) {
      if (groupOf(version) === group) this.queue.add(version.name);
    }
  }

  private work(name: string): Promise<void> | undefined {
    const version = this.core.store.get(crdResource, "", name);
    if (version === undefined) return undefined;
    const object = version.object();
    const { metadata } = object;
    if (metadata.deletionTimestamp === undefined) return this.updateNames(object);
    if (!(metadata.finalizers ?? []).includes(cleanupFinalizer)) return undefined;
    return this.cleanUp(object);
  }

  private updateNames(object: KubeObject): Promise<void> | undefined {
    const crd = object as CustomResourceDefinition;
    const others = [...this.core.store.collection(crdResource).all()].map(
      (version) => version.object() as CustomResourceDefinition,
    );
    const status = crdStatus(crd, others, this.core.clock.nowMs());
    if (equalJson(status, crd.status)) return undefined;
    const place = { resource: crdResource, namespace: "", name: object.metadata.name };
    return unlessRefused(writeStatus(this.core, place, manager, object, status), "NotFound");
  }

  private cleanUp(object: KubeObject): Promise<void> | undefined {
    const key = instancesKey(object);
    const collection = this.core.store.collection(key);
    if (collection.size === 0) return this.letGo(object);
    let cleanUp = this.cleanUps.get(key);
    if (cleanUp === undefined) {
      const todo = [...collection.all()].map(({ namespace, name }) => ({ namespace, name })).reverse();
      cleanUp = { definition: object.metadata.name, todo };
      this.cleanUps.set(key, cleanUp);
    }
    return cleanUp.todo.length > 0 ? this.deleteSome(key, cleanUp) : undefined;
  }

  private async deleteSome(key: string, cleanUp: CleanUp): Promise<void> {
    const some = cleanUp.todo.splice(-deletesPerStep);
    const outcomes = await Promise.allSettled(some.map((place) => this.deleteOne({ ...place, resource: key })));
    const refused = some.filter((_, at) => outcomes[at]?.status === "rejected");
    if (refused.length > 0) {
      this.core.clock.after(retryMs, () => {
        if (this.cleanUps.get(key) !== cleanUp) return;
        append(cleanUp.todo, refused);
        this.queue.add(cleanUp.definition);
      });
    }
    this.queue.add(cleanUp.definition);
  }

  private deleteOne(place: { resource: string; namespace: string; name: string }): Promise<void> {
    const target = targetAt(this.core, place);
    if (target === undefined) throw new Error(`${place.resource} is not served`);
    return unlessRefused(deleteObject(this.core, target, {}, systemCall(manager)), "NotFound");
  }

  private letGo(object: KubeObject): Promise<void> | undefined {
    const target = targetAt(this.core, { resource: crdResource, namespace: "", name: object.metadata.name });
    if (target === undefined) return undefined;
    const nowMs = this.core.clock.nowMs();
    const change = {
      options: updateOptions(manager),
      build: (current: KubeObject): KubeObject => {
        const status = (current["status"] ?? {}) as CustomResourceDefinitionStatus;
        const finalizers = (current.metadata.finalizers ?? []).filter((finalizer) => finalizer !== cleanupFinalizer);
        const phase = { done: true, message: "removed all instances" };
        const metadata = { ...current.metadata, finalizers, uid: object.metadata.uid };
        return { ...current, metadata, status: terminatingCondition(status, phase, nowMs) };
      },
      restrict: (next: KubeObject) => next,
      validate: () => [],
    };
    return unlessRefused(updateObject(this.core, target, change, systemCall(manager)), "NotFound");
  }
}

function groupOf(version: Version): string {
  return (version.object() as CustomResourceDefinition).spec.group;
}

function instancesKey(object: KubeObject): string {
  const { spec, status } = object as CustomResourceDefinition;
  return `${spec.group}/${status?.acceptedNames?.plural || spec.names.plural}`;
}

function namesChanged(previous: Version, current: Version): boolean {
  if (current.deleted) return true;
  const before = (previous.object() as CustomResourceDefinition).status?.acceptedNames;
  return !equalJson(before, (current.object() as CustomResourceDefinition).status?.acceptedNames);
}
