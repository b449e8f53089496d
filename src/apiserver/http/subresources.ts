import type { Pod } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, methodNotAllowed, success, unknownPath } from "../../model/objects/status.ts";
import type { PodAgent } from "../../ports/podAgent.ts";
import { restrictNodeToken } from "../admission/nodeRestriction.ts";
import { type Authorizer, demandAccess, resourceAccess } from "../auth/access.ts";
import type { TokenSources } from "../auth/authenticate.ts";
import type { RbacAuthorizer } from "../auth/rbac.ts";
import { reviews } from "../auth/reviews.ts";
import { answerTokenRequest } from "../auth/tokenRequest.ts";
import { decodeAs } from "../builtinResource.ts";
import type { Subresource } from "../builtinResources.ts";
import type { BackendClient } from "../connect/backendClient.ts";
import { kubeletCommand, kubeletLog, kubeletPortForward, realNode } from "../connect/kubeletRequests.ts";
import { nothingListens, proxy } from "../connect/proxy.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { bindObject } from "../verbs/bind.ts";
import type { Call, Core, Target } from "../verbs/core.ts";
import { evictObject } from "../verbs/evict.ts";
import { getObject } from "../verbs/getListWatch.ts";
import { type PatchType, patchObject } from "../verbs/patch.ts";
import { patchScale, readScale, replaceScale } from "../verbs/scale.ts";
import { subresourceStrategyOf } from "../verbs/subresourceStrategy.ts";
import { replaceObject } from "../verbs/update.ts";
import { sendObject } from "./answer.ts";
import type { Exchange } from "./exchange.ts";
import type { ProtobufOffer } from "./negotiate.ts";
import { readRemoteCommand, serveRemoteCommand, stoppedWith } from "./remoteCommand.ts";
import { patchTypeOf, requireBody } from "./requestBody.ts";
import { callOf, deleteOptionsOf, patchCallOf } from "./requestOptions.ts";

export interface SubresourceContext {
  readonly core: Core;
  readonly rbac: RbacAuthorizer;
  readonly authorizer: Authorizer;
  readonly sources: TokenSources;
  /** Answers for the nodes that this process simulates. */
  readonly agent: PodAgent | undefined;
  /** Reaches the kubelets of all other nodes. */
  readonly client: BackendClient;
}

/** Answers requests for subresources, and for virtual kinds such as reviews. */
export async function handleSubresource(
  context: SubresourceContext,
  exchange: Exchange,
  target: Target,
  verb: string,
): Promise<void> {
  const { resource, subresource } = target;
  if (resource.type.virtual && subresource === "") {
    await handleVirtual(context, exchange, target, verb);
    return;
  }
  const row = resource.type.subresources.find((one) => one.name === subresource);
  if (row === undefined) throw unknownPath();
  if (!row.verbs.includes(verb) && !isConnect(subresource)) throw methodNotAllowed();
  switch (subresource) {
    case "binding":
      await bind(context, exchange, target, row);
      return;
    case "eviction":
      await evict(context, exchange, target, row);
      return;
    case "scale":
      await scale(context, exchange, target, verb);
      return;
    case "token":
      await token(context, exchange, target, row);
      return;
    case "log":
      await log(context, exchange, target);
      return;
    case "exec":
    case "attach":
      await connect(context, exchange, target, subresource);
      return;
    case "portforward":
      await forwardPorts(context, exchange, target);
      return;
    case "proxy":
      await proxyTo(context, exchange, target);
      return;
    default:
      await wholeObject(context, exchange, target, verb);
  }
}

function isConnect(subresource: string): boolean {
  return ["exec", "attach", "portforward", "proxy"].includes(subresource);
}

