import { copyJson } from "../model/objects/json.ts";
import type { KubeObject, Unstored } from "../model/objects/object.ts";
import type { Resource as ResourceHandle } from "../model/objects/resource.ts";
import { badRequest, methodNotAllowed, StatusError, unknownPath } from "../model/objects/status.ts";
import { type Outcome, type Refusal, refusalOf, refused, succeeded } from "../model/outcome.ts";
import type { Cancel } from "../ports/cancel.ts";
import type {
  BindTarget,
  CallOptions,
  DeleteOptions,
  KubeApi,
  KubeList,
  ListOptions,
  ObjectRef,
  Patch,
  Watch,
  WatchEvent,
  WatchOptions,
  WatchSink,
  WriteOptions,
} from "../ports/kubeApi.ts";
import { type Authorizer, demandAccess, type ResourceAccess, resourceAccess } from "./auth/access.ts";
import { type Resource, sentByUs } from "./resource.ts";
import type { WatchEvent as HubEvent } from "./storage/watchHub.ts";
import type { UserInfo } from "./strategy.ts";
import { bindObject } from "./verbs/bind.ts";
import type { Call, Core, Target, Written } from "./verbs/core.ts";
import { createObject } from "./verbs/create.ts";
import { deleteObject } from "./verbs/delete.ts";
import { evictObject } from "./verbs/evict.ts";
import { getObject, listObjects, pinnedFields, watchObjects } from "./verbs/getListWatch.ts";
import { type PatchCall, patchObject } from "./verbs/patch.ts";
import { patchScale, readScale, replaceScale } from "./verbs/scale.ts";
import { subresourceStrategyOf } from "./verbs/subresourceStrategy.ts";
import { replaceObject } from "./verbs/update.ts";

/** The user as which this process calls its own API. */
export interface KubeCaller {
  readonly user: UserInfo;
  /** The field manager of writes, unless a call names another one. */
  readonly fieldManager: string;
}

export interface InProcessOptions {
  /** Authorizes calls; every call is allowed when left out. */
  readonly authorizer?: Authorizer;
  /** Called with warnings of the server; over HTTP these are `Warning` headers. */
  readonly warn?: (text: string) => void;
}

/**
 * The KubeApi of the server in this process: the verbs without a network and without JSON.
 *
 * Returned objects are the store's own, shared by all readers, and must never be changed: a read costs no copy. Objects
 * that are passed in are copied.
 *
 * A call has taken effect when the function returns, before its promise settles, unless it waits for a webhook or the
 * disk. Events of a watch are delivered as soon as the commit that caused them is durable (without a disk: inside the
 * commit), before the writer gets its result; a sink may write again from there. A sink must not throw: without a disk
 * the error would reach the writer.
 *
 * Errors of the API or its disk are outcomes. A defect of this program rejects the promise.
 */
export function inProcessKube(core: Core, caller: KubeCaller, options: InProcessOptions = {}): KubeApi {
  return new InProcessKube(core, caller, options);
}

class InProcessKube implements KubeApi {
  private readonly core: Core;
  private readonly caller: KubeCaller;
  private readonly authorizer: Authorizer | undefined;
  private readonly warn: (text: string) => void;

  constructor(core: Core, caller: KubeCaller, options: InProcessOptions) {
    this.core = core;
    this.caller = caller;
    this.authorizer = options.authorizer;
    this.warn = options.warn ?? (() => {});
  }

  get<T extends KubeObject>(ref: ObjectRef<T>, options: { cancel?: Cancel } = {}): Promise<Outcome<T>> {
    return this.reading(options.cancel, async () => {
      const target = this.target(ref, "get");
      if (target.subresource === "scale") return scaleAs<T>(readScale(this.core, target));
      return objectIn<T>(target.resource, await getObject(this.core, target));
    });
  }

  list<T extends KubeObject>(kind: ResourceHandle<T>, options: ListOptions = {}): Promise<Outcome<KubeList<T>>> {
    return this.reading(options.cancel, async () => {
      const target = this.collection(kind, "list", options);
      const { revision, versions, continueToken } = await listObjects(this.core, target, options);
      const { resource } = target;
      const items = versions.map((version) => objectIn<T>(resource, version));
      return { revision: String(revision), items, ...(continueToken === undefined ? {} : { continueToken }) };
    });
  }

  watch<T extends KubeObject>(kind: ResourceHandle<T>, options: WatchOptions, sink: WatchSink<T>): Watch {
    let open = true;
    let stopHub = (): void => {};
    const end = (why: Outcome<never> | undefined): void => {
      if (!open) return;
      open = false;
      sink.ended(why);
    };
    const start = async (): Promise<void> => {
      // The caller has the watch before its first event, so that a sink may stop it.
      await undefined;
      if (!open) return;
      const target = this.collection(kind, "watch", options);
      const { resource } = target;
      const started = await watchObjects(this.core, target, hubOptions(options), {
        deliver: (event) => {
          if (open) sink.event(portEvent(resource, event));
        },
        closed: () => end(undefined),
        room: () => (open ? undefined : notListening),
      });
      stopHub = () => started.stop();
      if (!open) started.stop();
    };
    start().catch((error: unknown) => end(this.refusal(error, "Unavailable")));
    return {
      stop: () => {
        open = false;
        stopHub();
      },
    };
  }

