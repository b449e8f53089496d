/**
 * `exec` and `attach` of clients that speak WebSocket with an end of the standard input (v5), on a kubelet: its
 * runtime understands that end in SPDY only. As kube-apiserver, the server translates between the two.
 */
import { Buffer } from "node:buffer";
import type { Exchange } from "../http/exchange.ts";
import { SpdySession, type SpdyStream } from "../http/spdy.ts";
import type { Upgrade } from "../http/upgrade.ts";
import { WebSocket, webSocketAnswer } from "../http/webSocket.ts";
import type { Upgraded } from "./backendClient.ts";
import { pauseUntilDrained } from "./joinSockets.ts";

export const translatedProtocol = "v5.channel.k8s.io";
/** The newest protocol of commands over SPDY. */
export const spdyCommandProtocol = "v4.channel.k8s.io";

const channels = ["stdin", "stdout", "stderr", "error", "resize"] as const;
type Channel = (typeof channels)[number];
const closeChannel = 255;

/** Runs until the command has ended or either side has closed the connection. */
export function translateCommand(
  exchange: Exchange,
  client: Upgrade,
  { socket: kubelet, head }: Upgraded,
  wanted: { readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean; readonly tty: boolean },
): void {
  const streams = new Map<Channel, SpdyStream>();
  const outputs = new Set<Channel>(["error"]);
  if (wanted.stdout) outputs.add("stdout");
  if (wanted.stderr) outputs.add("stderr");
  let hasStatus = false;
  const send = (channel: Channel, bytes: Buffer): void => {
    const isTaken = webSocket.send(Buffer.concat([Buffer.from([channels.indexOf(channel)]), bytes]));
    if (!isTaken) pauseUntilDrained(kubelet, client.socket);
  };
  const session = new SpdySession(kubelet, head, {
    opened: () => {},
    data: ({ headers }, bytes) => {
      const channel = channelOf(headers["streamtype"]);
      if (channel === undefined) return;
      if (channel === "error") hasStatus = true;
      send(channel, bytes);
    },
    finished: ({ headers }) => {
      const channel = channelOf(headers["streamtype"]);
      if (channel !== undefined) outputs.delete(channel);
      if (outputs.size === 0) end();
    },
    closed: () => end(),
  });
  const end = (): void => {
    // Without a status the client would take the command for successful.
    if (outputs.has("error") && !hasStatus) {
      hasStatus = true;
      send("error", Buffer.from(JSON.stringify(lostConnection)));
    }
    webSocket.close();
    // It may be paused, and has to read that the client closes as well.
    client.socket.resume();
    session.close();
  };
  const key = exchange.header("sec-websocket-key") ?? "";
  exchange.detach();
  client.socket.write(webSocketAnswer(key, translatedProtocol));
  // What the client sends before all streams are open.
  const early: Buffer[] = [];
  let isOpen = false;
  const take = (payload: Buffer): void => {
    const channel = payload[0] === closeChannel ? undefined : channels[payload[0] ?? 0];
    if (payload[0] === closeChannel) {
      const closed = streams.get(channels[payload[1] ?? 0] ?? "error");
      if (closed !== undefined) session.finish(closed);
      return;
    }
    const stream = channel === "stdin" || channel === "resize" ? streams.get(channel) : undefined;
    if (stream !== undefined && payload.length > 1 && !session.write(stream, payload.subarray(1)))
      pauseUntilDrained(client.socket, kubelet);
  };
  const webSocket = new WebSocket(client.socket, client.head, {
    message: (payload) => {
      if (isOpen) take(payload);
      else early.push(payload);
    },
    // Also when it is paused and would read no end.
    closed: () => kubelet.destroy(),
  });
  void openStreams().then(() => {
    isOpen = true;
    for (const payload of early.splice(0)) take(payload);
  }, end);

  async function openStreams(): Promise<void> {
    const { stdin, stdout, stderr, tty } = wanted;
    const needed: Record<Channel, boolean> = { error: true, stdin, stdout, stderr: stderr && !tty, resize: tty };
    for (const channel of ["error", "stdin", "stdout", "stderr", "resize"] as const)
      if (needed[channel]) streams.set(channel, await session.open({ streamType: channel }));
  }
}

function channelOf(streamType: string | undefined): Channel | undefined {
  return channels.find((channel) => channel === streamType);
}

const lostConnection = {
  metadata: {},
  status: "Failure",
  message: "the connection to the node was lost before the command ended",
  reason: "InternalError",
  code: 500,
};