/** Subresources that read the object and write some of its fields. */
async function wholeObject(
  { core }: SubresourceContext,
  exchange: Exchange,
  target: Target,
  verb: string,
): Promise<void> {
  const { resource } = target;
  const nowMs = core.clock.nowMs();
  if (verb === "get") {
    sendObject(exchange, 200, resource, await getObject(core, target, exchange.query.text("resourceVersion")), nowMs);
    return;
  }
  const limits = subresourceStrategyOf(target);
  if (verb === "update") {
    const call = callOf(exchange, "UpdateOptions");
    const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
    const written = await replaceObject(core, target, sent, call, limits);
    sendObject(exchange, 200, resource, written.version, nowMs);
    return;
  }
  const type = patchTypeOf(exchange);
  const call = patchCallOf(exchange, type === "apply");
  const sent = await exchange.patchBody(type === "apply", { findDuplicates: call.fieldValidation !== "Ignore" });
  const written = await patchObject(core, target, type, sent, call, limits);
  sendObject(exchange, 200, resource, written.version, nowMs);
}

/** Scales, tokens and reviews are built-in kinds: they can be sent as protobuf. */
const isPlain: ProtobufOffer = (as) => as === "";

/** Reads a body of the subresource's own kind. */
async function readAs(exchange: Exchange, row: Subresource, call: Call): Promise<KubeObject> {
  const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
  const apiVersion = row.group === "" ? row.version : `${row.group}/${row.version}`;
  return decodeAs(
    { apiVersion, kind: row.kind, schema: schemaFor(row.definition) },
    sent,
    call.fieldValidation,
    call.warn,
  );
}

async function bind({ core }: SubresourceContext, exchange: Exchange, target: Target, row: Subresource): Promise<void> {
  const call = callOf(exchange, "CreateOptions");
  const binding = await readAs(exchange, row, call);
  await bindObject(core, target, binding, call);
  exchange.sendStatus(success({}, 201));
}

async function evict(
  { core }: SubresourceContext,
  exchange: Exchange,
  target: Target,
  row: Subresource,
): Promise<void> {
  const base = callOf(exchange, "CreateOptions");
  const eviction = await readAs(exchange, row, { ...base, fieldValidation: "Ignore" });
  const sent = eviction["deleteOptions"];
  const { options, dryRun } = deleteOptionsOf(exchange.query, isObject(sent) ? sent : {});
  const call = { ...base, dryRun: base.dryRun || dryRun.includes("All") };
  await evictObject(core, target, eviction, options, call);
  exchange.sendStatus(success({}, 201));
}

async function scale({ core }: SubresourceContext, exchange: Exchange, target: Target, verb: string): Promise<void> {
  const representation = exchange.negotiate(undefined, isPlain);
  if (verb === "get") {
    exchange.sendJson(200, await readScale(core, target), representation);
  } else if (verb === "update") {
    const call = callOf(exchange, "UpdateOptions");
    const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
    exchange.sendJson(200, await replaceScale(core, target, sent, call), representation);
  } else {
    const type: PatchType = patchTypeOf(exchange);
    const call = patchCallOf(exchange, type === "apply");
    const sent = await exchange.patchBody(type === "apply");
    exchange.sendJson(200, await patchScale(core, target, type, sent, call), representation);
  }
}

async function token(context: SubresourceContext, exchange: Exchange, target: Target, row: Subresource): Promise<void> {
  const { core, sources, authorizer } = context;
  const call = callOf(exchange, "CreateOptions");
  const question = await readAs(exchange, row, call);
  const { namespace, name } = target;
  restrictNodeToken(core, { user: call.user, namespace, name }, question, (audience) => {
    const verb = "request-serviceaccounts-token-audience";
    return authorizer.authorize(call.user, resourceAccess({ verb, resource: audience, namespace, name })).allowed;
  });
  const answer = answerTokenRequest(question, target, {
    tokens: sources.tokens,
    lookup: sources.lookup,
    nowMs: core.clock.nowMs(),
    random: core.random,
    warn: call.warn,
  });
  exchange.sendJson(201, answer, exchange.negotiate(undefined, isPlain));
}

