import type { Namespace } from "../../model/kubernetes.generated.ts";
import { groupResourceText } from "../../model/objects/status.ts";
import { append } from "../../model/values/append.ts";
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
/** The number of deletes that one reconcile starts. */
const deletesPerStep = 64;
/** While pods terminate with a grace period, the counts in the status are written no more often than this. */
const statusEveryMs = 1000;
const retryMs = 1000;

interface Content {
  readonly resource: string;
  readonly name: string;
}

/** A terminating namespace. Its content is tracked event by event, so that no reconcile lists all of it again. */
interface TerminatingNamespace {
  readonly name: string;
  /** By resource, the names that are left, with the finalizers that block them. */
  readonly left: Map<string, Map<string, readonly string[]>>;
  /** Objects for which no delete was attempted yet; taken from the end. */
  todo: Content[];
  /** Pods are deleted first, because they use the other objects. */
  podsOnly: boolean;
  readonly failures: Map<string, string>;
  statusAtMs: number;
}

/** Deletes the content of terminating namespaces, then removes their finalizer. */
export class NamespaceController implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<string>;
  private readonly terminating = new Map<string, TerminatingNamespace>();

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
      if (current.deleted) this.terminating.delete(current.name);
      else this.look(current);
      return;
    }
    if (this.terminating.size === 0 || current.namespace === "") return;
    const terminating = this.terminating.get(current.namespace);
    if (terminating === undefined) return;
    this.follow(terminating, current);
    this.queue.add(terminating.name);
  }

  private look(version: Version): void {
    if (version.object().metadata.deletionTimestamp === undefined) return;
    if (!this.terminating.has(version.name)) this.terminating.set(version.name, this.takeStock(version.name));
    this.queue.add(version.name);
  }

  /** Everything that is in the namespace now. */
  private takeStock(name: string): TerminatingNamespace {
    const left: TerminatingNamespace["left"] = new Map();
    const terminating: TerminatingNamespace = {
      name,
      left,
      todo: [],
      podsOnly: true,
      failures: new Map(),
      statusAtMs: 0,
    };
    const { store } = this.core;
    for (const resource of store.resources()) {
      for (const version of store.collection(resource).at(store.revision, name)) {
        // Cluster-scoped objects have keys without a slash and cannot be in the range. Objects stay unparsed: their
        // finalizers are found in the responses to the deletes.
        if (this.canDelete(resource)) this.note(terminating, version, []);
      }
    }
    terminating.todo = [...(left.get(podsKey)?.keys() ?? [])]
      .map((pod) => ({ resource: podsKey, name: pod }))
      .reverse();
    return terminating;
  }

  private canDelete(storageKey: string): boolean {
    const resource = this.core.registry.stored(storageKey);
    return resource?.type.namespaced === true && resource.type.verbs.includes("delete");
  }

  private note(terminating: TerminatingNamespace, version: Version, finalizers: readonly string[]): void {
    let names = terminating.left.get(version.resource);
    if (names === undefined) {
      names = new Map();
      terminating.left.set(version.resource, names);
    }
    names.set(version.name, finalizers);
  }

  private follow(terminating: TerminatingNamespace, version: Version): void {
    if (!version.deleted) {
      const isNew = terminating.left.get(version.resource)?.has(version.name) !== true;
      if (isNew && !this.canDelete(version.resource)) return;
      this.note(terminating, version, version.object().metadata.finalizers ?? []);
      // A write that was in flight when the namespace began to terminate.
      if (isNew) terminating.todo.push({ resource: version.resource, name: version.name });
      return;
    }
    const names = terminating.left.get(version.resource);
    names?.delete(version.name);
    if (names?.size === 0) terminating.left.delete(version.resource);
    terminating.failures.delete(`${version.resource} ${version.name}`);
  }

  private work(name: string): Promise<void> | undefined {
    const terminating = this.terminating.get(name);
    const version = this.core.store.get("/namespaces", "", name);
    if (terminating === undefined || version === undefined) return undefined;
    const namespace = version.object() as Namespace;
    if (!(namespace.spec?.finalizers ?? []).includes(contentFinalizer)) return undefined;
    if (terminating.todo.length > 0) return this.deleteSome(terminating);
    if (terminating.podsOnly && !terminating.left.has(podsKey)) {
      terminating.podsOnly = false;
      for (const [resource, names] of terminating.left) {
        for (const object of names.keys()) terminating.todo.push({ resource, name: object });
      }
      if (terminating.todo.length > 0) return this.deleteSome(terminating);
    }
    if (terminating.left.size > 0) return this.report(terminating, version);
    return this.finalize(name);
  }

  private async deleteSome(terminating: TerminatingNamespace): Promise<void> {
    const some = terminating.todo.splice(-deletesPerStep);
    const refused = (await Promise.all(some.map((object) => this.deleteOne(terminating, object)))).filter(
      (object) => object !== undefined,
    );
    if (refused.length > 0) {
      // A rejected delete (by a webhook, for example) may be admitted later.
      this.core.clock.after(retryMs, () => {
        if (this.terminating.get(terminating.name) !== terminating) return;
        append(terminating.todo, refused);
        this.queue.add(terminating.name);
      });
    }
    this.queue.add(terminating.name);
  }

  /** Deletes one object; returns it when the delete was rejected. */
  private async deleteOne(terminating: TerminatingNamespace, object: Content): Promise<Content | undefined> {
    const target = targetAt(this.core, { ...object, namespace: terminating.name });
    if (target === undefined) return undefined;
    const word = `${object.resource} ${object.name}`;
    try {
      const options = { propagationPolicy: "Background" } as const;
      const { version, gone } = await deleteObject(this.core, target, options, systemCall(manager));
      const isStillThere = !gone && terminating.left.get(object.resource)?.has(object.name) === true;
      if (isStillThere) this.note(terminating, version, version.object().metadata.finalizers ?? []);
      terminating.failures.delete(word);
      return undefined;
    } catch (error) {
      if (isRefusal(error, "NotFound")) return undefined;
      terminating.failures.set(word, error instanceof Error ? error.message : String(error));
      return object;
    }
  }

  private report(terminating: TerminatingNamespace, version: Version): Promise<void> | undefined {
    const nowMs = this.core.clock.nowMs();
    const waitMs = terminating.statusAtMs + statusEveryMs - nowMs;
    if (terminating.statusAtMs > 0 && waitMs > 0) {
      this.queue.addAfter(terminating.name, waitMs);
      return undefined;
    }
    terminating.statusAtMs = nowMs;
    const object = version.object();
    const { status } = object as Namespace;
    const conditions = namespaceConditions(status?.conditions ?? [], remainsOf(terminating), nowMs);
    const place = { resource: "/namespaces", namespace: "", name: terminating.name };
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

function remainsOf(terminating: TerminatingNamespace): Parameters<typeof namespaceConditions>[1] {
  const counts = new Map<string, number>();
  const finalizers = new Map<string, number>();
  for (const [resource, names] of terminating.left) {
    counts.set(groupResourceText(groupResourceOf(resource)), names.size);
    for (const held of names.values()) {
      for (const finalizer of held) finalizers.set(finalizer, (finalizers.get(finalizer) ?? 0) + 1);
    }
  }
  const failures = [...terminating.failures].map(([word, why]) => `${word}: ${why}`).slice(0, 10);
  return { counts, finalizers, failures };
}
