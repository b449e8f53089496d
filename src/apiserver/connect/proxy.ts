/** `nodes/proxy`, `pods/proxy` and `services/proxy`: HTTP to what an object stands for, below its path. */
import type { EndpointSlice, Node, Pod, Service } from "../../model/kubernetes.generated.ts";
import { failure, notFound } from "../../model/objects/status.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Core, Target } from "../verbs/core.ts";
import { type Backend, nodeBackend, type ProxyName, parseProxyName, podBackend, serviceBackend } from "./backend.ts";
import type { BackendClient } from "./backendClient.ts";
import { forward } from "./forward.ts";
import { realNode } from "./kubeletRequests.ts";

export interface ProxyContext {
  readonly core: Core;
  readonly client: BackendClient;
  /** Whether this process simulates the node. */
  readonly isPlayed: (node: string) => boolean;
}

/** The part of the path that names the object, and the rest, as they were sent. */
const proxyPath = /^(.*?\/(?:nodes|pods|services)\/[^/]+\/proxy)(\/.*)?$/;

export async function proxy(context: ProxyContext, exchange: Exchange, target: Target): Promise<void> {
  const [, prefix = "", rest = ""] = proxyPath.exec(exchange.path) ?? [];
  const url = exchange.request.url ?? "";
  const search = url.includes("?") ? url.slice(url.indexOf("?")) : "";
  const backend = backendOf(context, target, parseProxyName(target.name));
  if (rest === "" && (exchange.method === "GET" || exchange.method === "HEAD")) {
    // Relative links of the page need the slash.
    exchange.response.writeHead(301, { Location: `${prefix}/${search}` }).end();
    return;
  }
  const links = { prefix, host: `${backend.host}:${backend.port}` };
  await forward(context.client, exchange, { backend, path: `${rest || "/"}${search}`, links });
}

function backendOf(context: ProxyContext, target: Target, asked: ProxyName): Backend {
  const { plural } = target.resource.type;
  const { core, isPlayed } = context;
  const found = core.store.get(`/${plural}`, target.namespace, asked.name)?.object();
  if (found === undefined) throw notFound({ group: "", resource: plural }, asked.name);
  switch (plural) {
    case "nodes":
      if (isPlayed(asked.name)) throw nothingListens("nodes", asked.name);
      return nodeBackend(realNode(core, found.metadata.name), asked);
    case "pods":
      return podBackend(reachablePod(context, found as Pod), asked);
    default: {
      const slices = slicesOf(core, found as Service);
      const listening = slices.map((slice) => withoutPlayed(slice, isPlayed));
      if (hasEndpoints(slices) && !hasEndpoints(listening)) throw nothingListens("services", asked.name);
      return serviceBackend(found as Service, listening, asked, (count) => core.random.uint32() % count);
    }
  }
}

function withoutPlayed(slice: EndpointSlice, isPlayed: ProxyContext["isPlayed"]): EndpointSlice {
  return { ...slice, endpoints: (slice.endpoints ?? []).filter(({ nodeName = "" }) => !isPlayed(nodeName)) };
}

function hasEndpoints(slices: readonly EndpointSlice[]): boolean {
  return slices.some(({ endpoints }) => (endpoints ?? []).length > 0);
}

function reachablePod({ core, isPlayed }: ProxyContext, pod: Pod): Pod {
  const nodeName = pod.spec?.nodeName ?? "";
  if (isPlayed(nodeName)) throw nothingListens("pods", pod.metadata.name);
  const node = core.store.get("/nodes", "", nodeName)?.object() as Node | undefined;
  if (node !== undefined) realNode(core, node.metadata.name);
  return pod;
}

function slicesOf(core: Core, { metadata }: Service): EndpointSlice[] {
  const slices: EndpointSlice[] = [];
  for (const stored of core.store.collection("discovery.k8s.io/endpointslices").all()) {
    if (stored.namespace !== metadata.namespace) continue;
    const slice = stored.object() as EndpointSlice;
    if (slice.metadata.labels?.["kubernetes.io/service-name"] === metadata.name) slices.push(slice);
  }
  return slices;
}

export function nothingListens(kind: string, name: string): Error {
  const message = "simulated nodes and their containers listen on no port, so nothing can be forwarded to them";
  return failure(501, "NotImplemented", message, { name, kind });
}
