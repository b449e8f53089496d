import type { Buffer } from "node:buffer";
import { type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** The socket of a request that asks for another protocol, and what came on it already. */
export interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/**
 * Requests that ask for another protocol go the way of all others, with the socket in hand: authentication,
 * authorization, existence of the pod. A refusal is an ordinary answer; only a handler that agrees takes the socket
 * over.
 */
export function onUpgrade(
  server: Server,
  answer: (request: IncomingMessage, response: ServerResponse, upgrade: Upgrade) => void,
): void {
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // The connection may break while nothing reads from it.
    socket.on("error", () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.on("finish", () => socket.end());
    answer(request, response, { socket, head });
  });
}