async function handleVirtual(
  context: SubresourceContext,
  exchange: Exchange,
  target: Target,
  verb: string,
): Promise<void> {
  const { core, rbac, authorizer, sources } = context;
  const { resource } = target;
  const { kind } = resource.type;
  if (verb !== "create") throw methodNotAllowed();
  const call = callOf(exchange, "CreateOptions");
  const sent = await requireBody(exchange, call.fieldValidation !== "Ignore");
  const question = resource.decode(sent, call.fieldValidation, call.warn);
  if (kind === "Binding") {
    const pods = core.registry.find("", "v1", "pods");
    if (pods === undefined) throw unknownPath();
    const name = question.metadata.name ?? "";
    if (name === "") throw badRequest("name is required");
    await bindObject(core, { ...target, resource: pods, name, subresource: "binding" }, question, call);
    exchange.sendStatus(success({}, 201));
    return;
  }
  const review = reviews[kind as keyof typeof reviews];
  if (review === undefined) throw unknownPath();
  const nowMs = core.clock.nowMs();
  const answer = review(question, {
    user: exchange.user,
    namespace: target.namespace,
    nowMs,
    rbac,
    authorizer,
    sources,
  });
  exchange.sendJson(201, answer, exchange.negotiate(undefined, isPlain));
}

/** A GET with an upgrade runs a command or opens a connection too, so it requires the right to `create`. */
function demandConnect({ authorizer }: SubresourceContext, { user }: Exchange, target: Target): void {
  const { resource, subresource, namespace, name } = target;
  const access = { verb: "create", resource: resource.type.plural, subresource, namespace, name };
  demandAccess(authorizer, user, resourceAccess(access));
}

/** The agent of a node that this process simulates. */
function agentOf({ agent }: SubresourceContext, node: string): PodAgent | undefined {
  return agent?.plays(node) === true ? agent : undefined;
}

/** The node of a pod whose containers are connected to. */
function demandHost({ metadata, spec }: Pod): string {
  if (!spec?.nodeName) throw badRequest(`pod ${metadata.name} does not have a host assigned`);
  return spec.nodeName;
}

/** `exec` and `attach`. */
async function connect(
  context: SubresourceContext,
  exchange: Exchange,
  target: Target,
  what: "exec" | "attach",
): Promise<void> {
  const { core, client } = context;
  demandConnect(context, exchange, target);
  const version = await getObject(core, { ...target, subresource: "" });
  await admitConnection(core, exchange, target, what);
  const pod = version.object() as Pod;
  const { phase } = pod.status ?? {};
  const nodeName = demandHost(pod);
  if (phase === "Succeeded" || phase === "Failed") {
    throw badRequest(`cannot ${what} into a container of a completed pod; current phase is ${phase}`);
  }
  const asked = exchange.query.text("container") ?? "";
  const annotated = pod.metadata.annotations?.["kubectl.kubernetes.io/default-container"] ?? "";
  const container = containerOf(pod, asked === "" ? annotated || (pod.spec?.containers[0]?.name ?? "") : asked);
  const command = readRemoteCommand(exchange, what, pod, container);
  const agent = agentOf(context, nodeName);
  if (agent === undefined) await kubeletCommand({ client, exchange, pod, node: realNode(core, nodeName) }, command);
  else serveRemoteCommand(agent, exchange, command);
}

async function forwardPorts(context: SubresourceContext, exchange: Exchange, target: Target): Promise<void> {
  const { core, client } = context;
  demandConnect(context, exchange, target);
  const version = await getObject(core, { ...target, subresource: "" });
  await admitConnection(core, exchange, target, "portforward");
  const pod = version.object() as Pod;
  const nodeName = demandHost(pod);
  if (agentOf(context, nodeName) !== undefined) throw nothingListens("pods", target.name);
  await kubeletPortForward({ client, exchange, pod, node: realNode(core, nodeName) });
}

