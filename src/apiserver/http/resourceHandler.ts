import { forbidden } from "../../model/objects/fieldError.ts";
import { invalidObject, methodNotAllowed, StatusError, success, unknownPath } from "../../model/objects/status.ts";
import { type Authorizer, demandAccess, resourceAccess } from "../auth/access.ts";
import type { KubeletUsage } from "../connect/kubeletUsage.ts";
import type { Resource } from "../resource.ts";
import type { WatchEvent } from "../storage/watchHub.ts";
import type { Core, Target, Written } from "../verbs/core.ts";
import { createObject } from "../verbs/create.ts";
import { deleteCollection, deleteObject } from "../verbs/delete.ts";
import { getObject, listObjects, pinnedFields, selectionOf, watchObjects } from "../verbs/getListWatch.ts";
import { patchObject } from "../verbs/patch.ts";
import { replaceObject } from "../verbs/update.ts";
import { negotiateObject, sendList, sendObject, watchForm } from "./answer.ts";
import type { Exchange } from "./exchange.ts";
import type { Faults } from "./faults.ts";
import type { Metrics } from "./metrics.ts";
import { answerMetrics, metricsGroup } from "./metricsApi.ts";
import { patchTypeOf, requireBody } from "./requestBody.ts";
import { callOf, deleteOptionsOf, patchCallOf, readOptions, watchOptions } from "./requestOptions.ts";
import type { ResourceRoute } from "./route.ts";
import { handleSubresource, type SubresourceContext } from "./subresources.ts";
import { type FrameCache, WatchStream } from "./watchStream.ts";

/** What requests for resources need besides the verbs. */
export interface ResourceContext extends SubresourceContext {
  readonly core: Core;
  readonly authorizer: Authorizer;
  readonly frames: FrameCache;
  readonly metrics: Metrics;
  readonly faults: Faults;
  readonly kubelets: KubeletUsage;
  /** Open watches, which end at shutdown. */
  readonly streams: Set<WatchStream>;
}

/** The verb of a request, for authorization, metrics and audit. */
export function verbOf(method: string, route: ResourceRoute, watching: boolean): string {
  switch (method) {
    case "GET":
    case "HEAD":
      if (watching) return "watch";
      return route.name === "" ? "list" : "get";
    case "POST":
      return "create";
    case "PUT":
      return "update";
    case "PATCH":
      return "patch";
    case "DELETE":
      return route.name === "" ? "deletecollection" : "delete";
    default:
      return method.toLowerCase();
  }
}

export function isWatching(exchange: Exchange, route: ResourceRoute): boolean {
  if (exchange.method !== "GET" || route.subresource !== "") return false;
  // The `watch` parameter is for collections; the deprecated `/watch/` prefix also watches a single object.
  return route.watch || (route.name === "" && exchange.query.flag("watch"));
}

/** Answers a request for a resource: authorizes it, resolves it, runs the verb. */
export async function handleResource(
  context: ResourceContext,
  exchange: Exchange,
  route: ResourceRoute,
): Promise<void> {
  const { core } = context;
  const watching = isWatching(exchange, route);
  const verb = verbOf(exchange.method, route, watching);
  const pinned = pinnedFields(verb, exchange.query.text("fieldSelector"));
  demandAccess(context.authorizer, exchange.user, {
    verb,
    group: route.group,
    resource: route.plural,
    subresource: route.subresource,
    // A request for a Namespace is authorized in the namespace of that name, as upstream.
    namespace: route.plural === "namespaces" && route.group === "" ? route.name : route.namespace,
    name: route.name === "" ? pinned.name : route.name,
    fields: pinned.fields,
  });
  const { agent, kubelets } = context;
  if (route.group === metricsGroup && agent !== undefined) {
    await answerMetrics({ core, agent, kubelets }, exchange, route, verb);
    return;
  }
  const resource = core.registry.find(route.group, route.version, route.plural);
  if (resource === undefined || !scopeFits(resource, route)) throw unknownPath();
  if (exchange.method === "HEAD" && route.subresource !== "proxy") throw methodNotAllowed();
  if (resource.deprecation !== undefined) exchange.warn(resource.deprecation);
  const target: Target = {
    resource,
    namespace: route.namespace,
    name: route.name,
    subresource: route.subresource,
  };
  if (route.subresource !== "" || resource.type.virtual) {
    await handleSubresource(context, exchange, target, verb);
    return;
  }
  if (!resource.type.verbs.includes(verb) || !shapeFits(resource, route, verb)) {
    throw methodNotAllowed();
  }
  if (verb === "watch") await watch(context, exchange, target);
  else await handleObject(context, exchange, target, verb);
}

