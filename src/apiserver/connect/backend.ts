import type { EndpointSlice, Node, Pod, Service } from "../../model/kubernetes.generated.ts";
import { badRequest, internalError, unavailable } from "../../model/objects/status.ts";
import { parseIp } from "../../model/values/ipAddress.ts";

/** Where a request is forwarded to. */
export interface Backend {
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
  /** The node whose kubelet it is: the connection uses the client certificate for kubelets. */
  readonly kubeletOf?: string;
}

/** A name in the path of a proxy: `name`, `name:port` or `scheme:name:port`. */
export interface ProxyName {
  readonly scheme: "" | "http" | "https";
  readonly name: string;
  readonly port: string;
}

export function parseProxyName(text: string): ProxyName {
  const words = text.split(":");
  const [scheme = "", name = "", port = ""] = words.length === 3 ? words : ["", ...words];
  if (words.length > 3 || name === "" || !(scheme === "" || scheme === "http" || scheme === "https"))
    throw badRequest(`invalid proxy request ${JSON.stringify(text)}: it must be name, name:port or scheme:name:port`);
  return { scheme, name, port };
}

const kubeletPort = 10_250;
/** The order of kubeadm's clusters: a hostname need not resolve on the machine of the API server. */
const addressTypes = ["InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname"];

export function kubeletBackend(node: Node): Backend {
  const { name } = node.metadata;
  const port = node.status?.daemonEndpoints?.kubeletEndpoint?.Port || kubeletPort;
  return { scheme: "https", host: nodeAddress(node), port, kubeletOf: name };
}

function nodeAddress({ metadata, status }: Node): string {
  for (const wanted of addressTypes) {
    const found = status?.addresses?.find(({ type }) => type === wanted);
    if (found !== undefined && found.address !== "") return found.address;
  }
  throw internalError(`node ${metadata.name} has reported no address`);
}

/** The kubelet of a node, or another port of its machine. */
export function nodeBackend(node: Node, { scheme, port }: ProxyName): Backend {
  const kubelet = kubeletBackend(node);
  demandProxyable(kubelet.host);
  if (port === "" || Number(port) === kubelet.port) return kubelet;
  return { scheme: scheme || "http", host: kubelet.host, port: portNumber(port) };
}

/** A port of a pod: its first container port when the request names none. */
export function podBackend({ spec, status }: Pod, { scheme, port }: ProxyName): Backend {
  const host = status?.podIPs?.[0]?.ip ?? status?.podIP ?? "";
  demandProxyable(host);
  const first = spec?.containers.flatMap(({ ports }) => ports ?? [])[0]?.containerPort;
  const usual = scheme === "https" ? 443 : 80;
  return { scheme: scheme || "http", host, port: port === "" ? (first ?? usual) : portNumber(port) };
}

/** A ready endpoint of a Service, which `pick` chooses by index. */
export function serviceBackend(
  { metadata, spec }: Service,
  slices: readonly EndpointSlice[],
  { scheme, port }: ProxyName,
  pick: (count: number) => number,
): Backend {
  const { name } = metadata;
  const ports = spec?.ports ?? [];
  const servicePort =
    port === "" && ports.length === 1
      ? ports[0]
      : ports.find((each) => (/^[0-9]+$/.test(port) ? each.port === Number(port) : (each.name ?? "") === port));
  if (servicePort === undefined) {
    const what = port === "" ? "the Service has no single port, so the request must name one" : `no port ${port}`;
    throw unavailable(`no service port found for service ${JSON.stringify(name)}: ${what}`);
  }
  const endpoints = slices.flatMap((slice) => {
    const target = slice.ports?.find((each) => (each.name ?? "") === (servicePort.name ?? ""))?.port;
    if (target === undefined) return [];
    return (slice.endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready !== false)
      .flatMap(({ addresses: [host] }) => (host === undefined ? [] : { host, port: target }));
  });
  const chosen = endpoints.length === 0 ? undefined : endpoints[pick(endpoints.length)];
  if (chosen === undefined) throw unavailable(`no endpoints available for service ${JSON.stringify(name)}`);
  demandProxyable(chosen.host);
  return { scheme: scheme || "http", ...chosen };
}

function portNumber(text: string): number {
  const port = Number(text);
  if (/^[0-9]{1,5}$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw badRequest(`invalid port ${JSON.stringify(text)} in a proxy request: it must be a number from 1 to 65535`);
}

/**
 * A proxy reaches no address of the API server's own machine and no link-local one, such as a cloud's metadata service:
 * those who may write the status of pods and nodes may not choose them.
 */
function demandProxyable(host: string): void {
  if (!isGlobalUnicast(host)) throw badRequest(`address ${JSON.stringify(host)} not allowed`);
}

function isGlobalUnicast(host: string): boolean {
  const ip = parseIp(host);
  // A host name could resolve to any address.
  if (ip === undefined) return false;
  const [a = 0, b = 0] = ip.bytes;
  if (ip.family === "IPv4") return !(a === 127 || a === 0 || (a === 169 && b === 254) || a >= 224);
  const isMapped = ip.bytes.slice(0, 10).every((byte) => byte === 0) && ip.bytes[10] === 0xff;
  if (isMapped) return isGlobalUnicast(ip.bytes.slice(12).join("."));
  const isLowest = ip.bytes.slice(0, 15).every((byte) => byte === 0) && (ip.bytes[15] ?? 0) <= 1;
  return !(isLowest || a === 0xff || (a === 0xfe && (b & 0xc0) === 0x80));
}
