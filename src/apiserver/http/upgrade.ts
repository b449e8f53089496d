import type { Buffer } from "node:buffer";
import { type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** The socket of an upgrade request, and the bytes received after it. */
export interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/**
 * Upgrade requests are handled as all others: authentication, authorization, existence of the pod. An error is a normal
 * response; only a handler that accepts the upgrade takes over the socket.
 */
export function onUpgrade(
  server: Server,
  answer: (request: IncomingMessage, response: ServerResponse, upgrade: Upgrade) => void,
): void {
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // The connection may fail while nothing reads from it.
    socket.on("error", () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.on("finish", () => socket.end());
    answer(request, response, { socket, head });
  });
}