  create<T extends KubeObject>(
    kind: ResourceHandle<T>,
    object: Unstored<T>,
    options: WriteOptions = {},
  ): Promise<Outcome<T>> {
    return this.writing(options, async () => {
      const namespace = object.metadata?.namespace ?? "";
      const target = this.target({ ...kind, namespace, name: "" }, "create");
      return written<T>(target, await createObject(this.core, target, sentByUs(object), this.call(options)));
    });
  }

  update<T extends KubeObject>(ref: ObjectRef<T>, object: T, options: WriteOptions = {}): Promise<Outcome<T>> {
    return this.writing(options, async () => {
      const target = this.target(ref, "update");
      const sent = sentByUs(object);
      const call = { ...this.call(options), demandCreate: () => this.demandCreate(ref) };
      if (target.subresource === "scale") return scaleAs<T>(replaceScale(this.core, target, sent, call));
      return written<T>(target, await replaceObject(this.core, target, sent, call, subresourceStrategyOf(target)));
    });
  }

  patch<T extends KubeObject>(ref: ObjectRef<T>, patch: Patch<T>, options: WriteOptions = {}): Promise<Outcome<T>> {
    return this.writing(options, async () => {
      const target = this.target(ref, "patch");
      const sent = sentByUs(patch.body);
      const call: PatchCall = {
        ...this.call(options),
        force: patch.type === "apply" && patch.force === true,
        demandCreate: () => this.demandCreate(ref),
      };
      if (target.subresource === "scale") return scaleAs<T>(patchScale(this.core, target, patch.type, sent, call));
      return written<T>(
        target,
        await patchObject(this.core, target, patch.type, sent, call, subresourceStrategyOf(target)),
      );
    });
  }

  delete<T extends KubeObject>(ref: ObjectRef<T>, options: DeleteOptions = {}): Promise<Outcome<T | undefined>> {
    return this.writing(options, async () => {
      const target = this.target(ref, "delete");
      const { version, gone } = await deleteObject(this.core, target, options, this.call(options));
      const { resource } = target;
      return gone && resource.strategy.returnsDeleted !== true ? undefined : objectIn<T>(resource, version);
    });
  }

  bind(pod: ObjectRef, to: BindTarget, options: WriteOptions = {}): Promise<Outcome<undefined>> {
    return this.writing(options, async () => {
      const target = this.target({ ...pod, subresource: "binding" }, "create");
      await bindObject(this.core, target, bindingOf(pod, to), this.call(options));
      return undefined;
    });
  }

  evict(pod: ObjectRef, options: DeleteOptions = {}): Promise<Outcome<undefined>> {
    return this.writing(options, async () => {
      const target = this.target({ ...pod, subresource: "eviction" }, "create");
      await evictObject(this.core, target, evictionOf(pod), options, this.call(options));
      return undefined;
    });
  }

  /** Authorizes a call and resolves its object or subresource. */
  private target(ref: ObjectRef, verb: string): Target {
    const { namespace, name, subresource = "" } = ref;
    this.demand(ref, { verb, subresource, namespace, name });
    const resource = this.resource(ref);
    if ((namespace === "") === resource.type.namespaced) throw unknownPath();
    // Over HTTP an empty name would address the collection.
    if (name === "" && (verb !== "create" || subresource !== "")) throw badRequest("resource name may not be empty");
    if (resource.type.virtual) throw methodNotAllowed();
    const verbs = subresource === "" ? resource.type.verbs : verbsOf(resource, subresource);
    if (!verbs.includes(verb)) throw methodNotAllowed();
    return { resource, namespace, name, subresource };
  }

  private collection(kind: ResourceHandle, verb: "list" | "watch", options: ListOptions | WatchOptions): Target {
    const { namespace = "", fieldSelector } = options;
    this.demand(kind, { verb, subresource: "", namespace, ...pinnedFields(verb, fieldSelector) });
    const resource = this.resource(kind);
    if (namespace !== "" && !resource.type.namespaced) throw unknownPath();
    if (!resource.type.verbs.includes(verb)) throw methodNotAllowed();
    return { resource, namespace, name: "", subresource: "" };
  }

  private resource({ group, version, plural }: ResourceHandle): Resource {
    const resource = this.core.registry.find(group, version, plural);
    if (resource === undefined) throw unknownPath();
    return resource;
  }

  private demand(
    { group, plural }: ResourceHandle,
    what: Pick<ResourceAccess, "verb" | "subresource" | "namespace" | "name" | "fields">,
  ): void {
    if (this.authorizer === undefined) return;
    // A request for a Namespace is authorized in the namespace of that name, as upstream.
    const namespace = plural === "namespaces" && group === "" ? what.name : what.namespace;
    demandAccess(this.authorizer, this.caller.user, resourceAccess({ ...what, group, resource: plural, namespace }));
  }

