import type { Namespace } from "../../model/kubernetes.generated.ts";
import { groupResourceText } from "../../model/objects/status.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { updateObject } from "../verbs/update.ts";
import {
  type Controller,
  groupResourceOf,
  isRefusal,
  targetAt,
  unlessRefused,
  updateOptions,
  writeStatus,
} from "./controller.ts";
import { namespaceConditions } from "./namespaceConditions.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "namespace-controller";
const contentFinalizer = "kubernetes";
const podsKey = "/pods";
/** Deletes that one step starts. */
const deletesPerStep = 64;
/** While content goes by itself (pods with grace), the counts in the status follow it no faster than this. */
const statusEveryMs = 1000;
const retryMs = 1000;

interface Content {
  readonly resource: string;
  readonly name: string;
}

/**
 * A namespace that is going. What is left in it is followed event by event, so that no step looks at all of it again.
 */
interface Going {
  readonly name: string;
  /** By resource, the names that are left, with the finalizers that hold them. */
  readonly left: Map<string, Map<string, readonly string[]>>;
  /** Objects that no delete was tried for yet; used from the end. */
  todo: Content[];
  /** Pods go first: what they use must not be pulled away under them. */
  podsOnly: boolean;
  readonly failures: Map<string, string>;
  statusAtMs: number;
}