async function proxyTo(context: SubresourceContext, exchange: Exchange, target: Target): Promise<void> {
  const { core, client } = context;
  await admitConnection(core, exchange, target, "proxy");
  const isPlayed = (node: string): boolean => agentOf(context, node) !== undefined;
  await proxy({ core, client, isPlayed }, exchange, target);
}

/** Admission may reject a connection to a container. */
async function admitConnection(core: Core, exchange: Exchange, target: Target, subresource: string): Promise<void> {
  const { query, user, warn } = exchange;
  const proxied: Record<string, string> = {
    nodes: "NodeProxyOptions",
    pods: "PodProxyOptions",
    services: "ServiceProxyOptions",
  };
  const kinds: Record<string, string | undefined> = {
    exec: "PodExecOptions",
    attach: "PodAttachOptions",
    proxy: proxied[target.resource.type.plural],
  };
  const flags = ["stdin", "stdout", "stderr", "tty"].filter((name) => query.flag(name)).map((name) => [name, true]);
  const container = query.text("container");
  const command = query.all("command");
  const options = {
    kind: kinds[subresource] ?? "PodPortForwardOptions",
    apiVersion: "v1",
    metadata: {} as KubeObject["metadata"],
    ...Object.fromEntries(flags),
    ...(container === undefined ? {} : { container }),
    ...(command.length === 0 ? {} : { command }),
  };
  await core.admission.validate({
    operation: "CONNECT",
    type: target.resource.type,
    subresource,
    namespace: target.namespace,
    name: target.name,
    object: options,
    oldObject: undefined,
    options: {},
    user,
    dryRun: false,
    warn,
  });
}

async function log(context: SubresourceContext, exchange: Exchange, target: Target): Promise<void> {
  const { core, client } = context;
  const { query, response } = exchange;
  const version = await getObject(core, { ...target, subresource: "" });
  const pod = version.object() as Pod;
  const container = containerOf(pod, query.text("container") ?? "");
  const nodeName = demandHost(pod);
  const agent = agentOf(context, nodeName);
  if (agent === undefined) {
    await kubeletLog({ client, exchange, pod, node: realNode(core, nodeName) }, container);
    return;
  }
  const lines = agent.log(
    pod,
    {
      container,
      follow: query.flag("follow"),
      previous: query.flag("previous"),
      timestamps: query.flag("timestamps"),
      sinceSeconds: query.integer("sinceSeconds"),
      sinceTime: query.text("sinceTime"),
      tailLines: query.integer("tailLines"),
      limitBytes: query.integer("limitBytes"),
    },
    stoppedWith(response),
  );
  const text = lines[Symbol.asyncIterator]();
  // The first chunk decides: an agent that refuses does so before the headers are sent.
  let piece = await text.next();
  exchange.head(200, "text/plain");
  response.flushHeaders();
  for (; piece.done !== true && !response.destroyed; piece = await text.next()) response.write(piece.value);
  response.end();
}

/** The container of a log request: the only regular one; with several it has to be named. */
function containerOf(pod: Pod, asked: string): string {
  const spec = pod.spec;
  const { name } = pod.metadata;
  const regular = (spec?.containers ?? []).map((one) => one.name);
  const init = (spec?.initContainers ?? []).map((one) => one.name);
  const ephemeral = (spec?.ephemeralContainers ?? []).map((one) => one.name);
  if (asked === "") {
    const [only] = regular;
    if (regular.length === 1 && only !== undefined) return only;
    const more = init.length === 0 ? "" : ` or one of the init containers: [${init.join(" ")}]`;
    throw badRequest(
      `a container name must be specified for pod ${name}, choose one of: [${regular.join(" ")}]${more}`,
    );
  }
  if ([...regular, ...init, ...ephemeral].includes(asked)) return asked;
  throw badRequest(`container ${asked} is not valid for pod ${name}`);
}
