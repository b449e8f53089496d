/**
 * `exec` and `attach`: the connection is upgraded, and the streams of a command run through it. Newer clients use
 * WebSocket, older ones SPDY; the output of the command comes from the node agent.
 */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { badRequest, failure, StatusError } from "../../model/objects/status.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ExecEnd, ExecStreams, PodAgent } from "../../ports/podAgent.ts";
import type { Exchange } from "./exchange.ts";
import { SpdySession, type SpdyStream } from "./spdy.ts";
import type { Upgrade } from "./upgrade.ts";
import { WebSocket, webSocketAnswer } from "./webSocket.ts";

export interface RemoteCommand {
  readonly what: "exec" | "attach";
  readonly pod: Pod;
  readonly container: string;
  readonly command: readonly string[];
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

export function readRemoteCommand(
  { query }: Exchange,
  what: "exec" | "attach",
  pod: Pod,
  container: string,
): RemoteCommand {
  const command = query.all("command");
  if (what === "exec" && command.length === 0)
    throw badRequest("you must specify at least 1 command for the container");
  const wants = { stdin: query.flag("stdin"), stdout: query.flag("stdout"), stderr: query.flag("stderr") };
  if (!wants.stdin && !wants.stdout && !wants.stderr)
    throw badRequest("you must specify at least 1 of stdin, stdout, stderr");
  const tty = query.flag("tty");
  if (tty && wants.stderr) throw badRequest("tty and stderr cannot both be true");
  return { what, pod, container, command, ...wants, tty };
}

/** Upgrades the connection, or throws before it has. */
export function serveRemoteCommand(agent: PodAgent, exchange: Exchange, wanted: RemoteCommand): void {
  const { upgrade, request } = exchange;
  const kind = exchange.header("upgrade")?.toLowerCase() ?? "";
  if (upgrade === undefined || (kind !== "websocket" && kind !== "spdy/3.1"))
    throw badRequest("Upgrade request required");
  if (kind === "websocket") serveWebSocket(agent, exchange, upgrade, wanted);
  else serveSpdy(agent, exchange, upgrade, request, wanted);
}

const webSocketProtocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const spdyProtocols = ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io"];
const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;

function choose(offered: readonly string[], known: readonly string[]): string {
  const protocol = known.find((each) => offered.includes(each));
  if (protocol !== undefined) return protocol;
  throw failure(403, "Forbidden", `unable to upgrade: no protocol in common; the server supports ${known.join(", ")}`);
}

/** HTTP ends here; the following bytes belong to the new protocol. */
function takeOver(exchange: Exchange, { socket }: Upgrade, answer: string): void {
  exchange.detach();
  socket.write(answer);
}

function serveWebSocket(agent: PodAgent, exchange: Exchange, upgrade: Upgrade, wanted: RemoteCommand): void {
  const offered = (exchange.header("sec-websocket-protocol") ?? "").split(",").map((each) => each.trim());
  const protocol = choose(offered, webSocketProtocols);
  const key = exchange.header("sec-websocket-key");
  if (key === undefined) throw badRequest("the request has no Sec-WebSocket-Key");
  const typed = new StandardInput();
  const stopped = new CancelFlag();
  takeOver(exchange, upgrade, webSocketAnswer(key, protocol));
  const socket = new WebSocket(upgrade.socket, upgrade.head, {
    message: (payload) => {
      const [channel] = payload;
      if (channel === channels.stdin) typed.push(payload.subarray(1));
      // Newer clients signal the end of stdin; older ones cannot.
      else if (channel === channels.close && payload[1] === channels.stdin) typed.end();
    },
    closed: () => {
      typed.end();
      stopped.cancel();
    },
  });
  const send = (channel: number, bytes: Buffer): void => {
    socket.send(Buffer.concat([Buffer.from([channel]), bytes]));
  };
  void run(agent, wanted, {
    stdin: wanted.stdin ? typed : undefined,
    stdout: (text) => {
      if (wanted.stdout && text !== "") send(channels.stdout, Buffer.from(text));
    },
    stderr: (text) => {
      if (wanted.stderr && text !== "") send(channels.stderr, Buffer.from(text));
    },
    stopped,
  }).then((status) => {
    send(channels.error, Buffer.from(JSON.stringify(status)));
    socket.close();
  });
}

function serveSpdy(
  agent: PodAgent,
  exchange: Exchange,
  upgrade: Upgrade,
  request: IncomingMessage,
  wanted: RemoteCommand,
): void {
  const offered = (request.headersDistinct["x-stream-protocol-version"] ?? []).flatMap((line) => line.split(/\s*,\s*/));
  const protocol = choose(offered, spdyProtocols);
  const isStructured = protocol === "v4.channel.k8s.io";
  const typed = new StandardInput();
  const stopped = new CancelFlag();
  const streams = new Map<string, SpdyStream>();
  const needed = ["error", ...(["stdin", "stdout", "stderr"] as const).filter((name) => wanted[name])];
  let hasBegun = false;
  takeOver(
    exchange,
    upgrade,
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  );
  const session = new SpdySession(upgrade.socket, upgrade.head, {
    opened: (stream) => {
      streams.set(stream.headers["streamtype"] ?? "", stream);
      if (hasBegun || !needed.every((name) => streams.has(name))) return;
      hasBegun = true;
      begin();
    },
    data: (stream, bytes) => {
      if (stream.headers["streamtype"] === "stdin") typed.push(Buffer.from(bytes));
    },
    finished: (stream) => {
      if (stream.headers["streamtype"] === "stdin") typed.end();
    },
    closed: () => {
      typed.end();
      stopped.cancel();
    },
  });
  const say = (name: string, text: string): void => {
    const stream = streams.get(name);
    if (stream !== undefined && text !== "") session.write(stream, Buffer.from(text));
  };
  const begin = (): void => {
    void run(agent, wanted, {
      stdin: wanted.stdin ? typed : undefined,
      stdout: (text) => say("stdout", text),
      stderr: (text) => say("stderr", text),
      stopped,
    }).then((status) => {
      if (isStructured) say("error", JSON.stringify(status));
      else if (status.status === "Failure") say("error", status.message ?? "");
      for (const name of ["stdout", "stderr", "error"]) {
        const stream = streams.get(name);
        if (stream !== undefined) session.finish(stream);
      }
      session.close();
    });
  };
}

interface CommandStatus {
  readonly metadata: object;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly details?: object;
  readonly code?: number;
}

/** The content of the error channel. Never rejects. */
async function run(agent: PodAgent, wanted: RemoteCommand, streams: ExecStreams): Promise<CommandStatus> {
  const { what, pod, container, command, tty } = wanted;
  try {
    const end: ExecEnd =
      what === "exec"
        ? await agent.exec(pod, { container, command, tty }, streams)
        : await agent.attach(pod, container, streams);
    if (end.exitCode === 0) return { metadata: {}, status: "Success" };
    return {
      metadata: {},
      status: "Failure",
      message: `command terminated with non-zero exit code: exit status ${end.exitCode}`,
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: String(end.exitCode) }] },
    };
  } catch (error) {
    const status = error instanceof StatusError ? error.status : undefined;
    const message = status?.message ?? (error instanceof Error ? error.message : String(error));
    return { metadata: {}, status: "Failure", message, reason: "InternalError", code: 500 };
  }
}

/** The standard input as it arrives. */
class StandardInput implements AsyncIterable<Uint8Array> {
  private readonly parts: Uint8Array[] = [];
  private isOver = false;
  private wake: () => void = () => {};

  push(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.parts.push(bytes);
    this.wake();
  }

  end(): void {
    this.isOver = true;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      for (let part = this.parts.shift(); part !== undefined; part = this.parts.shift()) yield part;
      if (this.isOver) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

class CancelFlag implements Cancel {
  cancelled = false;
  private readonly waiting = new Set<() => void>();

  onCancel(run: () => void): () => void {
    if (this.cancelled) run();
    else this.waiting.add(run);
    return () => this.waiting.delete(run);
  }

  cancel(): void {
    if (this.cancelled) return;
    this.cancelled = true;
    for (const run of this.waiting) run();
    this.waiting.clear();
  }
}

/** A closed response as a Cancel. */
export function stoppedWith(response: { on(event: "close", run: () => void): unknown }): Cancel {
  const stopped = new CancelFlag();
  response.on("close", () => stopped.cancel());
  return stopped;
}
