/**
 * `port-forward` of clients that send SPDY in the messages of a WebSocket: the bytes are the same as over a SPDY
 * connection, which is what a kubelet takes.
 */
import type { Buffer } from "node:buffer";
import type { Exchange } from "../http/exchange.ts";
import type { Upgrade } from "../http/upgrade.ts";
import { WebSocket, webSocketAnswer } from "../http/webSocket.ts";
import type { Upgraded } from "./backendClient.ts";
import { pauseUntilDrained } from "./joinSockets.ts";

export const tunnelProtocol = "SPDY/3.1+portforward.k8s.io";

export function tunnelPortForward(exchange: Exchange, client: Upgrade, { socket: kubelet, head }: Upgraded): void {
  const key = exchange.header("sec-websocket-key") ?? "";
  exchange.detach();
  client.socket.write(webSocketAnswer(key, tunnelProtocol));
  const webSocket = new WebSocket(client.socket, client.head, {
    message: (payload) => {
      if (!kubelet.write(payload)) pauseUntilDrained(client.socket, kubelet);
    },
    closed: () => kubelet.destroy(),
  });
  const forward = (bytes: Buffer): void => {
    if (!webSocket.send(bytes)) pauseUntilDrained(kubelet, client.socket);
  };
  if (head.length > 0) forward(head);
  kubelet.on("data", forward);
  const end = (): void => {
    webSocket.close();
    client.socket.resume();
  };
  kubelet.on("error", end);
  kubelet.on("close", end);
}