async function handleObject(context: ResourceContext, exchange: Exchange, target: Target, verb: string): Promise<void> {
  const { core } = context;
  const { resource } = target;
  const nowMs = core.clock.nowMs();
  switch (verb) {
    case "get": {
      negotiateObject(exchange, resource);
      const version = await getObject(core, target, exchange.query.text("resourceVersion"));
      sendObject(exchange, 200, resource, version, nowMs);
      return;
    }
    case "list": {
      negotiateObject(exchange, resource);
      if (exchange.query.text("sendInitialEvents") !== undefined) throw initialEventsOnList();
      const list = await listObjects(core, target, readOptions(exchange.query));
      await sendList(exchange, resource, list, nowMs);
      return;
    }
    case "create": {
      negotiateObject(exchange, resource);
      const call = callOf(exchange, "CreateOptions");
      const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
      sendWritten(exchange, resource, await createObject(core, target, sent, call), nowMs);
      return;
    }
    case "update": {
      negotiateObject(exchange, resource);
      const call = {
        ...callOf(exchange, "UpdateOptions"),
        demandCreate: () => demandCreate(context, exchange, target),
      };
      const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
      sendWritten(exchange, resource, await replaceObject(core, target, sent, call), nowMs);
      return;
    }
    case "patch": {
      negotiateObject(exchange, resource);
      const type = patchTypeOf(exchange);
      const call = {
        ...patchCallOf(exchange, type === "apply"),
        demandCreate: () => demandCreate(context, exchange, target),
      };
      const sent = await exchange.patchBody(type === "apply", { findDuplicates: call.fieldValidation !== "Ignore" });
      sendWritten(exchange, resource, await patchObject(core, target, type, sent, call), nowMs);
      return;
    }
    case "delete": {
      const body = await exchange.body();
      const { options, dryRun } = deleteOptionsOf(exchange.query, body?.value);
      const base = callOf(exchange, "DeleteOptions");
      // With a body the query parameters are ignored.
      const call = { ...base, dryRun: body === undefined ? base.dryRun : dryRun.includes("All") };
      const { version, gone } = await deleteObject(core, target, options, call);
      if (!gone || resource.strategy.returnsDeleted === true) {
        const code = !gone && options.orphanDependents === false ? 202 : 200;
        sendObject(exchange, code, resource, version, nowMs);
        return;
      }
      const { group, plural } = resource.type;
      const details = { name: target.name, ...(group === "" ? {} : { group }), kind: plural, uid: version.side.uid };
      exchange.sendStatus(success(details));
      return;
    }
    case "deletecollection": {
      const body = await exchange.body();
      const { options, dryRun } = deleteOptionsOf(exchange.query, body?.value);
      const base = callOf(exchange, "DeleteOptions");
      // With a body the query parameters are ignored.
      const call = { ...base, dryRun: body === undefined ? base.dryRun : dryRun.includes("All") };
      const { versions: members, ...list } = await listObjects(core, target, readOptions(exchange.query));
      const versions = await deleteCollection(core, target, members, options, call);
      await sendList(exchange, resource, { ...list, revision: core.store.durableRevision, versions }, nowMs);
      return;
    }
    default:
      throw methodNotAllowed();
  }
}

async function watch(context: ResourceContext, exchange: Exchange, target: Target): Promise<void> {
  const { core, frames, metrics, streams } = context;
  const { resource } = target;
  const form = watchForm(exchange, resource, frames, () => core.clock.nowMs());
  const options = watchOptions(exchange.query, (bound) => core.random.uint32() % bound);
  // Invalid selectors are rejected before the stream begins.
  selectionOf(target, options);
  let stop = (): void => {};
  const labels = `group="${resource.type.group}",version="${resource.type.version}",resource="${resource.type.plural}"`;
  const open = (): WatchStream => {
    exchange.head(200, form.contentType);
    exchange.response.flushHeaders();
    exchange.request.socket.setNoDelay(true);
    const ended = (): void => {
      stop();
      streams.delete(stream);
      metrics.add("apiserver_watch_events_total", labels, stream.delivered);
    };
    const late = {
      ms: () => context.faults.watchDelayMs,
      after: (delayMs: number, run: () => void) => core.clock.after(delayMs, run),
    };
    const stream: WatchStream = new WatchStream(exchange.response, form, ended, late);
    streams.add(stream);
    return stream;
  };
  // An error before the first event is a normal response, so the headers are sent with the first event.
  let stream: WatchStream | undefined;
  const ensure = (): WatchStream => {
    stream ??= open();
    return stream;
  };
  try {
    const started = await watchObjects(core, target, options, {
      deliver: (event: WatchEvent) => ensure().deliver(event),
      closed: () => ensure().finish(),
      room: () => ensure().room(),
    });
    stop = () => started.stop();
    ensure();
    if (exchange.response.destroyed) stop();
  } catch (error) {
    if (error instanceof StatusError && error.status.code === 410) ensure().fail(error.status);
    else throw error;
  }
}

/** A PUT or an apply that would create requires the right to create. */
function demandCreate({ authorizer }: ResourceContext, { user }: Exchange, target: Target): void {
  const { group, plural } = target.resource.type;
  const { namespace, name } = target;
  demandAccess(authorizer, user, resourceAccess({ verb: "create", group, resource: plural, namespace, name }));
}

function sendWritten(exchange: Exchange, resource: Resource, written: Written, nowMs: number): void {
  sendObject(exchange, written.created ? 201 : 200, resource, written.version, nowMs);
}

/** Only collections of namespaced resources have a path without a namespace. */
function scopeFits(resource: Resource, route: ResourceRoute): boolean {
  if (!resource.type.namespaced) return route.namespace === "";
  return route.namespace !== "" || route.name === "";
}

/** Create addresses a collection, changes address an object, and a path across all namespaces is read-only. */
function shapeFits(resource: Resource, route: ResourceRoute, verb: string): boolean {
  if (resource.type.namespaced && route.namespace === "") return verb === "list" || verb === "watch";
  if (verb === "create") return route.name === "";
  return route.name !== "" || (verb !== "update" && verb !== "patch");
}

function initialEventsOnList(): Error {
  return invalidObject({ group: "meta.k8s.io", kind: "ListOptions" }, "", [
    forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"),
  ]);
}