  /** A PUT or an apply that would create requires the right to create. */
  private demandCreate(ref: ObjectRef): void {
    this.demand(ref, { verb: "create", subresource: "", namespace: ref.namespace, name: ref.name });
  }

  private call(options: { fieldManager?: string; dryRun?: boolean }): Call {
    return {
      user: this.caller.user,
      dryRun: options.dryRun ?? false,
      fieldManager: options.fieldManager ?? this.caller.fieldManager,
      fieldValidation: "Warn",
      warn: this.warn,
    };
  }

  private reading<T>(cancel: Cancel | undefined, run: () => Promise<T>): Promise<Outcome<T>> {
    return this.outcome(cancel, run, "Unavailable");
  }

  private writing<T>({ cancel, maySend }: CallOptions, run: () => Promise<T>): Promise<Outcome<T>> {
    if (maySend?.() === false) return Promise.resolve(refused("Fenced", "withdrawn before it was sent"));
    return this.outcome(cancel, run, "Unknown");
  }

  private outcome<T>(
    cancel: Cancel | undefined,
    run: () => Promise<T>,
    ifDiskFails: "Unavailable" | "Unknown",
  ): Promise<Outcome<T>> {
    if (cancel?.cancelled === true) return Promise.resolve(refused("Unavailable", "cancelled before it was sent"));
    const outcome = run().then(succeeded, (error: unknown) => this.refusal(error, ifDiskFails));
    return cancel === undefined ? outcome : unlessCancelled(outcome, cancel);
  }

  private refusal(error: unknown, ifDiskFails: "Unavailable" | "Unknown"): Refusal {
    if (error instanceof StatusError) return refusalOf(error.status);
    if (!this.core.store.isHealthy) {
      // The commit may have reached the disk before it failed.
      return refused(ifDiskFails, `the store failed: ${error instanceof Error ? error.message : String(error)}`);
    }
    throw error;
  }
}

const notListening = Promise.resolve(false);

/** The caller stops waiting; the call continues. */
function unlessCancelled<T>(outcome: Promise<Outcome<T>>, cancel: Cancel): Promise<Outcome<T>> {
  return new Promise((resolve, reject) => {
    const forget = cancel.onCancel(() => resolve(refused("Unknown", "cancelled while waiting for the answer")));
    outcome.then(resolve, reject).finally(forget);
  });
}

/** Stored objects were decoded by the schema of their resource, so they have the type of the handle. */
function objectIn<T extends KubeObject>(resource: Resource, version: { object(): KubeObject }): T {
  return resource.fromStorage(version.object()) as T;
}

/** A caller that requests the scale of a resource has named Scale as the type of the result. */
async function scaleAs<T extends KubeObject>(scale: Promise<KubeObject>): Promise<T> {
  return (await scale) as T;
}

function written<T extends KubeObject>({ resource }: Target, { version }: Written): T {
  return objectIn<T>(resource, version);
}

function verbsOf(resource: Resource, subresource: string): readonly string[] {
  const row = resource.type.subresources.find((one) => one.name === subresource);
  if (row === undefined) throw unknownPath();
  return row.verbs;
}

function hubOptions(options: WatchOptions): Parameters<typeof watchObjects>[2] {
  const { sendInitialEvents, timeoutSeconds } = options;
  return {
    labelSelector: options.labelSelector,
    fieldSelector: options.fieldSelector,
    resourceVersion: options.resourceVersion,
    // The end of the initial events is a bookmark, so sendInitialEvents implies bookmarks.
    allowBookmarks: options.allowBookmarks === true || sendInitialEvents === true,
    ...(sendInitialEvents === undefined ? {} : { sendInitialEvents, resourceVersionMatch: "NotOlderThan" }),
    timeoutMs: timeoutSeconds === undefined ? undefined : timeoutSeconds * 1000,
  };
}

function portEvent<T extends KubeObject>(resource: Resource, event: HubEvent): WatchEvent<T> {
  if (event.type !== "BOOKMARK") return { type: event.type, object: objectIn(resource, event.version) };
  return { type: "BOOKMARK", revision: String(event.revision), initialEventsEnd: event.initialEventsEnd };
}

function bindingOf({ namespace, name }: ObjectRef, to: BindTarget): KubeObject {
  const { uid, resourceVersion, labels, annotations } = to;
  const metadata = {
    name,
    namespace,
    uid,
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(labels === undefined ? {} : { labels: copyJson(labels) }),
    ...(annotations === undefined ? {} : { annotations: copyJson(annotations) }),
  };
  const target = { apiVersion: "v1", kind: "Node", name: to.node };
  return { apiVersion: "v1", kind: "Binding", metadata: metadata as KubeObject["metadata"], target };
}

function evictionOf({ namespace, name }: ObjectRef): KubeObject {
  return { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } as KubeObject["metadata"] };
}