/** Empties namespaces that were deleted, then lets them go. */
export class NamespaceController implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<string>;
  private readonly going = new Map<string, Going>();

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<string>({
      work: (name) => this.work(name),
      failed: (name, error) => failed(`clean-up of namespace ${name}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection("/namespaces").all()) this.look(version);
  }

  observe({ current }: StoreEvent): void {
    if (current.resource === "/namespaces") {
      if (current.deleted) this.going.delete(current.name);
      else this.look(current);
      return;
    }
    if (this.going.size === 0 || current.namespace === "") return;
    const going = this.going.get(current.namespace);
    if (going === undefined) return;
    this.follow(going, current);
    this.queue.add(going.name);
  }

  private look(version: Version): void {
    if (version.object().metadata.deletionTimestamp === undefined) return;
    if (!this.going.has(version.name)) this.going.set(version.name, this.takeStock(version.name));
    this.queue.add(version.name);
  }

  /** Everything that is in the namespace now. */
  private takeStock(name: string): Going {
    const left: Going["left"] = new Map();
    const going: Going = { name, left, todo: [], podsOnly: true, failures: new Map(), statusAtMs: 0 };
    const { store } = this.core;
    for (const resource of store.resources()) {
      for (const version of store.collection(resource).at(store.revision, name)) {
        // Cluster-scoped objects have keys without a slash and cannot fall into the range. Bodies stay unparsed:
        // finalizers show up one by one, in the answers to the deletes.
        if (this.canDelete(resource)) this.note(going, version, []);
      }
    }
    going.todo = [...(left.get(podsKey)?.keys() ?? [])].map((pod) => ({ resource: podsKey, name: pod })).reverse();
    return going;
  }

  private canDelete(storageKey: string): boolean {
    const resource = this.core.registry.stored(storageKey);
    return resource?.type.namespaced === true && resource.type.verbs.includes("delete");
  }

  private note(going: Going, version: Version, finalizers: readonly string[]): void {
    let names = going.left.get(version.resource);
    if (names === undefined) {
      names = new Map();
      going.left.set(version.resource, names);
    }
    names.set(version.name, finalizers);
  }

  private follow(going: Going, version: Version): void {
    if (!version.deleted) {
      const isNew = going.left.get(version.resource)?.has(version.name) !== true;
      if (isNew && !this.canDelete(version.resource)) return;
      this.note(going, version, version.object().metadata.finalizers ?? []);
      // A write that was under way when the namespace began to go.
      if (isNew) going.todo.push({ resource: version.resource, name: version.name });
      return;
    }
    const names = going.left.get(version.resource);
    names?.delete(version.name);
    if (names?.size === 0) going.left.delete(version.resource);
    going.failures.delete(`${version.resource} ${version.name}`);
  }

  private work(name: string): Promise<void> | undefined {
    const going = this.going.get(name);
    const version = this.core.store.get("/namespaces", "", name);
    if (going === undefined || version === undefined) return undefined;
    const namespace = version.object() as Namespace;
    if (!(namespace.spec?.finalizers ?? []).includes(contentFinalizer)) return undefined;
    if (going.todo.length > 0) return this.deleteSome(going);
    if (going.podsOnly && !going.left.has(podsKey)) {
      going.podsOnly = false;
      for (const [resource, names] of going.left) {
        for (const object of names.keys()) going.todo.push({ resource, name: object });
      }
      if (going.todo.length > 0) return this.deleteSome(going);
    }
    if (going.left.size > 0) return this.report(going, version);
    return this.finalize(name);
  }

  private async deleteSome(going: Going): Promise<void> {
    const some = going.todo.splice(-deletesPerStep);
    const refused = (await Promise.all(some.map((object) => this.deleteOne(going, object)))).filter(
      (object) => object !== undefined,
    );
    if (refused.length > 0) {
      // What refuses (a webhook, perhaps) may allow the delete later.
      this.core.clock.after(retryMs, () => {
        if (this.going.get(going.name) !== going) return;
        going.todo.push(...refused);
        this.queue.add(going.name);
      });
    }
    this.queue.add(going.name);
  }

  /** Deletes one object; returns it when that was refused. */
  private async deleteOne(going: Going, object: Content): Promise<Content | undefined> {
    const target = targetAt(this.core, { ...object, namespace: going.name });
    if (target === undefined) return undefined;
    const word = `${object.resource} ${object.name}`;
    try {
      const options = { propagationPolicy: "Background" } as const;
      const { version, gone } = await deleteObject(this.core, target, options, systemCall(manager));
      const isStillThere = !gone && going.left.get(object.resource)?.has(object.name) === true;
      if (isStillThere) this.note(going, version, version.object().metadata.finalizers ?? []);
      going.failures.delete(word);
      return undefined;
    } catch (error) {
      if (isRefusal(error, "NotFound")) return undefined;
      going.failures.set(word, error instanceof Error ? error.message : String(error));
      return object;
    }
  }

  private report(going: Going, version: Version): Promise<void> | undefined {
    const nowMs = this.core.clock.nowMs();
    const waitMs = going.statusAtMs + statusEveryMs - nowMs;
    if (going.statusAtMs > 0 && waitMs > 0) {
      this.queue.addAfter(going.name, waitMs);
      return undefined;
    }
    going.statusAtMs = nowMs;
    const object = version.object();
    const { status } = object as Namespace;
    const conditions = namespaceConditions(status?.conditions ?? [], remainsOf(going), nowMs);
    const place = { resource: "/namespaces", namespace: "", name: going.name };
    const written = writeStatus(this.core, place, manager, object, { ...status, phase: "Terminating", conditions });
    return unlessRefused(written, "NotFound");
  }

  private finalize(name: string): Promise<void> | undefined {
    const target = targetAt(this.core, { resource: "/namespaces", namespace: "", name }, "finalize");
    if (target === undefined) return undefined;
    const written = updateObject(
      this.core,
      target,
      {
        options: updateOptions(manager),
        build: (current) => {
          const { spec } = current as Namespace;
          const finalizers = (spec?.finalizers ?? []).filter((finalizer) => finalizer !== contentFinalizer);
          return { ...current, metadata: { ...current.metadata }, spec: finalizers.length === 0 ? {} : { finalizers } };
        },
        restrict: (next) => next,
        validate: () => [],
      },
      systemCall(manager),
    );
    return unlessRefused(written, "NotFound");
  }
}

function remainsOf(going: Going): Parameters<typeof namespaceConditions>[1] {
  const counts = new Map<string, number>();
  const finalizers = new Map<string, number>();
  for (const [resource, names] of going.left) {
    counts.set(groupResourceText(groupResourceOf(resource)), names.size);
    for (const held of names.values()) {
      for (const finalizer of held) finalizers.set(finalizer, (finalizers.get(finalizer) ?? 0) + 1);
    }
  }
  const failures = [...going.failures].map(([word, why]) => `${word}: ${why}`).slice(0, 10);
  return { counts, finalizers, failures };
}
