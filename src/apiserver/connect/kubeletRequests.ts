/** Logs, commands and forwarded ports of the containers of real nodes: requests to the node's kubelet. */
import type { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { badRequest, failure, notFound, type StatusError } from "../../model/objects/status.ts";
import { marks } from "../../model/profiles/marks.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Core } from "../verbs/core.ts";
import { type Backend, kubeletBackend } from "./backend.ts";
import type { BackendClient, Upgraded } from "./backendClient.ts";
import { acceptUpgrade, forwardedHeaders, stream } from "./forward.ts";
import { spdyCommandProtocol, translateCommand, translatedProtocol } from "./translateCommand.ts";
import { tunnelPortForward, tunnelProtocol } from "./tunnelPortForward.ts";

/** The node of a pod, which must have a kubelet. */
export function realNode(core: Core, name: string): Node {
  const node = core.store.get("/nodes", "", name)?.object() as Node | undefined;
  if (node === undefined) throw notFound({ group: "", resource: "nodes" }, name);
  if (isSimulated(node)) throw playedElsewhere(name);
  return node;
}

/** Whether the node has no kubelet. */
export function isSimulated({ metadata }: Node): boolean {
  return metadata.annotations?.[marks.kwokNode] === marks.kwokNodeValue;
}

function playedElsewhere(node: string): StatusError {
  const message = `node ${node} is simulated, but not by the process of this API server: nothing answers for its containers`;
  return failure(501, "NotImplemented", message, { name: node, kind: "nodes" });
}

export interface PodRequest {
  readonly client: BackendClient;
  readonly exchange: Exchange;
  readonly node: Node;
  readonly pod: Pod;
}

const logParameters = [
  "follow",
  "previous",
  "timestamps",
  "sinceSeconds",
  "sinceTime",
  "tailLines",
  "limitBytes",
  "stream",
] as const;

/** Streams the log of a container. */
export async function kubeletLog({ client, exchange, node, pod }: PodRequest, container: string): Promise<void> {
  const { query, response } = exchange;
  const asked = new URLSearchParams();
  for (const name of logParameters) {
    const value = query.text(name);
    if (value !== undefined)
      asked.set(name, ["follow", "previous", "timestamps"].includes(name) ? `${query.flag(name)}` : value);
  }
  const backend = kubeletBackend(node);
  const path = `${podPath("containerLogs", pod)}/${encodeURIComponent(container)}${searchOf(asked)}`;
  const answer = await client.send(backend, { method: "GET", path });
  if (answer.statusCode !== 200) throw await kubeletRefusal(backend, answer);
  exchange.head(200, "text/plain");
  // The first bytes may come much later than the headers.
  response.flushHeaders();
  await stream(answer, exchange);
}

export interface CommandRequest {
  readonly what: "exec" | "attach";
  readonly container: string;
  readonly command: readonly string[];
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** `exec` and `attach`: the client's own protocol where the kubelet has it too, else translated. */
export async function kubeletCommand(request: PodRequest, wanted: CommandRequest): Promise<void> {
  const { exchange, node, pod } = request;
  const asked = new URLSearchParams();
  for (const word of wanted.command) asked.append("command", word);
  const flags = { input: wanted.stdin, output: wanted.stdout, error: wanted.stderr, tty: wanted.tty };
  for (const [name, isSet] of Object.entries(flags)) if (isSet) asked.set(name, "1");
  const path = `${podPath(wanted.what, pod)}/${encodeURIComponent(wanted.container)}${searchOf(asked)}`;
  const backend = kubeletBackend(node);
  const { upgrade } = exchange;
  if (upgrade === undefined) throw badRequest("Upgrade request required");
  if (!offers(exchange, translatedProtocol)) {
    await passThrough(request, backend, path);
    return;
  }
  if (exchange.header("sec-websocket-key") === undefined) throw badRequest("the request has no Sec-WebSocket-Key");
  const kubelet = await openSpdy(request, backend, path, spdyCommandProtocol);
  translateCommand(exchange, upgrade, kubelet, wanted);
}

/** `port-forward`, over SPDY or over SPDY inside of a WebSocket. */
export async function kubeletPortForward(request: PodRequest): Promise<void> {
  const { exchange, node, pod } = request;
  const backend = kubeletBackend(node);
  const path = podPath("portForward", pod);
  const { upgrade } = exchange;
  if (upgrade === undefined) throw badRequest("Upgrade request required");
  if (!offers(exchange, tunnelProtocol)) {
    const ports = new URLSearchParams(exchange.query.all("ports").map((port): [string, string] => ["port", port]));
    await passThrough(request, backend, `${path}${searchOf(ports)}`);
    return;
  }
  if (exchange.header("sec-websocket-key") === undefined) throw badRequest("the request has no Sec-WebSocket-Key");
  const kubelet = await openSpdy(request, backend, path, "portforward.k8s.io");
  tunnelPortForward(exchange, upgrade, kubelet);
}

function offers(exchange: Exchange, protocol: string): boolean {
  const offered = exchange.header("sec-websocket-protocol") ?? "";
  return offered.split(",").some((each) => each.trim() === protocol);
}

/** Forwards the client's upgrade as it is. */
async function passThrough({ client, exchange }: PodRequest, backend: Backend, path: string): Promise<void> {
  const headers = { ...forwardedHeaders(exchange), connection: "Upgrade", upgrade: exchange.header("upgrade") };
  const answer = await client.upgrade(backend, { method: exchange.method, path, headers });
  if ("refused" in answer) throw await upgradeRefusal(backend, answer.refused);
  acceptUpgrade(exchange, answer);
}

async function openSpdy({ client }: PodRequest, backend: Backend, path: string, protocol: string): Promise<Upgraded> {
  const headers = { connection: "Upgrade", upgrade: "SPDY/3.1", "x-stream-protocol-version": protocol };
  const answer = await client.upgrade(backend, { method: "POST", path, headers });
  if ("refused" in answer) throw await upgradeRefusal(backend, answer.refused);
  return answer;
}

async function upgradeRefusal(backend: Backend, answer: IncomingMessage): Promise<StatusError> {
  return kubeletRefusal(backend, answer, "unable to upgrade connection: ");
}

const refusalCharsMax = 4096;
const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** The kubelet's own sentence as a Status. */
async function kubeletRefusal({ kubeletOf = "" }: Backend, answer: IncomingMessage, before = ""): Promise<StatusError> {
  const code = answer.statusCode ?? 500;
  let text = "";
  for await (const part of answer) {
    text += (part as Buffer).toString("utf8");
    if (text.length > refusalCharsMax) break;
  }
  text = text.slice(0, refusalCharsMax).trim();
  if (code === 401 || code === 403) {
    const message = `the kubelet of node ${kubeletOf} refused the API server (${code}): it must trust the cluster's certificate authority (authentication.x509.clientCAFile) and authorize by webhook: ${text}`;
    return failure(500, "InternalError", message, { causes: [{ message }] });
  }
  const message = text === "" ? `the kubelet of node ${kubeletOf} answered with HTTP ${code}` : `${before}${text}`;
  const causes = [{ reason: "UnexpectedServerResponse", message: text }];
  return failure(code < 400 ? 500 : code, reasons[code] ?? "InternalError", message, { causes });
}

function podPath(what: string, { metadata: { namespace = "", name } }: Pod): string {
  return `/${what}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

function searchOf(asked: URLSearchParams): string {
  const text = asked.toString();
  return text === "" ? "" : `?${text}`;
}
