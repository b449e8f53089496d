import type { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";

/** A connection, and what was read of it already. */
export interface Opened {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** Copies bytes in both directions until either side closes. Each side is read as fast as the other one takes it. */
export function joinSockets(client: Opened, backend: Opened): void {
  if (backend.head.length > 0) client.socket.write(backend.head);
  if (client.head.length > 0) backend.socket.write(client.head);
  connect(client.socket, backend.socket);
  connect(backend.socket, client.socket);
}

function connect(from: Duplex, to: Duplex): void {
  from.on("error", () => to.destroy());
  // What was read before the end is still sent.
  from.on("close", () => {
    if (!to.destroyed) to.end(() => to.destroy());
  });
  from.pipe(to);
}

/** Reads no more from one connection until the other one has taken what it was sent. */
export function pauseUntilDrained(from: Duplex, to: Duplex): void {
  if (from.isPaused()) return;
  from.pause();
  to.once("drain", () => from.resume());
}
